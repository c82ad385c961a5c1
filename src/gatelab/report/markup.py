"""The pages of reports: their templates lie beside this file, and escape whatever is put into them."""

from __future__ import annotations

import base64
from typing import Any

from markupsafe import Markup, escape

from gatelab.report.escaping import address
from gatelab.templating import environment


def filled(template: str, **content: Any) -> str:
    """A page: the template of this name with its content."""
    return _environment.get_template(template).render(content)


def _breakable(text: str) -> Markup:
    """Names without spaces may be broken after their commas."""
    return escape(text).replace(",", Markup(",<wbr>"))


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _width(png: bytes) -> int:
    return int.from_bytes(png[16:20], "big")  # where every PNG has it


_environment = environment("gatelab.report")
_environment.filters |= {"address": address, "base64": _base64, "breakable": _breakable, "width": _width}
