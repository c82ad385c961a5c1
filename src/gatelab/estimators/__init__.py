"""Estimators in the manner of scikit-learn and sktime: a fit is a task, a spec and a run, which predicts."""

from gatelab.estimators.classifier import RecurrentClassifier
from gatelab.estimators.forecaster import RecurrentForecaster
from gatelab.estimators.regressor import RecurrentRegressor

__all__ = ["RecurrentClassifier", "RecurrentForecaster", "RecurrentRegressor"]
