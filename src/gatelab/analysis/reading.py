"""An example as a person can read it: words, a picture, or numbers over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from gatelab.tasks import Task
from gatelab.tasks.images import Images, permutation
from gatelab.tasks.synthetic import Tokens


@dataclass(frozen=True)
class Reading:
    """One test example."""

    x: np.ndarray  # (T, D), to its end
    words: tuple[str, ...] | None  # what each step is called, where steps are tokens
    image: np.ndarray | None  # (side, side) or (side, side, 3) bytes, of which the steps are parts


def reading(task: Task, place: int) -> Reading:
    """The test example at this place."""
    part = task.test
    batch = part.batch(torch.tensor([place]))
    end = batch.x.shape[1] if batch.lengths is None else int(batch.lengths[0])
    words = image = None
    if isinstance(task, Tokens):
        words = tuple(task.vocabulary[int(token)] for token in part.stored[place][:end])
    if isinstance(task, Images):
        image = _image(task, place)
    return Reading(batch.x[0, :end].numpy(), words, image)


def _image(task: Images, place: int) -> np.ndarray:
    pixels = task.test.stored[place].numpy().reshape(task.side**2, task.channels)
    if task.order == "permuted":
        straight = np.empty_like(pixels)
        straight[permutation(task.side**2)] = pixels
        pixels = straight
    image = pixels.reshape(task.side, task.side, task.channels)
    return image[..., 0] if task.channels == 1 else image
