"""The functions a cell may call, on tensors, floats and traced symbols."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from gatelab.lang.graph import POINTWISE
from gatelab.lang.symbols import Symbol

Value = TypeVar("Value", Tensor, Symbol, float)


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
    """e to the power v"""
    return _apply("exp", v)


def sin(v: Value) -> Value:
    """sine of v, in radians"""
    return _apply("sin", v)


def cos(v: Value) -> Value:
    """cosine of v, in radians"""
    return _apply("cos", v)


def _apply(name: str, v: Value) -> Value:
    if isinstance(v, Symbol):
        return v.tracer.pointwise(name, v)
    if isinstance(v, Tensor):
        return POINTWISE[name](v)
    return float(POINTWISE[name](torch.tensor(v, dtype=torch.float64)))
