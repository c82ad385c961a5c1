"""PyTorch: a module in one file, its weights, and an exported program of torch.export. None of them needs gatelab."""

from __future__ import annotations

import json
import math
import sys
import uuid
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gatelab.disk import write_text
from gatelab.errors import GatelabError
from gatelab.export.check import ROUNDING, TOLERANCE, Carried, Runner
from gatelab.export.network import Layer, Network
from gatelab.export.target import Settings, Target
from gatelab.export.torch_source import ModuleSource, file_stem

STEPS = 21  # of the sequences that a program is traced with


def write(network: Network, path: Path, settings: Settings) -> None:
    """Write the folder: NAME.py, NAME.pt and NAME.pt2."""
    path.mkdir()
    write_module(network, path)
    write_program(network, path)


def write_module(network: Network, path: Path) -> None:
    """Write NAME.py and its weights, NAME.pt: in torch's own format, so that the module needs nothing but torch."""
    source = ModuleSource(network)
    write_text(path / f"{file_stem(network)}.py", source.text())
    torch.save(_weights(network, source), path / f"{file_stem(network)}.pt")


def write_program(network: Network, path: Path) -> None:
    """Write NAME.pt2, made from the module."""
    generated = _imported(path / f"{file_stem(network)}.py")
    sys.modules[generated.__name__] = generated  # torch.export looks for it there
    try:
        program = _program(network, generated.load())
    finally:
        del sys.modules[generated.__name__]
    torch.export.save(program, path / f"{file_stem(network)}.pt2", extra_files=_metadata(network))


def _weights(network: Network, source: ModuleSource) -> dict[str, Tensor]:
    """The state dict of the module."""
    tensors: dict[str, Tensor] = {}
    if network.embedding is not None:
        tensors["embedding.weight"] = torch.from_numpy(network.embedding)
    if network.input_scale is not None:
        tensors["mean"] = torch.from_numpy(network.input_scale.mean).double()
        tensors["deviation"] = torch.from_numpy(network.input_scale.deviation).double()
    for number, each in enumerate(network.stem):
        tensors |= {f"stem.{number}.{name}": torch.from_numpy(getattr(each, name)) for name in ("weight", "bias")}
    if network.query is not None:
        tensors["query"] = torch.from_numpy(network.query)
    ways = {"fwd": "forwards", "bwd": "backwards"} if network.bidirectional else {"fwd": "layers"}
    for layer in network.every_layer:
        own = _layer_weights(layer, source)
        tensors |= {f"{ways[layer.direction]}.{layer.number}.{name}": tensor for name, tensor in own.items()}
    if network.head is not None:
        tensors["head.weight"] = torch.from_numpy(network.head.weight)
        tensors["head.bias"] = torch.from_numpy(network.head.bias)
    if network.output_scale is not None:
        tensors["output_mean"] = torch.from_numpy(network.output_scale.mean).float()
        tensors["output_deviation"] = torch.from_numpy(network.output_scale.deviation).float()
    return tensors


def _layer_weights(layer: Layer, source: ModuleSource) -> dict[str, Tensor]:
    names = source.layer.attributes
    own = {name: torch.from_numpy(layer.matrices[matrix]) for matrix, name in names.matrices.items()}
    own |= {own: torch.from_numpy(layer.vectors[name]) for name, own in names.vectors.items()}
    return own | {own: torch.tensor(layer.scalars[name]) for name, own in names.scalars.items()}


def _program(network: Network, module: nn.Module) -> torch.export.ExportedProgram:
    """The module as a graph, for any number of sequences and steps: a loop over the steps becomes a scan."""
    for layer in _layers(module):
        layer.forward = _Scan(layer)
    batch, time = torch.export.Dim("batch", min=1), torch.export.Dim("time", min=shortest(network))
    x = torch.zeros((2, STEPS), dtype=torch.int64) if network.tokens else torch.zeros(2, STEPS, network.input_size)
    arguments: tuple[Any, ...] = (x,)
    shapes: tuple[Any, ...] = ({0: batch, 1: time},)
    if network.carried:
        arguments += (module.initial_state(2),)  # type: ignore[operator]
        shapes += ({name: {shape.index(0): batch} for name, shape in network.carried.items()},)
    with torch.no_grad(), warnings.catch_warnings():
        # torch's own imports use what torch has deprecated.
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        return torch.export.export(module, arguments, dynamic_shapes=shapes)


def shortest(network: Network) -> int:
    """The fewest steps that the exported program reads.

    For what a stem shortens to a single step, torch.export would demand a program of its own: two are needed.
    """
    return 1 + math.prod(each.stride for each in network.stem) if network.stem else 1


class _Scan:
    """All steps of a layer as one operation, in place of a loop that torch.export would unroll."""

    def __init__(self, layer: Any) -> None:
        self.step = layer.step

    def __call__(self, x: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        from torch._higher_order_ops.scan import scan  # needs half a second

        def step(old: tuple[Tensor, ...], x_t: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
            new = self.step(x_t, *old)
            # Copies, since a scan allows no result that is another result or an argument.
            copies = tuple(state.clone() for state in ((new,) if isinstance(new, Tensor) else new))
            return copies, copies[0].clone()

        initial = tuple(state.clone() for state in states)  # nor initial values that are one tensor
        final, outputs = scan(step, initial, x.transpose(0, 1), dim=0)
        return (outputs.transpose(0, 1), *final)


def _layers(module: Any) -> list[Any]:
    return [*module.layers] if hasattr(module, "layers") else [*module.forwards, *module.backwards]


def _metadata(network: Network) -> dict[str, str]:
    return {"gatelab.json": json.dumps(network.about, ensure_ascii=False)}


def _imported(path: Path) -> ModuleType:
    """The file as a module, which is not left among the imported ones, and leaves no bytecode in the folder."""
    module = ModuleType(f"_gatelab_export_{uuid.uuid4().hex}")
    module.__file__ = str(path)
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), module.__dict__)
    return module


def runner(network: Network, path: Path) -> Runner:
    """The module, and the exported program, which must agree with it."""
    module, program = (
        run_module(network, path),
        _run(network, torch.export.load(path / f"{file_stem(network)}.pt2").module()),
    )

    in_double = _run(network, _imported(path / f"{file_stem(network)}.py").load().double(), torch.float64)

    def run(x: np.ndarray, carried: Carried) -> tuple[np.ndarray, Carried]:
        own_answer, own_new = module(x, carried)
        if x.shape[1] < shortest(network):
            return own_answer, own_new
        answer, new = program(x, carried)
        for name, value in {"": own_answer, **own_new}.items():
            difference = float(np.abs((new[name] if name else answer) - value).max())
            allowed = TOLERANCE * max(1.0, float(np.abs(value).max()))
            if not difference <= allowed:  # unless it depends on rounding
                exact, states = in_double(x, carried)
                allowed += ROUNDING * float(np.abs((states[name] if name else exact) - value).max())
            if not difference <= allowed:
                raise GatelabError(
                    f"the exported program and the module differ by {difference:.1e} in the {name or 'answer'}"
                )
        return own_answer, own_new

    return run


def run_module(network: Network, path: Path) -> Runner:
    """The module alone, imported from its file."""
    return _run(network, _imported(path / f"{file_stem(network)}.py").load())


def _run(network: Network, module: Any, dtype: torch.dtype = torch.float32) -> Runner:
    @torch.no_grad()
    def run(x: np.ndarray, carried: Carried) -> tuple[np.ndarray, Carried]:
        given = torch.from_numpy(x) if network.tokens else torch.from_numpy(x).to(dtype)
        if not network.carried:
            return module(given).numpy(), {}
        answer, state = module(given, {name: torch.from_numpy(v).to(dtype) for name, v in carried.items()})
        return answer.numpy(), {name: value.numpy() for name, value in state.items()}

    return run


TARGET = Target("torch", "PyTorch: a module and an exported program", "PyTorch", None, write, runner)
