"""Sequences to learn: real and made-up, and your own. A task hands over tensors and says what they mean.

task = tasks.get("mnist", order="pixels")
x, y, lengths = task.train.batch(torch.arange(32))
"""

from pathlib import Path
from typing import Any

from gatelab.errors import unknown
from gatelab.tasks.adding import Adding
from gatelab.tasks.agreement import Agreement
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

__all__ = ["Baseline", "Batch", "Description", "Examples", "Parts", "Task", "find", "get", "names", "summary"]


def names() -> list[str]:
    """The names of all tasks."""
    return list(_LIBRARY)


def find(name: str) -> type[Task]:
    """The task of that name, without options yet."""
    if name not in _LIBRARY:
        if Path(name).exists():
            raise ValueError(f"{name} is a file or folder: as a task it is called files:path={name}")
        raise unknown("task", name, _LIBRARY)
    return _LIBRARY[name]


def get(name: str, **options: Any) -> Task:
    """The task of that name with these options; on the command line, one word: `mnist:order=pixels,limit=1000`."""
    name, written = parse(name)
    if twice := sorted(written.keys() & options.keys()):
        raise ValueError(f"the option {twice[0]!r} of the task {name!r} is given twice")
    return find(name).make({**written, **options})


def parse(text: str) -> tuple[str, dict[str, str]]:
    """`NAME:OPTION=VALUE,…` in its parts."""
    name, _, rest = text.partition(":")
    options: dict[str, str] = {}
    for piece in filter(None, rest.split(",")):
        option, equals, value = (part.strip() for part in piece.partition("="))
        if not equals:
            hint = "; a file is named with path=" if name.strip() == "files" else ""
            raise ValueError(f"{text!r} is not understood at {piece!r}: expected NAME:OPTION=VALUE,OPTION=VALUE{hint}")
        if option in options:
            raise ValueError(f"the option {option!r} is in {text!r} twice")
        options[option] = value
    return name.strip(), options
