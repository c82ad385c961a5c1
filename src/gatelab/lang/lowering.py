"""Earlier values and the step index become states, so that engines know nothing of them.

`prev(n, 2)` becomes the state n_2, whose new value is n_1, whose new value is n. The index t becomes a state that
counts. Both start at zero and travel with the other states: a sequence that is processed in pieces continues where it
was.
"""

from __future__ import annotations

from dataclasses import replace

from gatelab.lang.graph import Graph, Node, Weight


def lowered(graph: Graph) -> Graph:
    """The graph without `prev` and `index`; the states that hold these values come after the cell's own."""
    if not any(node.op in ("prev", "index") for node in graph.nodes()):
        return graph
    used = set(graph.nodes())  # a number that nothing reads needs no state
    numbers = {name: node for name, node in graph.numbers.items() if node in used or node.shape == "scalar"}
    graph = replace(graph, numbers=numbers)
    labels = {node: name for name, node in graph.gates.items()}
    taken = {*graph.states, *graph.scalars, *graph.gates, *(node.name for node in graph.nodes() if node.op == "input")}
    delayed: dict[Node, list[Node]] = {}  # value → its states, one step old, two steps old, …
    counters: list[Node] = []

    def state(name: str) -> Node:
        while name in taken:
            name += "_"
        taken.add(name)
        return Node("state", "vector", name=name)

    def replacement(node: Node, args: tuple[Node, ...]) -> Node | None:
        if node.op == "index":
            counters.append(state(node.name))
            return counters[-1]
        if node.op != "prev":
            return None
        chain = delayed.setdefault(args[0], [])
        while len(chain) < node.value:
            chain.append(state(f"{_label(node.args[0], labels)}_{len(chain) + 1}"))
        return chain[int(node.value) - 1]

    result = graph.replaced(replacement)
    new = dict(zip(result.states, result.new_states, strict=True))
    for value, chain in delayed.items():
        new |= {each.name: before for each, before in zip(chain, (value, *chain), strict=False)}
    for counter in counters:
        new[counter.name] = Node("add", "vector", (counter, Node("constant", "scalar", value=1.0)))
    return replace(result, states=tuple(new), new_states=tuple(new.values()))


def _label(node: Node, gates: dict[Node, str]) -> str:
    """A name for a value: that of the gate or state, or of the map that makes it."""
    if isinstance(node.matrix, Weight):
        return node.matrix.name
    return gates.get(node) or node.name or "value"
