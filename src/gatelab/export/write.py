"""Export to one target: written, checked in the target's own runtime, then moved to where it was asked for."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gatelab.disk import TEMPORARY
from gatelab.errors import GatelabError, unknown
from gatelab.export import c_code, javascript, json_file, keras_model, onnx_graph, torch_module
from gatelab.export.check import TOLERANCE, Checked, check
from gatelab.export.network import Exportable, network
from gatelab.export.target import RuntimeMissingError, Settings, Target

TARGETS: dict[str, Target] = {
    module.TARGET.name: module.TARGET
    for module in (onnx_graph, c_code, javascript, torch_module, keras_model, json_file)
}


@dataclass(frozen=True)
class Exported:
    """What an export wrote, and what its check found."""

    path: Path
    files: tuple[Path, ...]
    checked: Checked | None
    unchecked: str = ""  # why it was not checked


def export(
    source: Exportable,
    target: str,
    path: Path | str,
    *,
    name: str | None = None,
    with_check: bool = True,
    settings: Settings | None = None,
) -> Exported:
    """Export a model, a layer or a run. Nothing is left at `path`, or what was there is left alone, if it fails."""
    chosen, settings, path = _target(target), settings or Settings(), Path(path)
    _check_settings(chosen, settings)
    if path.exists() and path.is_dir() != (chosen.suffix is None):
        kind = "file" if path.is_file() else "folder"
        raise GatelabError(f"{path} is a {kind}: expected a {'folder' if kind == 'file' else 'file'} for {target}")
    whole = network(source, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=TEMPORARY) as folder:
        # A name of its own, since files may refer to each other by name.
        made = Path(folder) / (whole.name if chosen.suffix is None else f"{whole.name}{chosen.suffix}")
        chosen.write(whole, made, settings)
        checked, unchecked = None, "" if with_check else "not asked for"
        if with_check:
            try:
                tolerance = math.inf if settings.int8 else TOLERANCE  # what rounding costs is reported
                checked = check(source, whole, chosen.runner(whole, made), tolerance, settings.chunk)
            except RuntimeMissingError as error:
                unchecked = str(error)
            except GatelabError as error:
                raise GatelabError(f"the export to {target} is wrong, and was removed: {error}") from None
        return Exported(path, _moved(made, path), checked, unchecked)


def _moved(made: Path, path: Path) -> tuple[Path, ...]:
    """Move a finished file, or the files of a folder one by one."""
    files = sorted(each for each in made.rglob("*") if each.is_file()) if made.is_dir() else [made]
    moved = []
    for file in files:
        with open(file, "rb") as handle:
            os.fsync(handle.fileno())
        end = path / file.relative_to(made) if made.is_dir() else path
        end.parent.mkdir(parents=True, exist_ok=True)
        os.replace(file, end)
        moved.append(end)
    return tuple(moved)


def _target(name: str) -> Target:
    if name not in TARGETS:
        raise unknown("target:", name, TARGETS)
    return TARGETS[name]


def _check_settings(target: Target, settings: Settings) -> None:
    for name, chosen in vars(settings).items():
        if chosen and name not in target.settings:
            able = [each.name for each in TARGETS.values() if name in each.settings]
            raise GatelabError(f"--{name} is not for {target.name}: expected it with --to {' or '.join(able)}")
    if settings.chunk is not None and settings.chunk < 1:
        raise GatelabError(f"--chunk is {settings.chunk}: expected a number of steps, at least 1")
