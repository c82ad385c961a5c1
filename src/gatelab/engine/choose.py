"""Selects the engine that runs a cell."""

from __future__ import annotations

import functools
import os
import warnings

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gatelab.engine import compiled, eager, native
from gatelab.engine.fused import compiler, expected, function, ops
from gatelab.engine.fused.kernel import kernel
from gatelab.engine.layout import LAYOUTS
from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan
from gatelab.errors import GatelabError, unknown
from gatelab.lang import Cell

ENGINES = ("auto", "fused", "native", "compiled", "eager")
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

    "auto" is fused for float32 on the CPU, native on other devices where torch.nn has the cell, compiled where it does
    not, and eager otherwise; what does not work here is eager, with a warning. Fused is an error without a compiler,
    and eager with a warning for dtypes other than float32, and where torch does more than compute; native is eager when
    gates or resets are requested.
    """
    override = os.environ.get(OVERRIDE)
    check(override or engine, cell, OVERRIDE if override else "engine")
    engine = override or engine
    if engine == "auto":
        engine = _automatic(cell, x, watch, resets)
        return _without_kernels(cell, watch or resets) or engine if engine == "fused" else engine
    if engine == "native" and (watch or resets):
        return "eager"
    if engine != "fused":
        return engine
    if x.device.type != "cpu":
        raise GatelabError(
            f"engine 'fused' runs on the CPU and x is on {x.device}: use 'auto', 'native', 'compiled' or 'eager'"
        )
    if x.dtype != torch.float32:
        _warn_once(
            f"fused {x.dtype}",
            f"engine 'fused' computes in torch.float32 and x is {x.dtype}: the eager engine runs instead, many times "
            "slower. Convert the layer and x with .float(), or choose engine='auto' or 'eager'",
        )
        return "eager"
    if (reason := _unavailable(cell, watch)) is not None:
        raise GatelabError(f"engine 'fused' is not available: {reason}. Use 'auto' or 'eager'; see `gatelab doctor`")
    return _without_kernels(cell, watch or resets) or engine


def _without_kernels(cell: Cell, is_special: bool) -> str | None:
    """The engine that runs while torch does something that kernels cannot take part in; None while it does not."""
    if torch.compiler.is_compiling():
        return None  # then the operator stands in the graph
    if torch._C._functorch.peek_interpreter_stack() is not None:
        doing = "transforms functions (torch.func)"
    elif forward_ad._current_level >= 0:
        doing = "differentiates forwards"
    elif torch._C._is_tracing() and torch.onnx.is_in_onnx_export():
        return "native" if native.supports(cell) and not is_special else "eager"
    else:
        return None
    _warn_once(
        doing,
        f"the eager engine runs while torch {doing}, in which kernels have no part: it is many times slower",
    )
    return "eager"


def _automatic(cell: Cell, x: Tensor, watch: bool, resets: bool) -> str:
    """What "auto" stands for."""
    if not x.is_cpu:
        if native.supports(cell) and not (watch or resets):
            return "native"
        if (failure := compiled.unavailable(cell, x.device.type)) is None:
            return "compiled"
        _warn_once(f"compiled {cell.name}", f"falling back to the eager engine, which is slower: {failure}")
        return "eager"
    if x.dtype != torch.float32:
        return "eager"
    if (reason := _unavailable(cell, watch)) is not None:
        _warn_once(
            cell.name if isinstance(reason, compiler.KernelError) else "this machine",
            f"the fused engine is not available, falling back to eager, which is many times slower: {reason}. See "
            "`gatelab doctor`; engine='native' is faster for gru, lstm and rnn",
        )
        return "eager"
    return "fused"


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


def _warn_once(subject: str, message: str) -> None:
    """Once per machine, dtype, or cell."""
    if subject not in _warned:
        _warned.add(subject)
        warnings.warn(message, stacklevel=2)


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
        arguments = parameters, x, states, lengths, watch, resets, with_output
        if _is_seen_by_torch(x):
            return ops.scan(*arguments)
        try:
            return function.scan(*arguments)
        except expected.OtherTensorError:  # the operator is for all kinds of tensors
            return ops.scan(*arguments)
    zeros = x.new_zeros(x.shape[1], parameters.hidden_size)
    starts = tuple(zeros if state is None else state for state in states)
    if engine == "native":
        return native.scan(parameters, x, starts, lengths)
    return {"compiled": compiled.scan}.get(engine, eager.scan)(parameters, x, starts, lengths, watch, resets)


def _is_seen_by_torch(x: Tensor) -> bool:
    """Whether a graph is made of a call, or a mode or a subclass of tensors answers it: then it is an operator."""
    is_in_a_graph = torch.compiler.is_compiling() or torch._C._is_tracing() or torch._C._len_torch_dispatch_stack() > 0
    return is_in_a_graph or type(x) not in expected.PLAIN
