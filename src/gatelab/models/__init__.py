"""Models: stacked recurrent layers of any cell, with a linear head."""

from gatelab.models.classifier import SequenceClassifier
from gatelab.models.forecaster import Forecast, Forecaster
from gatelab.models.predictor import StepPredictor

Model = SequenceClassifier | StepPredictor | Forecaster

__all__ = ["Forecast", "Forecaster", "Model", "SequenceClassifier", "StepPredictor"]
