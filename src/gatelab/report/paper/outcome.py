"""What came out, as a paper shows it: tables and figures as far as they fit, and the findings in words."""

from __future__ import annotations

from collections.abc import Iterator

from gatelab.report import tables
from gatelab.report.paper.blocks import Block, Text, bullets, heading, paragraph, parted, ref, table
from gatelab.report.wording import counted
from gatelab.training.objective import SHARES

DRAWN = 8  # models up to which curves can be told apart
COMPARED = 24  # models up to which every run has room in a figure
PAIRS = 40  # of models, in a table
SAID = 12  # findings in words


def outcome(results: Block) -> Iterator[Block]:
    yield heading("Results")
    if results["metric"] is None:
        yield paragraph("No run has finished: there is nothing to show.")
    else:
        yield paragraph(ref("results"), " has the numbers", *_where_else(results))
        yield from _numbers(results)
        yield from _figures(results)
        if 0 < len(results["comparisons"]) <= PAIRS:
            yield _pairs(results)
        if has_effects(results):
            yield _effects(results)
    yield from _findings(results)


def has_effects(results: Block) -> bool:
    """Whether this is a factorial ablation of which something can be shown."""
    return bool(results.get("effects")) and results["metric"] is not None


def _numbers(results: Block) -> Iterator[Block]:
    names = [name for name in tables.columns(results) if name != "parameters"]
    rows = []
    for model, entry in results["models"].items():
        cells = [tables.cell(n, entry["statistics"][n]) if n in entry["statistics"] else "–" for n in names]
        rows.append([model, f"{entry['counts'].get('done', 0)} of {len(entry['runs'])}", *cells])
    caption = "Test results: mean ± standard deviation over the seeds that finished."
    head = ["model", "runs", *(tables.TITLES[name] for name in names)]
    yield from parted(table("results", caption, head, rows, wide=True))


def _where_else(results: Block) -> Text:
    """Which figures and tables there are; what would be too long is where it can be looked up."""
    models, pairs = len(results["models"]), len(results["comparisons"])
    said: Text = [", ", ref("comparison"), " every run"] if models <= COMPARED else []
    if models <= DRAWN:
        more = [", ", ref("accuracies"), " and "] if results["metric"] == "accuracy" else [", "]
        said += [*more, ref("losses"), " how they learned."]
    else:
        said.append(". The curves are in report.html.")
    if has_effects(results):
        said += [" ", ref("effects drawn"), " and ", ref("effects"), " have the effects."]
    if pairs > PAIRS:
        said.append(f" The {pairs:,} pairs are in results_summary.md.")
    elif pairs:
        said += [" ", ref("pairs"), " compares pair by pair."]
    return said


def _pairs(results: Block) -> Block:
    rows = tables.compared(results)[1:]
    unit = "points" if results["metric"] in SHARES else tables.TITLES[results["metric"]]
    caption = (
        f"Pairs of models, the better one first: their difference in {unit}, its 95 % interval paired by seed, p after "
        "Holm’s correction, and the share of pairs of runs in which the first is better."
    )
    wide = max(len(row[0] + row[1]) for row in rows) > 36
    head = ["better", "worse", "difference", "95 % interval", "p", "share"]
    return table("pairs", caption, head, rows, wide=wide, words=[0, 1])


def _figures(results: Block) -> Iterator[Block]:
    band = "Lines are means over the seeds, bands go from the smallest to the largest."
    shown = [("comparison", "Every run on the test set: dots are seeds, diamonds means, bars 95 % intervals.", False)]
    if results["metric"] == "accuracy":
        shown.append(("accuracies", f"Validation accuracy over the epochs. {band}", False))
    early = "A run that stopped early is in up to its end."
    shown.append(("losses", f"Loss over the epochs, in training and in validation. {band} {early}", True))
    if has_effects(results):
        caption = "Effects of the factors: diamonds are means over the seeds, bars 95 % intervals."
        yield {"kind": "figure", "label": "effects drawn", "file": "effects.pdf", "caption": caption, "wide": False}
    models = len(results["models"])
    for name, caption, wide in shown if models <= DRAWN else shown[:1] if models <= COMPARED else []:
        yield {"kind": "figure", "label": name, "file": f"{name}.pdf", "caption": caption, "wide": wide}


def _effects(results: Block) -> Block:
    head, *rows = tables.effects(results)
    return table("effects", "Main effects and interactions of the factors, seed by seed.", head, rows)


def _findings(results: Block) -> Iterator[Block]:
    yield heading("Findings")
    said = results["sentences"]
    yield bullets(said[:SAID])
    if len(said) > SAID:
        yield paragraph(f"{counted(len(said) - SAID, 'more finding')}: in words in results_summary.md.")
