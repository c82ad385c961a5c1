"""The JavaScript export: answers, gates, clamps and gradients in node against torch in float64; pages in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from exported import as_trained
from hypothesis import given, settings
from hypothesis import strategies as st
from js_oracle import Oracle
from places import DOCS
from random_cells import Language, made, source
from torch import Tensor

import gatelab
from gatelab import cells
from gatelab.engine import Recurrent
from gatelab.engine.unroll import unroll
from gatelab.errors import GatelabError
from gatelab.export import Settings, network_of, to_js
from gatelab.export.check import check
from gatelab.export.javascript import write
from gatelab.export.js_runner import NodeProcess, NodeRunner
from gatelab.export.network import Network
from gatelab.export.target import RuntimeMissingError
from gatelab.lang import cell, sigmoid, tanh
from gatelab.lang.hold import hold
from gatelab.models import SequenceClassifier, StepPredictor
from gatelab.models.pooling import POOLS
from gatelab.tasks.scaling import Scaling
from gatelab.training import ModelSpec, OptimizationSpec, RunSpec, TrainingSpec, train

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here (apt-get install nodejs)")

TOLERANCE = 1e-5  # of the largest value
SAMPLED = ["gru", "lstm", "layer_norm_gru", "lif", "exprnn", "tau_gru", "mogrifier_lstm", "rg_lru", "zoneout_lstm"]


def model_of(name, layers=1, **options):
    own = cells.get(name) if isinstance(name, str) else name
    D, H = (8, 8) if own.lowered.uses_input_itself else (3, 5)
    return as_trained(SequenceClassifier(own, D, H, 3, layers, dropout=0.0, **options).eval())


def exported(net: Network, path: Path) -> NodeProcess:
    write(net, path / net.name, Settings())
    return NodeProcess(path / net.name, net.name)


def relative(got, expected) -> float:
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    assert got.shape == expected.shape
    return float(np.abs(got - expected).max() / (np.abs(expected).max() or 1.0))


# ---- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", SAMPLED)
def test_a_cell_answers_as_the_model_does(name, layers, tmp_path):
    checked = to_js(model_of(name, layers), tmp_path / "out").checked
    assert checked is not None
    assert checked.difference <= TOLERANCE


@pytest.mark.export
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", cells.names())
def test_every_cell_answers_as_the_model_does(name, layers, tmp_path):
    test_a_cell_answers_as_the_model_does(name, layers, tmp_path)


VARIANTS = {
    "mean": {"pool": "mean"},
    "residual": {"residual": True},
    "both directions": {"bidirectional": True},
    "both, mean, residual": {"bidirectional": True, "pool": "mean", "residual": True},
    "max": {"pool": "max"},
    "mean+max": {"pool": "mean+max", "residual": True},
    "attention": {"pool": "attention"},
    "both, attention": {"bidirectional": True, "pool": "attention"},
    "stem": {"stem": "conv"},
    "stem, both, mean+max": {"stem": "conv", "bidirectional": True, "pool": "mean+max"},
    "embedding": {"embedding_size": 4},
}


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS.keys())
def test_variants_of_a_model(options, tmp_path):
    checked = to_js(model_of("lstm", 2, **options), tmp_path / "out").checked
    assert checked is not None
    # Nothing but weights is rounded: those of convolutions after batch normalization has become part of them.
    assert checked.difference <= (1e-6 if "stem" in options else 1e-12)


def scaled(net: Network, differenced: int = 0) -> Network:
    """With units of its own for every input and output."""
    mean, deviation = np.array([1000.0, -3.0, 0.1]), np.array([2.0, 0.3, 40.0])
    given = replace(net, input_scale=Scaling(mean, deviation), output_scale=Scaling(mean - 1, deviation + 1))
    return replace(given, differenced=differenced)


@pytest.mark.parametrize("differenced", [0, 2])
def test_scaling_and_changes(differenced, tmp_path):
    model = StepPredictor("gru", 3, 6, 3 if not differenced else 2, 1, dropout=0.0)
    net = scaled(network_of(model), differenced)
    if differenced:
        output = net.output_scale
        net = replace(net, output_scale=Scaling(output.mean[:2], output.deviation[:2]))
    node = exported(net, tmp_path)
    assert check(model, net, NodeRunner(net, node)).difference <= 1e-12


def test_layers_without_a_head_and_one_hot_tokens(tmp_path):
    assert to_js(Recurrent("lstm", 3, 9, 2, batch_first=True), tmp_path / "layers").checked.difference <= 1e-12
    model = model_of("gru")
    net = replace(network_of(model), tokens=True)
    reply = exported(net, tmp_path).ask(xs=[2, 0, 1])
    expected = model.double()(torch.eye(3, dtype=torch.float64)[None, [2, 0, 1]])
    assert relative(reply["answer"], expected[0].detach()) <= 1e-12


@pytest.mark.parametrize("pool", ["mean+max", "attention"])
def test_step_by_step_is_the_same_as_in_one_go(pool, tmp_path):
    node = exported(network_of(model_of("lstm", 2, pool=pool)), tmp_path)
    xs = np.random.default_rng(0).standard_normal((6, 3))
    steps, whole = node.ask(xs=xs, stepwise=True), node.ask(xs=xs, record=True)
    assert relative(np.concatenate(steps["answers"]), whole["answers"]) <= 1e-14
    assert steps["state"] == whole["state"] == node.ask(xs=xs.ravel())["state"]


@settings(max_examples=12)
@given(st.randoms(use_true_random=False))
def test_random_cells(tmp_path_factory, chance):
    random = made(source(chance, Language(jumps=False)))
    torch.manual_seed(0)
    layers = Recurrent(random, 3, 3, batch_first=True)
    gate, state = next(iter(random.gates), random.states[0]), random.states[-1]
    clamps = [{"value": gate, "units": [1], "to": 0.4, "from": 1}, {"value": state, "units": [0, 1], "to": [0, 0.3]}]
    path = tmp_path_factory.mktemp("random")
    compare_gradients(layers, network_of(layers), path, steps=3, clamps=clamps)


# ---- gates, clamps and gradients -------------------------------------------------------------------------------------


def compare_gradients(model, net, path, *, steps=5, clamps=(), at=None) -> dict:
    """Run in node and by torch; compare the answer, every state, and all derivatives."""
    node = exported(net, path)
    generator = np.random.default_rng(1)
    raw = torch.from_numpy(generator.standard_normal((steps, net.input_size)))
    if net.input_scale is not None:
        raw = raw * torch.from_numpy(net.input_scale.deviation) + torch.from_numpy(net.input_scale.mean)
    of = generator.standard_normal(net.output_size)
    ran = node.ask(xs=raw.numpy(), of=of, clamps=clamps, **({} if at is None else {"at": at}))

    raw.requires_grad_()
    oracle, answer = answered(model.double(), net, raw, clamps, steps - 1 if at is None else at)
    answered_in_js = ran["answer"] if at is None else ran["answers"][at * net.output_size : (at + 1) * net.output_size]
    assert relative(answered_in_js, answer.detach()) <= TOLERANCE
    nodes = [state for run in oracle.states for states in run for state in states]
    derivatives = torch.autograd.grad(answer @ torch.from_numpy(of), [raw, *nodes], allow_unused=True)
    expected = [torch.zeros_like(n) if d is None else d for d, n in zip(derivatives, [raw, *nodes], strict=True)]
    assert relative(ran["gradient"]["x"], expected[0].ravel()) <= TOLERANCE
    remaining, names = iter(expected[1:]), net.graph.states
    steps = oracle.T  # of the layers: fewer after a stem
    largest = max(float(each.abs().max()) for each in expected[1:]) or 1.0
    for index, run in enumerate(oracle.states):
        order = sorted(range(steps), key=lambda step: oracle.time(index, step))
        found = [[next(remaining)[0].numpy() for _ in names] for _ in run]
        for s, name in enumerate(names):
            got = np.array(ran["gradient"]["layers"][index]["states"][name]).reshape(steps, -1)
            assert np.abs(got - [found[step][s] for step in order]).max() <= TOLERANCE * largest
            states = np.array(ran["layers"][index]["states"][name]).reshape(steps, -1)
            assert relative(states, [run[step][s][0].detach().numpy() for step in order]) <= TOLERANCE
    return ran


def answered(model, net: Network, raw: Tensor, clamps, at: int) -> tuple[Oracle, Tensor]:
    """The answer to one sequence, from raw units to raw units, as one expression of torch."""
    layers = model if isinstance(model, Recurrent) else model.recurrent
    x = raw
    if count := net.differenced:
        changes = torch.cat([torch.zeros_like(x[:1, :count]), x[1:, :count] - x[:-1, :count]])
        x = torch.cat([changes, x[:, count:]], 1)
    if net.input_scale is not None:
        x = (x - torch.from_numpy(net.input_scale.mean)) / torch.from_numpy(net.input_scale.deviation)

    if net.stem:
        x, at = model.stem(x[None], None)[0][0], -1

    def change(index: int, name: str, t: int, value: Tensor) -> Tensor:
        for clamp in clamps:
            layer, direction = divmod(index, len(layers.directions))
            own = clamp.get("direction") in (None, layers.directions[direction])
            if (layer, name) == (clamp.get("layer", 0), clamp["value"]) and own:
                units = clamp.get("units", range(net.hidden_size))
                if clamp.get("from", 0) <= t < clamp.get("until", 10**6):
                    to, value = np.asarray(clamp["to"]), value.clone()
                    if to.size > max(len(units), 1):
                        to = to.reshape(-1, net.hidden_size)[t, list(units)]
                    value[:, list(units)] = torch.as_tensor(to, dtype=torch.float64).expand(1, len(units))
        return value

    oracle = Oracle(layers, x, change)
    H, output = net.hidden_size, oracle.output
    features = output[at]
    if net.read in POOLS[1:]:
        features = model.pooling(output[None, : at + 1 or None], None)[0]
    elif net.read == "last" and net.bidirectional:
        features = torch.cat([output[-1, :H], output[0, H:]])
    answer = features if net.head is None else model.head[-1](features)
    if net.output_scale is not None:
        answer = answer * torch.from_numpy(net.output_scale.deviation) + torch.from_numpy(net.output_scale.mean)
    return oracle, answer + raw[at, : net.differenced] if net.differenced else answer


@pytest.mark.parametrize("name", SAMPLED)
def test_gradients_of_a_cell(name, tmp_path):
    model = model_of(name, 2)
    compare_gradients(model, network_of(model), tmp_path)


@pytest.mark.export
@pytest.mark.parametrize("name", cells.names())
def test_gradients_of_every_cell_with_every_value_clamped_somewhere(name, tmp_path):
    test_gradients_of_a_cell(name, tmp_path)
    own = cells.get(name).lowered
    clamps = [
        {"layer": i % 2, "value": value, "units": [i % 5, (i + 2) % 5], "to": 0.3 + 0.1 * i, "from": i % 3, "until": 4}
        for i, value in enumerate([*own.gates, *own.states])
    ]
    (tmp_path / "clamped").mkdir()
    model = model_of(name, 2)
    compare_gradients(model, network_of(model), tmp_path / "clamped", clamps=clamps)


CLAMPS = [
    {"layer": 1, "value": "f", "units": [0, 3], "to": 0.0, "from": 2},
    {"layer": 0, "value": "i", "to": 1, "until": 3},
    {"layer": 0, "value": "c", "units": [1, 2], "to": [0.3, -0.2], "from": 1, "until": 4},
    {"layer": 1, "value": "h", "units": [4], "to": list(np.linspace(-1, 1, 25))},  # values of another example
]


@pytest.mark.parametrize("clamps", [[], CLAMPS], ids=["free", "clamped"])
@pytest.mark.parametrize("options", list(VARIANTS.values())[:-1], ids=list(VARIANTS)[:-1])
def test_gradients_through_layers(options, clamps, tmp_path):
    model = model_of("lstm", 2, **options)
    steps = 18 if "stem" in options else 5
    compare_gradients(model, network_of(model), tmp_path, clamps=clamps, steps=steps)


def test_clamps_of_one_direction(tmp_path):
    model = model_of("gru", 1, bidirectional=True)
    clamps = [{"value": "z", "direction": "bwd", "to": 0.25, "from": 1, "until": 3}]
    ran = compare_gradients(model, network_of(model), tmp_path, clamps=clamps)
    fwd, bwd = (np.array(layer["gates"]["z"]).reshape(5, 5) for layer in ran["layers"])
    assert (bwd == 0.25).all(1).tolist() == [False, True, True, False, False]
    assert not (fwd == 0.25).any()


@pytest.mark.parametrize("differenced", [0, 3])
@pytest.mark.parametrize("at", [None, 0, 2])
def test_gradients_in_raw_units_at_a_step(at, differenced, tmp_path):
    model = StepPredictor("gru", 3, 5, 3, 2, dropout=0.0)
    compare_gradients(model, scaled(network_of(model), differenced), tmp_path, at=at)


@pytest.mark.parametrize("pool", ["mean", "mean+max", "attention"])
def test_gradients_if_the_sequence_had_ended_earlier(pool, tmp_path):
    model = model_of("gru", 2, pool=pool)
    compare_gradients(model, network_of(model), tmp_path, at=2)


@pytest.mark.parametrize("pool", ["mean+max", "attention"])
def test_gradients_of_a_piece_that_continues_a_state(pool, tmp_path):
    """Outputs of earlier pieces have their share in what is read, and none of the gradient."""
    model = model_of("gru", 1, pool=pool).double()
    node = exported(network_of(model), tmp_path)
    xs = torch.randn(1, 9, 3, dtype=torch.float64)
    state = node.ask(xs=xs[0, :4].numpy())["state"]
    ran = node.ask(xs=xs[0, 4:].numpy(), state=state, of=1)
    late = xs[:, 4:].clone().requires_grad_()
    scores = model(torch.cat([xs[:, :4], late], 1))
    scores[0, 1].backward()
    assert relative(ran["answer"], scores[0].detach()) <= TOLERANCE
    assert relative(ran["gradient"]["x"], late.grad.ravel()) <= TOLERANCE


@pytest.mark.parametrize("first", [2, 5, 7])
def test_clamps_of_a_piece_that_continues_count_from_the_beginning(first, tmp_path):
    node = exported(network_of(model_of("gru", 1)), tmp_path)
    xs = np.random.default_rng(0).standard_normal((9, 3))
    clamps = [{"value": "z", "units": [1], "to": 0.4, "from": first}, {"value": "h", "to": 0.1, "from": 3, "until": 6}]
    whole = node.ask(xs=xs, clamps=clamps, record=True)
    state = node.ask(xs=xs[:4], clamps=clamps)["state"]
    piece = node.ask(xs=xs[4:], state=state, clamps=clamps, record=True)
    for kind, name in (("gates", "z"), ("states", "h")):
        values = np.reshape(whole["layers"][0][kind][name], (9, -1))
        assert relative(piece["layers"][0][kind][name], values[4:].ravel()) <= 1e-14
    assert relative(piece["answer"], whole["answer"]) <= 1e-14


def test_gradients_of_a_differenced_piece_reach_its_first_step(tmp_path):
    """Its change is from the last input before, so that it counts; the first step of a sequence has none."""
    model = StepPredictor("gru", 3, 6, 3, 1, dropout=0.0)
    node = exported(replace(network_of(model), differenced=3), tmp_path)
    xs, of = np.random.default_rng(0).standard_normal((6, 3)), [1.0, -0.5, 0.3]
    state = node.ask(xs=xs[:4])["state"]

    def answer(piece):
        return np.dot(of, node.ask(xs=piece, state=state)["answer"])

    found = np.reshape(node.ask(xs=xs[4:], state=state, of=of)["gradient"]["x"], (2, 3))
    assert np.abs(found).min() > 1e-3
    for t in range(2):
        for i in range(3):
            step = np.zeros((2, 3))
            step[t, i] = 1e-4
            assert found[t, i] == pytest.approx((answer(xs[4:] + step) - answer(xs[4:] - step)) / 2e-4, rel=1e-5)


def test_a_stem_reads_whole_sequences(tmp_path):
    node = exported(network_of(model_of("gru", stem="conv")), tmp_path)
    xs = np.random.default_rng(0).standard_normal((9, 3))
    ran = node.ask(xs=xs, record=True)
    assert len(ran["layers"][0]["gates"]["z"]) == 3 * 5  # a quarter of the steps
    assert ran["steps"] == 9
    for question in ({"stepwise": True}, {"state": {"steps": 0, "layers": [{"h": [0.0] * 5}]}}, {"of": 0, "at": 3}):
        with pytest.raises(GatelabError, match="the convolutions of this network read later steps"):
            node.ask(xs=xs, **question)


def test_gradients_of_tokens_are_those_of_one_hot_vectors(tmp_path):
    model = model_of("gru", embedding_size=4).double()
    ran = exported(network_of(model), tmp_path).ask(xs=[2, 0, 2], of=1)
    one_hot = torch.eye(3, dtype=torch.float64)[[2, 0, 2]].requires_grad_()
    output, _ = model.recurrent((one_hot @ model.input_layer.weight)[None])
    model.head.eval()(output[:, -1])[0, 1].backward()
    assert relative(ran["gradient"]["x"], one_hot.grad.ravel()) <= 1e-12


def test_steps_of_a_clamp_end_with_the_first_of_its_values_and_its_last_step(tmp_path):
    node = exported(network_of(model_of("gru")), tmp_path)
    for steps, until, expected in ((5, 3, [1, 1, 1, 0, 0, 0]), (2, 4, [1, 1, 0, 0, 0, 0])):
        clamp = {"value": "z", "to": [0.25] * 5 * steps, "until": until}
        ran = node.ask(xs=np.ones((6, 3)), clamps=[clamp], record=True)
        assert (np.reshape(ran["layers"][0]["gates"]["z"], (6, 5)) == 0.25).all(1).tolist() == expected


def test_clamps_add_to_those_of_a_clamped_network(tmp_path):
    write(network_of(model_of("gru"), "one"), tmp_path / "one", Settings())
    script = (
        'const { create } = await import("./one.mjs"), { weights } = await import("./one.weights.mjs");'
        'const both = create(weights).clamp({ value: "z", to: 0.25 }).clamp({ value: "r", to: 0.5 });'
        "const { gates } = both.gates([[1, 2, 3]])[0];"
        "console.log(JSON.stringify([both.clamps.length, ...gates.z, ...gates.r]));"
    )
    command = ["node", "--input-type=module", "--eval", script]
    said = subprocess.run(command, cwd=tmp_path / "one", capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == [2, *[0.25] * 5, *[0.5] * 5]


def test_a_recorded_piece_leaves_the_state_that_any_piece_leaves(tmp_path):
    node = exported(scaled(network_of(StepPredictor("gru", 3, 6, 3, 1, dropout=0.0)), 3), tmp_path)
    xs = np.random.default_rng(0).standard_normal((5, 3))
    assert node.ask(xs=xs, record=True)["state"] == node.ask(xs=xs)["state"]


def test_steps_with_the_same_largest_value_share_its_derivative(tmp_path):
    model = model_of("gru", pool="max")
    clamp = {"value": "h", "to": 0.25}
    ran = exported(network_of(model), tmp_path).ask(xs=np.ones((4, 3)), clamps=[clamp], of=0)
    found = np.reshape(ran["gradient"]["layers"][0]["states"]["h"], (4, 5))
    np.testing.assert_allclose(found, np.tile(model.head[-1].weight[0].detach() / 4, (4, 1)), rtol=1e-6)


def test_a_gate_clamped_from_the_beginning_is_a_held_gate(tmp_path):
    gru = cells.get("gru")
    layers = Recurrent(gru, 3, 5, batch_first=True)
    held = Recurrent(hold(gru, {"z": 0.25}), 3, 5, batch_first=True)
    weights = layers.state_dict()
    held.load_state_dict({name: weights[name] for name in held.state_dict()})
    xs = torch.randn(1, 6, 3, dtype=torch.float64)
    expected = held.double()(xs)[0][0].detach()
    ran = exported(network_of(layers), tmp_path).ask(xs=xs[0].numpy(), clamps=[{"value": "z", "to": 0.25}])
    assert relative(ran["answers"], expected.ravel()) <= 1e-12


def test_clamped_states_are_those_that_analyses_change(tmp_path):
    layers = Recurrent("lstm", 3, 5, batch_first=True).double()
    xs = torch.randn(1, 6, 3, dtype=torch.float64)

    def change(_, step, states):
        h, c = (state.clone() for state in states)
        if step >= 2:
            c[:, 1] = 0.5
        return h, c

    expected = unroll(layers, xs, change=change).output.detach()
    clamps = [{"value": "c", "units": [1], "to": 0.5, "from": 2}]
    ran = exported(network_of(layers), tmp_path).ask(xs=xs[0].numpy(), clamps=clamps)
    assert relative(ran["answers"], expected.ravel()) <= 1e-7


def test_gates_are_those_of_the_eager_engine_and_clamps_end_with_the_network(tmp_path):
    layers = Recurrent("lstm", 3, 5, 2, batch_first=True).double()
    node = exported(network_of(layers), tmp_path)
    xs = torch.randn(1, 6, 3, dtype=torch.float64)
    histories = unroll(layers, xs, watch=True).histories
    node.ask(xs=xs[0].numpy(), clamps=CLAMPS[:3])
    recorded = node.ask(xs=xs[0].numpy(), record=True)["layers"]  # without any clamp
    for layer, history in zip(recorded, histories, strict=True):
        assert list(layer["gates"]) == list(history.gates)
        for name, gate in history.gates.items():
            assert relative(layer["gates"][name], gate[:, 0].detach().ravel()) <= 1e-7


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"xs": [1.0, 2.0]}, "a sequence has 2 numbers: expected 3 for each step"),
        ({"xs": []}, "the sequence has no steps"),
        ({"clamps": [{"value": "q", "to": 0}]}, "there is no gate or state q: expected one of r, z, n, h"),
        ({"clamps": [{"value": "z", "to": 0, "layer": 1}]}, "there is no layer 1: expected one from 0 to 0"),
        ({"clamps": [{"value": "z", "to": 0, "units": [5]}]}, "there is no unit 5: expected one from 0 to 4"),
        ({"clamps": [{"value": "z", "to": [0, 1]}]}, "z is clamped to 2 numbers: expected a number, 5 numbers"),
        ({"clamps": [{"value": "z"}]}, "z is clamped to undefined: expected a number, 5 numbers"),
        ({"clamps": [{"value": "z", "to": 0, "direction": "bwd"}]}, "there is no direction bwd: expected fwd"),
        ({"of": [1.0]}, "1 weights: expected 3, one per output"),
        ({"of": 0, "at": 2}, "there is no step 2: expected one from 0 to 1"),
    ],
)
def test_what_is_refused(question, message, gru_in_node):
    with pytest.raises(GatelabError, match=re.escape(message)):
        gru_in_node.ask(**{"xs": [0.0] * 6, **question})


@pytest.fixture(scope="module")
def gru_in_node(tmp_path_factory):
    torch.manual_seed(0)
    return exported(network_of(model_of("gru")), tmp_path_factory.mktemp("gru"))


def test_what_is_no_token_is_refused(tmp_path):
    node = exported(network_of(model_of("gru", embedding_size=4)), tmp_path)
    assert len(node.ask(xs=[0, 2])["answer"]) == 3
    for token in (3, -1, 0.5):
        with pytest.raises(GatelabError, match=f"{token} is not a token: expected an integer from 0 to 2"):
            node.ask(xs=[0, token])


def test_names_that_javascript_or_the_loops_use(tmp_path):
    @cell
    def names(x, arguments, saved0, W, U, b, *, NaN=0.5):
        sums = sigmoid(W.new(x) + U.delete(arguments) + b.j)
        step = tanh(W.saved0(x) + NaN * saved0)
        σ = sums * step + b.free_h
        gate_sums = σ + saved0
        return sums * arguments + (1 - sums) * gate_sums, 0.5 * σ

    model = model_of(names, 2)
    compare_gradients(model, network_of(model), tmp_path, clamps=[{"value": "σ", "units": [1], "to": 0.5}])


def test_the_weights_of_another_network_are_refused(tmp_path):
    exported(network_of(model_of("gru"), "small"), tmp_path)
    exported(network_of(model_of("lstm"), "other"), tmp_path)
    shutil.copy(tmp_path / "other" / "other.weights.mjs", tmp_path / "small" / "small.weights.mjs")
    with pytest.raises(GatelabError, match=r"the weights have no layers.0.fwd.W.n: expected those of small"):
        NodeProcess(tmp_path / "small", "small")


def test_without_node_the_export_is_not_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeMissingError, match="node is not installed"):
        NodeProcess(tmp_path, "network")
    assert to_js(model_of("gru"), tmp_path / "out").unchecked.startswith("node is not installed")


# ---- pages -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A run on the bundled digits, and its export."""
    folder = tmp_path_factory.mktemp("digits")
    spec = RunSpec(
        task="digits",
        model=ModelSpec(cell="gru", hidden_size=32, num_layers=1, dropout=0.0, engine="native"),
        optimization=OptimizationSpec(learning_rate=0.01),
        training=TrainingSpec(num_epochs=4, batch_size=32, threads=1),
    )
    train(spec, folder / "digits")
    to_js(folder / "digits", folder / "web")
    return folder


def page_of_the_documentation() -> str:
    text = (DOCS / "export" / "js.md").read_text("utf-8")
    (page,) = re.findall(r"```html\n(.*?)```", text, re.S)
    return page


def test_the_page_of_the_documentation_reads_a_digit_from_disk(digits, open_page):
    page = digits / "web" / "page.html"
    page.write_text(page_of_the_documentation(), "utf-8")
    view = open_page(page, 1000, "light")
    pixels = view.evaluate("pixels")
    trained = gatelab.load(digits / "digits")
    expected = trained.predict_proba(np.array(pixels, np.uint8).reshape(1, 8, 8))[0]
    assert view.inner_text("#answer") == str(trained.classes[expected.argmax()])
    assert view.inner_text("#share") == f"p = {expected.max():.2f}"
    answer = view.evaluate("Array.from(network.run(pixels).answer)")
    np.testing.assert_allclose(torch.tensor(answer).softmax(0), expected, atol=1e-5)
    view.click("#clear")
    view.mouse.move(*center(view, 0.3))
    view.mouse.down()
    view.mouse.move(*center(view, 0.7), steps=4)
    view.mouse.up()
    assert set(view.evaluate("pixels")) == {0, 16}


def center(view, part: float) -> tuple[float, float]:
    box = view.locator("#digit").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] * part


def test_modules_work_inline_on_a_page_from_disk(tmp_path, open_page):
    model = model_of("gru")
    hostile = "</script><script>alert(1)</script>\u2028<!-- ü"
    net = replace(network_of(model), columns=("a", hostile, "*/"), classes=("x", "y", hostile))
    node = exported(net, tmp_path)
    parts = [(tmp_path / "network" / f"network{kind}.mjs").read_text("utf-8") for kind in ("", ".weights")]
    script = "\n".join(parts).replace("export { about, create };", "").replace("export const", "const")
    inline = f"<script type=module>{script}\nglobalThis.network = create(weights);</script>"
    (tmp_path / "inline.html").write_text(f"<!doctype html><meta charset=utf-8>{inline}", "utf-8")
    view = open_page(tmp_path / "inline.html", 800, "light")
    xs = [0.5, -1.0, 2.0, 0.1, 0.2, 0.3]
    assert view.evaluate("(xs) => Array.from(network.run(xs).answer)", xs) == node.ask(xs=xs)["answer"]
    assert view.evaluate("network.about.classes") == ["x", "y", hostile] == node.ask()["about"]["classes"]
    assert view.evaluate("network.about.columns") == ["a", hostile, "*/"]
