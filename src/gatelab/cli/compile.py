"""`gatelab compile`: compile kernels ahead, for machines without a compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compile_ahead(
    names: Annotated[list[str], typer.Argument(help="Cells, or FILE.py:NAME for your own.", metavar="CELL")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Output directory; libraries in it are kept.")],
) -> None:
    """Compile the kernels of cells ahead, for machines without a compiler.

    There the variable GATELAB_KERNELS names the directory. The libraries are for Linux on x86-64, and a CPU uses the
    best of them that it supports. `gru` is always among the kernels: `gatelab doctor` checks them by it.
    """
    from gatelab import cells
    from gatelab.engine.fused import ahead, compiler, prebuilt
    from gatelab.errors import GatelabError
    from gatelab.formatting import counted

    if out.exists() and not out.is_dir():
        raise GatelabError(f"--out {out} is a file: expected a directory, which may exist")
    chosen = [cells.get(name) for name in names]
    try:
        libraries = ahead.build([*chosen, cells.gru], out)
    except compiler.CompilerError as error:
        raise GatelabError(f"nothing was compiled: {error}") from error
    size = sum(path.stat().st_size for path in libraries)
    typer.echo(f"{out}: {counted(len(chosen), 'cell')} for {', '.join(prebuilt.LEVELS)}, {size / 1e6:.1f} MB")
    typer.echo(f"A machine without a compiler uses them with {prebuilt.VARIABLE}={out.absolute()}")
