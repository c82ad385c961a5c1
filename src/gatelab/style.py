"""The house style of figures: one set of colours that everybody can tell apart, light and dark, one way to save."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatelab.disk import whole_file
from gatelab.errors import GatelabError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe & Ito's colours, which people with any kind of colour vision can tell apart; the yellow is too light for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK, FAINT, PAPER = "#1f2328", "#8c959f", "#ffffff"
# What takes their place on dark pages: ink and paper, and the colours that would be hard to see there.
DARK = {
    INK: "#e6edf3", FAINT: "#8b949e", PAPER: "#0d1117", "#000000": "#ffffff",
    "#0072b2": "#4ba3dc", "#d55e00": "#f08a4b", "#009e73": "#2fc49a",
}  # fmt: skip
ON_PICTURE = "on picture"  # the gid of text on a coloured ground, which is the same in the dark
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
    "figure.autolayout": False,  # a figure says itself how it is laid out
    "figure.constrained_layout.use": False,
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
    """The style of all figures that are drawn inside."""
    import matplotlib
    from cycler import cycler

    with matplotlib.rc_context({**SETTINGS, "axes.prop_cycle": cycler(color=COLOURS)}):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches, independent of any window or global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def checked_format(path: Path) -> str:
    """The format that a picture's name stands for; an error if there is none."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise GatelabError(
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


def for_page(figure: Figure, path: Path) -> tuple[bytes, bytes]:
    """A figure that was saved there as PNG, for light and for dark pages. It stays dark."""
    return path.read_bytes(), dark_png(figure)


def dark_png(figure: Figure) -> bytes:
    """The figure as PNG for dark pages, after it was saved: its layout is that of the saved one, and it stays dark."""
    _darken(figure)
    content = io.BytesIO()
    with house():
        figure.set_layout_engine()  # none at all: with "none", which stands for the one there was, it is drawn twice
        figure.savefig(content, format="png", metadata=None, facecolor=figure.get_facecolor())
    return content.getvalue()


def _darken(figure: Figure) -> None:
    """Ink, paper and rims change places; colours stay, a little lighter where they are lines or text."""
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.colors import to_hex, to_rgba
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text

    def dark(colour: Any) -> Any:
        try:
            return DARK.get(to_hex(colour), colour) if to_rgba(colour)[3] else colour
        except (TypeError, ValueError):  # "none", or several at once
            return colour

    for part in figure.findobj():
        if isinstance(part, Text) and part.get_gid() != ON_PICTURE:
            part.set_color(dark(part.get_color()))
            for effect in part.get_path_effects():
                rim = getattr(effect, "_gc", {})
                if "foreground" in rim:
                    rim["foreground"] = dark(rim["foreground"])
        elif isinstance(part, Line2D):
            part.set_color(dark(part.get_color()))
            part.set_markeredgecolor(dark(part.get_markeredgecolor()))
            part.set_markerfacecolor(dark(part.get_markerfacecolor()))
        elif isinstance(part, Patch):
            part.set_facecolor(dark(part.get_facecolor()))
            part.set_edgecolor(dark(part.get_edgecolor()))
        elif isinstance(part, Collection) and len(part.get_edgecolor()) == 1:
            part.set_edgecolor(dark(part.get_edgecolor()[0]))
        elif isinstance(part, Axes):
            part.set_facecolor(dark(part.get_facecolor()))
            part.tick_params(which="both", color=DARK[FAINT], labelcolor=DARK[INK])
    figure.set_facecolor(DARK[PAPER])


def _take_names_as_they_are(figure: Figure) -> None:
    """Names that users give may hold dollars and are no formulas; ticks of logarithmic axes are."""
    from matplotlib.text import Text

    for axes in figure.axes:
        axes.get_xticklabels(), axes.get_yticklabels()  # puts the names there
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if "$" in text.get_text() and not TICK.fullmatch(text.get_text()):
            text.set_parse_math(False)
