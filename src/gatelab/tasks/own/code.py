"""A task class in a file of the user's, named FILE.py:NAME as cells are."""

from __future__ import annotations

import functools
import traceback
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gatelab import user_code
from gatelab.errors import DataError, GatelabError, short, unknown
from gatelab.tasks.examples import Examples, Parts, TokenIndices, inside
from gatelab.tasks.task import Task

REQUIRED = ("input_size", "steps", "sizes", "load")


def find(source: user_code.Definition) -> type[Task]:
    """The class that a file defines. The file is executed, once."""
    values, text = user_code.load(source.file, "tasks")
    own = {name: value for name, value in values.items() if _is_task(value) and value.__module__ == values["__name__"]}
    if source.name not in own:
        raise unknown(f"task in {source.file} (a subclass of gatelab.tasks.Task):", source.name, own)
    return _named(own[source.name], f"{source.file}:{source.name}", source.file, text)


def _is_task(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Task)


@functools.cache
def _named(kind: type[Task], name: str, file: Path, text: str) -> type[Task]:
    """The class with the name that runs record, whose data is checked when it is loaded."""
    if missing := [member for member in REQUIRED if getattr(kind, member) is getattr(Task, member)]:
        raise GatelabError(f"{name} does not define {missing[0]}: expected a class that defines {', '.join(REQUIRED)}")

    class Own(kind):  # type: ignore[misc, valid-type]
        def load(self) -> Parts:
            try:
                parts: Parts = super().load()
            except GatelabError:
                raise
            except Exception as error:
                line = next((f.lineno for f in reversed(traceback.extract_tb(error.__traceback__)) if
                             f.filename == str(file.absolute())), None)  # fmt: skip
                where = f"{file}, line {line}" if line else str(file)
                raise DataError(f"{where}: {name} could not load its data: {type(error).__name__}: {error}") from error
            check(self, parts)
            return parts

    Own.__name__, Own.__qualname__, Own.__doc__ = kind.__name__, kind.__qualname__, kind.__doc__
    Own.name, Own.from_disk = name, True
    return Own


def check(task: Task, parts: Any) -> None:
    """Raise an error if the data is not what the task says it is."""
    if not (isinstance(parts, tuple) and len(parts) == 3 and all(isinstance(part, Examples) for part in parts)):
        raise DataError(f"{task.name}: load returned {type(parts).__name__}: expected Parts of three Examples")
    if (sizes := tuple(map(len, parts))) != tuple(task.sizes):
        raise DataError(f"{task.name}: load returned {sizes} examples: expected {tuple(task.sizes)}, as sizes says")
    for name, part in zip(("training", "validation", "test"), parts, strict=True):
        where = f"{task.name}, {name} set"
        if not len(part):
            raise DataError(f"{where} has no examples: expected at least one")
        _check_fields(where, task, part)
        x, y, lengths = part.first(2)
        T = task.steps if lengths is None else int(lengths.max())
        shape = (len(x), T) if task.vocabulary else (len(x), T, task.input_size)
        _expect(where, "x", x, torch.int64 if task.vocabulary else torch.float32, shape)
        if not torch.isfinite(part.stored).all():
            raise DataError(f"{where}: x has NaN or infinity: expected finite numbers")
        if task.vocabulary and isinstance(part.encoding, TokenIndices):
            _check_tokens(where, part, len(task.vocabulary))
        rows = (len(x), T) if task.per_step else (len(x),)
        if task.classes is None:
            _expect(where, "y", y, torch.float32, (*rows, task.output_size))
        else:
            _expect(where, "y", y, torch.int64, rows)
            low, high = part.targets.min(), part.targets.max()
            if low < 0 or high >= len(task.classes):
                raise DataError(f"{where}: y is from {low} to {high}: expected classes 0 to {len(task.classes) - 1}")


def _check_fields(where: str, task: Task, part: Examples) -> None:
    """What the examples are made of, before a batch is."""
    for name in ("stored", "targets"):
        if not isinstance(value := getattr(part, name), Tensor):
            raise DataError(f"{where}: {name} of Examples is {type(value).__name__}: expected a tensor")
    if len(part.stored) != len(part.targets):
        raise DataError(f"{where}: Examples has {len(part.stored)} sequences and {len(part.targets)} targets")
    if not callable(part.encoding):
        raise DataError(f"{where}: encoding of Examples is {type(part.encoding).__name__}: expected an encoding")
    if part.per_step != task.per_step:
        raise DataError(f"{where}: per_step of Examples is {part.per_step}: expected {task.per_step}, as the task says")
    lengths, T = part.lengths, part.stored.shape[1] if part.stored.ndim > 1 else 0
    if lengths is not None and not (
        isinstance(lengths, Tensor)
        and lengths.dtype == torch.int64
        and lengths.shape == (len(part),)
        and lengths.min() >= 1
        and lengths.max() <= T
    ):
        raise DataError(
            f"{where}: lengths of Examples is {short(lengths, 60)}: expected {len(part)} integers from 1 to {T}, a "
            "tensor of int64"
        )


def _check_tokens(where: str, part: Examples, size: int) -> None:
    """Before the end of a sequence there are tokens of the vocabulary; after it, anything else is padding."""
    tokens = part.stored.long()[inside(part.stored, part.lengths)]
    if tokens.min() < 0 or tokens.max() >= size or part.stored.long().min() < 0:
        raise DataError(
            f"{where}: x has tokens from {int(part.stored.min())} to {int(tokens.max())}: expected 0 to {size - 1}, "
            "the indices of the vocabulary"
        )


def _expect(where: str, name: str, values: Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    origin = "steps, input_size and vocabulary" if name == "x" else "classes, output_size and per_step"
    if values.dtype != dtype or tuple(values.shape) != shape:
        raise DataError(
            f"{where}: {name} of a batch is {values.dtype} of shape {tuple(values.shape)}: expected {dtype} of shape "
            f"{shape}, from {origin} of the task"
        )
    if not torch.isfinite(values).all():
        raise DataError(f"{where}: {name} has NaN or infinity: expected finite numbers")
