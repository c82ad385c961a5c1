"""Selects the engine that runs a cell."""

from __future__ import annotations

import functools
import os
import warnings

import torch
from torch import Tensor

from gatelab.engine import eager, native
from gatelab.engine.fused import compiler, function
from gatelab.engine.layout import LAYOUTS
from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan
from gatelab.errors import GatelabError, unknown
from gatelab.lang import Cell

ENGINES = ("auto", "fused", "native", "eager")
OVERRIDE = "GATELAB_ENGINE"


def check(engine: str, cell: Cell, where: str = "engine") -> None:
    """Raise if there is no such engine, or if it does not support this cell."""
    if engine not in ENGINES:
        raise unknown(where, engine, ENGINES)
    if engine == "native" and not native.supports(cell):
        listed = ", ".join(known.name for known in LAYOUTS)
        raise GatelabError(
            f"{where} 'native' does not support cell {cell.name!r} (torch.nn has: {listed}): use 'auto' or 'eager'"
        )


def choose(engine: str, cell: Cell, x: Tensor, watch: bool) -> str:
    """The engine that will run; the environment variable GATELAB_ENGINE overrides the layer's.

    "auto" is fused on the CPU, native on other devices where torch.nn has the cell, and eager otherwise. Fused falls
    back to eager for dtypes other than float32 and without a compiler, native when gates are requested.
    """
    override = os.environ.get(OVERRIDE)
    check(override or engine, cell, OVERRIDE if override else "engine")
    engine = override or engine
    if engine == "fused" and x.device.type != "cpu":
        raise GatelabError(f"engine 'fused' runs on the CPU and x is on {x.device}: use 'auto', 'native' or 'eager'")
    if engine == "auto":
        engine = "fused" if x.device.type == "cpu" else "native" if native.supports(cell) else "eager"
    if engine == "fused" and (x.dtype != torch.float32 or not _compiles(cell, watch)):
        return "eager"
    return "eager" if engine == "native" and watch else engine


@functools.cache
def _compiles(cell: Cell, watch: bool) -> bool:
    """Whether the kernel compiles. If not, warn once per machine, or once per cell that has no kernel."""
    try:
        function.kernel(cell, watch)
    except compiler.CompilerError as error:
        subject = cell.name if isinstance(error, compiler.KernelError) else "this machine"
        if subject not in _warned:
            _warned.add(subject)
            _warn(str(error))
        return False
    return True


_warned: set[str] = set()


def _warn(reason: str) -> None:
    warnings.warn(
        f"the fused engine is not available, falling back to eager, which is many times slower: {reason}. See `gatelab "
        "doctor`; engine='native' is faster for gru, lstm and rnn",
        stacklevel=2,
    )


def scan(
    engine: str,
    parameters: CellParameters,
    x: Tensor,
    states: tuple[Tensor, ...],
    lengths: Tensor | None = None,
    watch: bool = False,
) -> Scan:
    """Run one layer in one direction on the engine that `choose` selected."""
    if engine == "native":
        return native.scan(parameters, x, states, lengths)
    scanner = function.scan if engine == "fused" else eager.scan
    return scanner(parameters, x, states, lengths, watch)
