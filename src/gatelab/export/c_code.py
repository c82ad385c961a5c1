"""A network as one header and one source file in C99: no allocation, nothing but math.h, weights as constant arrays."""

from __future__ import annotations

from pathlib import Path

from gatelab.disk import write_text
from gatelab.errors import GatelabError
from gatelab.export.c_runner import runner
from gatelab.export.c_stream import Stream
from gatelab.export.c_whole import Whole
from gatelab.export.network import Network
from gatelab.export.target import Settings, Target

STANDARD_HEADERS = {
    "assert", "complex", "ctype", "errno", "fenv", "float", "inttypes", "iso646", "limits", "locale", "math",
    "setjmp", "signal", "stdarg", "stdbool", "stddef", "stdint", "stdio", "stdlib", "string", "tgmath", "time",
    "wchar", "wctype",
}  # fmt: skip


def write(network: Network, path: Path, settings: Settings) -> None:
    """Write NAME.h and NAME.c to a folder."""
    if network.name in STANDARD_HEADERS:
        raise GatelabError(
            f"{network.name}.h is a header of C itself: choose another name, as --name my_{network.name}"
        )
    path.mkdir()
    code = (Whole if network.reads_whole else Stream)(network, settings.int8)
    write_text(path / f"{network.name}.h", code.header())
    write_text(path / f"{network.name}.c", code.source())


TARGET = Target("c", "C99", "gcc", None, write, runner, ("int8",))
