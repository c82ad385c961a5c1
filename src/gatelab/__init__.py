"""gatelab: a lab bench for gated recurrent networks. A cell is its equations; the rest is derived from them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gatelab import cells, engine, lang, models, tasks, training
    from gatelab.engine import Recurrent, from_torch
    from gatelab.errors import CellError
    from gatelab.lang import Cell, I, cell, cos, exp, learned, relu, sigmoid, sin, softplus, tanh

__version__ = "0.1.0"
__all__ = [
    "Cell", "CellError", "I", "Recurrent", "cell", "cells", "cos", "engine", "exp", "from_torch", "lang", "learned",
    "models", "relu", "sigmoid", "sin", "softplus", "tanh", "tasks", "training",
]  # fmt: skip


# torch takes seconds to import, and neither `gatelab --help` nor the GRU by hand needs it: names are looked up on
# first use.
def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'gatelab' has no attribute {name!r}")
    if name in ("cells", "engine", "lang", "models", "tasks", "training"):
        return importlib.import_module(f"gatelab.{name}")
    home = "gatelab.engine" if name in ("Recurrent", "from_torch") else "gatelab.lang"
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
