"""The library of cells, one family per file, and lookup by name."""

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
    """The cell of that name; `FILE.py:NAME` executes FILE.py and takes its cell NAME."""
    return choose(name).cell


def choose(source: Any) -> Choice:
    """A `Choice` from a name, a `Cell`, or a document; records where the cell came from."""
    return _choose(source, _LIBRARY)
