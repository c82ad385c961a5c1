"""gatelab: a lab bench for gated recurrent networks. A cell is defined by its equations; the rest is derived."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gatelab import cells, engine, lang, models, tasks, training, use
    from gatelab.engine import Recurrent, from_torch
    from gatelab.errors import CellError, GatelabError
    from gatelab.lang import (
        Cell,
        I,
        bernoulli,
        cell,
        clamp,
        cos,
        exp,
        expm,
        floor,
        full,
        hard_sigmoid,
        hold,
        layer_norm,
        learned,
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
        values,
        where,
    )
    from gatelab.use import load

__version__ = "0.1.0"
__all__ = [
    "Cell", "CellError", "GatelabError", "I", "Recurrent", "bernoulli", "cell", "cells", "clamp", "cos", "engine",
    "exp", "expm", "floor", "from_torch", "full", "hard_sigmoid", "hold", "lang", "layer_norm", "learned", "load",
    "log", "maximum", "mean", "minimum", "models", "prev", "relu", "rms_norm", "sigmoid", "sin", "softplus", "sqrt",
    "step", "stop_gradient", "sum", "surrogate", "tanh", "tasks", "training", "use", "values", "where",
]  # fmt: skip


# torch takes seconds to import, and neither `gatelab --help` nor gatelab.scratch needs it: names are resolved lazily.
def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'gatelab' has no attribute {name!r}")
    if name in ("cells", "engine", "lang", "models", "tasks", "training", "use"):
        return importlib.import_module(f"gatelab.{name}")
    modules = {
        "CellError": "gatelab.errors",
        "GatelabError": "gatelab.errors",
        "Recurrent": "gatelab.engine",
        "from_torch": "gatelab.engine",
        "load": "gatelab.use",
    }
    return getattr(importlib.import_module(modules.get(name, "gatelab.lang")), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
