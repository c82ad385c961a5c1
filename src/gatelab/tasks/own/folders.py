"""A folder with one subfolder per class, or with one subfolder per part that has one subfolder per class."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gatelab.errors import DataError
from gatelab.formatting import listed
from gatelab.tasks.own.readers import SEQUENCES, read_sequences, sequence_files
from gatelab.tasks.own.reading import Reading
from gatelab.tasks.own.recordings import Recordings, padded
from gatelab.tasks.own.splits import VALUES


def read(path: Path, reading: Reading, columns: tuple[str, ...] = (), need_label: bool = True) -> Recordings:
    """Read one sequence per file. For predictions, files may also lie in the folder itself, without classes."""
    files = [(None, None, file) for file in sequence_files(path)] if not need_label else []
    members = files or _members(path, need_label)
    if not members:
        raise DataError(f"{path} has no sequences: expected {', '.join(SEQUENCES)} files, or subfolders of them")
    sequences, names = read_sequences([file for _, _, file in members], columns, reading.fill)
    data, lengths = padded(sequences)
    # Unequal or not, folders always had lengths: data is stored as before.
    lengths = np.array([len(sequence) for sequence in sequences], np.int64) if lengths is None else lengths
    classes = tuple(sorted({name for _, name, _ in members if name is not None}))
    parts = [part for part, _, _ in members if part is not None]
    return Recordings(
        str(path),
        "folder: one file per sequence, one subfolder per class",
        data,
        [str(file.relative_to(path)) for _, _, file in members],
        names,
        lengths,
        np.array([name for _, name, _ in members]) if classes else None,
        are_labels=True if classes else None,
        classes=classes or None,
        split=np.array(parts) if parts else None,
        split_by=f"by the folders {listed(list(dict.fromkeys(parts)))}",
        reading=reading,
    )


def subfolders(path: Path) -> list[Path]:
    """Return the visible subfolders in alphabetical order. Their names are those of parts and classes."""
    folders = sorted(f for f in path.iterdir() if f.is_dir() and not f.name.startswith("."))
    for folder in folders:
        try:
            folder.name.encode()
        except UnicodeEncodeError:
            raise DataError(
                f"{folder} has a name that is not UTF-8: rename it, since it is the name of a class"
            ) from None
    return folders


def _members(path: Path, need_label: bool) -> list[tuple[str | None, str | None, Path]]:
    """Return part, class and file of each sequence."""
    folders = subfolders(path)
    parts = [folder for folder in folders if folder.name.strip().lower() in VALUES]
    has_parts = bool(parts) and len(parts) == len(folders) and any(subfolders(part) for part in parts)
    if has_parts:
        return [
            (part.name, folder.name, file)
            for part in folders
            for folder in _classes(part, need_label)
            for file in _files(folder, 1 if need_label else 0)
        ]
    if need_label and len(folders) < 2:
        raise DataError(
            f"{path} has {len(folders)} subfolders: expected one per class, at least two; or train, validation and "
            "test with one per class in each; or NAME_TRAIN and NAME_TEST files (.ts, .tsv, .txt)"
        )
    return [(None, folder.name, file) for folder in folders for file in _files(folder, 3 if need_label else 0)]


def _classes(part: Path, need_label: bool) -> list[Path]:
    folders = subfolders(part)
    if need_label and not folders:
        raise DataError(f"{part} has no subfolders: expected one per class, as in the other parts")
    return folders


def _files(folder: Path, least: int) -> list[Path]:
    members = sequence_files(folder)
    if len(members) < least:
        number = {1: "one", 3: "three"}[least]
        raise DataError(f"{folder} has {len(members)} sequences ({', '.join(SEQUENCES)}): expected at least {number}")
    return members
