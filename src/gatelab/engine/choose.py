"""Which engine runs a cell."""

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
from gatelab.errors import unknown
from gatelab.lang import Cell

ENGINES = ("auto", "fused", "native", "eager")
OVERRIDE = "GATELAB_ENGINE"


def check(engine: str, cell: Cell, where: str = "engine") -> None:
    """Refuse an engine that does not exist or cannot run this cell."""
    if engine not in ENGINES:
        raise unknown(where, engine, ENGINES)
    if engine == "native" and not native.supports(cell):
        listed = ", ".join(known.name for known in LAYOUTS)
        raise ValueError(f"{where} 'native' has no cell {cell.name!r} (torch.nn has: {listed}): use 'auto' or 'eager'")


def choose(engine: str, cell: Cell, x: Tensor, watch: bool) -> str:
    """The engine that will run. The variable GATELAB_ENGINE decides over what the layer was made with.

    On a CPU that is fused for float32, and for the rest eager, which is right in any precision; on other devices native
    where torch.nn has the cell. Only native cannot show gates.
    """
    override = os.environ.get(OVERRIDE)
    check(override or engine, cell, OVERRIDE if override else "engine")
    engine = override or engine
    if engine == "fused" and x.device.type != "cpu":
        raise ValueError(f"engine 'fused' runs on the CPU and x is on {x.device}: use 'auto', 'native' or 'eager'")
    if engine == "auto":
        engine = "fused" if x.device.type == "cpu" else "native" if native.supports(cell) else "eager"
    if engine == "fused" and (x.dtype != torch.float32 or not _compiles(cell, watch)):
        return "eager"
    return "eager" if engine == "native" and watch else engine


@functools.cache
def _compiles(cell: Cell, watch: bool) -> bool:
    """Whether the kernel is there; if it cannot be, that is said, once for the machine and once for each odd cell."""
    try:
        function.kernel(cell, watch)
    except compiler.CompilerError as error:
        about = cell.name if isinstance(error, compiler.KernelError) else "this machine"
        if about not in _said:
            _said.add(about)
            _say(str(error))
        return False
    return True


_said: set[str] = set()


def _say(reason: str) -> None:
    warnings.warn(
        f"the fused engine cannot run, so the eager one does, many times slower: {reason}. `gatelab doctor` tells "
        "more; engine='native' is faster for gru, lstm and rnn",
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
    """Run one layer in one direction on the engine that `choose` named."""
    if engine == "native":
        return native.scan(parameters, x, states, lengths)
    run = function.scan if engine == "fused" else eager.scan
    return run(parameters, x, states, lengths, watch)
