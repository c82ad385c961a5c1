"""Recurrent networks in the manner of scikit-learn and sktime: `fit`, `predict`, `score`, `predict_interval`."""

from gatelab.estimators import RecurrentClassifier, RecurrentForecaster, RecurrentRegressor

__all__ = ["RecurrentClassifier", "RecurrentForecaster", "RecurrentRegressor"]
