"""Engines that run a cell over sequences, and the layer `Recurrent` on top of them."""

from gatelab.engine.convert import from_torch
from gatelab.engine.recurrent import Recurrent

__all__ = ["Recurrent", "from_torch"]
