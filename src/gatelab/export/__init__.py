"""Export to other languages and runtimes: `to_onnx(model_or_run, path)` and so on; `from_keras`, `read_json`."""

from __future__ import annotations

from pathlib import Path

from gatelab.export.exportable import Exportable, network_of
from gatelab.export.json_file import read as read_json
from gatelab.export.keras_model import from_keras
from gatelab.export.network import Network
from gatelab.export.target import Settings
from gatelab.export.write_export import TARGETS, Exported, export

__all__ = [
    "TARGETS", "Exported", "Network", "Settings", "export", "from_keras", "network_of", "read_json", "to_c", "to_js",
    "to_json", "to_keras", "to_onnx", "to_torch",
]  # fmt: skip


def to_onnx(source: Exportable, path: Path | str, *, chunk: int | None = None, check: bool = True) -> Exported:
    """Write an ONNX file."""
    return export(source, "onnx", path, with_check=check, settings=Settings(chunk=chunk))


def to_c(source: Exportable, path: Path | str, *, int8: bool = False, check: bool = True) -> Exported:
    """Write a folder with a header and a source file in C99."""
    return export(source, "c", path, with_check=check, settings=Settings(int8=int8))


def to_js(source: Exportable, path: Path | str, *, check: bool = True) -> Exported:
    """Write a folder with an ES module and its weights."""
    return export(source, "js", path, with_check=check)


def to_torch(source: Exportable, path: Path | str, *, check: bool = True) -> Exported:
    """Write a folder with a plain PyTorch module, its weights, and an exported program."""
    return export(source, "torch", path, with_check=check)


def to_keras(source: Exportable, path: Path | str, *, check: bool = True) -> Exported:
    """Write a Keras model, for the cells that Keras has."""
    return export(source, "keras", path, with_check=check)


def to_json(source: Exportable, path: Path | str, *, check: bool = True) -> Exported:
    """Write the equations and weights as JSON."""
    return export(source, "json", path, with_check=check)
