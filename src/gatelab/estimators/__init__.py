"""Estimators in scikit-learn's manner: a fit is a task, a spec and a run, which predicts."""

from gatelab.estimators.classifier import RecurrentClassifier
from gatelab.estimators.regressor import RecurrentRegressor

__all__ = ["RecurrentClassifier", "RecurrentRegressor"]
