"""Lines of generated Python: quoted, indented, and folded to a width."""

from __future__ import annotations

from collections.abc import Iterable

WIDTH = 112  # of a line, before its indentation
OPERATORS = ((", ",), (" >= ", " > ", " <= ", " < "), (" + ", " - "), (" * ", " / "))  # outermost first


def quoted(text: str) -> str:
    """A string in source code."""
    return f'"{text}"' if text.isprintable() and not set(text) & {'"', "\\"} else repr(text)


def indented(lines: Iterable[str], levels: int = 1) -> list[str]:
    """The lines of a block."""
    return [f"{'    ' * levels}{line}" for line in lines]


def folded(statement: str, width: int = WIDTH) -> list[str]:
    """A statement in lines of at most this width, if its brackets allow."""
    if len(statement) <= width or statement.startswith("def "):
        return _folded(statement, width)
    left, sign, right = statement.partition(" = ")
    left, right = (left + sign, right) if sign else ("return ", statement.removeprefix("return "))
    if len(_pieces(right)) > 1:
        right = f"({right})"
    first, *rest = _folded(right, width - len(left))
    return [left + first, *rest]


def _folded(piece: str, width: int) -> list[str]:
    """A part of a statement, within brackets or with brackets at its end."""
    if len(piece) <= width:
        return [piece]
    start, end = _last_brackets(piece)
    ends = start is not None and start < width / 3 and not piece[end + 1 :].strip(",")  # a short factor before them
    if len(parts := _pieces(piece, products=not ends)) > 1:
        return [line for part in parts for line in _folded(part, width)]
    if start is None:
        return [piece]
    inner = _folded(piece[start + 1 : end], width - 4)
    return [piece[: start + 1], *(f"    {line}" for line in inner), piece[end:]]


def _pieces(text: str, products: bool = True) -> list[str]:
    """The parts of an expression between its outermost commas, or else comparisons, sums or products."""
    outermost, depth = [], 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        outermost += [(place, op) for group in OPERATORS for op in group if depth == 0 and text.startswith(op, place)]
    for group in OPERATORS if products else OPERATORS[:-1]:
        # A comma ends a line, an operator begins one.
        if cuts := [place + (op == ", ") for place, op in outermost if op in group and place > 0]:
            return [text[start:end].strip() for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    return [text]


def _last_brackets(text: str) -> tuple[int | None, int]:
    """Where the last brackets open and close."""
    depth, end = 0, text.rfind(")")
    for place in range(end, -1, -1):
        depth += {")": 1, "(": -1}.get(text[place], 0)
        if depth == 0 and end >= 0:
            return place, end
    return None, end
