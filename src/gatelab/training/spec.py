"""The specification of a run: task, model, optimization, training. The fields are the keys of a config file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from gatelab import cells, tasks
from gatelab.cells import Choice
from gatelab.engine.choose import check as check_engine
from gatelab.engine.recurrent import resolve_options
from gatelab.engine.settings import check_chrono, check_frozen, check_gate_bias
from gatelab.errors import GatelabError, invalid, unknown
from gatelab.formatting import listed
from gatelab.lang import Cell, Option, hold
from gatelab.numerals import before_validation
from gatelab.tasks import Task
from gatelab.training import optimizers

if TYPE_CHECKING:
    from typing_extensions import Self

RECORDS = ("gradients",)
EMBEDDING = 64  # the default size of embeddings, and the largest vocabulary that is read as one-hot vectors


class Conflict(NamedTuple):
    """Values that are valid by themselves and not together."""

    keys: tuple[str, ...]  # the one that is wrong beside the others, then the others
    why: str


class Section(BaseModel):
    """A section of a config: unknown keys and contradictory values are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _as_written(cls, value: Any, info: ValidationInfo) -> Any:
        return before_validation(value, cls.model_fields[info.field_name or ""].annotation)

    @model_validator(mode="after")
    def _no_conflicts(self, info: ValidationInfo) -> Self:
        if not (info.context or {}).get("conflicts_later"):
            refuse([f"{conflict.keys[0]}: {conflict.why}" for conflict in self.conflicts()])
        return self

    def conflicts(self) -> Iterator[Conflict]:
        """Values that do not fit each other."""
        yield from ()

    def document(self) -> dict[str, Any]:
        """As a config file has it, in plain types."""
        return self.model_dump(mode="json")


S = TypeVar("S", bound=Section)


def made(section: type[S], values: dict[str, Any], source: str) -> S:
    """A section, or a whole spec, from values that may be wrong; unlike the constructor's, its error is in words, and
    names their source.
    """
    try:
        return section.model_validate(values)
    except ValidationError as error:
        raise invalid(source, error, section.model_fields) from None


def refuse(wrong: list[str]) -> None:
    """One error for all problems, a line each: `key: why`."""
    if wrong:
        raise GatelabError("\n".join(wrong))


# A config and the document of a spec have its name; the equations behind it are carried along.
ChosenCell = Annotated[InstanceOf[Choice], BeforeValidator(cells.choose), PlainSerializer(str)]


class ModelSpec(Section):
    """The network."""

    cell: ChosenCell = Field(
        cells.choose("gru"),
        description="a cell of the library (`gatelab cells`), or FILE.py:NAME for one of your own",
    )
    hidden_size: int = Field(128, ge=1, lt=2**31, description="H, hidden units per layer")
    num_layers: int = Field(1, ge=1, le=10_000, description="L, stacked layers")
    bidirectional: bool = Field(False, description="add a second direction that reads from the end")
    residual: bool = Field(False, description="residual connections from the second layer on")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout between layers")
    head_dropout: float = Field(0.0, ge=0, lt=1, description="dropout before the linear head")
    pool: Literal["last", "mean", "max", "mean+max", "attention"] = Field(
        "last",
        description="for one target per sequence, what the head reads: the last output, the mean or maximum over the "
        "steps or both, or a mean with learned weights",
    )
    stem: Literal["none", "conv"] = Field(
        "none",
        description="for one target per sequence: conv puts two strided convolutions before the layers, which shorten "
        "sequences to a quarter",
    )
    embedding_size: int | None = Field(
        None,
        ge=0,
        description="for tokens: size of their learned embeddings, 0 for one-hot vectors; by default "
        f"{EMBEDDING} for vocabularies of more than {EMBEDDING} tokens, otherwise one-hot",
    )
    init: Literal["cell", "torch", "xavier"] = Field(
        "cell",
        description="initialization: the cell's own values, uniform ±1/√H where it has none; uniform ±1/√H; or "
        "Xavier W, orthogonal U and zero biases",
    )
    gate_bias: dict[str, float] = Field({}, description="initial values of single biases, as {z: 1.0}")
    chrono: int | None = Field(
        None, ge=2, lt=2**31, description="chrono initialization: time constants spread up to this number of steps"
    )
    freeze: tuple[str, ...] = Field((), description="parameters that are not trained, as [b.z, b.r]")
    freeze_at: float | None = Field(None, description="the value they are frozen at; by default their initial values")
    remove: dict[str, float] = Field({}, description="gates that are replaced by constants, as {r: 1.0}")
    options: dict[str, Any] = Field(
        {}, description="hyperparameters of the cell, as {epsilon: 1.0, learnable_epsilon: false}"
    )
    engine: Literal["auto", "fused", "native", "compiled", "eager"] = Field(
        "auto", description="the engine that runs the cell"
    )

    def equations(self) -> Cell:
        """The cell as it will run, without the removed gates."""
        return hold(self.cell.cell, self.remove)

    def self_contained(self) -> dict[str, Any]:
        """The document with the equations in place of the cell's name: its reader needs no file of the user's."""
        return {**self.document(), "cell": self.cell.document()}

    def embedding(self, task: Task) -> int | None:
        """The size of embeddings for this task; None if it has no tokens, or for one-hot vectors."""
        if self.embedding_size is not None:
            return self.embedding_size or None
        return EMBEDDING if len(task.vocabulary) > EMBEDDING else None

    def conflicts(self) -> Iterator[Conflict]:
        """Settings without effect, and settings that do not fit the cell."""
        for name in ("dropout", "residual"):
            if self.num_layers == 1 and getattr(self, name):
                yield Conflict((name, "num_layers"), "acts between layers and does nothing with num_layers: 1")
        if self.freeze_at is not None and not self.freeze:
            yield Conflict(
                ("freeze_at", "freeze"), "this needs freeze: name the parameters to freeze, as freeze: [b.z]"
            )
        yield from self._conflicts_with_cell()

    def _conflicts_with_cell(self) -> Iterator[Conflict]:
        """What does not fit the equations; a function of them and of the settings, without building a layer."""
        cell, options = self.cell.cell, dict[str, Option]()

        def removed() -> None:
            nonlocal cell
            cell = self.equations()

        def resolved() -> None:
            nonlocal options
            options = resolve_options(cell, self.options)

        checks: dict[str, Callable[[], Any]] = {
            "cell": lambda: resolve_options(cell, {}),
            "remove": removed,
            "options": resolved,
            "gate_bias": lambda: check_gate_bias(cell, self.gate_bias),
            "chrono": lambda: check_chrono(cell, self.chrono, self.gate_bias) if self.chrono is not None else None,
            "freeze": lambda: check_frozen(cell, options, self.freeze, self.freeze_at),
            "engine": lambda: check_engine(self.engine, cell),
        }
        for name, check in checks.items():
            try:
                check()
            except ValueError as error:
                yield Conflict((name, "cell"), str(error))
                if name == "cell":
                    return


class OptimizationSpec(Section):
    """The optimizer and its schedule."""

    optimizer: optimizers.Name = Field("adam", description="the optimizer")
    learning_rate: float = Field(1e-3, gt=0, description="initial learning rate, after the warm-up")
    weight_decay: float = Field(0.0, ge=0, description="weight decay")
    momentum: float = Field(0.0, ge=0, lt=1, description="momentum of sgd and rmsprop")
    clip_norm: float | None = Field(1.0, gt=0, description="maximum gradient norm; null does not clip")
    schedule: Literal["constant", "cosine", "one_cycle", "step", "plateau"] = Field(
        "constant",
        description="of the learning rate: constant, cosine decay to final_learning_rate, one cycle (a rise over 30 % "
        "of the batches, then a decay to almost 0; momentum, or the first beta of Adam, is 0.95, at the peak 0.85), "
        "times step_factor every step_epochs, or times step_factor after plateau_patience epochs without improvement "
        "in validation",
    )
    final_learning_rate: float = Field(0.0, ge=0, description="end of the cosine decay, and minimum of plateau")
    step_epochs: int = Field(10, ge=1, lt=2**31, description="epochs between steps")
    step_factor: float = Field(0.1, gt=0, lt=1, description="factor of step and plateau")
    plateau_patience: int = Field(5, ge=1, lt=2**31, description="epochs without improvement before plateau acts")
    warmup_steps: int = Field(0, ge=0, lt=2**63, description="batches of linear warm-up of the learning rate")

    def conflicts(self) -> Iterator[Conflict]:
        """Settings that the optimizer or the schedule does not have."""
        takers: list[str] = [name for name, rule in optimizers.OPTIMIZERS.items() if rule.has_momentum]
        if self.momentum and self.optimizer not in takers:
            why = f"this is for {listed(takers)}; {self.optimizer} has its own: leave it out"
            yield Conflict(("momentum", "optimizer"), why)
        elif self.momentum and self.schedule == "one_cycle":
            yield Conflict(("momentum", "schedule"), "one_cycle has a momentum of its own: leave it out")
        if self.final_learning_rate > self.learning_rate:
            why = f"this is {self.final_learning_rate:g}, expected no more than learning_rate, {self.learning_rate:g}"
            yield Conflict(("final_learning_rate", "learning_rate"), why)


class TrainingSpec(Section):
    """Epochs, batches, seed, early stopping."""

    num_epochs: int = Field(10, ge=1, lt=2**31, description="maximum number of epochs")
    batch_size: int = Field(128, ge=1, lt=2**31, description="examples per batch")
    bucket_by_length: bool = Field(
        False, description="make batches of sequences of similar length: less padding, faster, still shuffled"
    )
    bptt: int | None = Field(
        None,
        ge=1,
        description="truncated back-propagation: steps per chunk; the state is carried from chunk to chunk, the "
        "gradient is not. A series or text is read in order, in batch_size places at once. null: whole sequences; 100 "
        "for text",
    )
    seed: int = Field(
        0, ge=0, lt=2**63, description="random seed of initialization, order and dropout; the task has its own"
    )
    loss: Literal["auto", "cross_entropy", "mse", "mae"] = Field(
        "auto", description="training loss: auto is cross_entropy for classes and mse for numbers"
    )
    label_smoothing: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="of classes, in training only: the part of each target that is spread evenly over all classes",
    )
    patience: int | None = Field(
        None,
        ge=1,
        lt=2**31,
        description="early stopping after this number of epochs without improvement in validation; null never stops",
    )
    monitor: Literal["auto", "accuracy", "loss"] = Field(
        "auto",
        description="validation metric that selects the weights: auto is accuracy for classes, else loss",
    )
    keep: Literal["best", "last"] = Field(
        "best",
        description="the weights that are kept: those of the best validation epoch, or of the last one, for which no "
        "validation set is needed",
    )
    test: bool = Field(True, description="evaluate the kept weights on the test set; false for a trial of a search")
    checkpoint: Literal["epoch", "end", "never"] = Field(
        "epoch",
        description="when everything that is needed to resume is saved: after every epoch, or at the end, in either "
        "case also after checkpoint_seconds; or never, so that an interrupted run begins again",
    )
    checkpoint_seconds: float = Field(60.0, gt=0, description="longest time between checkpoints")
    threads: int | None = Field(
        None, ge=1, le=1024, description="CPU threads; null for as many as there are idle cores at the start"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "auto",
        description="where the model is trained: auto is cuda if torch finds it, else mps, else cpu; with the engine "
        "fused it is cpu",
    )
    record: tuple[str, ...] = Field(
        (),
        description="what to record every epoch beside the metrics, as [gradients]: gradient norms by step",
    )

    @field_validator("record", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    def chunk_length(self, task: Task) -> int | None:
        """The steps per chunk of truncated back-propagation; None for whole sequences."""
        return self.bptt if self.bptt is not None else task.default_bptt

    def conflicts(self) -> Iterator[Conflict]:
        """Records that do not exist."""
        for name in self.record:
            if name not in RECORDS:
                yield Conflict(("record",), str(unknown("record", name, RECORDS)))


def name_and_options(value: Any) -> tuple[str, dict[str, Any]]:
    """A task as a config file has it: in one word, mnist:order=pixels, or as {name: mnist, order: pixels}."""
    if isinstance(value, str):
        return tasks.parse(value)
    options = dict(value) if isinstance(value, dict) else {}
    if not isinstance(name := options.pop("name", None), str):
        raise GatelabError(f"a task needs a name, one of {', '.join(tasks.names())}")
    return name, options


def _task(value: Any) -> Any:
    if isinstance(value, Task):
        return value
    name, options = name_and_options(value)
    return tasks.get(name, **options)


def _document(task: Task) -> dict[str, Any]:
    """Its name, and the options that differ from their defaults."""
    return {"name": task.name, **task.model_dump(mode="json", exclude_defaults=True)}


ConfiguredTask = Annotated[Task, BeforeValidator(_task), PlainSerializer(_document)]


class RunSpec(Section):
    """One training run."""

    task: ConfiguredTask = Field(
        default_factory=lambda: tasks.get("digits"),
        description="the task: a name, or a name and options (`gatelab tasks`)",
    )
    model: ModelSpec = ModelSpec()
    optimization: OptimizationSpec = OptimizationSpec()
    training: TrainingSpec = TrainingSpec()

    def conflicts(self) -> Iterator[Conflict]:
        """Conflicts between sections."""
        return disagreements(self.task, self.model, self.training)

    def self_contained(self) -> dict[str, Any]:
        """The document with the equations in place of the cell's name: its reader needs no file of the user's."""
        return {**self.document(), "model": self.model.self_contained()}


def disagreements(task: Task, model: ModelSpec, training: TrainingSpec) -> Iterator[Conflict]:
    """Conflicts between sections."""
    kind = "classes" if task.classes is not None else "numbers"
    if model.bidirectional and task.forecasts:
        why = f"a backward direction would see the targets of the task {task.name!r}: leave it out"
        yield Conflict(("model.bidirectional", "task"), why)
    for name, setting, default in (("pool", model.pool, "last"), ("stem", model.stem, "none")):
        if setting != default and task.per_step:
            why = f"the task {task.name!r} has a target at every step: leave it out"
            yield Conflict((f"model.{name}", "task"), why)
    if model.stem != "none" and "gradients" in training.record:
        why = "the layers after a stem read other steps than those of the data: leave gradients out"
        yield Conflict(("training.record", "model.stem"), why)
    if training.chunk_length(task) is not None:
        yield from _conflicts_of_chunks(task, model)
    if model.embedding_size is not None and not task.vocabulary:
        why = f"this is for tokens, and the inputs of the task {task.name!r} are numbers: leave it out"
        yield Conflict(("model.embedding_size", "task"), why)
    if (training.loss == "cross_entropy") != (kind == "classes") and training.loss != "auto":
        why = f"{training.loss} does not fit the task {task.name!r}, whose targets are {kind}"
        yield Conflict(("training.loss", "task"), why)
    if training.label_smoothing and kind == "numbers":
        why = f"the targets of the task {task.name!r} are numbers, which have no labels to smooth: leave it out"
        yield Conflict(("training.label_smoothing", "task"), why)
    if model.engine == "fused" and training.device in ("cuda", "mps"):
        why = f"this is {training.device}, and model.engine is fused, which runs on the CPU: change one of them"
        yield Conflict(("training.device", "model.engine"), why)
    if training.monitor == "accuracy" and kind == "numbers":
        why = f"the targets of the task {task.name!r} are numbers, which have no accuracy: use loss"
        yield Conflict(("training.monitor", "task"), why)


def _conflicts_of_chunks(task: Task, model: ModelSpec) -> Iterator[Conflict]:
    """What does not go with truncated back-propagation."""
    if not task.per_step:
        why = f"the task {task.name!r} has one target per sequence, which early chunks never see: leave it out"
        yield Conflict(("training.bptt", "task"), why)
    elif task.scored_steps != slice(None):
        why = f"the task {task.name!r} scores the last steps of whole sequences only: leave it out"
        yield Conflict(("training.bptt", "task"), why)
    if model.bidirectional and not task.forecasts:
        why = "a backward direction reads from the end, and truncated back-propagation from the start: leave it out"
        yield Conflict(("model.bidirectional", "task"), why)
