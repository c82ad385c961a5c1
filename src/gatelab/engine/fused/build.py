"""From C++ to a loaded kernel: the compiler, its flags, and a cache on disk."""

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
import subprocess
import tempfile
import warnings
from pathlib import Path

from gatelab.disk import cache_folder

RUNTIME = Path(__file__).with_name("runtime.hpp")

# No -ffast-math: NaN and infinity have to come through, and before GCC 13 it links start-up code into the library that
# changes the control register of the whole process. What is safe of it is named.
FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fPIC",
    "-shared",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
)
OPENMP = ("-fopenmp",)
LONGEST = 300  # seconds of a compilation; an ordinary cell takes about two
DIGEST = 32  # bytes of SHA-256 at the end of a cached file, where the loader does not look


class CompilerError(RuntimeError):
    """Kernels cannot be built or loaded here; the message says what to do."""


class KernelError(CompilerError):
    """This one kernel cannot be built."""


@functools.cache
def compiler() -> tuple[str, ...]:
    """The command of the C++ compiler: $CXX, else g++ or clang++ from the path."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    for command in [chosen] if chosen else [["g++"], ["clang++"]]:
        if found := shutil.which(command[0]):
            return (found, *command[1:])
    if chosen:
        raise CompilerError(f"CXX names {chosen[0]!r}, which is not there: name a compiler that is, or unset CXX")
    raise CompilerError(
        "no C++ compiler was found: install g++ or clang++ (`apt-get install g++`), or name one in the variable CXX"
    )


@functools.cache
def compiler_version() -> str:
    done = subprocess.run([*compiler(), "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0] or compiler()[0]


@functools.cache
def cpu() -> str:
    """What -march=native depends on: the processor's model and abilities."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))


def cpu_name() -> str:
    """The processor as its maker calls it."""
    named = (line.partition(":")[2].strip() for line in cpu().splitlines() if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def load(name: str, source: str) -> ctypes.CDLL:
    """The compiled source, from the cache if it is there and whole."""
    # torch comes first, so that the kernel shares its OpenMP threads: two pools on the same cores only get in the way.
    import torch  # noqa: F401

    try:
        path = _place(name, source, FLAGS + OPENMP)
        if not _whole(path):
            flags = FLAGS + (OPENMP if _has_openmp() else ())  # Apple's clang has none: one thread then
            path = _place(name, source, flags)
            if not _whole(path):
                _build(name, source, flags, path)
        return ctypes.CDLL(str(path))
    except CompilerError:
        raise
    except (OSError, RuntimeError) as error:  # a folder that cannot be written or run from, or no home at all
        raise CompilerError(f"{error}: name a folder for kernels in the variable GATELAB_CACHE") from error


def _place(name: str, source: str, flags: tuple[str, ...]) -> Path:
    parts = (source, RUNTIME.read_text(), compiler_version(), " ".join(flags), cpu())
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
    return _folder() / f"{re.sub(r'[^A-Za-z0-9_]+', '_', name)[:60]}-{key}.so"


def _folder() -> Path:
    """Where kernels are kept. They are loaded and run, so a folder that others can write to is not used."""
    folder = cache_folder("kernels")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder if _is_ours(folder) else _own_folder(folder)


@functools.cache
def _own_folder(refused: Path) -> Path:
    """One for this process, for kernels that are compiled anew."""
    warnings.warn(
        f"the folder of compiled kernels, {refused}, belongs to somebody else or can be written by others: it is not "
        f"used, and kernels are compiled anew. Make it yours alone (chmod go-w {shlex.quote(str(refused))}), or name "
        "another folder in GATELAB_CACHE",
        stacklevel=2,
    )
    made = tempfile.mkdtemp(prefix="gatelab-kernels-")  # for its owner alone
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def _is_ours(path: Path) -> bool:
    """Whether nobody else can have put something there."""
    if not hasattr(os, "geteuid"):
        return True
    found = path.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022


@functools.cache
def _has_openmp() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "probe.cpp"
        written.write_text("#include <omp.h>\nint main() { return omp_get_max_threads() < 1; }\n")
        return _run([*OPENMP, str(written), "-o", str(Path(folder) / "probe")]).returncode == 0


def _run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    # In a session of its own: Ctrl-C is for whoever waits for the kernel, and must not look as if it were refused.
    try:
        return subprocess.run(
            [*compiler(), *arguments],
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired:
        raise KernelError(f"{compiler_version()} took more than {LONGEST} seconds for the kernel") from None


def _whole(path: Path) -> bool:
    """Whether a cached file is as it was written: loading a cut one can end the process."""
    try:
        if not _is_ours(path):
            return False
        content = path.read_bytes()
    except OSError:
        return False
    return len(content) > DIGEST and hashlib.sha256(content[:-DIGEST]).digest() == content[-DIGEST:]


def _build(name: str, source: str, flags: tuple[str, ...], path: Path) -> None:
    """Compile beside the final place and move there: whoever else builds the same finds all of it or nothing."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{name}-") as folder:
        written, made = Path(folder) / f"{name}.cpp", Path(folder) / f"{name}.so"
        written.write_text(source)
        done = _run([*flags, f"-I{RUNTIME.parent}", str(written), "-o", str(made)])
        if done.returncode != 0:
            raise KernelError(f"{compiler_version()} refused the kernel {name!r}:\n{done.stderr[:2000]}")
        made.chmod(0o700)
        with made.open("ab") as file:
            file.write(hashlib.sha256(made.read_bytes()).digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, path)
