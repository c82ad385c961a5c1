"""Files of the UEA and UCR archives in the .ts format: a header, then one line per case."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gatelab.data import gaps
from gatelab.data.formats.csv_files import CSV_FACTOR
from gatelab.data.reading import Reading
from gatelab.data.sequences import Sequences, padded
from gatelab.disk import read_regular
from gatelab.errors import DataError, first_of
from gatelab.formatting import counted

COMMENTS = ("#", "%")


@dataclass
class _Header:
    """What the lines before @data say."""

    classes: tuple[str, ...] | None = None
    has_label: bool = False
    has_target: bool = False
    dimensions: int | None = None
    univariate: bool | None = None
    length: int | None = None  # of all sequences, if they are equally long
    other: dict[str, str] = field(default_factory=dict)


def read(path: Path, reading: Reading, need_label: bool) -> Sequences:
    """Read the cases of a .ts file."""
    try:
        lines = read_regular(path, factor=CSV_FACTOR).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as a .ts file in UTF-8: {error}") from error
    header, start = _header(path, lines)
    labelled = header.has_label or header.has_target
    if need_label and not labelled:
        raise DataError(
            f"{path} has neither @classLabel true nor @targetLabel true: expected labelled cases to train on"
        )
    cases: list[np.ndarray] = []
    labels: list[str] = []
    places: list[str] = []
    for number, line in enumerate(lines[start:], start + 1):
        if line.strip() and not line.lstrip().startswith(COMMENTS):
            values, label = _case(path, number, line.strip(), header, labelled)
            if cases and values.shape[1] != cases[0].shape[1]:
                raise DataError(
                    f"{path}, line {number}: {counted(values.shape[1], 'dimension')}: expected {cases[0].shape[1]}, as "
                    "in the first case"
                )
            cases.append(values)
            labels.append(label)
            places.append(f"line {number}")
    if not cases:
        raise DataError(f"{path} has no cases after @data: expected one per line")
    data, lengths = padded(cases)
    if lengths is not None and header.other.get("@equallength", "").lower() == "true":
        odd = int(np.flatnonzero(lengths != lengths[0])[0])
        raise DataError(
            f"{path}, {places[odd]}: {lengths[odd]} steps, and the first case has {lengths[0]}: the header says "
            "@equalLength true; restore the file, or correct its header"
        )
    data, filled = gaps.fill_sequences(data, lengths, reading.fill, str(path), places)
    columns = ("value",) if data.shape[2] == 1 else tuple(f"dimension {i + 1}" for i in range(data.shape[2]))
    return Sequences(
        data,
        lengths,
        source=str(path),
        layout=".ts file: one case per line",
        names=places,
        columns=columns,
        targets=_targets(path, labels, places, header),
        are_labels=header.has_label if labelled else None,
        classes=header.classes,
        notes={"missing values": f"{filled:,} filled ({reading.fill})"} if filled else {},
        reading=reading,
    )


def _targets(path: Path, labels: list[str], places: list[str], header: _Header) -> np.ndarray | None:
    if header.has_label:
        return np.array(labels)
    if not header.has_target:
        return None
    try:
        return np.array([float(label) for label in labels])
    except ValueError as error:
        raise DataError(f"{path}: a target is not a number: {error}") from None


def _header(path: Path, lines: list[str]) -> tuple[_Header, int]:
    """The header, and the number of lines up to @data."""
    header = _Header()
    for index, line in enumerate(lines):
        text = line.strip()
        if not text or text.startswith(COMMENTS):
            continue
        if not text.startswith("@"):
            raise DataError(f"{path}, line {index + 1}: {text[:40]!r}: expected @data before the first case")
        key, _, rest = text.partition(" ")
        key, rest = key.lower(), rest.strip()
        if key == "@data":
            return header, index + 1
        _entry(path, index + 1, header, key, rest)
    raise DataError(f"{path} has no line @data: expected a header of @ lines, @data, and one case per line")


def _entry(path: Path, line: int, header: _Header, key: str, rest: str) -> None:
    """Read one line of the header."""
    where, words = f"{path}, line {line}: {key} {rest[:60]}", rest.split()
    if key == "@timestamps" and _boolean(where, words):
        raise DataError(
            f"{where}: cases with a time for every value are not supported: expected @timeStamps false; write the "
            "values at regular steps, or use a long table with a column of ids and one of times"
        )
    if key in ("@classlabel", "@targetlabel"):
        if key == "@classlabel":
            header.has_label = _boolean(where, words)
            header.classes = tuple(words[1:]) if header.has_label and len(words) > 1 else None
        else:
            header.has_target = _boolean(where, words)
    elif key in ("@dimensions", "@dimension", "@serieslength"):
        if len(words) != 1 or not words[0].isdigit() or int(words[0]) < 1:
            raise DataError(f"{where}: expected a positive integer")
        if key == "@serieslength":
            header.length = int(words[0])
        else:
            header.dimensions = int(words[0])
    elif key == "@univariate":
        header.univariate = _boolean(where, words)
    else:
        header.other[key] = rest


def _boolean(where: str, words: list[str]) -> bool:
    if not words or words[0].lower() not in ("true", "false"):
        raise DataError(f"{where}: expected true or false")
    return words[0].lower() == "true"


def _case(path: Path, line: int, text: str, header: _Header, labelled: bool) -> tuple[np.ndarray, str]:
    """The values (T, D) of a case, and its label."""
    pieces = text.split(":")
    label = pieces.pop().strip() if labelled else ""
    if "(" in text:
        raise DataError(f"{path}, line {line}: values with times in brackets are not supported: write the values only")
    if labelled and not pieces:
        raise DataError(f"{path}, line {line}: no ':' before the label: expected values, ':' and the label")
    if header.classes is not None and label not in header.classes:
        raise DataError(
            f"{path}, line {line}: the label {label!r} is not in @classLabel: expected {first_of(header.classes)}"
        )
    expected = 1 if header.univariate else header.dimensions
    if expected is not None and len(pieces) != expected:
        raise DataError(f"{path}, line {line}: {counted(len(pieces), 'dimension')}: the header says {expected}")
    dimensions = [_values(path, line, number, piece) for number, piece in enumerate(pieces, 1)]
    lengths = {len(values) for values in dimensions}
    if len(lengths) > 1:
        raise DataError(
            f"{path}, line {line}: dimensions of {first_of(map(str, sorted(lengths)))} values: expected one length"
        )
    return np.stack(dimensions, -1), label


def _values(path: Path, line: int, dimension: int, text: str) -> np.ndarray:
    cells = [cell.strip() for cell in text.split(",")]
    try:
        return np.array([np.nan if cell in ("?", "NaN", "nan") else float(cell) for cell in cells])
    except ValueError:
        wrong = next(cell for cell in cells if not _is_number(cell))
        raise DataError(
            f"{path}, line {line}, dimension {dimension}: {wrong!r}: expected a number, or ? for a missing value"
        ) from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell == "?"
    return True
