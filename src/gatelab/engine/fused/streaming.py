"""One step of a stack of layers, in microseconds: everything but the step itself is done once.

The result is the only memory that a step takes. The parameters are looked at in every step, since something was
prepared from them: `Prepared` compares what torch knows about changes, and the kernel a sample of the values.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Size, Tensor, empty_like, is_grad_enabled

from gatelab.engine.fused import passes
from gatelab.engine.fused.kernel import kernel, padded
from gatelab.engine.fused.weights import weights_of
from gatelab.engine.masks import draw
from gatelab.engine.parameters import CellParameters

CHANGED = 2  # what a kernel's step returns if the parameters are not those that were prepared
Stepped = tuple[Tensor, tuple[Tensor, ...]]  # output, new states


class Layer(Protocol):
    """What a stepper asks of its layer."""

    training: bool
    residual: bool


class Stepper:
    """A stack of layers, prepared for batches of one size."""

    @staticmethod
    def is_possible(parameters: Sequence[CellParameters]) -> bool:
        """Whether steps can be quick: no gradients, no masks that are drawn anew, changes that torch counts."""
        if is_grad_enabled() and any(source.requires_grad for each in parameters for source in each.sources()):
            return False
        draws = any(each.training and each.cell.lowered.randoms for each in parameters)
        return not draws and all(weights_of(each, kernel(each.cell)).are_tracked for each in parameters)

    def __init__(self, layer: Layer, parameters: Sequence[CellParameters], batch: tuple[int, ...]) -> None:
        first, B = parameters[0], batch[0] if batch else 1
        self._layers, self._residual, self._training = (
            [_Step(each, B) for each in parameters],
            layer.residual,
            layer.training,
        )
        self._needs_grad = any(source.requires_grad for each in parameters for source in each.sources())
        self._x_shape = Size((*batch, first.input_size))
        # `empty_like` takes a third of the time of `empty`.
        self._output = torch.empty((*batch, first.hidden_size), dtype=torch.float32, device="cpu")
        self._state = torch.empty((len(parameters), *self._output.shape), dtype=torch.float32, device="cpu")
        self._state_shape, self._states = self._state.shape, range(len(first.cell.lowered.states))
        self._bytes = 4 * self._output.numel()  # of one layer's state

    def suits(self, layer: Layer, x: Tensor, states: tuple[Tensor, ...] | None) -> bool:
        """Whether it was made for such tensors. What is wrong with others is said elsewhere."""
        grad, float32 = is_grad_enabled(), torch.float32
        if not isinstance(x, Tensor) or (states is not None and not all(isinstance(s, Tensor) for s in states)):
            return False
        if grad and (self._needs_grad or x.requires_grad):
            return False
        for state in states or ():
            if state.shape != self._state_shape or state.dtype is not float32 or not state.is_contiguous():
                return False
            if grad and state.requires_grad:
                return False
        is_such = x.shape == self._x_shape and x.dtype is float32 and x.is_contiguous() and x.is_cpu
        return is_such and layer.training is self._training and (states is None or len(states) == len(self._states))

    def __call__(self, x: Tensor, states: tuple[Tensor, ...] | None) -> Stepped | None:
        """Output and new states; None if the parameters have changed."""
        output = empty_like(self._output)
        finals = tuple([empty_like(self._state) for _ in self._states])
        x_at, out_at = x.data_ptr(), output.data_ptr()
        places: list[int | None] = []  # for each state: where it is, and where it is going to be
        for k in self._states:
            places += (None if states is None else states[k].data_ptr(), finals[k].data_ptr())
        last = len(self._layers) - 1
        for number, layer in enumerate(self._layers):
            adds = self._residual and number > 0
            if not layer.run(x_at, out_at if number == last and not adds else None, places):
                return None
            if last:
                new = places[1]
                assert new is not None
                x_at = layer.add(out_at, new, x_at) if adds else new
                places = [None if place is None else place + self._bytes for place in places]
        return output, finals


class _Step:
    """A kernel, what was prepared of its weights, and the arguments that are the same in every step."""

    def __init__(self, parameters: CellParameters, B: int) -> None:
        self._kernel = compiled = kernel(parameters.cell)
        D, H, source = parameters.input_size, parameters.hidden_size, compiled.source
        weights, self._floats = weights_of(parameters, compiled), B * H
        prepared = weights.prepared()
        assert prepared.sampled is not None, "changes of these parameters are not counted"
        masks = draw(parameters, torch.empty(1, B, D), H).values() if source.masks else ()
        memory = [prepared.memory, *(passes.whole_rows(mask, padded(H)) for mask in masks)]
        threads, team = passes.threads_for(source, B, 1, weights.count, is_forward=True)
        self._sizes = {"T": 1, "B": B, "D": D, "H": H, "Hp": padded(H), "x_t": B * D, "x_b": D, "keep": 0}
        self._sizes |= {"team": int(team), "wanted_threads": threads}
        names = source.arguments["forward"].sizes
        fixed = (ctypes.c_void_p * len(memory))(*(each.data_ptr() for each in memory))
        numbers = (ctypes.c_long * len(names))(*(self._sizes[name] for name in names))
        self._kept = prepared, memory, fixed, numbers
        self._fixed, self._numbers = ctypes.addressof(fixed), ctypes.addressof(numbers)
        self._sampled = ctypes.addressof(prepared.sampled)
        self._is_unchanged, self._step = prepared.is_unchanged, compiled.step

    def run(self, x: int, output: int | None, states: list[int | None]) -> bool:
        """Whether the step was done; not if the parameters have changed."""
        if not self._is_unchanged():
            return False
        status = self._step(self._fixed, self._numbers, self._sampled, x, output, *states)
        if status not in (0, CHANGED):
            self._kernel.refuse("forward", self._sizes)
        return bool(status == 0)

    def add(self, out: int, a: int, b: int) -> int:
        """The sum of two batches, for residual connections; returns where it is."""
        self._kernel.library.add_rows(out, a, b, self._floats)
        return out
