"""Every library cell: against an independent reference where there is one, and the fused engine against eager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from beside_eager import (
    _poisoned,  # noqa: F401 - a fixture of all tests here
    compare,
    pair,
    random_states,
)
from oracles import ORACLES

from gatelab import Recurrent, cells
from gatelab.engine.fused.kernel_source import KernelSource

B, T, D, H = 3, 7, 4, 5
P = dict[str, torch.Tensor]


@dataclass
class Case:
    """How our cell corresponds to the reference of the same name."""

    reference: str = ""
    names: dict[str, str] = field(default_factory=dict)  # ours → theirs, where they differ, without W, U or b
    options: dict[str, str] = field(default_factory=dict)  # ours → theirs, where they differ
    adapt: Callable[[P], P] = lambda p: p  # their parameters, from ours under their names
    states: Callable[[tuple], tuple] = lambda states: states  # theirs from ours, and ours from theirs


def scaled(p: P) -> P:
    """The paper has one parameter for what is a product here."""
    radius = torch.exp(-torch.exp(p["b.nu_log"]))
    return p | {"b.gamma_log": p.pop("b.gamma") + 0.5 * torch.log(1 - radius**2)}


def one_signal(p: P) -> P:
    """The reference has a signal per unit: here all are the same."""
    rows = torch.ones(H, 1, dtype=torch.float64)
    encoders = {"U.eh": rows * p.pop("b.h"), "U.em": rows * p.pop("b.m"), "W.u": rows * p["W.u"].sum(0)}
    return p | encoders


CASES = {
    "peephole_lstm": Case(names={"g": "z", "ci": "pi", "cf": "pf", "co": "po"}),
    "multiplicative_lstm": Case(names={"g": "h"}),
    "lru": Case(names={"nu": "nu_log", "theta": "theta_log"}, adapt=scaled),
    "skip_gru": Case("skip_rnn", states=lambda s: (s[0], 1 - s[1])),
    "unicornn": Case(names={"y": "z"}),
    "lem": Case(names={"t1": "1", "t2": "2"}),
    "lipschitz_rnn": Case(options={"epsilon": "eps"}),
    "lmu": Case(adapt=one_signal),
}
CASES = {(case.reference or name): (name, case) for name, case in CASES.items()}
CASES |= {name: (name, Case()) for name in ORACLES if name not in CASES}


def test_every_reference_has_a_cell():
    assert {name for name, _ in CASES.values()} <= set(cells.names())


@pytest.mark.parametrize("reference", CASES)
def test_agrees_with_the_paper(reference):
    oracle, (name, case) = ORACLES[reference], CASES[reference]
    torch.manual_seed(0)
    cell, features = cells.get(name), H if oracle.square else D
    layer = Recurrent(name, features, H, engine="eager", dtype=torch.float64).eval()
    own = {n.removeprefix("layers.0.fwd."): p for n, p in layer.named_parameters()}
    for key, parameter in own.items():
        positive = key.removeprefix("b.") in oracle.positive
        parameter.data = 1 + 2 * torch.rand_like(parameter) if positive else 0.5 * torch.randn_like(parameter)
    theirs = case.adapt({f"{key[:2]}{case.names.get(key[2:], key[2:])}": p for key, p in own.items()})
    options = {case.options.get(key, key): option.value for key, option in cell.options.items()}
    assert set(theirs) == {f"{s}.{n}" for s in "WUb" for n in getattr(oracle, s)}
    assert options.keys() <= oracle.options.keys()

    x = torch.randn(B, T, features, dtype=torch.float64, requires_grad=True)
    states = [(0.3 * torch.randn(B, H, dtype=torch.float64)).requires_grad_() for _ in cell.states]
    if "t" in cell.states:  # the step index counts from 0
        states[cell.states.index("t")] = torch.zeros(B, H, dtype=torch.float64, requires_grad=True)
    initial = tuple(state[None] for state in states)
    output, final = layer(x, initial if len(initial) > 1 else initial[0])
    values = [output, *(state[0] for state in (final if isinstance(final, tuple) else (final,)))]
    wanted, last = oracle.run(theirs, x.transpose(0, 1), case.states(tuple(states)), **options)
    expected = [wanted.transpose(0, 1), *case.states(last)]
    assert len(values) == len(expected)
    for value, other in zip(values, expected, strict=True):
        torch.testing.assert_close(value, other, rtol=0, atol=1e-10)

    weights = [torch.randn_like(value) for value in values]
    inputs = {"x": x, **dict(zip(cell.states, states, strict=True)), **own}
    gradients, others = (
        torch.autograd.grad(
            sum((v * w).sum() for v, w in zip(side, weights, strict=True)), inputs.values(), allow_unused=True
        )
        for side in (values, expected)
    )
    for key, gradient, other in zip(inputs, gradients, others, strict=True):
        zero = torch.zeros(())
        difference = (zero if gradient is None else gradient) - (zero if other is None else other)
        assert difference.abs().max() < 1e-10, key


DIVISORS = {("slstm", "n"), ("rwkv4", "s")}  # sums of positive numbers


@pytest.mark.parametrize("name", cells.names())
def test_fused_is_eager(name):
    """Two threads, lengths, gates, both directions (where the sizes allow it), sizes that do not fill vectors."""
    cell, before = cells.get(name), torch.get_num_threads()
    square = cell.graph.uses_input_itself
    try:
        for threads, (batch, steps, units), lengths in [
            (2, (9, 6, 21), [6, 1, 4, 2, 6, 3, 3, 1, 2]),
            (1, (4, 5, 16), None),
        ]:
            torch.set_num_threads(threads)
            torch.manual_seed(threads)
            features = units if square else 3
            layer, exact = pair(name, features, units, 1 if square else 2, bidirectional=not square)
            states = random_states(layer, batch)
            for state, values in zip(cell.states, states, strict=True):
                if state == "t":
                    values.zero_()
                if (name, state) in DIVISORS:
                    values.abs_().add_(0.5)
            compare(layer, exact, torch.randn(batch, steps, features), states, lengths=lengths, gates=True)
    finally:
        torch.set_num_threads(before)


def test_every_kernel_is_distinct():
    """Two cells with the same equations would be one cell under two names."""
    bodies = {KernelSource(cells.get(name)).text.split("#include")[1] for name in cells.names()}
    assert len(bodies) == len(cells.names())
