"""The published data sets: files, checksums, mirrors and layouts, and the decoding of their formats."""

from __future__ import annotations

import struct

import numpy as np

from gatelab.errors import DataError
from gatelab.tasks.download import Download
from gatelab.tasks.store import Arrays, PublishedData

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CIFAR = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")


def _idx_source(
    name: str,
    torchvision: str,
    contents: tuple[str, ...],
    sizes: tuple[int, ...],
    hashes: tuple[str, ...],
    mirrors: tuple[str, ...],
    folders: tuple[str, ...] = (),
    system: tuple[str, ...] = (),
) -> PublishedData:
    downloads = (
        Download(f"{f}.gz", size, checksum, (f,)) for f, size, checksum in zip(IDX, sizes, hashes, strict=True)
    )
    layouts = (name, *folders, f"{name}/raw", f"{name}/{torchvision}/raw", f"{torchvision}/raw")
    return PublishedData(name, layouts, dict(zip(IDX, contents, strict=True)), tuple(downloads), mirrors, system)


MNIST = _idx_source(
    "mnist",
    "MNIST",
    contents=(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    sizes=(9_912_422, 28_881, 1_648_877, 4_542),
    hashes=(
        "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    ),
)

FASHION_MNIST = _idx_source(
    "fashion_mnist",
    "FashionMNIST",
    contents=(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    sizes=(26_421_880, 29_515, 4_422_102, 5_148),
    hashes=(
        "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "md5:25c81989df183df01b3e8a0aad5dffbe",
        "md5:bef4ecab320f06d8554ea6380940ec79",
        "md5:bb300cfdad3c16e7a12a480ee83cd310",
    ),
    mirrors=(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    folders=("fashion-mnist",),
    system=("/usr/share/datasets/fashion-mnist",),  # Debian's package dataset-fashion-mnist
)

CIFAR10 = PublishedData(
    name="cifar10",
    folders=("cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin", "."),
    contents=dict(
        zip(
            CIFAR,
            (
                "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
            ),
            strict=True,
        )
    ),
    # The binary version. The Python version is a pickle, and unpickling can execute arbitrary code.
    downloads=(Download("cifar-10-binary.tar.gz", 170_052_171, "md5:c32a1d4ab5d03f1284b67883e8d87530", CIFAR),),
    mirrors=(
        "https://www.cs.toronto.edu/~kriz/",
        "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
        "https://mindspore-website.obs.cn-north-4.myhuaweicloud.com/notebook/datasets/",
    ),
)


def decode_idx(contents: dict[str, bytes]) -> Arrays:
    """Decode the four idx files of MNIST-like sets: images (N, H, W, 1) and labels (N,), as bytes."""
    train, train_labels, test, test_labels = (read_idx(contents[name], name) for name in IDX)
    return {
        "train": train[..., None],
        "train_labels": train_labels,
        "test": test[..., None],
        "test_labels": test_labels,
    }


def read_idx(content: bytes, name: str) -> np.ndarray:
    """Read an idx file: two zeros, the type 8, the number of dimensions, each dimension in 4 bytes, then the data."""
    rank = content[3] if len(content) >= 4 else 0
    if content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * rank:
        raise DataError(f"{name} begins with {content[:4]!r}: expected an idx file of bytes")
    shape = struct.unpack(f">{rank}I", content[4 : 4 + 4 * rank])
    data = np.frombuffer(content, np.uint8, offset=4 + 4 * rank)
    if data.size != np.prod(shape, dtype=np.int64):
        raise DataError(f"{name} holds {data.size:,} bytes: expected {shape} from its header")
    return data.reshape(shape)


def decode_cifar(contents: dict[str, bytes], grey: bool) -> Arrays:
    """Decode CIFAR-10's records of a label and 3 × 32 × 32 bytes: images (N, 32, 32, C) and labels (N,)."""
    files = [np.frombuffer(contents[name], np.uint8).reshape(-1, 1 + 3 * 1024) for name in CIFAR]
    images = [np.moveaxis(records[:, 1:].reshape(-1, 3, 32, 32), 1, -1) for records in files]
    images = [luma(rgb)[..., None] for rgb in images] if grey else images
    labels = [records[:, 0] for records in files]
    return {
        "train": np.ascontiguousarray(np.concatenate(images[:-1])),
        "train_labels": np.concatenate(labels[:-1]),
        "test": np.ascontiguousarray(images[-1]),
        "test_labels": labels[-1].copy(),
    }


def luma(rgb: np.ndarray) -> np.ndarray:
    """ITU-R 601 luma in integers: (19595 R + 38470 G + 7471 B + 2¹⁵) / 2¹⁶, weights .299, .587, .114."""
    wide = rgb.astype(np.uint32)
    grey = (19595 * wide[..., 0] + 38470 * wide[..., 1] + 7471 * wide[..., 2] + (1 << 15)) >> 16
    return grey.astype(np.uint8)
