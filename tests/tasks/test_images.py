"""Images as sequences: pixel order, grey values, splits, noise; the published sets if available."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from gatelab import tasks
from gatelab.tasks import images, published, store

FIRST_PERMUTED = [693, 85, 647, 392, 765, 14, 299, 711]  # RandomState(0).permutation(784), as anyone can check


def here(name: str, **options: object) -> tasks.Task:
    task = tasks.get(name, **options)
    if not task.is_here():
        pytest.skip(f"{name} is not available: set GATELAB_DATA to a folder that has it")
    return task


@pytest.mark.parametrize("file", [True, False], ids=["file", "reader"])
def test_digits_are_scikit_learns(monkeypatch, file):
    """Read from its file, or by its reader where a version has no such file."""
    monkeypatch.setattr(images, "_digits", images._digits.__wrapped__)
    if not file:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    task = tasks.get("digits")
    known = {
        image.astype(np.uint8).tobytes(): label for image, label in zip(*load_digits(return_X_y=True), strict=True)
    }
    total = 0
    for part in task.parts:
        for row, label in zip(part.stored, part.targets, strict=True):
            assert known[row.numpy().tobytes()] == label
            total += 1
    assert total == 1797


def test_orders_read_the_same_image_differently():
    rows, pixels, permuted = (tasks.get("digits", order=order) for order in ("rows", "pixels", "permuted"))
    a, b, c = (task.train.first(5).x for task in (rows, pixels, permuted))
    assert a.shape == (5, 8, 8)
    assert torch.equal(a.flatten(1), b.flatten(1))
    order = np.random.RandomState(0).permutation(64)
    assert torch.equal(b[:, order], c)
    assert torch.equal(rows.train.targets, permuted.train.targets)
    assert permuted.train.stored.is_contiguous()


def test_the_permutation_is_the_documented_one_whatever_the_seed():
    assert images.permutation(784)[:8].tolist() == FIRST_PERMUTED
    a, b = (tasks.get("digits", order="permuted", seed=seed) for seed in (0, 1))
    assert sorted(a.train.first(1).x.flatten().tolist()) != sorted(b.train.first(1).x.flatten().tolist())
    plain = tasks.get("digits", order="pixels", seed=1)
    assert torch.equal(plain.train.first(9).x[:, images.permutation(64)], b.train.first(9).x)


def test_scaling_is_fitted_on_the_training_set():
    task = tasks.get("digits")
    train = task.train.stored.double()
    x = task.test.first(50).x
    expected = (task.test.stored[:50].double() - train.mean()) / train.std(correction=0)
    torch.testing.assert_close(x, expected.float())


def test_noise_follows_the_image_and_is_always_the_same():
    plain, noisy = tasks.get("digits"), tasks.get("digits", noise_pad=300)
    x, again = noisy.train.first(64).x, noisy.train.first(64).x
    assert torch.equal(x, again)
    assert torch.equal(x[:, :8], plain.train.first(64).x)
    noise = x[:, 8:]
    assert noise.shape == (64, 300, 8)
    assert abs(float(noise.mean())) < 0.01
    assert abs(float(noise.std()) - 1) < 0.01
    assert not torch.equal(noise[0], noise[1])
    assert not torch.equal(noise[0], noisy.test.first(1).x[0, 8:])
    # Each example has its own noise wherever it stands in a batch.
    assert torch.equal(noisy.train.batch(torch.tensor([7, 3])).x[1], x[3])


def test_a_limit_is_balanced_and_leaves_the_test_part():
    task = tasks.get("digits", limit=125)
    assert task.sizes == (125, 18, 360)
    assert tasks.get("digits", limit=10).sizes == (10, 10, 360)
    counts = torch.bincount(task.train.targets)
    assert counts.min() >= 12
    assert counts.max() <= 13
    assert tasks.get("digits", limit=5000).sizes == (1257, 180, 360)  # no more than there are


def test_luma_is_what_pillow_computes():
    rgb = np.random.RandomState(0).randint(0, 256, (64, 64, 3)).astype(np.uint8)
    assert (published.luma(rgb) == np.asarray(Image.fromarray(rgb).convert("L"))).all()
    primaries = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255], [0, 0, 0]], np.uint8)
    assert published.luma(primaries).tolist() == [76, 150, 29, 255, 0]


def test_cifar_records_are_planes_of_colour():
    """A record is a label, then all reds, all greens, all blues; grey and colour show the same picture."""
    planes = np.random.RandomState(0).randint(0, 256, (2, 3, 32, 32)).astype(np.uint8)
    record = np.concatenate([np.array([[3], [9]], np.uint8), planes.reshape(2, -1)], 1).tobytes()
    files = dict.fromkeys(published.CIFAR, record)
    colour, grey = published.decode_cifar(files, grey=False), published.decode_cifar(files, grey=True)
    assert colour["train"].shape == (10, 32, 32, 3)
    assert grey["test"].shape == (2, 32, 32, 1)
    assert colour["test"][1, 5, 6].tolist() == planes[1, :, 5, 6].tolist()
    assert (published.luma(colour["test"]) == grey["test"][..., 0]).all()
    assert grey["test_labels"].tolist() == [3, 9]


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_the_real_idx_sets(name):
    task = here(name)
    assert task.sizes == (51_000, 9_000, 10_000)
    test = torch.bincount(task.test.targets).tolist()
    train = torch.bincount(torch.cat([task.train.targets, task.validation.targets])).tolist()
    if name == "mnist":
        assert test == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
        assert train == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
        assert task.train.encoding.mean / 255 == pytest.approx(0.1307, abs=2e-4)
        assert task.train.encoding.deviation / 255 == pytest.approx(0.3081, abs=2e-4)
        assert task.baseline().value == 0.1135
    else:
        assert test == [1000] * 10
        assert train == [6000] * 10
    shares = torch.bincount(task.validation.targets) / torch.bincount(task.train.targets)
    assert float((shares - 9 / 51).abs().max()) < 0.001


def test_the_split_of_a_published_set_uses_every_image_once():
    task = here("mnist")
    arrays = store.load(published.MNIST, None, "bytes", published.decode_idx)
    images = np.sort(arrays["train"].reshape(60_000, -1).view("V784").ravel())
    parts = torch.cat([task.train.stored, task.validation.stored]).numpy().reshape(60_000, -1)
    assert (np.sort(np.ascontiguousarray(parts).view("V784").ravel()) == images).all()
    assert (task.test.stored.numpy().reshape(-1, 28, 28, 1) == arrays["test"]).all()


@pytest.mark.parametrize("color", ["grey", "rgb"])
def test_the_real_cifar10(color):
    task = here("cifar10", color=color, order="pixels")
    assert torch.bincount(task.test.targets).tolist() == [1000] * 10
    assert torch.bincount(torch.cat([task.train.targets, task.validation.targets])).tolist() == [5000] * 10
    x = task.test.first(3).x
    assert x.shape == (3, 1024, 1 if color == "grey" else 3)
    assert x.min() >= -1
    assert x.max() <= 1
    # The first test image is the well-known cat on a brown floor.
    assert task.classes[int(task.test.targets[0])] == "cat"
    first = (task.test.stored[0, 0]).tolist()
    assert first == ([119] if color == "grey" else [158, 112, 49])
