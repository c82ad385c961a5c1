"""The report as one page that opens offline: data and script are inside it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from gatelab import style
from gatelab.experiments.experiment import Experiment
from gatelab.experiments.results import ModelResult, Results
from gatelab.formatting import PERCENT, TITLES
from gatelab.report import tables
from gatelab.report.markup import filled
from gatelab.report.search import chosen_settings, columns_note
from gatelab.report.words import settings
from gatelab.report.words.findings import family_sentence, findings
from gatelab.report.words.limitations import limitations
from gatelab.report.words.search import search_findings
from gatelab.training.manifest import Manifest

PICTURES = ("effects.png", "expected_best.png", "search.png")  # figures that the page holds; the others it draws


def page(
    results: Results,
    experiment: Experiment,
    manifests: list[Manifest],
    title: str,
    pictures: dict[str, tuple[bytes, bytes]] | None = None,
    explorers: list[tuple[str, str]] | None = None,
) -> str:
    """The whole page; `manifests` are those of the runs that can be read, `explorers` names and links of some."""
    return filled(
        "page.html",
        title=title,
        command=experiment.command,
        findings=findings(results),
        metrics=[TITLES[name] for name in tables.metrics(results)],
        numbers=_numbers(results),
        arms=tables.arms(results, experiment),
        comparisons=tables.comparisons(results),
        effects=tables.effects(results),
        pictures=pictures or {},
        explorers=explorers or [],
        search=chosen_settings(results.search) if results.search else [],
        search_findings=search_findings(results.search) if results.search else [],
        search_note=columns_note(results.search) if results.search else "",
        family=f"{family_sentence(results)} * significant at 5 %." if results.family.tests else "",
        limitations=limitations(results, experiment),
        models=settings.models(experiment, manifests),
        settings=[("setting", "value"), *settings.settings(results, experiment, manifests)],
        equations=_equations(experiment),
        config=yaml.safe_dump(_without_folders(experiment.spec.document()), sort_keys=False),
        data=_data(results),
    )


def _data(results: Results) -> dict[str, Any]:
    """What the page's script draws."""
    models = {
        name: {
            "colour": style.colour(i),
            "dash": style.dash(i),
            "curves": {metric: _curve(model, metric) for metric in model.curves},
            "test": asdict(results.means[name]) if name in results.means else None,
            "seeds": [run.seed for run in model.done],
            "confusion": model.confusion,
        }
        for i, (name, model) in enumerate(results.models.items())
    }
    return {
        "models": models, "metric": results.metric, "classes": results.classes, "titles": TITLES,
        "percent": list(PERCENT),
    }  # fmt: skip


def _curve(model: ModelResult, metric: str) -> dict[str, Any]:
    return {"seeds": model.curves[metric], "mean": model.mean_curve(metric)}


def _equations(experiment: Experiment) -> str:
    """Every set of equations once, with the models that have it."""
    users: dict[str, list[str]] = {}
    for name, known in experiment.equations.items():
        users.setdefault(known.text, []).append(name)
    return "\n\n".join(f"{', '.join(names)}\n{text}" for text, names in users.items())


def _without_folders(value: Any) -> Any:
    """Files by their names alone: where they lie on one machine is of no use on another, and nobody's business."""
    if isinstance(value, dict):
        return {name: _without_folders(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_folders(inner) for inner in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def _numbers(results: Results) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Each model with its runs, and its numbers, each with its confidence interval."""
    names = tables.metrics(results)
    return [(n, tables.finished(m), [_number(m, metric) for metric in names]) for n, m in results.models.items()]


def _number(model: ModelResult, metric: str) -> tuple[str, str]:
    summary = model.summaries.get(metric)
    return tables.cell(model, metric), tables.interval(metric, summary) if summary else ""
