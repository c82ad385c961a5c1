"""Keras: layers and models in both directions, with the same outputs and states."""

from __future__ import annotations

import builtins
import dataclasses
import itertools
import json
import os
import re
import zipfile

import exported
import numpy as np
import pytest
import torch
from places import DOCS

from gatelab import GatelabError, Recurrent, cell, cells, sigmoid
from gatelab.export import from_keras, network_of, to_keras
from gatelab.export.check import TOLERANCE, check
from gatelab.export.keras_model import runner, write
from gatelab.models import SequenceClassifier, StepPredictor
from gatelab.tasks.scaling import Scaling

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="Keras is not installed: pip install 'gatelab[keras]'")

# Keras 3.15 reads torch's tensors in a way that NumPy 2 has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")

PAGE = DOCS / "export" / "keras.md"
CELLS = ("gru", "gru_cho", "lstm", "rnn")
KINDS = {
    "GRU, reset after": ("GRU", {"reset_after": True}, "gru"),
    "GRU, reset before": ("GRU", {"reset_after": False}, "gru_cho"),
    "LSTM": ("LSTM", {}, "lstm"),
    "SimpleRNN": ("SimpleRNN", {}, "rnn"),
}
READS = ("last", "mean", "max", "mean+max", "attention", "steps")
SAMPLED = (0, 4, 7, 11, 15, 21, 26, 34, 38, 47)  # of 48 kinds of models: each cell twice, each way to read once
D, H = 3, 5


def made(kind: str, **options):
    """A recurrent layer of Keras."""
    name, own, _ = KINDS[kind]
    return getattr(keras.layers, name)(H, **{"return_sequences": True, **own, **options})


def random_weights(layer) -> None:
    """Also biases, which Keras starts from zero."""
    generator = np.random.default_rng(0)
    layer.set_weights([generator.normal(0, 0.5, np.shape(w)).astype(np.float32) for w in layer.get_weights()])


def stack(kind: str, layers: int, bidirectional: bool):
    """A model of stacked layers that returns the states of the last one."""
    x = keras.Input((None, D))
    values = x
    for number in range(layers):
        layer = made(kind, return_state=number == layers - 1)
        both = keras.layers.Bidirectional(layer) if bidirectional else layer
        values = both(values)
    model = keras.Model(x, values)
    random_weights(model)
    return model


def sequences(batch: int = 4, steps: int = 7) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((batch, steps, D)).astype(np.float32)


def arrays(values) -> list[np.ndarray]:
    return [keras.ops.convert_to_numpy(value) for value in values]


def close(got, expected) -> None:
    scale = max(1.0, np.abs(expected).max())
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= TOLERANCE * scale


@pytest.mark.parametrize(
    ("layers", "bidirectional"),
    [(1, False), (2, True), *(pytest.param(*other, marks=pytest.mark.export) for other in ((1, True), (2, False)))],
)
@pytest.mark.parametrize("kind", KINDS)
def test_from_keras_and_back(kind, layers, bidirectional, tmp_path):
    """Outputs and states are the same in gatelab, and in the model that gatelab writes."""
    model = stack(kind, layers, bidirectional)
    x = sequences()
    outputs, *states = arrays(model(x))
    layer = from_keras(model)
    assert layer.cell is cells.get(KINDS[kind][2])
    with torch.no_grad():
        own, final = layer(torch.from_numpy(x))
    close(own.numpy(), outputs)
    last = [state[-2:] if bidirectional else state[-1:] for state in (final if isinstance(final, tuple) else (final,))]
    of_each_direction = [state[way].numpy() for way in range(len(last[0])) for state in last]
    for got, expected in zip(of_each_direction, states, strict=True):
        close(got, expected)
    done = to_keras(layer, tmp_path / "again.keras")
    assert done.checked.difference <= TOLERANCE
    again = keras.models.load_model(done.path)
    zeros = [] if bidirectional else [np.zeros((4, H), np.float32) for _ in again.inputs[1:]]
    results = again([x, *zeros]) if zeros else [again(x)]
    close(arrays(results)[0], outputs)
    # Weight for weight, where Keras does not have two biases for one.
    if kind != "GRU, reset after":
        recurrent = [each for each in again.layers if each.name.startswith(KINDS[kind][2])]
        for got, expected in zip(from_keras(recurrent).state_dict().items(), layer.state_dict().items(), strict=True):
            assert got[0] == expected[0]
            assert torch.equal(got[1], expected[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_layer_and_a_sequential_model(kind):
    layer = made(kind)
    model = keras.Sequential([keras.Input((None, D)), layer])
    random_weights(layer)
    x = sequences()
    for source in (layer, model, [layer]):
        with torch.no_grad():
            close(from_keras(source)(torch.from_numpy(x))[0].numpy(), arrays([model(x)])[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_without_biases(kind):
    layer = made(kind, use_bias=False)
    layer.build((None, None, D))
    random_weights(layer)
    converted = from_keras(layer)
    frozen = {name for name, parameter in converted.named_parameters() if not parameter.requires_grad}
    assert frozen == {name for name, _ in converted.named_parameters() if ".b." in name}
    assert not any(converted.get_parameter(name).any() for name in frozen)
    x = sequences()
    with torch.no_grad():
        close(converted(torch.from_numpy(x))[0].numpy(), arrays([layer(x)])[0])


def test_frozen_layers_and_double_precision():
    layer = made("LSTM", dtype="float64")
    layer.build((None, None, D))
    layer.trainable = False
    converted = from_keras(layer)
    assert not any(parameter.requires_grad for parameter in converted.parameters())
    assert {parameter.dtype for parameter in converted.parameters()} == {torch.float64}


REFUSED = {
    "activation": (lambda: made("GRU, reset after", activation="relu"), "activation='relu': expected 'tanh'"),
    "recurrent activation": (
        lambda: made("LSTM", recurrent_activation="hard_sigmoid"),
        "recurrent_activation='hard_sigmoid': expected 'sigmoid'",
    ),
    "relu": (lambda: made("SimpleRNN", activation="relu"), "activation='relu'"),
    "backwards": (lambda: made("LSTM", go_backwards=True), "go_backwards=True: expected False; reverse the input"),
    "stateful": (lambda: made("LSTM", stateful=True), "stateful=True"),
    "merge": (
        lambda: keras.layers.Bidirectional(made("LSTM"), merge_mode="sum"),
        "merge_mode='sum': expected 'concat'",
    ),
    "dense": (lambda: keras.layers.Dense(3), "a Dense: expected GRU, LSTM, SimpleRNN or Bidirectional"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_converted(what):
    make, message = REFUSED[what]
    layer = make()
    layer.build((2, 4, D))
    with pytest.raises(GatelabError, match=re.escape(message)):
        from_keras(layer)


def test_models_and_lists_that_cannot_be_converted():
    gru, lstm, cut = made("GRU, reset after"), made("LSTM"), made("LSTM", return_sequences=False)
    with pytest.raises(GatelabError, match="has no weights yet"):
        from_keras(gru)
    for layer in (gru, lstm, cut):
        layer.build((None, None, D))
    with pytest.raises(GatelabError, match="expected the same kind and size"):
        from_keras([gru, lstm])
    with pytest.raises(GatelabError, match="return_sequences=False: expected True below another layer"):
        from_keras([cut, lstm])
    with pytest.raises(GatelabError, match="no layers"):
        from_keras([])
    with pytest.raises(GatelabError, match="a Dense: expected recurrent layers only; give the recurrent layers"):
        from_keras(keras.Sequential([keras.Input((None, D)), lstm, keras.layers.Dense(2)]))
    x = keras.Input((None, D))
    beside = keras.Model(x, [made("LSTM", name="one")(x), made("LSTM", name="other")(x)])
    with pytest.raises(GatelabError, match="'other' does not read the output of 'one'"):
        from_keras(beside)
    with pytest.raises(GatelabError, match="a str"):
        from_keras(["lstm"])


def test_dropout_is_left_out_with_a_warning():
    layer = made("LSTM", dropout=0.2)
    layer.build((None, None, D))
    with pytest.warns(UserWarning, match="leaves out the dropout"):
        from_keras(layer)


def checked(source, path, **changes) -> float:
    whole = dataclasses.replace(network_of(source), **changes)
    write(whole, path / "model.keras", None)
    return check(source, whole, runner(whole, path / "model.keras")).difference


@pytest.mark.parametrize(
    ("name", "bidirectional", "read"),
    [
        pytest.param(*each, marks=() if number in SAMPLED else pytest.mark.export)
        for number, each in enumerate(itertools.product(CELLS, [False, True], READS))
    ],
)
def test_models(name, read, bidirectional, tmp_path):
    """Scaling, two layers with residual connections, head; whole and in pieces, with all that is carried."""
    if read == "steps":
        source = StepPredictor(name, D, H, 4, 2, bidirectional=bidirectional, residual=True).eval()
    else:
        source = SequenceClassifier(name, D, H, 4, 2, pool=read, bidirectional=bidirectional, residual=True).eval()
        exported.as_trained(source)
    scale = Scaling(np.array([1e6, -3.0, 0.1]), np.array([0.5, 20.0, 1e-9]))
    assert checked(source, tmp_path, input_scale=scale) <= TOLERANCE


@pytest.mark.parametrize("pool", [pytest.param("attention", marks=pytest.mark.export), "mean+max"])
@pytest.mark.parametrize("bidirectional", [pytest.param(False, marks=pytest.mark.export), True])
def test_stems(bidirectional, pool, tmp_path):
    options = {"stem": "conv", "pool": pool, "bidirectional": bidirectional, "residual": True}
    source = exported.as_trained(SequenceClassifier("gru", D, H, 4, 2, **options).eval())
    assert (
        checked(source, tmp_path, input_scale=Scaling(np.array([1e6, -3.0, 0.1]), np.array([0.5, 20.0, 1e-9])))
        <= TOLERANCE
    )


@pytest.mark.parametrize("embedding", [None, 3])
def test_tokens(embedding, tmp_path):
    source = StepPredictor("gru", 6, H, 6, 1, embedding_size=embedding).eval()
    assert checked(source, tmp_path, tokens=True) <= TOLERANCE


def test_changes_of_a_series(tmp_path):
    source = StepPredictor("lstm", 2, H, 2, 2).eval()
    scale = Scaling(np.array([0.1, -3.0]), np.array([0.5, 20.0]))
    assert checked(source, tmp_path, input_scale=scale, output_scale=scale, differenced=2) <= TOLERANCE
    source = StepPredictor("gru", 3, H, 1, 1).eval()
    changes = {"input_scale": Scaling(np.zeros(3), np.ones(3)), "output_scale": Scaling(np.ones(1), np.ones(1))}
    assert checked(source, tmp_path, differenced=1, **changes) <= TOLERANCE


def test_names_of_inputs_outputs_and_classes(tmp_path):
    source = SequenceClassifier("lstm", D, H, 2, 2, pool="mean").eval()
    write(dataclasses.replace(network_of(source), classes=("left", "right")), tmp_path / "model.keras", None)
    model = keras.models.load_model(tmp_path / "model.keras")
    states = ["h_0", "c_0", "h_1", "c_1", "total", "steps"]
    assert [each.name for each in model.inputs] == ["x", *states]
    assert model.output_names == ["answer", *(f"next_{name}" for name in states)]
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        assert json.loads(archive.read("gatelab.json"))["classes"] == ["left", "right"]


def test_a_wrong_weight_is_noticed(tmp_path):
    source = Recurrent("gru_cho", D, H)
    write(network_of(source), tmp_path / "model.keras", None)
    model = keras.models.load_model(tmp_path / "model.keras")
    layer = model.get_layer("gru_cho_0")
    kernel, *others = layer.get_weights()
    kernel[:, :H] *= -1  # as if the sign of z had not been changed
    layer.set_weights([kernel, *others])
    model.save(tmp_path / "wrong.keras")
    with pytest.raises(GatelabError, match="differ"):
        check(source, network_of(source), runner(network_of(source), tmp_path / "wrong.keras"))


@cell
def other(x, h, W, U, b):
    """A gate of its own."""
    return sigmoid(W.h(x) + U.h(h) + b.h)


@pytest.mark.parametrize("name", ["mgu", other])
def test_cells_that_keras_does_not_have(name, tmp_path):
    with pytest.raises(GatelabError, match=r"Keras has no cell '(mgu|other)' \(it has: gru, gru_cho, lstm, rnn\)"):
        to_keras(Recurrent(name, D, H), tmp_path / "model.keras")
    assert not (tmp_path / "model.keras").exists()


@pytest.mark.parametrize("missing", ["keras", "tensorflow"])
def test_without_keras_or_its_backend(missing, tmp_path, monkeypatch):
    imported = builtins.__import__

    def without(name, *rest, **named):
        if name == "keras":
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
        return imported(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    remedy = {"keras": r"pip install 'gatelab\[keras\]'", "tensorflow": "KERAS_BACKEND, such as torch"}[missing]
    with pytest.raises(GatelabError, match=remedy):
        to_keras(Recurrent("gru", D, H), tmp_path / "model.keras")
    with pytest.raises(GatelabError, match=remedy):
        from_keras(object())


def test_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exported.run_page(PAGE)
