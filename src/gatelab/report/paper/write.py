"""From a manuscript to a PDF, by Typst.

Words reach the layout as data (JSON) and never as source, so no name of a model, a file or an error can be taken for
markup: there is nothing to escape.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gatelab import sealed, style
from gatelab.disk import whole_file
from gatelab.errors import DataError
from gatelab.experiments.record import RESULTS, read_experiment
from gatelab.experiments.results import manifests
from gatelab.report import figures
from gatelab.report.paper.manuscript import manuscript
from gatelab.report.paper.outcome import COMPARED, DRAWN, has_effects
from gatelab.report.wording import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPLATE = Path(__file__).with_name("paper.typ")
WIDTH = 4.5  # inches of a figure that is set 3.3 wide: its text of 9 points comes out at 6.6
TALLEST = 7.8


def typesetter() -> ModuleType:
    """Typst, or an error that says how to get it."""
    try:
        import typst
    except ImportError:
        raise ValueError("to write a PDF, install typst: pip install 'gatelab[paper]'") from None
    return typst


def write_paper(directory: Path) -> Path:
    """The paper beside the results it is made of. Returns its path."""
    results, experiment = sealed.read_json(directory / RESULTS), read_experiment(directory)
    made = paper(results, experiment, manifests(experiment, directory))
    with whole_file(directory / "paper.pdf") as file:
        file.write(made)
    return directory / "paper.pdf"


def paper(results: dict[str, Any], experiment: dict[str, Any], manifests: list[dict[str, Any]]) -> bytes:
    """The PDF; `manifests` are those of the runs that there are."""
    typst = typesetter()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copy(TEMPLATE, folder / "paper.typ")
        (folder / "paper.json").write_text(json.dumps(manuscript(results, experiment, manifests)), encoding="utf-8")
        _draw(results, folder)
        return _typeset(typst, folder)


def _typeset(typst: ModuleType, folder: Path) -> bytes:
    # The layout names fonts that Typst brings along; those of the system are for letters that these lack.
    compiler = typst.Compiler(folder / "paper.typ", root=folder)
    made: bytes
    try:
        made, remarks = compiler.compile_with_warnings(format="pdf")
    except typst.TypstError as error:
        raise DataError(f"the paper cannot be set: {error}") from error
    for remark in remarks:
        warnings.warn(f"while the paper was set: {remark}", stacklevel=3)
    return made


def _draw(results: dict[str, Any], folder: Path) -> None:
    """The figures as drawings instead of pixels, for the width of a column or of the page."""
    short = shortened(list(results["models"]))
    results = {**results, "models": dict(zip(short, results["models"].values(), strict=True))}
    models = [name for name, entry in results["models"].items() if entry["curves"]]
    if has_effects(results):
        figure = figures.effects(results)
        _resize(figure, WIDTH, 0.7 + 0.45 * len(results["effects"]))
        style.save(figure, folder / "effects.pdf")
    if not models or len(short) > COMPARED:
        return
    rows = len(models) * min(0.55, (TALLEST - 0.6) / len(models))
    drawn = {"comparison": (figures.comparison(results, models), WIDTH, 0.6 + rows)}
    if len(short) <= DRAWN:
        drawn["losses"] = (figures.loss_curves(results, models), 2 * WIDTH, 3.2)
        if results["metric"] == "accuracy":
            curves = figures.curves(results, models, "validation_accuracy", "")
            drawn["accuracies"] = (curves, WIDTH, 3.2)
    for name, (figure, width, height) in drawn.items():
        _resize(figure, width, height)
        style.save(figure, folder / f"{name}.pdf")


def _resize(figure: Figure, width: float, height: float) -> None:
    """A figure of another size, without what its caption says anyway."""
    figure.set_size_inches(width, height)
    figure.supxlabel("")
    if len(figure.axes) == 1:
        figure.axes[0].set_title("", loc="left")
