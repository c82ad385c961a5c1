"""Models: stacked recurrent layers of any cell, with a linear head."""

from gatelab.models.classifier import SequenceClassifier
from gatelab.models.predictor import StepPredictor

Model = SequenceClassifier | StepPredictor

__all__ = ["Model", "SequenceClassifier", "StepPredictor"]
