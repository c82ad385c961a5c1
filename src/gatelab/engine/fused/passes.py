"""The forward and the backward pass of a kernel: tensors in, tensors out, no autograd.

`parameters` are the kernel's matrices, vectors and scalars, in that order. The *tape* is one array with everything that
the backward pass needs: all states from the initial ones on, and the activations that are expensive to compute again.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn.functional import pad

from gatelab.engine import team
from gatelab.engine.fused import buffers
from gatelab.engine.fused.kernel import Kernel, address, padded
from gatelab.engine.fused.source import Source

CHUNK_ROWS = 128  # rows of adjoints per weight-gradient product: enough for efficiency, few enough for the cache
TEAM_BYTES = 1 << 20  # larger weights justify a barrier after every phase of a step; measured with B = 1
SPLIT_ROWS = 8  # with fewer rows per thread, units are split instead, if the loop over time allows it
SUMS_BYTES = 1 << 28  # of weight gradients, for all threads together, before they sum in one place
THREAD_WORK = 1 << 17  # multiplications that are worth another thread
PACKING_WORK = 1 << 18  # weights that are worth another thread to pack


class Given(NamedTuple):
    """What a call is given beside parameters."""

    x: Tensor  # (T, B, D)
    # The initial states, (B, H) each, None for zeros; those after resets follow if they are not the initial ones.
    starts: Sequence[Tensor | None]
    lengths: Tensor | None  # (B,) int64
    resets: Tensor | None  # (T, B) bool
    masks: Sequence[Tensor]  # (T, B, H) each


class Results(NamedTuple):
    """What the forward pass makes."""

    output: Tensor | None  # (T, B, H)
    finals: Tensor  # (states, B, H)
    gates: Tensor | None  # (gates, T, B, H padded)
    tape: Tensor | None


class Gradients(NamedTuple):
    """What the backward pass makes."""

    x: Tensor | None  # (T, B, D)
    starts: Tensor  # (states, B, H), as many as were given
    parameters: Tensor  # those of all parameters, one after the other; undefined where they are not wanted


def tape_size(source: Source, T: Any, B: Any, H: Any) -> Any:
    """The number of floats on the tape."""
    states = len(source.states) * (T + 1) * B * padded(H)
    return states + T * B * (len(source.saved) * padded(H) + len(source.saved_rows))


def readable(x: Tensor) -> Tensor:
    """With features that lie side by side, as a kernel reads them; copied only if necessary."""
    x = x.resolve_neg()  # `z.conj().imag` has the other sign in memory
    return x if x.stride(2) == 1 or x.shape[2] == 1 else x.contiguous()


def prepare(kernel: Kernel, pass_: str, parameters: Sequence[Tensor], D: int, H: int, with_x: bool = True) -> Tensor:
    """What a pass needs of the parameters: packed matrices, padded vectors. They are not needed afterwards."""
    name, Dp = f"prepare_{pass_}", padded(D) if with_x else 0
    floats = _prepared_size(kernel, name, D, H, Dp)
    memory = buffers.empty(floats)
    threads = max(1, min(team.of_kernels(), floats // PACKING_WORK))
    pointers = [*[tensor.data_ptr() for tensor in parameters], memory.data_ptr()]
    kernel.call(name, pointers, (D, H, padded(H), Dp, threads))
    return memory


@functools.cache
def _prepared_size(kernel: Kernel, name: str, D: int, H: int, Dp: int) -> int:
    """The number of floats; the function itself knows its layout."""
    nothing = [None] * len(kernel.source.arguments[name].pointers)
    return kernel.call(name, nothing, (D, H, padded(H), Dp, 1))


def forward(
    kernel: Kernel, prepared: Tensor, given: Given, H: int, weights: int, *, keep: bool, with_output: bool = True
) -> Results:
    """Run over a sequence; with `keep` a backward pass may follow."""
    source, x = kernel.source, given.x
    T, B, D = x.shape
    Hp = padded(H)
    if source.graph.uses_input_itself:  # read in whole vectors
        x = whole_rows(x, Hp)
    output = buffers.empty(T, B, H) if with_output else None
    finals = buffers.empty(len(source.states), B, H)
    gates = buffers.empty(len(source.gates), T, B, Hp) if source.gates else None
    tape = buffers.empty(tape_size(source, T, B, H)) if keep else None
    masks = [whole_rows(mask, Hp) for mask in given.masks]
    first, size = finals.data_ptr(), 4 * B * H
    pointers = [prepared.data_ptr(), x.data_ptr(), address(given.lengths), address(given.resets)]
    pointers += [address(start) for start in (*given.starts, *given.starts)[: 2 * len(source.states)]]
    pointers += [first + k * size for k in range(len(source.states))]
    pointers += [address(output), address(gates), address(tape), *[mask.data_ptr() for mask in masks]]
    threads, as_team = threads_for(source, B, T, weights, is_forward=True)
    kernel.run("forward", pointers, (T, B, D, H, Hp, *x.stride()[:2], keep, as_team, threads, 0))
    return Results(output, finals, gates, tape)


def backward(
    kernel: Kernel,
    parameters: Sequence[Tensor],
    given: Given,
    H: int,
    tape: Tensor,
    grads: tuple[Tensor | None, Tensor | None, Tensor | None],  # of output, final states and gates
    wanted: Sequence[bool],  # x, then each parameter
) -> Gradients:
    """Run backwards over a sequence."""
    d_output, d_finals, d_gates = grads
    source, x, Hp = kernel.source, given.x, padded(H)
    T, B, D = x.shape
    if source.graph.uses_input_itself:
        x = whole_rows(x, Hp)
    needs_x, weights = wanted[0], sum(p.numel() for p in parameters)
    prepared = prepare(kernel, "backward", parameters, D, H, with_x=needs_x)
    d_x = buffers.empty(T, B, D) if needs_x else None
    d_starts = buffers.empty(len(given.starts), B, H)
    gradients = buffers.empty(weights)
    if d_output is not None and d_output.stride(2) != 1:
        d_output = d_output.contiguous()
    d_finals = None if d_finals is None else d_finals.contiguous()
    d_gates = None if d_gates is None else d_gates.contiguous()
    masks, flags = [whole_rows(mask, Hp) for mask in given.masks], _flags(tuple(wanted[1:]))
    pointers = [prepared.data_ptr(), x.data_ptr(), tape.data_ptr(), address(given.lengths), address(given.resets)]
    pointers += [address(d_output), address(d_finals), address(d_gates), address(d_x), d_starts.data_ptr()]
    pointers += [gradients.data_ptr(), ctypes.addressof(flags), *[mask.data_ptr() for mask in masks]]
    threads, as_team = threads_for(source, B, T, weights, is_forward=False)
    strides = (*x.stride()[:2], *((0, 0) if d_output is None else d_output.stride()[:2]))
    begins = len(given.starts) > len(source.states)
    sizes = (T, B, D, H, Hp, padded(D) if needs_x else 0, *strides, as_team, threads)
    sizes += (CHUNK_ROWS, SUMS_BYTES // 4, begins)
    kernel.run("backward", pointers, sizes)
    return Gradients(d_x, d_starts, gradients)


def threads_for(source: Source, B: int, T: int, weights: int, *, is_forward: bool) -> tuple[int, bool]:
    """The number of threads that the work is worth, and whether they split units instead of rows (see `Slab`)."""
    work = B * T * weights * (1 if is_forward else 2)
    threads = max(1, min(team.of_kernels(), work // THREAD_WORK))
    if threads == 1 or SPLIT_ROWS * threads <= B:
        return threads, False
    # Weights that are too large for one core's cache; sums over the units would be in parts.
    is_large = is_forward and 4 * weights > TEAM_BYTES and not source.forward.reductions
    return threads, source.splits_units or is_large


@functools.cache
def _flags(wanted: tuple[bool, ...]) -> ctypes.Array[ctypes.c_uint8]:
    return (ctypes.c_uint8 * max(1, len(wanted)))(*wanted)


def whole_rows(values: Tensor, Hp: int) -> Tensor:
    """With contiguous rows of Hp floats; copied only if necessary."""
    missing = Hp - values.shape[-1]
    return pad(values, (0, missing)) if missing else values.contiguous()
