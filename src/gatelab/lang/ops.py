"""The functions a cell may call, on tensors, floats and traced symbols; some also on maps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gatelab.errors import CellError
from gatelab.lang.maps import Map
from gatelab.lang.operations import ENTRYWISE, POINTWISE, REDUCTIONS
from gatelab.lang.symbols import Condition, Symbol, active

# Each function returns what it is given: a tensor, a traced symbol, a float, and where it makes sense a map.
Value = Any


def sigmoid(v: Value) -> Value:
    """1 / (1 + exp(-v))"""
    return _apply("sigmoid", v)


def tanh(v: Value) -> Value:
    """(exp(v) - exp(-v)) / (exp(v) + exp(-v))"""
    return _apply("tanh", v)


def relu(v: Value) -> Value:
    """max(v, 0)"""
    return _apply("relu", v)


def softplus(v: Value) -> Value:
    """log(1 + exp(v))"""
    return _apply("softplus", v)


def exp(v: Value) -> Value:
    """e to the power v; of a map, entry by entry"""
    return _apply("exp", v)


def log(v: Value) -> Value:
    """The natural logarithm of v"""
    return _apply("log", v)


def sqrt(v: Value) -> Value:
    """The square root of v"""
    return _apply("sqrt", v)


def sin(v: Value) -> Value:
    """sine of v, in radians"""
    return _apply("sin", v)


def cos(v: Value) -> Value:
    """cosine of v, in radians"""
    return _apply("cos", v)


def floor(v: Value) -> Value:
    """The largest integer that is at most v; its derivative is 0"""
    return _apply("floor", v)


def step(v: Value) -> Value:
    """1 where v > 0, otherwise 0; its derivative is 0 (see `surrogate`)"""
    return _apply("step", v)


def stop_gradient(v: Value) -> Value:
    """v, whose derivative is taken as 0"""
    return _apply("stop_gradient", v)


def surrogate(v: Any, smooth: Any) -> Any:
    """v with the derivative of `smooth`: surrogate(step(u), sigmoid(10 * u)) is a step that can be trained"""
    return _apply("surrogate", v, smooth)


def maximum(a: Any, b: Any) -> Any:
    """The larger of a and b"""
    return _apply("maximum", a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of a and b"""
    return _apply("minimum", a, b)


def clamp(v: Value, low: Any, high: Any) -> Value:
    """v, but at least `low` and at most `high`"""
    if not (isinstance(low, (int, float)) and isinstance(high, (int, float))):
        raise CellError("clamp(v, low, high) takes numbers as bounds: for others use minimum and maximum")
    if low > high:
        raise CellError(f"clamp(v, {low:g}, {high:g}): expected a lower bound that is not above the upper one")
    return _apply("clamp", v, low, high)


def hard_sigmoid(v: Value) -> Value:
    """A sigmoid of three straight pieces, clamp(v / 6 + 0.5, 0, 1), as torch.nn's"""
    return clamp(v / 6 + 0.5, 0, 1)


def where(condition: Any, a: Any, b: Any) -> Any:
    """a where the condition is true, otherwise b: where(h > 0, h, 0)"""
    for value in (condition, a, b):
        if isinstance(value, (Symbol, Condition)):
            return value.tracer.where(condition, a, b)
    if isinstance(condition, bool):  # of hyperparameters that are fixed numbers
        chosen, other = (a, b) if condition else (b, a)
        if isinstance(chosen, Tensor) or not isinstance(other, Tensor):
            return chosen
        return torch.full_like(other, chosen)
    return _apply("where", condition, a, b)


def sum(v: Any) -> Any:  # noqa: A001 - the usual name
    """The sum over the units of a vector: one number per sequence"""
    return _reduce("sum", v)


def mean(v: Any) -> Any:
    """The mean over the units of a vector: one number per sequence"""
    return _reduce("mean", v)


def layer_norm(v: Value, epsilon: float = 1e-5) -> Value:
    """v with mean 0 and variance 1 over its units; multiply by a vector for a learned scale"""
    centred = v - mean(v)
    return centred / sqrt(mean(centred * centred) + epsilon)


def rms_norm(v: Value, epsilon: float = 1e-5) -> Value:
    """v with mean square 1 over its units; multiply by a vector for a learned scale"""
    return v / sqrt(mean(v * v) + epsilon)


def prev(v: Any, delay: int = 1) -> Any:
    """The value of a vector `delay` steps ago; 0 before the first step"""
    if isinstance(v, (Symbol, Condition)):
        return v.tracer.prev(v, delay)
    raise CellError("prev needs the steps before: run the cell as a layer, Recurrent(cell, …)")


def full(value: float) -> Any:
    """A vector with this number in all units, where an operation needs a vector: mean(full(1)), U.n(full(0.5))"""
    tracer = active.get()
    if tracer is None:
        raise CellError("full makes a vector of the layer's size: run the cell as a layer, Recurrent(cell, …)")
    return tracer.full(value)


def bernoulli(p: Any) -> Any:
    """A mask: 1 with probability p, otherwise 0, drawn for each unit and step in training; p itself in evaluation"""
    tracer = active.get()
    if tracer is None:
        raise CellError("bernoulli draws for whole sequences: run the cell as a layer, Recurrent(cell, …)")
    return tracer.random(p)


def expm(m: Map) -> Map:
    """The matrix exponential of a map: expm(U.h - U.h.T) is orthogonal"""
    if not isinstance(m, Map):
        raise CellError("expm is the matrix exponential of a map, as in expm(U.h - U.h.T)(h): for values write exp(v)")
    return m.exponential()


def _apply(name: str, *values: Any) -> Any:
    tracer = next((value.tracer for value in values if isinstance(value, Symbol)), None)
    if tracer is not None:
        return tracer.pointwise(name, *values)
    if any(isinstance(value, Map) for value in values):
        if name not in ENTRYWISE or not isinstance(values[0], Map):
            raise CellError(
                f"{name} of a map: maps can be added, scaled, multiplied entry by entry, and be arguments of "
                f"{', '.join(ENTRYWISE)} and expm; otherwise apply the map first, as in U.name(h)"
            )
        return values[0].elementwise(name)
    like = next((value for value in values if isinstance(value, Tensor) and value.is_floating_point()), None)
    compute = POINTWISE[name].compute
    if like is None:
        return float(compute(*(torch.tensor(value, dtype=torch.float64) for value in values)))
    return compute(*(value if isinstance(value, Tensor) else like.new_tensor(value) for value in values))


def _reduce(name: str, v: Any) -> Any:
    if isinstance(v, Symbol):
        return v.tracer.reduction(name, v)
    if not isinstance(v, Tensor):
        raise CellError(
            f"{name} is taken over the units of a vector: expected a state, a gate or an expression of them"
        )
    return REDUCTIONS[name](v, dim=-1, keepdim=True)
