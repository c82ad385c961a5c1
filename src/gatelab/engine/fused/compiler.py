"""Compile C++ source to a shared library, cache it on disk, and load it.

Kernels need neither OpenMP nor its runtime: they have threads of their own (threads.cpp).
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gatelab.engine.fused import files, prebuilt
from gatelab.errors import GatelabError

# Read when this is imported, with the modules that fill the structures of C++: gatelab may be installed anew while it
# runs. `COMMON` is compiled as one file, once, and linked to every kernel.
RUNTIME, *COMMON = (
    Path(__file__).with_name(name).read_text()
    for name in (
        "runtime.hpp", "products.cpp", "threads.cpp", "interface.cpp", "weights.cpp", "calls.cpp", "streaming.cpp"
    )
)  # fmt: skip

# No -ffast-math: NaN and infinity must propagate, and before GCC 13 it links start-up code that changes the
# floating-point control register of the whole process. Its safe sub-options are listed one by one.
FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fPIC",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
)
# Python's functions, which C++ calls, are in the process that loads a kernel.
LINK = ("-shared", "-pthread", *(("-undefined", "dynamic_lookup") if sys.platform == "darwin" else ()))
TIMEOUT = 120  # seconds per compilation; an ordinary cell takes about two
PROBE_TIMEOUT = 20  # seconds for questions about the compiler


class CompilerError(RuntimeError):
    """Kernels cannot be compiled or loaded on this machine; the message says what to do."""


class KernelError(CompilerError):
    """One particular kernel cannot be compiled; others may."""


class NoCompilerError(CompilerError):
    """There is no compiler; kernels that exist can be loaded."""


@functools.cache
def command() -> tuple[str, ...]:
    """The C++ compiler and its arguments: $CXX if set, otherwise g++ or clang++ from PATH."""
    from_environment = shlex.split(os.environ.get("CXX", ""))
    for program, *arguments in [from_environment] if from_environment else [["g++"], ["clang++"]]:
        if executable := shutil.which(program):
            return (executable, *arguments)
    if from_environment:
        raise CompilerError(
            f"CXX names {from_environment[0]!r}, which was not found: set CXX to an installed compiler, or unset it"
        )
    raise NoCompilerError(
        "no C++ compiler was found: install g++ or clang++ (`apt-get install g++`), set the variable CXX, or compile "
        "the cell on another machine with `gatelab compile`"
    )


@functools.cache
def version() -> str:
    """The first line of the compiler's `--version`, or its path if it prints nothing."""
    done = _run(["--version"], PROBE_TIMEOUT)
    return done.stdout.partition("\n")[0] or command()[0]


@functools.cache
def cpu() -> str:
    """What -march=native depends on: the CPU's model and instruction sets."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    prefixes = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(prefixes)))


def cpu_name() -> str:
    """The CPU's marketing name, such as "Intel(R) Xeon(R) Processor"."""
    names = (line.partition(":")[2].strip() for line in cpu().splitlines() if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def load(name: str, source: str) -> ctypes.CDLL:
    """Load the compiled source: compiled ahead, from the cache, or compiled now."""
    try:
        if (ahead := compiled_ahead(source)) is not None:
            return prebuilt.load(ahead, key(source))
        return ctypes.CDLL(str(cached(name, source) or _compiled(name, source)))
    except GatelabError as error:  # about GATELAB_KERNELS
        raise CompilerError(str(error)) from error
    except CompilerError:
        raise
    except (OSError, RuntimeError) as error:  # folder not writable or mounted noexec, or no home directory
        raise CompilerError(f"{error}: set the variable GATELAB_CACHE to a writable folder") from error


def key(source: str) -> str:
    """The digest of all the text that a kernel is compiled from. It contains neither the compiler nor the CPU."""
    return _digest(source, RUNTIME, *COMMON, length=20)


def compiled_ahead(source: str) -> Path | None:
    """The library that was compiled ahead and contains the kernel of this source; None if there is none."""
    return prebuilt.find(key(source))


def cached(name: str, source: str) -> Path | None:
    """The kernel in the cache; None if it is missing or damaged. Without a compiler any kernel of this source that was
    compiled on such a CPU will do: that of the compiler used last.
    """
    try:
        paths = [_library_path(name, source)]
    except NoCompilerError:
        paths = [path for path in files.cache().glob(f"{_stem(name, source)}-*.so") if files.is_usable(path)]
        paths.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    return next(filter(files.is_usable, paths), None)


def _compiled(name: str, source: str) -> Path:
    """Compile into the cache."""
    try:
        path = _library_path(name, source)
    except NoCompilerError as error:
        if prebuilt.folders() or any(files.cache().glob("*.so")):  # other cells may have kernels
            raise KernelError(f"the kernel {name!r} was neither compiled ahead nor cached, and {error}") from error
        raise
    with _work(path.parent) as folder:
        _precompile()
        compile_object(name, source, FLAGS, folder / "kernel.o")
        link([folder / "kernel.o", _products()], folder / "kernel.so")
        files.seal(folder / "kernel.so", path.name)
        os.replace(folder / "kernel.so", path)
    return path


def _products() -> Path:
    """The object file of products.cpp in the cache; compiled first if it is missing or damaged."""
    path = _library_path("products", "").with_suffix(".o")
    if not files.is_usable(path):
        with _work(path.parent) as folder:
            compile_products(FLAGS, folder / "products.o")
            files.seal(folder / "products.o", path.name)
            os.replace(folder / "products.o", path)
    return path


def _stem(name: str, source: str) -> str:
    """How the names of a kernel's files in the cache begin, whatever compiled them; the CPU is part of it."""
    return f"{re.sub(r'[^A-Za-z0-9_]+', '_', name)[:60]}-{key(source)}-{_digest(cpu())}"


def _library_path(name: str, source: str) -> Path:
    return files.cache() / f"{_stem(name, source)}-{_digest(version(), ' '.join(FLAGS))}.so"


def _digest(*texts: str, length: int = 10) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:length]


def _run(arguments: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run the compiler; one that does not end in time is killed, with the programs that it has started."""
    # In a new session: Ctrl-C must interrupt Python, not look like a compile error.
    process = subprocess.Popen(
        [*command(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    with process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise CompilerError(
                    f"the compiler {shlex.join(command())} did not end within {seconds:g} seconds (with the arguments "
                    f"{shlex.join(arguments)[:100]}): check that it works, or set the variable CXX to another one"
                ) from None
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


@contextmanager
def _work(parent: Path) -> Iterator[Path]:
    """A temporary folder beside the result, which is renamed: other processes see the complete file or none."""
    with tempfile.TemporaryDirectory(dir=parent, prefix=".compiling-") as folder:
        yield Path(folder)


def compile_object(name: str, source: str, flags: tuple[str, ...], path: Path) -> None:
    """Compile source to an object file; beside it remains its source."""
    source_path = path.with_suffix(".cpp")
    source_path.write_text(source)
    done = _run([*flags, f"-I{include()}", "-c", str(source_path), "-o", str(path)], TIMEOUT)
    if done.returncode != 0:
        raise KernelError(f"{version()} failed to compile the kernel {name!r}:\n{done.stderr[:2000]}")


def compile_products(flags: tuple[str, ...], path: Path) -> None:
    """Compile the part that all kernels have in common."""
    try:
        compile_object("products", "".join(COMMON), flags, path)
    except KernelError as error:  # no kernel can be compiled then
        raise CompilerError(str(error)) from None


def include() -> Path:
    """Where the header is: in a folder of this process, where nobody can damage it."""
    header = _folder(os.getpid()) / "runtime.hpp"
    if not header.exists():  # also if the system tidied up
        header.parent.mkdir(mode=0o700, exist_ok=True)
        header.write_text(RUNTIME)
    return header.parent


@functools.cache
def _folder(process: int) -> Path:
    """A forked process has one of its own."""
    folder = Path(tempfile.mkdtemp(prefix="gatelab-header-"))
    atexit.register(_remove, folder, process)
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


_kernels = 0  # that were compiled in this process


def _precompile() -> None:
    """Precompile the header before the second kernel: for one alone it would not pay."""
    global _kernels
    _kernels += 1
    if _kernels == 2 and "clang" not in version():
        with suppress(CompilerError):  # then without
            precompile_runtime(FLAGS, include())


def precompile_runtime(flags: tuple[str, ...], folder: Path) -> None:
    """Precompile the header, which saves GCC up to a seventh of the time; to be included from this folder. clang
    does not look for it.
    """
    done = _run(
        [*flags, "-x", "c++-header", str(include() / "runtime.hpp"), "-o", str(folder / "runtime.hpp.gch")], TIMEOUT
    )
    if done.returncode != 0:
        raise CompilerError(f"{version()} failed to compile runtime.hpp:\n{done.stderr[:2000]}")


def link(objects: list[Path], path: Path, flags: tuple[str, ...] = ()) -> None:
    """Link object files to a shared library."""
    done = _run([*map(str, objects), *LINK, *flags, "-o", str(path)], TIMEOUT)
    if done.returncode != 0:
        raise CompilerError(f"{version()} failed to link a kernel:\n{done.stderr[:2000]}")
