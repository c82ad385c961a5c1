"""Keras 3: a model file for the cells that Keras has, and its recurrent layers as layers of gatelab."""

from __future__ import annotations

import itertools
import json
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gatelab.engine import Recurrent
from gatelab.errors import GatelabError
from gatelab.export.check import Carried, Runner
from gatelab.export.keras_build import build, state_names
from gatelab.export.keras_layout import LAYOUTS, KerasCounterpart, import_keras, unpack
from gatelab.export.network import Network
from gatelab.export.target import Settings, Target
from gatelab.lang import Cell


def write(network: Network, path: Path, settings: Settings) -> None:
    """Write the file. Names of classes and columns are beside Keras' own files in it, as gatelab.json."""
    build(network).save(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("gatelab.json", json.dumps(network.about, ensure_ascii=False))


def runner(network: Network, path: Path) -> Runner:
    """The model, loaded by Keras."""
    keras = import_keras()
    model, states, names = keras.models.load_model(path), network.graph.states, state_names(network)

    def run(x: np.ndarray, carried: Carried) -> tuple[np.ndarray, Carried]:
        parts = {
            f"{name}_{number}" if name in states else name: part
            for name, value in carried.items()
            for number, part in enumerate(value if name in states else [value])
        }
        # The model is called, not `predict`, which would compile it for every length.
        results = model([x, *(parts[name].astype(np.float32) for name in names)] if names else x)
        answer, *new = [keras.ops.convert_to_numpy(each) for each in (results if names else [results])]
        by_name = dict(zip(names, new, strict=True))
        layers = range(len(network.layers))
        return answer, {
            name: np.stack([by_name[f"{name}_{number}"] for number in layers]) if name in states else by_name[name]
            for name in carried
        }

    return run


TARGET = Target("keras", "Keras: a model file", "Keras", ".keras", write, runner)


@torch.no_grad()
def from_keras(source: Any) -> Recurrent:
    """Convert recurrent layers of Keras to a `Recurrent` with the same weights.

    Args:
        source: a GRU, LSTM or SimpleRNN layer, a Bidirectional one with merge_mode="concat", a model that is a stack of
            such layers, or a list of them, first to last.

    Frozen layers stay frozen. A layer without biases becomes one whose biases are zero and frozen.
    """
    keras = import_keras()
    layers = _stack(keras, source)
    directions = [_directions(keras, layer) for layer in layers]
    each = [layer for both in directions for layer in both]
    kinds = {(_cell(keras, layer), layer.units, len(both)) for both in directions for layer in both}
    if len(kinds) > 1:
        listed = ", ".join(f"{layer.name} ({type(layer).__name__}, {layer.units} units)" for layer in each)
        raise GatelabError(f"from_keras was given different layers, {listed}: expected the same kind and size")
    cell, units, count = kinds.pop()
    arrays = [[np.array(keras.ops.convert_to_numpy(weight)) for weight in layer.weights] for layer in each]
    result = Recurrent(
        cell,
        arrays[0][0].shape[0],
        units,
        len(layers),
        bidirectional=count == 2,
        dtype=torch.float64 if arrays[0][0].dtype == np.float64 else torch.float32,
    )
    for layer, parameters, own in zip(each, result.cell_parameters(), arrays, strict=True):
        named = dict(parameters.named_parameters())
        for name, value in unpack(cell, own).items():
            named[name].copy_(torch.from_numpy(np.ascontiguousarray(value)))
        for name, parameter in named.items():
            without = name.startswith("b.") and not layer.use_bias
            if without:
                parameter.zero_()
            parameter.requires_grad_(layer.trainable and not without)
    return result


def _stack(keras: Any, source: Any) -> list[Any]:
    """The recurrent layers of a model, a list or a single layer, in order."""
    if isinstance(source, Sequence):
        layers = list(source)
    elif isinstance(source, keras.Model):
        layers = [layer for layer in source.layers if not isinstance(layer, keras.layers.InputLayer)]
        if others := [layer for layer in layers if not _is_recurrent(keras, layer)]:
            raise GatelabError(
                f"from_keras was given a model with {others[0].name!r}, a {type(others[0]).__name__}: expected "
                "recurrent layers only; give the recurrent layers themselves as a list"
            )
        for before, layer in itertools.pairwise(layers):
            if layer.input is not before.output:
                raise GatelabError(
                    f"from_keras: {layer.name!r} does not read the output of {before.name!r}: expected stacked layers"
                )
    else:
        layers = [source]
    if not layers:
        raise GatelabError("from_keras was given no layers: expected at least one")
    if cut := [layer.name for layer in layers[:-1] if not getattr(layer, "return_sequences", True)]:
        raise GatelabError(f"from_keras: {cut[0]!r} has return_sequences=False: expected True below another layer")
    return layers


def _is_recurrent(keras: Any, layer: Any) -> bool:
    own = tuple(getattr(keras.layers, layout.layer) for layout in LAYOUTS.values())
    return isinstance(layer, (*own, keras.layers.Bidirectional))


def _directions(keras: Any, layer: Any) -> list[Any]:
    """The layer, or its two directions."""
    if not isinstance(layer, keras.layers.Bidirectional):
        _check(keras, layer, backwards=False)
        return [layer]
    if layer.merge_mode != "concat":
        raise _unfit(layer, "merge_mode", layer.merge_mode, "'concat'")
    _check(keras, layer.forward_layer, backwards=False)
    _check(keras, layer.backward_layer, backwards=True)
    return [layer.forward_layer, layer.backward_layer]


def _check(keras: Any, layer: Any, backwards: bool) -> None:
    if not _is_recurrent(keras, layer) or isinstance(layer, keras.layers.Bidirectional):
        raise GatelabError(
            f"from_keras was given a {type(layer).__name__}: expected GRU, LSTM, SimpleRNN or Bidirectional of "
            "keras.layers, a model of them, or a list"
        )
    if not layer.built:
        raise GatelabError(f"from_keras: {layer.name!r} has no weights yet: call it once, or build it")
    for name, expected in (("activation", "tanh"), ("recurrent_activation", "sigmoid")):
        if hasattr(layer, name) and (given := keras.activations.serialize(getattr(layer, name))) != expected:
            raise _unfit(layer, name, given, f"{expected!r}; define a cell with these equations instead")
    if layer.go_backwards is not backwards:
        raise _unfit(layer, "go_backwards", layer.go_backwards, f"{backwards}; reverse the input instead")
    if layer.stateful:
        raise _unfit(layer, "stateful", True, "False; the state is an argument and a result of a Recurrent")
    if layer.dropout or layer.recurrent_dropout:
        warnings.warn(
            f"from_keras leaves out the dropout of {layer.name!r}: it acts in training only, and Recurrent has none "
            "within a layer",
            stacklevel=4,
        )


def _unfit(layer: Any, name: str, given: object, expected: str) -> GatelabError:
    return GatelabError(f"from_keras: {layer.name!r} has {name}={given!r}: expected {expected}")


def _cell(keras: Any, layer: Any) -> Cell:
    def fits(layout: KerasCounterpart) -> bool:
        same = isinstance(layer, getattr(keras.layers, layout.layer))
        return same and all(getattr(layer, name) == value for name, value in layout.options.items())

    return next(cell for cell, layout in LAYOUTS.items() if fits(layout))
