"""What stands in the paper of a comparison, as plain data: a title, a lead, and one block after the other.

A text is a list of strings, references and maths, such as ["see ", {"ref": "results"}, " for ", {"math": "x_t"}].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gatelab.report import caution, tables, wording
from gatelab.report.wording import counted, listed
from gatelab.training.objective import SHARES

Block = dict[str, Any]

NAMED = 4  # models up to which a title names them all
SAID = 12  # findings in words, before the reader is sent to the table
ROWS = 40  # of a table as wide as the page; it cannot go on over pages
STATISTICS = (
    "The seed is the unit: a run is one number, from the test set, with the weights of its best validation epoch. "
    "Intervals of a mean or of a difference, paired by seed, are BCa bootstrap intervals at a level that makes up for "
    "few runs (Hesterberg 2015), and Student’s below five runs. Tests deal the runs of two models out in all ways "
    "(two-sided), with Holm’s correction over all pairs. A difference “can be called” if its corrected p is 0.05 or less; "
    "with fewer than three seeds nothing is tested."
)


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
            *_results(results),
            *_findings(results),
            heading("Limitations"),
            {"kind": "list", "items": [[said] for said in caution.limitations(results, experiment)]},
            *_references(experiment),
        ],
    }


def heading(text: str, numbered: bool = True) -> Block:
    return {"kind": "heading", "text": text, "numbered": numbered}


def table(label: str, caption: str, head: list[str], rows: list[list[str]], **layout: Any) -> Block:
    """A table; `words` are the columns, counted from 0, that hold words instead of numbers."""
    layout = {"wide": False, "words": [0], **layout}
    return {"kind": "table", "label": label, "caption": caption, "head": head, "rows": rows, **layout}


def title(results: Block, experiment: Block) -> str:
    models, task = list(results["models"]), experiment["spec"]["task"]["name"]
    if experiment.get("command") == "ablate":
        return f"What matters on {task}: an ablation with {len(models)} arms"
    named = listed(models) if len(models) <= NAMED else f"{len(models)} models"
    return f"{named} on {task}"


def question(results: Block, experiment: Block) -> str:
    models, task = list(results["models"]), wording.task(experiment["spec"]["task"])
    metric = "test accuracy" if results["classes"] else "test error"
    runs = counted(experiment["spec"]["runs"], "seed")
    if len(models) == 1:
        return f"What {metric} does {models[0]} reach on {task}, and how much does it vary over {runs}?"
    named = listed(models) if len(models) <= NAMED else f"{len(models)} models"
    if "effects" in results or experiment.get("command") == "ablate":
        named = f"the {len(models)} arms of a factorial ablation"
    return (
        f"Do {named} differ in {metric} on {task}, when all are trained under the same settings with {runs} each, on the "
        "same division of the data and, seed by seed, in the same order?"
    )


def _method(results: Block, experiment: Block) -> Iterator[Block]:
    yield heading("Method")
    cells = experiment.get("equations", {})
    users: dict[str, list[str]] = {}
    for name, spec in experiment["models"].items():
        users.setdefault(spec["cell"], []).append(name)
    if results.get("effects") and results["metric"]:
        text = "The models are the arms of a factorial design: each factor is changed alone and with the others; "
        yield {"kind": "text", "parts": [text, {"ref": "effects"}, " has the effects. ", {"ref": "models"},
                                         " lists the arms."]}  # fmt: skip
    if cells:
        one = "The equation of the cell was" if len(cells) == 1 else "The equations of the cells were"
        yield {"kind": "text", "parts": [
            f"{one} taken from what was trained. At step ", {"math": "t"}, " the input is ", {"math": "x_t"}, "; ",
            {"math": "W"}, ", ", {"math": "U"}, " and ", {"math": "b"}, " are learned, and ⊙ is the product element by element.",
        ]}  # fmt: skip
    for cell, models in users.items():
        if cell in cells:
            used = "" if models == [cell] else f", in {listed(models)}"
            yield {"kind": "equations", "name": cells[cell]["name"], "used": used, "source": cells[cell]["typst"]}
        else:
            name = cell.rpartition(":")[2]
            yield {"kind": "text", "parts": [f"The equations of {name} were not recorded with this experiment."]}
    yield {"kind": "named", "name": "Statistics", "parts": [STATISTICS]}


def _settings(results: Block, experiment: Block, manifests: list[Block]) -> Iterator[Block]:
    spec = experiment["spec"]
    yield heading("Settings")
    text = ["All models share what ", {"ref": "settings"}, " lists; ", {"ref": "models"}, " has what each has of its own."]
    yield {"kind": "text", "parts": [*text, _matched(spec)]}
    rows = [("task", wording.task(spec["task"]))]
    rows += wording.data(experiment["task"]) if "task" in experiment else [("data", "not recorded")]
    rows += wording.training(spec["training"], bool(results["classes"]))
    rows += wording.optimisation(spec["optimization"])
    rows += [("seeds", wording.seeds(experiment)), ("starting values", wording.starts(experiment))]
    rows += wording.where(manifests)
    rows.append(("versions", ", ".join(f"{name} {version}" for name, version in experiment["versions"].items())))
    if results.get("wall_clock_seconds"):
        rows.append(("time in all", wording.duration(results["wall_clock_seconds"])))
    yield table("settings", "Settings of all runs.", ["setting", "value"], [list(row) for row in rows], words=[0, 1])
    yield from _models(results, experiment, manifests)


def _matched(spec: Block) -> str:
    same = spec.get("match") == "parameters"
    return " Hidden sizes were chosen so that all have nearly as many parameters as the first." if same else ""


def _models(results: Block, experiment: Block, manifests: list[Block]) -> Iterator[Block]:
    rows = []
    for name, spec in experiment["models"].items():
        own = wording.particulars(spec, experiment.get("numbers", {}).get(name, spec["options"]))
        size = next((m["parameters"] for m in manifests if m["spec"]["model"] == spec), None)
        cell = spec["cell"].rpartition(":")[2]
        rows.append([name, str(spec["hidden_size"]), str(spec["num_layers"]), "–" if size is None else f"{size:,}",
                     "" if cell == name else cell, own])  # fmt: skip
    wide = len(rows) > 8 or any(len(row[0]) + len(row[4]) + len(row[5]) > 44 for row in rows)
    head = ["model", "H", "layers", "parameters", "cell", "further settings"]
    kept = [i for i in range(6) if i < 4 or any(row[i] for row in rows)]
    shown = [[row[i] or "–" for i in kept] for row in rows]
    caption = "The models: hidden size H, layers, parameters, and what else sets them apart."
    yield from parted(table("models", caption, [head[i] for i in kept], shown, wide=wide, words=[0, 4, 5]))


def _results(results: Block) -> Iterator[Block]:
    yield heading("Results")
    if results["metric"] is None:
        yield {"kind": "text", "parts": ["No run has finished: there is nothing to show."]}
        return
    counts = [(entry["counts"].get("done", 0), len(entry["runs"])) for entry in results["models"].values()]
    names = [name for name in tables.columns(results) if name != "parameters"]
    rows = []
    for (model, entry), (done, all_) in zip(results["models"].items(), counts, strict=True):
        cells = [tables.cell(n, entry["statistics"][n]) if n in entry["statistics"] else "–" for n in names]
        rows.append([model, f"{done} of {all_}", *cells])
    caption = "Test results: mean ± standard deviation over the seeds that finished."
    yield {"kind": "text", "parts": [{"ref": "results"}, " has the numbers and ", {"ref": "comparison"}, " every run; ",
                                     {"ref": "losses"}, " shows how they were learned."]}  # fmt: skip
    head = ["model", "runs", *(tables.TITLES[name] for name in names)]
    yield from parted(table("results", caption, head, rows, wide=True))
    yield from _figures(results)
    if compared := tables.compared(results)[1:]:
        unit = "points" if results["metric"] in SHARES else tables.TITLES[results["metric"]]
        caption = (
            f"Pairs of models, the better one first: their difference in {unit}, its 95 % interval paired by seed, p after "
            "Holm’s correction, and the share of pairs of runs in which the first is better."
        )
        yield table("pairs", caption, ["better, worse", "difference", "95 % interval", "p", "share"], compared)
    if effects := results.get("effects"):
        yield _effects(results["metric"], effects)


def _figures(results: Block) -> Iterator[Block]:
    band = "Lines are means over the seeds, bands go from the smallest to the largest."
    shown = [("comparison", "Every run on the test set: dots are seeds, diamonds means, bars 95 % intervals.", False)]
    if results["metric"] == "accuracy":
        shown.append(("accuracies", f"Validation accuracy over the epochs. {band}", False))
    shown.append(("losses", f"Loss over the epochs, in training and in validation. {band} A run that stopped early is in "
                  "up to its end.", True))  # fmt: skip
    for name, caption, wide in shown:
        yield {"kind": "figure", "label": name, "file": f"{name}.pdf", "caption": caption, "wide": wide}


def _effects(metric: str, effects: list[Block]) -> Block:
    factor, unit = (100, "points") if metric in SHARES else (1, tables.TITLES[metric])
    rows = []
    for effect in effects:
        difference, low, high = (
            None if effect[key] is None else f"{factor * effect[key]:+.3g}" for key in ("difference", "low", "high")
        )
        between = "–" if low is None or high is None else f"{low} to {high}"
        rows.append([effect["name"], difference or "–", between, str(effect["n"])])
    head = ["effect", f"difference, {unit}", "95 % interval", "n"]
    return table("effects", "Main effects and interactions of the factors.", head, rows)


def parted(whole: Block) -> Iterator[Block]:
    """A wide table in parts that fit on a page."""
    rows = whole["rows"]
    yield {**whole, "rows": rows[:ROWS]} if whole["wide"] else whole
    for start in range(ROWS, len(rows), ROWS) if whole["wide"] else ():
        yield {**whole, "label": f"{whole['label']}-{start}", "rows": rows[start : start + ROWS],
               "caption": f"{whole['caption']} (Continued.)"}  # fmt: skip


def _findings(results: Block) -> Iterator[Block]:
    yield heading("Findings")
    said = results["sentences"]
    yield {"kind": "list", "items": [[sentence] for sentence in said[:SAID]]}
    if len(said) > SAID:
        rest = counted(len(said) - SAID, "more finding")
        yield {"kind": "text", "parts": [f"There are {rest}, in words in results_summary.md."]}


def _references(experiment: Block) -> Iterator[Block]:
    cells = experiment.get("equations", {}).values()
    known = [f"{cell['name']}: {cell['reference']}" for cell in cells if cell["reference"]]
    yield heading("References", numbered=False)
    yield {"kind": "list", "items": [[text] for text in [
        *known,
        "S. Holm. A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics, 1979.",
        "T. Hesterberg. What teachers should know about the bootstrap. The American Statistician, 2015.",
    ]]}  # fmt: skip
