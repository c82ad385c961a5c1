"""Pages of sections: words, tables and pictures under headings, with the pictures inside the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gatelab import style
from gatelab.report.markup import filled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class PageSection:
    """A heading with sentences, pictures and a table under it."""

    title: str
    sentences: list[str]
    pictures: dict[str, str]  # file name → what it shows
    table: list[list[str]] = field(default_factory=list)  # the first row has the titles
    note: str = ""
    study: str = ""  # the folder beside this page that has more
    code: str = ""  # lines to copy


def page(
    title: str,
    facts: str,
    sections: list[PageSection],
    figures: dict[str, Figure],
    folder: Path,
    explorers: Sequence[tuple[str, str]] = (),
) -> str:
    """The whole page. Each figure is in it twice: as it was saved in the folder, and for dark pages. `explorers`
    are names and links of some.
    """
    files = [file for section in sections for file in section.pictures]
    pictures = {file: style.for_page(figures[file], folder / file) for file in files}
    return filled("sections.html", title=title, facts=facts, sections=sections, pictures=pictures, explorers=explorers)
