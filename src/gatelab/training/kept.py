"""A few examples in the run directory, so that a run can be inspected when its data is unavailable.

Of a series also the last window, from which it is forecast.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from gatelab import sealed
from gatelab.data.index import Index
from gatelab.data.series import Series
from gatelab.errors import DataError, GatelabError
from gatelab.tasks import Examples, Parts, Task
from gatelab.tasks.examples import NoiseAfter
from gatelab.tasks.preparation import Preparation

FILE = "examples.npz"
STREAM_END = 2000  # steps, from which a state is built up
EXAMPLES, NUMBERS = 64, 1_000_000  # of each part, at most


def examples(task: Task, is_stream: bool = False) -> dict[str, np.ndarray]:
    """A few examples; none where the data can be generated again from the options. Of a series that was trained as one
    long sequence, a longer end.
    """
    arrays: dict[str, np.ndarray] = {}
    if task.from_disk and not isinstance(task.test.encoding, NoiseAfter):
        for name in ("validation", "test"):
            if len(part := getattr(task, name)):
                arrays |= _some(name, part)
    if (ending := task.ending(STREAM_END if is_stream else None)) is not None:
        arrays["ending"] = ending.values
        if ending.stamps is not None:
            arrays["ending_stamps"] = ending.stamps.astype(np.int64)  # seconds since 1970
    return arrays


def write(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write them, if there are any."""
    if arrays:
        sealed.write_arrays(folder / FILE, arrays)


def read(path: Path) -> dict[str, np.ndarray]:
    """What was written, unchecked; nothing if there is no file."""
    return sealed.read_arrays(path) if path.is_file() else {}


def _some(name: str, part: Examples) -> dict[str, np.ndarray]:
    size = max(1, part.stored[0].numel())
    count = min(len(part), max(4, min(EXAMPLES, NUMBERS // size)))
    arrays = {f"{name}_stored": part.stored[:count], f"{name}_targets": part.targets[:count]}
    if part.lengths is not None:
        arrays[f"{name}_lengths"] = part.lengths[:count]
    return {key: value.contiguous().numpy() for key, value in arrays.items()}


def parts(path: Path, preparation: Preparation) -> Parts | None:
    """The kept examples, without a training part; None if there are none."""
    arrays = read(path)
    names = [name for name in ("validation", "test") if f"{name}_stored" in arrays]
    if not names:
        return None
    try:
        found = {name: _part(name, arrays, preparation) for name in names}
    except (KeyError, ValueError, TypeError, IndexError, RuntimeError) as error:
        raise sealed.damaged(path, error) from error
    some = found[names[0]]
    nothing = Examples(some.stored[:0], some.targets[:0], encoding=some.encoding)
    return Parts(nothing, found.get("validation", nothing), found.get("test", nothing))


def _part(name: str, arrays: dict[str, np.ndarray], preparation: Preparation) -> Examples:
    stored, targets = (torch.from_numpy(arrays[f"{name}_{what}"]) for what in ("stored", "targets"))
    lengths = arrays.get(f"{name}_lengths")
    if stored.ndim < 2 or not len(stored) or not stored.shape[1]:
        raise GatelabError(f"the {name} examples have the shape {tuple(stored.shape)}")
    ends_of = None if lengths is None else torch.from_numpy(lengths)
    part = Examples(stored, targets, encoding=preparation.encoding, lengths=ends_of, per_step=preparation.per_step)
    ends = torch.full((len(stored),), stored.shape[1]) if part.lengths is None else part.lengths
    encoded = part.first(1).x  # whether it can be read at all
    if (
        len(stored) != len(targets)
        or len(ends) != len(stored)
        or (encoded.dim() == 3 and encoded.shape[2] != preparation.input_size)
    ):
        raise GatelabError(f"the {name} examples do not fit each other")
    return part


def ending(path: Path, preparation: Preparation) -> Series:
    """The last window of the series."""
    arrays = read(path)
    if "ending" not in arrays:
        raise DataError(f"{path} does not hold the end of a series: pass the series to continue, as --data FILE.csv")
    values, stamps = arrays["ending"], arrays.get("ending_stamps")
    if values.ndim != 2 or values.shape[1] != preparation.input_size or values.dtype != np.float64:
        raise sealed.damaged(path, f"the end of the series is {values.dtype} of shape {values.shape}")
    if not len(values) or not np.isfinite(values).all():
        raise sealed.damaged(path, "the end of the series has no steps, or values that are not finite")
    if stamps is not None and (stamps.dtype != np.int64 or stamps.ndim != 1 or len(stamps) > len(values)):
        raise sealed.damaged(path, f"the times of the end of the series are {stamps.dtype} of shape {stamps.shape}")
    index = Index.at(None if stamps is None else stamps.astype("datetime64[s]"), len(values))
    return Series(values, preparation.columns, index, num_targets=preparation.output_size)
