"""One step of a stack of layers, in microseconds: everything but the step itself is done once.

The result is the only memory that a step takes. The parameters are looked at in every step, since something was
prepared from them: `Prepared` compares what torch knows about changes, and the kernel a sample of the values.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from operator import is_

import torch
from torch import Size, Tensor, empty_like, float32, is_grad_enabled

from gatelab.engine.fused import passes
from gatelab.engine.fused.kernel import kernel, padded
from gatelab.engine.fused.weights import weights_of
from gatelab.engine.masks import draw
from gatelab.engine.parameters import CellParameters

CHANGED = 2  # what a kernel's step returns if the parameters are not those that were prepared
Stepped = tuple[Tensor, tuple[Tensor, ...]]  # output, new states


class Stepper:
    """A stack of layers, prepared for batches of one size."""

    @staticmethod
    def is_possible(parameters: Sequence[CellParameters]) -> bool:
        """Whether steps can be quick: no gradients, no masks that are drawn anew, parameters that are stored as they
        are, changes that torch counts.
        """
        if is_grad_enabled() and any(source.requires_grad for each in parameters for source in each.sources()):
            return False
        if any(each.owner(source) is None for each in parameters for source in each.sources()):
            return False
        draws = any(each.training and each.cell.lowered.randoms for each in parameters)
        return not draws and all(weights_of(each, kernel(each.cell)).are_tracked for each in parameters)

    def __init__(self, parameters: Sequence[CellParameters], batch: tuple[int, ...], residual: bool) -> None:
        first, B = parameters[0], batch[0] if batch else 1
        self._layers, self._residual = [_Step(each, B) for each in parameters], residual
        self._training, self._last = first.training, len(parameters) - 1
        self._parameters = parameters
        self._x_shape = Size((*batch, first.input_size))
        # `empty_like` takes half of the time of `empty`.
        self._output = torch.empty((*batch, first.hidden_size), dtype=torch.float32, device="cpu")
        self._state = torch.empty((len(parameters), *self._output.shape), dtype=torch.float32, device="cpu")
        self._state_shape, self._zeros = self._state.shape, (None,) * len(first.cell.lowered.states)
        self._bytes = 4 * self._output.numel()  # of one layer's state

    def __call__(self, training: bool, x: Tensor, states: Sequence[Tensor | None] | None) -> Stepped | None:
        """Output and new states; None if this is not what was prepared for. What is wrong then is said elsewhere."""
        grad, shape = is_grad_enabled(), self._state_shape
        if training is not self._training or self._parameters[0].training is not training:
            return None
        if grad and any(source.requires_grad for each in self._parameters for source in each.sources()):
            return None
        output = empty_like(self._output)
        if type(output) is not Tensor:  # under a mode that makes others
            return None
        finals: list[Tensor] = []
        places: list[int | None] = []  # for each state: where it is, and where it is going to be
        try:
            if (
                type(x) is not Tensor
                or x.shape != self._x_shape
                or x.dtype is not float32
                or not x.is_contiguous()
                or not x.is_cpu
            ):
                return None
            if grad and x.requires_grad:
                return None
            for state in self._zeros if states is None else states:
                if state is not None and (
                    type(state) is not Tensor
                    or state.shape != shape
                    or state.dtype is not float32
                    or not (state.is_contiguous() and state.is_cpu)
                    or (grad and state.requires_grad)
                ):
                    return None
                new = empty_like(self._state)
                finals.append(new)
                places += (None if state is None else state.data_ptr(), new.data_ptr())
        except AttributeError:  # no tensors
            return None
        if len(finals) != len(self._zeros):
            return None
        x_at, out_at = x.data_ptr(), output.data_ptr()
        run = self._run_stack if self._last else self._layers[0].run
        return (output, tuple(finals)) if run(x_at, out_at, places) else None

    def _run_stack(self, x_at: int, out_at: int, places: list[int | None]) -> bool:
        """The output of a layer is its first state; where connections are residual, it is added up in the output."""
        for number, layer in enumerate(self._layers):
            adds = self._residual and number > 0
            if not layer.run(x_at, out_at if number == self._last and not adds else None, places):
                return False
            new = places[1]
            assert new is not None
            x_at = layer.add(out_at, new, x_at) if adds else new
            places = [None if place is None else place + self._bytes for place in places]
        return True


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
        self._sizes = (1, B, D, H, padded(H), B * D, D, False, team, threads)  # as in `passes.forward`
        fixed = (ctypes.c_void_p * len(memory))(*(each.data_ptr() for each in memory))
        numbers = (ctypes.c_long * len(self._sizes))(*self._sizes)
        self._kept = prepared, memory, fixed, numbers
        self._fixed, self._numbers = ctypes.addressof(fixed), ctypes.addressof(numbers)
        self._sampled = ctypes.addressof(prepared.sampled)
        self._sources = parameters.sources()
        # Where the module keeps each of them: asking there is several times as fast as collecting them anew.
        owners = [owner for owner in map(parameters.owner, self._sources) if owner is not None]
        self._owners, self._names = [owner for owner, _ in owners], [name for _, name in owners]
        self._is_unchanged, self._step = prepared.is_unchanged, compiled.step

    def run(self, x: int, output: int | None, states: list[int | None]) -> bool:
        """Whether the step was done; not if the parameters have been replaced, or have changed."""
        sources = self._sources
        if not (all(map(is_, map(dict.get, self._owners, self._names), sources)) and self._is_unchanged(sources)):
            return False
        status = self._step(self._fixed, self._numbers, self._sampled, x, output, *states)
        if status and status != CHANGED:
            self._kernel.refuse("forward", self._sizes)
        return not status

    def add(self, out: int, a: int, b: int) -> int:
        """The sum of two batches, for residual connections; returns where it is."""
        self._kernel.library.add_rows(out, a, b, self._floats)
        return out
