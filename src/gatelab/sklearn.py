"""Estimators for people with their own sequences: `from gatelab.sklearn import RecurrentForecaster`."""

from gatelab.estimators.forecaster import RecurrentForecaster

__all__ = ["RecurrentForecaster"]
