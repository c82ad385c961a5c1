"""A trained model as an exporter needs it: sizes, weights and names as plain arrays, nothing of torch.

Weights are those that the equations apply: a matrix expression such as U − Uᵀ − γI is one matrix here. A mask that a
cell draws while training is its probability.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from gatelab.engine import Recurrent
from gatelab.engine.parameters import CellParameters
from gatelab.errors import GatelabError
from gatelab.export.convolutions import Convolution, of_stem
from gatelab.lang import Cell
from gatelab.lang.graph import Graph, Matrix, Node, Weight, evaluate, walk
from gatelab.lang.tensors import value
from gatelab.models import SequenceClassifier, StepPredictor
from gatelab.tasks.preparation import Preparation
from gatelab.tasks.scaling import Scaling

Read = Literal["last", "mean", "max", "mean+max", "attention", "steps"]

# What pooling carries from step to step; all but attention also the number of steps.
POOLED: dict[str, tuple[str, ...]] = {
    "mean": ("total",),
    "max": ("largest",),
    "mean+max": ("total", "largest"),
    "attention": ("total", "weight", "score"),
}
# All that may be carried beside the states, with its meaning. Weights of attention, and sums of outputs with them, are
# relative to that of the largest score so far, since a score's exponential may be too large for a float.
EXTRAS = {
    "total": "sum of the outputs",
    "largest": "largest outputs",
    "weight": "sum of the weights of attention",
    "score": "largest score of attention",
    "before": "the last input",
    "steps": "number of steps so far",
}


@dataclass(frozen=True)
class Layer:
    """One layer in one direction."""

    number: int  # from 0
    direction: str  # "fwd" or "bwd"
    weights: dict[str, np.ndarray]  # "W.z" (H, D), "U.z" (H, H)
    vectors: dict[str, np.ndarray]  # (H,), by the name in the equations: "z" for b.z
    scalars: dict[str, float]
    matrices: dict[Matrix, np.ndarray]  # what the equations apply: weights, or expressions of them

    @classmethod
    def of(
        cls,
        number: int,
        direction: str,
        weights: dict[str, np.ndarray],
        vectors: dict[str, np.ndarray],
        scalars: dict[str, float],
        cell: Cell,
    ) -> Layer:
        """Compute the matrix expressions, in float64; also those that only the gradient needs."""
        recurrent = {name[2:]: torch.from_numpy(w).double() for name, w in weights.items() if name.startswith("U.")}
        numbers = {name: torch.tensor(value, dtype=torch.float64) for name, value in scalars.items()}

        def number_of(by: Node) -> Tensor:
            return evaluate(by, {node: numbers[node.name] for node in walk([by]) if node.op == "scalar"})

        matrices = {
            matrix: weights[f"{matrix.space}.{matrix.name}"]
            if isinstance(matrix, Weight)
            else _array(value(matrix, recurrent, number_of))
            for matrix in differentiable_graph(cell).matrices
        }
        return cls(number, direction, weights, vectors, scalars, matrices)


@dataclass(frozen=True)
class Image:
    """How an image is read as a sequence."""

    side: int
    order: str  # "rows", "pixels" or "permuted"
    noise_steps: int  # after the image, standard normal noise in scaled units

    def __str__(self) -> str:
        each = {"rows": "row by row", "pixels": "pixel by pixel"}
        order = each.get(self.order, "pixel by pixel in the order of gatelab.tasks.images.permutation")
        noise = f", then {self.noise_steps} steps of noise" if self.noise_steps else ""
        return f"an image of {self.side} x {self.side}, {order}{noise}"


@dataclass(frozen=True)
class Head:
    """The linear map from the layers' output to scores or values."""

    weight: np.ndarray  # (K, features that are read)
    bias: np.ndarray  # (K,)


@dataclass(frozen=True)
class Network:
    """A whole model. The input x is in raw units, numbers (B, T, D) or tokens (B, T).

    It answers with (B, K) after the last step, or (B, T, K) at every step (`read` is "steps"). What it carries from one
    piece of a sequence to the next is in `carried`; all of it is zero at the beginning.
    """

    name: str  # of files and functions
    cell: Cell
    hidden_size: int
    layers: tuple[tuple[Layer, ...], ...]  # each a tuple of directions
    residual: bool
    read: Read
    input_size: int  # D, or the size of the vocabulary
    tokens: bool = False
    embedding: np.ndarray | None = None  # (vocabulary, size) of tokens; one-hot vectors without it
    input_scale: Scaling | None = None
    differenced: int = 0  # the number of columns, the first ones, that are read as changes from the step before
    stem: tuple[Convolution, ...] = ()  # between the input and the layers
    query: np.ndarray | None = None  # (features,) of attention: the score of an output is its product with it
    head: Head | None = None  # None: the answer is the output of the layers
    output_scale: Scaling | None = None  # answers are returned in the units of the data
    classes: tuple[str, ...] | None = None  # if the answers are their scores
    columns: tuple[str, ...] = ()  # names of the features
    vocabulary: tuple[str, ...] = ()  # names of the tokens
    image: Image | None = None  # if a sequence is one

    @property
    def bidirectional(self) -> bool:
        """Whether layers also run backwards in time."""
        return len(self.layers[0]) == 2

    @property
    def reads_whole(self) -> bool:
        """Whether only whole sequences are read: the backward direction begins at the end, and a convolution reads
        steps that are still to come.
        """
        return self.bidirectional or bool(self.stem)

    @property
    def features(self) -> int:
        """F, the number of outputs of a layer per step: H × directions."""
        return self.hidden_size * len(self.layers[0])

    @property
    def read_size(self) -> int:
        """The number of features that the head reads."""
        return 2 * self.features if self.read == "mean+max" else self.features

    @property
    def output_size(self) -> int:
        """K, the number of scores or values."""
        return self.read_size if self.head is None else len(self.head.bias)

    @property
    def encoded_size(self) -> int:
        """The number of features per step that are read from the input, encoded."""
        return self.input_size if self.embedding is None else int(self.embedding.shape[1])

    @property
    def first_size(self) -> int:
        """The number of features that the first layer reads."""
        return self.stem[-1].channels if self.stem else self.encoded_size

    @property
    def every_layer(self) -> Iterator[Layer]:
        """All layers and directions, in the order of the states: 0 fwd, 0 bwd, 1 fwd, …"""
        return (layer for directions in self.layers for layer in directions)

    @property
    def graph(self) -> Graph:
        """One step of the cell, without random masks."""
        return inference_graph(self.cell)

    @property
    def carried(self) -> dict[str, tuple[int, ...]]:
        """What is carried from piece to piece: name → shape, whose B is written as 0.

        The states of the layers, (L, B, H) each, and `extras` under names that no state has.
        """
        if self.reads_whole:
            return {}
        shapes: dict[str, tuple[int, ...]] = {s: (len(self.layers), 0, self.hidden_size) for s in self.graph.states}
        return shapes | {self.extra(name): (0, size) for name, size in self.extras.items()}

    @property
    def extras(self) -> dict[str, int]:
        """What is carried beside the states, of `EXTRAS`: name → size per sequence."""
        if self.reads_whole:
            return {}
        sizes = {"total": self.hidden_size, "largest": self.hidden_size, "before": self.differenced}
        needed = {*POOLED.get(self.read, ()), *(("before",) if self.differenced else ())}
        if needed and self.read != "attention":
            needed.add("steps")
        return {name: sizes.get(name, 1) for name in EXTRAS if name in needed}

    @property
    def about(self) -> dict[str, Any]:
        """What the network is, as plain data: for the metadata of files."""
        facts: dict[str, Any] = {"name": self.name, "cell": self.cell.name, "equations": self.cell.text()}
        named = {"classes": self.classes, "columns": self.columns, "vocabulary": self.vocabulary}
        facts |= {name: list(values) for name, values in named.items() if values}
        return facts | ({"image": vars(self.image), "input": str(self.image)} if self.image is not None else {})

    def meaning(self, extra: str) -> str:
        """What one of `extras` is, in words."""
        return "weighted sum of the outputs" if (extra, self.read) == ("total", "attention") else EXTRAS[extra]

    def named(self, name: str) -> Network:
        """The same network under another name."""
        return replace(self, name=identifier(name))

    def extra(self, name: str) -> str:
        """The name of one of `EXTRAS` among the carried values: no state of the cell has it."""
        while name in self.graph.states:
            name += "_"
        return name


@functools.cache
def inference_graph(cell: Cell) -> Graph:
    """One step of a cell in use: earlier values and the index are states, a mask is its probability, and of a value
    with another one's derivative the value is left.
    """
    return _without(cell.lowered, "random", "surrogate")


@functools.cache
def differentiable_graph(cell: Cell) -> Graph:
    """The same, but with the derivatives of training."""
    return _without(cell.lowered, "random")


def _without(graph: Graph, *operations: str) -> Graph:
    """The graph with the first argument of these operations in their place."""

    def replacement(node: Node, args: tuple[Node, ...]) -> Node | None:
        return Node("stop_gradient", "vector", args[:1]) if node.op in operations else None

    return graph.replaced(replacement)


def network_of_model(model: nn.Module, name: str = "network", preparation: Preparation | None = None) -> Network:
    """The network of a model or a recurrent layer. `preparation`: of a run, scaling and names."""
    if isinstance(model, Recurrent):
        return finite(_of_layers(model, name))
    if not isinstance(model, (SequenceClassifier, StepPredictor)):
        raise GatelabError(
            f"a {type(model).__name__} cannot be exported: expected a Recurrent, SequenceClassifier or "
            "StepPredictor, a fitted RecurrentClassifier or RecurrentRegressor, or a run directory"
        )
    linear = model.head[-1]
    assert isinstance(linear, nn.Linear)
    embedding = model.input_layer.weight
    return finite(
        replace(
            _of_layers(model.recurrent, name),
            input_size=model.input_layer.input_size,
            tokens=embedding is not None or (preparation is not None and preparation.kind == "tokens"),
            embedding=None if embedding is None else _array(embedding),
            head=Head(_array(linear.weight), _array(linear.bias)),
            **(_shortened(model) if isinstance(model, SequenceClassifier) else {}),
            **({} if preparation is None else _prepared(preparation)),
        )
    )


def finite(network: Network) -> Network:
    """An error if a weight is NaN or infinite, which some targets cannot write, and none computes with."""
    arrays = [each for layer in network.every_layer for each in (*layer.matrices.values(), *layer.vectors.values())]
    arrays += [np.array(list(layer.scalars.values())) for layer in network.every_layer]
    arrays += [] if network.head is None else [network.head.weight, network.head.bias]
    arrays += [each for each in (network.embedding, network.query) if each is not None]
    arrays += [each for convolution in network.stem for each in (convolution.weight, convolution.bias)]
    if not all(np.isfinite(each).all() for each in arrays):
        raise GatelabError("a weight is NaN or infinite: expected finite numbers; has the training diverged?")
    return network


def _shortened(model: SequenceClassifier) -> dict[str, Any]:
    """What makes one answer of a sequence: its stem, and pooling."""
    query = model.pooling.query
    return {
        "read": model.pool,
        "stem": () if model.stem is None else of_stem(model.stem),
        "query": None if query is None else _array(query),
    }


def _of_layers(layers: Recurrent, name: str) -> Network:
    return Network(
        name=identifier(name),
        cell=layers.cell,
        hidden_size=layers.hidden_size,
        layers=tuple(
            tuple(_of_parameters(number, direction, parameters) for direction, parameters in directions.items())
            for number, directions in enumerate(layers.stacked())
        ),
        residual=layers.residual and layers.num_layers > 1,
        read="steps",
        input_size=layers.input_size,
    )


def _of_parameters(number: int, direction: str, parameters: CellParameters) -> Layer:
    spaces = {"W": parameters.W, "U": parameters.U}
    return Layer.of(
        number,
        direction,
        {f"{space}.{name}": _array(each) for space, family in spaces.items() for name, each in family.items()},
        {name: _array(each) for name, each in parameters.b.items()},
        {name: _number(each) for name, each in parameters.scalars().items()},
        parameters.cell,
    )


def _prepared(preparation: Preparation) -> dict[str, Any]:
    """The scaling of inputs and outputs, per feature, and names."""
    scaling, targets = preparation.scaling, preparation.target_scaling
    facts: dict[str, Any] = {"differenced": preparation.output_size if preparation.differenced else 0}
    facts |= {name: getattr(preparation, name) for name in ("classes", "columns", "vocabulary")}
    if preparation.side is not None:
        facts["image"] = Image(preparation.side, preparation.order, preparation.noise_pad)
    if scaling is not None:
        each = 1 if preparation.kind == "numbers" else preparation.input_size  # one for all pixels
        facts["input_scale"] = Scaling(np.repeat(scaling.mean, each), np.repeat(scaling.deviation, each))
    if targets is not None:
        facts["output_scale"] = targets
    return facts


def _array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = np.ascontiguousarray(tensor.detach().cpu().numpy(), np.float32)
    return array


def _number(option: Any) -> float:
    return float(option.detach() if isinstance(option, Tensor) else option)


def identifier(text: str) -> str:
    """A name as an identifier of C, JavaScript and Python: letters, digits and underscores of ASCII."""
    name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in text) or "network"
    return f"_{name}" if name[0].isdigit() else name
