"""The page as one file: the networks, the data, the style and the script are inside it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from gatelab.disk import write_text
from gatelab.explorer.gather import open_runs, run_data, task_data
from gatelab.export.javascript import script
from gatelab.templating import environment

# The page's own script, one concept a file, in the order in which they are joined.
PARTS = (
    "elements.js", "colours.js", "situation.js", "hash.js", "networks.js", "time.js", "strips.js", "maps.js",
    "selection.js", "equations.js", "output.js", "answer.js", "clamps.js", "memory.js", "examples.js", "image.js",
    "tokens.js", "series.js", "numbers.js", "runs.js", "main.js",
)  # fmt: skip

_environment = environment("gatelab.explorer", "page")
_environment.policies["json.dumps_kwargs"] |= {"separators": (",", ":")}  # a page carries many numbers


def explorer(paths: list[Path], accept_changes: bool = False) -> str:
    """The page of one run, or of two side by side."""
    subjects, networks = open_runs(paths, accept_changes)
    runs = [run_data(subject, exported) for subject, exported in zip(subjects, networks, strict=True)]
    task = task_data(subjects[0])
    cells = " and ".join(dict.fromkeys(run["cell"] for run in runs))
    return filled(
        "explorer.html",
        title=f"{cells} on {task['name']}",
        task=task,
        runs=[
            # Printed from the cell's graph, and escaped there.
            {**run, "equations": Markup(subject.cell.mathml())}
            for run, subject in zip(runs, subjects, strict=True)
        ],
        data={"task": task, "runs": runs},
        networks=[Markup(script(exported)) for exported in networks],
        source=Markup("\n".join(part(name) for name in PARTS)),
    )


def write_explorer(paths: list[Path], out: Path, accept_changes: bool = False) -> Path:
    """Write the page. Returns its path."""
    write_text(out, explorer(paths, accept_changes))
    return out


def filled(template: str, **content: object) -> str:
    """A template of this room with its content, which it escapes."""
    return _environment.get_template(template).render(content)


def part(name: str) -> str:
    """One file of the page's script."""
    return (files("gatelab.explorer") / "page" / name).read_text("utf-8")
