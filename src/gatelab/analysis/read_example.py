"""An example in readable form: words, an image, or numbers over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from gatelab.formatting import visible
from gatelab.tasks import Task
from gatelab.tasks.images import Images, permutation


@dataclass(frozen=True)
class ReadExample:
    """One test example."""

    x: np.ndarray  # (T, D), without padding; tokens as one-hot vectors
    words: tuple[str, ...] | None  # the word of each step, for tokens
    image: np.ndarray | None  # (side, side) or (side, side, 3) bytes, for images


def reading(task: Task, index: int) -> ReadExample:
    """The test example with this index."""
    part = task.test
    batch = part.batch(torch.tensor([index]))
    end = batch.x.shape[1] if batch.lengths is None else int(batch.lengths[0])
    x = batch.x[0, :end].numpy()
    if task.vocabulary:
        return ReadExample(np.eye(task.input_size)[x], tuple(visible(task.vocabulary[token]) for token in x), None)
    return ReadExample(x, None, _image(task, index) if isinstance(task, Images) else None)


def _image(task: Images, index: int) -> np.ndarray:
    pixels = task.test.stored[index].numpy().reshape(task.side**2, task.channels)
    if task.order == "permuted":
        ordered = np.empty_like(pixels)
        ordered[permutation(task.side**2)] = pixels
        pixels = ordered
    image = pixels.reshape(task.side, task.side, task.channels)
    return image[..., 0] if task.channels == 1 else image
