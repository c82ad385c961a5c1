"""Hostile arguments for the commands that use a trained run or an experiment, and directories that hold none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import hostile_files
from hostile_cases import SAME, SOUND, Case, Expected, refused

LONG = "a" * 10_000


def make(folder: str) -> None:
    """The subjects: a run of a series, one of sequences, and an experiment."""
    from gatelab.cli import main

    os.makedirs(folder)
    os.chdir(folder)
    os.environ["GATELAB_ENGINE"] = "eager"
    hostile_files.FORMATS["csv"].write(Path("made.csv"))
    hostile_files.FORMATS["npz"].write(Path("made.npz"))
    small = ["--hidden-size", "4", "--epochs", "1", "--threads", "1", "--quiet"]
    for command in (
        ["train", "--task", "files:path=made.csv,length=8", *small, "--output-dir", "series"],
        ["train", "--task", "files:path=made.npz", *small, "--output-dir", "own"],
        [
            "bench",
            "--task",
            "digits:limit=50",
            "--cells",
            "gru,rnn",
            "--hidden-size",
            "3",
            "--epochs",
            "1",
            "--runs",
            "1",
            "--quiet",
            "--jobs",
            "1",
            "--output-dir",
            "experiment",
        ],
    ):
        sys.argv = ["gatelab", *command]
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"{command} failed") from None


def of_numbers() -> Iterator[Case]:
    for value in ("0", "-1", "abc", "1.5", "nan", "inf", "1e9", "1e300", "9" * 5000, "", "1e400"):
        yield Case("use", f"forecast --steps {value[:20]}", ("forecast", "series", "--steps", value), refused("steps"))
    four = Case("use", "", ("forecast", "series", "--steps", "4"), Expected(SAME))
    for value in ("4", "4e0", "4.0", "+4"):
        command = ("forecast", "series", "--steps", value)
        yield Case("use", f"forecast --steps {value}", command, Expected(SAME), base=four)
    for flag in ("--sample", "--layer"):
        for value in ("-1", "1e9", "abc", "1.5", "nan", "9" * 5000, ""):
            command = ("inspect", "own", "--out", "page", flag, value)
            yield Case("use", f"inspect {flag} {value[:20]}", command, refused(flag.strip("-")))


def of_outputs() -> Iterator[Case]:
    write = hostile_files.FORMATS["npz"].write
    for out in ("/dev/null/x", ".", "own.npz", "a" * 300, "/proc/x", ""):
        command = ("predict", "own", "own.npz", "--out", out)
        yield Case("use", f"predict --out {out[:20]}", command, refused(), partial(_npz, write=write))
    for plot in ("a.xyz", "a", ".png", "/proc/a.png", "a" * 300 + ".png", ""):
        yield Case("use", f"forecast --plot {plot[:20]}", ("forecast", "series", "--plot", plot), refused())


def _npz(folder: Path, write: object) -> None:
    hostile_files.FORMATS["npz"].write(folder / "own.npz")


def of_directories() -> Iterator[Case]:
    """What is not the directory of a run or an experiment."""
    for command in (
        ("predict", "DIR", "x.npz"),
        ("forecast", "DIR"),
        ("inspect", "DIR"),
        ("verify", "DIR"),
        ("report", "DIR"),
        ("train", "--resume", "DIR"),
    ):
        for kind in PLACES:
            for name in ("a directory", "thing"):
                if name == "thing" and kind != "empty directory":
                    continue
                words = tuple(name if word == "DIR" else word for word in command)
                yield Case("use", f"{command[0]}: {kind}", words, refused(name), partial(_place, name=name, kind=kind))
        for name in ("nowhere", "/dev/null", "/dev/zero", "/proc/self", "a\nb", "\udcff", LONG, "", "."):
            words = tuple(name if word == "DIR" else word for word in command)
            yield Case("use", f"{command[0]} {name[:20]!r}", words, refused())
    for command in (
        ("forecast", "own"),
        ("predict", "series", "own.npz"),
        ("predict", "own", "made.csv"),
        ("report", "own"),
        ("inspect", "experiment"),
        ("forecast", "experiment"),
        ("predict", "own", "nowhere.npz"),
    ):
        yield Case("use", " ".join(command), command, refused())
    for name in ("future", "data"):
        for place in ("nowhere.csv", "/dev/zero", ".", "", "series", LONG):
            command = ("forecast", "series", f"--{name}", place)
            yield Case("use", f"forecast --{name} {place[:20]}", command, refused())
    for command in (
        ("nothing",),
        ("--nothing",),
        ("train", "--nothing"),
        ("train", "a", "b"),
        ("\udcff",),
        ("",),
        (LONG,),
    ):
        yield Case("use", f"{command[0][:20]!r} …", command, refused())
    yield Case("use", "verify as it is", ("verify", "own"), Expected(SOUND))


PLACES = (
    "empty directory",
    "a file",
    "a pipe",
    "a link to itself",
    "a manifest of nothing",
    "a manifest that is a pipe",
    "a manifest that is a directory",
    "an experiment of nothing",
    "an experiment that is a pipe",
)


def _place(folder: Path, name: str, kind: str) -> None:
    path = folder / name
    if kind == "a file":
        path.write_text("here")
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a link to itself":
        path.symlink_to(name)
    else:
        path.mkdir()
    for file in ("manifest.json", "experiment.json"):
        if kind.startswith((f"a {file[:8]}", f"an {file[:10]}")):
            if "pipe" in kind:
                os.mkfifo(path / file)
            elif "directory" in kind:
                (path / file).mkdir()
            else:
                (path / file).write_text("{}")


CATALOGUE = (of_numbers, of_outputs, of_directories)
