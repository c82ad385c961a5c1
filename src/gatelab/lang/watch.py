"""Calls a cell's function and captures its local variables.

The names in `r = sigmoid(...)` are local variables, read from the function's frame when it returns. This needs no
source code, and happens once for each cell, when it is traced.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def call_and_watch(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
    """The function's return value, and its local variables at that moment."""
    code = inspect.unwrap(function).__code__
    variables: dict[str, Any] = {}

    def inside(frame: FrameType, event: str, _: Any) -> Any:
        if event == "return":
            variables.update(frame.f_locals)
        return inside

    def entering(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is not code:
            return None
        frame.f_trace_lines = False  # only the return event is needed
        return inside

    before = sys.gettrace()
    sys.settrace(entering)
    try:
        result = function(*args, **kwargs)
    finally:
        sys.settrace(before)
    if not variables:
        raise RuntimeError(
            f"the local variables of {function.__name__!r} could not be read: Python's trace function was replaced "
            "while it ran (by a breakpoint, a debugger or torch.compile)"
        )
    return result, variables
