"""From X, as users of scikit-learn, aeon and sktime have it, to padded sequences (N, T, D) and their lengths.

scikit-learn's own checks are used where it has them, so that its messages and conventions hold: `n_features_in_` and
`feature_names_in_` of a 2-d X, refusals of complex, sparse and empty data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from gatelab import floats
from gatelab.data.sequences import Sequences, padded
from gatelab.errors import GatelabError
from gatelab.use.inputs import check_finite

EXPECTED = "expected (n, T, D), (n, T), or a list of arrays (T_i, D) or (T_i,)"


def read(estimator: BaseEstimator, X: Any, *, fitting: bool) -> Sequences:
    """X as sequences, and check it against what the estimator was fitted on.

    `n_features_in_` is the number of columns of a 2-d X, as everywhere in scikit-learn; otherwise that of the features
    per step. Where the estimator was fitted on sequences of one feature, sequences of any length can be predicted.
    """
    sequences = _converted(estimator, X, fitting)
    check_finite(sequences)
    return sequences


def _converted(estimator: BaseEstimator, X: Any, fitting: bool) -> Sequences:
    _refuse_panels(X)
    X = X if hasattr(X, "detach") else floats.checked(X, "X")
    checks = {"dtype": np.float64, "ensure_all_finite": False}  # scikit-learn's advice is about its own estimators
    if _is_listed(X):
        sequences = _listed(estimator, X, checks)
    elif _dimensions(X) >= 3:
        values = check_array(X, allow_nd=True, estimator=estimator, input_name="X", **checks)
        if values.ndim > 3 or 0 in values.shape:
            raise GatelabError(f"X has the shape {values.shape}: {EXPECTED}, with at least one step and feature")
        sequences = Sequences(values.transpose(0, 2, 1) if estimator.channels_first else values)
    elif fitting or estimator.fitted_on_columns_:
        values = validate_data(estimator, X, reset=fitting, **checks)
        if fitting:
            estimator.fitted_on_columns_ = True
        return Sequences(values[..., None])
    else:
        values = check_array(X, estimator=estimator, input_name="X", **checks)
        sequences = Sequences(values[..., None])
    _check_features(estimator, sequences.values.shape[2], fitting)
    return sequences


def _refuse_panels(X: Any) -> None:
    """Refuse data frames that hold many sequences in a way of their own, with the line that converts them."""
    if not hasattr(X, "columns") or not hasattr(X, "iloc"):
        return
    if (levels := getattr(X.index, "nlevels", 1)) > 1:
        by = 0 if levels == 2 else list(range(levels - 1))
        raise GatelabError(
            f"X is a data frame with an index of {levels} levels, a row for each step of each sequence: {EXPECTED}; "
            f"X = [part.to_numpy() for _, part in X.groupby(level={by}, sort=False)] is such a list"
        )
    for name in X.columns if len(X) else ():
        if np.ndim(cell := X[name].iloc[0]) and not isinstance(cell, str):
            raise GatelabError(
                f"X is a nested data frame, with a {type(cell).__name__} in each cell of the column {name!r}: "
                f"{EXPECTED}; X = [np.stack([np.asarray(cell) for cell in row], -1) for row in X.to_numpy()] is such a "
                "list"
            )


def _check_features(estimator: BaseEstimator, features: int, fitting: bool) -> None:
    """Record the number of features per step, or compare it with that of the fit."""
    if fitting:
        estimator.n_features_in_, estimator.fitted_on_columns_ = features, False
        vars(estimator).pop("feature_names_in_", None)  # of an earlier fit
        return
    expected = 1 if estimator.fitted_on_columns_ else estimator.n_features_in_
    if features != expected:
        raise GatelabError(
            f"X has {features} features per step, but {type(estimator).__name__} is expecting {expected} as in fit; "
            f"{EXPECTED}" + ("" if estimator.channels_first else "; channels_first=True reads (n, D, T)")
        )


def _is_listed(X: Any) -> bool:
    """Whether X is a list of sequences: arrays, or nested lists of unequal length. Nested lists of equal length
    are an array, as everywhere in scikit-learn.
    """
    if not isinstance(X, (list, tuple)) or not len(X):
        return False
    if all(hasattr(one, "shape") and len(one.shape) for one in X):
        return True
    are_nested = all(isinstance(one, (list, tuple)) for one in X)
    return are_nested and len({len(one) for one in X}) > 1


def _dimensions(X: Any) -> int:
    return int(X.ndim) if hasattr(X, "ndim") else np.asarray(X).ndim


def _listed(estimator: BaseEstimator, X: Any, checks: dict[str, Any]) -> Sequences:
    sequences: list[np.ndarray] = []
    channels_first = estimator.channels_first
    for index, one in enumerate(X):
        array = np.asarray(
            one.detach().cpu() if hasattr(one, "detach") else floats.checked(one, f"sequence {index} of X")
        )
        array = array[:, None] if array.ndim == 1 else array.T if channels_first else array
        if array.ndim != 2 or not array.size or (sequences and array.shape[1] != sequences[0].shape[1]):
            shape = "(D, T_i)" if channels_first else "(T_i, D)"
            raise GatelabError(
                f"sequence {index} of X has the shape {np.shape(one)}: expected {shape} or (T_i,), with at least one "
                "step and the same D in all"
            )
        sequences.append(array)
    steps = check_array(np.concatenate(sequences), estimator=estimator, input_name="X", **checks)
    ends = np.cumsum([len(sequence) for sequence in sequences])
    return Sequences(*padded(np.split(steps, ends[:-1])))
