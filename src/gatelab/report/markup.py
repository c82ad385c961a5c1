"""What every page is made with: the style, templates with gaps, tables of text."""

from __future__ import annotations

import html
from pathlib import Path


def filled(template: Path, gaps: dict[str, str]) -> str:
    """A template with each {{GAP}} replaced, and the style that all pages share."""
    text = template.read_text(encoding="utf-8")
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8").rstrip()
    for gap, content in {"STYLE": style, **gaps}.items():
        text = text.replace(f"{{{{{gap}}}}}", content)
    return text


def table(rows: list[list[str]]) -> str:
    """A table of texts whose first row are titles; nothing for no rows."""
    if not rows:
        return ""
    head, *lines = ([html.escape(text) for text in row] for row in rows)
    title = "".join(f"<th>{text}</th>" for text in head)
    body = "".join(f"<tr><th>{row[0]}</th>{''.join(f'<td>{text}</td>' for text in row[1:])}</tr>" for row in lines)
    return f"<table><thead><tr>{title}</tr></thead><tbody>{body}</tbody></table>"
