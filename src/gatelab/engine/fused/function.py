"""The fused engine as torch sees it: a differentiable function around the two C++ functions of a kernel."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from gatelab.engine.fused import build, memory
from gatelab.engine.fused.source import Arguments, Source, identifier
from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan
from gatelab.lang import Cell
from gatelab.lang.graph import Matrix, Node, Weight, evaluate, walk
from gatelab.lang.tensors import value

MOST_MAPS = 62  # a mask of them has to fit in a whole number
Pointers = dict[str, Tensor | None]

CHUNK_ROWS = (
    128  # rows in a chunk of adjoints: enough to make a weight's gradient worth a product, few enough for cache
)
TEAM_BYTES = 1 << 20  # weights beyond this are worth meeting after every phase of a step, measured with B = 1
LANES = 16  # the widest vector; rows are padded to it whatever the machine, so that nothing else depends on the width


def padded(size: int) -> int:
    return -(-size // LANES) * LANES


class Kernel:
    """A cell's compiled functions."""

    def __init__(self, cell: Cell, watch: bool) -> None:
        try:
            self.source = Source(cell, watch)
        except RecursionError as error:
            raise build.KernelError(f"cell {cell.name!r} is nested too deeply") from error
        if len(self.source.adjoints) > MOST_MAPS:
            raise build.KernelError(f"cell {cell.name!r} has more than {MOST_MAPS} maps")
        self.library = build.load(cell.name + ("_gates" if watch else ""), self.source.text)
        self.forward, self.backward = self.library.forward, self.library.backward
        for function in (self.forward, self.backward):
            function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p], None


@functools.cache
def kernel(cell: Cell, watch: bool = False) -> Kernel:
    return Kernel(cell, watch)


def call(function: Any, arguments: Arguments, pointers: Pointers, sizes: dict[str, int]) -> None:
    addresses = (ctypes.c_void_p * len(arguments.pointers))()
    for i, name in enumerate(arguments.pointers):
        tensor = pointers[name]
        addresses[i] = tensor.data_ptr() if tensor is not None else None
    numbers = (ctypes.c_long * len(arguments.sizes))(*(sizes[name] for name in arguments.sizes))
    function(addresses, numbers)


def scan(
    parameters: CellParameters,
    x: Tensor,  # (T, B, D)
    states: tuple[Tensor, ...],  # (B, H) each
    lengths: Tensor | None = None,  # (B,)
    watch: bool = False,
) -> Scan:
    """Run the cell over a sequence."""
    ready = kernel(parameters.cell, watch)
    options = parameters.scalars()
    weights: dict[str, dict[str, Tensor]] = {s: dict(getattr(parameters, s).items()) for s in "WU"}
    matrices = [_effective(matrix, weights, options) for matrix in ready.source.matrices]
    vectors = list(parameters.b.values())
    scalars = [torch.as_tensor(v, dtype=torch.float32) for v in options.values()]
    everything = (x, *states, *matrices, *vectors, *scalars)
    if any(t.dtype != torch.float32 for t in everything):
        found = ", ".join(sorted({str(t.dtype) for t in everything}))
        raise ValueError(
            f"the layer's parameters and input are of several kinds ({found}): expected torch.float32 for all"
        )
    keep = torch.is_grad_enabled() and any(t.requires_grad for t in everything)
    output, *rest = _Fused.apply(  # type: ignore[no-untyped-call]
        ready, keep, lengths, *everything
    )
    finals, gates = rest[: len(states)], rest[len(states) :]
    return Scan(output, tuple(finals), dict(zip(ready.source.gates, gates, strict=True)))


def _effective(matrix: Matrix, weights: dict[str, dict[str, Tensor]], options: dict[str, Any]) -> Tensor:
    """A matrix expression as one tensor; torch differentiates it, once per call."""
    if isinstance(matrix, Weight):
        return weights[matrix.space][matrix.name]

    def number(by: Node) -> Tensor:
        leaves = (node for node in walk([by]) if node.op == "scalar")
        return evaluate(by, {leaf: torch.as_tensor(options[leaf.name]) for leaf in leaves})

    effective: Tensor = value(matrix, weights["U"], number)
    return effective.contiguous()


class _Fused(torch.autograd.Function):
    """Takes (kernel, keep, lengths, x, states…, matrices…, vectors…, scalars…), gives (output, states…, gates…)."""

    @staticmethod
    def forward(ctx: Any, ready: Kernel, keep: bool, lengths: Tensor | None, x: Tensor, *tensors: Tensor) -> Any:
        source, graph = ready.source, ready.source.graph
        (T, B, D), H = x.shape, tensors[0].shape[1]
        Hp = padded(H)
        starts, matrices, vectors, scalars = _parted(source, tensors)
        inputs = (x, *tensors)
        x = x.detach() if D == 1 or x.stride(2) == 1 else x.contiguous()
        histories = [memory.empty(T if k == 0 or keep else 2, B, Hp) for k in range(len(starts))]
        finals = [memory.empty(B, Hp) for _ in starts]
        gates = [memory.empty(T, B, Hp) for _ in source.gates]
        given: Pointers = {"x": x, "lengths": lengths}
        given["saved"] = memory.empty(T, B, len(source.kept), Hp) if keep else None
        given |= {f"{s}_start": _rows(v, Hp) for s, v in zip(source.states, starts, strict=True)}
        given |= {source.matrix_names[m]: v.contiguous() for m, v in zip(source.matrices, matrices, strict=True)}
        given |= {f"b_{n}_given": v.contiguous() for n, v in zip(graph.b, vectors, strict=True)}
        given |= {f"{identifier(n)}_given": v for n, v in zip(graph.scalars, scalars, strict=True)}
        given |= {f"{s}_all": v for s, v in zip(source.states, histories, strict=True)}
        made: Pointers = {f"{s}_final": v for s, v in zip(source.states, finals, strict=True)}
        made |= {f"gate_{n}": v for n, v in zip(source.gates, gates, strict=True)}
        sizes = {"T": T, "B": B, "D": D, "H": H, "Hp": Hp, "x_t": x.stride(0), "x_b": x.stride(1), "keep": int(keep)}
        sizes["wanted_threads"] = threads = torch.get_num_threads()
        # Rows too few to share out, and weights too large for one core's cache: see `Slab` in the runtime.
        sizes["team"] = int(1 < threads > B / 8 and 4 * sum(m.numel() for m in matrices) > TEAM_BYTES)
        call(ready.forward, source.forward_arguments, given | made, sizes)

        output = histories[0][:, :, :H]
        ctx.set_materialize_grads(False)
        if keep:  # saved with torch, which notices if one of them is changed in place, and lets them go after use
            ctx.ready, ctx.sizes, ctx.names = ready, sizes, list(given)
            ctx.save_for_backward(*given.values(), *inputs)
        return (output, *(final[:, :H] for final in finals), *(gate[:, :, :H] for gate in gates))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        saved = ctx.saved_tensors
        given = dict(zip(ctx.names, saved, strict=False))
        with torch.no_grad():
            found = _gradients(ctx, given, *grads)
        if torch.is_grad_enabled():  # someone may want to differentiate once more
            sources = [*saved[len(given) :], *(g for g in grads if g is not None)]
            found = tuple(g if g is None else _Once.apply(g, *sources) for g in found)  # type: ignore[no-untyped-call]
        return (None, None, None, *found)


class _Once(torch.autograd.Function):
    """Marks a gradient that has no gradient of its own, on every way back to what it was computed from."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *sources: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise RuntimeError(
            "the fused engine has first derivatives only: to differentiate again, make the layer with engine='eager'"
        )


def _gradients(ctx: Any, given: Pointers, d_output: Tensor | None, *rest: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradients of x, states, matrices, vectors and scalars, None where nobody asked."""
    source, graph, sizes = ctx.ready.source, ctx.ready.source.graph, ctx.sizes
    T, B, D, H, Hp = (sizes[name] for name in ("T", "B", "D", "H", "Hp"))
    S = len(graph.states)
    wants_x, *wanted = ctx.needs_input_grad[3:]
    wants_x = wants_x and bool(graph.W)
    _, wanted_matrices, wanted_vectors, wanted_scalars = _parted(source, wanted)

    d_output = None if d_output is None else _rows(d_output, Hp)
    x = given["x"]
    assert x is not None
    sizes = sizes | {"Dp": padded(D), "chunk_rows": CHUNK_ROWS, "d_output_t": 0, "d_output_b": 0}
    sizes |= {"x_t": x.stride(0), "x_b": x.stride(1), "wanted_threads": torch.get_num_threads()}
    if d_output is not None:
        sizes |= {"d_output_t": d_output.stride(0), "d_output_b": d_output.stride(1)}
    masks = dict.fromkeys(source.operands.values(), 0)  # which columns of adjoints anyone wants, by operand
    for matrix, operand, column in source.weight_gradients:
        masks[operand] |= wanted_matrices[matrix] << column
    sizes |= {f"wanted_by_{operand}": mask for operand, mask in masks.items()}
    asked = dict(zip(graph.b, wanted_vectors, strict=True)), dict(zip(graph.scalars, wanted_scalars, strict=True))
    sums = [asked[0][name] for name in source.gradient.vectors] + [asked[1][name] for name in source.gradient.scalars]
    sizes["wanted_sums"] = sum(want << i for i, want in enumerate(sums))
    lengths = {operand: D if node.op == "input" else H for node, operand in source.operands.items()}
    by = {op: memory.empty(lengths[op] if mask else 0, len(source.adjoints), Hp) for op, mask in masks.items()}
    d_x = memory.empty(T, B, padded(D)) if wants_x else None
    starts = [memory.empty(B, Hp) for _ in graph.states]
    vectors = {name: memory.empty(Hp).zero_() for name in source.gradient.vectors}
    scalars = {name: memory.empty(Hp).zero_() for name in source.gradient.scalars}

    pointers: Pointers = given | {"d_output": d_output, "d_x": d_x}
    rows = [None if g is None else _rows(g, Hp).contiguous() for g in rest]
    pointers |= {f"d_final_{s}": g for s, g in zip(source.states, rows[:S], strict=True)}
    pointers |= {f"d_start_{s}": v for s, v in zip(source.states, starts, strict=True)}
    pointers |= {f"d_gate_{n}": g for n, g in zip(source.gates, rows[S:], strict=True)}
    pointers |= {f"d_by_{name}": v for name, v in by.items()}
    pointers |= {f"d_b_{name}": v for name, v in vectors.items()}
    pointers |= {f"d_scalar_{name}": v for name, v in scalars.items()}
    call(ctx.ready.backward, source.backward_arguments, pointers, sizes)

    matrices: list[Tensor | None] = [None] * len(source.matrices)
    for matrix, operand, column in source.weight_gradients:
        if wanted_matrices[matrix]:
            d, before = by[operand][:, column, :H].T, matrices[matrix]
            matrices[matrix] = d if before is None else before + d
    found: list[Tensor | None] = [None if d_x is None else d_x[:, :, :D]]
    found += [start[:, :H] for start in starts]
    found += matrices
    found += [vectors[name][:H] if name in vectors else None for name in graph.b]
    found += [scalars[name].sum() if name in scalars else None for name in graph.scalars]
    return tuple(g if asked else None for g, asked in zip(found, (wants_x, *wanted), strict=True))


def _parted(source: Source, values: Sequence[Any]) -> tuple[Sequence[Any], ...]:
    """What belongs to states, matrices, vectors and scalars."""
    ends = list(itertools.accumulate((len(source.graph.states), len(source.matrices), len(source.graph.b))))
    return values[: ends[0]], values[ends[0] : ends[1]], values[ends[1] : ends[2]], values[ends[2] :]


def _rows(values: Tensor, Hp: int) -> Tensor:
    """With rows of Hp whole floats in a line: as it is, or a copy."""
    missing = Hp - values.shape[-1]
    if missing:
        return pad(values, (0, missing))
    return values if values.stride(-1) == 1 and values.dim() == 3 else values.contiguous()
