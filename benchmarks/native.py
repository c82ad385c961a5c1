"""C++ of a benchmark's own, compiled for this machine."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

from gatelab.engine.fused import compiler


def compiled(source: str) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        text, library = Path(folder, "native.cpp"), Path(folder, "native.so")
        text.write_text(source)
        options = ["-O3", "-march=native", "-shared", "-fPIC", "-pthread", str(text), "-o", str(library)]
        subprocess.run([*compiler.command(), *options], check=True)
        return ctypes.CDLL(str(library))
