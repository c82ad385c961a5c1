"""Calling a cell's function and learning what it called its values.

The names in `r = sigmoid(...)` are local variables of the function, so they are read from its frame at the moment it
returns. This works for any function, with or without its source text, and costs nothing when nobody watches.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def call_and_watch(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
    """What the function returns, and its local variables by name as they were at that moment."""
    code = inspect.unwrap(function).__code__
    seen: dict[str, Any] = {}

    def inside(frame: FrameType, event: str, _: Any) -> Any:
        if event == "return":
            seen.update(frame.f_locals)
        return inside

    def entering(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is not code:
            return None
        frame.f_trace_lines = False  # only the return matters
        return inside

    before = sys.gettrace()
    sys.settrace(entering)
    try:
        result = function(*args, **kwargs)
    finally:
        sys.settrace(before)
    if not seen:
        raise RuntimeError(
            f"the names in {function.__name__!r} could not be read: something else took over Python's trace function "
            "while it ran (a breakpoint inside it, a debugger, torch.compile)"
        )
    return result, seen
