"""Pages of sections: words, tables and pictures under headings, with the pictures inside the page."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from pathlib import Path

from gatelab.report.markup import filled, picture, table

TEMPLATE = Path(__file__).with_name("sections.html")


@dataclass(frozen=True)
class Section:
    """A heading with what was seen under it."""

    title: str
    sentences: list[str]
    pictures: dict[str, str]  # file name → what it shows
    table: list[list[str]] = field(default_factory=list)  # the first row has the titles
    note: str = ""
    link: str = ""  # where there is more


def page(title: str, facts: str, sections: list[Section], folder: Path) -> str:
    """The whole page; the pictures are read from the folder they were saved in."""
    names = [f"section-{i}" for i in range(len(sections))]
    return filled(
        TEMPLATE,
        {
            "TITLE": html.escape(title),
            "FACTS": html.escape(facts),
            "LINKS": "".join(
                f'<a href="#{name}">{html.escape(section.title)}</a>'
                for name, section in zip(names, sections, strict=True)
            ),
            "SECTIONS": "\n".join(
                _section(section, name, folder) for name, section in zip(names, sections, strict=True)
            ),
        },
    )


def _section(section: Section, name: str, folder: Path) -> str:
    parts = [f'<h2 id="{name}">{html.escape(section.title)}</h2>']
    if section.sentences:
        parts.append("<ul>" + "".join(f"<li>{html.escape(text)}</li>" for text in section.sentences) + "</ul>")
    if section.table:
        parts.append(f'<div class="wide">{table(section.table)}</div>')
    if section.link:
        parts.append(f'<p><a href="{html.escape(section.link)}">{html.escape(section.link)}</a></p>')
    for file, shown in section.pictures.items():
        parts.append(picture((folder / file).read_bytes(), shown))
    if section.note:
        parts.append(f'<p class="note">{html.escape(section.note)}</p>')
    return "\n".join(parts)
