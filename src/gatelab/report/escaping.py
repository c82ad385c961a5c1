"""Text that comes from files where no template escapes it: in TeX, in Markdown, in a link."""

from __future__ import annotations

import re
from urllib.parse import quote

TEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "{}$&#%_"},
        **{sign: f"{{{sign}}}" for sign in "[]*"},  # which the end of the row before would take for its own
        "\\": r"\textbackslash{}",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
    }
)
# What means something anywhere; an underscore that does not follow a letter; what begins an item of a list.
MARKDOWN = re.compile(r"[\\`*\[\]|#~$]|(?<!\w)_+|^[-+](?!\w)|^\d+[.)](?!\w)")
HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})  # not every Markdown knows \<
KEPT = "+=,"  # beside letters, digits and "_.-", in the names that experiments accept


def one_line(text: str) -> str:
    """Line breaks and what cannot be seen become spaces: rows of tables and items of lists end with their line."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def tex(text: str) -> str:
    """Text that TeX shows as it is."""
    return one_line(text).translate(TEX)


def markdown(text: str) -> str:
    """Text that is shown as it is; ordinary names and sentences stay the same."""
    signs = MARKDOWN.sub(lambda match: re.sub(r"(\W|_)", r"\\\1", match[0]), one_line(text))
    return signs.translate(HTML)


def address(name: str) -> str:
    """The name of a folder beside a page as a link has it: it can be neither another place nor a script."""
    return quote(name, safe=KEPT, errors="replace")
