"""Validation of a layer's arguments: each error says what was given, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from gatelab.errors import GatelabError
from gatelab.lang import Cell


def sizes(**values: Any) -> None:
    """Refuse anything but positive integers."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise GatelabError(f"{name} is {value!r}: expected a positive integer")


def flags(**values: Any) -> None:
    """Refuse anything but booleans, such as the truthy string "no"."""
    for name, value in values.items():
        if not isinstance(value, bool):
            raise GatelabError(f"{name} is {value!r}: expected True or False")


def dropout(p: Any, name: str = "dropout") -> None:
    """Refuse what is not a probability below 1."""
    if not isinstance(p, (int, float)) or not 0 <= p < 1:  # NaN fails the comparison
        raise GatelabError(f"{name} is {p!r}: expected a probability in [0, 1)")


def sequences(x: Any, input_size: int, batch_first: bool, like: Tensor) -> None:
    """Refuse an input whose type, shape, dtype or device does not fit the layer; `like` is one of its parameters."""
    if isinstance(x, PackedSequence):
        raise GatelabError("x is a PackedSequence: expected the padded batch, with its lengths as lengths=")
    if not isinstance(x, Tensor):
        raise GatelabError(f"x is a {type(x).__name__}: expected a tensor, such as torch.as_tensor(x)")
    if like.is_complex():
        raise GatelabError(
            f"the layer is {like.dtype}: cells compute with real numbers; give real and imaginary parts as features, "
            "torch.view_as_real(x).flatten(-2)"
        )
    if x.dim() not in (2, 3) or x.shape[-1] != input_size:
        raise GatelabError(
            f"x has shape {tuple(x.shape)}: expected {'(B, T,' if batch_first else '(T, B,'} {input_size}) or, for one "
            f"sequence, (T, {input_size}), since the layer has input_size={input_size}"
        )
    if x.shape[-2 if batch_first or x.dim() == 2 else 0] == 0:
        raise GatelabError(f"x has shape {tuple(x.shape)}: expected at least one step")
    if x.dtype != like.dtype or x.device != like.device:
        raise GatelabError(
            f"x is {x.dtype} on {x.device} and the layer {like.dtype} on {like.device}: "
            + (
                "move one of them with .to(dtype=..., device=...)"
                if x.is_floating_point()
                else "embed or convert x first"
            )
        )


def step(x: Any, input_size: int) -> None:
    """Refuse what is not one step of a stream; its dtype and device are checked with sequences."""
    if not isinstance(x, Tensor) or x.dim() not in (1, 2) or x.shape[-1] != input_size:
        given = f"has shape {tuple(x.shape)}" if isinstance(x, Tensor) else f"is a {type(x).__name__}"
        raise GatelabError(
            f"x {given}: expected one step, a tensor (B, {input_size}) or ({input_size},), since the layer has "
            f"input_size={input_size}; sequences are for the layer itself, layer(x)"
        )


def state(initial: Any, cell: Cell, shape: tuple[int, ...], x: Tensor, argument: str = "state") -> tuple[Tensor, ...]:
    """The initial state as a tuple of one tensor per state of the cell."""
    values = tuple(initial) if isinstance(initial, (tuple, list)) else (initial,)
    if len(values) != len(cell.states):
        names = ", ".join(cell.states)
        raise GatelabError(
            f"{argument} has {len(values)} tensor(s): cell {cell.name!r} has {len(cell.states)} ({names}). "
            "Sequence lengths are passed as lengths="
        )
    for name, value in zip(cell.states, values, strict=True):
        if not isinstance(value, Tensor) or tuple(value.shape) != shape:
            shown = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            axes = "(layers x directions, batch, hidden)" if len(shape) == 3 else "(layers x directions, hidden)"
            raise GatelabError(f"{argument} {name!r} has shape {shown}: expected {shape}, {axes}")
        if value.dtype != x.dtype or value.device != x.device:
            raise GatelabError(
                f"{argument} {name!r} is {value.dtype} on {value.device} and x is {x.dtype} on {x.device}: move one of "
                "them"
            )
    return values


def resets(resets: Any, x: Tensor, batch_first: bool, batched: bool) -> Tensor:
    """Where sequences begin anew, as a bool tensor (T, B); x is (T, B, D)."""
    T, B = x.shape[:2]
    expected = (B, T) if batch_first and batched else (T, B) if batched else (T,)
    if not isinstance(resets, Tensor) or resets.dtype != torch.bool or tuple(resets.shape) != expected:
        given = f"{resets.dtype} of shape {tuple(resets.shape)}" if isinstance(resets, Tensor) else repr(resets)[:60]
        raise GatelabError(f"resets is {given}: expected a tensor of bool of shape {expected}, as x without features")
    if resets.device != x.device:
        raise GatelabError(f"resets is on {resets.device} and x on {x.device}: move one of them")
    steps = (resets.T if batch_first else resets) if batched else resets.unsqueeze(1)
    return steps.contiguous()


def has_resets(resets: Any) -> None:
    """Refuse a state after resets where there are none."""
    if resets is None:
        raise GatelabError("reset_state was given without resets: expected resets=, the steps before which it is set")


def lengths(lengths: Tensor | Sequence[int], x: Tensor) -> Tensor:
    """The sequence lengths as an integer tensor (B,) on the device of x (T, B, D)."""
    T, B = x.shape[:2]
    try:
        rows = torch.as_tensor(lengths, device=x.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise GatelabError(f"lengths is {lengths!r}: expected {B} integers") from error
    if rows.shape != (B,) or rows.is_floating_point() or rows.dtype == torch.bool:
        raise GatelabError(f"lengths is {rows.dtype} of shape {tuple(rows.shape)}: expected {B} integers")
    if not torch.compiler.is_compiling():  # values are unknown to a tracer
        within_steps(rows, T)
    return rows.long().contiguous()


def within_steps(lengths: Tensor, T: int, least: int = 0) -> None:
    """Refuse lengths that are no numbers of steps of x."""
    if lengths.numel() and (lengths.min() < least or lengths.max() > T):
        raise GatelabError(
            f"lengths range from {int(lengths.min())} to {int(lengths.max())}: expected {least} to {T}, the number of "
            "steps in x"
        )
