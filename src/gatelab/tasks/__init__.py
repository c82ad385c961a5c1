"""Sequence data sets: real, synthetic and the user's own. A task provides tensors and their meaning.

task = tasks.get("mnist", order="pixels")
x, y, lengths = task.train.batch(torch.arange(32))
"""

import os
from typing import Any

from gatelab import user_code
from gatelab.errors import GatelabError, unknown
from gatelab.tasks.adding import Adding
from gatelab.tasks.agreement import Agreement
from gatelab.tasks.baseline import Baseline
from gatelab.tasks.copy import Copy
from gatelab.tasks.examples import Batch, Examples, Parts, TokenIndices
from gatelab.tasks.images import Cifar10, Digits, FashionMnist, Mnist
from gatelab.tasks.mnist1d import Mnist1D
from gatelab.tasks.own import code
from gatelab.tasks.own.arrays import Arrays, from_arrays
from gatelab.tasks.own.files import Files
from gatelab.tasks.preparation import Preparation
from gatelab.tasks.recall import Recall
from gatelab.tasks.recorded import Recorded
from gatelab.tasks.sine import Sine
from gatelab.tasks.task import Description, Task, summary
from gatelab.tasks.text import Text

_LIBRARY: dict[str, type[Task]] = {
    task.name: task
    for task in (Digits, Mnist, FashionMnist, Cifar10, Mnist1D, Sine, Adding, Copy, Recall, Agreement, Files, Text)
}

__all__ = [
    "Baseline",
    "Batch",
    "Description",
    "Examples",
    "Parts",
    "Task",
    "TokenIndices",
    "find",
    "from_arrays",
    "get",
    "names",
    "summary",
]


def names() -> list[str]:
    """The names of all tasks."""
    return list(_LIBRARY)


def find(name: str) -> type[Task]:
    """The class of the task with this name; `FILE.py:NAME` executes FILE.py and takes its class NAME."""
    if (source := user_code.parse(name)) is not None:
        return code.find(source)
    if name == Arrays.name:  # not listed: it has no meaning without its arrays
        return Arrays
    if name not in _LIBRARY:
        if os.path.lexists(name[:1000]):
            plain = f", or text:path={name} for plain text" if name.lower().endswith((".txt", ".md")) else ""
            raise GatelabError(f"{name} is a file or folder: to use it as a task, write files:path={name}{plain}")
        raise unknown("task", name, _LIBRARY)
    return _LIBRARY[name]


def get(name: str, **options: Any) -> Task:
    """The task with these options. Options may be part of the name, as in `mnist:order=pixels,limit=1000`."""
    name, parsed = parse(name)
    if name == Arrays.name:
        raise GatelabError("arrays in memory have no name: pass them in Python, as tasks.from_arrays(X, y)")
    if repeated := sorted(parsed.keys() & options.keys()):
        raise GatelabError(f"the option {repeated[0]!r} of the task {name!r} is given twice: leave one out")
    return find(name).make({**parsed, **options})


def reopen(name: str, options: dict[str, Any], preparation: Preparation) -> Task:
    """The task of a run from its record. No file is executed."""
    is_code = name.rpartition(":")[0].endswith(".py")
    task = Recorded.named(name, options) if is_code else find(name).make(options)
    return task.reopened(preparation)


def parse(text: str) -> tuple[str, dict[str, str]]:
    """Split `NAME:OPTION=VALUE,…` into the name and the options; NAME may be FILE.py:NAME."""
    file, is_file, after = text.partition(".py:")
    name, _, rest = (after if is_file else text).partition(":")
    name = f"{file}.py:{name}" if is_file else name
    options: dict[str, str] = {}
    for piece in filter(None, rest.split(",")):
        option, equals, value = (token.strip() for token in piece.partition("="))
        if not equals:
            hint = "; to name a file, write files:path=FILE" if name.strip() == "files" else ""
            raise GatelabError(f"{text!r} cannot be parsed at {piece!r}: expected NAME:OPTION=VALUE,OPTION=VALUE{hint}")
        if option in options:
            raise GatelabError(f"the option {option!r} is given twice in {text!r}: leave one out")
        options[option] = value
    return name.strip(), options
