"""The fused engine: a kernel as a differentiable function of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gatelab.engine.fused import passes
from gatelab.engine.fused.kernel import Kernel, kernel
from gatelab.engine.fused.source import Source
from gatelab.engine.fused.weights import Weights, weights_of
from gatelab.engine.masks import draw
from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan
from gatelab.errors import GatelabError


def scan(
    parameters: CellParameters,
    x: Tensor,  # (T, B, D)
    states: Sequence[Tensor | None],  # (B, H) each; None for zeros; then those after resets, if they differ
    lengths: Tensor | None = None,  # (B,)
    watch: bool = False,
    resets: Tensor | None = None,  # (T, B) bool
    with_output: bool = True,
) -> Scan:
    """Run the cell over a sequence; differentiable once. Without `with_output` only the final states are made."""
    compiled = kernel(parameters.cell, watch)
    weights = weights_of(parameters, compiled)
    H, source = parameters.hidden_size, compiled.source
    masks = list(draw(parameters, x, H).values()) if source.masks else []
    x = passes.readable(x)
    starts = [None if state is None else state.contiguous() for state in states]
    inputs = (x, *starts, *weights.tensors)
    if forward_ad._current_level >= 0 and any(
        t is not None and forward_ad.unpack_dual(t).tangent is not None  # type: ignore[no-untyped-call]
        for t in inputs
    ):
        raise GatelabError("the fused engine has no forward-mode derivatives: create the layer with engine='eager'")
    needs_grad = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs)
    if needs_grad:
        call = _Call(compiled, weights, H, lengths, resets, masks, with_output)
        output, finals, gates = _Fused.apply(call, *inputs)  # type: ignore[no-untyped-call]
    else:
        given = passes.Given(x, starts, lengths, resets, masks)
        output, finals, gates, _ = passes.forward(
            compiled, weights.prepared().memory, given, H, weights.count, keep=False, with_output=with_output
        )
    if output is None:
        output = x.new_empty(0)
    # (`unbind` would be one operation, but its results cannot be changed in place.)
    final = tuple(finals[k] for k in range(len(source.states)))
    return Scan(output, final, {name: gates[k, :, :, :H] for k, name in enumerate(source.gates)})


class _Call(NamedTuple):
    """What has no gradient, in one argument: torch looks at each."""

    compiled: Kernel
    weights: Weights
    H: int
    lengths: Tensor | None
    resets: Tensor | None
    masks: list[Tensor]
    with_output: bool


class _Fused(torch.autograd.Function):
    """(call, x, states…, parameters…) → (output, final states, gates)."""

    @staticmethod
    def forward(ctx: Any, call: _Call, x: Tensor, *tensors: Tensor | None) -> Any:
        compiled, weights, H, lengths, resets, masks, with_output = call
        S = len(tensors) - len(weights.tensors)
        given = passes.Given(x, tensors[:S], lengths, resets, masks)
        output, finals, gates, tape = passes.forward(
            compiled, weights.prepared().memory, given, H, weights.count, keep=True, with_output=with_output
        )
        ctx.set_materialize_grads(False)
        ctx.compiled, ctx.H, ctx.masks, ctx.states = compiled, H, len(masks), S
        # Through torch, which detects changes in place, and frees them after use.
        ctx.save_for_backward(tape, lengths, resets, *masks, x, *tensors)
        return output, finals, gates

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        compiled: Kernel = ctx.compiled
        S, M = ctx.states, ctx.masks
        tape, lengths, resets, *rest = ctx.saved_tensors
        masks, x, starts, parameters = rest[:M], rest[M], rest[M + 1 : M + 1 + S], rest[M + 1 + S :]
        given = passes.Given(x, starts, lengths, resets, masks)
        gradients = differentiated(
            compiled.source,
            parameters,
            ctx.needs_input_grad[1:],
            lambda wanted: passes.backward(compiled, parameters, given, ctx.H, tape, grads, wanted),  # type: ignore[arg-type]
        )
        if torch.is_grad_enabled():  # create_graph=True: a second derivative may follow
            sources = [t for t in (*rest[M:], *grads) if t is not None]
            gradients = [None if g is None else once(g, sources) for g in gradients]
        return (None, *gradients)


class _Once(torch.autograd.Function):
    """Marks a gradient that cannot be differentiated again, with respect to anything it was computed from."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *sources: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise RuntimeError(
            "the fused engine computes first derivatives only: for higher ones, create the layer with engine='eager'"
        )


def once(gradient: Tensor, sources: Sequence[Tensor]) -> Tensor:
    """A gradient that raises where somebody differentiates it again."""
    marked: Tensor = _Once.apply(gradient, *sources)  # type: ignore[no-untyped-call]
    return marked


def differentiated(
    source: Source,
    parameters: Sequence[Tensor],
    needs: Sequence[bool],  # of x, states and parameters
    backward: Callable[[list[bool]], tuple[Tensor | None, Tensor, Tensor]],  # wanted → `passes.Gradients`
) -> list[Tensor | None]:
    """The gradients of x, states and parameters; None where none is needed, or where nothing depends on it."""
    S = len(needs) - 1 - len(parameters)
    needs_x = needs[0] and bool(source.graph.W or source.graph.uses_input_itself)
    wanted = [needed and exists for needed, exists in zip(needs[1 + S :], source.has_gradient, strict=True)]
    d_x, d_states, flat = backward([needs_x, *wanted])
    gradients = [d_x if needs_x else None]
    gradients += [d_states[k] if needed else None for k, needed in enumerate(needs[1 : 1 + S])]
    parts = _parts(flat, list(parameters))
    gradients += [part if is_wanted else None for part, is_wanted in zip(parts, wanted, strict=True)]
    return gradients


def _parts(flat: Tensor, parameters: list[Tensor]) -> Sequence[Tensor]:
    """Views of an array that has something for each parameter, in their shapes."""
    if type(flat) is Tensor:  # three times as fast
        return torch._C._nn.unflatten_dense_tensors(flat, parameters)
    parts = torch.split(flat, [parameter.numel() for parameter in parameters])  # sizes may be symbols
    return [part.view(parameter.shape) for part, parameter in zip(parts, parameters, strict=True)]
