"""A trained model, for other programs: opened from a run directory alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from scipy.special import softmax

from gatelab.errors import DataError
from gatelab.formatting import named
from gatelab.lang import Cell
from gatelab.models import Model
from gatelab.training import Run
from gatelab.training.loop import EVALUATED_AT_ONCE
from gatelab.training.process import denormals_flushed
from gatelab.use import inputs

Answers = np.ndarray | list[np.ndarray]


class Trained:
    """The model of a run with the weights of its best epoch. Raw sequences in, answers in the units of the data out.

    X is one sequence (T, D), several (N, T, D) with `lengths` where they differ, or a list of sequences of unequal
    length; a table of named columns is one sequence. Images and words are taken as they are.
    """

    def __init__(self, path: Path | str) -> None:
        self.run = Run(path)
        if not self.run.exists():
            raise DataError(
                f"{path} is not a run directory: expected one with a manifest.json, as `gatelab train` writes it"
            )
        self.preparation = self.run.preparation
        self.module = cast(Model, self.run.model())

    @property
    def cell(self) -> Cell:
        return self.module.recurrent.cell

    @property
    def classes(self) -> np.ndarray | None:
        """What is told apart, as the data had it; None where the answers are numbers."""
        return self.preparation.labels

    def predict(self, X: Any, *, lengths: Any = None) -> Answers:
        """The most probable class of each sequence (N,), or numbers (N, K) in their own units.

        Where the model answers at every step there is a T after the N; for sequences of unequal length it is then a
        list. One sequence given by itself has no N. A model of a series says at every step what comes next.
        """
        given, output = self._output(X, lengths)
        labels = self.classes
        answers = self.preparation.decode(output, given.values) if labels is None else labels[output.argmax(-1)]
        return self._shaped(given, answers)

    def predict_proba(self, X: Any, *, lengths: Any = None) -> Answers:
        """The probability of each of `classes`, (N, C), or at every step (N, T, C)."""
        if self.preparation.classes is None:
            raise ValueError("this model answers with numbers, which have no probabilities: use predict")
        given, output = self._output(X, lengths)
        return self._shaped(given, softmax(output.astype(np.float64), -1))

    def forecast(self, steps: int = 24, data: Any = None, future: Any = None) -> np.ndarray:
        """What comes after the series that the model was trained on, (steps, K) in its own units.

        data: newer values of the series, (S, D), a table of its columns or a file, of which the last window is read.
        future: of a model with further inputs, their values at the steps to come, (steps − 1, inputs) at least.
        """
        from gatelab.use.forecasting import continuation

        return continuation(self, steps, data, future).values

    def describe(self) -> str:
        """What the model is, what it reads, what it answers, and how well it did."""
        manifest, prepared = self.run.manifest(), self.preparation
        spec, read = self.run.spec(), {"numbers": "number", "image": "pixel", "tokens": "token"}[prepared.kind]
        per_step = 1 if prepared.kind == "tokens" else prepared.input_size
        facts = {
            "task": spec.task.name,
            "model": f"{self.module.recurrent}, {manifest['parameters']:,} parameters",
            "input": f"steps of {per_step} {read}{'s' if per_step > 1 else ''}, trained on {prepared.steps} steps"
            + (f"; columns {', '.join(prepared.columns)}" if prepared.columns else ""),
            "output": self._answered(),
            "test": ", ".join(named(name, value) for name, value in manifest.get("test", {}).items())
            or "not tested yet",
            "weights": f"of epoch {self.run.best_epoch()}; the run is {manifest['status']}",
        }
        equations = "\n".join(f"    {line}" for line in self.cell.text().splitlines())
        return "\n".join([str(self.run.path), *(f"  {name:<7} {fact}" for name, fact in facts.items()), equations])

    def __repr__(self) -> str:
        return f"<trained {self.cell.name} of {self.run.path}>"

    def _answered(self) -> str:
        prepared = self.preparation
        where = " at every step" if prepared.per_step else ""
        if prepared.forecasts:
            return f"the next {', '.join(prepared.columns[: prepared.output_size])}{where}"
        if prepared.classes is None:
            return f"{prepared.output_size} number{'s' if prepared.output_size > 1 else ''}{where}"
        listed = ", ".join(prepared.classes[:10]) + (", …" if len(prepared.classes) > 10 else "")
        return f"one of {len(prepared.classes)} classes{where}: {listed}"

    def _output(self, X: Any, lengths: Any) -> tuple[inputs.Sequences, np.ndarray]:
        """What the model puts out for raw sequences, (N, K) or (N, T, K)."""
        given = inputs.read(X, self.preparation, lengths)
        inputs.refuse_gaps(given, self.preparation)
        return given, self.output(given.values, given.lengths)

    @torch.no_grad()
    def output(self, values: np.ndarray, lengths: np.ndarray | None = None) -> np.ndarray:
        """The same for sequences that were checked; in batches as in the evaluation of the run."""
        found, prepared = [], self.preparation
        with denormals_flushed():
            for start in range(0, len(values), EVALUATED_AT_ONCE):
                batch = slice(start, start + EVALUATED_AT_ONCE)
                x = prepared.encode(values[batch])
                ends = None if lengths is None else torch.from_numpy(lengths[batch] + prepared.noise_pad)
                if ends is not None and prepared.kind == "numbers":
                    x[torch.arange(x.shape[1]) >= ends[:, None]] = 0
                if not torch.isfinite(x).all():
                    raise ValueError("X has values too far from those of the training data: float32 cannot hold them")
                found.append(self.module(x, lengths=ends).numpy())
        return np.concatenate(found)

    def _shaped(self, given: inputs.Sequences, answers: np.ndarray) -> Answers:
        if self.preparation.per_step and given.lengths is not None:
            return [row[:end] for row, end in zip(answers, given.lengths, strict=True)]
        return answers[0] if given.single else answers


def load(path: Path | str) -> Trained:
    """The trained model of a run directory. Nothing in the directory is executed, and nothing else is needed."""
    return Trained(path)
