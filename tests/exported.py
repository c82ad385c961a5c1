"""Models of every kind that can be exported, for the tests of all targets."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

import gatelab
from gatelab import bernoulli, cell, cells, learned, mean, prev, sigmoid, step, surrogate, tanh, where
from gatelab.export import network_of
from gatelab.export.network import Network
from gatelab.models import SequenceClassifier, StepPredictor
from gatelab.tasks.scaling import Scaling

# One of each kind: native and not, two states, earlier values and the index, sums over units, matrix expressions,
# masks, spikes, input without a map.
SAMPLE = (
    "gru", "gru_cho", "lstm", "peephole_lstm", "layer_norm_lstm", "zoneout_lstm", "qrnn", "clockwork_rnn", "agru",
    "exprnn", "lif", "rwkv4", "sru", "lru",
)  # fmt: skip
D, H, K = 5, 8, 3


@cell
def own(x, h, W, U, b, *, rate=learned(0.3)):
    """Gates with names that mean something in C, JavaScript, Python or the generated code."""
    float = sigmoid(W.float(x) + U.float(h) + b.float)  # noqa: A001
    sums = tanh(W.sums(x) + U.sums(float * h))
    function, j, r1, state, forward = sums + rate, sums * 0.5, float * 0.5, sums - h, float + 0.1
    α = tanh(function + j + r1 + state + forward + U.α(sums))
    return float * h + (1 - float) * α


@cell
def prefixed(x, h, s, b_h, W, U, b, *, rate=learned(0.3)):
    """Values whose names are like those of the loops, or begin as those of parameters do."""
    b_t, s_rate, fixed0 = sigmoid(W.z(x) + U.z(h) + b.z), tanh(U.s(s)), 0.5 * tanh(b.z)
    g_b_t, v3, products1, d_U_z = b_t * 0.5, s_rate - h, s_rate + b_h, 0.5 * b_t
    n = tanh(W.n(x) + U.n(b_t * h) + U.products1(products1) + v3 + fixed0 + g_b_t * prev(s))
    return rate * b_t * h + (1 - b_t) * n, s_rate * d_U_z, 0.5 * b_h + n


@cell
def where_the_input_is(x, h, W, U, b):
    """Conditions that are known before any state is: from the input, unit by unit and by sequence, from parameters."""
    n = tanh(U.n(h) + W.n(x))
    held = where(W.z(x) > 0, n, h)
    return where(mean(W.m(x)) >= b.m, held, where(b.z > b.m, 0.5 * n, where(W.z(x) > 0, W.z(x), 0.1)))


@cell
def two_masks(x, h, W, U, b):
    """In evaluation, a delayed value that is one number in every unit."""
    return tanh(W.n(x) + U.n(h) + b.n) + prev(bernoulli(0.7) / (1.5 + bernoulli(0.7)))


@cell
def slope_of_its_own(x, h, W, U, b):
    """A step whose derivative is a function of matrices that nothing else uses."""
    n = tanh(W.n(x) + U.n(h) + b.n)
    return 0.5 * n + 0.5 * surrogate(step(n), sigmoid(W.slope(x) + (U.slope - U.slope.T)(h)))


def classifier(name: object, layers: int, **options: object) -> SequenceClassifier:
    """A classifier of a cell, by name or itself."""
    torch.manual_seed(1)
    equations = cells.get(name) if isinstance(name, str) else name
    size = H if equations.lowered.uses_input_itself else D
    return SequenceClassifier(equations, size, H, K, layers, **{"dropout": 0.0, **options}).eval()


def as_trained(model: SequenceClassifier, attention: float = 2.0) -> SequenceClassifier:
    """With statistics and weights of batch normalization, and a query of attention, that are not the initial ones."""
    random = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for norm in () if model.stem is None else model.stem.norms:
            norm.running_mean.normal_(0, 0.3, generator=random)
            norm.running_var.uniform_(0.1, 2, generator=random)
            norm.weight.uniform_(0.5, 1.5, generator=random)
            norm.bias.normal_(0, 0.3, generator=random)
        if model.pooling.query is not None:
            model.pooling.query.normal_(0, attention, generator=random)
    return model


def kinds() -> dict[str, tuple[nn.Module, Network]]:
    """Models that differ in all but the cell, by what is special about them."""
    scale, targets = Scaling(np.linspace(900, 1000, D), np.linspace(0.5, 2, D)), Scaling(np.ones(K), np.full(K, 3.0))
    plain = StepPredictor("lstm", D, H, K, 2)
    series = StepPredictor("gru", K, H, K, 1)
    models = {
        "mean": classifier("lstm", 2, pool="mean"),
        "residual": classifier("gru", 3, residual=True),
        "bidirectional": classifier("gru", 2, bidirectional=True, residual=True),
        "bidirectional mean": classifier("agru", 1, bidirectional=True, pool="mean"),
        "bidirectional steps": StepPredictor("lstm", D, H, K, 1, bidirectional=True),
        "embedding": classifier("agru", 1, embedding_size=4),
        "max": classifier("gru", 1, pool="max"),
        "mean+max": classifier("lstm", 2, pool="mean+max", residual=True),
        "attention": as_trained(classifier("gru", 1, pool="attention")),
        "bidirectional mean+max": classifier("gru", 1, bidirectional=True, pool="mean+max"),
        "bidirectional attention": as_trained(classifier("agru", 1, bidirectional=True, pool="attention")),
        "stem": as_trained(classifier("gru", 2, stem="conv")),
        "stem of tokens": as_trained(classifier("mgu", 1, stem="conv", embedding_size=4, pool="attention")),
        "estimator": as_trained(classifier("gru", 1, stem="conv", bidirectional=True, pool="mean+max")),
        "layers alone": gatelab.Recurrent("lstm", D, H, 2),
        "time first": gatelab.Recurrent("gru", D, H, 2, batch_first=False),
    }
    found = {name: (model, network_of(model)) for name, model in models.items()}
    found["tokens"] = (plain, replace(network_of(plain), tokens=True))
    found["scaled"] = (plain, replace(network_of(plain), input_scale=scale, output_scale=targets))
    changes = Scaling(np.zeros(K), np.full(K, 0.5))
    found["differenced"] = (
        series,
        replace(
            network_of(series),
            differenced=K,
            input_scale=changes,
            output_scale=Scaling(changes.mean, changes.deviation),
        ),
    )
    return found


KINDS = tuple(kinds())


def run_page(page: Path) -> None:
    """Execute the Python of a page of the documentation, its blocks one after the other as a reader would."""
    blocks, space = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL), {}
    assert blocks
    for block in blocks:
        exec(compile(block, str(page), "exec"), space)
