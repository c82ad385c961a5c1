"""The paper of a comparison, from its title to its references."""

from __future__ import annotations

from collections.abc import Iterator

from gatelab.experiments.experiment import Experiment
from gatelab.experiments.results import Results
from gatelab.formatting import counted, listed
from gatelab.report.paper.blocks import Block, bullets, heading, paragraph, parted, ref, symbol, table
from gatelab.report.paper.outcome import has_effects, outcome
from gatelab.report.search import chosen_settings, columns_note
from gatelab.report.words import settings
from gatelab.report.words.findings import family_sentence, in_brief
from gatelab.report.words.limitations import limitations
from gatelab.report.words.search import search_findings
from gatelab.training.manifest import Manifest

NAMED = 4  # models up to which all are named
STATISTICS = (
    "The seed is the unit: each run contributes one number, its test metric with the weights of the best validation "
    "epoch. Differences are paired by seed. Confidence intervals are Student’s t intervals, tests are paired t-tests, "
    "both two-sided at 5 %; with fewer than three seeds nothing is tested."
)
REFERENCES = [
    "Student. The probable error of a mean. Biometrika, 1908.",
    "O. J. Dunn. Multiple comparisons among means. Journal of the American Statistical Association, 1961.",
]


def manuscript(results: Results, experiment: Experiment, manifests: list[Manifest]) -> Block:
    """All of the paper; `manifests` are those of the runs that can be read."""
    dates = [m.ended or m.started for m in manifests]
    return {
        "title": title(results, experiment),
        "version": experiment.versions["gatelab"],
        "date": max(dates)[:10] if dates else None,
        "lead": [["Question", question(results, experiment)], ["Answer", in_brief(results)]],
        "blocks": [
            *_method(results, experiment),
            *_settings(results, experiment, manifests),
            *outcome(results),
            heading("Limitations"),
            bullets(limitations(results, experiment)),
            heading("References", numbered=False),
            bullets([*_papers(experiment), *REFERENCES]),
        ],
    }


def title(results: Results, experiment: Experiment) -> str:
    """The title of the paper."""
    models, task = list(results.models), settings.data_set(experiment.spec.task)
    if experiment.spec.ablation:
        return f"{'A factorial' if has_effects(results) else 'An'} ablation on {task}: {len(models)} arms"
    return f"{_named(models)} on {task}"


def _named(models: list[str]) -> str:
    return listed(models) if len(models) <= NAMED else counted(len(models), "model")


def question(results: Results, experiment: Experiment) -> str:
    """What the experiment asks."""
    models, task = list(results.models), settings.task(experiment.spec.task)
    metric = "test accuracy" if results.classes else "test error"
    seeds = counted(experiment.spec.runs, "seed")
    if len(models) == 1:
        return f"What {metric} does {models[0]} reach on {task}, and how much does it vary over {seeds}?"
    named = _named(models)
    if experiment.spec.ablation:
        named = f"the {len(models)} arms of {'a factorial' if has_effects(results) else 'an'} ablation"
    return (
        f"Do {named} differ in {metric} on {task}, when all are trained under the same settings with {seeds} each, on "
        "the same split of the data and, seed by seed, with the same order of examples?"
    )


def _method(results: Results, experiment: Experiment) -> Iterator[Block]:
    yield heading("Method")
    if has_effects(results):
        text = "The models are the arms of a factorial design: each factor is changed alone and with the others. "
        yield paragraph(text, ref("models"), " lists the arms, ", ref("effects"), " the effects.")
    yield from _equations(experiment)
    yield {**paragraph(f"{STATISTICS} {family_sentence(results)}"), "kind": "named", "name": "Statistics"}


def _equations(experiment: Experiment) -> Iterator[Block]:
    users: dict[tuple[str, str], list[str]] = {}
    for name, trained in experiment.equations.items():
        users.setdefault((trained.cell, trained.typst), []).append(name)
    yield paragraph(
        "The equations are those that were trained. At step ", symbol("t"), " the input is ", symbol("x_t"), "; ",
        symbol("W"), ", ", symbol("U"), " and ", symbol("b"), " are learned; ⊙ is the elementwise product.",
    )  # fmt: skip
    for (cell, source), models in users.items():
        used = "" if models == [cell] else f", in {_named(models)}"
        yield {"kind": "equations", "name": cell, "used": used, "source": source}


def _settings(results: Results, experiment: Experiment, manifests: list[Manifest]) -> Iterator[Block]:
    yield heading("Experimental setup")
    same = experiment.spec.match == "parameters"
    matched = " Hidden sizes match the number of parameters of the first model." if same else ""
    yield paragraph(ref("settings"), " lists the settings of all runs, ", ref("models"), " the models.", matched)
    rows = [list(row) for row in settings.settings(results, experiment, manifests)]
    yield table("settings", "Settings of all runs.", ["setting", "value"], rows, words=[0, 1])
    yield from _models(experiment, manifests)
    if results.search is not None:
        yield {**paragraph(*search_findings(results.search)[:1]), "kind": "named", "name": "Search"}
        for sentence in search_findings(results.search)[1:]:
            yield paragraph(sentence)
        head, *chosen = chosen_settings(results.search)
        caption = f"The search: chosen settings and sensitivity. {columns_note(results.search)}"
        yield from parted(table("search", caption, head, chosen, wide=True, words=[0, 1]))


def _models(experiment: Experiment, manifests: list[Manifest]) -> Iterator[Block]:
    head, *rows = settings.models(experiment, manifests)
    wide = len(rows) > 8 or any(len("".join(row[:1] + row[4:])) > 70 for row in rows)
    caption = "The models: hidden size H, stacked layers, parameters, and other settings."
    yield from parted(table("models", caption, head, rows, wide=wide, words=[0, 4, 5]))


def _papers(experiment: Experiment) -> list[str]:
    """The papers that the cells come from, where they name one."""
    by_cell: dict[str, list[str]] = {}
    for name, entry in experiment.equations.items():
        if entry.reference:
            by_cell.setdefault(entry.reference, []).append(settings.cell(experiment.models[name]))
    return [f"{listed(list(dict.fromkeys(cells)))}: {reference}" for reference, cells in by_cell.items()]
