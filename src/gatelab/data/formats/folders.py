"""A folder with one subfolder per class, or with one subfolder per part that has one subfolder per class."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from gatelab.data.formats.sequence_files import SEQUENCES, read_sequences, sequence_files
from gatelab.data.reading import Reading
from gatelab.data.sequences import Sequences, padded
from gatelab.data.splits import VALUES
from gatelab.errors import DataError, first_of
from gatelab.formatting import listed

AUDIO = {".wav", ".flac", ".mp3", ".ogg", ".m4a", ".aif", ".aiff"}


def read(path: Path, reading: Reading, columns: tuple[str, ...] = (), need_label: bool = True) -> Sequences:
    """Read one sequence per file. For predictions, files may also lie in the folder itself, without classes."""
    files = [(None, None, file) for file in sequence_files(path)] if not need_label else []
    members = files or _members(path, need_label)
    if not members:
        raise DataError(
            f"{path} has no sequences: expected {', '.join(SEQUENCES)} files, or subfolders of them{_others(path)}"
        )
    sequences, names = read_sequences([file for _, _, file in members], columns, reading.fill)
    data, lengths = padded(sequences)
    # Unequal or not, folders always had lengths: data is stored as before.
    lengths = np.array([len(sequence) for sequence in sequences], np.int64) if lengths is None else lengths
    labels = [name for _, name, _ in members if name is not None]
    classes = tuple(sorted(set(labels))) if len(labels) == len(members) else ()
    parts = [part for part, _, _ in members if part is not None]
    return Sequences(
        data,
        lengths,
        source=str(path),
        layout="folder: one file per sequence, one subfolder per class",
        names=[str(file.relative_to(path)) for _, _, file in members],
        columns=names,
        targets=np.array(labels) if classes else None,
        are_labels=True if classes else None,
        classes=classes or None,
        split=np.array(parts) if parts else None,
        split_by=f"by the folders {listed(list(dict.fromkeys(parts)))}",
        reading=reading,
    )


def subfolders(path: Path) -> list[Path]:
    """The visible subfolders in alphabetical order. Their names are those of parts and classes."""
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
    """Part, class and file of each sequence. The name of a part is never that of a class."""
    folders = subfolders(path)
    parts = [folder for folder in folders if folder.name.strip().lower() in VALUES]
    if not parts:
        if need_label and len(folders) < 2:
            raise DataError(
                f"{path} has {len(folders)} subfolders: expected one per class, at least two; or train, validation and "
                f"test with one per class in each; or NAME_TRAIN and NAME_TEST files (.ts, .tsv, .txt){_others(path)}"
            )
        return [(None, folder.name, file) for folder in folders for file in _files(folder, 3 if need_label else 0)]
    _check_parts(path, parts, [folder for folder in folders if folder not in parts], need_label)
    found: list[tuple[str | None, str | None, Path]] = []
    for part in parts:
        classes = subfolders(part)
        found += [(part.name, each.name, file) for each in classes for file in _files(each, 1 if need_label else 0)]
        if not need_label:
            found += [(part.name, None, file) for file in sequence_files(part)]
    return found


def _check_parts(path: Path, parts: list[Path], others: list[Path], need_label: bool) -> None:
    """Refuse parts beside other folders, and parts without classes if these are needed."""
    names = listed([part.name for part in parts])
    if others:
        raise DataError(
            f"{path} has the folder {others[0].name!r} beside {names}: expected the parts train, validation and test "
            f"only, as train/CLASS/1.csv; move {others[0].name!r} elsewhere, or, if all of them are classes, rename "
            f"{names}: {'this is the name of a part' if len(parts) == 1 else 'these are names of parts'}"
        )
    without = [part for part in parts if need_label and not subfolders(part)]
    if len(without) == len(parts):
        raise DataError(
            f"{path} has the parts {names}, and no classes in them: expected a subfolder per class in each, as "
            f"{parts[0].name}/CLASS/1.csv; or, for other targets, a table with the columns id, label and split"
        )
    if without:
        raise DataError(
            f"{without[0]} has no subfolders: expected one per class, as in the other parts: "
            f"{without[0].name}/CLASS/1.csv"
        )


def _files(folder: Path, least: int) -> list[Path]:
    members = sequence_files(folder)
    if len(members) < least:
        number = {1: "one", 3: "three"}[least]
        raise DataError(
            f"{folder} has {len(members)} sequences ({', '.join(SEQUENCES)}): expected at least {number}"
            f"{_others(folder)}"
        )
    return members


def _others(folder: Path) -> str:
    """What else is in a folder, and what to do with it."""
    files = [f for f in folder.iterdir() if f.is_file() and not f.name.startswith(".")]
    kinds = Counter(f.suffix.lower() for f in files if f.suffix.lower() not in SEQUENCES)
    if not kinds:
        return ""
    found = first_of((f"{count:,} {kind or 'files without an ending'}" for kind, count in kinds.most_common()), 3)
    advice = "write each of them as an .npy of shape (T, D), the steps of a sequence and their features"
    if kinds.keys() & AUDIO:
        advice += "; of audio usually a spectrogram, its frames by its frequency bands"
    return f"; it has {found}, which are not read: {advice}"
