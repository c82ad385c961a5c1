"""The layer: any cell over sequences, stacked, in both directions."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from gatelab import cells
from gatelab.engine import checks, stack
from gatelab.engine.choose import check, choose
from gatelab.engine.initialise import initialise
from gatelab.engine.parameters import CellParameters
from gatelab.errors import unknown
from gatelab.lang import Cell

State = Tensor | tuple[Tensor, ...]
DIRECTIONS = ("fwd", "bwd")


class Recurrent(nn.Module):
    """A recurrent layer over any cell, used as `nn.GRU` and `nn.LSTM` are.

    Args:
        cell: a cell of the library by name, or any function under `@gatelab.cell`.
        input_size: D, the entries of the input at one step.
        hidden_size: H, the entries of a state.
        num_layers: L; from the second on, a layer reads the output of the one before.
        bidirectional: a second cell in each layer reads from the end; both outputs are joined, (…, 2H).
        residual: from the second layer on, a layer's input is added to its output.
        dropout: on the output of each layer but the last, while training.
        batch_first: sequences are (B, T, D); otherwise (T, B, D). True unless said otherwise, unlike torch.nn.
        engine: "auto", "fused" (compiled, on the CPU), "native" (torch.nn, where it has the cell) or "eager" (plain
            PyTorch). The variable GATELAB_ENGINE decides over it.
        init: "torch" (uniform ±1/√H) or "xavier" (Xavier W, orthogonal U, zero b).
        gate_bias: starting values of single biases, as {"z": 1.0}.
        chrono: the longest dependency in steps, for biases that spread time constants up to it.
        cell_options: the cell's own numbers, as gamma=0.01, epsilon=1.0, learnable_epsilon=False.

    Parameters are named by the equations: `layers.0.fwd.W.z`, `layers.0.bwd.b.r`, `layers.1.fwd.epsilon`.
    """

    def __init__(
        self,
        cell: str | Cell,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        bidirectional: bool = False,
        residual: bool = False,
        dropout: float = 0.0,
        batch_first: bool = True,
        engine: str = "auto",
        init: str = "torch",
        gate_bias: Mapping[str, float] | None = None,
        chrono: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **cell_options: Any,
    ) -> None:
        super().__init__()
        self.cell = _find(cell)
        checks.sizes(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        checks.flags(bidirectional=bidirectional, residual=residual, batch_first=batch_first)
        checks.dropout(dropout)
        check(engine, self.cell)
        if num_layers == 1:
            for name, given in (("dropout", dropout), ("residual", residual)):
                if given:
                    warnings.warn(
                        f"{name}={given} does nothing with num_layers=1: it acts between layers", stacklevel=2
                    )
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bidirectional, self.residual, self.dropout = bidirectional, residual, dropout
        self.batch_first, self.engine, self.init = batch_first, engine, init
        self.gate_bias = dict(gate_bias) if isinstance(gate_bias, Mapping) else gate_bias
        self.chrono = chrono
        self.engine_in_use: str | None = None  # which engine ran last
        arguments = inspect.signature(Recurrent).parameters
        for name in self.cell.options:
            if name in arguments:
                raise ValueError(f"cell {self.cell.name!r} has an option {name!r}, which the layer uses: rename it")
        if not any((self.cell.graph.W, self.cell.graph.U, self.cell.graph.b)):
            raise ValueError(f"cell {self.cell.name!r} has no W, U or b: a layer needs parameters to learn")
        options = self.cell.signature.resolve(self.cell.name, cell_options, others=[*arguments][3:-1])
        self.layers = nn.ModuleList()
        for layer in range(num_layers):
            size = input_size if layer == 0 else hidden_size * len(self.directions)
            made = {
                name: CellParameters(self.cell, size, hidden_size, options, device=device, dtype=dtype)
                for name in self.directions
            }
            self.layers.append(nn.ModuleDict(made))
        self.reset_parameters()

    @property
    def directions(self) -> tuple[str, ...]:
        return DIRECTIONS if self.bidirectional else DIRECTIONS[:1]

    def runs(self) -> Iterator[CellParameters]:
        """The parameters of each layer and direction, in the order of torch's states."""
        for layer in self.layers:
            yield from layer.values()  # type: ignore[operator]

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Starting values anew, drawn from `generator` or torch's own; frozen parameters stay as they are."""
        frozen = [(p, p.clone()) for p in self.parameters() if not p.requires_grad]
        for parameters in self.runs():
            initialise(parameters, self.init, self.gate_bias, self.chrono, generator)
        for parameter, value in frozen:
            parameter.copy_(value)

    def freeze(self, *names: str, at: float | None = None) -> Recurrent:
        """Stop learning the parameters of these names in all layers and directions: `layer.freeze("b.z", "b.r")`.

        A family (`"b"`) stands for all its members. With `at`, they are set to that value.
        """
        if at is not None and (not isinstance(at, (int, float)) or not math.isfinite(at)):
            raise ValueError(f"freeze was given at={at!r}: expected a finite number")
        own = [name for name, _ in next(self.runs()).named_parameters()]
        families = {name.partition(".")[0] for name in own if "." in name}
        for name in names:
            if not isinstance(name, str) or name not in {*own, *families}:
                raise unknown(f"parameter of cell {self.cell.name!r} (the same name in all layers):", name, own)
        if not names:
            raise ValueError('freeze was given no names: expected some, as in freeze("b.z")')
        for parameters in self.runs():
            for name, parameter in parameters.named_parameters():
                if name in names or name.partition(".")[0] in names:
                    parameter.requires_grad_(False)
                    if at is not None:
                        parameter.fill_(at)
        return self

    def to_torch(self) -> nn.RNNBase:
        """The same network as torch.nn's own module, for the cells that torch.nn has."""
        from gatelab.engine.convert import to_torch  # beside its inverse, which makes a Recurrent

        return to_torch(self)

    def forward(
        self,
        x: Tensor,
        state: State | None = None,
        *,
        lengths: Tensor | Sequence[int] | None = None,
        gates: bool = False,
    ) -> Any:
        """Run over a batch of sequences.

        Args:
            x: (B, T, D), or (T, B, D) without `batch_first`, or one sequence (T, D).
            state: (L × directions, B, H), a tuple of them for a cell with several states; zeros if not given.
            lengths: the number of steps in each row of a padded batch. A row's state stops at its end, the backward
                direction starts there, and outputs and gates after it are zero.
            gates: also return the gates.

        Returns:
            output (B, T, H × directions), the final state, and with `gates` a dictionary of name →
            (L × directions, B, T, H).
        """
        like = next(self.parameters())
        if isinstance(x, Tensor) and _autocast(x.device.type):
            with torch.autocast(x.device.type, enabled=False):  # a long recurrence in half precision is no use
                return self(x.to(like.dtype), state, lengths=lengths, gates=gates)
        checks.sequences(x, self.input_size, self.batch_first, like)
        batched = x.dim() == 3
        steps = (x.transpose(0, 1) if self.batch_first else x) if batched else x.unsqueeze(1)  # (T, B, D)
        states = self._initial(state, steps, batched)
        rows = None if lengths is None else checks.lengths(lengths, steps)
        self.engine_in_use = choose(self.engine, self.cell, x, watch=gates)
        output, runs = stack.run(
            self.engine_in_use,
            (dict(layer.items()) for layer in self.layers),  # type: ignore[operator]
            steps,
            iter(states),
            rows,
            residual=self.residual,
            dropped=self.dropout if self.training else 0.0,
            watch=gates,
        )

        if batched and self.batch_first:
            output = output.transpose(0, 1)
        by_state = zip(*(run.states for run in runs), strict=True)
        final = tuple(torch.stack(values) for values in by_state)  # (L·dirs, B, H) each
        seen = {name: torch.stack([run.gates[name] for run in runs]).transpose(1, 2) for name in runs[0].gates}
        if not batched:
            output, final = output.squeeze(1), tuple(value.squeeze(1) for value in final)
            seen = {name: value.squeeze(1) for name, value in seen.items()}
        result = (output, final if len(final) > 1 else final[0])
        return (*result, seen) if gates else result

    def _initial(self, state: State | None, x: Tensor, batched: bool) -> list[tuple[Tensor, ...]]:
        """The initial states of each layer and direction, as tuples of (B, H)."""
        runs, B = self.num_layers * len(self.directions), x.shape[1]
        if state is None:
            zeros = x.new_zeros(B, self.hidden_size)
            return [(zeros,) * len(self.cell.states)] * runs
        given = checks.state(state, self.cell, (runs, B, self.hidden_size) if batched else (runs, self.hidden_size), x)
        if not batched:
            given = tuple(value.unsqueeze(1) for value in given)
        return list(zip(*given, strict=True))

    def __repr__(self) -> str:
        defaults = inspect.signature(Recurrent).parameters
        shown = [name for name in defaults if hasattr(self, name) and name not in ("cell", "input_size", "hidden_size")]
        changed = {name: getattr(self, name) for name in shown if getattr(self, name) != defaults[name].default}
        for name, option in next(self.runs()).options.items():
            changed |= {name: option.value} if option.value != self.cell.options[name].value else {}
            changed |= (
                {f"learnable_{name}": option.learned} if option.learned != self.cell.options[name].learned else {}
            )
        settings = "".join(f", {name}={value!r}" for name, value in changed.items())
        return f"Recurrent({self.cell.name}, {self.input_size}, {self.hidden_size}{settings})"


def _autocast(device: str) -> bool:
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def _find(cell: str | Cell) -> Cell:
    if isinstance(cell, Cell):
        return cell
    if isinstance(cell, str):
        return cells.get(cell)
    raise ValueError(
        f"cell is {cell!r}: expected a name ({', '.join(cells.names())}) or a function under @gatelab.cell"
    )
