"""Invalid arguments of the layer: errors say what was given, what was expected, what to do."""

from __future__ import annotations

import math
import sys

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from gatelab import CellError, GatelabError, Recurrent, cell, learned, sigmoid, tanh


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell": "grru"}, r"unknown cell 'grru'; did you mean 'gru'\?"),
        ({"cell": 3}, "expected a name .* or a function decorated with @gatelab.cell"),
        ({"engine": "eagre"}, "unknown engine 'eagre'; did you mean 'eager'"),
        ({"cell": "agru", "engine": "native"}, "engine 'native' does not support cell 'agru'"),
        ({"hidden_size": 0}, "hidden_size is 0: expected a positive integer"),
        ({"input_size": -1}, "input_size is -1"),
        ({"num_layers": 1.5}, "num_layers is 1.5"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"dropout": 1.0}, "dropout is 1.0: expected a probability"),
        ({"dropout": math.nan}, "dropout is nan"),
        ({"cell": "agru", "epsilom": 1.0}, "did you mean 'epsilon'"),
        ({"cell": "agru", "epsilon": math.inf}, "'epsilon' of cell 'agru' is inf: expected a finite number"),
        ({"cell": "agru", "epsilon": "a"}, "expected a finite number"),
        ({"cell": "agru", "epsilon": learned(0.5)}, "pass the number, and learnable_...=True"),
        ({"bidirectionl": True}, "did you mean 'bidirectional'"),
        ({"bidirectional": "no"}, "expected True or False"),
        ({"gate_bias": {"z": "1"}}, "finite number"),
        ({"cell": "LSTMM"}, "did you mean 'lstm'"),
        ({"cell": "agru", "learnable_epsilon": 1}, "expected True or False"),
        ({"epsilon": 1.0}, "unknown option of cell 'gru': 'epsilon'"),
    ],
)
def test_invalid_options(options, message):
    with pytest.raises(ValueError, match=message):
        Recurrent(**{"cell": "gru", "input_size": 3, "hidden_size": 4} | options)


@pytest.mark.parametrize(("name", "value"), [("dropout", 0.5), ("residual", True)])
def test_options_without_effect_warn(name, value):
    with pytest.warns(UserWarning, match=f"{name}={value} has no effect with num_layers=1"):
        Recurrent("gru", 3, 4, **{name: value})


X = torch.zeros(2, 5, 3)


@pytest.mark.parametrize(
    ("x", "arguments", "message"),
    [
        ([[0.0]], {}, "x is a list: expected a tensor"),
        (torch.zeros(2, 5, 4), {}, r"x has shape \(2, 5, 4\): expected \(B, T, 3\)"),
        (torch.zeros(3), {}, r"x has shape \(3,\)"),
        (torch.zeros(2, 0, 3), {}, "at least one step"),
        (X.double(), {}, "x is torch.float64 .* and the layer torch.float32"),
        (X.long(), {}, "x is torch.int64.*embed"),
        (pack_sequence([X[0]]), {}, "padded batch, with its lengths as lengths="),
        (X, {"state": torch.zeros(1, 3, 4)}, r"state 'h' has shape \(1, 3, 4\): expected \(1, 2, 4\)"),
        (X[0], {"state": torch.zeros(1, 2, 4)}, r"expected \(1, 4\)"),
        (X, {"state": (torch.zeros(1, 2, 4),) * 2}, r"state has 2 tensor\(s\): cell 'gru' has 1 \(h\)"),
        (X, {"state": torch.zeros(1, 2, 4).double()}, "state 'h' is torch.float64"),
        (X, {"state": ["a"]}, "state 'h' has shape str"),
        (X, {"lengths": [5]}, r"of shape \(1,\): expected 2 integers"),
        (X, {"lengths": [5, -1]}, "lengths range from -1 to 5: expected 0 to 5"),
        (X, {"lengths": [6, 5]}, "lengths range from 5 to 6"),
        (X, {"lengths": [1.0, 2.0]}, "integers"),
        (X, {"lengths": [1, None]}, "expected 2 integers"),
        (X, {"state": torch.zeros(1, 2, 4, device="meta")}, "state 'h' is torch.float32 on meta"),
    ],
)
def test_invalid_input(x, arguments, message):
    with pytest.raises(ValueError, match=message):
        Recurrent("gru", 3, 4)(x, **arguments)


def test_complex_numbers_are_refused():
    layer = Recurrent("gru", 3, 8, dtype=torch.complex64)
    with pytest.raises(GatelabError, match=r"complex64: cells compute with real numbers; .* torch\.view_as_real"):
        layer(torch.randn(2, 4, 3, dtype=torch.complex64))


def test_freezing_unknown_parameters():
    with pytest.raises(ValueError, match=r"did you mean 'b\.z'"):
        Recurrent("gru", 3, 4).freeze("b.zz")
    with pytest.raises(ValueError, match="expected at least one"):
        Recurrent("gru", 3, 4).freeze()
    with pytest.raises(ValueError, match="unknown parameter"):
        Recurrent("gru", 3, 4).freeze(["b.z"])
    with pytest.raises(ValueError, match="expected a finite number"):
        Recurrent("gru", 3, 4).freeze("b.z", at=math.nan)
    layer = Recurrent("gru", 3, 4)
    layer.engine = "nativ"
    with pytest.raises(ValueError, match="unknown engine 'nativ'; did you mean 'native'"):
        layer(X)


def test_an_option_name_that_the_layer_uses():
    @cell
    def takes_dropout(x, h, W, U, b, *, dropout=0.1):
        return tanh(W.n(x) + dropout * h)

    with pytest.raises(ValueError, match="option 'dropout', which is an argument of the layer: rename it"):
        Recurrent(takes_dropout, 3, 4)


def test_names_of_module_attributes_are_allowed():
    @cell
    def mine(x, h, W, U, b, *, training=learned(0.5)):
        update = sigmoid(W.update(x) + U.type(h) + b.forward)
        return training * update * h

    layer = Recurrent(mine, 3, 4)
    output, _, gates = layer(X, gates=True)
    (output.sum() + gates["update"].sum()).backward()
    assert {name for name, p in layer.named_parameters() if p.grad is not None} == {
        f"layers.0.fwd.{name}" for name in ("training", "W.update", "U.type", "b.forward")
    }
    Recurrent(mine, 3, 4).load_state_dict(layer.state_dict())


def test_a_layer_needs_parameters():
    @cell
    def empty(x, h):
        return -h

    with pytest.raises(ValueError, match="has no W, U or b"):
        Recurrent(empty, 3, 4)


def test_a_replaced_trace_function_is_reported():
    before = sys.gettrace()
    try:
        with pytest.raises(CellError, match="local variables of 'mine' could not be read"):

            @cell
            def mine(x, h, W, U, b):
                z = W.z(x)
                sys.settrace(None)  # as a breakpoint does
                return z
    finally:
        sys.settrace(before)


def test_every_cell_error_is_a_value_error():
    assert issubclass(CellError, ValueError)
