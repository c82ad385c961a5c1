"""The base class of tasks: options, training, validation and test set, and what the data means."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from torch import Tensor

from gatelab import memory
from gatelab.data.series import Series
from gatelab.errors import invalid
from gatelab.formatting import counted, visible
from gatelab.numerals import before_validation
from gatelab.tasks.baseline import Baseline, majority_class, training_mean
from gatelab.tasks.examples import Examples, Parts, inside
from gatelab.tasks.preparation import Preparation
from gatelab.tasks.scaling import Scaling

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from typing_extensions import Self


class Task(BaseModel):
    """Sequences with targets. A subclass is one task: its docstring describes it, its fields are its options.

    The data is generated or read on first use. The same options give the same data on every machine.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ignored_types=(cached_property,))

    name: ClassVar[str]
    source: ClassVar[str] = "your own code"  # where the data comes from, and its licence
    split_rule: ClassVar[str] = "as its code does it"  # how the data is split into training, validation and test set
    synthetic: ClassVar[bool] = False  # whether the data is generated from the options
    per_step: ClassVar[bool] = False  # whether there is a target at every step, or one per sequence
    forecasts: ClassVar[bool] = False  # whether the target at a step is the input at the next step
    from_disk: ClassVar[bool] = False  # whether the data is read from files, which may be moved or deleted

    in_memory: ClassVar[bool] = False  # whether only this process has the data
    default_bptt: ClassVar[int | None] = None  # steps of truncated back-propagation, for tasks that need it

    seed: int = Field(0, ge=0, lt=2**63, description="random seed of the data: split, noise and synthetic examples")

    @field_validator("*", mode="before")
    @classmethod
    def _as_written(cls, value: Any, info: ValidationInfo) -> Any:
        return before_validation(value, cls.model_fields[info.field_name or ""].annotation)

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Name a class of the user's by its file, as it is named on the command line; its runs keep examples."""
        super().__pydantic_init_subclass__(**options)
        if not cls.__module__.startswith("gatelab.") and "name" not in vars(cls):
            try:
                file = inspect.getfile(cls)
            except (OSError, TypeError):
                file = "interactive.py"
            cls.name, cls.from_disk = f"{file}:{cls.__name__}", True

    @classmethod
    def make(cls, options: dict[str, Any]) -> Self:
        """Create the task from its options; one error lists all invalid options."""
        try:
            return cls.model_validate(options)
        except ValidationError as error:
            raise invalid(f"task {cls.name!r}", error, cls.model_fields) from None

    def options(self) -> dict[str, Any]:
        """All options by name, including defaults."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def with_options(self, **changes: Any) -> Self:
        """The same task with some options changed. The data is loaded anew; a plain copy would keep it."""
        return self.make({**self.options(), **changes})

    def reopened(self, preparation: Preparation, parts: Parts | None = None) -> Self:
        """The task as a run recorded it: its preparation and a few examples replace its data."""
        task = self.with_options()
        task.__dict__["preparation"] = preparation  # fills the cached properties
        if parts is not None:
            task.__dict__["parts"] = parts
        return task

    def with_data_dir(self, folder: Path | None) -> Self:
        """The same task with this data directory; tasks without the option `data_dir` are returned unchanged."""
        if folder is None or "data_dir" not in type(self).model_fields:
            return self
        return self.with_options(data_dir=folder)

    def __eq__(self, other: object) -> bool:
        """Compare the options; whether the data is loaded does not matter."""
        return type(self) is type(other) and isinstance(other, Task) and self.options() == other.options()

    def __hash__(self) -> int:
        return hash((type(self), *self.options().values()))

    @property
    def short_name(self) -> str:
        """The name for titles and file names: without the folder of the user's file."""
        return Path(self.name).name

    # Shapes.

    @property
    def input_size(self) -> int:
        """D: the number of features per step, or the size of the vocabulary."""
        raise NotImplementedError

    @property
    def steps(self) -> int:
        """T: the number of steps of the longest sequence."""
        raise NotImplementedError

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The text of each token; empty if the inputs are numbers."""
        return ()

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The class names; None for regression."""
        return None

    @property
    def output_size(self) -> int:
        """The size of the model's output: the number of classes, or of target values."""
        return len(self.classes) if self.classes is not None else 1

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of training, validation and test examples."""
        raise NotImplementedError

    @property
    def scored_steps(self) -> slice:
        """The steps that count in the metrics, for tasks with a target at every step."""
        return slice(None)

    def scored(self, targets: Tensor, lengths: Tensor | None) -> Tensor:
        """The mask of targets that count in the metrics: (B,), or (B, T) with a target at every step."""
        if not self.per_step:
            return torch.ones(len(targets), dtype=torch.bool, device=targets.device)
        counts = torch.zeros(targets.shape[:2], dtype=torch.bool, device=targets.device)
        counts[:, self.scored_steps] = True
        return counts & inside(targets, lengths)

    def counted(self, values: Tensor, lengths: Tensor | None) -> Tensor:
        """The targets or predictions that count in the metrics, (M, …)."""
        return values[self.scored(values, lengths)]

    @property
    def bits_metric(self) -> str | None:
        """For text: the name of the cross-entropy in bits, bits_per_character, by which models are compared."""
        return None

    @property
    def target_scaling(self) -> Scaling | None:
        """The scaling of regression targets; None if they are not scaled."""
        return None

    @property
    def target_names(self) -> tuple[str, ...]:
        """The names of the target values."""
        columns = self.preparation.columns if self.forecasts else ()
        return columns[: self.output_size] or (
            ("target",) if self.output_size == 1 else tuple(f"target {i + 1}" for i in range(self.output_size))
        )

    @cached_property
    def preparation(self) -> Preparation:
        """The preprocessing of raw sequences, and the decoding of the model's output."""
        return Preparation(**self._preparation_fields())

    def _preparation_fields(self) -> dict[str, Any]:
        """The fields that every task has; subclasses add theirs."""
        return {
            "kind": "tokens" if self.vocabulary else "numbers",
            "vocabulary": self.vocabulary,
            "input_size": self.input_size,
            "steps": self.steps,
            "per_step": self.per_step,
            "forecasts": self.forecasts,
            "classes": self.classes,
            "output_size": self.output_size,
            "target_scaling": self.target_scaling,
            "scored_from": self.scored_steps.start,
            "scored_to": self.scored_steps.stop,
        }

    def ending(self, steps: int | None = None) -> Series | None:
        """The last window of a series in its original units, where a forecast starts, or as many steps; None
        for other tasks.
        """
        return None

    # The data.

    def load(self) -> Parts:
        """Generate or read the data; `parts` caches it."""
        raise NotImplementedError

    def data_bytes(self) -> int:
        """The memory that loading takes, estimated from the options; 0 if it follows from files, whose readers
        estimate it.
        """
        return 0

    def refuse_size(self) -> None:
        """Raise an error if the data does not fit into memory, before anything is generated."""
        if needed := self.data_bytes():
            memory.refuse(needed, f"the data of the task {self.name!r}", f"make {self._outsized()} smaller")

    def _outsized(self) -> str:
        """The option that is largest in relation to its default, with its value."""
        fields = type(self).model_fields
        options = {n: v for n, v in self.options().items() if isinstance(v, int) and v is not True and n != "seed"}
        name = max(options, key=lambda n: options[n] / (fields[n].default or 1), default="")
        return f"its option {name} ({options[name]:,})" if name else "it"

    @cached_property
    def parts(self) -> Parts:
        """The training, validation and test set, loaded on first use."""
        self.refuse_size()
        return self.load()

    def streams(self) -> Parts | None:
        """For a series or a text: return each part as one long sequence (1, S, …); None for sequences."""
        return None

    def in_streams(self) -> Self:
        """The same task with one long sequence in each part; tasks of sequences are returned unchanged."""
        if (parts := self.streams()) is None:
            return self
        task = self.model_copy()  # with the data that is loaded
        task.__dict__["parts"] = parts
        return task

    @property
    def train(self) -> Examples:
        """The training set."""
        return self.parts.train

    @property
    def validation(self) -> Examples:
        """The validation set."""
        return self.parts.validation

    @property
    def test(self) -> Examples:
        """The test set."""
        return self.parts.test

    @property
    def user_path(self) -> Path | None:
        """The user's file or folder; None for published or synthetic data."""
        return None

    def is_here(self) -> bool:
        """Whether the data is available without a download."""
        return True

    # Description.

    def baseline(self) -> Baseline:
        """The trivial baseline: the training mean for regression, the majority class for classification."""
        return training_mean(self) if self.classes is None else majority_class(self)

    def persistence_forecast(self, x: Tensor) -> Tensor:
        """For series: the targets (B, T, K) under which the series keeps its current value, given inputs (B, T, D)."""
        return x[..., : self.output_size]

    def split_text(self) -> str:
        """How the data is split into training, validation and test set."""
        return type(self).split_rule

    def remarks(self) -> dict[str, str]:
        """Further facts of the description, by name."""
        return {}

    def picture(self) -> Figure:
        """Draw a few training examples: tokens as letters, classes one by one, or numbers with their targets."""
        from gatelab.tasks import pictures  # which imports this module

        if self.vocabulary and self.classes is not None:
            return pictures.strips(self)
        names = tuple(f"input {i + 1}" for i in range(self.input_size))
        return pictures.windows(self, names) if self.classes is None else pictures.signals(self)

    def describe(self) -> Description:
        """The description; without the data it has no baseline."""
        return Description(
            name=self.name,
            summary=summary(type(self)),
            steps=self.steps,
            input_size=self.input_size,
            vocabulary=self.vocabulary,
            classes=self.classes,
            output_size=self.output_size,
            per_step=self.per_step,
            sizes=self.sizes,
            split=self.split_text(),
            source=type(self).source,
            baseline=self.baseline() if self.is_here() else None,
            options=self.options(),
            remarks=self.remarks(),
        )


@dataclass(frozen=True)
class Description:
    """The facts about a task."""

    name: str
    summary: str
    steps: int
    input_size: int
    vocabulary: tuple[str, ...]
    classes: tuple[str, ...] | None
    output_size: int
    per_step: bool
    sizes: tuple[int, int, int]
    split: str
    source: str
    baseline: Baseline | None
    options: dict[str, Any]
    remarks: dict[str, str]
    varies: bool = False  # whether sequences are of unequal length; `steps` is the longest

    @property
    def target(self) -> str:
        """The target in words: a label or values, per step or per sequence."""
        scope = "step" if self.per_step else "sequence"
        if self.classes is None:
            return f"{counted(self.output_size, 'value')} per {scope}"
        names = ", ".join(map(visible, self.classes[:10])) + (", …" if len(self.classes) > 10 else "")
        return f"one label per {scope}, {len(self.classes)} classes: {names}"

    @property
    def input(self) -> str:
        """The input in words: numbers or tokens."""
        steps = ("up to " if self.varies else "") + counted(self.steps, "step")
        if self.vocabulary:
            return f"{steps}, each one of {len(self.vocabulary):,} tokens"
        return f"{steps} of {counted(self.input_size, 'feature')}"

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield the facts by name, as terminals list them."""
        yield "input", self.input
        yield "target", self.target
        yield "examples", "{:,} training, {:,} validation, {:,} test".format(*self.sizes)
        yield "split", self.split
        yield from self.remarks.items()
        if self.baseline is not None:
            yield "trivial baseline", str(self.baseline)
        yield "source", self.source

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.facts())
        return "\n".join(
            [f"{self.name}: {self.summary}", *(f"  {name:<{width}}  {fact}" for name, fact in self.facts())]
        )


def summary(task: type[Task]) -> str:
    """The first paragraph of a task's docstring."""
    first = (inspect.getdoc(task) or "").partition("\n\n")[0]
    return " ".join(first.split())
