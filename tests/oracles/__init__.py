"""Cells as their papers write them, independent of the package: what tests compare its cells with."""

from oracles import continuous, gated, linear
from oracles.base import ORACLES, Oracle

__all__ = ["ORACLES", "Oracle", "continuous", "gated", "linear"]
