"""Regression on sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_array
from typing_extensions import Self

from gatelab import floats
from gatelab.errors import DataError, GatelabError
from gatelab.estimators import weighting
from gatelab.estimators.base import RecurrentEstimator
from gatelab.estimators.parameters import with_parameters


@with_parameters
class RecurrentRegressor(RegressorMixin, RecurrentEstimator):  # type: ignore[misc]
    """A regressor on sequences: recurrent layers over any cell, pooling over the steps, and a linear head.

    X is an array (n, T, D), an array (n, T) read as (n, T, 1), or a list of n arrays (T_i, D) or (T_i,) of any length.
    Inputs are standardized per feature over all steps of the training data, and so are targets; the loss is the mean
    squared error. Predictions are in the units of y.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from gatelab.sklearn import RecurrentRegressor
    >>> X = np.random.RandomState(0).uniform(size=(60, 12))
    >>> y = 100 + 5 * X.sum(1)
    >>> model = RecurrentRegressor(hidden_size=8, max_epochs=30, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    """

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Train the network.

        Parameters
        ----------
        X : array of shape (n, T, D) or (n, T), or list of n arrays
            The sequences.
        y : array-like of shape (n,) or (n, n_outputs)
            One or several numbers for each sequence.
        sample_weight : array-like of shape (n,), default=None
            How much each sequence counts; a weight of k is the same as k repetitions.
        groups : array-like of shape (n,), default=None
            With `early_stopping`: sequences of one group are all trained on, or all held out for validation.
        """
        sequences, weights, groups = self._read(X, y, sample_weight, groups)
        y = check_array(floats.checked(y, "y"), ensure_2d=False, dtype=np.float64, input_name="y", estimator=self)
        previous, targets = self._previous(), y[:, None] if y.ndim == 1 else y
        if previous is not None and previous.model.preparation.output_size != targets.shape[1]:
            raise GatelabError(
                f"warm_start is set, and y has {targets.shape[1]} outputs: expected as many as in the previous fit, "
                f"{previous.model.preparation.output_size}; use a new estimator, or warm_start=False"
            )
        data = weighting.merged(sequences, targets + 0.0, weights, groups)
        self._train(data, data.targets, None, previous)
        self.is_single_output_ = y.ndim == 1
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The predicted numbers in the units of y: (n,), or (n, n_outputs) as y was."""
        output = self._output(X)
        values = self.run_.model.preparation.decode(output, output)
        return values[:, 0] if self.is_single_output_ else values

    def _restore(self) -> None:
        if self.run_.model.classes is not None:
            raise DataError("the run predicts classes, and no numbers: expected one of RecurrentRegressor.save")
