"""ONNX files: every cell in ONNX Runtime, OpenVINO and tract; operators, names, states, what a reader finds in them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import exported
import numpy as np
import onnx
import onnxruntime
import pytest

from gatelab import Recurrent, cell, cells, clamp, full, learned, prev, sigmoid, softplus, step, tanh, where
from gatelab.errors import GatelabError
from gatelab.export import network_of, to_onnx
from gatelab.export.check import TOLERANCE, Carried, Runner, check
from gatelab.export.network import Network
from gatelab.export.onnx_graph import runner, write
from gatelab.export.onnx_names import answer_name, input_name, next_names
from gatelab.export.target import Settings
from gatelab.lang.document import from_document, to_document
from gatelab.models import StepPredictor
from gatelab.tasks.scaling import Scaling
from gatelab.training import ModelSpec, OptimizationSpec, Run, RunSpec, TrainingSpec, train

SAMPLE = (*exported.SAMPLE, "rnn", "layer_norm_gru", "slstm", "mingru", "tau_gru")
# Rounding errors grow from step to step: in float32, torch itself is as far from float64.
AMPLIFIES_ROUNDING = {"layer_norm_lstm"}

# Runtimes.


def in_openvino(whole: Network, path: Path) -> Runner:
    openvino = pytest.importorskip("openvino")
    # On some processors, it would compute in bfloat16 by default.
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = openvino.Core().compile_model(str(path), "CPU", settings)
    outputs = [answer_name(whole), *next_names(whole).values()]

    def run(x: np.ndarray, carried: Carried) -> tuple[np.ndarray, Carried]:
        results = compiled({input_name(whole): x, **carried})
        answer, *following = [np.array(results[name]) for name in outputs]
        return answer, dict(zip(whole.carried, following, strict=True))

    return run


def in_tract(whole: Network, path: Path) -> Runner:
    tract = pytest.importorskip("tract")
    model = tract.onnx().load(str(path)).into_model().into_runnable()

    def run(x: np.ndarray, carried: Carried) -> tuple[np.ndarray, Carried]:
        answer, *following = [each.to_numpy() for each in model.run([x, *(carried[name] for name in whole.carried)])]
        return answer, dict(zip(whole.carried, following, strict=True))

    return run


RUNTIMES: dict[str, Callable[[Network, Path], Runner]] = {
    "onnxruntime": runner,
    "openvino": in_openvino,
    "tract": in_tract,
}


def difference(model: object, whole: Network, folder: Path, runtime: str = "onnxruntime") -> float:
    write(whole, folder / "a.onnx", Settings())
    return check(model, whole, RUNTIMES[runtime](whole, folder / "a.onnx")).difference


@pytest.mark.parametrize("name", SAMPLE)
def test_cell(name, tmp_path):
    found = to_onnx(exported.classifier(name, 2), tmp_path / "a.onnx").checked.difference
    assert found < (1e-4 if name in AMPLIFIES_ROUNDING else TOLERANCE)


@pytest.mark.export
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", cells.names())
def test_every_cell(name, layers, runtime, tmp_path):
    model = exported.classifier(name, layers)
    found = difference(model, network_of(model), tmp_path, runtime)
    assert found < (1e-4 if name in AMPLIFIES_ROUNDING else TOLERANCE)


@pytest.mark.parametrize("kind", exported.KINDS)
def test_kind_of_model(kind, tmp_path):
    model, whole = exported.kinds()[kind]
    assert difference(model, whole, tmp_path) < 1e-6


@pytest.mark.export
@pytest.mark.parametrize("runtime", ["openvino", "tract"])
@pytest.mark.parametrize("kind", exported.KINDS)
def test_kind_of_model_elsewhere(kind, runtime, tmp_path):
    if (kind, runtime) == ("bidirectional steps", "tract"):
        pytest.skip("tract 0.23 takes the batch for 1 in one bidirectional LSTM layer")
    model, whole = exported.kinds()[kind]
    assert difference(model, whole, tmp_path, runtime) < 1e-6


@pytest.mark.parametrize("name", ["mgu", "qrnn", "gru_cho", "slstm"])
def test_both_directions_with_a_residual_connection(name, tmp_path):
    """By Scan as well as by an operator; delayed inputs come from the other side."""
    model = exported.classifier(name, 3, bidirectional=True, residual=True)
    assert difference(model, network_of(model), tmp_path) < 1e-6


# Cells of the user's own.


@cell
def conditions(x, h, W, U, b, *, rate=learned(0.3)):
    """Conditions on parameters alone, numbers beyond the range of exp, a gate that has the name of an option."""
    g = where(b.g > 0, W.g(x), U.g(h))
    rate = sigmoid(rate)
    grown = softplus(100 * h) * 0.01
    return tanh(g * rate + clamp(h, -0.5, 0.5) + 0.1 * step(h) + grown + full(0.25))


@cell
def without_recurrence(x, y, c, W, b):
    """The output depends on no state, the second state on itself only."""
    return tanh(W.y(x) + prev(W.z(x), 2) + b.y), 0.5 * c + W.y(x)


@cell
def without_states(x, y, W, b):
    """No value depends on a state."""
    return tanh(W.y(x) + prev(W.z(x)) + b.y)


@cell
def constant_state(x, h, c, W, U):
    """A state that is the same at every step."""
    return tanh(W.h(x) + U.h(h) + c), full(0.5)


@cell
def without_input(x, h, U, b):
    """Nothing is read."""
    return tanh(U.h(h) + b.h + full(0.3))


@cell
def ambiguous(u, x, output, x_next, W, U, b):
    """States with the names of inputs and outputs of the file."""
    return tanh(W.x(u) + U.x(output) + b.x), tanh(output + x), 0.5 * x_next + x


OWN = (
    exported.own, exported.where_the_input_is, exported.two_masks, conditions, without_recurrence, without_states,
    constant_state, without_input, ambiguous,
)  # fmt: skip


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("own", OWN, ids=lambda own: own.name)
def test_own_cell(own, bidirectional, tmp_path):
    layers = Recurrent(own, 5, 8, 2, bidirectional=bidirectional)
    assert difference(layers, network_of(layers), tmp_path) < TOLERANCE


@pytest.mark.export
@pytest.mark.parametrize("runtime", ["openvino", "tract"])
@pytest.mark.parametrize(
    "own", [exported.own, exported.where_the_input_is, conditions, without_recurrence, without_states, ambiguous]
)
def test_own_cell_elsewhere(own, runtime, tmp_path):
    layers = Recurrent(own, 5, 8, 2)
    assert difference(layers, network_of(layers), tmp_path, runtime) < TOLERANCE


# Scaling.


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_mean_far_larger_than_the_deviation_costs_no_digits(runtime, tmp_path):
    model = StepPredictor("gru", 2, 8, 1)
    scale = Scaling(np.array([12345.678, 98765.4321]), np.array([0.7, 0.3]))
    assert difference(model, replace(network_of(model), input_scale=scale), tmp_path, runtime) < 1e-6


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])  # tract's sigmoid of NaN is a number
def test_not_a_number_stays_not_a_number(runtime, tmp_path):
    """What is between two subtractions for OpenVINO's sake is the identity."""
    model = StepPredictor("mgu", 1, 4, 1)
    whole = replace(network_of(model), input_scale=Scaling(np.array([1000.0]), np.array([0.5])))
    write(whole, tmp_path / "a.onnx", Settings())
    x = np.array([[[1000.0], [np.nan], [1001.0]]], np.float32)
    answer, _ = RUNTIMES[runtime](whole, tmp_path / "a.onnx")(x, {"h": np.zeros((1, 1, 4), np.float32)})
    assert np.isnan(answer[0, :, 0]).tolist() == [False, True, True]


# Operators.


def read(path: Path) -> onnx.ModelProto:
    return onnx.load(path)


def body(model: onnx.ModelProto) -> onnx.GraphProto:
    scan = next(node for node in model.graph.node if node.op_type == "Scan")
    return next(attribute.g for attribute in scan.attribute if attribute.name == "body")


@pytest.mark.parametrize(
    ("name", "operator"),
    [("rnn", "RNN"), ("gru", "GRU"), ("gru_cho", "GRU"), ("lstm", "LSTM"), ("mgu", "Scan"), ("peephole_lstm", "Scan")],
)
@pytest.mark.parametrize("from_file", [False, True])
def test_the_operator_of_onnx_is_used_where_it_is_the_cell(name, operator, from_file, tmp_path):
    equations = from_document(to_document(cells.get(name))) if from_file else cells.get(name)
    to_onnx(Recurrent(equations, 5, 8), tmp_path / "a.onnx")
    found = {node.op_type for node in read(tmp_path / "a.onnx").graph.node}
    assert found & {"RNN", "GRU", "LSTM", "Scan"} == {operator}


@pytest.mark.parametrize("name", ["gru", "gru_cho"])
def test_the_wrong_side_of_the_reset_gate_is_noticed(name, tmp_path):
    layers = Recurrent(name, 5, 8)
    to_onnx(layers, tmp_path / "a.onnx")
    model = read(tmp_path / "a.onnx")
    gru = next(node for node in model.graph.node if node.op_type == "GRU")
    side = next(attribute for attribute in gru.attribute if attribute.name == "linear_before_reset")
    assert side.i == (1 if name == "gru" else 0)
    side.i = 1 - side.i
    onnx.save(model, tmp_path / "b.onnx")
    whole = network_of(layers)
    with pytest.raises(GatelabError, match="differ"):
        check(layers, whole, runner(whole, tmp_path / "b.onnx"))


def test_a_step_computes_only_what_depends_on_a_state(tmp_path):
    for name, products in [("mingru", 0), ("qrnn", 0), ("mgu", 2), ("agru", 3)]:
        to_onnx(Recurrent(name, 5, 8), tmp_path / "a.onnx")
        assert [node.op_type for node in body(read(tmp_path / "a.onnx")).node].count("MatMul") == products
    # Delayed inputs are no state of the Scan, nor is an output that nothing reads.
    to_onnx(Recurrent("qrnn", 5, 8), tmp_path / "a.onnx")
    graph = body(read(tmp_path / "a.onnx"))
    assert [value.name for value in graph.output] == ["layer0.c_next", "layer0.h_output"]


# What a reader finds in the file.


def shape(value: onnx.ValueInfoProto) -> tuple[str | int, ...]:
    return tuple(dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim)


def test_names_are_those_of_the_equations(tmp_path):
    to_onnx(Recurrent("mgu", 5, 8, 2), tmp_path / "a.onnx")
    graph = read(tmp_path / "a.onnx").graph
    assert {value.name: shape(value) for value in graph.input} == {"x": ("B", "T", 5), "h": (2, "B", 8)}
    assert {value.name: shape(value) for value in graph.output} == {"output": ("B", "T", 8), "h_next": (2, "B", 8)}
    weights = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    assert weights["layer0.W.f.T"] == (5, 8)
    assert weights["layer1.U.n.T"] == (8, 8)
    assert weights["layer1.b.n"] == (8,)
    step = body(read(tmp_path / "a.onnx"))
    assert {"layer0.f", "layer0.n", "layer0.U.f(h)"} <= {name for node in step.node for name in node.output}
    assert all(node.name == node.output[0] for node in step.node)
    assert "f = σ(W_f x + U_f h + b_f)" in graph.doc_string


def test_stacked_weights_say_their_order(tmp_path):
    to_onnx(Recurrent("gru_cho", 5, 8, bidirectional=True), tmp_path / "a.onnx")
    stacked = {tensor.name: tensor for tensor in read(tmp_path / "a.onnx").graph.initializer}
    assert stacked["layer0.W"].doc_string == "stacked: -W.z, W.r, W.n"
    assert tuple(stacked["layer0.U"].dims) == (2, 24, 8)
    to_onnx(Recurrent("gru", 5, 8), tmp_path / "a.onnx")
    stacked = {tensor.name: tensor for tensor in read(tmp_path / "a.onnx").graph.initializer}
    assert stacked["layer0.b"].doc_string == "stacked: b.z, b.r, b.n, 0, 0, b.hn"


def test_every_initializer_is_used(tmp_path):
    for name in ("gru", "agru", "zoneout_lstm"):
        to_onnx(exported.classifier(name, 2), tmp_path / "a.onnx")
        model = read(tmp_path / "a.onnx")
        graphs = [model.graph, *(a.g for node in model.graph.node for a in node.attribute if a.name == "body")]
        used = {name for graph in graphs for node in graph.node for name in node.input}
        assert {tensor.name for tensor in model.graph.initializer} <= used


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Run:
    spec = RunSpec(
        task="digits",
        model=ModelSpec(hidden_size=16, pool="mean"),
        optimization=OptimizationSpec(learning_rate=0.02),
        training=TrainingSpec(num_epochs=3, batch_size=64, threads=1),
    )
    return train(spec, tmp_path_factory.mktemp("runs") / "digits").run


def test_a_run_brings_its_classes(digits, tmp_path):
    to_onnx(digits, tmp_path / "a.onnx")
    model = read(tmp_path / "a.onnx")
    assert [value.name for value in model.graph.input] == ["x", "h", "total", "steps"]
    assert [value.name for value in model.graph.output] == ["scores", "h_next", "total_next", "steps_next"]
    about = {prop.key: prop.value for prop in model.metadata_props}
    assert json.loads(about["classes"]) == list("0123456789")
    assert about["cell"] == "gru"
    assert about["equations"] == cells.gru.text()
    assert json.loads(about["carried"])["h"] == {"next": "h_next", "meaning": "state h of each layer, (L, B, H)"}
    assert model.producer_name == "gatelab"


def test_a_sequence_in_pieces_gives_the_same_by_the_names_in_the_file(digits, tmp_path):
    to_onnx(digits, tmp_path / "a.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "a.onnx")
    first, *others = session.get_inputs()
    about = json.loads(session.get_modelmeta().custom_metadata_map["carried"])
    x = digits.spec().task.test.stored[:3].numpy().astype(np.float32)
    assert first.shape == ["B", "T", 8]

    def scores(*pieces: np.ndarray) -> np.ndarray:
        carried = {i.name: np.zeros([3 if size == "B" else size for size in i.shape], np.float32) for i in others}
        for piece in pieces:
            named = [output.name for output in session.get_outputs()]
            results = dict(zip(named, session.run(None, {"x": piece, **carried}), strict=True))
            carried = {name: results[each["next"]] for name, each in about.items()}
        return results["scores"]

    np.testing.assert_allclose(scores(x[:, :1], x[:, 1:6], x[:, 6:]), scores(x), rtol=1e-5, atol=1e-6)


# A fixed number of steps.


@pytest.mark.parametrize("kind", ["mean", "bidirectional", "embedding", "layers alone", "attention", "estimator"])
def test_the_time_axis_can_be_fixed(kind, tmp_path):
    model, whole = exported.kinds()[kind]
    done = to_onnx(model, tmp_path / "a.onnx", chunk=4)
    assert done.checked.difference < 1e-6
    assert shape(read(tmp_path / "a.onnx").graph.input[0])[:2] == ("B", 4)
    x = np.zeros((1, 5) if whole.tokens else (1, 5, whole.input_size), np.int64 if whole.tokens else np.float32)
    carried = {name: np.zeros([size or 1 for size in each], np.float32) for name, each in whole.carried.items()}
    with pytest.raises(Exception, match="Got: 5 Expected: 4"):
        runner(whole, tmp_path / "a.onnx")(x, carried)


def test_the_command_fixes_the_time_axis(digits, tmp_path, cli):
    code, said, err = cli("export", digits.path, "--to", "onnx", "--out", tmp_path / "a.onnx", "--chunk", 8)
    assert code == 0, err
    assert "checked in ONNX Runtime: largest difference" in said
    assert shape(read(tmp_path / "a.onnx").graph.input[0]) == ("B", 8, 8)
    code, _, err = cli("export", digits.path, "--to", "onnx", "--out", tmp_path / "a.onnx", "--chunk", 0)
    assert code == 2
    assert "--chunk is 0: expected a number of steps" in err


# Without the packages.


def test_without_onnx_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(GatelabError, match=r"pip install 'gatelab\[onnx\]'"):
        to_onnx(Recurrent("gru", 5, 8), tmp_path / "a.onnx")
    assert list(tmp_path.iterdir()) == []


def test_without_onnx_runtime_the_file_is_said_to_be_unchecked(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    done = to_onnx(Recurrent("gru", 5, 8), tmp_path / "a.onnx")
    assert done.checked is None
    assert "pip install 'gatelab[onnx]'" in done.unchecked
    assert (tmp_path / "a.onnx").is_file()
