"""The cells of the library, a family per file, and how to find one by name."""

from gatelab.cells.antisymmetric import agru, antisymmetric_rnn, gated_antisymmetric_rnn
from gatelab.cells.gru import gru, gru_cho, mgu
from gatelab.cells.lstm import lstm
from gatelab.cells.rnn import rnn
from gatelab.errors import unknown
from gatelab.lang import Cell

_LIBRARY = {c.name: c for c in (rnn, gru, gru_cho, mgu, lstm, agru, antisymmetric_rnn, gated_antisymmetric_rnn)}

__all__ = [
    "agru", "antisymmetric_rnn", "gated_antisymmetric_rnn", "get", "gru", "gru_cho", "lstm", "mgu", "names", "rnn",
]  # fmt: skip


def names() -> list[str]:
    """The names of all cells in the library."""
    return list(_LIBRARY)


def get(name: str) -> Cell:
    """The cell of that name."""
    if name not in _LIBRARY:
        raise unknown("cell", name, _LIBRARY)
    return _LIBRARY[name]
