"""report.html: the page of a fit, in one file."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gatelab import style
from gatelab.data import timestamps
from gatelab.disk import write_text
from gatelab.estimators.forecasting import words as forecaster_words
from gatelab.fitting import assumptions, figures, forecasts, peers, words
from gatelab.fitting.sequence_fit import SequenceFit
from gatelab.fitting.series_fit import SeriesFit
from gatelab.report.sections import PageSection, page
from gatelab.tasks.own import overview
from gatelab.tasks.own.files import Files
from gatelab.training.run import REPORT
from gatelab.use.forecasting import Forecast

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 30  # of a table of columns or classes
SEQUENCES_NOTE = (
    "The other methods are fitted on the same training set and scored on the same test set, which had no part in any "
    "choice."
)
INTERVAL_NOTE = " Intervals are Wilson's: where the accuracy on many more sequences like these may be."
SERIES_NOTE = (
    "MASE is the mean absolute error, relative to that of the seasonal naive forecast on the training part (of "
    "persistence, without a season). Every method forecasts from every step of the test part and sees the same values; "
    "all are fitted once, on what is before. Linear autoregression is a ridge regression for each step ahead, on the "
    "window that the networks read. Coverage is approximate: overlapping forecasts are not independent."
)
Drawn = dict[str, "Figure"]


def write_sequences(fit: SequenceFit, path: Path, name: Path) -> None:
    """Write the page of a classifier or regressor into `path`; `name` is the directory in the commands it shows."""
    task, comparison = fit.task, fit.comparison
    drawn: Drawn = {
        "data.png": task.picture(),
        "curve.png": figures.training_curve(fit.run.metrics(), fit.run.best_epoch()),
    }
    if comparison.are_classes:
        drawn["confusion.png"] = figures.confusion(fit)
    else:
        drawn["numbers.png"] = figures.predicted_against_true(fit)
    if (worst := figures.worst_sequences(fit)) is not None:
        drawn["worst.png"] = worst
    results = [f"Test set: {words.test_size(fit)}.", *words.sequence_verdict(fit)]
    note = SEQUENCES_NOTE + ("" if peers.why_none(task) else f" {peers.in_words(task)}")
    note += INTERVAL_NOTE if comparison.are_classes and comparison.independent else ""
    if comparison.are_classes:
        errors = PageSection("Confusion matrix", [], {"confusion.png": "Confusion matrix"})
    else:
        errors = PageSection("Predicted against true", [], {"numbers.png": "Predicted against true"})
    sections = [
        PageSection("Result", results, {}, words.sequence_table(fit), note),
        *_cautions(task),
        PageSection("What was assumed", _listed(assumptions.of_sequences(task, fit.spec)), {}),
        PageSection("Data", [], {"data.png": "Training examples"}, _columns(task), _more_columns(task)),
        *([PageSection("Classes", [], {}, _classes(task))] if task.classes is not None else []),
        PageSection("Training", [_kept(fit)], {"curve.png": "Loss and accuracy by epoch"}),
        errors,
        _worst(fit, drawn),
        PageSection("Commands to go on with", [], {}, code=_sequence_commands(fit, name), note=_stem_note(fit)),
    ]
    title = f"{task.path.name}: {'classes' if task.classes is not None else 'numbers'} predicted from sequences"
    _write(path, title, words.sequence_summary(fit), sections, drawn)


def write_series(fit: SeriesFit, path: Path, name: Path) -> None:
    """Write the page of a forecaster."""
    plan = fit.plan
    worst, origin = figures.worst_origin(fit)
    drawn: Drawn = {"series.png": figures.series_with_split(fit), "worst.png": worst}
    ahead = PageSection("Forecast", [_needs_future(fit)], {})
    if not plan.covariates:
        found = forecasts.forecast_ahead(fit.forecaster, plan.horizon)
        drawn["forecast.png"] = figures.forecast(fit, found)
        shown = {"forecast.png": "The end of the series, the forecast and its interval"}
        ahead = PageSection("Forecast", [], shown, _forecast_table(found))
    chosen = {
        name: fact
        for name, fact in forecaster_words.facts(fit.forecaster).items()
        if name not in plan.task.content.notes
    }
    when = f"step {origin}" if plan.stamps is None else _time(plan.stamps, origin)
    largest = f"The largest error of the backtest is that of the forecast made at {when}, scaled as MASE is."
    sections = [
        PageSection("Result", words.series_verdict(fit), {}, words.series_table(fit), SERIES_NOTE),
        *_cautions(plan.task),
        ahead,
        PageSection("Errors by step ahead", [], {}, words.step_table(fit), "MASE of each method."),
        PageSection("What was assumed", _listed(assumptions.of_series(plan)), {}),
        PageSection("What was chosen on held-out steps", _listed(chosen), {}, note=HELD_OUT),
        PageSection("Data", [], {"series.png": "The series and its split"}, _columns(plan.task)),
        PageSection("Largest error", [largest], {"worst.png": "The forecast with the largest error"}),
        PageSection("Commands to go on with", [], {}, code=_series_commands(fit, name)),
    ]
    _write(path, f"{plan.task.path.name}: {', '.join(plan.names)} forecast", words.series_summary(fit), sections, drawn)


HELD_OUT = (
    "These choices were made on the last quarter of the series, by networks that had not seen it; the backtest above "
    "made its own, before the test part."
)


def _write(path: Path, title: str, facts: str, sections: list[PageSection], drawn: Drawn) -> None:
    """Write the page, complete or not at all."""
    with tempfile.TemporaryDirectory(prefix="gatelab-figures-") as folder:
        for name, figure in drawn.items():
            style.save(figure, Path(folder) / name)
        write_text(path / REPORT, page(title, f"gatelab fit; {facts}", sections, drawn, Path(folder)))


def _listed(facts: assumptions.Facts) -> list[str]:
    return [f"{name}: {fact}" for name, fact in facts.items()]


def _cautions(task: Files) -> list[PageSection]:
    """What may make the result misleading, after the result itself."""
    found = assumptions.cautions(task)
    return [PageSection("Caution", [f"{each[0].upper()}{each[1:]}." for each in found], {})] if found else []


def _columns(task: Files) -> list[list[str]]:
    """The columns in numbers."""
    rows = [
        [column.name, column.role, *_numbers(column.low, column.mean, column.high), column.course]
        for column, _ in zip(overview.columns(task), range(MOST_ROWS), strict=False)
    ]
    course = "course" if task.forecasts else "mean by step"
    return [["column", "role", "min", "mean", "max", course], *rows] if rows else []


def _numbers(*values: float) -> list[str]:
    """Numbers of one column; one that is 0 but for rounding is 0."""
    least = 1e-9 * max(map(abs, values))
    return [f"{value if abs(value) > least else 0:.4g}" for value in values]


def _more_columns(task: Files) -> str:
    more = overview.num_columns(task) - MOST_ROWS
    return f"… and {more:,} more columns" if more > 0 else ""


def _classes(task: Files) -> list[list[str]]:
    """The number of targets of each class by part."""
    assert task.classes is not None
    parts = [task.counted(part.targets, part.lengths).numpy() for part in (task.train, task.validation, task.test)]
    counts = np.stack([np.bincount(part, minlength=len(task.classes)) for part in parts], 1)
    rows = [[name, *(f"{count:,}" for count in row)] for name, row in zip(task.classes, counts, strict=True)]
    shown = rows[:MOST_ROWS]
    if len(rows) > len(shown):
        others = counts[len(shown) :].sum(0)
        shown.append([f"{len(rows) - len(shown):,} more classes", *(f"{count:,}" for count in others)])
    return [["class", "training", "validation", "test"], *shown]


def _kept(fit: SequenceFit) -> str:
    best, count = fit.run.best_epoch(), len(fit.run.metrics())
    why = "the last one" if fit.spec.training.keep == "last" else "the best on the validation set"
    kept = f"The weights are those of epoch {best} of {count}, {why}."
    if not fit.spec.training.label_smoothing:
        return kept
    above = ", and may stay above the validation loss" if fit.task.sizes[1] else ""
    return f"{kept} The training loss is that of smoothed labels{above}."


def _worst(fit: SequenceFit, drawn: Drawn) -> PageSection:
    title = "Worst errors"
    if "worst.png" not in drawn:
        return PageSection(title, ["All test targets are predicted right."], {})
    how = "the most confident wrong predictions" if fit.comparison.are_classes else "the largest errors"
    return PageSection(title, [f"Test sequences with {how}, the worst first."], {"worst.png": "The worst predictions"})


def _stem_note(fit: SequenceFit) -> str:
    if fit.spec.model.stem == "none":
        return ""
    return (
        "inspect and explore need a network without the convolutions before its layers: fit once more with "
        "--set model.stem=none."
    )


def _sequence_commands(fit: SequenceFit, name: Path) -> str:
    run = shlex.quote(str(name))
    new = f"NEW{fit.task.path.suffix}"
    commands = {
        f"gatelab predict {run} {new} --out predictions.csv": "new sequences, read as these were",
        f"gatelab verify {run}": "whether all files are intact",
        f"gatelab export {run} --to onnx --out model.onnx": "for other programs; also c, js, torch, keras, json",
    }
    if fit.spec.model.stem == "none":
        commands |= {
            f"gatelab inspect {run}": "gates, memory and errors",
            f"gatelab explore {run}": "the network on a page, to play with",
        }
    return _aligned(commands)


def _series_commands(fit: SeriesFit, name: Path) -> str:
    run = shlex.quote(str(name))
    future = " --future FUTURE.csv" if fit.plan.covariates else ""
    steps = f"gatelab forecast {run} --steps {fit.plan.horizon}{future}"
    return _aligned(
        {
            f"{steps} --out forecast.csv --plot forecast.png": "with bounds of 90 %; --coverage 0.5 for others",
            f"{steps} --data NEWER.csv": "from newer values of the same columns",
            f"gatelab verify {run}": "whether all files are intact",
        }
    )


def _aligned(commands: dict[str, str]) -> str:
    return "\n".join(f"# {what}\n{command}" for command, what in commands.items())


def _needs_future(fit: SeriesFit) -> str:
    return (
        f"The forecaster reads {', '.join(fit.plan.covariates)}, whose future values it has to be given: gatelab "
        "forecast RUN --future FILE.csv."
    )


def _forecast_table(found: Forecast) -> list[list[str]]:
    assert found.lower is not None
    assert found.upper is not None
    times = [str(i + 1) for i in range(len(found.values))]
    if found.stamps is not None:
        times = timestamps.format_times(found.stamps, found.before.stamps)
    titles = [text for name in found.columns for text in (name, "lower", "upper")]
    rows = zip(times, found.values, found.lower, found.upper, strict=True)
    return [
        ["step ahead" if found.stamps is None else "time", *titles],
        *([time, *(f"{value:.4g}" for each in zip(*bounds, strict=True) for value in each)] for time, *bounds in rows),
    ]


def _time(stamps: np.ndarray, place: int) -> str:
    return timestamps.format_times(stamps[place : place + 1], stamps[:2])[0]
