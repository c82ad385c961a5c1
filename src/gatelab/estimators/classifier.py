"""Classification of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from typing_extensions import Self

from gatelab import floats
from gatelab.errors import DataError, GatelabError
from gatelab.estimators import defaults, weighting
from gatelab.estimators.base import RecurrentEstimator
from gatelab.lang import Cell


class RecurrentClassifier(ClassifierMixin, RecurrentEstimator):  # type: ignore[misc]
    """A classifier of sequences: recurrent layers over any cell, pooling over the steps, and a linear head.

    X is an array (n, T, D), an array (n, T) read as (n, T, 1), or a list of n arrays (T_i, D) or (T_i,) of any length.
    Inputs are standardized per feature over all steps of the training data.

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
        Whether a part of the data is held out: training stops when its accuracy has not improved for
        `n_iter_no_change` epochs, and the weights of the best epoch are kept. By default all data is trained on, and
        the weights are those of the last epoch.
    validation_fraction : float, default=0.15
        The part that is held out, stratified by label, or whole groups.
    n_iter_no_change : int, default=20
        Epochs without improvement before training stops.
    label_smoothing : float, default=0.1
        The part of each target that is spread evenly over all classes in training: probabilities become less extreme.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, {label: weight}; "balanced" gives all classes the same total weight.
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
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
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
    >>> from gatelab.sklearn import RecurrentClassifier
    >>> X = np.sin(np.arange(30) * np.repeat([0.3, 0.6], 20)[:, None] + np.arange(40)[:, None])
    >>> y = np.repeat(["slow", "fast"], 20)
    >>> model = RecurrentClassifier(hidden_size=8, max_epochs=10, random_state=0).fit(X, y)
    >>> float(model.score(X, y))
    1.0
    """

    classes_: np.ndarray
    label_type_: str  # NumPy's name of the type of the labels

    def __init__(
        self,
        cell: str | Cell = defaults.CELL,
        *,
        hidden_size: int = defaults.HIDDEN_SIZE,
        num_layers: int = defaults.NUM_LAYERS,
        bidirectional: bool = defaults.BIDIRECTIONAL,
        pool: str = defaults.POOL,
        stem: str = defaults.STEM,
        dropout: float = defaults.DROPOUT,
        head_dropout: float = defaults.HEAD_DROPOUT,
        cell_options: dict[str, Any] | None = None,
        optimizer: str = defaults.OPTIMIZER,
        learning_rate: float = defaults.LEARNING_RATE,
        weight_decay: float = defaults.WEIGHT_DECAY,
        schedule: str = defaults.SCHEDULE,
        clip_norm: float | None = defaults.CLIP_NORM,
        batch_size: int = defaults.BATCH_SIZE,
        max_epochs: int | None = None,
        early_stopping: bool = False,
        validation_fraction: float = defaults.VALIDATION_FRACTION,
        n_iter_no_change: int = defaults.N_ITER_NO_CHANGE,
        label_smoothing: float = defaults.LABEL_SMOOTHING,
        class_weight: dict[Any, float] | str | None = None,
        channels_first: bool = False,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            cell,
            hidden_size=hidden_size,
            num_layers=num_layers,
            bidirectional=bidirectional,
            pool=pool,
            stem=stem,
            dropout=dropout,
            head_dropout=head_dropout,
            cell_options=cell_options,
            optimizer=optimizer,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            schedule=schedule,
            clip_norm=clip_norm,
            batch_size=batch_size,
            max_epochs=max_epochs,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            channels_first=channels_first,
            warm_start=warm_start,
            random_state=random_state,
            device=device,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.label_smoothing = label_smoothing
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Train the network.

        Parameters
        ----------
        X : array of shape (n, T, D) or (n, T), or list of n arrays
            The sequences.
        y : array-like of shape (n,)
            The label of each sequence: text, integers, booleans, or objects of one of these types.
        sample_weight : array-like of shape (n,), default=None
            How much each sequence counts; a weight of k is the same as k repetitions.
        groups : array-like of shape (n,), default=None
            With `early_stopping`: sequences of one group are all trained on, or all held out for validation.
        """
        sequences, weights, groups = self._read(X, y, sample_weight, groups)
        y = column_or_1d(_complete_labels(y), warn=True)
        plain = _plain_labels(y)
        check_classification_targets(plain)
        classes, labels = np.unique(plain[weights > 0], return_inverse=True)
        if len(classes) < 2:
            raise GatelabError(f"y has 1 class, {classes.tolist()[0]!r}: expected at least two classes")
        if plain.dtype.kind == "U":
            classes = classes.astype(y.dtype)  # text stays an object, if it was one
        previous = self._previous()
        if previous is not None and not np.array_equal(classes, self.classes_):
            raise GatelabError(
                f"warm_start is set, and y has the classes {classes.tolist()}: expected those of the previous fit, "
                f"{self.classes_.tolist()}; use a new estimator, or warm_start=False"
            )
        indices = np.zeros(len(y), np.int64)
        indices[weights > 0] = labels
        data = weighting.merged(sequences, indices, weights, groups)
        data = data._replace(weights=data.weights * self._class_weights(classes, data)[data.targets])
        names = _plain_labels(classes)
        names = names.astype(np.int64) if names.dtype.kind == "f" else names  # whole: others are a regression's
        self._train(data, names[data.targets], data.targets, previous)
        self.label_type_ = "object" if classes.dtype.kind == "O" else classes.dtype.str
        self.classes_ = classes
        return self

    def _class_weights(self, classes: np.ndarray, data: weighting.Weighted) -> np.ndarray:
        """Return the weight of each class."""
        if self.class_weight is None or isinstance(self.class_weight, dict):
            weights: np.ndarray = compute_class_weight(self.class_weight, classes=classes, y=classes)
        elif self.class_weight == "balanced":  # of weighted examples, which repetitions are equivalent to
            totals = np.bincount(data.targets, data.weights)
            weights = totals.sum() / (len(classes) * totals)
        else:
            raise GatelabError(
                f'class_weight is {self.class_weight!r}: expected None, "balanced" or a dict {{label: weight}}'
            )
        if not (np.isfinite(weights).all() and weights.min() >= 0 and weights.any()):
            raise GatelabError(f"class_weight gives {weights.tolist()}: expected numbers from 0 up, not all of them 0")
        return weights

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the logits (n, n_classes); of two classes the log-odds of the second one, (n,)."""
        logits = self._output(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each of `classes_`, (n, n_classes)."""
        probabilities: np.ndarray = softmax(self._output(X), -1)
        return probabilities

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of the probability of each of `classes_`, (n, n_classes)."""
        logarithms: np.ndarray = log_softmax(self._output(X), -1)
        return logarithms

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable label of each sequence, (n,)."""
        indices = self._output(X).argmax(-1)
        labels: np.ndarray = self.classes_[indices]
        return labels

    def _restore(self) -> None:
        labels = self.run_.model.classes
        if labels is None:
            raise DataError("the run predicts numbers, and no classes: expected one of RecurrentClassifier.save")
        try:
            self.classes_ = labels.astype(self.label_type_)
        except (TypeError, ValueError, AttributeError) as error:
            raise DataError(f"the classes of the run cannot be read: {error}") from None


def _complete_labels(y: Any) -> Any:
    """Return labels without masks and pandas' own types; missing ones are refused."""
    labels = floats.unmasked(y, "y")
    if hasattr(labels, "isna") and hasattr(labels, "to_numpy"):
        missing: np.ndarray = np.any(np.asarray(labels.isna()).reshape(len(labels), -1), 1)
        labels = labels if missing.any() else labels.to_numpy()  # scikit-learn would make floats of integers
    else:
        array = np.asarray(labels)
        missing = np.isnan(array).reshape(len(array), -1).any(1) if array.dtype.kind == "f" else np.array([False])
    if missing.any():
        raise GatelabError(
            f"Input y contains NaN: the label of sequence {missing.argmax()} is missing ({missing.sum():,} of "
            f"{len(missing):,}): expected one for every sequence; leave these sequences out"
        )
    return labels


def _plain_labels(y: np.ndarray) -> np.ndarray:
    """Return labels of a type of NumPy's own, if they are objects of one type, as a data frame has them."""
    if y.dtype.kind != "O":
        return y
    kinds = {str if isinstance(label, str) else type(label) for label in y}
    plain = np.array(y.tolist()) if len(kinds) == 1 else y
    if plain.dtype.kind not in "iufbUS" or plain.ndim != 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise GatelabError(f"y has labels of the types {names}: expected text, integers or booleans, of one type")
    return plain
