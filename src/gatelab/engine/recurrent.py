"""The recurrent layer: any cell over sequences, optionally stacked and bidirectional."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.modules import module as module_hooks

from gatelab import cells
from gatelab.engine import checks, settings, stack
from gatelab.engine.choose import check, choose
from gatelab.engine.fused.streaming import Stepper
from gatelab.engine.initialise import initialise
from gatelab.engine.parameters import CellParameters
from gatelab.errors import GatelabError
from gatelab.lang import Cell, Option

State = Tensor | tuple[Tensor, ...]
DIRECTIONS = ("fwd", "bwd")
_is_traced = torch.compiler.is_dynamo_compiling  # a step takes microseconds
GLOBAL_HOOKS = (module_hooks._global_forward_hooks, module_hooks._global_forward_pre_hooks)


class Recurrent(nn.Module):
    """A recurrent layer of any cell, with the interface of `nn.GRU` and `nn.LSTM`.

    Args:
        cell: the name of a library cell, or a function decorated with `@gatelab.cell`.
        input_size: D, the number of input features per step.
        hidden_size: H, the number of units per state.
        num_layers: L, the number of stacked layers.
        bidirectional: each layer also runs backwards in time; the outputs are concatenated, (…, 2H).
        residual: add each layer's input to its output, from the second layer on.
        dropout: probability of dropout on the output of each layer but the last, during training.
        batch_first: whether sequences are (B, T, D) or (T, B, D). True by default, unlike in torch.nn.
        engine: "auto", "fused" (C++, on the CPU), "native" (torch.nn, if it has the cell), "compiled" (torch.compile)
            or "eager" (plain PyTorch). The environment variable GATELAB_ENGINE overrides it.
        init: "cell" (the cell's own initial values, otherwise uniform ±1/√H), "torch" (uniform ±1/√H) or "xavier"
            (Xavier W, orthogonal U, zero b). The last two are rules for matrices and biases: vectors that the equations
            multiply or divide by start as the cell says, if it does.
        gate_bias: initial values of individual biases, such as {"z": 1.0}.
        chrono: the longest dependency in steps, for chrono initialization of the biases.
        cell_options: the cell's hyperparameters, such as gamma=0.01, epsilon=1.0, learnable_epsilon=False.

    Parameters are named by the equations: `layers.0.fwd.W.z`, `layers.0.bwd.b.r`, `layers.1.fwd.epsilon`.
    """

    _stepper: Stepper | None = None  # what the last step prepared

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
        init: str = "cell",
        gate_bias: Mapping[str, float] | None = None,
        chrono: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **cell_options: Any,
    ) -> None:
        super().__init__()
        self.cell = _resolve(cell)
        checks.sizes(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        checks.flags(bidirectional=bidirectional, residual=residual, batch_first=batch_first)
        checks.dropout(dropout)
        check(engine, self.cell)
        if num_layers == 1:
            for name, setting in (("dropout", dropout), ("residual", residual)):
                if setting:
                    warnings.warn(
                        f"{name}={setting} has no effect with num_layers=1: it acts between layers", stacklevel=2
                    )
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bidirectional, self.residual, self.dropout = bidirectional, residual, dropout
        self.batch_first, self.engine, self.init = batch_first, engine, init
        self.gate_bias = dict(gate_bias) if isinstance(gate_bias, Mapping) else gate_bias
        self.chrono = chrono
        self.engine_in_use: str | None = None  # the engine of the last call
        options = resolve_options(self.cell, cell_options)
        self.layers = nn.ModuleList()
        later = hidden_size * len(self.directions)
        sizes = {f"layer {layer}": later if layer else input_size for layer in range(num_layers)}
        settings.check_sizes(self.cell, sizes, hidden_size)
        for size in sizes.values():
            by_direction = {
                name: CellParameters(self.cell, size, hidden_size, options, device=device, dtype=dtype)
                for name in self.directions
            }
            self.layers.append(nn.ModuleDict(by_direction))
        self.reset_parameters()

    @property
    def directions(self) -> tuple[str, ...]:
        """("fwd",), or ("fwd", "bwd") if bidirectional."""
        return DIRECTIONS if self.bidirectional else DIRECTIONS[:1]

    @property
    def output_size(self) -> int:
        """The number of output features per step, H × directions."""
        return self.hidden_size * len(self.directions)

    def cell_parameters(self) -> Iterator[CellParameters]:
        """The parameters of each layer and direction, in the order of the states: 0 fwd, 0 bwd, 1 fwd, …"""
        for layer in self.stacked():
            yield from layer.values()

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Initialize all parameters again, from `generator` or torch's default one, except frozen parameters."""
        frozen = [(p, p.clone()) for p in self.parameters() if not p.requires_grad]
        for parameters in self.cell_parameters():
            initialise(parameters, self.init, self.gate_bias, self.chrono, generator)
        for parameter, value in frozen:
            parameter.copy_(value)

    def freeze(self, *names: str, at: float | None = None) -> Recurrent:
        """Freeze the parameters of these names in all layers and directions: `layer.freeze("b.z", "b.r")`.

        `"b"` stands for all biases, likewise `"W"` and `"U"`. With `at`, they are set to that value.
        """
        settings.check_frozen(self.cell, next(self.cell_parameters()).options, names, at)
        if not names:
            raise GatelabError('freeze was given no names: expected at least one, as in freeze("b.z")')
        for parameters in self.cell_parameters():
            for name, parameter in parameters.named_parameters():
                if name in names or name.partition(".")[0] in names:
                    parameter.requires_grad_(False)
                    if at is not None:
                        parameter.fill_(at)
        return self

    def to_torch(self) -> nn.RNNBase:
        """Convert to the equivalent module of torch.nn, for cells that torch.nn has."""
        from gatelab.engine.convert import to_torch  # that module imports this one

        return to_torch(self)

    def forward(
        self,
        x: Tensor,
        state: State | None = None,
        *,
        lengths: Tensor | Sequence[int] | None = None,
        resets: Tensor | None = None,
        reset_state: State | None = None,
        gates: bool = False,
        output: bool = True,
    ) -> Any:
        """Run the layer over a batch of sequences.

        Args:
            x: (B, T, D), or (T, B, D) without `batch_first`, or one sequence (T, D).
            state: the initial state (L × directions, B, H), a tuple for a cell with several states; zeros by default.
            lengths: the lengths of the sequences in a padded batch. The final state is that at each sequence's end, the
                backward direction starts there, and outputs and gates of the padding are zero.
            resets: where sequences begin anew inside x, as a bool tensor of x's shape without features: before these
                steps the state is the initial one (`state`, or zeros). For the backward direction they begin anew at
                the step before.
            reset_state: the state after a reset, shaped as `state`, where that is not the initial one.
            gates: whether to return the gates as well.
            output: False if only the final state is needed, which saves memory; the output is then None.

        Returns:
            output (B, T, H × directions), the final state, and with `gates` a dictionary of name →
            (L × directions, B, T, H).
        """
        layers = self.stacked()
        like = layers[0]["fwd"].like()
        if isinstance(x, Tensor) and _autocast_enabled(x) and x.is_floating_point():
            with torch.autocast(x.device.type, enabled=False):  # half precision is too coarse for long recurrences
                x, state, reset_state = x.to(like.dtype), _cast(state, like.dtype), _cast(reset_state, like.dtype)
                return self(
                    x, state, lengths=lengths, resets=resets, reset_state=reset_state, gates=gates, output=output
                )
        checks.sequences(x, self.input_size, self.batch_first, like)
        batched = x.dim() == 3
        steps = (x.transpose(0, 1) if self.batch_first else x) if batched else x.unsqueeze(1)  # (T, B, D)
        states = self._initial(state, steps, batched)
        if reset_state is not None:
            checks.has_resets(resets)
            after = self._initial(reset_state, steps, batched, "reset_state")
            states = [(*first, *later) for first, later in zip(states, after, strict=True)]
        rows = None if lengths is None else checks.lengths(lengths, steps)
        begins = None if resets is None else checks.resets(resets, steps, self.batch_first, batched)
        engine = choose(self.engine, self.cell, x, watch=gates, resets=resets is not None)
        if not torch.compiler.is_compiling():
            self.__dict__["engine_in_use"] = engine  # (modules are slow to set attributes)
        outputs, scans = stack.scan_layers(
            engine,
            layers,
            steps,
            iter(states),
            rows,
            begins,
            residual=self.residual,
            dropout=self.dropout if self.training else 0.0,
            watch=gates,
            with_output=output,
        )

        if outputs is not None and batched and self.batch_first:
            outputs = outputs.transpose(0, 1)
        final = tuple(_stacked(values) for values in zip(*(scan.states for scan in scans), strict=True))
        watched = {name: _stacked([scan.gates[name] for scan in scans]).transpose(1, 2) for name in scans[0].gates}
        if not batched:
            outputs = None if outputs is None else outputs.squeeze(1)
            final = tuple(value.squeeze(1) for value in final)
            watched = {name: value.squeeze(1) for name, value in watched.items()}
        result = (outputs, final if len(final) > 1 else final[0])
        return (*result, watched) if gates else result

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One step of a stream: (B, D) or (D,) → the output (B, H) or (H,), and the new state for the next step.

        The state is shaped as in `forward`, (L, B, H) or (L, H). Without gradients (`torch.inference_mode()`,
        `torch.no_grad()`, or frozen parameters) a step takes microseconds; with them it is a sequence of one step.
        """
        stepper = None if _is_traced() else self._stepper
        stepped: tuple[Tensor, State] | None = None if stepper is None else stepper.step(x, state)
        return self._prepared_step(x, state) if stepped is None else stepped  # the first step, or something has changed

    def _prepared_step(self, x: Tensor, state: State | None) -> tuple[Tensor, State]:
        """A step as a sequence of one step; the next ones are prepared if they can be quick."""
        if self.bidirectional:
            raise GatelabError(
                "a bidirectional layer cannot step: its backward direction begins at the end of a sequence. Run it "
                "over whole sequences, or use one direction"
            )
        checks.step(x, self.input_size)
        time = 0 if x.dim() == 1 or not self.batch_first else 1
        output, final = self(x.unsqueeze(time), state)
        if not torch.compiler.is_compiling() and self.engine_in_use == "fused" and x.numel():
            self._prepare_steps(tuple(x.shape[:-1]))
        return output.squeeze(time), final

    def _prepare_steps(self, batch: tuple[int, ...]) -> None:
        """Prepare the next steps, if they can be quick."""
        drops = self.training and self.dropout > 0 and self.num_layers > 1
        is_own = type(self).forward is Recurrent.forward and type(self).__call__ is nn.Module.__call__
        parameters, hooks = list(self.cell_parameters()), (self._forward_hooks, self._forward_pre_hooks, *GLOBAL_HOOKS)
        if drops or not is_own or "forward" in self.__dict__ or not Stepper.is_possible(parameters, hooks):
            return
        stack: Any = self.layers
        holders = [self._modules, stack._modules, *(layer._modules for layer in stack)]
        self.__dict__["_stepper"] = None  # its place in this dictionary is settled, too
        self.__dict__["_stepper"] = Stepper(self, parameters, batch, holders, hooks)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        self.__dict__.pop("_stepper", None)  # it was prepared for another layer

    def stacked(self) -> list[Mapping[str, CellParameters]]:
        """The parameters of each layer, by direction. (Modules are slow to ask for their children by name.)"""
        return [layer._modules for layer in self._modules["layers"]._modules.values()]  # type: ignore[union-attr,misc]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stepper": None}  # what is prepared belongs to these tensors, not to copies of them

    def _initial(
        self, state: State | None, x: Tensor, batched: bool, name: str = "state"
    ) -> list[tuple[Tensor | None, ...]]:
        """The initial states of each layer and direction, as tuples of (B, H); None for zeros."""
        scans, B = self.num_layers * len(self.directions), x.shape[1]
        if state is None:
            return [(None,) * len(self.cell.states)] * scans
        shape = (scans, B, self.hidden_size) if batched else (scans, self.hidden_size)
        initial = checks.state(state, self.cell, shape, x, name)
        if not batched:
            initial = tuple(value.unsqueeze(1) for value in initial)
        return list(zip(*initial, strict=True))

    def __repr__(self) -> str:
        defaults = inspect.signature(Recurrent).parameters
        shown = [name for name in defaults if hasattr(self, name) and name not in ("cell", "input_size", "hidden_size")]
        changed = {name: getattr(self, name) for name in shown if getattr(self, name) != defaults[name].default}
        for name, option in next(self.cell_parameters()).options.items():
            changed |= {name: option.value} if option.value != self.cell.options[name].value else {}
            changed |= (
                {f"learnable_{name}": option.learned} if option.learned != self.cell.options[name].learned else {}
            )
        settings = "".join(f", {name}={value!r}" for name, value in changed.items())
        return f"Recurrent({self.cell.name}, {self.input_size}, {self.hidden_size}{settings})"


def _stacked(values: Sequence[Tensor]) -> Tensor:
    """Of all layers and directions; the usual one alone is not copied."""
    return values[0].unsqueeze(0) if len(values) == 1 else torch.stack(list(values))


def _cast(state: State | None, dtype: torch.dtype) -> State | None:
    if isinstance(state, (tuple, list)):
        return tuple(value.to(dtype) for value in state)
    return state.to(dtype) if isinstance(state, Tensor) else state


def _autocast_enabled(x: Tensor) -> bool:
    device = "cpu" if x.is_cpu else x.device.type
    return (device == "cpu" or torch.amp.is_autocast_available(device)) and torch.is_autocast_enabled(device)


def _resolve(cell: str | Cell) -> Cell:
    if isinstance(cell, Cell):
        return cell
    if isinstance(cell, str):
        return cells.get(cell)
    raise GatelabError(
        f"cell is {cell!r}: expected a name ({', '.join(cells.names())}) or a function decorated with @gatelab.cell"
    )


def resolve_options(cell: Cell, values: Mapping[str, Any]) -> dict[str, Option]:
    """The hyperparameters of a cell as a layer would have them, without building it."""
    return settings.resolve_options(cell, values, inspect.signature(Recurrent).parameters)
