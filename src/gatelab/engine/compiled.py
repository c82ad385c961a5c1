"""The compiled engine: torch.compile over chunks of steps, for any cell on any device.

What does not depend on a state (products of the input, functions of parameters) is computed once, for all steps. The
rest is written as graphs of `torch.fx`: one of several steps, which is compiled and called chunk by chunk, and one of a
single step, for those that are left over. Products of the same vector are one product.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx
from torch.nn.functional import linear

from gatelab.engine.masks import draw
from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan
from gatelab.errors import GatelabError
from gatelab.lang import Cell
from gatelab.lang.graph import Matrix, Node, mask_name, walk
from gatelab.lang.operations import CONDITIONS, POINTWISE, REDUCTIONS

States = tuple[Tensor, ...]
STEPS = 16  # of a chunk: enough that calling it costs little, few enough to be compiled in a minute
BACKEND = "inductor"  # of torch.compile
SIZE = 8  # of the layer that is tried
MISSING = {  # what is not installed, by the error of torch
    "InvalidCxxCompiler": "a C++ compiler (`apt-get install g++`, or the variable CXX)",
    "TritonMissing": "Triton",
}
ARITHMETIC = ("add", "sub", "mul", "div")  # of a number and a tensor as well


class CompilationError(GatelabError):
    """torch.compile does not work here, or not for this cell; the message says what to do."""


def scan(
    parameters: CellParameters,
    x: Tensor,  # (T, B, D)
    states: States,  # (B, H) each; then those after resets, if they are not the initial ones
    lengths: Tensor | None = None,  # (B,)
    watch: bool = False,
    resets: Tensor | None = None,  # (T, B) bool: before these steps sequences begin anew
) -> Scan:
    """Run the cell over a sequence; differentiable once."""
    program, T = _program(parameters.cell, watch), x.shape[0]
    shared, by_step = program.prepared(parameters, x, states)
    if lengths is not None:
        by_step.append((torch.arange(T, device=x.device).unsqueeze(1) < lengths).to(x.dtype).unsqueeze(2))
    if resets is not None:
        by_step.append(resets.to(x.dtype).unsqueeze(2))
    keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (*states, *shared, *by_step))
    # All chunks are called alike: with tensors that begin at their own memory, and with states that have a gradient if
    # anything has one. Otherwise torch.compile would compile them again.
    S = len(parameters.cell.states)
    initial = tuple(_copy(state) for state in states[-S:]) if resets is not None else ()
    states = tuple(
        _copy(state).requires_grad_(keep) if not state.requires_grad else _copy(state) for state in states[:S]
    )
    values: Any = ()
    if by_step:
        values = torch.split_with_sizes_copy(torch.cat(by_step, 2), [1] * T)  # type: ignore[func-returns-value]
    outputs: list[list[Tensor]] = [[] for _ in range(1 + len(program.gates))]
    for first, steps in _chunks(T):
        kind = Kind(parameters.cell, watch, x.shape[2], states[0].shape[1], steps, lengths is not None, bool(initial))
        results = _run(kind, keep, [*states, *initial], values[first : first + steps], shared)
        states = results[: len(states)]
        for i, collected in enumerate(outputs):
            collected += results[len(states) + i * steps : len(states) + (i + 1) * steps]
    output, *gates = (torch.stack(collected) for collected in outputs)
    return Scan(output, states, dict(zip(program.gates, gates, strict=True)))


def _copy(values: Tensor) -> Tensor:
    return values.clone(memory_format=torch.contiguous_format)


def _chunks(T: int) -> Iterator[tuple[int, int]]:
    """The first step and the number of steps of each chunk: as many whole ones as fit, then single steps."""
    whole = T - T % STEPS
    yield from ((first, STEPS) for first in range(0, whole, STEPS))
    yield from ((first, 1) for first in range(whole, T))


class CompiledProgram:
    """What a cell computes, in order: a part once for all steps, and a part step by step."""

    def __init__(self, cell: Cell, watch: bool) -> None:
        self.graph = cell.lowered
        self.gates = dict(self.graph.gates) if watch else {}
        self.results = (*self.graph.new_states, *self.gates.values())
        self.order = list(walk(self.results))
        self.products: dict[Node, list[Matrix]] = {}  # vector → the matrices that it is multiplied by
        self.recurrent: set[Node] = set()  # nodes that depend on a state
        self.timed: set[Node] = set()  # nodes that do not, but on the input or a mask
        for node in self.order:
            if node.matrix is not None and node.matrix not in self.products.setdefault(node.args[0], []):
                self.products[node.args[0]].append(node.matrix)
            if node.op == "state" or any(arg in self.recurrent for arg in node.args):
                self.recurrent.add(node)
            elif node.op in ("input", "random") or any(arg in self.timed for arg in node.args):
                self.timed.add(node)
        used = {arg for node in self.order if node in self.recurrent for arg in node.args} | set(self.results)
        before = [node for node in self.order if node in used - self.recurrent and node.op != "constant"]
        self.before_timed = [node for node in before if node in self.timed]  # what steps need of the first part
        self.before_fixed = [node for node in before if node not in self.timed]
        self.leaves = [node for node in self.order if node.op in ("vector", "scalar", "random")]
        self.first, self.later = (
            [vector for vector in self.products if (vector in self.recurrent) == later] for later in (False, True)
        )

    @functools.cached_property
    def preparation(self) -> Callable[..., tuple[Tensor, ...]]:
        """The first part, as a function of the input, a state, matrices, and leaves."""
        return _function(_Writer(self).preparation())

    def prepared(self, parameters: CellParameters, x: Tensor, states: States) -> tuple[list[Tensor], list[Tensor]]:
        """What all steps need: values that they share, and values by step (T, B, …)."""
        options, masks = parameters.scalars(), draw(parameters, x, states[0].shape[1])

        def stacked(vector: Node) -> Tensor:
            matrices = [parameters.effective(matrix) for matrix in self.products[vector]]
            return torch.cat(matrices) if len(matrices) > 1 else matrices[0]

        def leaf(node: Node) -> Tensor:
            if node.op == "random":
                return masks[mask_name(node)]
            return parameters.b[node.name] if node.op == "vector" else parameters.number(options[node.name])

        matrices = [stacked(vector) for vector in self.first]
        values = self.preparation(x, states[0], *matrices, *(leaf(node) for node in self.leaves))
        fixed, timed = values[: len(self.before_fixed)], values[len(self.before_fixed) :]
        return [*(stacked(vector) for vector in self.later), *fixed], list(timed)


@functools.cache
def _program(cell: Cell, watch: bool) -> CompiledProgram:
    try:
        return CompiledProgram(cell, watch)
    except RecursionError as error:
        raise CompilationError(
            f"engine 'compiled': the cell {cell.name!r} is nested too deeply: use engine='eager'"
        ) from error


class Kind(NamedTuple):
    """A graph that is compiled."""

    cell: Cell
    watch: bool
    input_size: int
    hidden_size: int
    steps: int
    has_lengths: bool
    has_resets: bool


class _Writer:
    """Writes the parts of a program as graphs of torch.fx. Names of the user's do not occur in them."""

    def __init__(self, program: CompiledProgram) -> None:
        self.program, self.graph, self.arguments = program, fx.Graph(), 0

    def preparation(self) -> fx.Graph:
        """(x, a state, matrices, leaves) → (values that steps share, values by step)."""
        program = self.program
        x, self.like = self._argument(), self._argument()
        self.stacks = self._named(program.first)
        known = self._named(program.leaves) | {node: x for node in program.order if node.op == "input"}
        values = self._values((n for n in program.order if n not in program.recurrent), known)
        self.graph.output(tuple(values[node] for node in (*program.before_fixed, *program.before_timed)))
        return self.graph

    def chunk(self, kind: Kind) -> fx.Graph:
        """(states, initial states, values of each step, matrices, shared values) → (states, outputs, gates).

        Steps have arguments and results of their own, so that the code of all steps is the same and compiled once.
        """
        program, cell = self.program, self.program.graph
        states: dict[str, Any] = self._named(cell.states)
        initial = self._named(cell.states) if kind.has_resets else {}
        self.like = states[cell.states[0]]
        widths = {"input": kind.input_size, "vector": kind.hidden_size, "row": 1, "scalar": 1}
        timed: dict[Any, int] = {node: widths[node.shape] for node in program.before_timed}
        timed |= {"inside": 1} if kind.has_lengths else {}
        timed |= {"reset": 1} if kind.has_resets else {}
        by_step = [self._argument() for _ in range(kind.steps) if timed]
        self.stacks = self._named(program.later)
        shared = self._named(program.before_fixed) | {n: n.value for n in program.order if n.op == "constant"}
        outputs: list[list[fx.Node]] = [[] for _ in range(1 + len(program.gates))]
        for t in range(kind.steps):
            known = dict(shared)
            if timed:
                parts = self._call(torch.split, self._call(torch.select, by_step[t], 0, 0), list(timed.values()), -1)
                known |= {key: self._call(_item, parts, i) for i, key in enumerate(timed)}
            # Tensors of different types are one of numbers: what is true or false is 1 or 0 in it.
            known |= {key: self._call(torch.gt, known[key], 0.5) for key in timed if _is_condition(key)}
            inside, reset = known.get("inside"), known.get("reset")
            if reset is not None:
                states = {name: self._call(torch.where, reset, initial[name], old) for name, old in states.items()}
            known |= {n: states[n.name] for n in program.order if n.op == "state"}
            values = self._values((n for n in program.order if n in program.recurrent), known)
            results = [self._call(torch.Tensor.expand_as, self._tensor(values[n]), self.like) for n in program.results]
            new = dict(zip(cell.states, results, strict=False))
            if inside is not None:
                new = {name: self._call(torch.where, inside, v, states[name]) for name, v in new.items()}
            states = new
            for collected, result in zip(outputs, (new[cell.states[0]], *results[len(new) :]), strict=True):
                collected.append(self._call(torch.where, inside, result, 0.0) if inside is not None else result)
        copies = [self._call(_copy, state) for state in states.values()]
        self.graph.output((*copies, *(result for collected in outputs for result in collected)))
        return self.graph

    def _argument(self) -> fx.Node:
        self.arguments += 1
        return self.graph.placeholder(f"argument_{self.arguments}")

    def _named(self, keys: Iterable[Any]) -> dict[Any, Any]:
        return {key: self._argument() for key in keys}

    def _call(self, function: Callable[..., Any], *args: Any, **options: Any) -> fx.Node:
        return self.graph.call_function(function, args, options)

    def _tensor(self, value: Any) -> fx.Node:
        """A number as a tensor, for functions that take nothing else."""
        return value if isinstance(value, fx.Node) else self._call(torch.Tensor.new_full, self.like, (), value)

    def _values(self, nodes: Iterable[Node], known: dict[Node, Any]) -> dict[Node, Any]:
        """The values of nodes in topological order."""
        values = dict(known)
        products: dict[tuple[Node, Matrix], fx.Node] = {}
        for node in nodes:
            if node.matrix is not None and (vector := node.args[0]):
                if (vector, node.matrix) not in products:  # all products of this vector at once
                    group = self.program.products[vector]
                    product = self._call(linear, self._tensor(values[vector]), self.stacks[vector])
                    parts = self._call(torch.chunk, product, len(group), -1)
                    products |= {(vector, m): self._call(_item, parts, i) for i, m in enumerate(group)}
                values[node] = products[vector, node.matrix]
            elif node not in values:
                values[node] = self._value(node, [values[arg] for arg in node.args])
        return values

    def _value(self, node: Node, arguments: list[Any]) -> Any:
        if node.op == "constant":
            return node.value
        if node.op == "full":
            return self._call(torch.full_like, self._call(torch.select, self.like, 0, 0), node.value)  # (H,)
        if node.op == "itself":
            return arguments[0]
        if node.op not in ARITHMETIC or not any(isinstance(value, fx.Node) for value in arguments):
            arguments = [self._tensor(value) for value in arguments]
        if node.op in REDUCTIONS:
            return self._call(REDUCTIONS[node.op], *arguments, dim=-1, keepdim=True)
        exponent = [int(node.value)] if node.op == "power" else []
        return self._call(POINTWISE[node.op].compute, *arguments, *exponent)


def _is_condition(key: Any) -> bool:
    """Whether a value by step is true or false: a comparison, or whether a step is inside of a sequence."""
    return key in ("inside", "reset") if isinstance(key, str) else key.op in CONDITIONS


def _item(values: Any, i: int) -> Any:
    return values[i]


def _function(graph: fx.Graph) -> Callable[..., tuple[Tensor, ...]]:
    function: Callable[..., tuple[Tensor, ...]] = fx.GraphModule(torch.nn.Module(), graph).forward
    return function


@functools.cache
def _compiled(kind: Kind, *situation: object) -> Callable[..., tuple[Tensor, ...]]:
    """A chunk as a compiled function: one for each situation, since torch.compile limits how often a function may be
    compiled again.
    """
    graph = _Writer(_program(kind.cell, kind.watch)).chunk(kind)
    compiled: Callable[..., tuple[Tensor, ...]] = torch.compile(_function(graph), fullgraph=True, backend=BACKEND)
    return compiled


def _run(
    kind: Kind, keep: bool, states: list[Tensor], by_step: tuple[Tensor, ...], shared: list[Tensor]
) -> tuple[Tensor, ...]:
    """Call a compiled chunk; it is compiled in the first call, for batches of any size above 1."""
    import torch._dynamo as dynamo  # takes seconds

    like, learned = states[0], tuple(tensor.requires_grad for tensor in (*states, *by_step, *shared))
    situation = (like.device, like.dtype, torch.get_num_threads(), len(like) == 1, keep, learned)
    for dimension, tensors in enumerate((states, by_step)):
        for tensor in tensors:
            dynamo.maybe_mark_dynamic(tensor, dimension)
    try:
        function = _compiled(kind, *situation)
    except RuntimeError as error:  # this version of Python is too new for this torch
        raise _in_words(kind.cell, like.device, error) from error
    try:
        return function(*states, *by_step, *shared)
    except dynamo.exc.TorchDynamoException as error:
        raise _in_words(kind.cell, like.device, error) from error


def _in_words(cell: Cell, device: torch.device, error: Exception) -> CompilationError:
    inner = getattr(error, "inner_exception", error)  # what went wrong in the backend
    missing = MISSING.get(type(inner).__name__)
    install = f": torch.compile needs {missing} for {device.type}" if missing else ""
    why = f"{type(inner).__name__}: {str(inner).strip().partition(chr(10))[0]}"
    return CompilationError(
        f"engine 'compiled': torch.compile failed for the cell {cell.name!r} on {device} ({why}){install}; "
        "engine='eager' needs nothing"
    )


@functools.cache
def unavailable(cell: Cell, device: str) -> CompilationError | None:
    """Why this cell cannot be compiled for a device, found out with one step of a small layer; None if it can."""
    parameters = CellParameters(cell, SIZE, SIZE, cell.options, device=device).eval()  # draws no random numbers
    states = tuple(torch.zeros(2, SIZE, device=device) for _ in cell.states)
    try:
        with torch.enable_grad():
            scan(parameters, torch.zeros(1, 2, SIZE, device=device), states).output.sum().backward()  # type: ignore[no-untyped-call]
    except CompilationError as error:
        return error
    return None
