"""The fused engine as a torch.autograd.Function around the two C++ functions of a kernel."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from gatelab.engine.fused import buffers, compiler
from gatelab.engine.fused.source import Arguments, Source
from gatelab.engine.masks import draw
from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan
from gatelab.errors import GatelabError
from gatelab.lang import Cell
from gatelab.lang.graph import Matrix, Node, Weight, evaluate, walk
from gatelab.lang.tensors import value

Pointers = dict[str, Tensor | None]

CHUNK_ROWS = 128  # rows of adjoints per weight-gradient product: enough for efficiency, few enough for the cache
TEAM_BYTES = 1 << 20  # larger weights justify a barrier after every phase of a step; measured with B = 1
LANES = 16  # of the widest vectors; rows are padded to this on every machine, so that memory layouts agree


def padded(size: int) -> int:
    """The size rounded up to whole vectors."""
    return -(-size // LANES) * LANES


class Kernel:
    """A cell's compiled forward and backward function."""

    def __init__(self, cell: Cell, watch: bool) -> None:
        try:
            self.source = Source(cell, watch)
        except RecursionError as error:
            raise compiler.KernelError(f"cell {cell.name!r} is nested too deeply") from error
        self.library = compiler.load(cell.name + ("_gates" if watch else ""), self.source.text)
        self.forward, self.backward = self.library.forward, self.library.backward
        for function in (self.forward, self.backward):
            function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p], None


@functools.cache
def kernel(cell: Cell, watch: bool = False) -> Kernel:
    """The kernel of a cell, compiled on first use; raises `CompilerError` where that is impossible."""
    return Kernel(cell, watch)


def call(function: Any, arguments: Arguments, pointers: Pointers, sizes: dict[str, int]) -> None:
    """Call a C++ function with tensors and sizes by name; None becomes a null pointer."""
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
    """Run the cell over a sequence; differentiable once."""
    compiled = kernel(parameters.cell, watch)
    options = parameters.scalars()
    weights: dict[str, dict[str, Tensor]] = {s: dict(getattr(parameters, s).items()) for s in "WU"}
    matrices = [_effective(matrix, weights, options) for matrix in compiled.source.matrices]
    vectors = list(parameters.b.values())
    scalars = [torch.as_tensor(v, dtype=torch.float32) for v in options.values()]
    everything = (x, *states, *matrices, *vectors, *scalars)
    if any(t.dtype != torch.float32 for t in everything):
        dtypes = ", ".join(sorted({str(t.dtype) for t in everything}))
        raise GatelabError(
            f"the layer's parameters and input have different dtypes ({dtypes}): expected torch.float32 for all"
        )
    keep = torch.is_grad_enabled() and any(t.requires_grad for t in everything)
    output, *rest = _Fused.apply(  # type: ignore[no-untyped-call]
        compiled, keep, lengths, draw(parameters, x, states[0].shape[1]), *everything
    )
    finals, gates = rest[: len(states)], rest[len(states) :]
    return Scan(output, tuple(finals), dict(zip(compiled.source.gates, gates, strict=True)))


def _effective(matrix: Matrix, weights: dict[str, dict[str, Tensor]], options: dict[str, Any]) -> Tensor:
    """Evaluate a matrix expression, once per call; torch differentiates it."""
    if isinstance(matrix, Weight):
        return weights[matrix.space][matrix.name]

    def number(by: Node) -> Tensor:
        leaves = (node for node in walk([by]) if node.op == "scalar")
        return evaluate(by, {leaf: torch.as_tensor(options[leaf.name]) for leaf in leaves})

    effective: Tensor = value(matrix, weights["U"], number)
    return effective.contiguous()


class _Fused(torch.autograd.Function):
    """(kernel, keep, lengths, masks, x, states…, matrices…, vectors…, scalars…) → (output, states…, gates…)."""

    @staticmethod
    def forward(
        ctx: Any,
        compiled: Kernel,
        keep: bool,
        lengths: Tensor | None,
        masks: dict[str, Tensor],
        x: Tensor,
        *tensors: Tensor,
    ) -> Any:
        source, graph = compiled.source, compiled.source.graph
        (T, B, D), H = x.shape, tensors[0].shape[1]
        Hp = padded(H)
        starts, matrices, vectors, scalars = _split(source, tensors)
        inputs = (x, *tensors)
        x = x.detach() if D == 1 or x.stride(2) == 1 else x.contiguous()
        if graph.uses_input_itself:  # read in whole vectors
            x = _rows(x, Hp)
        histories = [buffers.empty(T if k == 0 or keep else 2, B, Hp) for k in range(len(starts))]
        finals = [buffers.empty(B, Hp) for _ in starts]
        gates = [buffers.empty(T, B, Hp) for _ in source.gates]
        arguments: Pointers = {"x": x, "lengths": lengths}
        arguments["saved"] = buffers.empty(T, B, len(source.saved), Hp) if keep else None
        arguments["saved_rows"] = buffers.empty(T, B, len(source.saved_rows)) if keep else None
        arguments |= {name: _rows(mask, Hp) for name, mask in zip(source.masks, masks.values(), strict=True)}
        arguments |= {f"start_{s}": _rows(v, Hp) for s, v in zip(source.states, starts, strict=True)}
        arguments |= {source.matrix_names[m]: v.contiguous() for m, v in zip(source.matrices, matrices, strict=True)}
        arguments |= {f"unpadded_{n}": v.contiguous() for n, v in zip(graph.b, vectors, strict=True)}
        arguments |= {f"pointer_{n}": v for n, v in zip(graph.scalars, scalars, strict=True)}
        arguments |= {f"all_{s}": v for s, v in zip(source.states, histories, strict=True)}
        outputs: Pointers = {f"final_{s}": v for s, v in zip(source.states, finals, strict=True)}
        outputs |= {f"gate_{n}": v for n, v in zip(source.gates, gates, strict=True)}
        sizes = {"T": T, "B": B, "D": D, "H": H, "Hp": Hp, "x_t": x.stride(0), "x_b": x.stride(1), "keep": int(keep)}
        sizes["wanted_threads"] = threads = torch.get_num_threads()
        # Too few rows to split among threads, and weights too large for one core's cache: see `Slab` in runtime.hpp.
        # A team splits the units, whose sums would be in parts.
        is_large = 1 < threads > B / 8 and 4 * sum(m.numel() for m in matrices) > TEAM_BYTES
        sizes["team"] = int(is_large and not source.forward.reductions)
        call(compiled.forward, source.forward_arguments, arguments | outputs, sizes)

        output = histories[0][:, :, :H]
        ctx.set_materialize_grads(False)
        if keep:  # saved through torch, which detects in-place changes and frees them after use
            ctx.compiled, ctx.sizes, ctx.names = compiled, sizes, list(arguments)
            ctx.save_for_backward(*arguments.values(), *inputs)
        return (output, *(final[:, :H] for final in finals), *(gate[:, :, :H] for gate in gates))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        saved = ctx.saved_tensors
        arguments = dict(zip(ctx.names, saved, strict=False))
        with torch.no_grad():
            gradients = _gradients(ctx, arguments, *grads)
        if torch.is_grad_enabled():  # create_graph=True: a second derivative may follow
            sources = [*saved[len(arguments) :], *(g for g in grads if g is not None)]
            gradients = tuple(
                g if g is None else _Once.apply(g, *sources)  # type: ignore[no-untyped-call]
                for g in gradients
            )
        return (None, None, None, None, *gradients)


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


def _gradients(
    ctx: Any, arguments: Pointers, d_output: Tensor | None, *rest: Tensor | None
) -> tuple[Tensor | None, ...]:
    """The gradients of x, states, matrices, vectors and scalars; None where none is required."""
    source, graph, sizes = ctx.compiled.source, ctx.compiled.source.graph, ctx.sizes
    T, B, D, H, Hp = (sizes[name] for name in ("T", "B", "D", "H", "Hp"))
    S = len(graph.states)
    needs_x, *needs = ctx.needs_input_grad[4:]
    needs_x = needs_x and bool(graph.W or graph.uses_input_itself)
    _, needs_matrices, needs_vectors, needs_scalars = _split(source, needs)

    d_output = None if d_output is None else _rows(d_output, Hp)
    x = arguments["x"]
    assert x is not None
    sizes = sizes | {"Dp": padded(D), "chunk_rows": CHUNK_ROWS, "d_output_t": 0, "d_output_b": 0}
    sizes |= {"x_t": x.stride(0), "x_b": x.stride(1), "wanted_threads": torch.get_num_threads()}
    if d_output is not None:
        sizes |= {"d_output_t": d_output.stride(0), "d_output_b": d_output.stride(1)}
    columns = {operand: [False] * len(source.adjoints) for operand in source.operands.values()}  # wanted adjoints
    for matrix, operand, column in source.weight_gradients:
        columns[operand][column] |= needs_matrices[matrix]
    needs_b = dict(zip(graph.b, needs_vectors, strict=True))
    needs_option = dict(zip(graph.scalars, needs_scalars, strict=True))
    sums = [needs_b[name] for name in source.gradient.vectors] + [
        needs_option[name] for name in source.gradient.scalars
    ]
    lengths = {operand: D if node.op == "input" else H for node, operand in source.operands.items()}
    by = {op: buffers.empty(lengths[op] if any(c) else 0, len(source.adjoints), Hp) for op, c in columns.items()}
    d_x = buffers.empty(T, B, padded(D)) if needs_x else None
    starts = [buffers.empty(B, Hp) for _ in graph.states]
    vectors = {name: buffers.empty(Hp).zero_() for name in source.gradient.vectors}
    scalars = {name: buffers.empty(Hp).zero_() for name in source.gradient.scalars}

    pointers: Pointers = arguments | {"d_output": d_output, "d_x": d_x}
    rows = [None if g is None else _rows(g, Hp).contiguous() for g in rest]
    pointers |= {f"d_final_{s}": g for s, g in zip(source.states, rows[:S], strict=True)}
    pointers |= {f"d_start_{s}": v for s, v in zip(source.states, starts, strict=True)}
    pointers |= {f"d_gate_{n}": g for n, g in zip(source.gates, rows[S:], strict=True)}
    pointers |= {f"d_by_{name}": v for name, v in by.items()}
    pointers |= {
        f"wanted_by_{name}": torch.tensor(c, dtype=torch.uint8) if any(c) else None for name, c in columns.items()
    }
    pointers["wanted_sums"] = torch.tensor(sums, dtype=torch.uint8)
    pointers |= {f"d_b_{name}": v for name, v in vectors.items()}
    pointers |= {f"d_scalar_{name}": v for name, v in scalars.items()}
    call(ctx.compiled.backward, source.backward_arguments, pointers, sizes)

    matrices: list[Tensor | None] = [None] * len(source.matrices)
    for matrix, operand, column in source.weight_gradients:
        if needs_matrices[matrix]:
            d, before = by[operand][:, column, :H].T, matrices[matrix]
            matrices[matrix] = d if before is None else before + d
    gradients: list[Tensor | None] = [None if d_x is None else d_x[:, :, :D]]
    gradients += [start[:, :H] for start in starts]
    gradients += matrices
    gradients += [vectors[name][:H] if name in vectors else None for name in graph.b]
    gradients += [scalars[name].sum() if name in scalars else None for name in graph.scalars]
    return tuple(g if needed else None for g, needed in zip(gradients, (needs_x, *needs), strict=True))


def _split(source: Source, values: Sequence[Any]) -> tuple[Sequence[Any], ...]:
    """Split into states, matrices, vectors and scalars."""
    ends = list(itertools.accumulate((len(source.graph.states), len(source.matrices), len(source.graph.b))))
    return values[: ends[0]], values[ends[0] : ends[1]], values[ends[1] : ends[2]], values[ends[2] :]


def _rows(values: Tensor, Hp: int) -> Tensor:
    """With contiguous rows of Hp floats; copied only if necessary."""
    missing = Hp - values.shape[-1]
    if missing:
        return pad(values, (0, missing))
    return values if values.stride(-1) == 1 and values.dim() == 3 else values.contiguous()
