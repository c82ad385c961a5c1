"""The cells of the library, a family per file, and how to find one by name."""

from typing import Any

from gatelab.cells.antisymmetric import agru, antisymmetric_rnn, gated_antisymmetric_rnn
from gatelab.cells.choice import Choice
from gatelab.cells.choice import choose as _choose
from gatelab.cells.gru import gru, gru_cho, mgu
from gatelab.cells.lstm import lstm
from gatelab.cells.rnn import rnn
from gatelab.lang import Cell

_LIBRARY = {c.name: c for c in (rnn, gru, gru_cho, mgu, lstm, agru, antisymmetric_rnn, gated_antisymmetric_rnn)}

__all__ = [
    "Choice", "agru", "antisymmetric_rnn", "choose", "gated_antisymmetric_rnn", "get", "gru", "gru_cho", "lstm", "mgu",
    "names", "rnn",
]  # fmt: skip


def names() -> list[str]:
    """The names of all cells in the library."""
    return list(_LIBRARY)


def get(name: str) -> Cell:
    """The cell of that name; `FILE.py:NAME` is the cell NAME that FILE.py defines (the file is run)."""
    return choose(name).cell


def choose(given: Any) -> Choice:
    """The cell of that name, or one that is at hand, with where it came from."""
    return _choose(given, _LIBRARY)
