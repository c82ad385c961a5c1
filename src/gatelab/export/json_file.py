"""A network as JSON: its equations and weights, complete. docs/export/json.md describes it, `schema()` is its schema.

Everything else that is exported could be made from this file: `read` returns the network again, and nothing in the file
is executed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gatelab.disk import read_regular, write_text
from gatelab.errors import DataError, GatelabError, first_problem
from gatelab.export.check import Runner
from gatelab.export.convolutions import Convolution
from gatelab.export.network import Head, Image, Layer, Network, Read, finite, inference_graph
from gatelab.export.numpy_run import NumpyRunner
from gatelab.export.target import Settings, Target
from gatelab.lang.document import from_document, to_document
from gatelab.tasks.scaling import Scaling

FORMAT, VERSION = "gatelab network", 1
LARGEST = 1 << 31  # bytes of a file


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Array(_Strict):
    """Numbers in row-major order: little-endian 32-bit floats, in base64."""

    shape: tuple[Annotated[int, Field(ge=1)], ...]
    float32: str

    @classmethod
    def of(cls, values: np.ndarray) -> Array:
        """Encode an array."""
        return cls(shape=values.shape, float32=base64.b64encode(values.astype("<f4").tobytes()).decode())

    def values(self) -> np.ndarray:
        """Decode to an array."""
        return np.frombuffer(self._bytes(), "<f4").reshape(self.shape).astype(np.float32)

    def _bytes(self) -> bytes:
        return base64.b64decode(self.float32, validate=True)

    @model_validator(mode="after")
    def _consistent(self) -> Array:
        if len(self._bytes()) != 4 * int(np.prod(self.shape, dtype=object)):
            raise GatelabError(f"the content does not fit the shape {self.shape}")
        return self


class ImageReading(_Strict):
    """An image as a sequence: its rows, its pixels, or its pixels in a fixed random order; then perhaps noise."""

    side: int = Field(ge=1)
    order: Literal["rows", "pixels", "permuted"]
    noise_steps: int = Field(ge=0)


class Input(_Strict):
    """What the network reads: x (B, T, size) in raw units, or tokens (B, T) from 0 to size − 1."""

    kind: Literal["numbers", "tokens"]
    size: int = Field(ge=1)
    columns: tuple[str, ...] = Field((), description="Names of the features, if they have any.")
    vocabulary: tuple[str, ...] = Field((), description="Names of the tokens, if they have any.")
    embedding: Array | None = Field(None, description="(size, E): a row for each token; null for one-hot vectors.")
    differenced: int = Field(
        0, ge=0, description="The first columns are read as changes from the step before, 0 first."
    )
    scaling: Scaling | None = Field(None, description="Applied after differencing.")
    image: ImageReading | None = Field(None, description="If a sequence is an image: how it is read.")


class LayerWeights(_Strict):
    """One layer in one direction."""

    weights: dict[str, Array] = Field(description='Maps by their names in the equations: "W.z" (H, D), "U.z" (H, H).')
    vectors: dict[str, Array] = Field(description='(H,): "z" for b.z.')
    scalars: dict[str, float] = Field(description="The cell's hyperparameters.")


class StemConvolution(_Strict):
    """relu(weight ∗ x + bias) over time, with width // 2 zeros before a sequence and after it."""

    weight: Array = Field(description="(channels, inputs, width); the width is odd.")
    bias: Array = Field(description="(channels,)")
    stride: int = Field(ge=1)


class LinearHead(_Strict):
    """scores = weight · features + bias."""

    weight: Array
    bias: Array


class Output(_Strict):
    """The answer: (B, size), or (B, T, size) with a target at every step."""

    size: int = Field(ge=1)
    classes: tuple[str, ...] | None = Field(None, description="The answers are their scores (logits).")
    scaling: Scaling | None = Field(None, description="answer · deviation + mean is in the units of the data.")


class Document(_Strict):
    """The whole file."""

    format: Literal["gatelab network"] = "gatelab network"
    version: Literal[1] = 1
    name: str = Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")
    cell: dict[str, Any] = Field(description="One step as a list of operations; see docs/export/json.md.")
    hidden_size: int = Field(ge=1)
    residual: bool = Field(description="From the second layer on, a layer's input is added to its output.")
    read: Read = Field(
        description="What the head reads: the output at the end, the mean or largest value of all outputs or both "
        "joined, their mean with the weights of attention, or the output at every step."
    )
    input: Input
    stem: tuple[StemConvolution, ...] = Field((), description="Convolutions between the input and the layers.")
    layers: tuple[dict[Literal["fwd", "bwd"], LayerWeights], ...] = Field(min_length=1)
    query: Array | None = Field(
        None, description="(features,) of attention: weights are the softmax over the steps of output · query."
    )
    head: LinearHead | None = Field(None, description="null: the answer is the output of the layers.")
    output: Output


def schema() -> dict[str, Any]:
    """The JSON schema of the file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Document.model_json_schema()}


def document(network: Network) -> dict[str, Any]:
    """A network as plain data."""
    whole = Document(
        name=network.name,
        cell=to_document(network.cell),
        hidden_size=network.hidden_size,
        residual=network.residual,
        read=network.read,
        input=Input(
            kind="tokens" if network.tokens else "numbers",
            size=network.input_size,
            columns=network.columns,
            vocabulary=network.vocabulary,
            embedding=None if network.embedding is None else Array.of(network.embedding),
            differenced=network.differenced,
            scaling=network.input_scale,
            image=None if network.image is None else ImageReading(**vars(network.image)),
        ),
        stem=tuple(
            StemConvolution(weight=Array.of(each.weight), bias=Array.of(each.bias), stride=each.stride)
            for each in network.stem
        ),
        layers=tuple({layer.direction: _weights(layer) for layer in each} for each in network.layers),
        query=None if network.query is None else Array.of(network.query),
        head=None
        if network.head is None
        else LinearHead(weight=Array.of(network.head.weight), bias=Array.of(network.head.bias)),
        output=Output(size=network.output_size, classes=network.classes, scaling=network.output_scale),
    )
    return whole.model_dump(mode="json")


def _weights(layer: Layer) -> LayerWeights:
    return LayerWeights(
        weights={name: Array.of(values) for name, values in layer.weights.items()},
        vectors={name: Array.of(values) for name, values in layer.vectors.items()},
        scalars=layer.scalars,
    )


def write(network: Network, path: Path, settings: Settings) -> None:
    """Write the file."""
    write_text(path, json.dumps(document(network), allow_nan=False) + "\n")


def read(path: Path | str) -> Network:
    """Read a network again; an error if the file is not one."""
    try:
        return _network(Document.model_validate(json.loads(read_regular(Path(path), LARGEST))))
    except ValidationError as error:
        why = first_problem(error)
    except (ValueError, RecursionError, GatelabError) as error:
        why = str(error)
    raise DataError(f"{path} cannot be read as a {FORMAT}: {why}")


def _network(data: Document) -> Network:
    _check_sizes(data)
    cell = from_document(data.cell)
    graph, H, features = inference_graph(cell), data.hidden_size, data.input.size
    if data.input.embedding is not None:
        features = data.input.embedding.shape[-1]
    stem = _stem(data, features)
    features = stem[-1].channels if stem else features
    layers = []
    for number, directions in enumerate(data.layers):
        if tuple(directions) != tuple(data.layers[0]) or tuple(directions) not in (("fwd",), ("fwd", "bwd")):
            raise GatelabError(
                f"layer {number} has the directions {', '.join(directions)}: expected fwd, or fwd and bwd"
            )
        expected = {**{f"W.{n}": (H, features) for n in graph.W}, **{f"U.{n}": (H, H) for n in graph.U}}
        layers.append(
            tuple(
                Layer.of(
                    number,
                    direction,
                    _arrays(own.weights, expected),
                    _arrays(own.vectors, dict.fromkeys(graph.b, (H,))),
                    _numbers(own.scalars, graph.scalars),
                    cell,
                )
                for direction, own in directions.items()
            )
        )
        features = H * len(directions)
    query = {} if data.query is None else {"query": data.query}
    query_values = _arrays(query, {"query": (features,)} if data.read == "attention" else {})
    head, K, read_size = data.head, data.output.size, features * (2 if data.read == "mean+max" else 1)
    if head is None and read_size != K:
        raise GatelabError(f"the output has size {K}: expected {read_size} without a head")
    network = Network(
        name=data.name,
        cell=cell,
        hidden_size=H,
        layers=tuple(layers),
        residual=data.residual,
        read=data.read,
        input_size=data.input.size,
        tokens=data.input.kind == "tokens",
        embedding=None if data.input.embedding is None else data.input.embedding.values(),
        input_scale=_fitting(data.input.scaling, data.input.size),
        differenced=data.input.differenced,
        stem=stem,
        query=query_values.get("query"),
        head=None if head is None else Head(*_arrays(dict(head), {"weight": (K, read_size), "bias": (K,)}).values()),
        output_scale=_fitting(data.output.scaling, K),
        classes=data.output.classes,
        columns=data.input.columns,
        vocabulary=data.input.vocabulary,
        image=None if data.input.image is None else Image(**dict(data.input.image)),
    )
    return finite(network)


def _stem(data: Document, features: int) -> tuple[Convolution, ...]:
    """The convolutions; each reads what the one before it yields."""
    if data.stem and data.read == "steps":
        raise GatelabError("there is a stem, and read is steps: expected one answer per sequence after a stem")
    stem = []
    for given in data.stem:
        channels, _, width = (*given.weight.shape, 0, 0, 0)[:3]
        if width % 2 == 0:
            raise GatelabError(
                f"a convolution has the shape {given.weight.shape}: expected an odd width as the third size"
            )
        expected = {"weight": (channels, features, width), "bias": (channels,)}
        arrays = _arrays({"weight": given.weight, "bias": given.bias}, expected)
        stem.append(Convolution(arrays["weight"], arrays["bias"], given.stride))
        features = channels
    return tuple(stem)


def _check_sizes(data: Document) -> None:
    """Refuse names and numbers that do not fit each other."""
    given, size = data.input, data.input.size
    expected = {
        "columns": (len(given.columns), (0, size)),
        "vocabulary": (len(given.vocabulary), (0, size)),
        "classes": (len(data.output.classes or ()), (0, data.output.size)),
        "differenced": (given.differenced, (0, data.output.size)),
    }
    for name, (found, allowed) in expected.items():
        if found not in allowed:
            raise GatelabError(f"{name} has {found} entries: expected {allowed[1]}, or none")
    if given.differenced > size or (given.differenced and data.read != "steps"):
        raise GatelabError(f"differenced is {given.differenced}: expected at most {size}, with an answer at every step")
    if given.embedding is not None and (given.kind != "tokens" or given.embedding.shape[:-1] != (size,)):
        raise GatelabError(f"the embedding has the shape {given.embedding.shape}: expected ({size}, E), for tokens")


def _arrays(given: Mapping[str, Array], expected: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    shapes = {name: array.shape for name, array in given.items()}
    if shapes != dict(expected):
        differing = next(n for n in {**shapes, **expected} if shapes.get(n) != expected.get(n))
        raise GatelabError(f"{differing} has the shape {shapes.get(differing)}: expected {expected.get(differing)}")
    return {name: given[name].values() for name in expected}


def _numbers(given: Mapping[str, float], expected: tuple[str, ...]) -> dict[str, float]:
    if set(given) != set(expected):
        raise GatelabError(f"the scalars are {', '.join(given)}: expected {', '.join(expected)}")
    return {name: given[name] for name in expected}


def _fitting(scaling: Scaling | None, size: int) -> Scaling | None:
    if scaling is not None and len(scaling.mean) != size:
        raise GatelabError(f"a scaling has {len(scaling.mean)} means: expected {size}, and as many deviations")
    return scaling


def runner(network: Network, path: Path) -> Runner:
    """The network as it was read from the file, run by NumPy."""
    return NumpyRunner(read(path))


TARGET = Target("json", "JSON: equations and weights", "NumPy", ".json", write, runner)
