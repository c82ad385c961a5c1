"""The environment of all pages: templates that escape whatever is put into them, and refuse what they do not know."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined


def environment(package: str, folder: str = "templates") -> Environment:
    """An environment for the templates in a folder of a package."""
    made = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # Lists stay in their order, and what JSON does not know is an error.
    made.policies["json.dumps_kwargs"] = {"sort_keys": False, "allow_nan": False}
    return made
