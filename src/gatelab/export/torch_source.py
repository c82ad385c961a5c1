"""The file NAME.py of an export to PyTorch: a module in plain code, to be read, scripted and trained further."""

from __future__ import annotations

import keyword
import sys

from gatelab import __version__
from gatelab.export import torch_pooling
from gatelab.export.network import POOLED, Network, identifier
from gatelab.export.torch_layer import LayerSource
from gatelab.export.torch_lines import WIDTH, folded, indented, quoted
from gatelab.export.torch_step import GLOBALS, HELPERS, Names

USED = {"softplus": "softplus(", "one_hot": "one_hot("}  # functions of torch that not every file needs
STATE = "Dict[str, Tensor]"


def file_stem(network: Network) -> str:
    """The name of the files. A module of that name must not hide another one."""
    hidden = network.name in (*sys.stdlib_module_names, *keyword.kwlist, "torch", "numpy")
    return f"{network.name}_network" if hidden else network.name


class ModuleSource:
    """The source code for a network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        names = Names(GLOBALS, HELPERS, ("CLASSES", "COLUMNS", "VOCABULARY", "WEIGHTS"))
        self.name = names.new(_camel(file_stem(network)))
        self.layer = LayerSource(network, names.new(f"{_camel(identifier(network.cell.name))}Layer"))
        local = Names(GLOBALS, ("self", "x", "state", "values", "number", "layer", "outputs", "answer", "read"))
        self.finals = {state: local.new(f"{name}_end") for state, name in self.layer.step.states.items()}
        self.stacks = {state: local.new(f"new_{name}") for state, name in self.layer.step.states.items()}

    def text(self) -> str:
        """The whole file."""
        helpers = [HELPERS[name] for name in HELPERS if name in self.layer.step.used]
        blocks = [*helpers, self.layer.text(), self._network(), self._load()]
        code = "\n\n\n".join(blocks)
        functions = ", ".join(["linear", *(name for name, call in USED.items() if call in code)])
        typing = [name for name in ("Dict", "List", "Optional", "Tuple") if f"{name}[" in code]
        head = [
            self._docstring(),
            "",
            "from pathlib import Path",
            *([f"from typing import {', '.join(typing)}"] if typing else []),
            "",
            "import torch",
            "from torch import Tensor, nn",
            *([f"from torch.nn.functional import {functions}"] if f"{functions.partition(',')[0]}(" in code else []),
            "",
            *self._constants(),
        ]
        return "\n".join([*head, "", "", code]) + "\n"

    def _docstring(self) -> str:
        network = self.network
        x = f"tokens (B, T), 0 to {network.input_size - 1}" if network.tokens else f"(B, T, {network.input_size})"
        units = "" if network.tokens or network.input_scale is None else ", in the units of the data"
        K, scores = network.output_size, ", scores by class" if network.classes else ""
        answer = f"({'B, T' if network.read == 'steps' else 'B'}, {K}){scores}"
        layers = f"{len(network.layers)} layer{'s' * (len(network.layers) > 1)} of {network.hidden_size} units"
        both = ", in both directions" if network.bidirectional else ""
        lines = [
            f'"""A recurrent network in plain PyTorch, exported by gatelab {__version__}.',
            "",
            f"Cell: {network.cell.name}, {layers}{both}. Shapes: B sequences, T steps, H units.",
            "",
            f"    network = load()                    # the weights are in {file_stem(network)}.pt",
        ]
        if network.reads_whole:
            lines.append("    answer = network(x)                 # whole sequences only")
        else:
            lines += [
                "    answer, state = network(x)          # the beginning of sequences",
                "    answer, state = network(x, state)   # their continuation",
            ]
        return "\n".join([*lines, "", f"x: {x}{units}", f"answer: {answer}", '"""'])

    def _constants(self) -> list[str]:
        network = self.network
        named = {"COLUMNS": network.columns, "VOCABULARY": network.vocabulary, "CLASSES": network.classes or ()}
        lines = [f'WEIGHTS = Path(__file__).with_name("{file_stem(self.network)}.pt")']
        return lines + [line for name, values in named.items() if values for line in _tuple(name, values)]

    def _network(self) -> str:
        network = self.network
        lines = [f"class {self.name}(nn.Module):", f'    """{self._summary()}"""', ""]
        lines += ["    def __init__(self) -> None:", "        super().__init__()"]
        lines += [f"        {line}" for line in self._modules()]
        if network.reads_whole:
            forward = ["    def forward(self, x: Tensor) -> Tensor:", f'        """{self._forward_summary()}"""']
            forward += [f"        {line}" for line in self._forward_whole()]
        else:
            lines += ["", *(f"    {line}" for line in self._initial())]
            forward = [
                f"    def forward(self, x: Tensor, state: Optional[{STATE}] = None) -> Tuple[Tensor, {STATE}]:",
                f'        """{self._forward_summary()}"""',
                *(f"        {line}" for line in self._forward()),
            ]
        return "\n".join([*lines, "", *forward])

    def _summary(self) -> str:
        network = self.network
        parts = ["embeddings"] if network.embedding is not None else ["one-hot vectors"] if network.tokens else []
        parts += ["scaling"] if network.input_scale is not None else []
        parts += ["a stem of convolutions"] if network.stem else []
        parts += ["recurrent layers with residual connections" if network.residual else "recurrent layers"]
        parts += ["pooling over the steps"] if network.read in POOLED else []
        parts += ["a linear head"] if network.head is not None else []
        summary = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
        return summary[0].upper() + summary[1:] + "."

    def _forward_summary(self) -> str:
        what = {
            "last": "after the last step",
            "mean": "from the mean over the steps",
            "max": "from the largest outputs",
            "mean+max": "from the mean over the steps and the largest outputs",
            "attention": "from a mean over the steps, with learned weights",
            "steps": "at every step",
        }
        state = "" if self.network.reads_whole else ", and the state to continue with"
        return f"The answer {what[self.network.read]}{state}."

    def _modules(self) -> list[str]:
        network, H = self.network, self.network.hidden_size
        lines = []
        if network.embedding is not None:
            lines.append(f"self.embedding = nn.Embedding({network.input_size}, {network.encoded_size})")
        if network.input_scale is not None:
            # In double precision, since a large mean would cost a small deviation its digits.
            lines += [
                f'self.register_buffer("{name}", torch.zeros({network.input_size}, dtype=torch.float64))'
                for name in ("mean", "deviation")
            ]
        if network.stem:
            convolutions = [
                f"nn.Conv1d({each.inputs}, {each.channels}, {each.width}, {each.stride}, {each.padding})"
                for each in network.stem
            ]
            lines.append("# The batch normalization of the training is part of the weights.")
            lines.append(f"self.stem = nn.ModuleList([{', '.join(convolutions)}])")
        sizes = [network.first_size, *[network.features] * (len(network.layers) - 1)]
        modules = ", ".join(f"{self.layer.name}({each}, {H})" for each in sizes)
        for name in ("forwards", "backwards") if network.bidirectional else ("layers",):
            lines.append(f"self.{name} = nn.ModuleList([{modules}])")
        if network.query is not None:
            lines.append(f"self.query = nn.Parameter(torch.zeros({network.features}))")
        if network.head is not None:
            lines.append(f"self.head = nn.Linear({network.read_size}, {network.output_size})")
        if network.output_scale is not None:
            lines += [
                f'self.register_buffer("{name}", torch.zeros({network.output_size}))'
                for name in ("output_mean", "output_deviation")
            ]
        return lines

    def _initial(self) -> list[str]:
        names = [*self.layer.attributes.matrices.values(), *self.layer.attributes.vectors.values()]
        zeros = "like.new_zeros" if names else "torch.zeros"
        shapes = {
            name: ", ".join("batch" if size == 0 else str(size) for size in shape)
            for name, shape in self.network.carried.items()
        }
        return [
            f"def initial_state(self, batch: int) -> {STATE}:",
            '    """What sequences begin with: zeros."""',
            *([f"    like = self.layers[0].{names[0]}"] if names else []),
            *indented(_dictionary("return ", [f"{quoted(name)}: {zeros}({shape})" for name, shape in shapes.items()])),
        ]

    def _encoded(self) -> list[str]:
        network = self.network
        if network.embedding is not None:
            return ["values = self.embedding(x)"]
        if network.tokens:
            return [f"values = one_hot(x, {network.input_size}).float()"]
        lines, given = [], "x"
        if count := network.differenced:
            before, steps = (quoted(network.extra(name)) for name in ("before", "steps"))
            lines += [
                f"now = x[:, :, :{count}].double()",
                f"start = torch.where(state[{steps}] > 0, state[{before}], now[:, 0])  # no change in the first step",
                "changes = now - torch.cat([start.unsqueeze(1), now], 1)[:, :-1]",
            ]
            given = "changes"
            if network.input_size > count:
                lines.append(f"raw = torch.cat([changes, x[:, :, {count}:].double()], 2)")
                given = "raw"
        if network.input_scale is not None:
            double = "x.double()" if given == "x" else given
            return [*lines, f"values = (({double} - self.mean) / self.deviation).to(x.dtype)"]
        return [*lines, "values = x" if given == "x" else f"values = {given}.to(x.dtype)"]

    def _forward(self) -> list[str]:
        network = self.network
        olds = "".join(f", state[{quoted(name)}][number]" for name in self.layer.step.states)
        outputs = "outputs" if network.residual else "values"
        kept = [f"{quoted(name)}: torch.stack({stack})" for name, stack in self.stacks.items()]
        lines = [
            "if state is None:",
            "    state = self.initial_state(x.shape[0])",
            *self._encoded(),
            *(f"{stack}: List[Tensor] = []" for stack in self.stacks.values()),
            "for number, layer in enumerate(self.layers):",
            *indented(folded(f"{outputs}, {', '.join(self.finals.values())} = layer(values{olds})")),
            *(["    values = outputs + values if number > 0 else outputs"] if network.residual else []),
            *(f"    {self.stacks[name]}.append({final})" for name, final in self.finals.items()),
        ]
        pooling, new, read = torch_pooling.continued(network)
        kept += [f"{quoted(network.extra(name))}: {value}" for name, value in new.items()]
        if network.differenced:
            kept.append(f"{quoted(network.extra('before'))}: x[:, -1, :{network.differenced}]")
        return [*lines, *pooling, *self._answer(read), *_dictionary("return answer, ", kept)]

    def _forward_whole(self) -> list[str]:
        network, rest = self.network, "".join(", _" for _ in self.layer.step.states)
        zeros = ", ".join(["zeros"] * len(self.layer.step.states))
        outputs = "outputs" if network.residual else "values"
        ways, each = "self.layers", "layer"
        layer = [f"{outputs}{rest} = layer(values, {zeros})"]
        if network.bidirectional:
            ways, each = "zip(self.forwards, self.backwards)", "forwards, backwards"
            layer = [
                f"right{rest} = forwards(values, {zeros})",
                f"left{rest} = backwards(values.flip(1), {zeros})",
                f"{outputs} = torch.cat([right, left.flip(1)], 2)",
            ]
        if network.residual:
            ways, each = f"enumerate({ways})", f"number, {f'({each})' if network.bidirectional else each}"
            layer.append("values = outputs + values if number > 0 else outputs")
        pooling, read = torch_pooling.whole(network)
        return [
            *self._encoded(),
            *self._stem(),
            f"zeros = values.new_zeros(x.shape[0], {network.hidden_size})",
            f"for {each} in {ways}:",
            *indented(layer),
            *pooling,
            *self._answer(read),
            "return answer",
        ]

    def _stem(self) -> list[str]:
        if not self.network.stem:
            return []
        return [
            "values = values.transpose(1, 2)  # (B, D, T)",
            "for convolution in self.stem:",
            "    values = torch.relu(convolution(values))",
            "values = values.transpose(1, 2).contiguous()",
        ]

    def _answer(self, read: str) -> list[str]:
        network = self.network
        lines = [f"answer = self.head({read})" if network.head is not None else f"answer = {read}"]
        if network.output_scale is not None:
            lines.append("answer = answer * self.output_deviation + self.output_mean")
        if network.differenced:
            lines.append(f"answer = answer + x[:, :, :{network.differenced}]")
        return lines

    def _load(self) -> str:
        return f'''\
def load(weights: Path = WEIGHTS) -> {self.name}:
    """The network with its weights, in evaluation mode."""
    network = {self.name}()
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return network.eval()'''


def _camel(name: str) -> str:
    parts = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    return parts if parts[:1].isalpha() else f"N{parts}"


def _tuple(name: str, values: tuple[str, ...]) -> list[str]:
    line = f"{name} = ({', '.join(map(quoted, values))}{',' * (len(values) == 1)})"
    if len(line) <= WIDTH:
        return [line]
    return [f"{name} = (", *(f"    {quoted(value)}," for value in values), ")"]


def _dictionary(before: str, entries: list[str]) -> list[str]:
    line = f"{before}{{{', '.join(entries)}}}"
    return [line] if len(line) <= WIDTH else [f"{before}{{", *(f"    {entry}," for entry in entries), "}"]
