"""Whether settings fit a cell, from its equations alone: no layer is built. Each error says what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from gatelab.errors import GatelabError, unknown
from gatelab.lang import Cell, Option
from gatelab.lang.graph import walk
from gatelab.numerals import fits_float32


def resolve_options(cell: Cell, values: Mapping[str, Any], arguments: Iterable[str]) -> dict[str, Option]:
    """The hyperparameters of the cell with these values; `arguments` are the layer's own, which come before them."""
    reserved = list(arguments)
    for name in cell.options:
        if name in reserved:
            raise GatelabError(
                f"cell {cell.name!r} has an option {name!r}, which is an argument of the layer: rename it"
            )
    if not set(cell.graph.parameters) - set(cell.given):
        raise GatelabError(f"cell {cell.name!r} has no W, U or b: expected at least one parameter to train")
    options = cell.signature.resolve(cell.name, values, others=reserved[3:-1])
    for leaf in walk(cell.graph.randoms):
        if leaf.op == "scalar" and options[leaf.name].learned:
            raise GatelabError(
                f"option {leaf.name!r} of cell {cell.name!r} is the probability of a mask and cannot be learned: no "
                f"gradient passes through a draw. Fix it, learnable_{leaf.name}=False"
            )
    return options


def check_sizes(cell: Cell, sizes: Mapping[str, int], hidden_size: int) -> None:
    """Refuse inputs of another size than the states, where the cell uses the input itself. `sizes`: by layer."""
    for layer, size in sizes.items():
        if cell.graph.uses_input_itself and size != hidden_size:
            raise GatelabError(
                f"cell {cell.name!r} uses the input {cell.signature.input} itself, so it needs as many features as "
                f"units: the input of {layer} has {size}, and hidden_size is {hidden_size}. Set hidden_size to {size}, "
                "or map the input to that size first (a Linear layer, or an embedding of that size)"
            )


def check_gate_bias(cell: Cell, gate_bias: Any) -> None:
    """Refuse initial values for biases that the cell does not have."""
    if not isinstance(gate_bias, Mapping):
        raise GatelabError(f"gate_bias is {gate_bias!r}: expected a mapping, such as {{'z': 1.0}}")
    for name, value in gate_bias.items():
        learned = [bias for bias in cell.graph.b if f"b.{bias}" not in cell.given]
        if name not in learned:
            raise unknown(f"gate_bias of cell {cell.name!r}:", name, learned)
        if not isinstance(value, Real) or not fits_float32(value):
            raise GatelabError(f"gate_bias {name!r} is {value!r}: expected a finite number in the range of float32")


def check_chrono(cell: Cell, longest: Any, gate_bias: Mapping[str, float]) -> None:
    """Refuse chrono initialization for cells without a gate that retains a state, or with biases that are set."""
    if not isinstance(longest, int) or longest < 2:
        raise GatelabError(f"chrono is {longest!r}: expected the longest dependency in steps, an integer of at least 2")
    if not {"keep", "write"} & set(cell.roles.values()):
        raise GatelabError(
            f"chrono does not apply to cell {cell.name!r}: none of its gates keeps or overwrites a state. "
            "Use gate_bias to initialize biases"
        )
    for gate in cell.roles:
        if gate not in cell.graph.b or f"b.{gate}" in cell.given:
            raise GatelabError(
                f"chrono sets the bias of gate {gate!r}, but cell {cell.name!r} has no b.{gate}: rename its bias"
            )
        if gate in gate_bias:
            raise GatelabError(f"both chrono and gate_bias set b.{gate}: use one of them")
        if abs(abs(cell.opening(gate)) - 1) > 1e-9:
            raise GatelabError(
                f"chrono needs b.{gate} to be one term of the sum inside gate {gate!r}, but in cell {cell.name!r} it "
                f"has the factor {cell.opening(gate):g}. Use gate_bias to initialize biases"
            )


def check_frozen(cell: Cell, options: Mapping[str, Option], names: Iterable[Any], at: Any) -> None:
    """Refuse to freeze parameters that the cell does not have, or at something that is not a number."""
    if at is not None and (not isinstance(at, (int, float)) or not fits_float32(at)):
        raise GatelabError(f"freeze was given at={at!r}: expected a finite number in the range of float32")
    own = [name for name, option in options.items() if option.learned]
    learned = [name for name in cell.graph.parameters if name not in cell.given]
    own += learned
    for name in names:
        if not isinstance(name, str) or name not in {*own, *(member[0] for member in learned)}:
            raise unknown(f"parameter of cell {cell.name!r} (the same name in all layers):", name, own)
