"""The fused engine as operators of torch, for graphs: `torch.compile`, `torch.export`, fake tensors.

    gatelab::scan           a layer in one direction over a sequence
    gatelab::scan_taped     the same, and the tape for a backward pass
    gatelab::scan_backward  the backward pass

A cell travels as its document, in an argument, so that a graph is complete: it runs wherever gatelab is installed and
`gatelab.engine` was imported. Outside of graphs `function.scan` does the same work with less overhead.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gatelab.engine.fused import passes
from gatelab.engine.fused.expected import laid_out
from gatelab.engine.fused.function import once
from gatelab.engine.fused.kernel import Kernel, kernel, padded
from gatelab.engine.fused.kernel_source import KernelSource
from gatelab.engine.fused.weights import tensors_of
from gatelab.engine.masks import draw
from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan
from gatelab.errors import GatelabError
from gatelab.lang import document

_ARGUMENTS = (
    "Tensor x, Tensor[] states, Tensor[] parameters, Tensor? lengths, Tensor? resets, Tensor[] masks, str cell, "
    "bool gates, bool output"
)
_GRADIENTS = "Tensor tape, Tensor? d_output, Tensor? d_states, Tensor? d_gates, bool[] wanted"
_library: Any = torch.library.Library("gatelab", "DEF")  # type: ignore[no-untyped-call]
_library.define(f"scan({_ARGUMENTS}) -> (Tensor output, Tensor states, Tensor gates)")
_library.define(f"scan_taped({_ARGUMENTS}) -> (Tensor output, Tensor states, Tensor gates, Tensor tape)")
_library.define(f"scan_backward({_ARGUMENTS}, {_GRADIENTS}) -> (Tensor d_x, Tensor d_states, Tensor d_parameters)")


@functools.lru_cache(maxsize=256)
def _kernel(cell: str, gates: bool) -> Kernel:
    return kernel(document.from_document(json.loads(cell)), gates)


@functools.lru_cache(maxsize=256)
def _source(cell: str, gates: bool) -> KernelSource:
    return KernelSource(document.from_document(json.loads(cell)), gates)


# ---- on real tensors ------------------------------------------------------------------------------------------------


def _forward(
    keep: bool,
    x: Tensor,
    states: list[Tensor],
    parameters: list[Tensor],
    lengths: Tensor | None,
    resets: Tensor | None,
    masks: list[Tensor],
    cell: str,
    gates: bool,
    output: bool,
) -> tuple[Tensor, ...]:
    compiled = _kernel(cell, gates)
    given, H = _given(x, states, lengths, resets, masks), _hidden_size(x, states, parameters, compiled)
    prepared = passes.prepare(compiled, parameters, x.shape[2], H)
    made, made_gates, tape, *finals = passes.forward(compiled, prepared, given, H, keep=keep, with_output=output)
    results = [x.new_empty(0) if value is None else value for value in (made, torch.stack(finals), made_gates, tape)]
    return tuple(results if keep else results[:3])


def _backward(
    x: Tensor,
    states: list[Tensor],
    parameters: list[Tensor],
    lengths: Tensor | None,
    resets: Tensor | None,
    masks: list[Tensor],
    cell: str,
    gates: bool,
    output: bool,
    tape: Tensor,
    d_output: Tensor | None,
    d_states: Tensor | None,
    d_gates: Tensor | None,
    wanted: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    compiled = _kernel(cell, gates)
    H = _hidden_size(x, states, parameters, compiled)
    d_finals = [None] * len(compiled.source.states) if d_states is None else list(d_states)
    incoming = passes.Incoming(d_finals, d_output if output else None, d_gates if gates else None)
    given, needs = _given(x, states, lengths, resets, masks), (wanted[0], *[True] * len(states), *wanted[1:])
    made = passes.backward(compiled, parameters, given, H, tape, x.shape, incoming, needs, at_once=True)
    return x.new_empty(0) if made[0] is None else made[0], made[1], made[2]


def _hidden_size(x: Tensor, states: list[Tensor], parameters: list[Tensor], compiled: Kernel) -> int:
    """H. Anybody may call an operator: an exported program does with whatever it holds."""
    count = len(compiled.source.has_gradient)
    if x.dim() != 3 or not states or states[0].dim() != 2 or len(parameters) != count:
        raise GatelabError(
            f"gatelab::scan was given x with {x.dim()} dimensions, {len(states)} states and {len(parameters)} "
            f"parameters: expected x (T, B, D), states (B, H) and {count} parameters of {compiled.source.cell.name!r}"
        )
    return states[0].shape[1]


def _given(x: Tensor, states: list[Tensor], lengths: Any, resets: Any, masks: list[Tensor]) -> passes.CallInputs:
    return passes.CallInputs(passes.readable(x), list(map(laid_out, states)), lengths, resets, masks)


_library.impl("scan", functools.partial(_forward, False), "CPU")
_library.impl("scan_taped", functools.partial(_forward, True), "CPU")
_library.impl("scan_backward", _backward, "CPU")


# ---- on fake tensors ------------------------------------------------------------------------------------------------


def _refuse_other_devices(x: Tensor, others: Sequence[Tensor | None]) -> None:
    """One tensor on meta is enough for torch to ask what results would look like, and to take that for the results."""
    for tensor in others:
        if tensor is not None and tensor.device != x.device:
            raise GatelabError(
                f"gatelab::scan was given x on {x.device} and a tensor of shape {tuple(tensor.shape)} on "
                f"{tensor.device}: expected all on one device"
            )


def _fake_forward(keep: bool, x: Tensor, states: list[Tensor], *rest: Any) -> tuple[Tensor, ...]:
    parameters, lengths, resets, masks, cell, gates, output = rest
    _refuse_other_devices(x, [*states, *parameters, lengths, resets, *masks])
    source = _source(cell, gates)
    (T, B, _), (_, H) = x.shape, states[0].shape
    results = [
        x.new_empty((T, B, H) if output else (0,)),
        x.new_empty(len(source.states), B, H),
        x.new_empty((len(source.gates), T, B, padded(H)) if source.gates else (0,)),
    ]
    return (*results, x.new_empty(passes.tape_size(source, T, B, H))) if keep else tuple(results)


def _fake_backward(x: Tensor, states: list[Tensor], parameters: list[Tensor], *rest: Any) -> tuple[Tensor, ...]:
    lengths, resets, masks, _, _, _, tape, *incoming, wanted = rest
    _refuse_other_devices(x, [*states, *parameters, lengths, resets, *masks, tape, *incoming])
    d_x = x.new_empty(x.shape if wanted[0] else (0,))
    flat = x.new_empty(sum(parameter.numel() for parameter in parameters))
    return d_x, x.new_empty(len(states), *states[0].shape), flat


torch.library.register_fake("gatelab::scan", functools.partial(_fake_forward, False), lib=_library)
torch.library.register_fake("gatelab::scan_taped", functools.partial(_fake_forward, True), lib=_library)
torch.library.register_fake("gatelab::scan_backward", _fake_backward, lib=_library)


# ---- gradients ------------------------------------------------------------------------------------------------------


class _Taped(torch.autograd.Function):
    """Keeps the tape of the forward pass for the backward pass."""

    @staticmethod
    def forward(ctx: Any, sizes: tuple[int, int, int], options: tuple[Any, ...], *tensors: Tensor) -> Any:
        x, states, parameters, (lengths, resets, *masks) = _split(sizes, tensors)
        with torch._C._AutoDispatchBelowAutograd():
            output, finals, gates, tape = torch.ops.gatelab.scan_taped(
                x, states, parameters, lengths, resets, masks, *options
            )
        ctx.sizes, ctx.options = sizes, options
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(tape, *tensors)
        return output, finals, gates

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        tape, *tensors = ctx.saved_tensors
        x, states, parameters, (lengths, resets, *masks) = _split(ctx.sizes, tensors)
        needs = ctx.needs_input_grad[2 : 3 + len(states) + len(parameters)]
        needed = passes.wanted(_source(*ctx.options[:2]), needs)
        wanted = [needed[0], *needed[1 + len(states) :]]
        d_x, d_states, flat = torch.ops.gatelab.scan_backward(
            x, states, parameters, lengths, resets, masks, *ctx.options, tape, *grads, wanted
        )
        parts = torch.split(flat, [parameter.numel() for parameter in parameters])  # sizes may be symbols
        views = [part.view(parameter.shape) for part, parameter in zip(parts, parameters, strict=True)]
        made = (d_x, *(d_states[k] for k in range(len(states))), *views)
        gradients = [value if is_needed else None for value, is_needed in zip(made, needed, strict=True)]
        if torch.is_grad_enabled():  # create_graph=True: a second derivative may follow
            sources = [t for t in (x, *states, *parameters, *grads) if t is not None]
            gradients = [None if g is None else once(g, sources) for g in gradients]
        return (None, None, *gradients, *(None,) * (2 + len(masks)))


def _split(sizes: tuple[int, int, int], tensors: Sequence[Any]) -> tuple[Any, ...]:
    """x, states, parameters, and the rest."""
    S, P, _ = sizes
    return tensors[0], list(tensors[1 : 1 + S]), list(tensors[1 + S : 1 + S + P]), tensors[1 + S + P :]


def _differentiable(
    x: Tensor, states: list[Tensor], parameters: list[Tensor], lengths: Any, resets: Any, masks: Any, *options: Any
) -> Any:
    is_transformed = torch._C._functorch.peek_interpreter_stack() is not None
    if is_transformed or (forward_ad._current_level >= 0 and any(map(_has_tangent, (x, *states, *parameters)))):
        raise GatelabError(
            "gatelab::scan has neither forward-mode derivatives nor transforms of torch.func, and a program that was "
            "traced, compiled or exported runs nothing else: use the layer itself, which has both"
        )
    if torch.is_grad_enabled() and any(t.requires_grad for t in (x, *states, *parameters)):
        sizes = (len(states), len(parameters), len(masks))
        return _Taped.apply(sizes, options, x, *states, *parameters, lengths, resets, *masks)  # type: ignore[no-untyped-call]
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.gatelab.scan(x, states, parameters, lengths, resets, masks, *options)


def _has_tangent(tensor: Tensor) -> bool:
    return forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]


_library.impl("scan", _differentiable, "Autograd")


# ---- a layer --------------------------------------------------------------------------------------------------------


def scan(
    parameters: CellParameters,
    x: Tensor,  # (T, B, D)
    states: tuple[Tensor | None, ...],  # (B, H) each; None for zeros; then those after resets, if they differ
    lengths: Tensor | None = None,  # (B,)
    watch: bool = False,
    resets: Tensor | None = None,  # (T, B) bool
    with_output: bool = True,
) -> Scan:
    """What `function.scan` does, as an operator in the graph that torch is tracing."""
    H = parameters.hidden_size
    starts = [x.new_zeros(x.shape[1], H) if state is None else state for state in states]
    masks = list(draw(parameters, x, H).values())
    output, finals, gates = torch.ops.gatelab.scan(
        x, starts, tensors_of(parameters), lengths, resets, masks, parameters.document, watch, with_output
    )
    final = tuple(finals[k] for k in range(len(parameters.cell.states)))
    names = parameters.cell.lowered.gates if watch else ()
    return Scan(output, final, {name: gates[k, :, :, :H] for k, name in enumerate(names)})
