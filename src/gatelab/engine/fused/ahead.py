"""Compile kernels ahead of time, for machines without a compiler: one library for each level of x86-64."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gatelab.engine.fused import compiler, files, prebuilt
from gatelab.engine.fused.kernel_source import KernelSource
from gatelab.errors import GatelabError
from gatelab.lang import Cell

STRIPPED = ("-s", "-Wl,--build-id=none")
MODE = 0o755  # other users may load them, and not write to them


def build(cells: Iterable[Cell], folder: Path, levels: Sequence[str] = tuple(prebuilt.LEVELS)) -> list[Path]:
    """Compile the kernels of some cells, with and without gates as outputs, into one library for each level; returns
    the libraries. Raises `GatelabError` or `CompilerError`.
    """
    if not prebuilt.is_possible():
        raise GatelabError(
            "kernels are compiled ahead for Linux on x86-64, which this machine does not run: compile them on one that "
            "does. On other systems they are compiled on first use"
        )
    compiler.command()  # raises if there is none
    sources = {compiler.key(text): (name, text) for cell in cells for name, text in _sources(cell).items()}
    identity = hashlib.sha256("".join(sorted(sources)).encode()).hexdigest()[:10]
    folder.mkdir(mode=MODE, parents=True, exist_ok=True)
    libraries = []
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix=".compiling-") as work,
        ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
    ):
        for level in levels:
            library = _built(sources, level, Path(work) / level, pool)
            libraries.append(folder / f"{identity}-{level}.so")
            files.seal(library, libraries[-1].name, MODE)
            os.replace(library, libraries[-1])
    return libraries


def _sources(cell: Cell) -> dict[str, str]:
    """The C++ of a cell's two kernels, by name."""
    try:
        return {cell.name: KernelSource(cell).text, f"{cell.name}_gates": KernelSource(cell, watch=True).text}
    except RecursionError as error:
        raise compiler.KernelError(f"cell {cell.name!r} is nested too deeply for the fused engine") from error


def _built(sources: dict[str, tuple[str, str]], level: str, work: Path, pool: ThreadPoolExecutor) -> Path:
    """The library for one level, in a temporary folder."""
    work.mkdir()
    flags = tuple(f"-march={level}" if flag == "-march=native" else flag for flag in compiler.FLAGS)
    compiler.precompile_runtime(flags, work)

    def compiled(key: str) -> Path:
        name, text = sources[key]
        path = work / f"{key}.o"
        compiler.compile_object(name, text, (*flags, f"-I{work}", *_renamed(text, key)), path)
        return path

    objects = list(pool.map(compiled, sources))
    compiler.compile_products(flags, work / "products.o")
    library = work / "library.so"
    compiler.link([*objects, work / "products.o"], library, STRIPPED)
    return library


def _renamed(text: str, key: str) -> list[str]:
    """The flags that give the functions of a kernel the names they have in a library with others."""
    return [f"-D{name}={name}_{key}" for name in re.findall(r'^extern "C" .*?(\w+)\(', text, re.MULTILINE)]
