"""Images as sequences: by rows, by pixels, or by pixels in a fixed permuted order."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from gatelab.tasks import pictures, published, store
from gatelab.tasks.examples import Encoding, Examples, NoiseAfter, Parts, Pixels
from gatelab.tasks.sampling import balanced_subset, split, stream
from gatelab.tasks.scaling import Scaling
from gatelab.tasks.store import Arrays
from gatelab.tasks.task import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUMERALS = tuple("0123456789")
CLOTHES = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TAPE = 1 << 22  # values on the noise tape, 16 MB


class Images(Task):
    """Base class of image classification tasks."""

    side: ClassVar[int]  # images are square
    names: ClassVar[tuple[str, ...]]
    all_sizes: ClassVar[tuple[int, int, int]]  # of training, validation and test set, without a limit

    order: Literal["rows", "pixels", "permuted"] = Field(
        "rows",
        description="one row per step, one pixel per step, or one pixel per step in the fixed order "
        "numpy.random.RandomState(0).permutation(pixels)",
    )
    noise_pad: int = Field(
        0, ge=0, lt=2**31, description="steps of Gaussian noise appended to the image, a test of memory"
    )
    limit: int | None = Field(
        None,
        ge=10,
        lt=2**31,
        description="number of training examples, balanced over classes; the validation set shrinks in proportion",
    )

    @property
    def channels(self) -> int:
        """The number of values per pixel."""
        return 1

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names."""
        return self.names

    @property
    def input_size(self) -> int:
        """D: the number of features per step."""
        return self.channels * (self.side if self.order == "rows" else 1)

    @property
    def steps(self) -> int:
        """T: the number of steps."""
        return self.side ** (1 if self.order == "rows" else 2) + self.noise_pad

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of training, validation and test examples."""
        train, validation, test = self.all_sizes
        if self.limit is None or self.limit >= train:
            return self.all_sizes
        return self.limit, max(len(self.names), round(validation * self.limit / train)), test

    def data_bytes(self) -> int:
        """The memory of the images, read, split and ordered, and of the noise tapes of the three parts."""
        pixels = sum(self.all_sizes) * self.side**2 * self.channels
        return 4 * pixels + (20 * self._tape_length() * self.input_size if self.noise_pad else 0)

    def _tape_length(self) -> int:
        return max(TAPE // self.input_size, 2 * self.noise_pad)

    def images(self) -> Arrays:
        """`train` and `test` as bytes (N, side, side, channels), with `train_labels` and `test_labels`."""
        raise NotImplementedError

    def load(self) -> Parts:
        """Read, split and order the images."""
        arrays = self.images()
        labels, random = arrays["train_labels"], stream(self.seed, "division")
        train, validation = split(labels, len(labels), self.all_sizes[:2], random)
        indices = [train, validation, np.arange(self.all_sizes[2])]
        pools = [arrays["train"], arrays["train"], arrays["test"]]
        targets = [labels[train], labels[validation], arrays["test_labels"]]
        if self.sizes != self.all_sizes:
            random = stream(self.seed, "limit")
            for i, size in enumerate(self.sizes[:2]):
                subset = balanced_subset(targets[i], size, random)
                indices[i], targets[i] = indices[i][subset], targets[i][subset]
        rows = [torch.from_numpy(self._in_order(pool[index])) for pool, index in zip(pools, indices, strict=True)]
        pixels = Pixels(self._scaling(rows[0]))
        names = ("train", "validation", "test")
        return Parts(*(self._part(*part, pixels) for part in zip(names, rows, targets, strict=True)))

    def _in_order(self, images: np.ndarray) -> np.ndarray:
        if self.order == "rows":
            return images.reshape(len(images), self.side, self.input_size)
        flat = images.reshape(len(images), self.side**2, self.input_size)
        # Unlike indexing, take keeps each image contiguous, and batches are assembled ten times as fast.
        return flat if self.order == "pixels" else flat.take(permutation(self.side**2), axis=1)

    def _scaling(self, train: Tensor) -> Scaling:
        """Standardize over the training images. The sums are of integers and therefore exact."""
        counts = torch.bincount(train.flatten(), minlength=256).double()
        bytes_ = torch.arange(256, dtype=torch.float64)
        mean = float((counts * bytes_).sum() / counts.sum())
        deviation = float((counts * (bytes_ - mean).square()).sum() / counts.sum()) ** 0.5
        return Scaling(np.array([mean]), np.array([deviation]))

    def _part(self, name: str, rows: Tensor, labels: np.ndarray, pixels: Pixels) -> Examples:
        encoding: Encoding = pixels
        if self.noise_pad:
            random = stream(self.seed, f"noise of {name}")
            length = self._tape_length()
            tape = torch.from_numpy(random.standard_normal((length, self.input_size)).astype(np.float32))
            starts = torch.from_numpy(random.randint(0, length - self.noise_pad + 1, len(rows), dtype=np.int64))
            encoding = NoiseAfter(pixels, self.noise_pad, tape, starts)
        return Examples(rows, torch.from_numpy(labels.astype(np.int64)), encoding=encoding)

    def _preparation_fields(self) -> dict[str, Any]:
        encoding = self.train.encoding
        pixels = encoding.inner if isinstance(encoding, NoiseAfter) else encoding
        assert isinstance(pixels, Pixels)
        image = {"kind": "image", "side": self.side, "order": self.order, "noise_pad": self.noise_pad}
        label_type = "integer" if self.names == NUMERALS else "text"
        return {**super()._preparation_fields(), **image, "scaling": pixels.scaling, "label_type": label_type}

    def picture(self) -> Figure:
        """Draw a few training examples."""
        return pictures.images(self)


def permutation(pixels: int) -> np.ndarray:
    """The order of `permuted`. It does not depend on the random seed, so that results are comparable."""
    order: np.ndarray = np.random.RandomState(0).permutation(pixels)
    return order


class Digits(Images):
    """Handwritten digits of 8 × 8 pixels, bundled with scikit-learn."""

    name = "digits"
    side = 8
    names = NUMERALS
    all_sizes = (1257, 180, 360)
    source = "Alpaydin & Kaynak 1998, Optical Recognition of Handwritten Digits (UCI, CC BY 4.0), from scikit-learn"
    split_rule = "stratified random split, 70 / 10 / 20 %"

    def images(self) -> Arrays:
        """The bundled digits; the test set is drawn with the random seed, since there is no official one."""
        images, labels = _digits()
        rest, test = split(labels, len(labels), (sum(self.all_sizes[:2]), self.all_sizes[2]), stream(self.seed, "test"))
        return {
            "train": images[rest],
            "train_labels": labels[rest],
            "test": images[test],
            "test_labels": labels[test],
        }


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    """From scikit-learn's file, if it is where it has always been: to import its reader takes a second."""
    package = importlib.util.find_spec("sklearn")
    path = Path(str(package and package.origin)).parent / "datasets" / "data" / "digits.csv.gz"
    if path.is_file():
        table = np.loadtxt(path, delimiter=",").astype(np.uint8)
        return table[:, :-1].reshape(-1, 8, 8, 1), table[:, -1]
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.images.astype(np.uint8)[..., None], bunch.target.astype(np.uint8)


class Published(Images):
    """Base class of published image sets, read from disk and downloaded if missing."""

    published: ClassVar[store.PublishedData]
    from_disk = True
    split_rule = "official test set; stratified random 15 % of the official training set for validation"

    data_dir: Path | None = Field(
        None,
        description="a folder with one subfolder per data set, searched before GATELAB_DATA and the user's cache",
    )

    @property
    def variant(self) -> str:
        """The decoded form of the set in the cache."""
        return "bytes"

    def is_here(self) -> bool:
        """Whether the set is available without a download."""
        return store.is_here(self.published, self.data_dir, self.variant)

    def images(self) -> Arrays:
        """The decoded idx files."""
        return store.load(self.published, self.data_dir, self.variant, published.decode_idx)


class Mnist(Published):
    """Handwritten digits of 28 × 28 pixels."""

    name = "mnist"
    published = published.MNIST
    side = 28
    names = NUMERALS
    all_sizes = (51_000, 9_000, 10_000)
    source = "LeCun, Cortes & Burges 1998, the MNIST database (CC BY-SA 3.0)"


class FashionMnist(Published):
    """Pieces of clothing of 28 × 28 pixels: the shapes of MNIST, but harder."""

    name = "fashion_mnist"
    published = published.FASHION_MNIST
    side = 28
    names = CLOTHES
    all_sizes = (51_000, 9_000, 10_000)
    source = "Xiao, Rasul & Vollgraf 2017, Fashion-MNIST (MIT licence)"


class Cifar10(Published):
    """Photographs of ten classes, 32 × 32 pixels, grey or in colour, scaled to [−1, 1]."""

    name = "cifar10"
    published = published.CIFAR10
    side = 32
    names = THINGS
    all_sizes = (42_500, 7_500, 10_000)
    source = "Krizhevsky 2009, CIFAR-10 (no licence stated; free for research)"

    color: Literal["grey", "rgb"] = Field("grey", description="ITU-R 601 luma in integers, or three colour channels")

    @property
    def channels(self) -> int:
        """The number of values per pixel."""
        return 1 if self.color == "grey" else 3

    @property
    def variant(self) -> str:
        """The decoded form of the set in the cache: grey or rgb."""
        return self.color

    def images(self) -> Arrays:
        """The decoded batches, grey or in colour."""
        grey = self.color == "grey"
        return store.load(
            self.published, self.data_dir, self.variant, lambda files: published.decode_cifar(files, grey)
        )

    def _scaling(self, train: Tensor) -> Scaling:
        return Scaling(np.array([127.5]), np.array([127.5]))
