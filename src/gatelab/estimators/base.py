"""What classifiers and regressors have in common: a fit as a run, predictions by its model, the run directory."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from typing_extensions import Self

from gatelab import tasks
from gatelab.data.sequences import Sequences
from gatelab.disk import whole_folder
from gatelab.errors import GatelabError
from gatelab.estimators import document, holding_out, inputs, restarting, specs, weighting
from gatelab.estimators.fitted import FittedRun
from gatelab.estimators.parameters import NetworkParameters
from gatelab.estimators.weighting import Weighted
from gatelab.training import Trained
from gatelab.training.reporter import Reporter
from gatelab.training.run import BEST, ESTIMATOR, MANIFEST, MODEL

ADVICE = "Try another learning_rate, stem='none', more max_epochs, or sequences that are standardized one by one"


class RecurrentEstimator(NetworkParameters):
    """The base class: a fit is a training in memory, whose record and weights the estimator keeps."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.target_tags.required = True
        return tags

    # Fitting. Subclasses turn y into targets, and give classes their weights.

    def _read(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> tuple[Sequences, np.ndarray, np.ndarray | None]:
        """The sequences, their weights, and their groups."""
        if y is None:
            raise GatelabError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        sequences = inputs.read(self, X, fitting=True)
        check_consistent_length(sequences.values, y)
        weights = weighting.check_weights(sample_weight, len(sequences.values))
        return sequences, weights, holding_out.checked_groups(groups, sequences.values, self.early_stopping)

    def _train(self, data: Weighted, targets: np.ndarray, labels: np.ndarray | None, initial: FittedRun | None) -> None:
        """Train on distinct examples and keep the run. `targets` are those of the task; `labels` stratify a split."""
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        count = len(data.weights)
        split = np.full(count, "train")
        if self.early_stopping:
            split = holding_out.parts(count, self.validation_fraction, labels, data.groups, seed)
        is_held_out = bool((split == "validation").any())
        are_equal = bool((data.weights == data.weights[0]).all())
        task = tasks.from_arrays(
            data.sequences.values, targets, lengths=data.sequences.lengths, split=split,
            weights=None if are_equal else data.weights, classify=labels is not None, per_sequence=True,
        )  # fmt: skip
        spec = specs.run_spec(
            self, task, seed=seed, threads=effective_n_jobs(self.n_jobs), test=False,
            patience=self.n_iter_no_change if is_held_out else None, keep="best" if is_held_out else "last",
        )  # fmt: skip
        weights = None if initial is None else initial.trained.weights
        trained, stuck = restarting.train_in_memory_or_restart(spec, self._reporter(), weights)
        if trained.record.status != "done":
            facts = trained.record.divergence
            what = trained.record.status if facts is None else f"{facts.what} in epoch {facts.epoch}"
            raise GatelabError(
                f"training diverged: {what}; expected a finite loss: use a smaller learning_rate, or clip_norm"
            )
        self._keep(trained)
        restarted, rate = trained.record.restarted, trained.record.spec.optimization.learning_rate
        if restarted or stuck:
            again = [f"{restarted}; it was trained once more, at {rate:g}"] if restarted else []
            warnings.warn(": ".join([*again, *([f"{stuck}. {ADVICE}"] if stuck else [])]), ConvergenceWarning, 3)

    def _reporter(self) -> Reporter:
        """What `verbose` shows: a bar on a terminal, a line per epoch elsewhere, or nothing."""
        from gatelab.report.progress import reporter

        return reporter(quiet=not self.verbose)

    def _keep(self, trained: Trained) -> None:
        """Take a finished training into the estimator."""
        self.run_ = FittedRun(trained)
        self.history_ = trained.history
        self.n_iter_, self.best_epoch_ = len(trained.history), trained.best_epoch()

    def _previous(self) -> FittedRun | None:
        """The run whose weights a warm start begins with."""
        return self.run_ if self.warm_start and hasattr(self, "run_") else None

    # Predicting.

    def _output(self, X: Any) -> np.ndarray:
        """The raw output of the network, (n, K) in float64."""
        check_is_fitted(self, "run_")
        sequences = inputs.read(self, X, fitting=False)
        return self.run_.model.output(sequences.values, sequences.lengths)

    # The run directory.

    def save(self, path: Path | str) -> None:
        """Write the fitted estimator as a run directory, which also `gatelab.load` and `gatelab predict` read.

        Parameters
        ----------
        path : str or Path
            A directory that is new or empty. Nothing in it is executable.
        """
        check_is_fitted(self, "run_")
        with whole_folder(Path(path), MANIFEST, (ESTIMATOR, MODEL, BEST)) as made:
            document.write(self, made)
            self.run_.trained.write(made)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """The fitted estimator of a run directory that `save` wrote; no code is executed.

        A `random_state` that was a generator is None afterwards.
        """
        estimator: Self = document.read(Path(path), cls)
        estimator._keep(Trained.read(Path(path)))
        estimator._restore()
        return estimator

    def _restore(self) -> None:
        """Set what follows from the run beside its model."""
