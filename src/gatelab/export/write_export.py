"""Export to one target: written, checked in the target's own runtime, then moved to where it was asked for."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gatelab.disk import TEMPORARY, resolved
from gatelab.errors import GatelabError, unknown
from gatelab.export import c_code, javascript, json_file, keras_model, onnx_graph, torch_module
from gatelab.export.check import TOLERANCE, Checked, RoundingError, check
from gatelab.export.exportable import Exportable, loaded
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
    chosen, settings, path = _target(target), settings or Settings(), resolved(Path(path))
    _check_settings(chosen, settings)
    _check_place(chosen, path)
    network, model = loaded(source, name)
    beside = path if path.is_dir() else path.parent
    beside.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=beside, prefix=TEMPORARY) as folder:
        # A name of its own, since files may refer to each other by name.
        made = Path(folder) / f"{network.name}{chosen.suffix or ''}"
        chosen.write(network, made, settings)
        checked, unchecked = None, "" if with_check else "not asked for"
        if with_check:
            try:
                tolerance = math.inf if settings.int8 else TOLERANCE  # what rounding costs is reported
                checked = check(model, network, chosen.runner(network, made), tolerance, settings.chunk)
            except (RuntimeMissingError, RoundingError) as error:
                unchecked = str(error)
            except GatelabError as error:
                raise GatelabError(f"the export to {target} is wrong, and was removed: {error}") from None
        return Exported(path, _moved(made, path), checked, unchecked)


def _check_place(target: Target, path: Path) -> None:
    """Refuse a place that is something else than what is to be written."""
    if not path.exists() or (path.is_file() if target.suffix else path.is_dir()):
        return
    kind = "file" if path.is_file() else "folder" if path.is_dir() else "pipe or device"
    raise GatelabError(f"{path} is a {kind}: expected a {'file' if target.suffix else 'folder'} for {target.name}")


def _moved(made: Path, path: Path) -> tuple[Path, ...]:
    """Move a finished file, or the files of a folder one by one; files of somebody else's are not replaced."""
    files = sorted(made.iterdir()) if made.is_dir() else [made]
    places = [path / file.name for file in files] if made.is_dir() else [path]
    if made.is_dir() and any(place.exists() for place in places) and not any(map(_is_ours, places)):
        foreign = next(place for place in places if place.exists())
        raise GatelabError(f"{foreign} was not written by gatelab: choose another --out or --name, or remove it")
    if made.is_dir():
        path.mkdir(exist_ok=True)
    for file, place in zip(files, places, strict=True):
        with open(file, "rb") as handle:
            os.fsync(handle.fileno())
        os.replace(file, place)
    return tuple(places)


def _is_ours(path: Path) -> bool:
    """Whether an earlier export wrote this file: its text says so at the beginning."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return b"gatelab" in file.read(2000)


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
