"""Numbers, arrays, strings and comments as C99 writes them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gatelab.errors import GatelabError
from gatelab.export import c_functions
from gatelab.export.loops import Syntax

_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
"""
_OWN = """
x t i k n units inputs sums multiply encode encoded answer advance features state steps from to out work swap sum value
convolved pooled pooling_query
size_t int8_t int32_t NULL INFINITY NAN HUGE_VAL _Bool _Complex _Imaginary INT8_MAX INT8_MIN INT32_MAX INT32_MIN
INT8_C INT32_C SIZE_MAX
"""
_MATH = """
acos asin atan atan2 cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 expm1 frexp ilogb ldexp log log10 log1p log2
logb modf scalbn scalbln cbrt fabs hypot pow sqrt erf erfc lgamma tgamma ceil floor nearbyint rint lrint llrint round
lround llround trunc fmod remainder remquo copysign nan nextafter nexttoward fdim fmax fmin fma j0 j1 jn y0 y1 yn
"""


def literal(value: float) -> str:
    """A float literal, the shortest that reads back as the same 32-bit number; in parentheses if it is negative."""
    text = _number(value)
    return f"({text})" if text.startswith("-") else text


def _number(value: float) -> str:
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if not np.isfinite(single):
        raise GatelabError(f"a value is {value}, beyond the range of 32-bit floats: expected finite numbers")
    text = str(single)
    return f"{text}f" if any(c in text for c in ".e") else f"{text}.0f"


_RESERVED = " ".join([_KEYWORDS, _OWN, _MATH, *c_functions.NAMES.values(), "exp_parts"]).split()
SYNTAX = Syntax(
    indent="    ",
    real="const float",
    variable="float",
    counter="int",
    number=literal,
    functions=c_functions.NAMES,
    reserved=frozenset([*_RESERVED, *(f"{name}f" for name in _MATH.split())]),
)


def indented(lines: Iterable[str], by: int = 1) -> str:
    """Lines of a block, as one text."""
    return "\n".join("    " * by + line if line else "" for line in lines)


def array(name: str, values: np.ndarray) -> str:
    """A constant array of floats, or of doubles if the values are."""
    if values.dtype == np.float64:
        return _array("double", name, [repr(float(value)) for value in values.ravel()])
    return _array("float", name, [_number(value) for value in values.ravel()])


def int8_array(name: str, values: np.ndarray) -> str:
    """A constant array of 8-bit integers."""
    return _array("int8_t", name, [str(int(value)) for value in values.ravel()])


def weights(name: str, values: np.ndarray, int8: bool) -> str:
    """A constant array of weights (inputs, outputs); of 8-bit integers with a second one of scales, one per output."""
    if not int8:
        return array(name, values)
    scales = np.abs(values).max(0) / 127
    rounded = np.round(values / np.where(scales > 0, scales, 1))
    return f"{int8_array(name, rounded)}\n{array(f'{name}_scales', scales)}"


def _array(kind: str, name: str, items: list[str], width: int = 110) -> str:
    lines, current = [], ""
    for item in items:
        if len(current) + len(item) + 2 > width:
            lines.append(current.rstrip())
            current = ""
        current += f"{item}, "
    lines.append(current.rstrip(", "))
    return f"static const {kind} {name}[{len(items)}] = {{\n{indented(lines)}\n}};"


def comment(text: str) -> str:
    """Text that cannot end a comment: without `*`, without what trigraphs begin with, on one line."""
    return "".join(c if c.isprintable() else " " for c in text).translate(
        {ord("*"): "×", ord("\\"): "/", ord("?"): "."}
    )


def string(text: str) -> str:
    """A string literal in UTF-8, without trigraphs."""
    return '"' + "".join(_escaped(byte) for byte in text.encode()) + '"'


def _escaped(byte: int) -> str:
    character = chr(byte)
    if character in '"\\?':
        return f"\\{character}"
    return character if 32 <= byte < 127 else f"\\{byte:03o}"
