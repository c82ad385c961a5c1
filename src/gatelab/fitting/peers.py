"""Simple methods beside a network: regression on a sequence as one vector, the nearest neighbour, and a small ROCKET.

They are fitted in seconds. Sequences of unequal length are resampled to the median of the training lengths.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from gatelab.estimators import ridge
from gatelab.formatting import counted, listed
from gatelab.tasks.examples import Examples
from gatelab.tasks.own.files import Files

LOGISTIC, RIDGE = "logistic regression", "ridge regression"
NEAREST, ROCKET = "nearest neighbour", "small ROCKET"
MOST = 20_000_000  # numbers that are read
MOST_PRODUCTS = 10**11  # of the distances to all neighbours
KERNELS, FEWEST = 1_000, 100  # of ROCKET: with as many as the data leaves time for, or it is left out
OUTPUTS = 3_000_000_000  # of all kernels, at all steps of all sequences
FEATURES = 50_000_000  # of all sequences
AT_ONCE = 4_000_000  # of them
LENGTHS = (7, 9, 11)  # of kernels


def predictions(task: Files) -> Iterator[tuple[str, np.ndarray]]:
    """Yield methods, fitted on the training set, and their predictions for the test set: (M,) classes or (M, K)."""
    train, test = (_resampled(task, part, common_length(task)) for part in (task.train, task.test))
    targets = task.train.targets.numpy()
    vectors, others = (part.reshape(len(part), -1) for part in (train, test))
    if task.classes is not None:
        yield LOGISTIC, _logistic(vectors, others, targets)
    else:
        yield RIDGE, ridge.fit(vectors, targets).predict(others)
    if _has_nearest(task, train.shape):
        yield NEAREST, targets[_nearest(vectors, others)]
    if count := _num_kernels(task, train.shape):
        kernels = _Kernels(train.shape[1], train.shape[2], count)
        one_hot = targets if task.classes is None else np.eye(len(task.classes))[targets]
        answer = ridge.fit(kernels.features(train), one_hot).predict(kernels.features(test))
        yield ROCKET, answer if task.classes is None else answer.argmax(1)


def why_none(task: Files) -> str:
    """Why there are no such methods for this data; empty if there are."""
    every = listed([LOGISTIC if task.classes is not None else RIDGE, NEAREST, ROCKET])
    if task.per_step:
        return f"{every} have no answer at every step"
    if (task.sizes[0] + task.sizes[2]) * common_length(task) * task.input_size > MOST:
        return f"the data is too large for {every} to be quick (more than {MOST:,} numbers)"
    if task.classes is not None and len(np.unique(task.train.targets.numpy())) < 2:
        return "the training set has one class"
    return ""


def left_out(task: Files) -> str:
    """Which methods are left out, and why; empty if none is."""
    if why := why_none(task):
        return why
    shape = task.sizes[0], common_length(task), task.input_size
    some = [] if _has_nearest(task, shape) else [NEAREST]
    some += [] if _num_kernels(task, shape) else [ROCKET]
    return f"the data is too large for {listed(some)} to be quick" if some else ""


def in_words(task: Files) -> str:
    """Say what the methods read."""
    steps = common_length(task)
    length = f", resampled to {counted(steps, 'step')} (the median of the training set),"
    count = _num_kernels(task, (task.sizes[0], steps, task.input_size))
    rocket = (
        f" A small ROCKET is ridge regression on the largest output and the share of positive outputs, of {count:,} "
        "random convolutions."
    )
    return (
        f"Regression reads a sequence{'' if task.train.lengths is None else length} as one vector of all its values, "
        f"whose Euclidean distance says which neighbour is nearest.{rocket if count else ''}"
    )


def common_length(task: Files) -> int:
    """The steps of all sequences, as the methods read them."""
    return task.steps if task.train.lengths is None else int(np.median(task.train.lengths.numpy()))


def _resampled(task: Files, part: Examples, steps: int) -> np.ndarray:
    batch = part.batch(torch.arange(len(part)))
    values: np.ndarray = batch.x.numpy()
    ends = np.full(len(values), values.shape[1]) if batch.lengths is None else batch.lengths.numpy()
    places = np.linspace(0, ends - 1, steps, axis=1)  # (N, steps)
    rows, before = np.arange(len(values))[:, None], np.floor(places).astype(int)
    if task.vocabulary:
        one_hot: np.ndarray = np.eye(task.input_size, dtype=np.float32)[values[rows, np.round(places).astype(int)]]
        return one_hot
    share = (places - before)[..., None].astype(np.float32)
    after = np.minimum(before + 1, ends[:, None] - 1)
    resampled: np.ndarray = (1 - share) * values[rows, before] + share * values[rows, after]
    return resampled


def _logistic(train: np.ndarray, test: np.ndarray, targets: np.ndarray) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    method: Any = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its optimizer, which may end before it has converged
        answer: np.ndarray = method.fit(train.astype(np.float64), targets).predict(test.astype(np.float64))
    return answer


def _has_nearest(task: Files, shape: tuple[int, ...]) -> bool:
    return task.sizes[0] * task.sizes[2] * shape[1] * shape[2] <= MOST_PRODUCTS


def _nearest(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """The training sequence that is nearest to each test sequence; of equals the first."""
    squares, found = np.square(train).sum(1), []
    for some in np.array_split(test, -(-len(test) * len(train) // AT_ONCE)):
        found.append((squares - 2 * some @ train.T).argmin(1))
    return np.concatenate(found)


def _num_kernels(task: Files, shape: tuple[int, ...]) -> int:
    """How many kernels there is time for; 0 for too few."""
    sequences = task.sizes[0] + task.sizes[2]
    outputs = sequences * shape[1] * (1 + shape[2] // 2)  # of a kernel; channels take time, too
    count = min(KERNELS, OUTPUTS // outputs, FEATURES // (2 * sequences))
    return count if count >= FEWEST else 0


class _Kernels:
    """Random convolutions as ROCKET has them (Dempster et al., 2020), with dilations that are powers of two.

    Weights are normal with mean 0, biases uniform in ±1; half of the kernels pad, and of several channels each reads a
    random number.
    """

    def __init__(self, steps: int, channels: int, count: int) -> None:
        random = np.random.RandomState(0)
        lengths = [length for length in LENGTHS if length <= steps] or [steps]
        shapes = []
        for _ in range(count):
            length = int(random.choice(lengths))
            most = int(np.log2(max(1, (steps - 1) // max(1, length - 1))))
            shapes.append((length, 2 ** random.randint(most + 1), bool(random.randint(2))))
        self.groups = []
        for shape in sorted(set(shapes)):
            length, dilation, is_padded = shape
            weights = random.standard_normal((length, channels, shapes.count(shape))).astype(np.float32)
            for kernel in range(weights.shape[2]):
                read = random.permutation(channels)[: int(2 ** random.uniform(0, np.log2(channels + 1)))]
                weights[:, np.setdiff1d(np.arange(channels), read), kernel] = 0
                weights[:, read, kernel] -= weights[:, read, kernel].mean(0)
            biases: np.ndarray = np.asarray(random.uniform(-1, 1, weights.shape[2]), np.float32)
            self.groups.append((dilation, (length - 1) * dilation // 2 * is_padded, weights, biases))

    def features(self, x: np.ndarray) -> np.ndarray:
        """Largest outputs and shares of positive outputs, (N, T, D) → (N, 2 × count)."""
        found, x = [], np.ascontiguousarray(x.transpose(0, 2, 1))
        for dilation, padding, weights, biases in self.groups:
            length, channels, count = weights.shape
            steps = x.shape[2] + 2 * padding - (length - 1) * dilation
            pieces = -(-len(x) * steps * max(length * channels, count) // AT_ONCE)
            kernels, parts = weights.reshape(-1, count).T, []
            for some in np.array_split(x, min(len(x), pieces)):
                wide = np.pad(some, ((0, 0), (0, 0), (padding, padding)))
                windows = np.concatenate([wide[:, :, i * dilation :][:, :, :steps] for i in range(length)], 1)
                output = kernels @ windows + biases[:, None]  # (n, count, steps)
                parts.append(np.concatenate([output.max(2), (output > 0).astype(np.float32).mean(2)], 1))
            found.append(np.concatenate(parts))
        return np.concatenate(found, 1)
