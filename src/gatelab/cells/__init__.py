"""The library of cells, one family per file, and lookup by name."""

from typing import Any

from gatelab.cells.antisymmetric import agru, antisymmetric_rnn, gated_antisymmetric_rnn
from gatelab.cells.choice import Choice
from gatelab.cells.choice import choose as _choose
from gatelab.cells.gru import gru, gru_cho, lightru, ligru, mgu, miru1, miru2, mut1, mut2, mut3, tau_gru, tgru
from gatelab.cells.lstm import (
    janet,
    lstm,
    mclstm,
    multiplicative_lstm,
    nas,
    original_lstm,
    peephole_lstm,
    res_lstm,
    tlstm,
    wmclstm,
)
from gatelab.cells.minimal import (
    atr,
    br,
    cfn,
    dsgu,
    fast_grnn,
    intersection_rnn,
    minimal_rnn,
    nbr,
    ran,
    sgrn,
    sgu,
    star,
    ugrnn,
)
from gatelab.cells.oscillators import cornn, lem, unicornn
from gatelab.cells.rnn import fast_rnn, indrnn, rnn, scrn, trnn
from gatelab.lang import Cell

FAMILIES: dict[str, tuple[Cell, ...]] = {
    "Plain recurrent networks": (rnn, indrnn, fast_rnn, scrn, trnn),
    "GRU and relatives": (gru, gru_cho, mgu, mut1, mut2, mut3, ligru, lightru, miru1, miru2, tgru, tau_gru),
    "LSTM and relatives": (
        lstm, original_lstm, peephole_lstm, janet, multiplicative_lstm, nas, res_lstm, tlstm, mclstm, wmclstm,
    ),
    "Minimal and additive gated cells": (
        ran, cfn, atr, star, sgu, dsgu, ugrnn, intersection_rnn, minimal_rnn, sgrn, br, nbr, fast_grnn,
    ),
    "Antisymmetric cells": (agru, antisymmetric_rnn, gated_antisymmetric_rnn),
    "Oscillators and time scales": (cornn, unicornn, lem),
}  # fmt: skip

_LIBRARY = {cell.name: cell for family in FAMILIES.values() for cell in family}

__all__ = [
    "FAMILIES", "Choice", "agru", "antisymmetric_rnn", "atr", "br", "cfn", "choose", "cornn", "dsgu", "fast_grnn",
    "fast_rnn", "gated_antisymmetric_rnn", "get", "gru", "gru_cho", "indrnn", "intersection_rnn", "janet", "lem",
    "lightru", "ligru", "lstm", "mclstm", "mgu", "minimal_rnn", "miru1", "miru2", "multiplicative_lstm", "mut1", "mut2",
    "mut3", "names", "nas", "nbr", "original_lstm", "peephole_lstm", "ran", "res_lstm", "rnn", "scrn", "sgrn", "sgu",
    "star", "tau_gru", "tgru", "tlstm", "trnn", "ugrnn", "unicornn", "wmclstm",
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
