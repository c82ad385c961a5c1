"""The house style of figures: one set of colours that everybody can tell apart, one way to save."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatelab.disk import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe & Ito's colours, which people with any kind of colour vision can tell apart; the yellow is too light for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK, FAINT, PAPER = "#1f2328", "#8c959f", "#ffffff"
FORMATS = ("png", "svg", "pdf")
TICK = re.compile(r"\$\\mathdefault\{[-−0-9.^{}\\a-z ]*\}\$")  # as logarithmic axes write theirs

SETTINGS: Any = {
    "figure.dpi": 110,
    "savefig.dpi": 160,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "text.usetex": False,  # names are no TeX, whatever a user's settings say
    "svg.fonttype": "none",
    "svg.hashsalt": "gatelab",  # the same picture is the same file
}


def colour(number: int) -> str:
    """The colour of the first, second, … of several things; after the last they begin again."""
    return COLOURS[number % len(COLOURS)]


def dash(number: int) -> str:
    """The kind of its line, which tells apart what has the same colour."""
    return ("solid", "dashed", "dotted")[min(2, number // len(COLOURS))]


@contextmanager
def house() -> Iterator[None]:
    """Figures that are made inside look like ours."""
    import matplotlib
    from cycler import cycler

    with matplotlib.rc_context({**SETTINGS, "axes.prop_cycle": cycler(color=COLOURS)}):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches, apart from any window or global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def checked_format(path: Path) -> str:
    """The format that a picture's name stands for; an error if there is none."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise ValueError(
            f"a picture cannot be saved as {path.name!r}: expected a name that ends in .{', .'.join(FORMATS)}"
        )
    return kind


def save(figure: Figure, path: Path) -> None:
    """Write a figure, whole or not at all; the ending of the name decides the format."""
    kind = checked_format(path)
    # No date in it, for the same reason.
    metadata = {"png": None, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    _take_names_as_they_are(figure)
    with house(), whole_file(path) as file:
        figure.savefig(file, format=kind, metadata=metadata)


def _take_names_as_they_are(figure: Figure) -> None:
    """Names that users give may hold dollars and are no formulas; ticks of logarithmic axes are."""
    from matplotlib.text import Text

    for axes in figure.axes:
        axes.get_xticklabels(), axes.get_yticklabels()  # puts the names there
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if "$" in text.get_text() and not TICK.fullmatch(text.get_text()):
            text.set_parse_math(False)
