"""Numbers, strings, comments and base64 as JavaScript writes them, and its syntax for loops."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from gatelab.export.loops import Syntax

# Words that no variable can have as its name.
_WORDS = """
arguments async await break case catch class const continue debugger default delete do else enum eval export
extends false finally for function if implements import in instanceof interface let new null package private
protected public return static super switch this throw true try typeof undefined var void while with yield Infinity
NaN
"""
RESERVED = frozenset(_WORDS.split())
# Operation → the function that computes it: of Math, or in js/arithmetic.js.
_FUNCTIONS = {
    "sigmoid": "sigmoid",
    "tanh": "Math.tanh",
    "exp": "Math.exp",
    "relu": "relu",
    "softplus": "softplus",
    "log": "Math.log",
    "sqrt": "Math.sqrt",
    "sin": "Math.sin",
    "cos": "Math.cos",
    "abs": "Math.abs",
    "sign": "Math.sign",
    "floor": "Math.floor",
    "step": "step",
    "maximum": "Math.max",
    "minimum": "Math.min",
    "clamp": "clamp",
    "share": "share",
    "within": "within",
    "power": "power",
}


def literal(value: float) -> str:
    """A number, in parentheses if it is negative."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "(-Infinity)"
    return repr(value) if value >= 0 else f"({value!r})"


def multiply(offset: int, number: int, operand: str, outputs: int) -> str:
    """The statement that adds a product to the sums from an offset on. An operand is an array and where it begins."""
    start = operand if "," in operand else f"{operand}, 0"
    return f"multiply(sums, {offset}, products{number}, {start});"


SYNTAX = Syntax(
    indent="  ",
    real="const",
    variable="let",
    counter="let",
    number=literal,
    functions=_FUNCTIONS,
    multiply=multiply,
)


def indented(lines: Iterable[str], by: int = 1) -> str:
    """Lines of a block, as one text."""
    return "\n".join("  " * by + line if line else "" for line in lines)


def comment(text: str) -> str:
    """Text that ends neither a comment of one line nor the script element of a page."""
    one_line = re.sub("[\n\r\u2028\u2029]", " ", text)
    return one_line.replace("</", "< /").replace("<!", "< !")


def data(value: Any, indent: int | None = None) -> str:
    """Plain data as a JavaScript expression, in ASCII; it cannot end the script element of a page."""
    return json.dumps(value, indent=indent, allow_nan=False).replace("<", "\\u003c")


def encoded(values: np.ndarray, kind: str) -> str:
    """Little-endian numbers, "<f4" or "<f8", in base64."""
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()
