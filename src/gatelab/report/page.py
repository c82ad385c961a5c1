"""The report as one page that opens offline: the data is inside it, and so is the script that draws it."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import yaml

from gatelab import style
from gatelab.report import caution, wording
from gatelab.report.markup import breakable, filled, picture, table
from gatelab.report.tables import TITLES, arms, cell, columns, compared, effects, interval
from gatelab.training.objective import SHARES

INTERVALS = (
    "Intervals are each of one comparison by itself; p is corrected for all of them (Holm), and it is p that decides "
    "what is called."
)
TEMPLATE = Path(__file__).with_name("page.html")


def page(
    results: dict[str, Any],
    experiment: dict[str, Any],
    manifests: list[dict[str, Any]],
    title: str,
    effects_picture: bytes | None = None,
) -> str:
    """The template with its gaps filled; `manifests` are those of the runs that there are."""
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
    data = {
        "models": models, "metric": results["metric"], "classes": results["classes"], "titles": TITLES,
        "shares": list(SHARES),
    }  # fmt: skip
    gaps = {
        "TITLE": html.escape(title),
        "FINDINGS": _items(results["sentences"]),
        "LIMITS": _items(caution.limitations(results, experiment)),
        "COMMAND": experiment["command"],
        "TABLE": _table(results),
        "ARMS": _items(arms(results, experiment)),
        "EFFECTS": picture(effects_picture, "Effects of the factors") if effects_picture else "",
        "COMPARISONS": table(compared(results)) + table(effects(results)),
        "INTERVALS": INTERVALS if any(c["p"] is not None for c in results["comparisons"]) else "",
        "SETTINGS": table([["setting", "value"], *map(list, wording.settings(results, experiment, manifests))]),
        "MODELS": table(wording.models(experiment, manifests)),
        "EQUATIONS": html.escape(_equations(experiment)),
        "CONFIG": html.escape(yaml.safe_dump(_without_folders(experiment["spec"]), sort_keys=False)),
        # No "<" inside, so that no name can end the script or open another.
        "DATA": json.dumps(data, allow_nan=False).replace("<", "\\u003c"),
    }
    return filled(TEMPLATE, gaps)


def _items(texts: list[str]) -> str:
    return "".join(f"<li>{html.escape(text)}</li>" for text in texts)


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


def _table(results: dict[str, Any]) -> str:
    names = columns(results)
    head = "".join(f"<th>{html.escape(TITLES[name])}</th>" for name in names)
    rows = []
    for model, entry in results["models"].items():
        cells = []
        for name in names:
            summary = entry["statistics"].get(name)
            if summary is None:
                cells.append("<td>–</td>")
                continue
            between = ""
            if summary["low"] is not None and name != "parameters":
                between = f' data-tip="{html.escape(interval(name, summary))}"'
            cells.append(f"<td{between}>{html.escape(cell(name, summary))}</td>")
        done = f"{entry['counts'].get('done', 0)} of {len(entry['runs'])}"
        rows.append(f"<tr><th>{breakable(model)}</th><td>{done}</td>{''.join(cells)}</tr>")
    return f"<table><thead><tr><th>model</th><th>runs</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
