"""The results of an experiment as tables: Markdown for people, CSV for programs, LaTeX for papers."""

from __future__ import annotations

import csv
import io
from typing import Any

from gatelab.experiments.results import with_minus
from gatelab.experiments.stats import ROUNDING
from gatelab.report import escaping, wording
from gatelab.training.objective import SHARES

TITLES = {
    "accuracy": "accuracy, %", "precision": "precision, %", "recall": "recall, %", "f1": "F1, %", "loss": "loss",
    "mse": "MSE", "mae": "MAE", "best_epoch": "best epoch", "seconds_per_epoch": "s/epoch", "parameters": "parameters",
}  # fmt: skip
PLACES = {"best_epoch": 1, "seconds_per_epoch": 2}


def columns(results: dict[str, Any]) -> list[str]:
    """The metrics there are, in the order of their titles."""
    known = {name for entry in results["models"].values() for name in entry["statistics"]}
    return [name for name in TITLES if name in known]


def number(metric: str, value: float) -> str:
    if metric in SHARES:
        return f"{100 * value:.2f}"
    if metric == "parameters":
        return f"{value:,.0f}"
    if metric in PLACES:
        return f"{value:.{PLACES[metric]}f}"
    return f"{value:.4f}" if abs(value) >= 0.01 or value == 0 else f"{value:.3g}"


def cell(metric: str, summary: dict[str, Any], plus_minus: str = "±") -> str:
    """Mean ± standard deviation; what cannot vary has none."""
    mean = number(metric, summary["mean"])
    if metric == "parameters" or summary["sd"] is None:
        return mean
    places = len(mean.partition(".")[2]) if "e" not in mean else None
    scale = 100 if metric in SHARES else 1
    deviation = number(metric, summary["sd"]) if places is None else f"{scale * summary['sd']:.{places}f}"
    return f"{mean} {plus_minus} {deviation}"


def interval(metric: str, summary: dict[str, Any]) -> str:
    """The 95 % interval in words; runs that all say the same have none that would mean anything."""
    if summary["low"] == summary["high"]:
        return f"all {len(summary['values'])} runs are equal"
    return f"95 % interval {number(metric, summary['low'])} to {number(metric, summary['high'])}"


def arms(results: dict[str, Any], experiment: dict[str, Any]) -> list[str]:
    """What sets each arm of an ablation apart from its base, in words; nothing for other comparisons."""
    if experiment["command"] != "ablate":
        return []
    plain = results["models"][experiment["spec"]["base"]]["spec"]
    said = []
    for name, entry in results["models"].items():
        changes = [
            f"{key.replace('_', ' ')} {'none' if value is None else wording.plain(value) or 'none'}"
            for key, value in entry["spec"].items()
            if value != plain[key]
        ]
        said.append(f"{name}: {'; '.join(changes) if changes else 'the base'}")
    return said


def compared(results: dict[str, Any]) -> list[list[str]]:
    """The comparisons as rows of text, with a row of titles; none where nothing was compared."""
    metric = results["metric"]
    unit = "points" if metric in SHARES else TITLES.get(metric, "")
    rows = [["better", "worse", f"difference, {unit}", "95 % interval", "p (Holm)", "P(a run is better)"]]
    for c in results["comparisons"]:
        row = [c["a"], c["b"], signed(metric, c["difference"])]
        if c["p_adjusted"] is None:
            rows.append([*row, "–", "–", "–"])
            continue
        between = _between(metric, c["low"], c["high"])
        rows.append([*row, between, f"{c['p_adjusted']:.3g}", f"{100 * c['improvement']:.0f} %"])
    return rows if len(rows) > 1 else []


def effects(results: dict[str, Any]) -> list[list[str]]:
    """The effects of a factorial design as rows of text, with a row of titles; none where there is no such design."""
    metric = results["metric"]
    unit = "points" if metric in SHARES else TITLES.get(metric, "")
    rows = [["factor (× interaction)", f"effect, {unit}", "95 % interval", "p (Holm)", "seeds"]]
    for effect in results.get("effects", ()):
        between = "–" if effect["low"] is None else _between(metric, effect["low"], effect["high"])
        shown = signed(metric, effect["difference"])
        p = "–" if effect["p_adjusted"] is None else f"{effect['p_adjusted']:.3g}"
        rows.append([effect["name"], shown, between, p, str(effect["n"])])
    return rows if len(rows) > 1 else []


def signed(metric: str, value: float) -> str:
    """A difference: points with two places, as sentences have them."""
    return with_minus(f"{100 * value:+.2f}" if metric in SHARES else f"{value:+.3g}")


def _between(metric: str, low: float, high: float) -> str:
    return f"{signed(metric, low)} to {signed(metric, high)}" if high - low > ROUNDING else "the same in all seeds"


def markdown(results: dict[str, Any], experiment: dict[str, Any], title: str) -> str:
    """A summary: what was compared, the table, the findings in words."""
    names = columns(results)
    numbers = [["model", "runs", *(TITLES[name] for name in names)]]
    for model, entry in results["models"].items():
        done = entry["counts"].get("done", 0)
        cells = [cell(name, entry["statistics"][name]) if name in entry["statistics"] else "–" for name in names]
        numbers.append([model, f"{done} of {len(entry['runs'])}", *cells])
    lines = [f"# {escaping.markdown(title)}", "", *_table(numbers)]
    lines += ["Mean ± standard deviation over seeds, on the test set of the best validation epoch.", ""]
    if differing := arms(results, experiment):
        lines += ["What sets the arms apart:", "", *bullets(differing)]
    metric = results["metric"]
    means = {model: entry["statistics"].get(metric) for model, entry in results["models"].items()}
    if known := {model: summary for model, summary in means.items() if summary and summary["low"] is not None}:
        said = [f"{model}: {number(metric, mean['mean'])} ({interval(metric, mean)})" for model, mean in known.items()]
        lines += [f"The mean {TITLES[metric]}:", "", *bullets(said)]
    lines += [*_table(compared(results)), *_table(effects(results))]
    lines += ["## What can be said", "", *bullets(results["sentences"])]
    return "\n".join(lines)


def _table(rows: list[list[str]]) -> list[str]:
    """The lines of a table in Markdown whose first row are titles, and an empty one; none for no rows."""
    return [row(rows[0]), rule(rows[0]), *map(row, rows[1:]), ""] if rows else []


def row(cells: list[str]) -> str:
    return f"| {' | '.join(map(escaping.markdown, cells))} |"


def rule(titles: list[str]) -> str:
    """The line below the titles."""
    return "|---" * len(titles) + "|"


def bullets(texts: list[str]) -> list[str]:
    """The lines of a list in Markdown, and an empty one."""
    return [*(f"- {escaping.markdown(text)}" for text in texts), ""]


def comma_separated(results: dict[str, Any]) -> str:
    """A line for each run."""
    text = io.StringIO()
    names = columns(results)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["model", "seed", "status", *names])
    for model, entry in results["models"].items():
        for run in entry["runs"]:
            writer.writerow([model, run["seed"], run["status"], *(run["metrics"].get(name, "") for name in names)])
    return text.getvalue()


def latex(results: dict[str, Any]) -> str:
    """A table for a paper, with booktabs."""
    names = columns(results)
    head = " & ".join(["Model", *(escaping.tex(TITLES[name]) for name in names)])
    lines = [r"\begin{tabular}{l" + "r" * len(names) + "}", r"\toprule", head + r" \\", r"\midrule"]
    for model, entry in results["models"].items():
        cells = [cell(n, entry["statistics"][n], r"$\pm$") if n in entry["statistics"] else "--" for n in names]
        lines.append(" & ".join([escaping.tex(model), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])
