"""Numbers, arrays, strings and comments as C99 writes them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gatelab.errors import GatelabError
from gatelab.export import c_functions
from gatelab.export.loops import Syntax

# Words that no field of a struct can have as its name, in C and in C++, and macros of the standard headers.
_WORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
alignas alignof and and_eq asm bitand bitor bool catch char8_t char16_t char32_t class co_await co_return co_yield
compl concept consteval constexpr constinit const_cast decltype delete dynamic_cast explicit export false friend
mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast
requires static_assert static_cast template this thread_local throw true try typeid typename typeof using virtual
wchar_t xor xor_eq
I BUFSIZ CHAR_BIT EOF HUGE_VAL INFINITY NAN NULL RAND_MAX SIZE_MAX complex errno imaginary linux stderr stdin stdout
unix
"""
RESERVED = frozenset(_WORDS.split())


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


SYNTAX = Syntax(
    indent="    ",
    real="const float",
    variable="float",
    counter="int",
    number=literal,
    functions=c_functions.NAMES,
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
