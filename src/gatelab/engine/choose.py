"""Selects the engine that runs a cell."""

from __future__ import annotations

import functools
import os
import warnings

import torch
from torch import Tensor

from gatelab.engine import eager, native
from gatelab.engine.fused import compiler, function, ops
from gatelab.engine.fused.kernel import kernel
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


def choose(engine: str, cell: Cell, x: Tensor, watch: bool, resets: bool = False) -> str:
    """The engine that will run; the environment variable GATELAB_ENGINE overrides the layer's.

    "auto" is fused on the CPU, native on other devices where torch.nn has the cell, and eager otherwise; without a
    working compiler it is eager, with a warning. Fused falls back to eager for dtypes other than float32, and is an
    error without a compiler; native falls back when gates or resets are requested.
    """
    override = os.environ.get(OVERRIDE)
    check(override or engine, cell, OVERRIDE if override else "engine")
    engine = override or engine
    if engine == "fused" and x.device.type != "cpu":
        raise GatelabError(f"engine 'fused' runs on the CPU and x is on {x.device}: use 'auto', 'native' or 'eager'")
    if engine == "auto":
        engine = "fused" if x.device.type == "cpu" else "native" if native.supports(cell) else "eager"
        if engine == "fused" and x.dtype == torch.float32 and (reason := _unavailable(cell, watch)) is not None:
            _warn_once(cell, reason)
            return "eager"
    if engine == "fused" and x.dtype != torch.float32:
        return "eager"
    if engine == "fused" and (reason := _unavailable(cell, watch)) is not None:
        raise GatelabError(f"engine 'fused' is not available: {reason}. Use 'auto' or 'eager'; see `gatelab doctor`")
    return "eager" if engine == "native" and (watch or resets) else engine


def _unavailable(cell: Cell, watch: bool) -> compiler.CompilerError | None:
    """Why there is no kernel; None if there is one, or while torch traces a graph, whose operator finds that out."""
    return None if torch.compiler.is_compiling() else _tried(cell, watch)


@functools.cache
def _tried(cell: Cell, watch: bool) -> compiler.CompilerError | None:
    """Why there is no kernel. If the machine is the reason, it is not tried again: a compiler that hangs would do so
    for every cell.
    """
    if _machine:
        return _machine[0]
    try:
        kernel(cell, watch)
    except compiler.CompilerError as error:
        if not isinstance(error, compiler.KernelError):
            _machine.append(error)
        return error
    return None


_machine: list[compiler.CompilerError] = []  # why no kernel can be compiled here, once that is known
_warned: set[str] = set()


def _warn_once(cell: Cell, reason: compiler.CompilerError) -> None:
    """Once per machine, or once per cell that has no kernel."""
    subject = cell.name if isinstance(reason, compiler.KernelError) else "this machine"
    if subject not in _warned:
        _warned.add(subject)
        warnings.warn(
            f"the fused engine is not available, falling back to eager, which is many times slower: {reason}. See "
            "`gatelab doctor`; engine='native' is faster for gru, lstm and rnn",
            stacklevel=2,
        )


def scan(
    engine: str,
    parameters: CellParameters,
    x: Tensor,
    states: tuple[Tensor | None, ...],
    lengths: Tensor | None = None,
    watch: bool = False,
    resets: Tensor | None = None,
    *,
    with_output: bool = True,
) -> Scan:
    """Run one layer in one direction on the engine that `choose` selected."""
    if engine == "fused":
        scanner = ops.scan if torch.compiler.is_compiling() or type(x) not in _TENSORS else function.scan
        return scanner(parameters, x, states, lengths, watch, resets, with_output)
    zeros = x.new_zeros(x.shape[1], parameters.hidden_size)
    starts = tuple(zeros if state is None else state for state in states)
    if engine == "native":
        return native.scan(parameters, x, starts, lengths)
    return eager.scan(parameters, x, starts, lengths, watch, resets)


_TENSORS = (Tensor, torch.nn.Parameter)  # others are fake, or functions of tensors
