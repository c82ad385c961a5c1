"""Puts kernels that were compiled ahead into the wheel, if GATELAB_WHEEL_KERNELS names their folder (`make wheel`).

Otherwise the wheel is pure: kernels are compiled on first use.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "GATELAB_WHEEL_KERNELS"
PLACE = "gatelab/engine/fused/kernels"
OLDEST_GLIBC = 17  # 2.17, the oldest of the manylinux tags that pip knows by version


class Kernels(BuildHookInterface):
    """Adds the libraries and the tag of the platform that they need."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before the wheel is built."""
        folder = os.environ.get(VARIABLE)
        if not folder or version == "editable":
            return
        libraries = sorted(Path(folder).glob("*.so"))
        if not libraries:
            raise ValueError(f"{VARIABLE} names {folder!r}, which has no libraries: run `make wheel`, or unset it")
        build_data["force_include"].update({str(path): f"{PLACE}/{path.name}" for path in libraries})
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_{max(map(_glibc, libraries))}_x86_64"


def _glibc(library: Path) -> int:
    """The minor version of glibc 2 that a library needs, by the versions of the symbols it uses."""
    return max([OLDEST_GLIBC, *map(int, re.findall(rb"\0GLIBC_2\.(\d+)", library.read_bytes()))])
