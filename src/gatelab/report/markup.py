"""The environment of all pages: their templates lie beside this file, and escape whatever is put into them."""

from __future__ import annotations

import base64
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from gatelab.report.escaping import address


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


_environment = Environment(
    loader=PackageLoader("gatelab.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_environment.filters |= {"address": address, "base64": _base64, "breakable": _breakable, "width": _width}
# Models stay in their order, and what JSON does not know is an error.
_environment.policies["json.dumps_kwargs"] = {"sort_keys": False, "allow_nan": False}
