"""Compile C++ source to a shared library, cache it on disk, and load it."""

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
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

from gatelab.disk import cache_folder

RUNTIME = Path(__file__).with_name("runtime.hpp")
PRODUCTS = Path(__file__).with_name("products.cpp")  # compiled once, and linked to every kernel

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
OPENMP = ("-fopenmp",)
TIMEOUT = 120  # seconds per compilation; an ordinary cell takes about two
PROBE_TIMEOUT = 20  # seconds for questions about the compiler
DIGEST = 32  # bytes of SHA-256 appended to a cached file; loader and linker ignore trailing bytes


class CompilerError(RuntimeError):
    """Kernels cannot be compiled or loaded on this machine; the message says what to do."""


class KernelError(CompilerError):
    """One particular kernel cannot be compiled; others may."""


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
    raise CompilerError(
        "no C++ compiler was found: install g++ or clang++ (`apt-get install g++`), or set the variable CXX"
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
    """Load the compiled source from the cache; compile it first if it is missing or damaged."""
    # Import torch first so that the kernel shares its OpenMP thread pool: two pools would compete for the same cores.
    import torch  # noqa: F401

    try:
        path = _library_path(name, source, FLAGS + OPENMP)
        if not _is_intact(path):
            flags = FLAGS + (OPENMP if _has_openmp() else ())  # Apple's clang has no OpenMP: single-threaded then
            path = _library_path(name, source, flags)
            if not _is_intact(path):
                _compile(name, source, (*flags, "-shared", str(_products(flags))), path)
        return ctypes.CDLL(str(path))
    except CompilerError:
        raise
    except (OSError, RuntimeError) as error:  # folder not writable or mounted noexec, or no home directory
        raise CompilerError(f"{error}: set the variable GATELAB_CACHE to a writable folder") from error


def _products(flags: tuple[str, ...]) -> Path:
    """The object file of products.cpp; compiled first if it is missing or damaged."""
    path = _library_path("products", PRODUCTS.read_text(), flags).with_suffix(".o")
    if not _is_intact(path):
        try:
            _compile("products", PRODUCTS.read_text(), (*flags, "-c"), path)
        except KernelError as error:  # no kernel can be compiled then
            raise CompilerError(str(error)) from None
    return path


def _library_path(name: str, source: str, flags: tuple[str, ...]) -> Path:
    inputs = (source, RUNTIME.read_text(), PRODUCTS.read_text(), version(), " ".join(flags), cpu())
    key = hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:20]
    return _folder() / f"{re.sub(r'[^A-Za-z0-9_]+', '_', name)[:60]}-{key}.so"


def _folder() -> Path:
    """The cache folder. Its libraries are executed, so a folder that other users can write to is not used."""
    folder = cache_folder("kernels")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder if _is_private(folder) else _private_folder(folder)


@functools.cache
def _private_folder(shared: Path) -> Path:
    """A temporary folder for this process; kernels are recompiled into it."""
    warnings.warn(
        f"the kernel cache {shared} belongs to another user or is writable by others: it is not used, and kernels are "
        f"recompiled. Remove the write permission (chmod go-w {shlex.quote(str(shared))}), or set GATELAB_CACHE to "
        "another folder",
        stacklevel=2,
    )
    folder = tempfile.mkdtemp(prefix="gatelab-kernels-")  # mode 0o700
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _is_private(path: Path) -> bool:
    """Whether only this user can write there."""
    if not hasattr(os, "geteuid"):
        return True
    status = path.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


@functools.cache
def _has_openmp() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.cpp"
        probe.write_text("#include <omp.h>\nint main() { return omp_get_max_threads() < 1; }\n")
        return _run([*OPENMP, str(probe), "-o", str(Path(folder) / "probe")], PROBE_TIMEOUT).returncode == 0


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


def _is_intact(path: Path) -> bool:
    """Whether a cached library matches its digest: loading a truncated one can crash the process."""
    try:
        if not _is_private(path):
            return False
        content = path.read_bytes()
    except OSError:
        return False
    return len(content) > DIGEST and hashlib.sha256(content[:-DIGEST]).digest() == content[-DIGEST:]


def _compile(name: str, source: str, flags: tuple[str, ...], path: Path) -> None:
    """Compile to a temporary folder and rename: other processes see the complete library or none."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{name}-") as folder:
        source_path, library_path = Path(folder) / f"{name}.cpp", Path(folder) / f"{name}.so"
        source_path.write_text(source)
        done = _run([f"-I{RUNTIME.parent}", str(source_path), *flags, "-o", str(library_path)], TIMEOUT)
        if done.returncode != 0:
            raise KernelError(f"{version()} failed to compile the kernel {name!r}:\n{done.stderr[:2000]}")
        library_path.chmod(0o700)
        with library_path.open("ab") as file:
            file.write(hashlib.sha256(library_path.read_bytes()).digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(library_path, path)
