"""Data sets of the UCR and UEA archives: NAME_TRAIN and NAME_TEST, in one folder."""

from __future__ import annotations

from pathlib import Path

from gatelab.errors import DataError

FORMATS = (".ts", ".tsv", ".txt", ".csv")  # the first that is there counts


def published_pair(path: Path) -> tuple[Path, Path] | None:
    """The training and test file of a folder, or of a path without _TRAIN and ending; None if there are none."""
    if path.is_dir():
        names = {name for file in path.iterdir() if (name := _stem(file)) is not None}
        stems = [name for name in sorted(names) if _pair(path, name) is not None]
        if len(stems) > 1:
            raise DataError(
                f"{path} has {len(stems)} data sets, {', '.join(stems[:5])}: name one, as path={path / stems[0]}"
            )
        return _pair(path, stems[0]) if stems else None
    return None if path.exists() or not path.parent.is_dir() else _pair(path.parent, path.name)


def other_half(path: Path) -> Path | None:
    """The test file that belongs to a training file."""
    if not path.stem.upper().endswith("_TRAIN"):
        return None
    return _file(path.parent, f"{path.stem[:-6]}_TEST", path.suffix)


def _stem(file: Path) -> str | None:
    is_training = file.suffix.lower() in FORMATS and file.stem.upper().endswith("_TRAIN")
    return file.stem[:-6] if is_training else None  # what is no file is refused by its reader, by name


def _pair(folder: Path, name: str) -> tuple[Path, Path] | None:
    for suffix in FORMATS:
        train, test = (_file(folder, f"{name}_{part}", suffix) for part in ("TRAIN", "TEST"))
        if train is not None and test is not None:
            return train, test
    return None


def _file(folder: Path, stem: str, suffix: str) -> Path | None:
    """The file with this name, in any case of _TRAIN and the ending."""
    wanted = f"{stem}{suffix}".lower()
    return next((file for file in sorted(folder.iterdir()) if file.name.lower() == wanted), None)
