"""Pages of sections: words, tables and pictures under headings, with the pictures inside the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gatelab.report.markup import filled


@dataclass(frozen=True)
class Section:
    """A heading with what was seen under it."""

    title: str
    sentences: list[str]
    pictures: dict[str, str]  # file name → what it shows
    table: list[list[str]] = field(default_factory=list)  # the first row has the titles
    note: str = ""
    study: str = ""  # the folder beside this page that has more


def page(title: str, facts: str, sections: list[Section], folder: Path) -> str:
    """The whole page; the pictures are read from the folder they were saved in."""
    pictures = {file: (folder / file).read_bytes() for section in sections for file in section.pictures}
    return filled("sections.html", title=title, facts=facts, sections=sections, pictures=pictures)
