"""Damage to the files of runs and experiments, by chance, and what everything that reads them says then.

python tests/campaigns/damage.py                             300 trials, two to three minutes on one core
python tests/campaigns/damage.py --only 17 --keep /tmp/seen  one of them again; what failed is left there

Each trial copies a run or an experiment, damages one of its files (bytes changed, cut off, doubled, taken out, zeroed),
and asks all readers. An answer must be an error in words, or to the bit that of the undamaged copy. A report may leave
a damaged run out, and its numbers must then be those without it. `gatelab verify` must find whatever made a reader
refuse. Exit code 1 if anything else was seen.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import io
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel

import gatelab
from gatelab import sealed
from gatelab.analysis import inspect
from gatelab.cli import main as gatelab_main
from gatelab.experiments import config as experiments
from gatelab.experiments.bench import bench
from gatelab.experiments.experiment import read_experiment
from gatelab.experiments.results import Results, gather
from gatelab.experiments.worker import Finished
from gatelab.report import figures
from gatelab.training import Run, config, train

MINE = """from gatelab import cell, sigmoid, tanh


@cell
def mine(x, h, W, U, b):
    z = sigmoid(W.z(x) + U.z(h) + b.z)
    n = tanh(W.n(x) + U.n(h) + b.n)
    return z * h + (1 - z) * n
"""
TIMES = ("seconds", "validation_seconds", "samples_per_second")
TEXTS = ("results_summary.md", "results.csv", "results_table.tex", "report.html")
COLUMNS = ("trials", "verify", "refused", "no effect", "tracebacks", "silent")


# What is damaged: a run of sequences with a cell of one's own, a run of a series, an experiment.


@dataclass(frozen=True)
class Subject:
    """A run or an experiment as it was made, the file it learned from, and what its models are asked."""

    path: Path
    data: Path | None
    X: np.ndarray
    lengths: np.ndarray | None = None

    @property
    def is_experiment(self) -> bool:
        return (self.path / "experiment.json").exists()

    @property
    def files(self) -> list[Path]:
        return sorted(path.relative_to(self.path) for path in self.path.rglob("*") if path.is_file())

    def some_file(self, chance: random.Random) -> Path:
        """Each kind of file as often as the others: an experiment has one results.json, and of most others many."""
        kind = chance.choice(sorted({kind_of(file) for file in self.files}))
        return chance.choice([file for file in self.files if kind_of(file) == kind])


def kind_of(file: Path) -> str:
    return "pictures" if file.suffix == ".png" else file.name


class Here:
    """Runs in this process, one after the other: processes are not what is tested."""

    detached, is_local = False, True

    def threads_for(self, runs: int) -> int:
        return 1

    def execute(self, runs, directory, tick) -> Iterator[Finished]:
        for run in runs:
            yield Finished(run, train(run.spec, directory / run.path).status)


def comparison() -> Any:
    """Two models with three seeds each."""
    given = {
        "task": "digits:limit=200",
        "models": {"gru": {}, "lstm": {}},
        "model": {"hidden_size": 6, "engine": "eager"},
        "training": {"num_epochs": 2, "batch_size": 64, "threads": 1},
        "runs": 3,
    }
    made = experiments.parse(given, "the benchmark")
    return made[""] if isinstance(made, dict) else made


def make_all(folder: Path) -> list[Subject]:
    """In the current folder, so that the cell's file is found."""
    chance = np.random.RandomState(0)
    Path("mine.py").write_text(MINE)
    X, lengths = chance.normal(size=(60, 6, 2)), chance.randint(3, 7, 60)
    np.savez("own.npz", X=X, y=np.array(["down", "up"])[(X[:, 0, 0] > 0).astype(int)], lengths=lengths)
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(i) for i in range(150)]
    rows = [f"{day},{np.sin(i / 5):.6f},{np.cos(i / 7):.5f}\n" for i, day in enumerate(days)]
    Path("series.csv").write_text("date,v,w\n" + "".join(rows))
    _train("own", {"name": "files", "path": "own.npz"}, "mine.py:mine", record=["gradients"])
    _train("series", {"name": "files", "path": "series.csv", "columns": "v+w", "length": 8}, "gru")
    bench(comparison(), Path("experiment"), Here())
    command("report", "experiment")
    return [
        Subject(folder / "own", folder / "own.npz", X, lengths),
        Subject(folder / "series", folder / "series.csv", np.cumsum(chance.normal(size=(20, 2)), 0)),
        Subject(folder / "experiment", None, chance.randint(0, 17, (5, 8, 8))),
    ]


def _train(name: str, task: dict[str, Any], cell: str, **training: Any) -> None:
    given = {
        "task": task,
        "model": {"cell": cell, "hidden_size": 5, "engine": "eager"},
        "training": {"num_epochs": 2, "batch_size": 16, "threads": 1, **training},
    }
    train(config.parse(given, "the benchmark"), name)


# Damage.


@dataclass(frozen=True)
class Damage:
    """One file that is not what it was, and how."""

    file: Path
    how: str


def damaged(content: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Other bytes than these, and what was done."""
    while True:
        made, how = chance.choice(KINDS)(content, chance) if content else (chance.randbytes(3), "3 bytes put in")
        if made != content:
            return made, how


def _flip(content: bytes, chance: random.Random, count: int = 1) -> tuple[bytes, str]:
    made, places = bytearray(content), [chance.randrange(len(content)) for _ in range(count)]
    by = [chance.randrange(1, 256) for _ in places]
    for place, value in zip(places, by, strict=True):
        made[place] ^= value
    return bytes(made), "xor " + ", ".join(f"{value:#04x} at {place}" for place, value in zip(places, by, strict=True))


def _flips(content: bytes, chance: random.Random) -> tuple[bytes, str]:
    return _flip(content, chance, chance.randint(2, 8))


def _cut(content: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Anywhere, at the very beginning, or after a line: what is left of a file of lines is then a file of lines."""
    ends = [place + 1 for place, byte in enumerate(content[:-1]) if byte == ord("\n")]
    end = chance.choice([0, chance.randrange(len(content)), chance.choice(ends or [0])])
    return content[:end], f"cut at {end}"


def _block(content: bytes, chance: random.Random) -> tuple[int, int]:
    start = chance.randrange(len(content))
    return start, min(len(content), start + chance.choice([1, 8, 64, 512]))


def _double(content: bytes, chance: random.Random) -> tuple[bytes, str]:
    start, end = _block(content, chance)
    return content[:end] + content[start:], f"{start} to {end} doubled"


def _remove(content: bytes, chance: random.Random) -> tuple[bytes, str]:
    start, end = _block(content, chance)
    return content[:start] + content[end:], f"{start} to {end} taken out"


def _zero(content: bytes, chance: random.Random) -> tuple[bytes, str]:
    start, end = _block(content, chance)
    return content[:start] + bytes(end - start) + content[end:], f"{start} to {end} zeroed"


KINDS = (_flip, _flip, _flips, _cut, _cut, _double, _remove, _zero)


# Readers.


@dataclass(frozen=True)
class Answer:
    """What a reader said: numbers, an error in words, or a traceback."""

    kind: str  # answered, refused or traceback
    value: Any


def asked(reader: Callable[[], Any]) -> Answer:
    """What the command line would make a line of is words; whatever else escapes is a traceback."""
    try:
        return Answer("answered", plain(reader()))
    except (ValueError, OSError) as error:
        return Answer("refused", str(error)) if str(error).strip() else Answer("traceback", traceback.format_exc())
    except KeyboardInterrupt:
        raise
    except BaseException:  # also what a library of Rust throws
        return Answer("traceback", traceback.format_exc())


def plain(value: Any) -> Any:
    """The same in values that `==` compares to the bit, NaN with NaN."""
    if dataclasses.is_dataclass(value):
        return {entry.name: plain(getattr(value, entry.name)) for entry in dataclasses.fields(value)}
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json", by_alias=True))
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, torch.Tensor):
        return plain(value.numpy())
    if isinstance(value, (np.ndarray, np.generic)):
        return str(value.dtype), value.shape, np.ascontiguousarray(value).tobytes()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (str, int, bytes, type(None))):
        return value
    raise TypeError(f"{type(value)} cannot be compared")


def command(*words: str) -> str:
    """A command in this process, as the entry point does it: what it said, or an error in words."""
    said, wrong, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["gatelab", *words]
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
            gatelab_main()
    except SystemExit as exit_:
        if exit_.code:
            raise ValueError(wrong.getvalue()) from None
    finally:
        sys.argv = before
    return said.getvalue()


@contextlib.contextmanager
def without(data: Path | None) -> Iterator[None]:
    """As on a machine that does not have the data."""
    if data is None:
        yield
        return
    away = data.with_name(f"{data.name}.away")
    data.rename(away)
    try:
        yield
    finally:
        away.rename(data)


def readers_of_run(run: Path, subject: Subject, aside: Path) -> dict[str, Callable[[], Any]]:
    """All that reads a run."""
    found: dict[str, Callable[[], Any]] = {
        "predict": lambda: _predicted(run, subject),
        "metrics": lambda: Run(run).metrics(),
        "predictions": lambda: Run(run).predictions(),
        "inspect": lambda: _inspected(run, subject.data, here=True),
        "resume": lambda: _resumed(run, aside),
    }
    if subject.data is not None:
        found["inspect without data"] = lambda: _inspected(run, subject.data, here=False)
    if subject.data is not None and subject.data.suffix == ".csv":
        found["forecast"] = lambda: gatelab.load(run).forecast(5)
    return found


def _predicted(run: Path, subject: Subject) -> Any:
    model = gatelab.load(run)
    shares = [] if model.classes is None else model.predict_proba(subject.X, lengths=subject.lengths)
    return model.describe(), model.predict(subject.X, lengths=subject.lengths), shares


def _inspected(run: Path, data: Path | None, here: bool) -> Any:
    with contextlib.nullcontext() if here else without(data):
        found = inspect(run)
    values = {entry.name: getattr(found, entry.name) for entry in dataclasses.fields(found)}
    return values | {"subject": (found.subject.note, found.subject.layer, found.subject.hyperparameters)}


def _resumed(run: Path, aside: Path) -> Any:
    """One more epoch, in a copy."""
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(run, aside)
    spec = Run(aside).spec()
    training = spec.training.model_copy(update={"num_epochs": spec.training.num_epochs + 1})
    outcome = train(spec.model_copy(update={"training": training}), aside, extend=True)
    lines = [{key: value for key, value in line.items() if key not in TIMES} for line in outcome.run.metrics()]
    tensors, _ = sealed.read_tensors(outcome.run.checkpoint_path)
    recorded = sealed.read_arrays(aside / "gradients.npz") if (aside / "gradients.npz").exists() else None
    return lines, outcome.test, outcome.best_epoch, tensors, outcome.run.predictions(), recorded


def _reported(experiment: Path) -> Any:
    command("report", str(experiment))
    texts = {name: (experiment / name).read_text() for name in TEXTS}
    return {"results": sealed.read_json(experiment / "results.json"), "texts": texts}


def _benched(experiment: Path, aside: Path) -> Any:
    """The same command once more: it has to look at every run, and has nothing to do."""
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(experiment, aside)
    return {"results": bench(comparison(), aside, Here()), "texts": {}}


# What is expected.


class Expected:
    """The answers of undamaged copies, each asked once, in the place where damaged copies are."""

    def __init__(self, work: Path) -> None:
        self.work, self.known = work, dict[tuple[Path, str], Answer]()

    def copied(self, subject: Subject, where: str = "") -> Path:
        target = self.work / (where or subject.path.name)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(subject.path, target)
        return target

    def answers(self, subject: Subject, place: Path) -> dict[str, Answer]:
        """Of all readers of that run, or of the whole experiment where the place is empty."""
        readers = readers_for(self.copied(subject), subject, place, self.work)
        found = {}
        for name, reader in readers.items():
            key = subject.path / place, name
            if key not in self.known:
                self.known[key] = asked(reader)
                if self.known[key].kind != "answered":
                    raise RuntimeError(f"{name} of an undamaged {subject.path.name}: {self.known[key].value}")
            found[name] = self.known[key]
        return found

    def numbers_without(self, subject: Subject, place: Path) -> Any:
        """Of an experiment in which one run was never done."""
        key = subject.path / place, "gathered without"
        if key not in self.known:
            copy = self.copied(subject, "fewer")
            (copy / place / "manifest.json").unlink()
            self.known[key] = Answer("answered", numbers(plain(gather(read_experiment(copy), copy)), str(place)))
        return self.known[key].value


def readers_for(copy: Path, subject: Subject, place: Path, work: Path) -> dict[str, Callable[[], Any]]:
    if place != Path() or not subject.is_experiment:
        return readers_of_run(copy / place, subject, work / "aside")
    return {"bench again": lambda: _benched(copy, work / "aside"), "report": lambda: _reported(copy)}


def numbers(results: dict[str, Any], but: str = "") -> dict[str, Any]:
    """What results say of all runs but one, and of the models."""
    models = {
        name: {key: value for key, value in entry.items() if key != "runs"}
        | {"runs": [run for run in entry["runs"] if run["place"] != but]}
        for name, entry in results["models"].items()
    }
    return {"models": models, **{key: results[key] for key in ("metric", "comparisons", "effects", "classes")}}


def differs(name: str, answer: Any, whole: Any, subject: Subject, place: Path, expected: Expected) -> str:
    """How an answer is another than it should be; nothing if it is not."""
    if name not in ("report", "bench again"):
        return "" if answer == whole else "other numbers"
    runs = [run for entry in answer["results"]["models"].values() for run in entry["runs"]]
    out = {run["place"] for run in runs if run["status"] == "damaged"}
    if not out:
        same = numbers(answer["results"]) == numbers(whole["results"]) and answer["texts"] == whole["texts"]
        return "" if same else "other numbers, and no run is said to be damaged"
    if out != {str(place)}:
        return f"{', '.join(sorted(out))} said to be damaged"
    if numbers(answer["results"], str(place)) != expected.numbers_without(subject, place):
        return "numbers are not those without the damaged run"
    return "" if _lines(answer, place) == _lines(whole, place) else "other runs have other lines in results.csv"


def _lines(answer: dict[str, Any], place: Path) -> list[str]:
    """The lines of the table but for one run."""
    own = f"{place.parent.name},{place.name.removeprefix('seed-')},"
    return [line for line in answer["texts"].get("results.csv", "").splitlines() if not line.startswith(own)]


# Trials.


@dataclass
class Seen:
    """What came of one trial."""

    damage: Damage
    verified: Answer
    refused: dict[str, str] = field(default_factory=dict)  # readers, and their words
    tracebacks: dict[str, str] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    harmed: bool = False  # whether a refused resume left another run behind than it found

    @property
    def failed(self) -> bool:
        return bool(self.tracebacks or self.silent)


def trial(subject: Subject, chance: random.Random, expected: Expected) -> Seen:
    file = subject.some_file(chance)
    place = file.parent if subject.is_experiment else Path()
    wholes = {scope: expected.answers(subject, scope) for scope in dict.fromkeys((place, Path()))}
    copy = expected.copied(subject)
    content, how = damaged((copy / file).read_bytes(), chance)
    (copy / file).write_bytes(content)
    seen = Seen(Damage(file, how), asked(lambda: command("verify", str(copy))))
    if seen.verified.kind == "traceback":
        seen.tracebacks["verify"] = seen.verified.value
    for scope, whole in wholes.items():  # reports come last: they write into the directory
        for name, reader in readers_for(copy, subject, scope, expected.work).items():
            answer = asked(reader)
            _note(seen, name, answer)
            if answer.kind == "answered" and (
                how := differs(name, answer.value, whole[name].value, subject, place, expected)
            ):
                seen.silent[name] = how
            if name == "resume" and name in seen.refused:
                seen.harmed = _is_other(copy / place, expected.work / "aside")
    if seen.refused and seen.verified.kind == "answered":
        seen.silent["verify"] = f"reports all files as intact, and {', '.join(seen.refused)} refused"
    return seen


def _note(seen: Seen, name: str, answer: Answer) -> None:
    if answer.kind == "traceback":
        seen.tracebacks[name] = answer.value
    elif answer.kind == "refused":
        seen.refused[name] = answer.value
    elif name in ("report", "bench again") and "damaged" in _statuses(answer.value):
        models = answer.value["results"]["models"].values()
        seen.refused[name] = " ".join(run["reason"] for entry in models for run in entry["runs"] if run["reason"])


def _statuses(answer: dict[str, Any]) -> set[str]:
    return {run["status"] for entry in answer["results"]["models"].values() for run in entry["runs"]}


def _is_other(one: Path, other: Path) -> bool:
    """Whether two directories of a run differ in what was there at first."""
    names = [path.name for path in one.iterdir() if path.is_file() and path.name != ".lock"]
    return any((one / name).read_bytes() != (other / name).read_bytes() for name in names)


def drawn_once(never: bool) -> None:
    """Pictures take most of a report's time, and are made of the numbers alone: the same are not drawn again."""
    draw, known = figures.figures, set[str]()

    def once(results: Results) -> dict[str, Any]:
        key = repr({name: model.summaries for name, model in results.models.items()})
        if never or key in known:
            return {}
        known.add(key)
        return draw(results)

    figures.figures = once


# What is printed.


def row(seen: list[Seen]) -> list[int]:
    return [
        len(seen),
        sum(one.verified.kind == "refused" for one in seen),
        sum(bool(one.refused) for one in seen),
        sum(one.verified.kind == "answered" and not one.refused and not one.failed for one in seen),
        sum(bool(one.tracebacks) for one in seen),
        sum(bool(one.silent) for one in seen),
    ]


def print_table(all_seen: list[Seen]) -> None:
    print(f"{'file':<24}" + "".join(f"{title:>12}" for title in COLUMNS))
    by_name: dict[str, list[Seen]] = {}
    for seen in all_seen:
        by_name.setdefault(kind_of(seen.damage.file), []).append(seen)
    for name, found in [*sorted(by_name.items()), ("all", all_seen)]:
        print(f"{name:<24}" + "".join(f"{count:>12}" for count in row(found)))


def print_failure(number: int, seed: int, subject: Subject, seen: Seen) -> None:
    print(f"\nFAILED: --seed {seed} --only {number}: {subject.path.name}/{seen.damage.file}, {seen.damage.how}")
    for name, what in {**seen.silent, **seen.tracebacks}.items():
        print(f"  {name}: {what}")


def print_notes(all_seen: list[Seen]) -> None:
    """What is no failure, and worth knowing."""
    unnamed = Counter(
        name for seen in all_seen for name, words in seen.refused.items() if seen.damage.file.name not in words
    )
    if unnamed:
        print(f"refusals that do not name the file: {', '.join(f'{name} {n}' for name, n in unnamed.items())}")
    if harmed := Counter(seen.damage.file.name for seen in all_seen if seen.harmed):
        shown = ", ".join(f"{name} {count}" for name, count in harmed.items())
        print(f"refused resumes that changed what was there: {shown}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of a single trial")
    parser.add_argument("--keep", type=Path, help="a folder for copies of what failed")
    parser.add_argument("--no-pictures", action="store_true", help="reports without them, which is quicker")
    given = parser.parse_args()
    keep = given.keep and given.keep.absolute()
    torch.set_num_threads(1)
    drawn_once(never=given.no_pictures)
    begin, before = time.time(), Path.cwd()
    with tempfile.TemporaryDirectory(prefix="gatelab-damage-") as folder:
        os.chdir(folder)
        try:
            subjects, expected = make_all(Path(folder)), Expected(Path(folder) / "work")
            print(f"made in {time.time() - begin:.1f} s: {sum(len(s.files) for s in subjects)} files", flush=True)
            failed, all_seen = 0, []
            for number in [given.only] if given.only is not None else range(given.trials):
                chance = random.Random(f"{given.seed} {number}")
                subject = chance.choice(subjects)
                all_seen.append(seen := trial(subject, chance, expected))
                if seen.failed:
                    failed += 1
                    print_failure(number, given.seed, subject, seen)
                    if keep:
                        shutil.copytree(expected.work / subject.path.name, keep / str(number), dirs_exist_ok=True)
        finally:
            os.chdir(before)
    print()
    print_table(all_seen)
    print_notes(all_seen)
    print(f"{len(all_seen)} trials, {failed} failed; {time.time() - begin:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
