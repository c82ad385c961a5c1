"""A trained model, loaded from a run directory."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from scipy.special import softmax

from gatelab.errors import GatelabError
from gatelab.formatting import counted, named, visible
from gatelab.lang import Cell
from gatelab.models import Model, StepPredictor
from gatelab.training import Run, Trained
from gatelab.training.evaluation import EVALUATED_AT_ONCE, STREAM_STEPS
from gatelab.training.process import denormals_flushed
from gatelab.training.run import no_run
from gatelab.use import inputs

if TYPE_CHECKING:
    from typing_extensions import Self

    from gatelab.data.sequences import Sequences
    from gatelab.engine.recurrent import State
    from gatelab.use.streaming import StreamState

ArrayOrList = np.ndarray | list[np.ndarray]


class TrainedModel:
    """The model of a run with the weights of its best epoch. Inputs and predictions are in the units of the data.

    X is one sequence (T, D), several (N, T, D) with `lengths` if they differ, or a list of sequences; a table of named
    columns is one sequence. Images and words are passed raw.
    """

    def __init__(self, source: Run | Trained) -> None:
        if isinstance(source, Run) and not source.exists():
            raise no_run(source.path)
        self.source = source
        self.preparation = source.preparation
        self.module = cast(Model, source.model())

    @property
    def run(self) -> Run:
        """The run directory that the model comes from."""
        if not isinstance(self.source, Run):
            raise GatelabError("this model was trained in memory and has no run directory: save writes one")
        return self.source

    @property
    def cell(self) -> Cell:
        """The equations of the cell."""
        return self.module.recurrent.cell

    @property
    def classes(self) -> np.ndarray | None:
        """The class labels, in the type of the data; None for regression."""
        return self.preparation.labels

    def predict(self, X: Any, *, lengths: Any = None) -> ArrayOrList:
        """Predict the class of each sequence, (N,), or values (N, K) in the units of the data.

        With a target at every step the shapes are (N, T) and (N, T, K), or a list for sequences of unequal length. A
        single sequence has no axis N. A forecasting model predicts the next value at every step.
        """
        sequences, output = self._output(X, lengths)
        labels = self.classes
        decoded = self.preparation.decode(output, sequences.values) if labels is None else labels[output.argmax(-1)]
        return self._shaped(sequences, decoded)

    def predict_proba(self, X: Any, *, lengths: Any = None) -> ArrayOrList:
        """Predict the probability of each of `classes`: (N, C), or (N, T, C) with a target at every step."""
        if self.preparation.classes is None:
            raise GatelabError("this model predicts numbers, which have no probabilities: use predict")
        sequences, output = self._output(X, lengths)
        return self._shaped(sequences, softmax(output.astype(np.float64), -1))

    def forecast(self, steps: int = 24, data: Any = None, future: Any = None) -> np.ndarray:
        """Forecast the next steps of the training series, (steps, K) in its original units.

        data: newer values of the series, an array (S, D), a table or a file; the last window is used.
        future: future values of the exogenous inputs, if the model has any, (steps − 1, inputs) or more.
        """
        from gatelab.use.forecasting import forecast

        return forecast(self, steps, data, future).values

    def step(self, x: Any, state: StreamState | None = None) -> tuple[Any, StreamState]:
        """Predict at one step of a stream, from x (D,) or several sequences' (B, D), a token or a list of them; also
        return the state for the next step.

        The prediction is that of `predict` for the sequence up to here: a class, or values in the units of the data.
        """
        from gatelab.use.streaming import step

        return step(self, x, state)

    def sample(self, length: int = 500, *, temperature: float = 0.8, prompt: str = "", seed: int = 0) -> str:
        """Continue the prompt by `length` characters, for a model of text; 0 always takes the likeliest."""
        from gatelab.use.sampling import sample

        return "".join(sample(self, length, temperature=temperature, prompt=prompt, seed=seed))

    def describe(self) -> str:
        """Describe the model: task, parameters, input, output, test result and equations."""
        source, prepared = self.source, self.preparation
        manifest, spec = source.manifest(), source.spec()
        unit = {"numbers": "feature", "image": "pixel", "tokens": "token"}[prepared.kind]
        per_step = 1 if prepared.kind == "tokens" else prepared.input_size
        is_own = prepared.kind != "image" and not prepared.forecasts and prepared.text is None
        longest = "up to " if is_own and not spec.task.synthetic else ""  # whether all have as many is not recorded
        facts = {
            "task": spec.task.name,
            "model": f"{self.module.recurrent}, {manifest.parameters:,} parameters",
            "input": f"{counted(per_step, unit)} per step, "
            + (f"of a vocabulary of {prepared.input_size:,}, " if prepared.kind == "tokens" else "")
            + f"trained on {longest}{counted(prepared.steps, 'step')}"
            + (f"; columns {', '.join(prepared.columns)}" if prepared.columns else ""),
            "output": self._output_text(),
            "test": ", ".join(named(name, value) for name, value in manifest.test.items()) or "not tested yet",
            "weights": f"of epoch {source.best_epoch()}; the run is {manifest.status}",
        }
        equations = "\n".join(f"    {line}" for line in self.cell.text().splitlines())
        return "\n".join([self.place, *(f"  {name:<7} {fact}" for name, fact in facts.items()), equations])

    def __repr__(self) -> str:
        return f"<trained {self.cell.name} of {self.place}>"

    @property
    def place(self) -> str:
        """Where it comes from, in words."""
        return str(self.source.path) if isinstance(self.source, Run) else "an estimator"

    def _output_text(self) -> str:
        prepared = self.preparation
        scope = "step" if prepared.per_step else "sequence"
        if prepared.forecasts:
            return f"next value of {', '.join(prepared.columns[: prepared.output_size])} at every step"
        if prepared.classes is None:
            return f"{counted(prepared.output_size, 'value')} per {scope}"
        names = ", ".join(map(visible, prepared.classes[:10])) + (", …" if len(prepared.classes) > 10 else "")
        return f"one label per {scope}, {len(prepared.classes)} classes: {names}"

    def _output(self, X: Any, lengths: Any) -> tuple[Sequences, np.ndarray]:
        """The checked sequences and the model's raw output, (N, K) or (N, T, K)."""
        sequences = inputs.read(X, self.preparation, lengths)
        inputs.check_finite(sequences, self.preparation)
        return sequences, self.output(sequences.values, sequences.lengths)

    def double(self) -> Self:
        """Compute in double precision from now on: predictions do not depend on the batch that a sequence is in, beyond
        the last bits of float64.
        """
        self.module.double()
        return self

    @torch.no_grad()
    def output(self, values: np.ndarray, lengths: np.ndarray | None = None) -> np.ndarray:
        """The raw output for checked sequences, in batches as in the evaluation of the run."""
        outputs, prepared, dtype = [], self.preparation, next(self.module.parameters()).dtype
        with denormals_flushed():
            for start in range(0, len(values), EVALUATED_AT_ONCE):
                batch = slice(start, start + EVALUATED_AT_ONCE)
                x = prepared.encode(values[batch])
                ends = None if lengths is None else torch.from_numpy(lengths[batch] + prepared.noise_pad)
                if ends is not None and prepared.kind == "numbers":
                    x[torch.arange(x.shape[1]) >= ends[:, None]] = 0
                if not torch.isfinite(x).all():
                    raise GatelabError(
                        "X exceeds the range of float32 after scaling: expected values similar to the training data"
                    )
                outputs.append(self.module(x.to(dtype) if x.is_floating_point() else x, lengths=ends).numpy())
        return np.concatenate(outputs)

    @cached_property
    def is_stream(self) -> bool:
        """Whether the model was trained on one long sequence, with its state carried from chunk to chunk."""
        spec = self.source.spec()
        return spec.training.chunk_length(spec.task) is not None and (
            self.preparation.forecasts or self.preparation.text is not None
        )

    @torch.no_grad()
    def stream_output(self, values: np.ndarray) -> np.ndarray:
        """The raw output at each step of one long sequence, (S, D) → (S, K), from its start."""
        model, encoded = cast(StepPredictor, self.module), self.preparation.encode(values[None])
        outputs, state = list[np.ndarray](), cast("State | None", None)
        with denormals_flushed():
            for start in range(0, len(values), STREAM_STEPS):
                output, state = model.process(encoded[:, start : start + STREAM_STEPS], state)
                outputs.append(output[0].numpy())
        return np.concatenate(outputs)

    def _shaped(self, sequences: Sequences, predictions: np.ndarray) -> ArrayOrList:
        if self.preparation.per_step and sequences.lengths is not None:
            return [row[:end] for row, end in zip(predictions, sequences.lengths, strict=True)]
        return predictions[0] if sequences.single else predictions


def load(path: Path | str) -> TrainedModel:
    """Load the trained model of a run directory. No code in the directory is executed; no other files are needed."""
    return TrainedModel(Run(path))
