"""The class of a layer in the file of an export to PyTorch: the equations, parameters, one step, all steps."""

from __future__ import annotations

from gatelab.export.network import Network, differentiable_graph
from gatelab.export.torch_lines import folded, indented
from gatelab.export.torch_step import Attributes, TorchStep, equations


class LayerSource:
    """The source code for one layer in one direction."""

    def __init__(self, network: Network, name: str) -> None:
        self.name, self.cell = name, network.cell
        self.graph = differentiable_graph(network.cell)  # the module can be trained further
        fixed = [option for option, given in network.cell.options.items() if not given.learned]
        self.attributes = Attributes(self.graph, network.cell.given, fixed)
        self.step = TorchStep(self.graph, self.attributes)
        self.body = self.step.lines()
        self.outputs, self.now = self.step.names.new("outputs"), self.step.names.new(f"{self.step.input}_t")

    def text(self) -> str:
        """The class."""
        arguments = ", ".join(f"{name}: Tensor" for name in self.step.arguments)
        states = ", ".join(self.step.states.values())
        count = len(self.step.states)
        new = "Tensor" if count == 1 else f"Tuple[{', '.join(['Tensor'] * count)}]"
        step = [
            *folded(f"def step(self, {arguments}) -> {new}:"),
            f'    """One step: {self.step.input} is (B, D), the states are (B, H), before and after."""',
            *indented(self.body),
        ]
        forward = [
            *folded(f"def forward(self, {arguments}) -> Tuple[{', '.join(['Tensor'] * (count + 1))}]:"),
            f'    """All steps: {self.step.input} is (B, T, D). Outputs (B, T, H) and the last states."""',
            f"    {self.outputs}: List[Tensor] = []",
            f"    for {self.now} in {self.step.input}.unbind(1):",
            *indented(folded(f"{states} = self.step({self.now}, {states})"), 2),
            f"        {self.outputs}.append({next(iter(self.step.states.values()))})",
            *indented(folded(f"return torch.stack({self.outputs}, 1), {states}")),
        ]
        lines = [
            f"class {self.name}(nn.Module):",
            f'    """One layer of the cell {self.cell.name}.',
            "",
            *indented(equations(self.graph), 2),
            '    """',
            "",
            "    def __init__(self, D: int, H: int) -> None:",
            "        super().__init__()",
            *indented(self._tensors(), 2),
            "",
            *indented(step),
            "",
            *indented(forward),
        ]
        return "\n".join(lines)

    def _tensors(self) -> list[str]:
        own = self.attributes
        lines = []
        for matrix, name in own.matrices.items():
            columns = "D" if getattr(matrix, "space", "U") == "W" else "H"
            lines.append(self._tensor(name, f"H, {columns}", self.step.matrix_comment(matrix)))
        lines += [self._tensor(name, "H") for name in own.vectors.values()]
        return lines + [self._tensor(name, "()") for name in own.scalars.values()] or ["pass"]

    def _tensor(self, name: str, size: str, comment: str = "") -> str:
        if name in self.attributes.buffers:
            line = f'self.register_buffer("{name}", torch.zeros({size}))  # not learned'
        else:
            line = f"self.{name} = nn.Parameter(torch.zeros({size}))"
        return f"{line}  # {comment}" if comment else line
