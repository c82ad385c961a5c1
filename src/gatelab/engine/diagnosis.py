"""Whether the fused engine can work on this machine, step by step."""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from typing import NamedTuple

import torch

from gatelab import cells
from gatelab.engine import eager
from gatelab.engine.fused import build, function
from gatelab.engine.recurrent import Recurrent

TOLERANCE = 5e-6


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
        return [Finding("compiler", True, f"{build.compiler_version()} ({build.compiler()})")]
    except build.CompilerError as error:
        return [Finding("compiler", False, "none found", str(error))]


def _cache() -> list[Finding]:
    folder = build.cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        remedy = f"make {folder} writable, or name another folder in the variable GATELAB_CACHE"
        return [Finding("cache", False, f"{folder}: {error.strerror}", remedy)]
    kernels = [entry.stat().st_size for entry in os.scandir(folder) if entry.name.endswith(".so")]
    return [Finding("cache", True, f"{folder}, {len(kernels)} kernels, {sum(kernels) / 1e6:.1f} MB")]


def _kernel() -> list[Finding]:
    """One cell compiled and compared with the eager engine in float64."""
    started = time.perf_counter()
    try:
        ready = function.kernel(cells.gru)
    except (build.CompilerError, OSError) as error:
        return [Finding("kernel", False, "could not be built", str(error))]
    seconds = time.perf_counter() - started
    lanes = ctypes.c_int.in_dll(ready.library, "lanes").value
    layer = Recurrent("gru", 5, 37)
    exact = Recurrent("gru", 5, 37, dtype=torch.float64)
    exact.load_state_dict(layer.state_dict())
    x, h = torch.randn(20, 7, 5), torch.zeros(7, 37)
    with torch.no_grad():
        got = function.scan(next(layer.runs()), x, (h,)).output
        wanted = eager.scan(next(exact.runs()), x.double(), (h.double(),)).output
    error_found = (got - wanted).abs().max().item()
    remedy = "remove the cache folder and try again; if it stays, report it with the output of this command"
    return [
        Finding("vectors", True, f"{lanes} numbers at a time"),
        Finding("kernel", error_found < TOLERANCE, f"gru in {seconds:.1f} s, off by {error_found:.1e} at most", remedy),
    ]


def _denormals() -> list[Finding]:
    """Numbers too small for full precision must be zero inside the kernel, and as before outside it."""
    layer = Recurrent("gru", 1, 16).requires_grad_(False)
    tiny = torch.tensor([1e-39])
    before = (tiny * 1.0).item()
    function.scan(next(layer.runs()), torch.zeros(1, 1, 1), (torch.full((1, 16), 1e-39),))
    after = (tiny * 1.0).item()
    flushed = bool(ctypes.c_int.in_dll(function.kernel(cells.gru).library, "flushes").value)
    said = "flushed inside the kernel, the control register as before" if flushed else "not flushed on this processor"
    remedy = "report this: a kernel left the control register changed"
    return [Finding("denormals", before == after, said, remedy)]
