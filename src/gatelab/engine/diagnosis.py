"""Checks whether the fused engine works on this machine."""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from typing import NamedTuple

import torch

from gatelab import cells
from gatelab.disk import cache_folder
from gatelab.engine import eager, team
from gatelab.engine.fused import compiler, function, kernel, prebuilt
from gatelab.engine.fused.kernel_source import KernelSource
from gatelab.engine.recurrent import Recurrent
from gatelab.errors import GatelabError

OUTPUTS, GRADIENTS = 5e-6, 2e-5


class Diagnosis(NamedTuple):
    """The result of one check: its subject, whether it passed, the details, and what to do if it failed."""

    what: str
    good: bool
    message: str
    remedy: str = ""


def findings() -> list[Diagnosis]:
    """The results of all checks, up to the first that fails."""
    results: list[Diagnosis] = []
    for check in (_ahead, _compiler, _cache, _threads, _kernel, _denormals):
        results += check()
        if not all(finding.good for finding in results):
            break
    return results


def _compiler() -> list[Diagnosis]:
    try:
        return [Diagnosis("compiler", True, f"{compiler.version()} ({' '.join(compiler.command())})")]
    except compiler.NoCompilerError as error:
        message = "none was found; kernels that were compiled ahead or are in the cache can be used"
        return [Diagnosis("compiler", _origin() is not None, message, str(error))]
    except compiler.CompilerError as error:
        return [Diagnosis("compiler", False, "none that works was found", str(error))]


def _ahead() -> list[Diagnosis]:
    """Kernels compiled ahead, for the best level of this CPU that there are libraries for."""
    try:
        libraries = next(filter(None, map(prebuilt.libraries, prebuilt.supported())), [])
    except GatelabError as error:
        return [Diagnosis("ahead of time", False, "cannot be used", str(error))]
    counts = {path: len(prebuilt.keys(path)) for path in libraries}
    listed = ", ".join(f"{count} kernels in {path}" for path, count in counts.items())
    remedy = "a library without kernels is damaged or writable by others: write it again, and only by yourself"
    return [Diagnosis("ahead of time", all(counts.values()), listed or "no kernels for this CPU", remedy)]


def _cache() -> list[Diagnosis]:
    try:
        folder = cache_folder("kernels")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except (OSError, RuntimeError) as error:
        remedy = "set the variable GATELAB_CACHE to a writable folder"
        return [Diagnosis("cache", not has_compiler(), f"is not writable: {error}", remedy)]
    kernels = [entry.stat().st_size for entry in os.scandir(folder) if entry.name.endswith(".so")]
    return [Diagnosis("cache", True, f"{folder}, {len(kernels)} kernels, {sum(kernels) / 1e6:.1f} MB")]


def has_compiler() -> bool:
    """Whether there is a compiler, working or not."""
    try:
        return bool(compiler.command())
    except compiler.NoCompilerError:
        return False


def _origin() -> str | None:
    """Where the kernel of `gru` comes from; None if it has to be compiled first."""
    source = KernelSource(cells.gru).text
    try:
        if compiler.compiled_ahead(source) is not None:
            return "compiled ahead"
        return "from the cache" if compiler.cached(cells.gru.name, source) is not None else None
    except (GatelabError, OSError, RuntimeError):  # which the other checks report
        return None


def _threads() -> list[Diagnosis]:
    """How many threads kernels have, whose, and how torch's wait, which decides how training goes beside others."""
    given, chosen = kernel.PoolInputs.here(), kernel.settings_of_waiting()
    whose = "shared with torch unless the machine is busy" if given.parallel else "beside those of torch"
    waits = f"wait as the environment says ({chosen})" if chosen else "wait as its OpenMP runtime decides"
    waits = "spin; on a busy machine they are made to sleep soon" if given.cores else waits
    return [
        Diagnosis("threads", True, f"{team.of_kernels()}, {whose}; {team.idle_cores():.1f} cores are idle now"),
        Diagnosis("waiting", True, f"idle threads of torch {waits}"),
    ]


def _kernel() -> list[Diagnosis]:
    """Load the kernel of one cell and compare outputs and gradients with the eager engine in float64."""
    origin = _origin()
    started = time.perf_counter()
    try:
        compiled = kernel.kernel(cells.gru)
    except compiler.CompilerError as error:
        return [Diagnosis("kernel", False, "there is none for gru", str(error))]
    seconds = time.perf_counter() - started
    layer = Recurrent("gru", 5, 37)
    exact = Recurrent("gru", 5, 37, dtype=torch.float64)
    exact.load_state_dict(layer.state_dict())
    x, h = torch.randn(20, 19, 5), torch.zeros(19, 37)
    output = function.scan(next(layer.cell_parameters()), x, (h,)).output
    expected = eager.scan(next(exact.cell_parameters()), x.double(), (h.double(),)).output
    for values in (output, expected):
        torch.autograd.backward(values.square().mean())
    output_error = (output - expected).abs().max().item()
    pairs = list(zip(layer.parameters(), exact.parameters(), strict=True))
    gradient_error = max(((p.grad - q.grad).abs().max() / q.grad.abs().max()).item() for p, q in pairs)  # type: ignore[operator,union-attr]
    origin = origin or f"compiled in {seconds:.1f} s"
    details = f"gru {origin}, largest error {output_error:.1e}, of gradients {gradient_error:.1e} (relative)"
    remedy = "delete the cache folder and try again; if it persists, report it with the output of this command"
    return [
        Diagnosis("vectors", True, f"{_constant(compiled, 'lanes')} floats wide"),
        Diagnosis("kernel", output_error < OUTPUTS and gradient_error < GRADIENTS, details, remedy),
    ]


def _denormals() -> list[Diagnosis]:
    """Check that denormals are flushed to zero inside the kernel, in all threads, and unaffected outside it."""
    layer = Recurrent("gru", 1, 16).requires_grad_(False)
    for parameter in layer.parameters():
        parameter.zero_()  # then h' = h / 2
    tiny = torch.full((16, 16), 1e-39)
    before = tiny * 0.5
    halved = function.scan(next(layer.cell_parameters()), torch.zeros(1, 16, 1), (tiny,)).states[0]
    restored = torch.equal(tiny * 0.5, before)
    flushed = not halved.any()
    details = "flushed to zero inside the kernel" if flushed else "not flushed on this CPU: long sequences may be slow"
    remedy = "report this: a kernel changed the CPU's floating-point control register"
    return [
        Diagnosis("denormals", restored, details + (", unchanged outside" if restored else ", changed outside"), remedy)
    ]


def _constant(compiled: kernel.Kernel, name: str) -> int:
    return ctypes.c_int.in_dll(compiled.library, name).value
