"""What stands in the paper of a comparison, from its title to its references."""

from __future__ import annotations

from collections.abc import Iterator

from gatelab.report import caution, wording
from gatelab.report.paper.blocks import Block, bullets, heading, paragraph, parted, ref, symbol, table
from gatelab.report.paper.outcome import has_effects, outcome
from gatelab.report.wording import counted, listed

NAMED = 4  # models up to which all are named
STATISTICS = (
    "The seed is the unit: a run is one number, from the test set, with the weights of its best validation epoch. "
    "Intervals of a mean or of a difference, paired by seed, are BCa bootstrap intervals at a level that makes up for "
    "few runs (Hesterberg 2015), and Student’s below five runs. Tests are two-sided permutation tests: with "
    "enough seeds the members of a pair are swapped, with fewer the runs of both models are dealt out in all ways, "
    "which is on the safe side. Holm’s correction is over all comparisons. A difference “can be called” if its "
    "corrected p is 0.05 or less; with fewer than three seeds nothing is tested."
)
REFERENCES = [
    "S. Holm. A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics, 1979.",
    "T. Hesterberg. What teachers should know about the bootstrap. The American Statistician, 2015.",
]


def manuscript(results: Block, experiment: Block, manifests: list[Block]) -> Block:
    """All of the paper; `manifests` are those of the runs that there are."""
    dates = [m.get("ended") or m["started"] for m in manifests]
    return {
        "title": title(results, experiment),
        "version": experiment["versions"]["gatelab"],
        "date": max(dates)[:10] if dates else None,
        "lead": [["Question", question(results, experiment)], ["In brief", caution.in_brief(results)]],
        "blocks": [
            *_method(results, experiment),
            *_settings(results, experiment, manifests),
            *outcome(results),
            heading("Limitations"),
            bullets(caution.limitations(results, experiment)),
            heading("References", numbered=False),
            bullets([*_papers(experiment), *REFERENCES]),
        ],
    }


def title(results: Block, experiment: Block) -> str:
    models, task = list(results["models"]), experiment["spec"]["task"]["name"]
    if experiment["command"] == "ablate":
        return f"{'A factorial' if has_effects(results) else 'An'} ablation on {task}: {len(models)} arms"
    return f"{_named(models)} on {task}"


def _named(models: list[str]) -> str:
    return listed(models) if len(models) <= NAMED else counted(len(models), "model")


def question(results: Block, experiment: Block) -> str:
    models, task = list(results["models"]), wording.task(experiment["spec"]["task"])
    metric = "test accuracy" if results["classes"] else "test error"
    seeds = counted(experiment["spec"]["runs"], "seed")
    if len(models) == 1:
        return f"What {metric} does {models[0]} reach on {task}, and how much does it vary over {seeds}?"
    named = _named(models)
    if experiment["command"] == "ablate":
        named = f"the {len(models)} arms of {'a factorial' if has_effects(results) else 'an'} ablation"
    return (
        f"Do {named} differ in {metric} on {task}, when all are trained under the same settings with {seeds} each, on "
        "the same division of the data and, seed by seed, in the same order?"
    )


def _method(results: Block, experiment: Block) -> Iterator[Block]:
    yield heading("Method")
    if has_effects(results):
        text = "The models are the arms of a factorial design: each factor is changed alone and with the others. "
        yield paragraph(text, ref("models"), " lists the arms, ", ref("effects"), " the effects.")
    yield from _equations(experiment)
    yield {**paragraph(STATISTICS), "kind": "named", "name": "Statistics"}


def _equations(experiment: Block) -> Iterator[Block]:
    known = experiment.get("equations", {})
    users: dict[tuple[str, str], list[str]] = {}
    for name in experiment["models"]:
        if name in known:
            users.setdefault((known[name]["cell"], known[name]["typst"]), []).append(name)
    if users:
        yield paragraph(
            "These equations are those that were trained. At step ", symbol("t"), " the input is ", symbol("x_t"), "; ",
            symbol("W"), ", ", symbol("U"), " and ", symbol("b"), " are learned; ⊙ is the product element by element.",
        )  # fmt: skip
    for (cell, source), models in users.items():
        used = "" if models == [cell] else f", in {_named(models)}"
        yield {"kind": "equations", "name": cell, "used": used, "source": source}
    if missing := [name for name in experiment["models"] if name not in known]:
        yield paragraph(f"The equations of {_named(missing)} were not recorded with this experiment.")


def _settings(results: Block, experiment: Block, manifests: list[Block]) -> Iterator[Block]:
    spec = experiment["spec"]
    yield heading("Settings")
    same = spec.get("match") == "parameters"
    matched = " Hidden sizes were chosen so that all have nearly as many parameters as the first." if same else ""
    yield paragraph(ref("settings"), " lists the settings of all runs, ", ref("models"), " what was trained.", matched)
    rows = [list(row) for row in wording.settings(results, experiment, manifests)]
    yield table("settings", "Settings of all runs.", ["setting", "value"], rows, words=[0, 1])
    yield from _models(experiment, manifests)


def _models(experiment: Block, manifests: list[Block]) -> Iterator[Block]:
    head, *rows = wording.models(experiment, manifests)
    wide = len(rows) > 8 or any(len("".join(row[:1] + row[4:])) > 70 for row in rows)
    caption = "The models: hidden size H, layers, parameters, and what else sets them apart."
    yield from parted(table("models", caption, head, rows, wide=wide, words=[0, 4, 5]))


def _papers(experiment: Block) -> list[str]:
    """Where the cells come from, as far as they say so."""
    by_cell: dict[str, list[str]] = {}
    for name, entry in experiment.get("equations", {}).items():
        if entry["reference"]:
            by_cell.setdefault(entry["reference"], []).append(wording.cell(experiment["models"][name]["cell"]))
    return [f"{listed(list(dict.fromkeys(cells)))}: {reference}" for reference, cells in by_cell.items()]
