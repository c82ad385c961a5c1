"""The results of an experiment as tables: Markdown for people, CSV for programs, LaTeX for papers."""

from __future__ import annotations

import csv
import io

from gatelab.experiments.experiment import Experiment
from gatelab.experiments.results import ModelResult, Results
from gatelab.experiments.stats import Estimate, Summary
from gatelab.formatting import PERCENT, TITLES, mean_and_sd, number, p_number, signed
from gatelab.report import escaping
from gatelab.report.search import chosen_settings, columns_note
from gatelab.report.words import settings
from gatelab.report.words.findings import change_names, family_sentence, findings
from gatelab.report.words.search import search_findings

Rows = list[list[str]]  # the first row has the titles
MISSING = "–"


def metrics(results: Results) -> list[str]:
    """The metrics that are known, in the order of their titles."""
    known = {name for model in results.models.values() for name in model.summaries}
    return [name for name in TITLES if name in known]


def cell(model: ModelResult, metric: str, plus_minus: str = "±") -> str:
    """Mean ± standard deviation of a model."""
    if (summary := model.summaries.get(metric)) is None:
        return MISSING
    return mean_and_sd(metric, summary.mean, summary.sd, plus_minus)


def finished(model: ModelResult) -> str:
    """How many of a model's runs are in its numbers."""
    return f"{len(model.done)} of {len(model.runs)}"


def summaries(results: Results) -> Rows:
    """Every model with its metrics."""
    names = metrics(results)
    rows = [["model", "runs", *(TITLES[name] for name in names)]]
    return rows + [[n, finished(m), *(cell(m, name) for name in names)] for n, m in results.models.items()]


def interval(metric: str, summary: Summary) -> str:
    """The confidence interval of one model's mean in words; empty where there is none."""
    if summary.low is None or summary.high is None or metric == "parameters":
        return ""
    if summary.sd == 0:
        return f"all {len(summary.values)} runs are equal"
    return f"95 % CI {number(metric, summary.low)} to {number(metric, summary.high)}"


def arms(results: Results, experiment: Experiment) -> list[str]:
    """How each arm of an ablation differs from the base; empty for other comparisons."""
    if not experiment.spec.ablation:
        return []
    base = results.models[experiment.spec.base or ""].spec
    lines = []
    for name, model in results.models.items():
        changes = [
            f"{key.replace('_', ' ')} {'none' if value is None else settings.plain(value) or 'none'}"
            for key, value in model.spec.items()
            if value != base[key]
        ]
        lines.append(f"{name}: {'; '.join(changes) if changes else 'the base'}")
    return lines


def comparisons(results: Results) -> Rows:
    """The comparisons; empty where nothing was compared."""
    if not results.comparisons:
        return []
    metric = results.metric or ""
    rows = [["better", "worse", f"difference, {unit(metric)}", "95 % CI", "p (adjusted)", "probability of superiority"]]
    for one in results.comparisons:
        share = f"{100 * one.superiority:.0f} %" if one.difference.n > 1 else MISSING
        rows.append([one.a, one.b, signed(metric, one.difference.mean), *_tested(metric, one.difference), share])
    return rows


def effects(results: Results) -> Rows:
    """The effects of a factorial design; empty where there is no such design."""
    if not results.effects:
        return []
    metric = results.metric or ""
    rows = [["factor (× interaction)", f"effect, {unit(metric)}", "95 % CI", "p (adjusted)", "seeds"]]
    for one in results.effects:
        size = one.difference
        rows.append([change_names(one.changes), signed(metric, size.mean), *_tested(metric, size), str(size.n)])
    return rows


def unit(metric: str) -> str:
    """The unit of differences."""
    return "points" if metric in PERCENT else TITLES.get(metric, "")


def _tested(metric: str, size: Estimate) -> list[str]:
    """Interval and p, or why there are none."""
    if size.low is None or size.high is None or size.p_adjusted is None:
        return ["same in all seeds" if size.constant and size.n > 1 else MISSING, MISSING]
    return [
        f"{signed(metric, size.low)} to {signed(metric, size.high)}",
        f"{p_number(size.p_adjusted)}{' *' if size.significant else ''}",
    ]


def markdown(results: Results, experiment: Experiment, title: str) -> str:
    """A summary: the tables, and the findings in words."""
    lines = [f"# {escaping.markdown(title)}", "", *_table(summaries(results))]
    lines += [
        "Mean ± standard deviation over seeds, on the test set, with the weights of the best validation epoch.",
        "",
    ]
    if differing := arms(results, experiment):
        lines += ["How the arms differ from the base:", "", *bullets(differing)]
    metric = results.metric or ""
    if known := {name: mean for name, mean in results.means.items() if mean.low is not None}:
        means = [f"{name}: {number(metric, mean.mean)} ({interval(metric, mean)})" for name, mean in known.items()]
        lines += [f"Mean {TITLES[metric]} of each model:", "", *bullets(means)]
    tested = [*_table(comparisons(results)), *_table(effects(results))]
    note = escaping.markdown(f"{family_sentence(results)} * significant at 5 %.")
    lines += [*tested, *([note, ""] if tested and family_sentence(results) else [])]
    lines += ["## Findings", "", *bullets(findings(results))]
    if results.search is not None:
        lines += ["## Search", "", *bullets(search_findings(results.search)), *_table(chosen_settings(results.search))]
        lines += [escaping.markdown(columns_note(results.search)), ""]
    return "\n".join(lines)


def _table(rows: Rows) -> list[str]:
    """The lines of a table in Markdown, and an empty one; none for no rows."""
    return [row(rows[0]), rule(rows[0]), *map(row, rows[1:]), ""] if rows else []


def row(cells: list[str]) -> str:
    """One row of a table in Markdown."""
    return f"| {' | '.join(map(escaping.markdown, cells))} |"


def rule(titles: list[str]) -> str:
    """The line below the titles."""
    return "|---" * len(titles) + "|"


def bullets(texts: list[str]) -> list[str]:
    """The lines of a list in Markdown, and an empty one."""
    return [*(f"- {escaping.markdown(text)}" for text in texts), ""]


def comma_separated(results: Results) -> str:
    """A line for each run."""
    text, names = io.StringIO(), metrics(results)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["model", "seed", "status", *names])
    for name, model in results.models.items():
        for run in model.runs:
            writer.writerow([name, run.seed, run.status, *(run.metrics.get(metric, "") for metric in names)])
    return text.getvalue()


def latex(results: Results) -> str:
    """A table for a paper, with booktabs."""
    names = metrics(results)
    head = " & ".join(["Model", *(escaping.tex(TITLES[name]) for name in names)])
    lines = [r"\begin{tabular}{l" + "r" * len(names) + "}", r"\toprule", head + r" \\", r"\midrule"]
    for name, model in results.models.items():
        cells = [cell(model, metric, r"$\pm$").replace(MISSING, "--") for metric in names]
        lines.append(" & ".join([escaping.tex(name), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])
