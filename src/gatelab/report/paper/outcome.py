"""The results section of the paper: tables and figures as far as they fit, and the findings in words."""

from __future__ import annotations

from collections.abc import Iterator

from gatelab.experiments.results import Results
from gatelab.formatting import counted
from gatelab.report import tables
from gatelab.report.figures import CURVES_NOTE, SEEDS_NOTE
from gatelab.report.paper.blocks import Block, Text, bullets, figure, heading, paragraph, parted, ref, table
from gatelab.report.words.findings import general, in_brief, significant

MOST_CURVES = 8  # models up to which curves can be told apart
MOST_ROWS = 24  # models up to which every run has room in a figure
MOST_PAIRS = 40  # comparisons in a table
MOST_FINDINGS = 12  # sentences


def outcome(results: Results) -> Iterator[Block]:
    """All of the section."""
    yield heading("Results")
    if results.metric is None:
        yield paragraph("No run has finished: there is nothing to show.")
    else:
        yield paragraph(*_overview(results))
        yield from _summaries(results)
        yield from _figures(results)
        if 0 < len(results.comparisons) <= MOST_PAIRS:
            yield _comparisons(results)
        if has_effects(results):
            yield _effects(results)
    yield from _findings(results)


def has_effects(results: Results) -> bool:
    """Whether this is a factorial ablation with effects to show."""
    return bool(results.effects) and results.metric is not None


def _overview(results: Results) -> Text:
    """Which figures and tables there are, in the order in which they come; what is too long is elsewhere."""
    models, pairs = len(results.models), len(results.comparisons)
    text: Text = [ref("results"), " lists the test results"]
    text += [", ", ref("comparison"), " shows every run"] if models <= MOST_ROWS else []
    if models <= MOST_CURVES:
        curves = ["; ", ref("accuracies"), " and "] if results.metric == "accuracy" else ["; "]
        text += [*curves, ref("losses"), " show training." if len(curves) > 1 else " shows training."]
    else:
        text.append(". The training curves are in report.html.")
    if has_effects(results):
        text += [" ", ref("effects drawn"), " and ", ref("effects"), " show the effects."]
    if pairs > MOST_PAIRS:
        text.append(f" The {pairs:,} comparisons are in results_summary.md.")
    elif pairs:
        text += [" ", ref("pairs"), " lists the comparisons."]
    return text


def _summaries(results: Results) -> Iterator[Block]:
    keep = [place for place, name in enumerate(tables.metrics(results), 2) if name != "parameters"]
    head, *rows = [[row[place] for place in (0, 1, *keep)] for row in tables.summaries(results)]
    caption = "Test results: mean ± standard deviation over the seeds that finished."
    yield from parted(table("results", caption, head, rows, wide=True))


def _comparisons(results: Results) -> Block:
    _, *rows = tables.comparisons(results)
    caption = (
        f"Comparisons, the better model first: difference in {tables.unit(results.metric or '')}, simultaneous 95 % "
        "confidence interval, Bonferroni-adjusted p (* significant at 5 %), and probability of superiority (PS)."
    )
    wide = max(len(row[0] + row[1]) for row in rows) > 36
    head = ["better", "worse", "difference", "95 % CI", "p", "PS"]
    return table("pairs", caption, head, rows, wide=wide, words=[0, 1])


def _figures(results: Results) -> Iterator[Block]:
    models = len(results.models)
    if models <= MOST_ROWS:
        yield figure("comparison", "comparison.pdf", f"Test results of every run. {_sentence(SEEDS_NOTE)}")
    if models <= MOST_CURVES:
        if results.metric == "accuracy":
            yield figure("accuracies", "accuracies.pdf", f"Validation accuracy by epoch. {_sentence(CURVES_NOTE)}")
        caption = f"Training and validation loss by epoch. {_sentence(CURVES_NOTE)}"
        yield figure("losses", "losses.pdf", caption)
    if has_effects(results):
        caption = "Effects of the factors: means over seeds, and simultaneous 95 % confidence intervals."
        yield figure("effects drawn", "effects.pdf", caption)


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}."


def _effects(results: Results) -> Block:
    head, *rows = tables.effects(results)
    caption = "Main effects and interactions of the factors, paired by seed; simultaneous 95 % confidence "
    "intervals, Bonferroni-adjusted p (* significant at 5 %)."
    return table("effects", caption, head, rows)


def _findings(results: Results) -> Iterator[Block]:
    """What concerns all numbers, and what is significant: the tables have the rest."""
    yield heading("Findings")
    sentences = [*general(results), *significant(results)]
    if results.metric is not None and len(results.models) > 1:
        sentences.append(in_brief(results))
    yield bullets(sentences[:MOST_FINDINGS])
    if len(sentences) > MOST_FINDINGS:
        yield paragraph(f"{counted(len(sentences) - MOST_FINDINGS, 'more finding')}: see results_summary.md.")
