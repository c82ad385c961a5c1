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
from gatelab.estimators import weighting
from gatelab.estimators.base import RecurrentEstimator
from gatelab.estimators.parameters import parameter, with_parameters


@with_parameters
class RecurrentClassifier(ClassifierMixin, RecurrentEstimator):  # type: ignore[misc]
    """A classifier of sequences: recurrent layers over any cell, pooling over the steps, and a linear head.

    X is an array (n, T, D), an array (n, T) read as (n, T, 1), or a list of n arrays (T_i, D) or (T_i,) of any length.
    Inputs are standardized per feature over all steps of the training data.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    {attributes}

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

    label_smoothing: float = parameter(
        default=0.1,
        sets="training.label_smoothing",
        text="The part of each target that is spread evenly over all classes in training: probabilities become less "
        "extreme.",
    )
    class_weight: dict[Any, float] | str | None = parameter(
        default=None,
        text='Weights of the classes, {label: weight}; "balanced" gives all classes the same total weight.',
        kind='dict, "balanced" or None',
    )

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
        self.label_type_: str = "object" if classes.dtype.kind == "O" else classes.dtype.str
        self.classes_: np.ndarray = classes
        return self

    def _class_weights(self, classes: np.ndarray, data: weighting.Weighted) -> np.ndarray:
        """The weight of each class."""
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
        """The logits (n, n_classes); of two classes the log-odds of the second one, (n,)."""
        logits = self._output(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each of `classes_`, (n, n_classes)."""
        probabilities: np.ndarray = softmax(self._output(X), -1)
        return probabilities

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of the probability of each of `classes_`, (n, n_classes)."""
        logarithms: np.ndarray = log_softmax(self._output(X), -1)
        return logarithms

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each sequence, (n,)."""
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
    """Labels without masks and pandas' own types; missing ones are refused."""
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
    """Labels of a type of NumPy's own, if they are objects of one type, as a data frame has them."""
    if y.dtype.kind != "O":
        return y
    kinds = {str if isinstance(label, str) else type(label) for label in y}
    plain = np.array(y.tolist()) if len(kinds) == 1 else y
    if plain.dtype.kind not in "iufbUS" or plain.ndim != 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise GatelabError(f"y has labels of the types {names}: expected text, integers or booleans, of one type")
    return plain
