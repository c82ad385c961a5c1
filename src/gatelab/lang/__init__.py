"""The cell language: its operations, tracing a cell to a graph, and what is derived from the graph."""

from gatelab.errors import CellError
from gatelab.lang.cell import Cell, cell
from gatelab.lang.hold import hold
from gatelab.lang.maps import I
from gatelab.lang.ops import cos, exp, relu, sigmoid, sin, softplus, tanh
from gatelab.lang.signature import Option, learned

__all__ = [
    "Cell", "CellError", "I", "Option", "cell", "cos", "exp", "hold", "learned", "relu", "sigmoid", "sin", "softplus",
    "tanh",
]  # fmt: skip
