"""Hostile archives, long and wide tables, and texts: valid files, and what is done to them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from hostile_cases import SAME, Expected, refused
from hostile_files import FORMATS, LENGTHS, Format, Mutation, X, Y, replaced, rewrite, text

PROSE = "".join(f"{word} " for word in np.array(["the", "cat", "saw", "a\n", "dög"])[np.arange(1200) ** 2 % 7 % 5])


def long_table(**changes: str) -> str:
    """One row per step; `changes` replace cells of line 21, by column."""
    rows = [["clip", "t", "a", "b", "speaker", "split", "word"]]
    for i in range(60):
        part = ("train", "train", "validation", "test")[i % 4]
        for t in range(LENGTHS[i]):
            rows.append([f"c{i}", str(t), *(f"{v:.6f}" for v in X[i, t]), f"s{part[:2]}{i % 3}", part, Y[i]])
    for name, value in changes.items():
        rows[20][rows[0].index(name)] = value
    return "\n".join(map(",".join, rows)) + "\n"


def wide_table() -> str:
    header = ["label", *(f"t{i}" for i in range(6))]
    return "\n".join(
        [",".join(header), *(",".join([y, *(f"{v:.6f}" for v in x[:, 0])]) for x, y in zip(X, Y, strict=True))]
    )


def archive(declared: str = "@equalLength false\n@dimensions 2\n@classLabel true down up", missing: str = "") -> str:
    """The .ts format, with an optional value in place of the first."""
    lines = [
        ":".join([*(",".join(f"{v:.6f}" for v in X[i, : LENGTHS[i], d]) for d in (0, 1)), Y[i]]) for i in range(60)
    ]
    if missing:
        lines[3] = missing + lines[3][lines[3].index(",") :]
    return "\n".join(["@problemName own", "@timeStamps false", "@univariate false", declared, "@data", *lines]) + "\n"


def ucr_rows(rows: slice) -> str:
    def standardized(values: np.ndarray) -> np.ndarray:
        return (values - values.mean()) / values.std()

    chosen = zip(X[rows], Y[rows], strict=True)
    return "\n".join("\t".join([str(int(y == "up")), *(f"{v:.6f}" for v in standardized(x[:, 0]))]) for x, y in chosen)


def write_ucr(path: Path) -> None:
    path.mkdir()
    (path / "Own_TRAIN.tsv").write_text(ucr_rows(slice(0, 40)))
    (path / "Own_TEST.tsv").write_text(ucr_rows(slice(40, 60)))


def _writes(content: Callable[[], str]) -> Callable[[Path], None]:
    return lambda path: path.write_text(content()) and None


KNOWN = "id,t,a,b,speaker,split,label"  # columns that need no options
LONG = ", label: word, id: clip, time: t, split: split"
FORMATS |= {
    one.name: one
    for one in (
        Format("long", "long.csv", _writes(long_table), LONG),
        Format("long of known names", "long.csv", _writes(lambda: f"{KNOWN}\n{long_table().partition(chr(10))[2]}")),
        Format("wide", "wide.csv", _writes(wide_table)),
        Format("ts", "own.ts", _writes(archive)),
        Format("ucr", "ucr", write_ucr, victim="Own_TRAIN.tsv"),
        Format("text", "prose.txt", lambda path: path.write_text(PROSE) and None, task="text"),
    )
}


def of_long_tables() -> Iterator[Mutation]:
    for name, change in {
        "no value": {"a": ""},
        "a word": {"a": "x"},
        "infinity": {"b": "inf"},
        "no id": {"clip": ""},
        "no label": {"word": ""},
        "no split": {"split": ""},
        "an unknown part": {"split": "somewhere"},
        "an id in two parts": {"split": "test"},
        "a time twice": {"t": long_table().split("\n")[19].split(",")[1]},  # that of the line before
        "a word for a time": {"t": "noon"},
    }.items():
        yield Mutation(name, replaced(partial(Path.write_text, data=long_table(**change))), refused("FILE"), ("long",))
    for name, cut in {"no test set": ",test,", "no training set": ",train,"}.items():
        drop = text(lambda t, cut=cut: "\n".join(line for line in t.split("\n") if cut not in line))
        yield Mutation(name, drop, refused("FILE"), ("long",))
    yield Mutation("no such column", text(lambda t: t.replace("clip", "clap", 1)), refused("FILE"), ("long",))

    def shuffled(content: str) -> str:
        header, *rows = content.rstrip().split("\n")
        by_step = sorted(range(len(rows)), key=lambda i: int(rows[i].split(",")[1]))  # ids keep their order
        return "\n".join([header, *(rows[i] for i in by_step)]) + "\n"

    yield Mutation("rows by time", text(shuffled), Expected(SAME), ("long",))
    yield Mutation("carriage returns", rewrite(lambda c: c.replace(b"\n", b"\r\n")), Expected(SAME), ("long", "wide"))


def of_wide_tables() -> Iterator[Mutation]:
    for name, change in {
        "no label": lambda t: t.replace("\ndown,", "\n,", 1),
        "a word": lambda t: t.replace("\ndown,", "\ndown,x", 1),
        "a gap within": lambda t: _cell(t, 5, 3, ""),
        "infinity": lambda t: _cell(t, 5, 3, "inf"),
        "a cell more": lambda t: t + ",1",
        "one class": lambda t: t.replace("\nup,", "\ndown,"),
        "two rows": lambda t: "\n".join(t.split("\n")[:3]),
    }.items():
        yield Mutation(name, text(change), refused("FILE"), ("wide",))


def _cell(content: str, row: int, column: int, value: str) -> str:
    lines = content.split("\n")
    cells = lines[row].split(",")
    cells[column] = value
    return "\n".join([*lines[:row], ",".join(cells), *lines[row + 1 :]])


def of_archives() -> Iterator[Mutation]:
    for name, content in {
        "timestamps": archive().replace("@timeStamps false", "@timeStamps true"),
        "no data": archive().partition("@data")[0],
        "no header": archive().partition("@data\n")[2],
        "a missing value": archive(missing="?"),
        "a word": archive(missing="x"),
        "infinity": archive(missing="inf"),
        "an undeclared class": archive("@classLabel true down"),
        "a dimension less": archive().replace(":", ",", 1).replace("own\n", "own\n", 1),
        "classes twice": archive("@classLabel true down down up"),
        "nothing known of classes": archive("@equalLength false"),
        "an empty sequence": archive() + ":,:up\n",
        "equal length, it says": archive("@equalLength true\n@seriesLength 6\n@classLabel true down up"),
        "three dimensions, it says": archive("@dimensions 3\n@classLabel true down up"),
    }.items():
        yield Mutation(name, replaced(partial(Path.write_text, data=content)), refused("FILE"), ("ts",))
    for name, content in {
        "comments": "# a comment\n#\n" + archive(),
        "other case": archive().replace("@data", "@DATA").replace("@classLabel", "@CLASSLABEL"),
        "spaces": archive().replace(",", ", "),
    }.items():
        yield Mutation(name, replaced(partial(Path.write_text, data=content)), Expected(SAME), ("ts",))
    for name, change in {
        "a row cut off": lambda t: t.rpartition("\t")[0].rpartition("\n")[0] + "\n1",
        "a word": lambda t: t.replace("\t", "\tx", 1),
        "infinity": lambda t: t.replace("\t", "\tinf\t", 1),
    }.items():
        yield Mutation(name, text(change), refused(), ("ucr",))


def of_texts() -> Iterator[Mutation]:
    for name, change in {
        "latin-1": lambda c: c.decode().encode("latin-1"),
        "UTF-16": lambda c: c.decode().encode("utf-16"),
        "a byte that is no text": lambda c: c[:900] + b"\xff" + c[900:],
        "cut within a letter": lambda c: c[: c.index("ö".encode()) + 1] + c,
        "one letter": lambda c: b"a" * len(c),
        "a page of it": lambda c: c[:900],
    }.items():
        yield Mutation(name, rewrite(change), refused("FILE"), ("text",))
    yield Mutation("a byte order mark", rewrite(lambda c: b"\xef\xbb\xbf" + c), Expected(SAME), ("text",))


def of_silent_misreadings() -> Iterator[Mutation]:
    """Files that could be read as something else: refused, never guessed."""
    renamed = {
        "a long table of other names": "patient,day,a,b,ward,fold,diagnosis",
        "a long table with a counter": "walk,n,a,b,ward,fold,gait",
        "a long table that needs options": "clip,t,a,b,speaker,split,word",
    }
    for name, head in renamed.items():
        change = text(lambda t, head=head: "\n".join([head, *t.split("\n")[1:]]))
        yield Mutation(name, change, refused("FILE"), ("long of known names",))
    yield Mutation("a long table without times", text(_without_times), refused("FILE"), ("long of known names",))
    for label in ("gesture", "outcome", "what was it"):
        change = text(lambda t, label=label: t.replace("label", label, 1))
        yield Mutation(f"a wide table with {label}", change, refused(label), ("wide",))
        numbers = text(lambda t, label=label: change_label(t, label))
        yield Mutation(f"a wide table with {label} in numbers", numbers, refused(label), ("wide",))
    for name, values in {"numbers": "012", "letters": "ABC", "folds": "123"}.items():
        parts = dict(zip(("train", "validation", "test"), values, strict=True))
        change = text(lambda t, parts=parts: replaced_words(t, parts))
        yield Mutation(f"a split in {name}", change, refused("split"), ("long",))
    for name, value in {
        "no date": "",
        "an impossible date": "2024-13-45",
        "another format of dates": "09/02/2024",
        "a word for a date": "unknown",
        "half a date": "2024-02",
        "two digits of a year": "09.02.24",
    }.items():
        for order, shuffle in {"in order": False, "shuffled": True}.items():
            change = text(lambda t, value=value, shuffle=shuffle: with_date(t, value, shuffle))
            yield Mutation(f"{name}, rows {order}", change, refused("date"), ("csv", "tsv"))
    yield Mutation("parts without classes", _parts_without_classes, refused("train"), ("folder of csv",))
    yield Mutation("a folder beside parts", _folder_beside_parts, refused("more"), ("folder of csv",))


def _without_times(content: str) -> str:
    rows = [line.split(",") for line in content.rstrip().split("\n")[1:]]
    return "\n".join(["walk,a,b,ward,fold,gait", *(",".join([row[0], *row[2:]]) for row in rows)]) + "\n"


def change_label(content: str, label: str) -> str:
    return content.replace("label", label, 1).replace("\ndown,", "\n0,").replace("\nup,", "\n1,")


def replaced_words(content: str, words: dict[str, str]) -> str:
    for old, new in words.items():
        content = content.replace(f",{old},", f",{new},")
    return content


def with_date(content: str, value: str, shuffle: bool) -> str:
    separator = "\t" if "\t" in content else ","
    header, *rows = content.rstrip().split("\n")
    rows[39] = separator.join([value, *rows[39].split(separator)[1:]])
    if shuffle:
        rows = [rows[i] for i in np.random.RandomState(1).permutation(len(rows))]
    return "\n".join([header, *rows]) + "\n"


def _parts_without_classes(victim: Path) -> None:
    classes = victim.parent.parent
    for name, part in {"down": "train", "up": "test"}.items():
        (classes / name).rename(classes / part)


def _folder_beside_parts(victim: Path) -> None:
    classes = victim.parent.parent
    for part in ("train", "test", "more"):
        shutil.copytree(classes, classes.parent / "parts" / part)
    shutil.rmtree(classes)
    (classes.parent / "parts").rename(classes)


def mutations() -> Iterator[Mutation]:
    for some in (of_long_tables, of_wide_tables, of_archives, of_texts, of_silent_misreadings):
        yield from some()
