"""The cell language: its operations, tracing a cell to a graph, and what is derived from the graph."""

from gatelab.errors import CellError
from gatelab.lang import values
from gatelab.lang.cell import Cell, cell
from gatelab.lang.hold import hold
from gatelab.lang.maps import I
from gatelab.lang.ops import (
    bernoulli,
    clamp,
    cos,
    exp,
    expm,
    floor,
    full,
    hard_sigmoid,
    layer_norm,
    log,
    maximum,
    mean,
    minimum,
    prev,
    relu,
    rms_norm,
    sigmoid,
    sin,
    softplus,
    sqrt,
    step,
    stop_gradient,
    sum,  # noqa: A004 - the usual name
    surrogate,
    tanh,
    where,
)
from gatelab.lang.signature import Option, learned

__all__ = [
    "Cell", "CellError", "I", "Option", "bernoulli", "cell", "clamp", "cos", "exp", "expm", "floor", "full",
    "hard_sigmoid", "hold", "layer_norm", "learned", "log", "maximum", "mean", "minimum", "prev", "relu", "rms_norm",
    "sigmoid", "sin", "softplus", "sqrt", "step", "stop_gradient", "sum", "surrogate", "tanh", "values", "where",
]  # fmt: skip
