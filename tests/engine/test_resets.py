"""Sequences that begin anew inside a batch: equal to sequences that are cut by hand, on every engine."""

from __future__ import annotations

import pytest
import torch
from beside_eager import GRADIENTS, OUTPUTS, assert_near, compare, pair, random_states, set_limits

from gatelab import Recurrent, cell, cells, prev, tanh

T = 11
RESETS = torch.zeros(5, T, dtype=torch.bool)
for row, steps in enumerate([[4], [0, 1, 10], [], [3, 4, 5], list(range(T))]):
    RESETS[row, steps] = True


def row_of(state, b: int):
    return tuple(s[:, b : b + 1] for s in state) if isinstance(state, tuple) else state[:, b : b + 1]


def cut_by_hand(layer: Recurrent, x: torch.Tensor, state, resets: torch.Tensor, after=None):
    """Each row alone, each of its parts alone, from the initial state of the row, or from that after resets."""
    outputs, finals = [], []
    for b in range(len(x)):
        starts = sorted({0, *resets[b].nonzero().flatten().tolist()})
        parts = [slice(a, z) for a, z in zip(starts, [*starts[1:], x.shape[1]], strict=True)]
        begins = [state if after is None or not resets[b, part.start] else after for part in parts]
        results = [layer(x[b : b + 1, part], row_of(begin, b)) for part, begin in zip(parts, begins, strict=True)]
        outputs.append(torch.cat([output for output, _ in results], 1))
        finals.append(results[-1][1])
    if isinstance(finals[0], tuple):
        return torch.cat(outputs), tuple(torch.cat(values, 1) for values in zip(*finals, strict=True))
    return torch.cat(outputs), torch.cat(finals, 1)


@cell
def delayed(x, h, W, U, b):
    n = tanh(W.n(x) + U.n(h) + b.n)
    return 0.5 * h + 0.3 * n + 0.2 * prev(n, 2)


@pytest.mark.parametrize("given", ["zeros", "given", "another"])
@pytest.mark.parametrize("engine", ["eager", "fused"])
@pytest.mark.parametrize("name", ["gru", "lstm", "lru", delayed], ids=str)
def test_resets_cut_sequences(name, engine, given):
    layer = Recurrent(name, 3, 10, 2, engine=engine)
    x = torch.randn(5, T, 3, requires_grad=True)
    states, others = (
        [(0.5 * torch.randn(2, 5, 10) * (given != "zeros")).requires_grad_() for _ in layer.cell.states]
        for _ in range(2)
    )
    state, other = (tuple(each) if len(each) > 1 else each[0] for each in (states, others))
    if given == "zeros" and len(states) == 1:
        assert torch.equal(layer(x, resets=RESETS)[0], layer(x, state, resets=RESETS)[0])
    after = other if given == "another" else None
    gradients = []
    for output, final in (
        layer(x, state, resets=RESETS, reset_state=after),
        cut_by_hand(layer, x, state, RESETS, after),
    ):
        finals = final if isinstance(final, tuple) else (final,)
        loss = output.sin().sum() + sum(value.square().sum() for value in finals)
        tensors = [x, *states, *others, *layer.parameters()]
        grads = torch.autograd.grad(loss, tensors, allow_unused=True)  # the last layer's final state after resets
        gradients.append([output.detach(), *grads])
    for got, wanted in zip(*gradients, strict=True):
        assert (got is None) == (wanted is None) or (got if wanted is None else wanted).abs().max() == 0
        if got is not None and wanted is not None:
            torch.testing.assert_close(got, wanted, atol=2e-6, rtol=2e-5)


def test_both_directions_are_cut():
    layer = Recurrent("gru", 3, 6, bidirectional=True)
    x, state = torch.randn(5, T, 3), torch.randn(2, 5, 6)
    for after in (None, torch.randn(2, 5, 6)):
        output, _ = layer(x, state, resets=RESETS, reset_state=after)
        if after is None:
            torch.testing.assert_close(output, cut_by_hand(layer, x, state, RESETS)[0], atol=1e-6, rtol=1e-5)
        forward = Recurrent("gru", 3, 6)
        forward.load_state_dict({k: v for k, v in layer.state_dict().items() if ".fwd." in k})
        wanted = forward(x, state[:1], resets=RESETS, reset_state=None if after is None else after[:1])[0]
        torch.testing.assert_close(output[..., :6], wanted, atol=1e-6, rtol=1e-5)


def test_episodes_in_pieces():
    """As in reinforcement learning: a state is carried from one piece to the next, and episodes begin with zeros."""
    layer, x = Recurrent("lstm", 3, 10), torch.randn(5, T, 3)
    zeros = (torch.zeros(1, 5, 10),) * 2
    whole, final = layer(x, resets=RESETS)
    first, state = layer(x[:, :6], resets=RESETS[:, :6])
    second, last = layer(x[:, 6:], state, resets=RESETS[:, 6:], reset_state=zeros)
    torch.testing.assert_close(torch.cat([first, second], 1), whole, atol=1e-6, rtol=1e-5)
    for got, wanted in zip(last, final, strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-6, rtol=1e-5)


def test_a_state_after_resets_that_is_refused():
    layer, x = Recurrent("gru", 3, 4), torch.zeros(5, T, 3)
    with pytest.raises(ValueError, match="reset_state was given without resets"):
        layer(x, reset_state=torch.zeros(1, 5, 4))
    with pytest.raises(ValueError, match=r"reset_state 'h' has shape \(1, 4\): expected \(1, 5, 4\)"):
        layer(x, resets=RESETS, reset_state=torch.zeros(1, 4))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", ["gru", "lstm", "mingru", "lru", "layer_norm_gru"])
def test_fused_equals_eager(name, threads, monkeypatch):
    """With lengths, gates, few and many rows, and teams of threads."""
    set_limits(monkeypatch, THREAD_WORK=1, TEAM_BYTES=0)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        layer, exact = pair(name, 3, 18, bidirectional=True)
        for B in (1, 5, 30):
            resets = torch.rand(B, T) < 0.2
            x, states = torch.randn(B, T, 3), random_states(layer, B)
            compare(layer, exact, x, states, resets=resets, gates=B == 5)
            compare(layer, exact, x, states, resets=resets, lengths=[1 + b % T for b in range(B)])
            after = random_states(layer, B)
            got, wanted = (
                one(x.to(dtype), [s.to(dtype) for s in states], resets=resets, reset_state=[s.to(dtype) for s in after])
                for one, dtype in ((layer, torch.float32), (exact, torch.float64))
            )
            assert_near(got[0], wanted[0], OUTPUTS, "output with another state after resets")
    finally:
        torch.set_num_threads(before)


def test_native_runs_on_eager_where_there_are_resets():
    layer, x = Recurrent("gru", 3, 4, engine="native"), torch.randn(5, T, 3)
    layer(x, resets=RESETS)
    assert layer.engine_in_use == "eager"
    layer(x)
    assert layer.engine_in_use == "native"


def test_layouts_of_resets():
    layer, x = Recurrent("gru", 3, 4), torch.randn(5, T, 3)
    wanted = layer(x, resets=RESETS)[0]
    steps = Recurrent("gru", 3, 4, batch_first=False)
    steps.load_state_dict(layer.state_dict())
    assert torch.equal(steps(x.transpose(0, 1), resets=RESETS.T)[0].transpose(0, 1), wanted)
    torch.testing.assert_close(layer(x[3], resets=RESETS[3])[0], wanted[3])


@pytest.mark.parametrize(
    ("resets", "message"),
    [
        (RESETS.T, r"resets is torch.bool of shape \(11, 5\): expected a tensor of bool of shape \(5, 11\)"),
        (RESETS.float(), r"resets is torch.float32 of shape \(5, 11\)"),
        ([True] * 5, r"resets is \[True, True"),
        (RESETS.to("meta"), "resets is on meta and x on cpu"),
    ],
)
def test_bad_resets(resets, message):
    with pytest.raises(ValueError, match=message):
        Recurrent("gru", 3, 4)(torch.zeros(5, T, 3), resets=resets)


@pytest.mark.parametrize("name", ["gru", "mgu"])
def test_a_learned_initial_state_gets_its_gradient_from_every_reset(name):
    layer, exact = pair(name, 3, 7)
    resets = torch.rand(6, T) < 0.3
    x, learned = torch.randn(6, T, 3), [0.3 * torch.randn(1, 1, 7) for _ in cells.get(name).states]
    gradients = []
    for one, dtype in ((layer, torch.float32), (exact, torch.float64)):
        states = [value.detach().to(dtype).requires_grad_() for value in learned]
        expanded = tuple(state.expand(1, 6, 7) for state in states)
        output, _ = one(x.to(dtype), expanded if len(expanded) > 1 else expanded[0], resets=resets)
        output.square().sum().backward()
        gradients.append([state.grad for state in states])
    for got, wanted in zip(*gradients, strict=True):
        assert_near(got, wanted, GRADIENTS, "initial state")
    assert OUTPUTS < GRADIENTS
