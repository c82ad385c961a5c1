"""An example in readable form: words, an image, or numbers over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from gatelab.tasks import Task
from gatelab.tasks.images import Images, permutation


@dataclass(frozen=True)
class Reading:
    """One test example."""

    x: np.ndarray  # (T, D), without padding
    words: tuple[str, ...] | None  # the word of each step, for tokens
    image: np.ndarray | None  # (side, side) or (side, side, 3) bytes, for images


def reading(task: Task, index: int) -> Reading:
    """The test example with this index."""
    part = task.test
    batch = part.batch(torch.tensor([index]))
    end = batch.x.shape[1] if batch.lengths is None else int(batch.lengths[0])
    words = image = None
    if vocabulary := task.preparation.vocabulary:
        words = tuple(vocabulary[int(token)] for token in part.stored[index][:end])
    if isinstance(task, Images):
        image = _image(task, index)
    return Reading(batch.x[0, :end].numpy(), words, image)


def _image(task: Images, index: int) -> np.ndarray:
    pixels = task.test.stored[index].numpy().reshape(task.side**2, task.channels)
    if task.order == "permuted":
        ordered = np.empty_like(pixels)
        ordered[permutation(task.side**2)] = pixels
        pixels = ordered
    image = pixels.reshape(task.side, task.side, task.channels)
    return image[..., 0] if task.channels == 1 else image
