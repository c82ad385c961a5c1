"""The report as one page that opens offline: the data is inside it, and so is the script that draws it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gatelab import style
from gatelab.report import caution, wording
from gatelab.report.markup import filled
from gatelab.report.tables import TITLES, arms, cell, columns, compared, effects, interval
from gatelab.training.objective import SHARES

INTERVALS = (
    "Intervals are each of one comparison by itself; p is corrected for all of them (Holm), and it is p that decides "
    "what is called."
)


def page(
    results: dict[str, Any],
    experiment: dict[str, Any],
    manifests: list[dict[str, Any]],
    title: str,
    effects_picture: bytes | None = None,
) -> str:
    """The whole page; `manifests` are those of the runs that there are."""
    return filled(
        "page.html",
        title=title,
        command=experiment["command"],
        findings=results["sentences"],
        metrics=[TITLES[name] for name in columns(results)],
        numbers=_numbers(results),
        arms=arms(results, experiment),
        comparisons=compared(results),
        effects=effects(results),
        effects_picture=effects_picture,
        intervals=INTERVALS if any(c["p"] is not None for c in results["comparisons"]) else "",
        limitations=caution.limitations(results, experiment),
        models=wording.models(experiment, manifests),
        settings=[("setting", "value"), *wording.settings(results, experiment, manifests)],
        equations=_equations(experiment),
        config=yaml.safe_dump(_without_folders(experiment["spec"]), sort_keys=False),
        data=_data(results),
    )


def _data(results: dict[str, Any]) -> dict[str, Any]:
    """What the page's script draws."""
    models = {
        name: {
            "colour": style.colour(i),
            "dash": style.dash(i),
            "curves": entry["curves"],
            "test": entry["statistics"].get(results["metric"]),
            "seeds": [run["seed"] for run in entry["runs"] if run["status"] == "done"],
            "confusion": entry["confusion"],
        }
        for i, (name, entry) in enumerate(results["models"].items())
    }
    return {
        "models": models, "metric": results["metric"], "classes": results["classes"], "titles": TITLES,
        "shares": list(SHARES),
    }  # fmt: skip


def _equations(experiment: dict[str, Any]) -> str:
    """Every set of equations once, with the models that have it."""
    users: dict[str, list[str]] = {}
    for name, known in experiment.get("equations", {}).items():
        users.setdefault(known["text"], []).append(name)
    return "\n\n".join(f"{', '.join(names)}\n{text}" for text, names in users.items())


def _without_folders(value: Any) -> Any:
    """Files by their names alone: where they lie on one machine is of no use on another, and nobody's business."""
    if isinstance(value, dict):
        return {name: _without_folders(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_folders(inner) for inner in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def _numbers(results: dict[str, Any]) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Each model with its runs, and its numbers each with their interval in words."""
    rows = []
    for model, entry in results["models"].items():
        done = f"{entry['counts'].get('done', 0)} of {len(entry['runs'])}"
        rows.append((model, done, [_number(name, entry["statistics"].get(name)) for name in columns(results)]))
    return rows


def _number(metric: str, summary: dict[str, Any] | None) -> tuple[str, str]:
    if summary is None:
        return "–", ""
    known = summary["low"] is not None and metric != "parameters"
    return cell(metric, summary), interval(metric, summary) if known else ""
