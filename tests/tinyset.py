"""A data set of a few bytes in MNIST's format, to put on disk or on a server of our own."""

from __future__ import annotations

import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np

from gatelab.tasks import published, store
from gatelab.tasks.download import Download


def idx(array: np.ndarray) -> bytes:
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


random = np.random.RandomState(0)
ARRAYS = {
    "train-images-idx3-ubyte": random.randint(0, 256, (20, 4, 4)).astype(np.uint8),
    "train-labels-idx1-ubyte": (np.arange(20) % 10).astype(np.uint8),
    "t10k-images-idx3-ubyte": random.randint(0, 256, (10, 4, 4)).astype(np.uint8),
    "t10k-labels-idx1-ubyte": np.arange(10).astype(np.uint8),
}
PLAIN = {name: idx(array) for name, array in ARRAYS.items()}
GZIPPED = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in PLAIN.items()}


def source(*mirrors: str) -> store.PublishedData:
    return store.PublishedData(
        name="tiny",
        folders=("tiny", "tiny/raw", "TINY/raw"),
        contents={name: hashlib.sha256(content).hexdigest() for name, content in PLAIN.items()},
        downloads=tuple(
            Download(name, len(content), f"sha256:{hashlib.sha256(content).hexdigest()}", (name.removesuffix(".gz"),))
            for name, content in GZIPPED.items()
        ),
        mirrors=mirrors,
    )


def load(data_dir: Path | None, *mirrors: str) -> store.Arrays:
    return store.load(source(*mirrors), data_dir, "bytes", published.decode_idx)


def right(arrays: store.Arrays) -> bool:
    return (
        bool((arrays["train"][..., 0] == ARRAYS["train-images-idx3-ubyte"]).all())
        and bool((arrays["test_labels"] == ARRAYS["t10k-labels-idx1-ubyte"]).all())
        and arrays["train"].shape == (20, 4, 4, 1)
    )


def write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
