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


class RecurrentRegressor(RegressorMixin, RecurrentEstimator):  # type: ignore[misc]
    """A regressor on sequences: recurrent layers over any cell, pooling over the steps, and a linear head.

    X is an array (n, T, D), an array (n, T) read as (n, T, 1), or a list of n arrays (T_i, D) or (T_i,) of any length.
    Inputs are standardized per feature over all steps of the training data, and so are targets; the loss is the mean
    squared error. Predictions are in the units of y.

    Parameters
    ----------
    cell : str or Cell, default="gru"
        The cell: a name of the library (`gatelab cells`), FILE.py:NAME, or a function decorated with `@gatelab.cell`.
    hidden_size : int, default=64
        Hidden units per layer and direction.
    num_layers : int, default=1
        Stacked layers.
    bidirectional : bool, default=True
        Whether a second direction reads from the end.
    pool : {"last", "mean", "max", "mean+max", "attention"}, default="mean+max"
        What the head reads of the outputs at all steps.
    stem : {"none", "conv"}, default="conv"
        "conv" puts two strided convolutions before the layers, which shorten sequences to a quarter.
    dropout : float, default=0.0
        Dropout between layers.
    head_dropout : float, default=0.3
        Dropout before the head.
    cell_options : dict, default=None
        Hyperparameters of the cell, as {"epsilon": 1.0}.
    optimizer : {"adam", "adamw", "sgd", "rmsprop"}, default="adamw"
        The optimizer.
    learning_rate : float, default=6e-3
        The learning rate; of "one_cycle" the largest.
    weight_decay : float, default=5e-2
        Weight decay.
    schedule : {"constant", "cosine", "one_cycle", "step", "plateau"}, default="one_cycle"
        The schedule of the learning rate; "plateau" needs `early_stopping`.
    clip_norm : float or None, default=1.0
        Maximum gradient norm.
    batch_size : int, default=16
        Sequences per batch, at most: batches are nearly equal, 50 sequences are 13 + 13 + 13 + 11.
    max_epochs : int, default=None
        Number of epochs; None for about 1,500 batches in all, but 20 to 300 epochs.
    early_stopping : bool, default=False
        Whether a part of the data is held out: training stops when its squared error has not improved for
        `n_iter_no_change` epochs, and the weights of the best epoch are kept. By default all data is trained on, and
        the weights are those of the last epoch.
    validation_fraction : float, default=0.15
        The part that is held out, drawn at random, or whole groups.
    n_iter_no_change : int, default=20
        Epochs without improvement before training stops.
    channels_first : bool, default=False
        Whether X is (n, D, T), and the arrays of a list (D, T_i), as in aeon and sktime.
    warm_start : bool, default=False
        Whether a further fit begins with the weights of the previous one.
    random_state : int, RandomState instance or None, default=None
        Random seed of initialization, order, dropout and split. The same int gives the same network bit for bit.
    device : {"auto", "cpu", "cuda", "mps"}, default="auto"
        Where the network is trained. It predicts on the CPU.
    n_jobs : int, default=None
        CPU threads of the training; None for one, -1 for as many as there are cores.
    verbose : int, default=0
        Whether a progress bar is shown, or a line per epoch where there is no terminal.

    Attributes
    ----------
    n_features_in_ : int
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
        The files of the training run, and its model.

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
        """Return the predicted numbers in the units of y: (n,), or (n, n_outputs) as y was."""
        output = self._output(X)
        values = self.run_.model.preparation.decode(output, output)
        return values[:, 0] if self.is_single_output_ else values

    def _restore(self) -> None:
        if self.run_.model.classes is not None:
            raise DataError("the run predicts classes, and no numbers: expected one of RecurrentRegressor.save")
