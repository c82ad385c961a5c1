"""Sequence data sets: real, synthetic and the user's own. A task provides tensors and their meaning.

task = tasks.get("mnist", order="pixels")
x, y, lengths = task.train.batch(torch.arange(32))
"""

from pathlib import Path
from typing import Any

from gatelab.errors import GatelabError, unknown
from gatelab.tasks.adding import Adding
from gatelab.tasks.agreement import Agreement
from gatelab.tasks.arrays import Arrays, from_arrays
from gatelab.tasks.baseline import Baseline
from gatelab.tasks.copy import Copy
from gatelab.tasks.examples import Batch, Examples, Parts
from gatelab.tasks.files import Files
from gatelab.tasks.images import Cifar10, Digits, FashionMnist, Mnist
from gatelab.tasks.mnist1d import Mnist1D
from gatelab.tasks.recall import Recall
from gatelab.tasks.sine import Sine
from gatelab.tasks.task import Description, Task, summary

_LIBRARY: dict[str, type[Task]] = {
    task.name: task
    for task in (Digits, Mnist, FashionMnist, Cifar10, Mnist1D, Sine, Adding, Copy, Recall, Agreement, Files)
}

__all__ = [
    "Baseline",
    "Batch",
    "Description",
    "Examples",
    "Parts",
    "Task",
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
    """Return the class of the task with this name."""
    if name == Arrays.name:  # not listed: it has no meaning without its arrays
        return Arrays
    if name not in _LIBRARY:
        if Path(name).exists():
            raise GatelabError(f"{name} is a file or folder: to use it as a task, write files:path={name}")
        raise unknown("task", name, _LIBRARY)
    return _LIBRARY[name]


def get(name: str, **options: Any) -> Task:
    """Return the task with these options. Options may be part of the name, as in `mnist:order=pixels,limit=1000`."""
    name, parsed = parse(name)
    if repeated := sorted(parsed.keys() & options.keys()):
        raise GatelabError(f"the option {repeated[0]!r} of the task {name!r} is given twice: leave one out")
    return find(name).make({**parsed, **options})


def parse(text: str) -> tuple[str, dict[str, str]]:
    """Split `NAME:OPTION=VALUE,…` into the name and the options."""
    name, _, rest = text.partition(":")
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
