"""The library of cells, one family per file, and lookup by name."""

from typing import Any

from gatelab.cells.antisymmetric import agru, antisymmetric_rnn, gated_antisymmetric_rnn
from gatelab.cells.choice import Choice
from gatelab.cells.choice import choose as _choose
from gatelab.cells.continuous import cfc, ctrnn, dale_ctrnn, exprnn, lif, lipschitz_rnn, lmu, ltc
from gatelab.cells.gru import (
    gru,
    gru_cho,
    gru_d,
    layer_norm_gru,
    lightru,
    ligru,
    mgu,
    miru1,
    miru2,
    mut1,
    mut2,
    mut3,
    skip_gru,
    tau_gru,
    tgru,
)
from gatelab.cells.linear import gilr, hgrn, lru, mingru, minlstm, qrnn, rg_lru, rwkv4, s4d, sru
from gatelab.cells.lstm import (
    cifg_lstm,
    janet,
    layer_norm_lstm,
    lstm,
    lstmp,
    mclstm,
    mogrifier_lstm,
    multiplicative_lstm,
    nas,
    nested_lstm,
    on_lstm,
    original_lstm,
    peephole_lstm,
    phased_lstm,
    res_lstm,
    slstm,
    tlstm,
    wmclstm,
    zoneout_lstm,
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
from gatelab.cells.rnn import clockwork_rnn, fast_rnn, indrnn, mi_rnn, rhn, rnn, scrn, trnn
from gatelab.lang import Cell

FAMILIES: dict[str, tuple[Cell, ...]] = {
    "Plain recurrent networks": (
        rnn, indrnn, fast_rnn, scrn, trnn, mi_rnn, rhn, clockwork_rnn,
    ),
    "GRU and relatives": (
        gru, gru_cho, mgu, mut1, mut2, mut3, ligru, lightru, miru1, miru2, tgru, tau_gru, layer_norm_gru, gru_d,
        skip_gru,
    ),
    "LSTM and relatives": (
        lstm, original_lstm, peephole_lstm, cifg_lstm, janet, lstmp, layer_norm_lstm, multiplicative_lstm, nas,
        res_lstm, tlstm, mclstm, wmclstm, nested_lstm, on_lstm, phased_lstm, mogrifier_lstm, slstm,
        zoneout_lstm,
    ),
    "Minimal and additive gated cells": (
        ran, cfn, atr, star, sgu, dsgu, ugrnn, intersection_rnn, minimal_rnn, sgrn, br, nbr, fast_grnn,
    ),
    "Antisymmetric cells": (
        agru, antisymmetric_rnn, gated_antisymmetric_rnn,
    ),
    "Oscillators and time scales": (
        cornn, unicornn, lem,
    ),
    "Linear and elementwise recurrences": (
        mingru, minlstm, gilr, qrnn, sru, lru, s4d, hgrn, rg_lru, rwkv4,
    ),
    "Continuous time": (
        ctrnn, dale_ctrnn, ltc, cfc, lif, lipschitz_rnn, exprnn, lmu,
    ),
}  # fmt: skip

_LIBRARY = {cell.name: cell for family in FAMILIES.values() for cell in family}

__all__ = [
    "FAMILIES", "Choice", "agru", "antisymmetric_rnn", "atr", "br", "cfc", "cfn", "choose", "cifg_lstm",
    "clockwork_rnn", "cornn", "ctrnn", "dale_ctrnn", "dsgu", "exprnn", "fast_grnn", "fast_rnn",
    "gated_antisymmetric_rnn", "get", "gilr", "gru", "gru_cho", "gru_d", "hgrn", "indrnn", "intersection_rnn",
    "janet", "layer_norm_gru", "layer_norm_lstm", "lem", "lif", "lightru", "ligru", "lipschitz_rnn", "lmu", "lru",
    "lstm", "lstmp", "ltc", "mclstm", "mgu", "mi_rnn", "mingru", "minimal_rnn", "minlstm", "miru1", "miru2",
    "mogrifier_lstm", "multiplicative_lstm", "mut1", "mut2", "mut3", "names", "nas", "nbr", "nested_lstm",
    "on_lstm", "original_lstm", "peephole_lstm", "phased_lstm", "qrnn", "ran", "res_lstm", "rg_lru", "rhn", "rnn",
    "rwkv4", "s4d", "scrn", "sgrn", "sgu", "skip_gru", "slstm", "sru", "star", "tau_gru", "tgru", "tlstm", "trnn",
    "ugrnn", "unicornn", "wmclstm", "zoneout_lstm",
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
