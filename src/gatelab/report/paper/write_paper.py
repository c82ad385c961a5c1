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
from typing import TYPE_CHECKING

from gatelab import style
from gatelab.disk import whole_file
from gatelab.errors import DataError, GatelabError
from gatelab.experiments.experiment import Experiment, read_experiment
from gatelab.experiments.results import Results, manifests, read_results
from gatelab.experiments.tuning.outcome import settled
from gatelab.report import figures
from gatelab.report.paper.manuscript import manuscript
from gatelab.report.paper.outcome import MOST_CURVES, MOST_ROWS, has_effects
from gatelab.report.words.settings import shortened
from gatelab.training.manifest import Manifest

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
        raise GatelabError("to write a PDF, install typst: pip install 'gatelab[paper]'") from None
    return typst


def write_paper(directory: Path) -> Path:
    """The paper beside the results it is made of. Returns its path."""
    results, experiment = read_results(directory), settled(read_experiment(directory), directory)
    content = paper(results, experiment, manifests(experiment, directory))
    with whole_file(directory / "paper.pdf") as file:
        file.write(content)
    return directory / "paper.pdf"


def paper(results: Results, experiment: Experiment, manifests: list[Manifest]) -> bytes:
    """The PDF; `manifests` are those of the runs that can be read."""
    typst = typesetter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copy(TEMPLATE, folder / "paper.typ")
        (folder / "paper.json").write_text(json.dumps(manuscript(results, experiment, manifests)), encoding="utf-8")
        _draw(results, folder)
        return _typeset(typst, folder)


def _typeset(typst: ModuleType, folder: Path) -> bytes:
    # The layout names fonts that Typst brings along; those of the system are for letters that these lack.
    compiler = typst.Compiler(folder / "paper.typ", root=folder)
    pdf: bytes
    try:
        pdf, remarks = compiler.compile_with_warnings(format="pdf")
    except typst.TypstError as error:
        raise DataError(f"the paper cannot be set: {error}") from error
    for remark in remarks:
        warnings.warn(f"while the paper was set: {remark}", stacklevel=3)
    return pdf


def _draw(results: Results, folder: Path) -> None:
    """The figures as vector graphics, for the width of a column or of the page."""
    short = shortened(list(results.models))
    results = results.model_copy(update={"models": dict(zip(short, results.models.values(), strict=True))})
    models = [name for name, model in results.models.items() if model.curves]
    drawn: dict[str, Figure] = {}
    if has_effects(results):
        drawn["effects"] = figures.effects(results, (WIDTH, 0.7 + 0.5 * len(results.effects)), title="")
    if models and len(short) <= MOST_ROWS:
        rows = len(models) * min(0.55, (TALLEST - 0.6) / len(models))
        drawn["comparison"] = figures.comparison(results, models, (WIDTH, 0.6 + rows), title="")
    if models and len(short) <= MOST_CURVES:
        drawn["losses"] = figures.loss_curves(results, models, (WIDTH, 2.8), note="")
        if results.metric == "accuracy":
            drawn["accuracies"] = figures.accuracy_curves(results, models, (WIDTH, 2.9), title="", note="")
    for name, figure in drawn.items():
        style.save(figure, folder / f"{name}.pdf")
