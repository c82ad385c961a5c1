"""A trained run in use: raw sequences in, answers in the units of the data out.

model = gatelab.load("my-run")
model.predict(X)
"""

from gatelab.use.trained import Trained, load

__all__ = ["Trained", "load"]
