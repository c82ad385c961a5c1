"""What a run is: a task, a model, how it is optimised and for how long. The fields are the keys of a config file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gatelab import tasks
from gatelab.tasks import Task
from gatelab.training import build


class Section(BaseModel):
    """A part of a config: what is not a field of it is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def refuse(wrong: list[str]) -> None:
    """One error for all that is wrong, a line each: `key: why`."""
    if wrong:
        raise ValueError("\n".join(wrong))


class ModelSpec(Section):
    """The network."""

    cell: str = Field("gru", description="a cell of the library (`gatelab cells`), or FILE.py:NAME for one of your own")
    hidden_size: int = Field(128, ge=1, description="H, the units of a layer")
    num_layers: int = Field(1, ge=1, description="layers, one upon the other")
    bidirectional: bool = Field(False, description="read from both ends")
    residual: bool = Field(False, description="from the second layer on, add a layer's input to its output")
    dropout: float = Field(0.0, ge=0, lt=1, description="between layers, while training")
    head_dropout: float = Field(0.0, ge=0, lt=1, description="before the linear head, while training")
    read: Literal["last", "mean"] = Field(
        "last", description="what the head sees where there is one answer: the last state, or the mean over the steps"
    )
    init: Literal["torch", "xavier"] = Field(
        "torch", description="starting values: uniform ±1/√H, or Xavier W, orthogonal U and zero biases"
    )
    gate_bias: dict[str, float] = Field({}, description="starting values of single biases, as {z: 1.0}")
    chrono: int | None = Field(None, ge=2, description="spread the gates' time constants up to so many steps")
    freeze: tuple[str, ...] = Field((), description="parameters that are not learned, as [b.z, b.r]")
    freeze_at: float | None = Field(None, description="the value they are held at; without it, that of the start")
    options: dict[str, float | bool] = Field(
        {}, description="the cell's own numbers, as {epsilon: 1.0, learnable_epsilon: false}"
    )
    engine: Literal["auto", "fused", "native", "eager"] = Field("auto", description="what runs the cell")

    @model_validator(mode="after")
    def _can_be_built(self) -> ModelSpec:
        wrong = []
        for name in ("dropout", "residual"):
            if self.num_layers == 1 and getattr(self, name):
                wrong.append(f"{name}: acts between layers and does nothing with num_layers: 1; add some, or drop it")
        if self.freeze_at is not None and not self.freeze:
            wrong.append("freeze_at: given, and freeze is not: name the parameters to hold, as freeze: [b.z]")
        refuse([*wrong, *self._unknown_to_the_cell()])
        return self

    def _unknown_to_the_cell(self) -> Iterator[str]:
        """The cell itself knows its options, gates and parameters: a small layer is made with one after the other."""
        settings: dict[str, Any] = {}
        for name in ("cell", "options", "gate_bias", "chrono", "freeze"):
            try:
                with torch.random.fork_rng(devices=[]):  # its starting values are of no interest to anyone
                    build.layer(ModelSpec.model_construct(**settings, **{name: getattr(self, name)}), 1, 1)
                settings[name] = getattr(self, name)
            except ValueError as error:
                yield f"{name}: {error}"
                if name == "cell":
                    return


class OptimizationSpec(Section):
    """How the weights are moved."""

    optimizer: Literal["adam", "adamw", "sgd", "rmsprop"] = Field("adam", description="the rule")
    learning_rate: float = Field(1e-3, gt=0, description="of the start, after the warm-up")
    weight_decay: float = Field(0.0, ge=0, description="pull of the weights towards 0")
    momentum: float = Field(0.0, ge=0, lt=1, description="of sgd and rmsprop")
    clip_norm: float | None = Field(1.0, gt=0, description="longest gradient that is followed; null follows all")
    schedule: Literal["constant", "cosine", "step", "plateau"] = Field(
        "constant",
        description="of the learning rate: held, lowered along a cosine to final_learning_rate at the last epoch, "
        "times step_factor every step_epochs, or times step_factor after plateau_patience epochs without a better "
        "validation",
    )
    final_learning_rate: float = Field(0.0, ge=0, description="where cosine ends, and below which plateau does not go")
    step_epochs: int = Field(10, ge=1, description="epochs between two steps")
    step_factor: float = Field(0.1, gt=0, lt=1, description="what step and plateau multiply by")
    plateau_patience: int = Field(5, ge=1, description="epochs without improvement before plateau acts")
    warmup_steps: int = Field(0, ge=0, description="batches in which the learning rate grows from 0, in a line")

    @model_validator(mode="after")
    def _makes_sense(self) -> OptimizationSpec:
        wrong = []
        if self.momentum and self.optimizer not in ("sgd", "rmsprop"):
            wrong.append(f"momentum: for sgd and rmsprop; {self.optimizer} has its own: leave it out")
        if self.final_learning_rate > self.learning_rate:
            wrong.append(
                f"final_learning_rate: this is {self.final_learning_rate:g} and learning_rate {self.learning_rate:g}: "
                "expected the final one to be the smaller"
            )
        refuse(wrong)
        return self


class TrainingSpec(Section):
    """For how long, in what order, and when to stop."""

    num_epochs: int = Field(10, ge=1, description="times through the training data, at most")
    batch_size: int = Field(128, ge=1, description="examples in a batch")
    seed: int = Field(0, ge=0, lt=2**63, description="of starting values, order and dropout; the task has its own")
    loss: Literal["auto", "cross_entropy", "mse", "mae"] = Field(
        "auto", description="what is made small: auto is cross_entropy for classes and mse for numbers"
    )
    patience: int | None = Field(
        None, ge=1, description="stop after so many epochs without a better validation; null goes on to the end"
    )
    monitor: Literal["auto", "accuracy", "loss"] = Field(
        "auto", description="the validation metric that decides what is better: auto is accuracy for classes, else loss"
    )
    checkpoint_seconds: float = Field(60.0, gt=0, description="save at least so often, beside at each epoch")
    threads: int | None = Field(None, ge=1, description="processor threads; null leaves it to torch")


def _task(given: Any) -> Any:
    """A task, or its name with options in a word, or {name: mnist, order: pixels}."""
    if isinstance(given, str):
        return tasks.get(given)
    if isinstance(given, dict):
        options = dict(given)
        if not isinstance(name := options.pop("name", None), str):
            raise ValueError(f"a task needs a name, one of {', '.join(tasks.names())}")
        return tasks.get(name, **options)
    return given


def as_document(task: Task) -> dict[str, Any]:
    """A task as a config file has it: its name, and the options that are not at their defaults."""
    return {"name": task.name, **task.model_dump(mode="json", exclude_defaults=True)}


class RunSpec(Section):
    """One training run, to the last detail."""

    task: Annotated[Task, BeforeValidator(_task)] = Field(
        default_factory=lambda: tasks.get("digits"),
        description="what is learned: a name, or a name and options (`gatelab tasks`)",
    )
    model: ModelSpec = ModelSpec()
    optimization: OptimizationSpec = OptimizationSpec()
    training: TrainingSpec = TrainingSpec()

    @model_validator(mode="after")
    def _parts_agree(self) -> RunSpec:
        refuse([f"{key}: {message}" for key, message in disagreements(self.task, self.model, self.training).items()])
        return self

    def document(self) -> dict[str, Any]:
        """As a config file has it, every value in plain types."""
        return {**self.model_dump(mode="json", exclude={"task"}), "task": as_document(self.task)}


def disagreements(task: Task, model: ModelSpec, training: TrainingSpec) -> dict[str, str]:
    """What cannot be meant: the key that is wrong beside the others, and why."""
    wrong = {}
    kind = "classes" if task.classes is not None else "numbers"
    if model.bidirectional and task.forecasts:
        wrong["model.bidirectional"] = f"read from the end, the task {task.name!r} gives its own answers away"
    if model.read != "last" and task.per_step:
        wrong["model.read"] = f"the task {task.name!r} has an answer at every step: there is nothing to choose"
    if (training.loss == "cross_entropy") != (kind == "classes") and training.loss != "auto":
        wrong["training.loss"] = f"{training.loss} does not fit the task {task.name!r}, whose answers are {kind}"
    if training.monitor == "accuracy" and kind == "numbers":
        wrong["training.monitor"] = f"the task {task.name!r} asks for numbers, which have no accuracy; use loss"
    return wrong
