"""What the equations of a cell tell about it, in words and formulas: for the terminal and for docs/cells.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from gatelab.cells import FAMILIES
from gatelab.lang import Cell
from gatelab.lang.graph import Weight
from gatelab.lang.recurrence import Recurrence
from gatelab.lang.values import Values

VERBS = {"keep": "keeps", "write": "writes", "add": "adds"}
ROLES = {
    "keep": "keeps the old state where it is near 1",
    "write": "replaces the old state by new content where it is near 1",
    "add": "adds new content to the old state where it is near 1",
}
RECURRENCES: dict[Recurrence, str] = {
    "linear elementwise": "the new state of a unit is linear in the old states of the same unit, with coefficients "
    "that do not depend on states",
    "elementwise": "the new state of a unit depends on the old states of the same unit alone, and nonlinearly",
    "linear": "the new states are linear in the old states of all units, with coefficients that do not depend on "
    "states",
    "dense": "the new state of a unit depends nonlinearly on the old states of other units",
}
RECIPES: dict[str, Callable[..., str]] = {
    "constant": lambda value: f"{value:g}",
    "uniform": lambda low, high: f"uniform in [{low:g}, {high:g})",
    "log_uniform": lambda low, high: f"log u for u uniform in [{low:g}, {high:g})",
    "exp_uniform": lambda low, high: f"exp u for u uniform in [{low:g}, {high:g})",
    "normal": lambda deviation: f"normal with mean 0 and standard deviation {deviation:g}",
    "ring": lambda low, high: (
        f"log(−log r) for the radius r of points that are uniform in the ring {low:g} ≤ r < {high:g}"
    ),
    "evenly": lambda first, last: f"evenly spaced from {first:g} in the first unit to {last:g} in the last",
    "multiples": lambda factor: f"{factor:g} · n in unit n = 0, 1, 2, …",
    "first": lambda share: f"1 in the first {100 * share:g} % of the units, 0 in the others",
    "signs": lambda share: f"1 in the first {100 * share:g} % of the units, −1 in the others",
    "periods": lambda groups: f"1, 2, 4, … for {groups:g} groups of units of equal size",
    "one_hot": lambda: "1 in the first unit, 0 in the others",
    "identity": lambda scale: f"{'' if scale == 1 else f'{scale:g} times '}the identity matrix",
    "orthogonal": lambda: "a random orthogonal matrix",
    "lower_triangular": lambda: "1 on and below the diagonal, 0 above",
    "permutation": lambda distance: f"unit i reads unit i + {distance:g}, cyclically",
    "off_diagonal": lambda: "0 on the diagonal, 1 elsewhere",
    "slower": lambda groups: (
        f"1 where a unit reads one of the same or a longer period ({groups:g} groups), 0 elsewhere"
    ),
    "legendre": lambda: "the state matrix of a Legendre memory",
}


def year(cell: Cell) -> str:
    """The year of the first publication in the reference; empty if there is none."""
    found = re.search(r"(?:^|(?<=\s))(?:19|20)\d\d\b", cell.reference)
    return found[0] if found else ""


def family(cell: Cell) -> str:
    """The family of a cell of the library; empty for others."""
    return next((name for name, members in FAMILIES.items() if cell in members), "")


def further_states(cell: Cell) -> tuple[str, ...]:
    """The states that hold earlier values and the index of the step."""
    return cell.states[len(cell.graph.states) :]


def earlier_and_index(cell: Cell) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The further states: those of earlier values, and that of the index of the step."""
    further = further_states(cell)
    return (further[:-1], further[-1:]) if cell.signature.has_index and further else (further, ())


def parameter_count(cell: Cell, input_size: int, hidden_size: int) -> int:
    """The parameters of one layer in one direction; D = H for cells that use the input itself."""
    return cell.parameter_count(hidden_size if cell.graph.uses_input_itself else input_size, hidden_size)


def parameter_formula(cell: Cell) -> str:
    """The number of parameters of one layer in one direction: 3·H·D + 3·H² + 4·H."""
    learned = [name[0] for name in cell.graph.parameters if name not in cell.given]
    counts = [(learned.count("W"), "H·D"), (learned.count("U"), "H²"), (learned.count("b"), "H")]
    terms = [size if count == 1 else f"{count}·{size}" for count, size in counts if count]
    options = sum(option.learned for option in cell.options.values())
    return " + ".join([*terms, *([str(options)] if options else [])])


def products(cell: Cell) -> tuple[int, int]:
    """The number of products of a matrix and a vector in a step: with the input (H × D), and with H units (H × H)."""
    nodes = [node for node in cell.graph.nodes(*cell.graph.new_states) if node.op == "product"]
    of_input = sum(isinstance(node.matrix, Weight) and node.matrix.space == "W" for node in nodes)
    return of_input, len(nodes) - of_input


def hyperparameters(cell: Cell) -> list[str]:
    """Each hyperparameter with its value: gamma = 0.01 (fixed)."""
    return [f"{n} = {o.value:g} ({'learned' if o.learned else 'fixed'})" for n, o in cell.options.items()]


def recipe(values: Values) -> str:
    """Values in words: uniform in [0, 1)."""
    return RECIPES[values.kind](*values.arguments).replace("-", "−")


def recipes(values: dict[str, Values], quoted: Callable[[str], str] = str) -> list[str]:
    """The values of parameters in words; those with the same values together: b.z, b.r = 1."""
    names: dict[str, list[str]] = {}
    for name, value in values.items():
        names.setdefault(recipe(value), []).append(quoted(name))
    return [f"{', '.join(group)}: {words}" for words, group in names.items()]


def gates(cell: Cell) -> list[str]:
    """Each gate, with a verb for its role where it has one: z (keeps)."""
    return [f"{gate} ({VERBS[cell.roles[gate]]})" if gate in cell.roles else gate for gate in cell.gates]


def listed(words: Iterable[str]) -> str:
    """Words separated by commas, or "none"."""
    return ", ".join(words) or "none"
