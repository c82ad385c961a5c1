"""From C++ to a loaded kernel: the compiler, its flags, and a cache on disk."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

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
OPENMP = "-fopenmp"
DIGEST = 32  # bytes of SHA-256 at the end of a cached file, where the loader does not look


class CompilerError(RuntimeError):
    """There is no compiler, or it refused; the message says what to do."""


@functools.cache
def compiler() -> str | None:
    """The C++ compiler: $CXX, else g++ or clang++ from the path."""
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        if name and (found := shutil.which(name)):
            return found
    return None


@functools.cache
def compiler_version() -> str:
    found = compiler()
    if found is None:
        raise CompilerError(
            "no C++ compiler was found: install g++ or clang++ (`apt-get install g++`), or name one in the variable CXX"
        )
    done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0] or found


@functools.cache
def cpu() -> str:
    """What -march=native depends on: the processor's model and abilities."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))


def cache_folder() -> Path:
    """$GATELAB_CACHE/kernels, else `gatelab/kernels` in the user's cache directory."""
    if chosen := os.environ.get("GATELAB_CACHE"):
        return Path(chosen) / "kernels"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gatelab" / "kernels"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gatelab" / "kernels"


def load(name: str, source: str) -> ctypes.CDLL:
    """The compiled source, from the cache if it is there and whole."""
    # torch comes first, so that the kernel shares its OpenMP threads: two pools on the same cores only get in the way.
    import torch  # noqa: F401

    parts = (source, RUNTIME.read_text(), compiler_version(), " ".join((*FLAGS, OPENMP)), cpu())
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
    path = cache_folder() / f"{name}-{key}.so"
    if not _whole(path):
        _build(name, source, path)
    return ctypes.CDLL(str(path))


def _whole(path: Path) -> bool:
    """Whether a cached file is as it was written: loading a cut one can end the process."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return len(content) > DIGEST and hashlib.sha256(content[:-DIGEST]).digest() == content[-DIGEST:]


def _build(name: str, source: str, path: Path) -> None:
    """Compile beside the final place and move there: whoever else builds the same finds all of it or nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CompilerError(
            f"the cache folder {path.parent} cannot be made ({error.strerror}): name another in GATELAB_CACHE"
        ) from error
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{name}-") as folder:
        written, made = Path(folder) / f"{name}.cpp", Path(folder) / f"{name}.so"
        written.write_text(source)
        _compile(written, made)
        with made.open("ab") as file:
            file.write(hashlib.sha256(made.read_bytes()).digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, path)


def _compile(written: Path, made: Path) -> None:
    compiler_version()
    for openmp in ([OPENMP], []):  # Apple's clang has no OpenMP: one thread then
        command = [str(compiler()), *FLAGS, *openmp, f"-I{RUNTIME.parent}", str(written), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
    raise CompilerError(f"{compiler_version()} refused the kernel {written.stem!r}:\n{done.stderr[:2000]}")
