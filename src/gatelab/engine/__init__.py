"""Running a cell over sequences: the engines, and the layer `Recurrent` over all of them."""

from gatelab.engine.convert import from_torch
from gatelab.engine.recurrent import Recurrent

__all__ = ["Recurrent", "from_torch"]
