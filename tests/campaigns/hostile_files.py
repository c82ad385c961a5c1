"""Hostile data: for each format that the task `files` reads, a valid file, and what is done to it.

A format is a row of `FORMATS`: how its valid file is written, the options that the task needs, and an independent
reader of its numbers. Mutations name the formats that they are for.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import os
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hostile_cases import SAME, SOUND, Answer, Case, Expected, means, refused

CONFIG = """
task: {{name: {task}, path: {path}{options}}}
model: {{cell: gru, hidden_size: 4, engine: eager}}
training: {{num_epochs: 1, batch_size: 16, threads: 1}}
"""
NAMES = ("v", "w")
SERIES = np.round(np.stack([np.sin(np.arange(150) / 5), np.cos(np.arange(150) / 7)], -1), 6)  # (S, 2)
DAYS = [str(datetime.date(2024, 1, 1) + datetime.timedelta(i)) for i in range(len(SERIES))]
_RANDOM = np.random.RandomState(0)
X = np.round(_RANDOM.normal(size=(60, 6, 2)), 6)
Y = np.array(["down", "up"])[(X[:, 0, 0] > 0).astype(int)]
LENGTHS = _RANDOM.randint(3, 7, 60)


@dataclass(frozen=True)
class Format:
    """A format of data."""

    name: str
    file: str  # or folder
    write: Callable[[Path], None]
    options: str = ""
    victim: str = ""  # the file that is damaged, if `file` is a folder
    use: tuple[str, ...] = ()  # a command that reads such a file for a trained run
    numbers: Callable[[Path], np.ndarray] | None = None  # an independent reader
    task: str = "files"


def digest(values: np.ndarray) -> str:
    """Of the numbers, as float64."""
    plain = np.ascontiguousarray(values, np.float64)
    return f"{plain.shape} {hashlib.sha256(plain.tobytes()).hexdigest()}"


# Valid files.


def table(separator: str = ",", end: str = "\n", number: str = "{:.6f}") -> str:
    rows = [separator.join(["date", *NAMES])]
    rows += [separator.join([day, *(number.format(v) for v in row)]) for day, row in zip(DAYS, SERIES, strict=True)]
    return end.join(rows) + end


def write_csv(path: Path) -> None:
    path.write_text(table())


def write_tsv(path: Path) -> None:
    path.write_text(table("\t"))


def write_parquet(path: Path, **changes: Any) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = {"date": DAYS, "v": SERIES[:, 0], "w": SERIES[:, 1], **changes}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def write_npz(path: Path) -> None:
    np.savez(path, X=X, y=Y, lengths=LENGTHS)


def write_csv_folder(path: Path) -> None:
    for name in ("down", "up"):
        (path / name).mkdir(parents=True)
        for i in np.flatnonzero(name == Y):
            rows = [",".join(map(str, row)) for row in X[i, : LENGTHS[i]]]
            (path / name / f"{i:02}.csv").write_text("\n".join(["a,b", *rows]) + "\n")


def write_npy_folder(path: Path) -> None:
    for name in ("down", "up"):
        (path / name).mkdir(parents=True)
        for i in np.flatnonzero(name == Y):
            np.save(path / name / f"{i:02}.npy", X[i, : LENGTHS[i]])


def csv_numbers(path: Path) -> np.ndarray:
    rows = [line.split(",") for line in path.read_bytes().decode().rstrip().split("\n")]
    if any(len(row) != 3 for row in rows):
        raise ValueError("rows of other lengths")
    return np.array([[float(cell) for cell in row[1:]] for row in rows[1:]])


def parquet_numbers(path: Path) -> np.ndarray:
    import pyarrow.parquet

    read = pyarrow.parquet.read_table(path)
    return np.stack([read[name].to_numpy().astype(float) for name in read.column_names if name != "date"], -1)


FIRST = f"{np.flatnonzero(Y == 'down')[1]:02}"
FORMATS = {
    one.name: one
    for one in (
        Format(
            "csv", "series.csv", write_csv, ", length: 8", use=("forecast", "series", "--data"), numbers=csv_numbers
        ),
        Format("tsv", "series.tsv", write_tsv, ", length: 8", use=("forecast", "series", "--data")),
        Format(
            "parquet",
            "series.parquet",
            write_parquet,
            ", length: 8",
            use=("forecast", "series", "--data"),
            numbers=parquet_numbers,
        ),
        Format("npz", "own.npz", write_npz, use=("predict", "own")),
        Format("folder of csv", "classes", write_csv_folder, victim=f"down/{FIRST}.csv"),
        Format("folder of npy", "classes", write_npy_folder, victim=f"down/{FIRST}.npy", use=("predict", "own")),
    )
}
TABLES, SINGLE = ("csv", "tsv", "parquet"), ("csv", "tsv", "parquet", "npz")
FOLDERS = ("folder of csv", "folder of npy")


# Mutations: a change of the file in place, and what is then expected.


@dataclass(frozen=True)
class Mutation:
    name: str
    change: Callable[[Path], None]
    expected: Expected
    formats: tuple[str, ...]
    for_use: bool = False  # whether a trained run must answer in the same way


def rewrite(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(change(path.read_bytes())) and None


def text(change: Callable[[str], str]) -> Callable[[Path], None]:
    return rewrite(lambda content: change(content.decode()).encode("utf-8", "surrogateescape"))


def replaced(write: Callable[[Path], Any]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.unlink()
        write(path)

    return change


def linked(target: str) -> Callable[[Path], None]:
    return replaced(lambda path: path.symlink_to(target))


def cell(row: int, column: int, value: str) -> Callable[[str], str]:
    """A table with another value in one cell."""

    def change(content: str) -> str:
        separator = "\t" if "\t" in content else ","
        lines = content.split("\n")
        cells = lines[row].split(separator)
        cells[column] = value
        lines[row] = separator.join(cells)
        return "\n".join(lines)

    return change


def reads(values: np.ndarray) -> Expected:
    """The numbers that were read are these."""

    def wrong(answer: Answer) -> str:
        found = answer.record.get("inputs", "nothing")
        return "" if found == digest(values) else f"read {found[:30]}, expected {digest(values)[:30]}"

    return means(wrong)


def of_all_files() -> Iterator[Mutation]:
    """For single files and for one file of a folder."""
    everything = tuple(FORMATS)
    no: dict[str, Callable[[Path], Any]] = {
        "empty": replaced(lambda path: path.write_bytes(b"")),
        "pipe": replaced(os.mkfifo),
        "/dev/zero": linked("/dev/zero"),
        "/dev/tty": linked("/dev/tty"),
        "broken link": linked("nowhere"),
        "a directory": replaced(Path.mkdir),
        "bytes": replaced(lambda path: path.write_bytes(bytes(range(256)) * 20)),
        "zeros": replaced(lambda path: path.write_bytes(bytes(3000))),
        "a long line": replaced(lambda path: path.write_bytes(b"x" * 2_000_000)),
        "a page": replaced(lambda path: path.write_text("<!doctype html>\n<p>404 not found</p>\n")),
    }
    if os.geteuid():
        no["unreadable"] = lambda path: path.chmod(0)
    for name, change in no.items():
        yield Mutation(name, change, refused("FILE"), everything, for_use=True)
    yield Mutation(
        "link to itself", replaced(lambda p: p.symlink_to(p.name)), refused("FILE"), everything, for_use=True
    )
    yield Mutation("missing", Path.unlink, refused("FILE"), SINGLE, for_use=True)
    yield Mutation("a link", _moved_and_linked, Expected(SAME), SINGLE, for_use=True)
    yield Mutation(
        "cut in half", rewrite(lambda c: c[: len(c) // 2]), refused("FILE"), ("parquet", "npz", "folder of npy")
    )
    yield Mutation("cut at its end", rewrite(lambda c: c[:-1]), refused("FILE"), ("parquet", "npz", "folder of npy"))
    yield Mutation("a byte more", rewrite(lambda c: c + b"x"), Expected(SOUND), ("parquet", "npz", "folder of npy"))


def _moved_and_linked(path: Path) -> None:
    path.rename(path.with_name(f"moved-{path.name}"))
    path.symlink_to(f"moved-{path.name}")


def of_tables() -> Iterator[Mutation]:
    """Tables of text."""
    texts = ("csv", "tsv")
    for name, value in {
        "a word": "abc",
        "nothing": "",
        "NaN": "nan",
        "infinity": "inf",
        "1e400": "1e400",
        "-1e400": "-1e400",
        "NUL": "1\0",
        "underscores": "1_000",
        "a date": "2024-01-01",
        "a huge field": "9" * 500_000,
        "a long word": "x" * 500_000,
        "a unit": "1.5 m",
        "two points": "1.2.3",
        "hex": "0x10",
        "a formula": "=1+1",
        "a quote": '"1',
        "a percentage": "5%",
        "an open quote": '1"',
        "bytes": "\udcff",
        "true": "true",
        "dash": "-",
    }.items():
        yield Mutation(f"{name} in a cell", text(cell(40, 1, value)), refused("FILE"), texts, for_use=True)
    for value, number in {
        "1e-2": 0.01,
        "+1": 1.0,
        " 2 ": 2.0,
        "-0": -0.0,
        "1E2": 100.0,
        '"3"': 3.0,
        "007": 7.0,
    }.items():
        expected = SERIES.copy()
        expected[39, 0] = number
        yield Mutation(f"{value!r} in a cell", text(cell(40, 1, value)), reads(expected), texts)
    comma = text(cell(40, 1, '"1,5"'))  # with tabs it is a decimal comma
    yield Mutation("a comma in a cell", comma, refused("FILE"), ("csv",), for_use=True)
    no: dict[str, Callable[[str], str]] = {
        "a cell more": lambda t: (
            t.replace("\n2024-02-02", "\nx,2024-02-02").replace("x,", "x\t")
            if "\t" in t
            else t.replace("\n2024-02-02", "\nx,2024-02-02")
        ),
        "a cell less": lambda t: cell(40, 2, "")(t).replace(",\n", "\n", 1).replace("\t\n", "\n", 1),
        "an empty line": lambda t: t.replace("\n2024-02-02", "\n\n2024-02-02"),
        "only a header": lambda t: t.partition("\n")[0] + "\n",
        "few rows": lambda t: "\n".join(t.split("\n")[:20]),
        "a name twice": lambda t: t.replace("w", "v", 1),
        "only text": lambda t: "\n".join("a,b" for _ in t.split("\n")),
        "a comment": lambda t: t.replace("\n2024-02-02", "\n# note\n2024-02-02"),
        "a footer": lambda t: t + "total\n",
    }
    for name, change in no.items():
        yield Mutation(name, text(change), refused("FILE"), texts)
    yield Mutation("UTF-16", rewrite(lambda c: c.decode().encode("utf-16")), refused("FILE"), texts, for_use=True)
    yield Mutation("latin-1", rewrite(lambda c: c.replace(b"date", b"dat\xe9")), refused("FILE"), texts, for_use=True)
    same: dict[str, Callable[[str], str]] = {
        "quotes": lambda t: "\n".join(
            ("\t" if "\t" in t else ",").join(f'"{c}"' for c in line.split("\t" if "\t" in t else ","))
            for line in t.rstrip().split("\n")
        ),
        "empty lines at the end": lambda t: t + "\n\n\n",
        "no line end": str.rstrip,
        "exponents": lambda t: table("\t" if "\t" in t else ",", number="{:.10e}"),
        "plus signs": lambda t: table("\t" if "\t" in t else ",", number="{:+.6f}"),
        "semicolons": lambda t: table(";"),
        "decimal commas": lambda t: table(";").replace(".", ","),
        "a column of text": lambda t: "\n".join(
            line + ("\t" if "\t" in t else ",") + ("note" if i == 0 else f"n{i}")
            for i, line in enumerate(t.rstrip().split("\n"))
        ),
    }
    for name, change in same.items():
        yield Mutation(name, text(change), reads(SERIES), texts)
    yield Mutation(
        "carriage returns", rewrite(lambda c: c.replace(b"\n", b"\r\n")), Expected(SAME), texts, for_use=True
    )
    yield Mutation("a byte order mark", rewrite(lambda c: b"\xef\xbb\xbf" + c), Expected(SAME), texts, for_use=True)
    many = np.arange(3000 * 150).reshape(150, 3000) % 97 / 7
    yield Mutation("3,000 columns", replaced(partial(_write_columns, values=many)), reads(many), ("csv",))
    names = "\n".join(",".join(f"{name}{i}" for i in range(3000)) for name in "ab")
    yield Mutation("3,000 columns of text", replaced(lambda path: path.write_text(names)), refused("FILE"), ("csv",))
    long = np.arange(20_000.0)[:, None]
    yield Mutation("20,000 rows", replaced(partial(_write_columns, values=long)), reads(long), ("csv",))


def _write_columns(path: Path, values: np.ndarray) -> None:
    header = ",".join(f"c{i}" for i in range(values.shape[1]))
    path.write_text("\n".join([header, *(",".join(map(repr, row)) for row in values.tolist())]) + "\n")


def of_parquet() -> Iterator[Mutation]:
    import pyarrow
    import pyarrow.parquet

    def write(columns: dict[str, Any], **options: Any) -> Callable[[Path], None]:
        return replaced(lambda path: pyarrow.parquet.write_table(pyarrow.table(columns), path, **options))

    v, w = SERIES.T
    nested = [{"a": [1, 2]}] * 150
    for name, columns in {
        "only nested types": {"n": nested},
        "only text": {"n": DAYS},
        "no rows": {"v": pyarrow.array([], pyarrow.float64())},
        "no columns": {},
        "NaN": {"v": np.where(np.arange(150) == 5, np.nan, v)},
        "infinity": {"v": np.where(np.arange(150) == 5, np.inf, v)},
        "null": {"v": [None, *v[1:]]},
        "decimals": {"v": pyarrow.array(np.arange(150)).cast(pyarrow.decimal128(25, 2))},
        "few rows": {"v": v[:9]},
    }.items():
        yield Mutation(name, write(columns), refused("FILE"), ("parquet",))
    same = {"date": DAYS, "v": v, "w": w}
    for codec in ("none", "gzip", "zstd", "snappy"):
        yield Mutation(
            f"compressed by {codec}", write(same, compression=codec), Expected(SAME), ("parquet",), for_use=True
        )
    yield Mutation("a nested column", write({**same, "n": nested}), reads(SERIES), ("parquet",))
    yield Mutation("integers", write({"v": np.arange(150)}), reads(np.arange(150.0)[:, None]), ("parquet",))
    truth = np.arange(150) % 2 == 0
    yield Mutation("truth values", write({"v": truth}), reads(truth[:, None]), ("parquet",))
    half = v.astype(np.float16)
    yield Mutation("half precision", write({"v": half}), reads(half[:, None]), ("parquet",))
    twice = pyarrow.Table.from_arrays([pyarrow.array(v), pyarrow.array(w)], ["v", "v"])
    change = replaced(lambda path: pyarrow.parquet.write_table(twice, path))
    yield Mutation("a name twice", change, refused("FILE"), ("parquet",))
    yield Mutation("a billion rows", _billion_rows, refused("FILE"), ("parquet",))


def _billion_rows(path: Path) -> None:
    """The number of rows in the footer is changed: thrift integers have seven bits per byte, and are doubled."""
    content = bytearray(path.read_bytes())
    small, large = _thrift(150), _thrift(150 << 28)
    (size,) = struct.unpack("<I", content[-8:-4])
    start = len(content) - 8 - size
    footer = bytes(content[start:-8]).replace(b"\x16" + small, b"\x16" + large)
    path.write_bytes(bytes(content[:start]) + footer + struct.pack("<I", len(footer)) + b"PAR1")


def _thrift(value: int) -> bytes:
    value, made = value << 1, bytearray()
    while value >= 128:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def arrays(**changes: Any) -> Callable[[Path], None]:
    """An .npz with other arrays; None takes one out."""
    made = {"X": X, "y": Y, "lengths": LENGTHS, **changes}
    return lambda path: np.savez(path, **{name: value for name, value in made.items() if value is not None})


def forged(header: str, data: bytes = b"", version: int = 1) -> bytes:
    """An .npy with any header."""
    content = header.encode() + b"\n"
    size = struct.pack("<H" if version == 1 else "<I", len(content))
    return b"\x93NUMPY" + bytes([version, 0]) + size + content + data


def zipped(members: list[tuple[str, bytes]], **options: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with zipfile.ZipFile(path, "w", **options) as archive:
            for name, content in members:
                archive.writestr(name, content)

    return change


def npy(values: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


HEADERS = {
    "a huge shape": "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 2), }",
    "an enormous shape": f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**30}, 2), }}",
    "a negative shape": "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2), }",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (3, 2), }",
    "no shape": "{'descr': '<f8', 'fortran_order': False, }",
    "a shape of text": "{'descr': '<f8', 'fortran_order': False, 'shape': ('3', 2), }",
    "no such type": "{'descr': '<z9', 'fortran_order': False, 'shape': (3, 2), }",
    "code": "__import__('os').system('touch ran')",
    "an open bracket": "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2",
    "deep brackets": "(" * 3000,
    "an open quote": "{'descr': '''<f8",
    "indentation": "  {\n 'descr'\n:\n  1",
    "empty": "",
}


def of_arrays() -> Iterator[Mutation]:
    ragged = np.empty(60, object)
    ragged[:] = [list(range(i % 3)) for i in range(60)]
    for name, change in {
        "no X": arrays(X=None),
        "no y": arrays(y=None),
        "objects": arrays(X=ragged),
        "objects in y": arrays(y=ragged),
        "text": arrays(X=X.astype(str)),
        "complex numbers": arrays(X=X + 1j),
        "times": arrays(X=X.astype("datetime64[s]")),
        "four dimensions": arrays(X=X[..., None]),
        "one dimension": arrays(X=X[:, 0, 0]),
        "no dimension": arrays(X=np.array(1.0)),
        "no sequences": arrays(X=X[:0], y=Y[:0], lengths=None),
        "no steps": arrays(X=X[:, :0], lengths=None),
        "NaN": arrays(X=np.where(X > 2, np.nan, X)),
        "infinity": arrays(X=np.where(X > 2, np.inf, X)),
        "fewer labels": arrays(y=Y[:-1]),
        "one class": arrays(y=np.zeros(60, int)),
        "NaN in y": arrays(y=np.full(60, np.nan)),
        "y of no dimension": arrays(y=np.array(3)),
        "long lengths": arrays(lengths=LENGTHS + 9),
        "no lengths": arrays(lengths=LENGTHS * 0),
        "negative lengths": arrays(lengths=-LENGTHS),
        "float lengths": arrays(lengths=LENGTHS * 1.0),
        "two dimensions of lengths": arrays(lengths=LENGTHS[:, None]),
        "records": arrays(X=np.zeros(60, [("a", float)])),
        "surrogates in y": arrays(y=np.array(["a\ud800", "b"] * 30)),
        "code points in y": _code_points,
        "nothing": zipped([]),
        "no arrays": zipped([("X.npy", b"abc"), ("y.npy", b"abc")]),
        "X twice": zipped([("X.npy", npy(X)), ("X", npy(X + 1)), ("y.npy", npy(Y))]),
        "compressed by LZMA": zipped([("X.npy", npy(X)), ("y.npy", npy(Y))], compression=zipfile.ZIP_LZMA),
        "compressed by BZIP2": zipped([("X.npy", npy(X)), ("y.npy", npy(Y))], compression=zipfile.ZIP_BZIP2),
        "a bomb": _bomb,
    }.items():
        yield Mutation(
            name,
            change,
            refused("FILE"),
            ("npz",),
            for_use="y" not in name and name not in ("fewer labels", "one class"),
        )
    for name, header in HEADERS.items():
        for version in (1, 2):
            content = forged(header, bytes(48), version)
            change = zipped([("X.npy", content), ("y.npy", npy(Y))])
            yield Mutation(f"{name} in its header, {version}", change, refused("FILE"), ("npz",), for_use=True)
            change = replaced(partial(Path.write_bytes, data=content))
            yield Mutation(
                f"{name} in its header, {version}", change, refused("FILE"), ("folder of npy",), for_use=True
            )
    for name, change in {
        "compressed": lambda path: np.savez_compressed(path, X=X, y=Y, lengths=LENGTHS),
        "Fortran order": arrays(X=np.asfortranarray(X)),
        "big endian": arrays(X=X.astype(">f8")),
        "more arrays": arrays(z=X),
        "labels as bytes": arrays(y=Y.astype("S")),
        "short lengths": arrays(lengths=LENGTHS.astype(np.uint8)),
    }.items():
        yield Mutation(name, change, Expected(SAME), ("npz",))


def _bomb(path: Path) -> None:
    """300 MB of zeros in 300 kB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("X.npy", "w") as member:
            member.write(forged("{'descr': '<f8', 'fortran_order': False, 'shape': (10, 750000, 5), }"))
            for _ in range(300):
                member.write(bytes(10**6))
        archive.writestr("y.npy", npy(Y[:10]))


def _code_points(path: Path) -> None:
    wrong = np.frombuffer(np.array([0x7FFFFFFF, 65] * 30, np.int32).tobytes(), "<U1")
    zipped([("X.npy", npy(X)), ("y.npy", npy(wrong))])(path)


def of_folders() -> Iterator[Mutation]:
    for name, values in {
        "three dimensions": X,
        "no dimension": np.array(1.0),
        "no steps": X[0, :0],
        "text": X[0].astype(str),
        "NaN": X[0] * np.nan,
        "other features": X[0, :, :1],
        "complex numbers": X[0] * 1j,
        "infinity": X[0] * np.inf,
    }.items():
        change = replaced(partial(Path.write_bytes, data=npy(values)))
        yield Mutation(name, change, refused("FILE"), ("folder of npy",), for_use=True)
    for name, content in {
        "other columns": "a,c\n1,2\n",
        "one column": "a\n1\n",
        "text": "a,b\n1,x\n2,y\n",
        "only a header": "a,b\n",
        "1e400": "a,b\n1,1e400\n",
    }.items():
        change = replaced(partial(Path.write_text, data=content))
        yield Mutation(name, change, refused("FILE"), ("folder of csv",), for_use=True)
    for name, change in {
        "a hidden file": lambda path: path.with_name(".hidden.csv").write_text("no"),
        "a text file": lambda path: path.with_name("README.md").write_text("no"),
        "a hidden folder": lambda path: (path.parent.parent / ".hidden").mkdir(),
    }.items():
        yield Mutation(name, change, Expected(SAME), FOLDERS)
    for name, change in {
        "an empty class": lambda path: (path.parent.parent / "more").mkdir(),
        "one class": lambda path: path.parent.rename(path.parent.parent.parent / "away"),
        "a class of bytes": lambda path: path.parent.rename(os.fsdecode(bytes(path.parent.parent) + b"/\xff")),
    }.items():
        yield Mutation(name, change, refused(), FOLDERS)


def mutations() -> Iterator[Mutation]:
    import hostile_formats  # which adds its formats to `FORMATS`

    for some in (hostile_formats.mutations, of_all_files, of_tables, of_parquet, of_arrays, of_folders):
        yield from some()


# Cases.


def written(folder: Path, form: Format, change: Callable[[Path], Any] | None) -> None:
    """The valid file, changed, and a config that names it."""
    form.write(folder / form.file)
    if change is not None:
        change(folder / form.file / form.victim if form.victim else folder / form.file)
    (folder / "config.yaml").write_text(CONFIG.format(task=form.task, path=form.file, options=form.options))


def case(form: Format, command: tuple[str, ...], mutation: Mutation) -> Case:
    name = Path(form.victim or form.file).name
    expected = mutation.expected
    if expected.words == ("FILE",):
        expected = refused(name)
    original = Case(form.name, "", command, Expected(SAME), partial(written, form=form, change=None))
    write = partial(written, form=form, change=mutation.change)
    return Case(form.name, f"{command[0]}: {mutation.name}", command, expected, write, original)


def of_files() -> Iterator[Case]:
    for mutation in mutations():
        for form in (FORMATS[name] for name in mutation.formats):
            yield case(form, ("train", "config.yaml", "--output-dir", "out"), mutation)
            if mutation.expected.wrong is None and (mutation.expected.kind != SAME or form.name != "npz"):
                text_ = f"{form.task}:path={form.file}{form.options.replace(': ', '=').replace(' ', '')}"
                yield case(form, ("tasks", text_), mutation)
            if mutation.for_use and form.use:
                yield case(form, (*form.use, form.file), mutation)


def by_chance(chance: random.Random) -> Case:
    """Some bytes of a file are others: refused, or read as an independent reader does, or the same."""
    form = FORMATS[chance.choice(list(FORMATS))]
    seed = chance.randrange(2**32)
    expected = Expected(SOUND, (), partial(_unlike, form, seed)) if form.numbers else Expected(SOUND)
    mutation = Mutation(f"bytes by chance, {seed}", partial(_flipped, seed=seed), expected, (form.name,))
    return case(form, ("train", "config.yaml", "--output-dir", "out"), mutation)


def _flipped(path: Path, seed: int) -> None:
    chance, content = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 1, 2, 5, 20])):
        place, what = chance.randrange(len(content)), chance.randrange(4)
        if what == 0:
            del content[place : place + chance.choice([1, 1, 8])]
        elif what == 1:
            content[place:place] = bytes([chance.randrange(256)])
        else:
            content[place] = chance.choice([chance.randrange(256), *b'0123456789.,;"\n\r\t -+eE'])
    path.write_bytes(content)


def _unlike(form: Format, seed: int, answer: Answer) -> str:
    import tempfile

    assert form.numbers is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / form.file
        form.write(path)
        _flipped(path, seed)
        try:
            expected = digest(form.numbers(path))
        except (ValueError, OSError, KeyError) as error:
            return f"the independent reader does not read it: {error}"
    found = answer.record.get("inputs", "nothing")
    return "" if found == expected else f"read {found[:30]}, expected {expected[:30]}"


CATALOGUE = (of_files,)
