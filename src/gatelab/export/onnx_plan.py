"""What the nodes of a cell's step become in an ONNX graph: their operators, their names, and when they are known."""

from __future__ import annotations

from gatelab.lang.graph import Graph, Matrix, Node, Weight, walk, weights

OPERATORS = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "neg": "Neg",
    "power": "Pow",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "relu": "Relu",
    "softplus": "Softplus",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "sin": "Sin",
    "cos": "Cos",
    "abs": "Abs",
    "floor": "Floor",
    "maximum": "Max",
    "minimum": "Min",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "where": "Where",
    "product": "MatMul",
    "sum": "ReduceSum",
    "mean": "ReduceMean",
    "step": "Cast",
    "clamp": "Min",
}
ONCE, EVERY_STEP, IN_TURN = range(3)  # when a value is known: from parameters, from the input, from states


def schedule(graph: Graph) -> dict[Node, int]:
    """When each value is known. A state that only repeats what the input gave a step earlier waits for no state."""
    new = dict(zip(graph.states, graph.new_states, strict=True))
    delayed: set[str] = set()
    while True:
        known: dict[Node, int] = {}
        for node in walk(graph.new_states, operands=used_arguments):
            if node.op in ("input", "state"):
                known[node] = EVERY_STEP if node.op == "input" or node.name in delayed else IN_TURN
            else:
                known[node] = max((known[arg] for arg in used_arguments(node)), default=ONCE)
        more = {state for state, node in new.items() if known[node] == EVERY_STEP}
        if more == delayed:
            return known
        delayed = more


def used_arguments(node: Node) -> tuple[Node, ...]:
    """The arguments whose values count: a surrogate's second one is for its gradient."""
    return node.args[:1] if node.op == "surrogate" else node.args


def matrix_name(graph: Graph, matrix: Matrix) -> str:
    """W.z, the name of a matrix expression, or the matrices in it."""
    if isinstance(matrix, Weight):
        return f"{matrix.space}.{matrix.name}"
    named = {each: name for name, each in graph.maps.items()}
    inner = dict.fromkeys(f"{weight.space}.{weight.name}" for weight in weights(matrix))
    return named.get(matrix) or f"matrix({', '.join(inner)})"


def labels(graph: Graph) -> dict[Node, str]:
    """A name for every value that is computed: z, U.z(h), and z.Add for an unnamed step on the way to z."""
    named = {**graph.numbers, **graph.gates}
    own = {node: name for name, node in named.items() if node.args}
    for state, node in zip(graph.states, graph.new_states, strict=True):
        if node.args:
            own.setdefault(node, f"{state}_next")
    result: dict[Node, str] = {}
    for root, name in own.items():
        for node in walk([root]):
            if node.matrix is not None:
                argument = result.get(node.args[0]) or node.args[0].name
                result.setdefault(node, own.get(node, f"{matrix_name(graph, node.matrix)}({argument})"))
            elif node.args:
                result.setdefault(node, own.get(node, f"{name}.{OPERATORS.get(node.op, node.op)}"))
    return result
