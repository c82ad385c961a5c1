"""The fused engine: a kernel as a differentiable function of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gatelab.engine.fused import passes
from gatelab.engine.fused.expected import laid_out
from gatelab.engine.fused.kernel import Kernel, kernel
from gatelab.engine.fused.weights import weights_of
from gatelab.engine.masks import draw
from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan


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
    weights, prepared = weights_of(parameters, compiled)
    H, source = parameters.hidden_size, compiled.source
    masks = list(draw(parameters, x, H).values()) if source.masks else []
    x = passes.readable(x)
    starts = [None if state is None else laid_out(state) for state in states]
    inputs = (x, *starts, *weights.tensors)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs):
        call = _Call(compiled, prepared, H, len(starts), lengths, resets, masks, with_output)
        output, gates, *finals = _Fused.apply(call, *inputs)  # type: ignore[no-untyped-call]
    else:
        given = passes.CallInputs(x, starts, lengths, resets, masks)
        output, gates, _, *finals = passes.forward(compiled, prepared, given, H, keep=False, with_output=with_output)
    if output is None:
        output = x.new_empty(0)
    return Scan(output, tuple(finals), {name: gates[k, :, :, :H] for k, name in enumerate(source.gates)})


class _Call(NamedTuple):
    """What has no gradient, in one argument: torch looks at each."""

    compiled: Kernel
    prepared: Tensor  # of the parameters
    H: int
    states: int
    lengths: Tensor | None
    resets: Tensor | None
    masks: list[Tensor]
    with_output: bool


class _Fused(torch.autograd.Function):
    """(call, x, states…, parameters…) → (output, gates, final states…)."""

    @staticmethod
    def forward(ctx: Any, call: _Call, x: Tensor, *tensors: Tensor | None) -> Any:
        compiled, prepared, H, S, lengths, resets, masks, with_output = call
        given = passes.CallInputs(x, tensors[:S], lengths, resets, masks)
        output, gates, tape, *finals = passes.forward(compiled, prepared, given, H, keep=True, with_output=with_output)
        ctx.set_materialize_grads(False)
        ctx.compiled, ctx.H, ctx.masks, ctx.states, ctx.shape = compiled, H, len(masks), S, x.shape
        # Through torch, which detects changes in place, and frees them after use.
        ctx.save_for_backward(tape, lengths, resets, *masks, x, *tensors)
        return (output, gates, *finals)

    @staticmethod
    def backward(ctx: Any, d_output: Tensor | None, d_gates: Tensor | None, *d_finals: Tensor | None) -> Any:
        S, M = ctx.states, ctx.masks
        tape, lengths, resets, *rest = ctx.saved_tensors
        masks, x, starts, parameters = rest[:M], rest[M], rest[M + 1 : M + 1 + S], rest[M + 1 + S :]
        given, incoming = (
            passes.CallInputs(x, starts, lengths, resets, masks),
            passes.Incoming(d_finals, d_output, d_gates),
        )
        needs = ctx.needs_input_grad[1:]
        gradients = passes.backward(ctx.compiled, parameters, given, ctx.H, tape, ctx.shape, incoming, needs)
        if torch.is_grad_enabled():  # create_graph=True: a second derivative may follow
            sources = [t for t in (*rest[M:], d_output, d_gates, *d_finals) if t is not None]
            gradients = tuple(None if g is None else once(g, sources) for g in gradients)
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
