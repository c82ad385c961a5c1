"""docs/cells.md: every cell of the library with its equations and what follows from them."""

from __future__ import annotations

import re

from gatelab.cells import FAMILIES
from gatelab.lang import Cell
from gatelab.report.words import cells as words

COMMAND = "gatelab cells --markdown > docs/cells.md"


def markdown() -> str:
    """The page."""
    count = sum(map(len, FAMILIES.values()))
    parts = [INTRODUCTION.format(count=count, families=len(FAMILIES), command=COMMAND, classes=_classes())]
    parts += ["## Overview", *(_overview(family, cells) for family, cells in FAMILIES.items())]
    for family, cells in FAMILIES.items():
        parts += [f"## {family}", *map(_section, cells)]
    return "\n\n".join(parts) + "\n"


INTRODUCTION = """\
# Cells

<!-- Generated from the equations by `{command}`: edit the cells, not this page. -->

The library has {count} cells in {families} families. Each is a Python function of a few lines in `src/gatelab/cells`;
everything on this page is derived from that function and its docstring. Use a cell by its name,
`Recurrent("gru", input_size=28, hidden_size=128)` or `gatelab train --cell gru`. `gatelab cells` lists them in the
terminal, `gatelab cells NAME` prints one. [Your own cells](own-cells.md) are written in the same language.

## How to read this page

**Equations.** D is the number of input features and H the number of units; a layer has H units in every state and
gate. Matrices W are H × D and read the input x; matrices U are H × H; vectors b have H entries, whether they are
biases or weights of single units. Index t is the current step, t − 1 the previous one. Values of steps before the
first are 0. ⊙ is the product unit by unit, σ the sigmoid, Σ and mean are taken over the units, and LN is layer
normalization without scale and shift. where(c, a, b) is a where the comparison c is true, otherwise b. step(v) is 1
for v > 0, otherwise 0. surrogate(v, s) has the value of v and the derivative of s, stop(v) the value of v and the
derivative 0. Bernoulli(p) is a random mask of zeros and ones while the layer is in training mode, and p itself in
evaluation mode. expm is the matrix exponential.

**States** are what a cell carries from step to step; the first is the output of the layer. Cells that use values of
earlier steps or the index of the step have further states that hold them (counted as "+ n" in the overview). All states
are 0 before the first step.

**Gates** are all other vectors that the equations name, candidates included. A gate between 0 and 1 may have a role,
which is read off the equations: it *keeps* the old state where it is near 1, *writes* (replaces the old state by new
content), or *adds* (adds new content, and the old state is kept either way).

**Recurrence** is the class of the equations. It tells which dependencies there are between the states of two steps:

{classes}

A linear elementwise recurrence could be computed by a parallel scan over the steps; a dense one has to be computed step
by step. States that are only read out, such as h = o ⊙ tanh(c) of a cell whose gates do not read h, do not count.

**Parameters** are those of one layer in one direction, without fixed values. **Products** are the products of a
matrix and a vector in one step, which dominate the cost of large layers. Matrices such as U − Uᵀ are computed once per
call of the layer and do not count.

**Fixed values** are constants that the cell prescribes; they are not trained. **Initial values** are those of
`init="cell"`, the default; all other parameters start uniform in ±1/√H.

**Deviation** says where torchrecurrent, another library of recurrent cells, differs from the equations here."""


def _classes() -> str:
    return "\n".join(f"- *{name}*: {words.RECURRENCES[name]}." for name in words.RECURRENCES)


def _overview(family: str, cells: tuple[Cell, ...]) -> str:
    lines = [
        f"**[{family}](#{family.lower().replace(' ', '-')})**",
        "",
        "| cell | year | recurrence | states | gates | parameters | products |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        gates = ", ".join(words.gates(cell)) or "–"
        formula = words.parameter_formula(cell) + (", D = H" if cell.graph.uses_input_itself else "")
        facts = (words.year(cell), cell.recurrence, _states(cell), gates, formula, str(sum(words.products(cell))))
        lines.append(f"| [{cell.name}](#{cell.name}) | {' | '.join(facts)} |")
    return "\n".join(lines)


def _states(cell: Cell) -> str:
    further = words.further_states(cell)
    return ", ".join(cell.graph.states) + (f" + {len(further)}" if further else "")


def _section(cell: Cell) -> str:
    facts = {
        "Convention": cell.convention,
        "States": _states_in_words(cell),
        "Gates": _gates_in_words(cell),
        "Hyperparameters": "; ".join(map(_code_before_equals, words.hyperparameters(cell))),
        "Fixed values": "; ".join(words.recipes(cell.given, _code)),
        "Initial values": "; ".join(words.recipes(cell.start, _code)),
        "Recurrence": f"{cell.recurrence}: {words.RECURRENCES[cell.recurrence]}",
        "Parameters": _parameters_in_words(cell),
        "Products": _products_in_words(cell),
        "Reference": _linked(cell.reference),
        "Deviation": cell.deviation,
    }
    lines = [f"- **{name}:** {text.rstrip('.')}." for name, text in facts.items() if text]
    return "\n\n".join(
        [f"### {cell.name}", cell.summary, f"```math\n{_for_github(cell.latex())}\n```", "\n".join(lines)]
    )


def _for_github(latex: str) -> str:
    r"""LaTeX that GitHub renders, which refuses \operatorname."""
    return latex.replace(r"\operatorname{", r"\mathrm{")


def _states_in_words(cell: Cell) -> str:
    output, *others = map(_code, cell.graph.states)
    parts = [", ".join([f"{output} (the output)", *others])]
    earlier, index = words.earlier_and_index(cell)
    parts += [f"for values of earlier steps {', '.join(map(_code, earlier))}"] if earlier else []
    parts += [f"for the index of the step {', '.join(map(_code, index))}"] if index else []
    return "; ".join(parts)


def _gates_in_words(cell: Cell) -> str:
    parts = []
    for role, sentence in words.ROLES.items():
        if named := [_code(gate) for gate in cell.gates if cell.roles.get(gate) == role]:
            parts.append(f"{', '.join(named)}: {sentence}")
    if others := [_code(gate) for gate in cell.gates if gate not in cell.roles]:
        parts.append(f"{', '.join(others)}: no role")
    return "; ".join(parts) or "none"


def _parameters_in_words(cell: Cell) -> str:
    text = words.parameter_formula(cell)
    return f"{text}, with D = H, since the cell uses the input itself" if cell.graph.uses_input_itself else text


def _products_in_words(cell: Cell) -> str:
    of_input, of_units = words.products(cell)
    parts = [f"{n} of {size}" for n, size in ((of_input, "H × D"), (of_units, "H × H")) if n]
    return f"{of_input + of_units} per step: {', '.join(parts)}"


def _linked(reference: str) -> str:
    """A reference with links to arXiv and to DOIs."""
    reference = re.sub(r"arXiv:([\d.]+(?:v\d+)?)", r"[arXiv:\1](https://arxiv.org/abs/\1)", reference)
    return re.sub(r"doi:(\S+)", lambda match: f"[doi:{match[1]}](https://doi.org/{_address(match[1])})", reference)


def _address(doi: str) -> str:
    return doi.replace("(", "%28").replace(")", "%29")


def _code(name: str) -> str:
    return f"`{name}`"


def _code_before_equals(text: str) -> str:
    name, equals, value = text.partition(" = ")
    return f"{_code(name)}{equals}{value.replace('-', '−')}"
