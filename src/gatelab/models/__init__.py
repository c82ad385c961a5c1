"""Models: a stack of recurrent layers with a head, over any cell."""

from gatelab.models.classifier import SequenceClassifier
from gatelab.models.forecaster import Forecast, Forecaster
from gatelab.models.predictor import StepPredictor

Model = SequenceClassifier | StepPredictor | Forecaster

__all__ = ["Forecast", "Forecaster", "Model", "SequenceClassifier", "StepPredictor"]
