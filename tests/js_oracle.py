"""What an exported network answers, and its derivatives, by torch in float64: the graph of the cell, evaluated node by
node, with gates and states replaced on the way.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gatelab.engine.scan import Scan
from gatelab.engine.stack import scan_layers
from gatelab.lang.graph import Node, evaluate, walk
from gatelab.lang.tensors import value as matrix_value

# (layer and direction as an index, name of the gate or state, time, value) → the value to continue with
Change = Callable[[int, str, int, Tensor], Tensor]


class Oracle:
    """One sequence through the layers of a model. `change` replaces gates and states."""

    def __init__(self, layers, x: Tensor, change: Change) -> None:  # x (T, D)
        self.change, self.directions, self.T = change, len(layers.directions), len(x)
        self.states: list[list[tuple[Tensor, ...]]] = []  # of each layer and direction, in the order of processing
        zeros = tuple(x.new_zeros(1, layers.hidden_size) for _ in layers.cell.states)
        output, _ = scan_layers(
            self._scan, layers.stacked(), x[:, None], iter([zeros] * 9), None,
            residual=layers.residual, dropout=0.0, watch=False,
        )  # fmt: skip
        assert output is not None
        self.output = output[:, 0]  # (T, H × directions)

    def time(self, index: int, step: int) -> int:
        return self.T - 1 - step if index % self.directions else step

    def _scan(self, parameters, x, states, lengths, watch, resets) -> Scan:
        index, outputs, graph = len(self.states), [], parameters.cell.lowered
        self.states.append([])
        for step, x_t in enumerate(x):
            t = self.time(index, step)
            new = self._step(parameters, x_t, states, index, t)
            states = tuple(
                self.change(index, name, t, s.expand_as(states[0])).clone().requires_grad_()
                for name, s in zip(graph.states, new, strict=True)
            )
            self.states[-1].append(states)
            outputs.append(states[0])
        return Scan(torch.stack(outputs), states, {})

    def _step(self, parameters, x, states, index, t) -> list[Tensor]:
        graph = parameters.cell.lowered
        old, numbers = dict(zip(graph.states, states, strict=True)), parameters.scalars()

        def number(name: str) -> Tensor:
            return torch.as_tensor(numbers[name], dtype=torch.float64)

        def factor(by: Node) -> Tensor:
            return evaluate(by, {n: number(n.name) for n in walk([by]) if n.op == "scalar"})

        recurrent = dict(parameters.U.items())
        leaves = {
            "input": lambda node: x,
            "itself": lambda node: x,
            "state": lambda node: old[node.name],
            "vector": lambda node: parameters.b[node.name],
            "scalar": lambda node: number(node.name),
            "full": lambda node: torch.full_like(states[0], node.value),
            "random": lambda node: values[node.args[0]].detach().expand_as(states[0]),
        }
        values: dict[Node, Tensor] = {}
        for node in graph.nodes():
            if node.op == "product":
                own = node.args[0].op == "input"
                matrix = parameters.W[node.matrix.name] if own else matrix_value(node.matrix, recurrent, factor)
                values[node] = values[node.args[0]] @ matrix.T
            elif node.op in leaves:
                values[node] = leaves[node.op](node)
            else:
                evaluate(node, values)
            for name, gate in graph.gates.items():
                if gate is node:
                    values[node] = self.change(index, name, t, values[node].expand_as(states[0]))
        return [values[node] for node in graph.new_states]
