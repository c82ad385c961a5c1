"""The parameters of the estimators: one line for the name, the default and the field of the spec that each one sets.

Signature, `get_params`, documentation and spec follow from that line.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

import numpy as np
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from sklearn.base import BaseEstimator
from typing_extensions import dataclass_transform

from gatelab.estimators import defaults
from gatelab.lang import Cell
from gatelab.training import ModelSpec, OptimizationSpec, TrainingSpec

SECTIONS: dict[str, type[BaseModel]] = {"model": ModelSpec, "optimization": OptimizationSpec, "training": TrainingSpec}
Class = TypeVar("Class", bound=type[Any])
ATTRIBUTES = """n_features_in_ : int
    D, the number of features per step; of an X (n, T) the number of its columns, T.
feature_names_in_ : ndarray of shape (n_features_in_,)
    The names of the columns, if X was a data frame.
history_ : list of dict
    The metrics of each epoch.
n_iter_ : int
    The number of epochs.
best_epoch_ : int
    The epoch whose weights are kept, counted from 1.
run_ : FittedRun
    The record of the training, and its model."""


def parameter(*, default: Any, sets: str = "", text: str = "", kind: str = "", kw_only: bool = True) -> Any:
    """A parameter with its default. `sets` is the field of the spec that it gives a value to, whose description is that
    of the parameter unless there is a `text`.
    """
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"sets": sets, "text": text, "kind": kind})


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter,))
def with_parameters(cls: Class) -> Class:
    """Give a class its constructor, and the documentation of its parameters."""
    dataclasses.dataclass(eq=False, repr=False, kw_only=True)(cls)
    return documented(cls)


def documented(cls: Class) -> Class:
    """Put the documentation of the parameters where that of the class has {parameters}, and of what a fit of
    classifiers and regressors sets where it has {attributes}.
    """
    parts = {"{parameters}": "\n".join(map(_entry, dataclasses.fields(cls))), "{attributes}": ATTRIBUTES}
    for name, text in parts.items():
        cls.__doc__ = (cls.__doc__ or "").replace(name, text.replace("\n", "\n    "))
    return cls


def values(estimator: Any) -> dict[str, dict[str, Any]]:
    """The fields of the spec that an estimator's parameters set, by section."""
    found: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for place, name in names(estimator).items():
        section, _, field = place.partition(".")
        found[section][field] = getattr(estimator, name)
    return found


def names(estimator: Any) -> Mapping[str, str]:
    """The name of the parameter that sets a field of the spec."""
    return {field.metadata["sets"]: field.name for field in dataclasses.fields(estimator) if field.metadata.get("sets")}


def _field_of(place: str) -> FieldInfo:
    section, _, name = place.partition(".")
    return SECTIONS[section].model_fields[name]


def _entry(field: dataclasses.Field[Any]) -> str:
    """A parameter as numpydoc has it."""
    sets, kind = field.metadata["sets"], field.metadata["kind"] or str(field.type).replace(" | ", " or ")
    text = field.metadata["text"] or f"{_field_of(sets).description}."
    if sets and get_origin(choices := _field_of(sets).annotation) is Literal:
        kind = "{" + ", ".join(f'"{choice}"' for choice in get_args(choices)) + "}"
    shown = f'"{field.default}"' if isinstance(field.default, str) else field.default
    lines = textwrap.wrap(text[0].upper() + text[1:], 112)
    return "\n".join([f"{field.name} : {kind}, default={shown}", *(f"    {line}" for line in lines)])


@with_parameters
class NetworkParameters(BaseEstimator):  # type: ignore[misc]
    """Parameters of the network and its training, stored as they are; a fit checks them."""

    cell: str | Cell = parameter(
        default=defaults.CELL,
        sets="model.cell",
        text="The cell: a name of the library (`gatelab cells`), FILE.py:NAME, or a function decorated with "
        "`@gatelab.cell`.",
        kw_only=False,
    )
    hidden_size: int = parameter(default=64, sets="model.hidden_size", text="Hidden units per layer and direction.")
    num_layers: int = parameter(default=1, sets="model.num_layers")
    bidirectional: bool = parameter(default=True, sets="model.bidirectional")
    pool: str = parameter(
        default="mean+max", sets="model.pool", text="What the head reads of the outputs at all steps."
    )
    stem: str = parameter(
        default="conv",
        sets="model.stem",
        text='"conv" puts two strided convolutions before the layers, which shorten sequences to a quarter.',
    )
    dropout: float = parameter(default=0.0, sets="model.dropout")
    head_dropout: float = parameter(default=0.3, sets="model.head_dropout", text="Dropout before the head.")
    cell_options: dict[str, Any] | None = parameter(
        default=None, sets="model.options", text='Hyperparameters of the cell, as {"epsilon": 1.0}.', kind="dict"
    )
    optimizer: str = parameter(default="adamw", sets="optimization.optimizer")
    learning_rate: float = parameter(
        default=defaults.LEARNING_RATE,
        sets="optimization.learning_rate",
        text='The learning rate; of "one_cycle" the largest.',
    )
    weight_decay: float = parameter(default=5e-2, sets="optimization.weight_decay")
    schedule: str = parameter(
        default="one_cycle",
        sets="optimization.schedule",
        text='The schedule of the learning rate; "plateau" needs `early_stopping`.',
    )
    clip_norm: float | None = parameter(
        default=1.0, sets="optimization.clip_norm", text="Maximum gradient norm; None does not clip."
    )
    batch_size: int = parameter(
        default=16,
        sets="training.batch_size",
        text="Sequences per batch, at most: batches are nearly equal, 50 sequences are 13 + 13 + 13 + 11.",
    )
    max_epochs: int | None = parameter(
        default=None,
        sets="training.num_epochs",
        text=f"Number of epochs; None for about {defaults.BATCHES:,} batches in all, but {defaults.EPOCHS[0]} to "
        f"{defaults.EPOCHS[1]} epochs.",
    )
    early_stopping: bool = parameter(
        default=False,
        text="Whether a part of the data is held out: training stops when its accuracy, or squared error, has not "
        "improved for `n_iter_no_change` epochs, and the weights of the best epoch are kept. By default all data is "
        "trained on, and the weights are those of the last epoch.",
    )
    validation_fraction: float = parameter(
        default=0.15, text="The part that is held out: at random, of all classes alike, or whole groups."
    )
    n_iter_no_change: int = parameter(
        default=20,
        sets="training.patience",
        text="Epochs without improvement before training stops, with `early_stopping`.",
    )
    channels_first: bool = parameter(
        default=False, text="Whether X is (n, D, T), and the arrays of a list (D, T_i), as in aeon and sktime."
    )
    warm_start: bool = parameter(
        default=False, text="Whether a further fit begins with the weights of the previous one."
    )
    random_state: int | np.random.RandomState | None = parameter(
        default=None,
        text="Random seed of initialization, order, dropout and split. The same int gives the same network bit for "
        "bit.",
        kind="int, RandomState instance or None",
    )
    device: str = parameter(
        default="auto", sets="training.device", text="Where the network is trained. It predicts on the CPU."
    )
    n_jobs: int | None = parameter(
        default=None, text="CPU threads of the training; None for one, -1 for as many as there are cores."
    )
    verbose: int = parameter(
        default=0, text="Whether a progress bar is shown, or a line per epoch where there is no terminal."
    )
