"""Whether the fused engine can work on this machine, step by step."""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from typing import NamedTuple

import torch

from gatelab import cells
from gatelab.disk import cache_folder
from gatelab.engine import eager
from gatelab.engine.fused import compiler, function
from gatelab.engine.recurrent import Recurrent

OUTPUTS, GRADIENTS = 5e-6, 2e-5


class Finding(NamedTuple):
    what: str
    good: bool
    said: str
    remedy: str = ""


def findings() -> list[Finding]:
    """What was found, up to the first thing that keeps the engine from working."""
    found: list[Finding] = []
    for step in (_compiler, _cache, _kernel, _denormals):
        found += step()
        if not all(finding.good for finding in found):
            break
    return found


def _compiler() -> list[Finding]:
    try:
        return [Finding("compiler", True, f"{compiler.version()} ({' '.join(compiler.command())})")]
    except compiler.CompilerError as error:
        return [Finding("compiler", False, "none found", str(error))]


def _cache() -> list[Finding]:
    try:
        folder = cache_folder("kernels")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except (OSError, RuntimeError) as error:
        remedy = "name a folder that can be written in the variable GATELAB_CACHE"
        return [Finding("cache", False, f"cannot be written: {error}", remedy)]
    kernels = [entry.stat().st_size for entry in os.scandir(folder) if entry.name.endswith(".so")]
    return [Finding("cache", True, f"{folder}, {len(kernels)} kernels, {sum(kernels) / 1e6:.1f} MB")]


def _kernel() -> list[Finding]:
    """One cell compiled and compared with the eager engine in float64, values and gradients."""
    started = time.perf_counter()
    try:
        compiled = function.kernel(cells.gru)
    except compiler.CompilerError as error:
        return [Finding("kernel", False, "could not be built", str(error))]
    seconds = time.perf_counter() - started
    layer = Recurrent("gru", 5, 37)
    exact = Recurrent("gru", 5, 37, dtype=torch.float64)
    exact.load_state_dict(layer.state_dict())
    x, h = torch.randn(20, 19, 5), torch.zeros(19, 37)
    got = function.scan(next(layer.runs()), x, (h,)).output
    wanted = eager.scan(next(exact.runs()), x.double(), (h.double(),)).output
    for values in (got, wanted):
        torch.autograd.backward(values.square().mean())
    off = (got - wanted).abs().max().item()
    pairs = list(zip(layer.parameters(), exact.parameters(), strict=True))
    off_gradient = max(((p.grad - q.grad).abs().max() / q.grad.abs().max()).item() for p, q in pairs)  # type: ignore[operator,union-attr]
    said = f"gru in {seconds:.1f} s, values off by {off:.1e} at most, gradients by {off_gradient:.1e} of the largest"
    remedy = "remove the cache folder and try again; if it stays, report it with the output of this command"
    threads = (
        f"{torch.get_num_threads()} by OpenMP" if _constant(compiled, "openmp") else "one: the compiler has no OpenMP"
    )
    return [
        Finding("vectors", True, f"{_constant(compiled, 'lanes')} numbers at a time"),
        Finding("threads", True, threads),
        Finding("kernel", off < OUTPUTS and off_gradient < GRADIENTS, said, remedy),
    ]


def _denormals() -> list[Finding]:
    """Numbers too small for full precision are zero inside the kernel, in all threads, and as before outside it."""
    layer = Recurrent("gru", 1, 16).requires_grad_(False)
    for parameter in layer.parameters():
        parameter.zero_()  # then h' = h / 2
    tiny = torch.full((16, 16), 1e-39)
    before = tiny * 0.5
    halved = function.scan(next(layer.runs()), torch.zeros(1, 16, 1), (tiny,)).states[0]
    same = torch.equal(tiny * 0.5, before)
    flushed = not halved.any()
    said = (
        "flushed to zero inside the kernel" if flushed else "not flushed on this processor: long sequences may be slow"
    )
    remedy = "report this: a kernel left the processor's control register changed"
    return [Finding("denormals", same, said + (", as before outside" if same else ", and changed outside"), remedy)]


def _constant(compiled: function.Kernel, name: str) -> int:
    return ctypes.c_int.in_dll(compiled.library, name).value
