"""What a task is: options, three parts of data, and what they mean."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from gatelab.errors import invalid
from gatelab.tasks.baseline import Baseline, majority_class, training_mean
from gatelab.tasks.examples import Examples, Parts, inside
from gatelab.tasks.preparation import Numbers, Preparation
from gatelab.tasks.series import Ending, Scaling

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from typing_extensions import Self


class Task(BaseModel):
    """Sequences to learn. A subclass is one task: its docstring says what it is, its fields are its options.

    The data is made or read on first use, and the same options yield the same data on every machine.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ignored_types=(cached_property,))

    name: ClassVar[str]
    source: ClassVar[str]  # where it comes from, and its licence
    rule: ClassVar[str]  # how it is divided into training, validation and test
    per_step: ClassVar[bool] = False  # whether there is an answer at every step, or one at the end
    forecasts: ClassVar[bool] = False  # whether the answer at a step is the input of the next
    from_disk: ClassVar[bool] = False  # whether it reads files, which may be elsewhere or gone one day

    seed: int = Field(0, ge=0, description="of everything drawn by chance: the division, the noise, made-up data")

    @classmethod
    def make(cls, options: dict[str, Any]) -> Self:
        """The task with these options, or all that is wrong with them in one error."""
        try:
            return cls.model_validate(options)
        except ValidationError as error:
            raise invalid(f"task {cls.name!r}", error, cls.model_fields) from None

    def options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).model_fields}

    def with_options(self, **changes: Any) -> Self:
        """The same task with other options. (A plain copy would take the loaded data along.)"""
        return self.make({**self.options(), **changes})

    def reopened(self, preparation: Preparation, parts: Parts | None = None) -> Self:
        """The same task as a run recorded it: what it means is known without its data, and of that a few examples."""
        made = self.with_options()
        made.__dict__["preparation"] = preparation  # where the cached properties would be
        if parts is not None:
            made.__dict__["parts"] = parts
        return made

    def looked_for_in(self, folder: Path | None) -> Self:
        """The same task with its data in that folder, if it is one that looks for data."""
        return (
            self if folder is None or "data_dir" not in type(self).model_fields else self.with_options(data_dir=folder)
        )

    def __eq__(self, other: object) -> bool:
        """Tasks are equal if their options are, whether or not their data is loaded."""
        return type(self) is type(other) and isinstance(other, Task) and self.options() == other.options()

    def __hash__(self) -> int:
        return hash((type(self), *self.options().values()))

    # What a model has to fit.

    @property
    def input_size(self) -> int:
        """D: the numbers in one step."""
        raise NotImplementedError

    @property
    def steps(self) -> int:
        """T: the steps of a sequence, of the longest one where they differ."""
        raise NotImplementedError

    @property
    def classes(self) -> tuple[str, ...] | None:
        """What the answers are called, or None where an answer is a number."""
        return None

    @property
    def output_size(self) -> int:
        """The numbers in one answer: a score for each class, or the values themselves."""
        return len(self.classes) if self.classes is not None else 1

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of examples to train on, to validate and to test with."""
        raise NotImplementedError

    @property
    def scored_steps(self) -> slice:
        """Where every step has an answer: the steps by which it is judged."""
        return slice(None)

    def scored(self, targets: Tensor, lengths: Tensor | None) -> Tensor:
        """Which targets count in the metrics: (B,), or (B, T) where there is one at every step."""
        if not self.per_step:
            return torch.ones(len(targets), dtype=torch.bool)
        counts = torch.zeros(targets.shape[:2], dtype=torch.bool)
        counts[:, self.scored_steps] = True
        return counts & inside(targets, lengths)

    def counted(self, values: Tensor, lengths: Tensor | None) -> Tensor:
        """Of targets or predictions those that count in the metrics, (M, …)."""
        return values[self.scored(values, lengths)]

    @property
    def target_scaling(self) -> Scaling | None:
        """How answers that are numbers were scaled; None where they are as they were."""
        return None

    @property
    def target_names(self) -> tuple[str, ...]:
        """What the numbers of a target are called."""
        columns = self.preparation.columns if self.forecasts else ()
        return columns[: self.output_size] or (
            ("target",) if self.output_size == 1 else tuple(f"target {i + 1}" for i in range(self.output_size))
        )

    @cached_property
    def preparation(self) -> Preparation:
        """All that lies between raw sequences and a model, and between its output and an answer."""
        return Preparation(**self._prepared())

    def _prepared(self) -> dict[str, Any]:
        """The facts that every task has; some have more."""
        scaling = self.target_scaling
        return {
            "kind": "numbers",
            "input_size": self.input_size,
            "steps": self.steps,
            "per_step": self.per_step,
            "forecasts": self.forecasts,
            "classes": self.classes,
            "output_size": self.output_size,
            "target_scaling": scaling and Numbers.of(scaling),
            "scored_from": self.scored_steps.start,
            "scored_to": self.scored_steps.stop,
        }

    def ending(self) -> Ending | None:
        """The last steps of a series in its own units, from which it is continued; None where there is no series."""
        return None

    # The data.

    def load(self) -> Parts:
        """Make or read the data; `parts` keeps it."""
        raise NotImplementedError

    @cached_property
    def parts(self) -> Parts:
        return self.load()

    @property
    def train(self) -> Examples:
        return self.parts.train

    @property
    def validation(self) -> Examples:
        return self.parts.validation

    @property
    def test(self) -> Examples:
        return self.parts.test

    @property
    def own_path(self) -> Path | None:
        """The user's own file or folder that it reads; None for data that cannot change."""
        return None

    def is_here(self) -> bool:
        """Whether the data can be had without a download."""
        return True

    # What it says of itself.

    def baseline(self) -> Baseline:
        """The trivial baseline."""
        return training_mean(self) if self.classes is None else majority_class(self)

    def unchanged(self, x: Tensor) -> Tensor:
        """For series: what the target is at each step of the input (B, T, D) if the series stays where it is."""
        return x[..., : self.output_size]

    def remarks(self) -> dict[str, str]:
        """What else there is to say, by name."""
        return {}

    def picture(self) -> Figure:
        """A few examples as a person can read them."""
        raise NotImplementedError

    def describe(self) -> Description:
        """All that there is to know; what only the data can tell is left out where the data is not here."""
        return Description(
            name=self.name,
            what=summary(type(self)),
            steps=self.steps,
            input_size=self.input_size,
            classes=self.classes,
            output_size=self.output_size,
            per_step=self.per_step,
            sizes=self.sizes,
            rule=type(self).rule,
            source=type(self).source,
            baseline=self.baseline() if self.is_here() else None,
            options=self.options(),
            remarks=self.remarks(),
        )


@dataclass(frozen=True)
class Description:
    """What a task is, in facts."""

    name: str
    what: str
    steps: int
    input_size: int
    classes: tuple[str, ...] | None
    output_size: int
    per_step: bool
    sizes: tuple[int, int, int]
    rule: str
    source: str
    baseline: Baseline | None
    options: dict[str, Any]
    remarks: dict[str, str]

    @property
    def answer(self) -> str:
        where = "at every step" if self.per_step else "at the end"
        if self.classes is None:
            return f"{self.output_size} number{'s' if self.output_size > 1 else ''} {where}"
        listed = ", ".join(self.classes[:10]) + (", …" if len(self.classes) > 10 else "")
        return f"one of {len(self.classes)} classes {where}: {listed}"

    def facts(self) -> Iterator[tuple[str, str]]:
        yield "input", f"{self.steps:,} steps of {self.input_size} number{'s' if self.input_size > 1 else ''}"
        yield "answer", self.answer
        yield "examples", "{:,} to train, {:,} to validate, {:,} to test".format(*self.sizes)
        yield "division", self.rule
        yield from self.remarks.items()
        if self.baseline is not None:
            yield "without learning", str(self.baseline)
        yield "source", self.source

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.facts())
        return "\n".join([f"{self.name}: {self.what}", *(f"  {name:<{width}}  {fact}" for name, fact in self.facts())])


def summary(task: type[Task]) -> str:
    """The first sentence of a task's docstring."""
    first = (inspect.getdoc(task) or "").partition("\n\n")[0]
    return " ".join(first.split())
