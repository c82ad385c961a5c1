"""The forward and the backward pass of a kernel: tensors in, tensors out, no autograd.

`parameters` are the kernel's matrices, vectors and scalars, in that order. The *tape* is one array with everything that
the backward pass needs: all states from the initial ones on, and the activations that are expensive to compute again.

What follows from shapes alone is settled once, as a `Call`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from gatelab.engine import team
from gatelab.engine.fused.calls import Call, InputAddress, New, Pointer, Result, Stage
from gatelab.engine.fused.expected import Expected, laid_out, to_copy
from gatelab.engine.fused.kernel import Kernel, padded
from gatelab.engine.fused.kernel_source import KernelSource
from gatelab.errors import GatelabError

CHUNK_ROWS = 128  # rows of adjoints per weight-gradient product: enough for efficiency, few enough for the cache
SPLIT_ROWS = 8  # with fewer rows per thread, units may be split instead, if the loop over time allows it
FEW_ROWS = 4  # with fewer rows a thread only waits for the weights, if it reads all of them at every step
PRODUCT_ROWS = 64  # of several steps together, where the loop over time has no products (`steps_at_once`)
SUMS_BYTES = 1 << 28  # of weight gradients, for all threads together, before they sum in one place
THREAD_WORK = 1 << 17  # multiplications that are worth another thread
PACKING_WORK = 1 << 18  # weights that are worth another thread to pack
TAPE_HEADER = 16  # floats, as in runtime.hpp
MOST_CALLS = 4096  # that are kept: batches of many lengths


def _private_cache() -> int:
    """The size of one core's second-level cache; a common one if the system does not tell."""
    try:
        cache = Path("/sys/devices/system/cpu/cpu0/cache/index2")
        size = int((cache / "size").read_text().strip().removesuffix("K")) << 10
        return size if (cache / "level").read_text().strip() == "2" and size else 1 << 20
    except (OSError, ValueError):
        return 1 << 20


TEAM_BYTES = _private_cache() * 3 // 4  # larger weights justify a barrier after every phase of a step; with B = 1


class CallInputs(NamedTuple):
    """What a call is given beside parameters."""

    x: Tensor  # (T, B, D)
    # The initial states, (B, H) each, None for zeros; those after resets follow if they are not the initial ones.
    starts: Sequence[Tensor | None]
    lengths: Tensor | None  # (B,) int64
    resets: Tensor | None  # (T, B) bool
    masks: Sequence[Tensor]  # (T, B, H) each


class Sizes(NamedTuple):
    """What the arrays and the threads of a pass follow from."""

    T: int
    B: int
    D: int
    H: int
    strides: tuple[int, ...]  # of steps and rows: of x, and in the backward pass also of the gradient of the output
    starts: int  # the number of states that are given
    masks: int
    threads: int


def tape_size(source: KernelSource, T: Any, B: Any, H: Any) -> Any:
    """The number of floats on the tape."""
    states = len(source.states) * (T + 1) * B * padded(H)
    return TAPE_HEADER + states + T * B * (len(source.saved) * padded(H) + len(source.saved_rows))


def readable(x: Tensor) -> Tensor:
    """With features that lie side by side, as a kernel reads them; copied only if necessary."""
    if x.dim() != 3:
        raise GatelabError(f"a kernel was given a tensor of shape {tuple(x.shape)}: expected three dimensions")
    if x.is_neg():
        return laid_out(x)
    return x if x.stride(2) == 1 or x.shape[2] == 1 else to_copy(x).contiguous()


_calls: dict[tuple[Any, ...], Call] = {}


def _call(settle: Callable[..., Call], *key: Any) -> Call:
    """What `settle(*key)` returns, made once."""
    call = _calls.get((settle, key))
    if call is None:
        if len(_calls) >= MOST_CALLS:
            _calls.clear()
        call = _calls[settle, key] = settle(*key)
    return call


# ---- preparation ----------------------------------------------------------------------------------------------------


def prepare(kernel: Kernel, parameters: Sequence[Tensor], D: int, H: int) -> Tensor:
    """What the forward pass needs of the parameters: packed matrices, padded vectors."""
    prepared: Tensor = _call(_preparation, kernel, D, H, team.of_kernels())(*parameters)[0]
    return prepared


def _preparation(kernel: Kernel, D: int, H: int, threads: int) -> Call:
    floats, stage = _preparing(kernel, "forward", D, H, padded(D), threads, 0, New(0))
    return Call(kernel, _parameters(kernel.source, D, H), [floats], [stage], [Result(0, (floats,))])


def _parameters(source: KernelSource, D: int, H: int) -> list[Expected]:
    names = source.parameter_names
    return [Expected(name, shape) for name, shape in zip(names, source.parameter_shapes(D, H), strict=True)]


def _preparing(
    kernel: Kernel, pass_: str, D: int, H: int, Dp: int, threads: int, first: int, to: New
) -> tuple[int, Stage]:
    """The number of floats that a pass needs of the parameters, and the stage that computes them. The parameters are
    inputs from `first` on.
    """
    name, pointers = f"prepare_{pass_}", len(kernel.source.arguments[f"prepare_{pass_}"].pointers)
    floats = kernel.call(name, [None] * pointers, (D, H, padded(H), Dp, 1))  # it knows its layout
    threads = max(1, min(threads, floats // PACKING_WORK))
    inputs = [InputAddress(first + k) for k in range(pointers - 1)]
    return floats, Stage(name, [*inputs, to], (D, H, padded(H), Dp, threads))


# ---- the forward pass -----------------------------------------------------------------------------------------------


def forward(
    kernel: Kernel, prepared: Tensor, given: CallInputs, H: int, *, keep: bool, with_output: bool = True
) -> tuple[Any, ...]:
    """Run over a sequence; with `keep` a backward pass may follow. Returns the output (T, B, H), the gates (gates, T,
    B, H padded), the tape, each None unless asked for, and then the final states, (B, H) each.
    """
    x, masks = _in_vectors(kernel.source, given.x, given.masks, H)
    sizes = _sizes(given, given.x.shape, H, x.stride()[:2])
    call = _call(_forward, kernel, sizes, keep, with_output)
    return call(prepared, x, given.lengths, given.resets, *given.starts, *masks)


def _forward(kernel: Kernel, sizes: Sizes, keep: bool, with_output: bool) -> Call:
    source, (T, B, D, H, strides, starts, _, threads), Hp = kernel.source, sizes, padded(sizes.H)
    _refuse(source, sizes)
    S, G = len(source.states), len(source.gates)
    shapes: dict[str, tuple[int, ...]] = {"finals": (S, B, H)}
    shapes |= {"output": (T, B, H)} if with_output else {}
    shapes |= {"gates": (G, T, B, Hp)} if G else {}
    shapes |= {"tape": (tape_size(source, T, B, H),)} if keep else {}
    arrays = {name: New(k) for k, name in enumerate(shapes)}
    asked = ("output", "gates", "tape")
    results = [Result(arrays[name].number, shapes[name]) if name in shapes else None for name in asked]
    results += [Result(0, (B, H), k * B * H) for k in range(S)]
    floats, _ = _preparing(kernel, "forward", D, H, padded(D), 1, 0, New(0))
    states = [Expected(f"the state {s!r}", (B, H), is_optional=True) for s in source.states * (starts // S)]
    x, *begins_and_ends = _steps(source, sizes)
    inputs = [Expected("what was prepared", (floats,)), x, *begins_and_ends, *states, *_masks(source, sizes)]
    first = 4  # of the initial states among the inputs
    begins = first + S if starts > S else first
    pointers: list[Pointer] = [*map(InputAddress, range(first)), *[InputAddress(first + k) for k in range(S)]]
    pointers += [InputAddress(begins + k) for k in range(S)]
    pointers += [New(0, k * B * H) for k in range(S)]
    pointers += [arrays.get(name) for name in asked]
    pointers += [InputAddress(first + starts + k) for k in range(len(source.masks))]
    threads, as_team = threads_for(source, T, B, D, H, threads, is_forward=True)
    stage = Stage("forward", pointers, (T, B, D, H, Hp, *strides, keep, as_team, threads, 0))
    return Call(kernel, inputs, [prod(s) for s in shapes.values()], [stage] if B else [], results)


def _steps(source: KernelSource, sizes: Sizes) -> list[Expected]:
    """x, lengths and resets."""
    T, B, D, H, strides, *_ = sizes
    width = padded(H) if source.graph.uses_input_itself else D
    return [
        Expected("x", (T, B, width), (*strides[:2], 1)),
        Expected("lengths", (B,), dtype=torch.int64, is_optional=True, most=T),
        Expected("resets", (T, B), dtype=torch.bool, is_optional=True),
    ]


def _masks(source: KernelSource, sizes: Sizes) -> list[Expected]:
    return [Expected(f"the mask {mask!r}", (sizes.T, sizes.B, padded(sizes.H))) for mask in source.masks]


def _sizes(given: CallInputs, shape: Sequence[int], H: int, strides: tuple[int, ...]) -> Sizes:
    T, B, D = shape
    return Sizes(T, B, D, H, strides, len(given.starts), len(given.masks), team.of_kernels())


def _refuse(source: KernelSource, sizes: Sizes) -> None:
    """Refuse what there is no kernel for."""
    T, _, D, H, *_ = sizes
    if min(T, D, H) < 1 or (source.graph.uses_input_itself and D != H):
        same = ", and D=H, since the cell uses its input itself" if source.graph.uses_input_itself else ""
        raise GatelabError(
            f"cell {source.cell.name!r} has no kernel for T={T}, D={D}, H={H}: expected at least 1 each{same}"
        )
    S = len(source.states)
    if sizes.starts not in (S, 2 * S) or sizes.masks != len(source.masks):
        raise GatelabError(
            f"cell {source.cell.name!r} was given {sizes.starts} states and {sizes.masks} masks: expected {S} states "
            f"(or {2 * S}, with those after resets) and {len(source.masks)} masks"
        )


# ---- the backward pass ----------------------------------------------------------------------------------------------


class Incoming(NamedTuple):
    """The gradients of what the forward pass made; None for zeros."""

    finals: Sequence[Tensor | None]  # (B, H) each
    output: Tensor | None = None
    gates: Tensor | None = None


def backward(
    kernel: Kernel,
    parameters: Sequence[Tensor],
    given: CallInputs,
    H: int,
    tape: Tensor,
    shape: Sequence[int],
    incoming: Incoming,
    needs: tuple[bool, ...],  # of x, states and parameters
    at_once: bool = False,
) -> tuple[Any, ...]:
    """Run backwards over a sequence, whose x had this shape in the forward pass: the gradients of x, states and
    parameters, None where none is needed, or where nothing depends on it. With `at_once` these are three: that of x,
    those of all states (states, B, H), and those of all parameters, one after the other, undefined where they are not
    needed.
    """
    source = kernel.source
    x, masks = _in_vectors(source, readable(given.x), given.masks, H)
    d_output = None if incoming.output is None else readable(incoming.output)
    d_finals = [None if d_final is None else laid_out(d_final) for d_final in incoming.finals]
    d_gates = None if incoming.gates is None else laid_out(incoming.gates)
    if len(d_finals) != len(source.states) or len(needs) != 1 + len(given.starts) + len(source.has_gradient):
        raise GatelabError(
            f"the backward pass of cell {source.cell.name!r} was given {len(d_finals)} gradients of final states and "
            f"{len(needs)} flags: expected {len(source.states)}, and {1 + len(given.starts) + len(source.has_gradient)}"
        )
    strides = (*x.stride()[:2], *((0, 0) if d_output is None else d_output.stride()[:2]))
    sizes = _sizes(given, shape, H, strides)
    call = _call(_backward, kernel, sizes, needs, at_once)
    made = call(x, tape, given.lengths, given.resets, d_output, *d_finals, d_gates, *masks, *parameters)
    if shape[1] == 0:  # nothing was computed
        made = tuple(None if gradient is None else gradient.zero_() for gradient in made)
    return made


def wanted(source: KernelSource, needs: Sequence[bool]) -> tuple[bool, ...]:
    """Which gradients of x, states and parameters are needed and exist."""
    is_read = bool(source.graph.W or source.graph.uses_input_itself)
    states = len(needs) - 1 - len(source.has_gradient)
    exist = (is_read, *[True] * states, *source.has_gradient)
    return tuple(map(bool.__and__, needs, exist))


def _backward(kernel: Kernel, sizes: Sizes, needs: tuple[bool, ...], at_once: bool) -> Call:
    source, (T, B, D, H, strides, starts, _, threads), S = kernel.source, sizes, len(kernel.source.states)
    _refuse(source, sizes)
    needed, shapes = wanted(source, needs), source.parameter_shapes(D, H)
    needs_x = needed[0]
    Dp = padded(D) if needs_x else 0
    masks = range(6 + S, 6 + S + len(source.masks))  # where they are among the inputs, and then the parameters
    floats, preparing = _preparing(kernel, "backward", D, H, Dp, threads, masks.stop, New(0))
    arrays = [floats, starts * B * H, _weights(source, D, H), *([T * B * D] if needs_x else [])]
    prepared, d_starts, gradients, d_x = New(0), New(1), New(2), (New(3) if needs_x else None)
    flags = (ctypes.c_uint8 * max(1, len(shapes)))(*needed[1 + starts :])
    pointers = [prepared, *map(InputAddress, range(6 + S)), d_x, d_starts, gradients, ctypes.addressof(flags)]
    pointers += [InputAddress(k) for k in masks]
    threads, as_team = threads_for(source, T, B, D, H, threads, is_forward=False)
    stage_sizes = (T, B, D, H, padded(H), Dp, *strides, as_team, threads, CHUNK_ROWS, SUMS_BYTES // 4, starts > S)
    stages = [preparing, Stage("backward", pointers, stage_sizes)] if B else []
    x, *begins_and_ends = _steps(source, sizes)
    inputs = [x, Expected("the tape", (tape_size(source, T, B, H),)), *begins_and_ends]
    inputs += [Expected("the gradient of the output", (T, B, H), (*strides[2:], 1), is_optional=True)]
    inputs += [Expected(f"the gradient of the state {s!r}", (B, H), is_optional=True) for s in source.states]
    inputs += [Expected("the gradient of the gates", (len(source.gates), T, B, padded(H)), is_optional=True)]
    inputs += [*_masks(source, sizes), *_parameters(source, D, H)]
    of_x, offsets = Result(3, (T, B, D)) if needs_x else None, accumulate(map(prod, shapes), initial=0)
    if at_once:
        results = [of_x, Result(1, (starts, B, H)), Result(2, (arrays[2],))]
    else:
        results = [of_x, *(Result(1, (B, H), k * B * H) for k in range(starts))]
        results += [Result(2, shape, offset) for shape, offset in zip(shapes, offsets, strict=False)]
        results = [result if is_needed else None for result, is_needed in zip(results, needed, strict=True)]
    return Call(kernel, inputs, arrays, stages, results, kept=flags)


# ---- both -----------------------------------------------------------------------------------------------------------


def _weights(source: KernelSource, D: int, H: int) -> int:
    """The number of floats of all parameters."""
    return sum(map(prod, source.parameter_shapes(D, H)))


def threads_for(
    source: KernelSource, T: int, B: int, D: int, H: int, most: int, *, is_forward: bool
) -> tuple[int, bool]:
    """The number of threads that the work is worth, and whether they split units instead of rows (see `Slab`)."""
    weights = _weights(source, D, H)
    work = B * T * weights * (1 if is_forward else 2)
    # Weights that are too large for one core's cache; sums over the units would be in parts.
    is_large = is_forward and 4 * weights > TEAM_BYTES and not source.forward.reductions
    work *= 2 if is_large and B < SPLIT_ROWS else 1  # threads have more cache, too
    threads = max(1, min(most, work // THREAD_WORK))
    if threads == 1 or SPLIT_ROWS * threads <= B:
        return threads, False
    if source.splits_units:
        # Threads that divide rows do not disturb each other; but some may have more rows than others, and each reads
        # all weights, once for as many steps as a product has rows for.
        is_uneven = FEW_ROWS * threads > B and B % threads > 0
        return threads, is_uneven or (is_large and PRODUCT_ROWS * threads > T * B)
    return (threads, True) if is_large else (min(threads, -(-B // FEW_ROWS)), False)


def _in_vectors(source: KernelSource, x: Tensor, masks: Sequence[Tensor], H: int) -> tuple[Tensor, Sequence[Tensor]]:
    """x and the masks, in whole vectors where a kernel reads them unit by unit."""
    if source.graph.uses_input_itself:
        x = whole_rows(x, padded(H))
    return x, [whole_rows(mask, padded(H)) for mask in masks] if masks else masks


def whole_rows(values: Tensor, Hp: int) -> Tensor:
    """With contiguous rows of Hp floats; copied only if necessary."""
    missing = Hp - values.shape[-1] if values.dim() else 0
    return pad(to_copy(values), (0, missing)) if missing else laid_out(values)
