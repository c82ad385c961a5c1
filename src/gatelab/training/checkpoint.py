"""Everything that a run needs to resume, in one file: tensors as safetensors, the rest as JSON in its header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from torch import Tensor, nn
from torch.optim import Optimizer

from gatelab.engine.recurrent import State
from gatelab.errors import DataError, short
from gatelab.sealed import damaged, read_tensors, write_tensors
from gatelab.training import optimizers
from gatelab.training.objective import Objective, Tally
from gatelab.training.schedule import Schedule

SCHEMA = 1


@dataclass
class Place:
    """The position of a run and its history: everything beside weights, optimizer and schedule."""

    epoch: int = 0
    batch: int = 0  # the next one
    best_epoch: int | None = None
    best_score: float | None = None
    best_loss: float = 0.0  # of the validation, at the best epoch
    waited: int = 0  # epochs since the best one
    history: list[dict[str, Any]] = field(default_factory=list)
    tally: dict[str, float] = field(default_factory=dict)  # of the epoch that was interrupted
    norm: float = 0.0  # sum of gradient norms in it
    seconds: float = 0.0  # spent on it


def write(
    path: Path, model: nn.Module, optimizer: Optimizer, schedule: Schedule, place: Place, carried: State | None = None
) -> None:
    """Write everything in one file. `carried` is the state between two chunks of truncated back-propagation."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"optimizer.{name}": value for name, value in optimizers.tensors(optimizer).items()}
    states = () if carried is None else carried if isinstance(carried, tuple) else (carried,)
    tensors |= {f"carried.{i}": value for i, value in enumerate(states)}
    tensors = {name: value.cpu() for name, value in tensors.items()}
    state = {"schema": SCHEMA, "place": asdict(place), "schedule": schedule.state()}
    write_tensors(path, tensors, state)


def read(path: Path, model: nn.Module, optimizer: Optimizer, schedule: Schedule) -> tuple[Place, tuple[Tensor, ...]]:
    """Put everything back as it was. Returns the position, and the state between two chunks if there is one."""
    tensors, state = read_tensors(path)
    try:
        _check_schema(path, state["schema"])
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "carried": {}}
        for key, value in tensors.items():
            part, _, name = key.partition(".")
            parts[part][name] = value
        _load(model, parts["model"])
        optimizers.restore(optimizer, parts["optimizer"])
        schedule.restore(state["schedule"])
        carried = parts["carried"]
        return _place(state["place"]), tuple(carried[str(i)] for i in range(len(carried)))
    except DataError:  # it is of a newer version, and not damaged
        raise
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:  # it is whole, and of another model
        raise damaged(path, error) from error


def refuse_size(path: Path, hidden: int, num_layers: int, input_size: int, output_size: int) -> None:
    """An error if the weights in a file cannot be those of a model of these sizes, before it is made: a forged size
    must not fill the memory. Every unit of every layer has a parameter, and so has every input and output.
    """
    numbers = sum(value.numel() for value in read_tensors(path)[0].values())
    if hidden * num_layers + input_size + output_size > numbers:
        raise damaged(path, f"it has {numbers:,} numbers, too few for a model of {hidden} units in {num_layers} layers")


def _place(content: dict[str, Any]) -> Place:
    """A place whose numbers are numbers, as they were written."""
    TypeAdapter(Place).validate_json(json.dumps(content), strict=True)
    return Place(**content)


def read_place(path: Path) -> Place:
    """Where the run is, without its weights."""
    state = read_tensors(path)[1]
    try:
        return _place(state["place"])
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(path, error) from error


def write_weights(path: Path, weights: Mapping[str, Tensor], epoch: int) -> None:
    """The weights after this epoch."""
    write_tensors(path, {name: value.cpu() for name, value in weights.items()}, {"schema": SCHEMA, "epoch": epoch})


def read_weights(path: Path, model: nn.Module, epoch: int | None) -> None:
    """Load the weights of this epoch and no other; without an epoch, whichever the file holds."""
    tensors, state = read_tensors(path)
    if epoch is not None and state.get("epoch") != epoch:
        raise DataError(f"{path} holds the weights of epoch {state.get('epoch')}, expected those of epoch {epoch}")
    _check_schema(path, state.get("schema"))
    try:
        _load(model, tensors)
    except (RuntimeError, TypeError) as error:  # it is whole, and of another model
        raise damaged(path, error) from error


def _load(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Load weights of the model's own types; torch would convert others without a word."""
    for name, value in model.state_dict().items():
        if name in tensors and tensors[name].dtype != value.dtype:
            raise TypeError(f"{name} is {tensors[name].dtype}, and the model's {value.dtype}")
    model.load_state_dict(tensors)


def _check_schema(path: Path, schema: object) -> None:
    if isinstance(schema, int) and schema > SCHEMA:
        raise DataError(f"{path} was written by a newer gatelab (schema {schema}, this one reads up to {SCHEMA})")
    if type(schema) is not int or schema != SCHEMA:
        raise damaged(path, f"its schema is {short(schema)}, expected {SCHEMA}")


def epoch_of(path: Path) -> int | None:
    """The epoch whose weights a file holds; None if there is no file."""
    return read_tensors(path)[1].get("epoch") if path.is_file() else None


def saved_tally(tally: Tally) -> dict[str, float]:
    """A tally as plain numbers."""
    return {name: value for name, value in vars(tally).items() if name != "objective"}


def restored_tally(objective: Objective, saved: dict[str, Any]) -> Tally:
    """The inverse of `saved_tally`."""
    return Tally(objective, **{"weight": saved.get("targets", 0), **saved})  # before there were weights: their number
