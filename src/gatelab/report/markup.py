"""What every page is made with: the style, templates with gaps, tables of text."""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path


def filled(template: Path, gaps: dict[str, str]) -> str:
    """A template with each {{GAP}} replaced, and the style that all pages share."""
    text = template.read_text(encoding="utf-8")
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8").rstrip()
    filling = {"STYLE": style, **gaps}
    # All at once: what is put in is not looked through for gaps.
    return re.sub(r"\{\{([A-Z]+)\}\}", lambda gap: filling[gap[1]], text)


def breakable(text: str) -> str:
    """A text, escaped; names without spaces may be broken after their commas."""
    return html.escape(text).replace(",", ",<wbr>")


def table(rows: list[list[str]]) -> str:
    """A table of texts whose first row are titles; nothing for no rows."""
    if not rows:
        return ""
    head, *lines = ([breakable(text) for text in row] for row in rows)
    title = "".join(f"<th>{text}</th>" for text in head)
    body = "".join(f"<tr><th>{row[0]}</th>{''.join(f'<td>{text}</td>' for text in row[1:])}</tr>" for row in lines)
    return f"<table><thead><tr>{title}</tr></thead><tbody>{body}</tbody></table>"


def picture(png: bytes, shown: str) -> str:
    """A figure with the picture inside the page; narrow ones stay narrow on a phone."""
    width = int.from_bytes(png[16:20], "big")  # where every PNG has it
    small = ' class="small"' if width < 1000 else ""
    data = base64.b64encode(png).decode()
    return (
        f'<figure class="picture"><img{small} alt="{html.escape(shown)}" src="data:image/png;base64,{data}"></figure>'
    )
