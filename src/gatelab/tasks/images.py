"""Images read as sequences: by rows, by pixels, or by pixels in a fixed shuffled order."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from gatelab.tasks import pictures, sources, store
from gatelab.tasks.chance import balanced, divide, stream
from gatelab.tasks.examples import Encoding, Examples, NoiseAfter, Parts, Pixels
from gatelab.tasks.preparation import Numbers
from gatelab.tasks.store import Arrays
from gatelab.tasks.task import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUMERALS = tuple("0123456789")
CLOTHES = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TAPE = 1 << 22  # numbers on the tape of noise, 16 MB


class Images(Task):
    """What all image tasks share."""

    side: ClassVar[int]  # images are square
    names: ClassVar[tuple[str, ...]]
    all_sizes: ClassVar[tuple[int, int, int]]  # of the parts, without a limit

    order: Literal["rows", "pixels", "permuted"] = Field(
        "rows",
        description="a row a step, a pixel a step, or a pixel a step in the fixed order "
        "numpy.random.RandomState(0).permutation(pixels)",
    )
    noise_pad: int = Field(0, ge=0, description="steps of Gaussian noise after the image: memory, not perception")
    limit: int | None = Field(
        None,
        ge=10,
        description="so many training examples, as many of each class; validation shrinks in proportion",
    )

    @property
    def channels(self) -> int:
        return 1

    @property
    def classes(self) -> tuple[str, ...]:
        return self.names

    @property
    def input_size(self) -> int:
        return self.channels * (self.side if self.order == "rows" else 1)

    @property
    def steps(self) -> int:
        return self.side ** (1 if self.order == "rows" else 2) + self.noise_pad

    @property
    def sizes(self) -> tuple[int, int, int]:
        train, validation, test = self.all_sizes
        if self.limit is None or self.limit >= train:
            return self.all_sizes
        return self.limit, max(len(self.names), round(validation * self.limit / train)), test

    def images(self) -> Arrays:
        """`train` and `test` as bytes (N, side, side, channels), with `train_labels` and `test_labels`."""
        raise NotImplementedError

    def load(self) -> Parts:
        arrays = self.images()
        labels, random = arrays["train_labels"], stream(self.seed, "division")
        train, validation = divide(labels, len(labels), self.all_sizes[:2], random)
        places = [train, validation, np.arange(self.all_sizes[2])]
        pools = [arrays["train"], arrays["train"], arrays["test"]]
        answers = [labels[train], labels[validation], arrays["test_labels"]]
        if self.sizes != self.all_sizes:
            random = stream(self.seed, "limit")
            for i, size in enumerate(self.sizes[:2]):
                chosen = balanced(answers[i], size, random)
                places[i], answers[i] = places[i][chosen], answers[i][chosen]
        rows = [torch.from_numpy(self._in_order(pool[place])) for pool, place in zip(pools, places, strict=True)]
        pixels = self._scaling(rows[0])
        return Parts(
            *(self._part(*each, pixels) for each in zip(("train", "validation", "test"), rows, answers, strict=True))
        )

    def _in_order(self, images: np.ndarray) -> np.ndarray:
        if self.order == "rows":
            return images.reshape(len(images), self.side, self.input_size)
        flat = images.reshape(len(images), self.side**2, self.input_size)
        # take, unlike an index, leaves each image in one piece, and batches are cut ten times as fast from that.
        return flat if self.order == "pixels" else flat.take(permutation(self.side**2), axis=1)

    def _scaling(self, train: Tensor) -> Pixels:
        """Mean 0 and deviation 1 over the training images. (The sums are of integers, so they are exact.)"""
        counts = torch.bincount(train.flatten(), minlength=256).double()
        bytes_ = torch.arange(256, dtype=torch.float64)
        mean = float((counts * bytes_).sum() / counts.sum())
        return Pixels(mean, float((counts * (bytes_ - mean).square()).sum() / counts.sum()) ** 0.5)

    def _part(self, name: str, rows: Tensor, labels: np.ndarray, pixels: Pixels) -> Examples:
        encoding: Encoding = pixels
        if self.noise_pad:
            random = stream(self.seed, f"noise of {name}")
            length = max(TAPE // self.input_size, 2 * self.noise_pad)
            tape = torch.from_numpy(random.standard_normal((length, self.input_size)).astype(np.float32))
            starts = torch.from_numpy(random.randint(0, length - self.noise_pad + 1, len(rows), dtype=np.int64))
            encoding = NoiseAfter(pixels, self.noise_pad, tape, starts)
        return Examples(rows, torch.from_numpy(labels.astype(np.int64)), encoding)

    def _prepared(self) -> dict[str, Any]:
        encoding = self.train.encoding
        pixels = encoding.inner if isinstance(encoding, NoiseAfter) else encoding
        assert isinstance(pixels, Pixels)
        scaling = Numbers(mean=(pixels.mean,), deviation=(pixels.deviation,))
        image = {"kind": "image", "side": self.side, "order": self.order, "noise_pad": self.noise_pad}
        label_type = "integer" if self.names == NUMERALS else "text"
        return {**super()._prepared(), **image, "scaling": scaling, "label_type": label_type}

    def picture(self) -> Figure:
        return pictures.images(self)


def permutation(pixels: int) -> np.ndarray:
    """The order of `permuted`: one for all, whatever the seed, so that results can be compared."""
    order: np.ndarray = np.random.RandomState(0).permutation(pixels)
    return order


class Digits(Images):
    """Handwritten digits of 8 × 8 pixels: small, real, and always at hand."""

    name = "digits"
    side = 8
    names = NUMERALS
    all_sizes = (1257, 180, 360)
    source = "Alpaydin & Kaynak 1998, Optical Recognition of Handwritten Digits (UCI, CC BY 4.0), from scikit-learn"
    rule = "70 / 10 / 20 %, drawn at random by the task's seed, each class in the same share"

    def images(self) -> Arrays:
        images, labels = _digits()
        # There is no official test set: one is drawn, always the same for a seed.
        rest, test = divide(
            labels, len(labels), (sum(self.all_sizes[:2]), self.all_sizes[2]), stream(self.seed, "test")
        )
        return {
            "train": images[rest],
            "train_labels": labels[rest],
            "test": images[test],
            "test_labels": labels[test],
        }


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.images.astype(np.uint8)[..., None], bunch.target.astype(np.uint8)


class Published(Images):
    """Image sets that are looked for on disk and downloaded if they are not there."""

    published: ClassVar[store.Source]
    from_disk = True
    rule = "the official test set; 15 % of the official training set, drawn by the task's seed, validate"

    data_dir: Path | None = Field(
        None,
        description="a folder with one folder per data set; then GATELAB_DATA and the user's cache are looked through",
    )

    @property
    def variant(self) -> str:
        """Which decoded form of the set this task reads."""
        return "bytes"

    def is_here(self) -> bool:
        return store.is_here(self.published, self.data_dir, self.variant)

    def images(self) -> Arrays:
        return store.load(self.published, self.data_dir, self.variant, sources.decode_idx)


class Mnist(Published):
    """Handwritten digits of 28 × 28 pixels."""

    name = "mnist"
    published = sources.MNIST
    side = 28
    names = NUMERALS
    all_sizes = (51_000, 9_000, 10_000)
    source = "LeCun, Cortes & Burges 1998, the MNIST database (CC BY-SA 3.0)"


class FashionMnist(Published):
    """Pieces of clothing of 28 × 28 pixels: MNIST's shape, and harder."""

    name = "fashion_mnist"
    published = sources.FASHION_MNIST
    side = 28
    names = CLOTHES
    all_sizes = (51_000, 9_000, 10_000)
    source = "Xiao, Rasul & Vollgraf 2017, Fashion-MNIST (MIT licence)"


class Cifar10(Published):
    """Photographs of ten kinds of things, 32 × 32 pixels, grey or in colour, scaled to [−1, 1]."""

    name = "cifar10"
    published = sources.CIFAR10
    side = 32
    names = THINGS
    all_sizes = (42_500, 7_500, 10_000)
    source = "Krizhevsky 2009, CIFAR-10 (no licence stated; free for research)"

    color: Literal["grey", "rgb"] = Field("grey", description="luma by ITU-R 601 in integers, or the three colours")

    @property
    def channels(self) -> int:
        return 1 if self.color == "grey" else 3

    @property
    def variant(self) -> str:
        return self.color

    def images(self) -> Arrays:
        grey = self.color == "grey"
        return store.load(self.published, self.data_dir, self.variant, lambda files: sources.decode_cifar(files, grey))

    def _scaling(self, train: Tensor) -> Pixels:
        return Pixels(127.5, 127.5)
