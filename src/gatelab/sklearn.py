"""Recurrent networks in scikit-learn's manner: `fit`, `predict`, `score`, for arrays and lists of sequences."""

from gatelab.estimators import RecurrentClassifier, RecurrentRegressor

__all__ = ["RecurrentClassifier", "RecurrentRegressor"]
