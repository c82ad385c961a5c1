"""Whether an exported network computes what the model computes: both run on random sequences, whole and in pieces."""

from __future__ import annotations

import contextlib
import copy
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from gatelab.engine.recurrent import Recurrent
from gatelab.errors import GatelabError
from gatelab.export.network import Layer, Network
from gatelab.models import SequenceClassifier, StepPredictor

TOLERANCE = 1e-5  # of the largest output
STATE_TOLERANCE = 1e-4  # of the largest value of a state; normalizations divide by small numbers
ROUNDING = 10  # times what float32 costs the model itself: some cells amplify rounding errors from step to step
LARGEST_ROUNDING = 1e-3
SHAKEN = 8  # runs with numbers that are off by roundings
ANSWER = "the answer"
EPSILON = float(np.finfo(np.float32).eps)
LENGTHS: tuple[int, ...] = (1, 2, 50)
STEM_LENGTHS = (1, 2, 3, 8, 50, 51)  # convolutions with a stride end differently for each remainder
BATCHES = (1, 7)

Carried = dict[str, np.ndarray]  # as in `Network.carried`


class RoundingError(GatelabError):
    """A model amplifies rounding so much that no export can be compared with it."""


class Runner(Protocol):
    """An exported network, loaded in its own runtime."""

    def __call__(self, x: np.ndarray, carried: Carried) -> tuple[np.ndarray, Carried]:
        """The answers for sequences, numbers (B, T, D) in float32 or tokens (B, T) in int64, and what is carried on."""
        ...


@dataclass(frozen=True)
class Checked:
    """The outcome of a check."""

    difference: float  # the largest, relative to the largest answer
    sequences: int

    def __str__(self) -> str:
        return f"largest difference {self.difference:.1e} of the largest output, {self.sequences} random sequences"


def check(
    model: nn.Module | None, network: Network, runner: Runner, tolerance: float = TOLERANCE, chunk: int | None = None
) -> Checked:
    """Compare a runner with the model, by the eager engine in float64; an error if they differ by more than that.

    A larger difference is accepted up to what rounding costs the model itself (`_amplified`), but never more than
    `ROUNDING * LARGEST_ROUNDING`: a model that rounding changes by more than that raises `RoundingError`.

    A network without a model is compared with NumPy in float64. `chunk`: the number of steps per call, if the runner
    takes no other.
    """
    reference = numpy_reference(network) if model is None else Reference(model, network)
    cases = [(x, *reference(x)) for x in _random_inputs(network, chunk)]
    largest = max(float(np.abs(answer - _offset(network, x)).max(initial=0.0)) for x, answer, _ in cases)
    difference, unstable = 0.0, ""
    for x, answer, final in cases:
        steps = x.shape[1]
        expected = _Values(answer, final, largest)
        amplified = functools.cache(lambda x=x, expected=expected: _amplified(model, network, x, expected))
        for pieces in _pieces(network, steps, chunk):
            found = expected.differences(*in_pieces(network, runner, x, pieces))
            difference = max(difference, found[ANSWER])
            for what, own in found.items():
                strict = tolerance if what == ANSWER else max(tolerance, STATE_TOLERANCE)
                if own <= strict:
                    continue
                cost, most = amplified()[what], ROUNDING * LARGEST_ROUNDING
                limit = max(strict, min(cost, most))
                if own > (ROUNDING * cost if cost > most else limit):  # beside a threshold, the cost is a sample
                    raise GatelabError(
                        f"{what} differs by {own:.1e} of its largest value from the model's, T = {steps}: expected at "
                        f"most {limit:.1e}"
                    )
                if own > limit:
                    unstable = f"{what} by {own:.1e} of its largest value, T = {steps}"
    if unstable:
        raise RoundingError(
            "the model itself depends on rounding: in 32-bit floats it computes something else than in 64-bit floats, "
            f"with or without the export, which differs as much ({unstable})"
        )
    return Checked(difference, sum(len(x) for x, *_ in cases))


@dataclass(frozen=True)
class _Values:
    """What the model computes for some sequences."""

    answer: np.ndarray
    final: Mapping[str, np.ndarray]  # what is carried at the end
    largest: float  # answer of all sequences

    def differences(self, answer: np.ndarray, carried: Mapping[str, np.ndarray]) -> dict[str, float]:
        """The largest differences by what differs, relative to its largest value."""
        found = {ANSWER: _difference(answer, self.answer, ANSWER) / (self.largest or 1.0)}
        for name, value in self.final.items():
            what = f"the state {name}"
            found[what] = _difference(carried[name], value, what) / max(1e-3, float(np.abs(value).max()))
        return found


def _offset(network: Network, x: np.ndarray) -> np.ndarray | float:
    """What is added to what the network computes: the mean of the targets, and the last value of a series. An answer
    may be large by these alone.
    """
    offset = 0.0 if network.output_scale is None else network.output_scale.mean
    return offset + x[..., : network.differenced] if network.differenced else offset


def _amplified(model: nn.Module | None, network: Network, x: np.ndarray, expected: _Values) -> dict[str, float]:
    """What rounding costs the model itself, by what differs: ten times what float32 costs it, or what it costs if every
    number that it reads is off by ten roundings, which also finds values beside a threshold.
    """
    costs = dict.fromkeys(expected.differences(expected.answer, expected.final), 0.0)
    with contextlib.suppress(GatelabError):  # it may overflow
        if model is not None:
            single = expected.differences(*Reference(model, network, torch.float32)(x))
            costs = {what: ROUNDING * own for what, own in single.items()}
        exact = _Values(*numpy_reference(network)(x), expected.largest)
        for seed in range(SHAKEN):
            own = exact.differences(*_shaken(network, x, np.random.default_rng(seed)))
            costs = {what: max(cost, own[what]) for what, cost in costs.items()}
        return costs
    return dict.fromkeys(costs, math.inf)


def _shaken(network: Network, x: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, Carried]:
    """The network by NumPy with weights and inputs that are off by up to ten roundings."""

    def off(values: np.ndarray) -> np.ndarray:
        return values * (1 + ROUNDING * EPSILON * generator.uniform(-1, 1, values.shape))

    def of(layer: Layer) -> Layer:
        matrices = {key: off(matrix.astype(np.float64)) for key, matrix in layer.matrices.items()}
        vectors = {key: off(vector.astype(np.float64)) for key, vector in layer.vectors.items()}
        scalars = {key: float(off(np.array(scalar))) for key, scalar in layer.scalars.items()}
        return replace(layer, matrices=matrices, vectors=vectors, scalars=scalars)

    layers = tuple(tuple(map(of, directions)) for directions in network.layers)
    return numpy_reference(replace(network, layers=layers))(x if network.tokens else off(x.astype(np.float64)))


def _random_inputs(network: Network, chunk: int | None) -> list[np.ndarray]:
    generator, lengths = np.random.default_rng(0), STEM_LENGTHS if network.stem else LENGTHS
    if chunk is not None:
        lengths = (chunk, 3 * chunk) if network.carried else (chunk,)
    return [_random_input(network, batch, steps, generator) for steps in lengths for batch in BATCHES]


def _pieces(network: Network, steps: int, chunk: int | None) -> set[int]:
    """The numbers of pieces that a sequence is cut into."""
    if chunk is not None:
        return {steps // chunk}
    return {1, min(steps, 3)} if network.carried else {1}


def in_pieces(network: Network, runner: Runner, x: np.ndarray, pieces: int = 1) -> tuple[np.ndarray, Carried]:
    """Run over a batch in one or several pieces of time."""
    carried, answers = beginning(network, len(x)), []
    for piece in np.array_split(x, pieces, axis=1):
        answer, carried = runner(piece, carried)
        answers.append(np.asarray(answer))
    return (np.concatenate(answers, 1) if network.read == "steps" else answers[-1]), carried


def beginning(network: Network, batch: int) -> Carried:
    """What a network carries at the beginning: zeros."""
    shapes = {name: [batch if size == 0 else size for size in shape] for name, shape in network.carried.items()}
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def _difference(got: np.ndarray, expected: np.ndarray, what: str) -> float:
    """The largest difference, beyond what a float32 can hold; an error if a value is not finite."""
    if got.shape != expected.shape:
        raise GatelabError(f"{what} has the shape {got.shape}: expected {expected.shape}")
    for values, whose in ((expected, "the model's"), (got, "the export's")):
        if not np.isfinite(values).all():
            raise GatelabError(f"{what} has values that are not finite ({whose} own): expected finite numbers")
    beyond = np.abs(got.astype(np.float64) - expected) - EPSILON * np.abs(expected)
    return max(0.0, float(beyond.max(initial=0.0)))


def _random_input(network: Network, batch: int, steps: int, generator: np.random.Generator) -> np.ndarray:
    if network.tokens:
        return generator.integers(0, network.input_size, (batch, steps))
    x = generator.standard_normal((batch, steps, network.input_size))
    if network.input_scale is not None:
        x = x * network.input_scale.deviation + network.input_scale.mean
    if count := network.differenced:  # a series at some level, whose changes are these
        x[..., :count] = np.cumsum(x[..., :count], axis=1) + 100 * np.abs(x[..., :count]).max()
    return x.astype(np.float32)


def numpy_reference(network: Network) -> Callable[[np.ndarray], tuple[np.ndarray, Carried]]:
    """The network by NumPy in float64, over whole sequences."""
    from gatelab.export.numpy_run import NumpyRunner  # that module imports this one

    run = NumpyRunner(network)
    return lambda x: run(x, beginning(network, len(x)))


class Reference:
    """The model itself, by the eager engine in float64, with the input and output of the exported network."""

    def __init__(self, model: nn.Module, network: Network, dtype: torch.dtype = torch.float64) -> None:
        self.dtype = dtype
        self.model: Any = copy.deepcopy(model).to(dtype).eval()
        layers = self.model if isinstance(model, Recurrent) else self.model.recurrent
        assert isinstance(layers, Recurrent)
        layers.engine, layers.batch_first = "eager", True
        self.layers = layers
        self.network = network

    @torch.no_grad()
    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, Mapping[str, np.ndarray]]:
        """The answers for whole sequences, and what is carried at their end."""
        network = self.network
        encoded = self._encoded(x)
        output, states = self.layers(encoded)
        if isinstance(self.model, SequenceClassifier):
            answer = self.model.answer(output, states, None)
        elif isinstance(self.model, StepPredictor):
            answer = self.model.head(output)
        else:
            answer = output
        values = answer.numpy()
        if network.output_scale is not None:
            values = values * network.output_scale.deviation + network.output_scale.mean
        if network.differenced:
            values = values + x[..., : network.differenced]
        return values, self._carried(x, output, states)

    def _encoded(self, x: np.ndarray) -> Tensor:
        network = self.network
        if network.tokens:
            return self.model.inputs(torch.from_numpy(x))[0]  # type: ignore[no-any-return]
        values = x.astype(np.float64)
        if count := network.differenced:
            values[:, 1:, :count] = np.diff(values[..., :count], axis=1)
            values[:, 0, :count] = 0.0
        if network.input_scale is not None:
            values = (values - network.input_scale.mean) / network.input_scale.deviation
        encoded = torch.from_numpy(values).to(self.dtype)
        return self.model.inputs(encoded)[0] if network.stem else encoded

    def _carried(self, x: np.ndarray, output: Tensor, states: Tensor | tuple[Tensor, ...]) -> dict[str, np.ndarray]:
        network = self.network
        if not network.carried:
            return {}
        listed = (states,) if isinstance(states, Tensor) else states
        carried = {name: state.numpy() for name, state in zip(network.graph.states, listed, strict=True)}
        extra: dict[str, Any] = {"total": output.sum(1), "largest": output.amax(1)}
        if network.query is not None:
            scores = output @ self.model.pooling.query  # (B, T)
            extra["score"] = scores.amax(1, keepdim=True)
            weights = (scores - extra["score"]).exp()
            extra["weight"] = weights.sum(1, keepdim=True)
            extra["total"] = (weights.unsqueeze(2) * output).sum(1)
        extra = {name: value.numpy() for name, value in extra.items()}
        if network.differenced:
            extra["before"] = x[:, -1, : network.differenced]
        extra["steps"] = np.full((len(x), 1), x.shape[1], np.float64)
        return carried | {network.extra(name): extra[name] for name in network.extras}
