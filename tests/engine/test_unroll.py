"""An unrolled layer gives the same results as the layer."""

from __future__ import annotations

import pytest
import torch

from gatelab import Recurrent
from gatelab.engine.unroll import unroll


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}, {"residual": True, "num_layers": 3}])
@pytest.mark.parametrize("lengths", [None, [5, 2, 7]])
def test_unrolling_gives_the_same_outputs_states_and_gates(cell, options, lengths):
    layer = Recurrent(cell, 3, 4, engine="eager", dtype=torch.float64, **options)
    x = torch.randn(3, 7, 3, dtype=torch.float64)
    ends = None if lengths is None else torch.tensor(lengths)
    output, state, gates = layer(x, lengths=ends, gates=True)
    unrolled = unroll(layer, x, ends, watch=True)
    torch.testing.assert_close(unrolled.output, output)
    for ours, theirs in zip(unrolled.state, state if isinstance(state, tuple) else (state,), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert len(unrolled.histories) == layer.num_layers * len(layer.directions)
    for name, values in unrolled.histories[0].gates.items():
        torch.testing.assert_close(values.transpose(0, 1), gates[name][0])


def test_a_changed_state_affects_later_steps():
    layer = Recurrent("gru", 3, 4)
    x = torch.randn(2, 6, 3)
    held = torch.full((2, 4), 0.5)
    unrolled = unroll(layer, x, change=lambda scan, step, states: (held,) if step == 3 else states)
    torch.testing.assert_close(unrolled.output[:, 4:], layer(x[:, 4:], held[None])[0])
    assert (unrolled.output[:, 3] == 0.5).all()


def test_h_and_c_have_separate_gradients():
    """At the last step the loss depends on h alone, although h is computed from c."""
    layer = Recurrent("lstm", 2, 3)
    unrolled = unroll(layer, torch.randn(1, 4, 2))
    h, c = unrolled.histories[0].states[-1]
    by_h, by_c = torch.autograd.grad(unrolled.output[:, -1].sum(), (h, c), allow_unused=True)
    assert (by_h == 1).all()
    assert by_c is None
