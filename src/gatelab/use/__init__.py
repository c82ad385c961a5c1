"""Prediction with a trained run: raw sequences in, predictions in the units of the data out.

model = gatelab.load("my-run")
model.predict(X)
"""

from gatelab.use.trained_model import TrainedModel, load

__all__ = ["TrainedModel", "load"]
