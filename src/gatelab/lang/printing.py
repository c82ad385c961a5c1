"""Prints a cell's equations from its graph: plain text, LaTeX, Typst and Python; mathml.py prints MathML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gatelab.lang.graph import (
    Elementwise,
    Exponential,
    Graph,
    IdentityMatrix,
    Matrix,
    Node,
    Scaled,
    Sum,
    Transpose,
    Weight,
    operands,
    subexpressions,
    walk,
    weights,
)

_LETTERS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda_ mu nu xi rho sigma tau phi chi psi omega"
GREEK = dict(zip(_LETTERS.split(), "αβγδεζηθικλμνξρστφχψω", strict=True))

LONG = 12  # an expression with more operations is printed once and gets a name
SUM, PRODUCT, POWER, ATOM = 1, 2, 3, 4  # operator precedence


def text(graph: Graph) -> str:
    """One equation per line, in Unicode: z = σ(W_z x + U_z h + b_z)."""
    return "\n".join(f"{left} = {right}" for left, right in _Text(graph).equations())


def latex(graph: Graph) -> str:
    """The equations as an `aligned` block for a math environment."""
    lines = [rf"{left} &= {right} \\" for left, right in _Latex(graph).equations()]
    lines[-1] = lines[-1].removesuffix(r" \\")
    return "\n".join([r"\begin{aligned}", *lines, r"\end{aligned}"])


def typst(graph: Graph) -> str:
    """The equations in Typst's math syntax, one per line, aligned at the equals sign."""
    return " \\\n".join(f"{left} &= {right}" for left, right in _Typst(graph).equations())


def python(graph: Graph) -> list[str]:
    """The body of a Python function that computes one step, line by line."""
    return _Python(graph).lines()


COMPARISONS = {"greater": ">", "greater_equal": "≥"}
WORDS = {"stop_gradient": "stop", "layer_norm": "LN", "rms_norm": "RMS", "bernoulli": "Bernoulli"}  # names in formulas


def _normalized(node: Node) -> tuple[str, Node] | None:
    """The function and its argument if a node is what `layer_norm` or `rms_norm` compute, with the usual epsilon."""
    if node.op != "div" or node.args[1].op != "sqrt":
        return None
    value, added = node.args[0], node.args[1].args[0]
    if added.op != "add" or added.args[1].value != 1e-5 or added.args[0].op != "mean":
        return None
    squared = added.args[0].args[0]
    if squared.op != "mul" or squared.args != (value, value):
        return None
    if value.op == "sub" and value.args[1].op == "mean" and value.args[1].args[0] is value.args[0]:
        return "layer_norm", value.args[0]
    return "rms_norm", value


def _printed(node: Node) -> tuple[Node, ...]:
    """The nodes that appear in the text of a node."""
    normalized = _normalized(node)
    return node.args if normalized is None else normalized[1:]


class _Text:
    """Prints equations. Subclasses override the short methods at the end."""

    functions: Mapping[str, str] = {"sigmoid": "σ", "sqrt": "√", "sum": "Σ", "stop_gradient": "stop"}
    plus, minus, times, scaled_by, comma = "+", "−", " ⊙ ", " · ", ", "

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.labels = {node: self.gate(name) for name, node in graph.gates.items()}
        self.labels |= {
            node: self.name(name) if node.shape == "scalar" else self.gate(name) for name, node in graph.numbers.items()
        }
        self.map_labels = {matrix: self.name(name) for name, matrix in graph.maps.items()}
        for state, node in zip(graph.states, graph.new_states, strict=True):
            if node.args:  # a state that is a copy of another state's old value gets no label
                self.labels.setdefault(node, self.new_state(state))

        self._label_repeated_expressions()

    def _label_repeated_expressions(self) -> None:
        """Give long expressions that are used more than once a name, so that the text does not grow exponentially."""
        nodes = list(walk((*self.graph.gates.values(), *self.graph.new_states), operands=_printed))
        uses = Counter(arg for node in nodes for arg in _printed(node))
        length: dict[Node, int] = {}
        letters = 0
        for node in nodes:
            length[node] = 1 + sum(1 if arg in self.labels else length[arg] for arg in _printed(node))
            is_repeated = uses[node] > 1 and length[node] > LONG
            if (is_repeated or node.op == "random") and node not in self.labels:  # a mask is drawn once
                letters += 1
                self.labels[node] = self.repeated(letters)

    def equations(self) -> list[tuple[str, str]]:
        """(left side, right side) of each equation, in topological order."""
        lines = [(label, self.matrix(matrix, top=True)) for matrix, label in self.map_labels.items()]
        nodes = walk((*self.graph.gates.values(), *self.graph.new_states), operands=_printed)
        lines += [(self.labels[n], self.expression(n, top=True)[0]) for n in nodes if n in self.labels]
        done = {left for left, _ in lines}
        for state, node in zip(self.graph.states, self.graph.new_states, strict=True):
            if self.new_state(state) not in done:
                lines.append((self.new_state(state), self.expression(node)[0]))
        return lines

    def expression(self, node: Node, top: bool = False) -> tuple[str, int]:
        """The text of a node and its precedence. A named node is printed as its name, except at the top."""
        if node in self.labels and not top:
            return self.labels[node], ATOM
        if node.op in ("add", "sub"):
            left, right = node.args
            sign = self.plus if node.op == "add" else self.minus
            right_side = self.wrapped(right, SUM if node.op == "add" else PRODUCT)
            return f"{self.wrapped(left, SUM)} {sign} {right_side}", SUM
        if node.op == "neg":
            return f"{self.minus}{self.wrapped(node.args[0], PRODUCT)}", SUM
        if (normalized := _normalized(node)) is not None:
            name, value = normalized
            return self.called(name, self.expression(value)[0]), ATOM
        if node.op == "mul":
            left, right = node.args
            is_scaled = any(arg.shape != "vector" or arg.op == "index" for arg in (left, right))
            by = self.scaled_by if is_scaled else self.times
            return f"{self.factor(left, PRODUCT)}{by}{self.factor(right, POWER)}", PRODUCT
        if node.op == "div":
            return self.fraction(*node.args), PRODUCT
        if node.op == "power":
            return self.raised(self.wrapped(node.args[0], ATOM), int(node.value)), POWER
        if node.op == "product":
            assert node.matrix is not None
            return self.applied(node.matrix, node.args[0])
        if node.op == "constant":
            return self.number(node.value), ATOM if node.value >= 0 else SUM
        if node.op == "full":
            return self.filled(node.value), ATOM if node.value >= 0 else SUM
        if node.op in COMPARISONS:
            sides = (self.wrapped(arg, PRODUCT) for arg in node.args)
            return f" {self.comparison(node.op)} ".join(sides), SUM
        if node.op == "itself":
            return self.expression(node.args[0])
        if node.op == "random":
            return self.called("bernoulli", self.expression(node.args[0])[0]), ATOM
        if node.op == "prev":
            return self.earlier(node.args[0], int(node.value)), ATOM
        if node.args:
            inner = self.comma.join(self.expression(arg)[0] for arg in node.args)
            return self.called(node.op, inner), ATOM
        return self.leaf(node), ATOM

    def earlier(self, node: Node, delay: int) -> str:
        value = self.expression(node)[0]
        return f"prev({value})" if delay == 1 else f"prev({value}, {delay})"

    def filled(self, value: float) -> str:
        return self.number(value)

    def comparison(self, op: str) -> str:
        return COMPARISONS[op]

    def called(self, op: str, inner: str) -> str:
        return f"{self.function(op)}{self.parenthesized(inner)}"

    def parenthesized(self, inner: str) -> str:
        return f"({inner})"

    def applied(self, matrix: Matrix, node: Node) -> tuple[str, int]:
        return f"{self.matrix(matrix)} {self.wrapped(node, ATOM)}", PRODUCT

    def wrapped(self, node: Node, at_least: int) -> str:
        expression, precedence = self.expression(node)
        return expression if precedence >= at_least else self.parenthesized(expression)

    def factor(self, node: Node, at_least: int) -> str:
        # "z ⊙ U h" would be ambiguous.
        is_named = node in self.labels
        return self.wrapped(node, ATOM if node.op == "product" and not is_named else at_least)

    def matrix(self, matrix: Matrix, top: bool = False) -> str:
        if matrix in self.map_labels and not top:
            return self.map_labels[matrix]
        if isinstance(matrix, Weight):
            return self.subscript(matrix.space, matrix.name)
        if isinstance(matrix, IdentityMatrix):
            return self.identity()
        if isinstance(matrix, Transpose):
            return self.transposed(self.matrix(matrix.of))
        if isinstance(matrix, Scaled):
            inner = f"{self.scale(matrix.by)}{self.matrix(matrix.of)}"
            return inner if top else self.parenthesized(inner)
        if isinstance(matrix, Exponential):
            return f"{self.function('expm')}{self.parenthesized(self.matrix(matrix.of, top=True))}"
        if isinstance(matrix, Elementwise) and matrix.function == "mul":
            inner = self.times.join(map(self.matrix, matrix.of))
            return inner if top else self.parenthesized(inner)
        if isinstance(matrix, Elementwise):
            return f"{self.function(matrix.function)}{self.parenthesized(self.matrix(matrix.of[0], top=True))}"
        sign = self.plus if matrix.sign == 1 else self.minus
        left = self.matrix(matrix.left, top=isinstance(matrix.left, (Sum, Scaled)))
        right = self.matrix(matrix.right, top=isinstance(matrix.right, Scaled))
        inner = f"{left} {sign} {right}"
        return inner if top else self.parenthesized(inner)

    def scale(self, by: Node | float) -> str:
        """The factor before a matrix: a minus sign for −1, otherwise the number and a space."""
        if isinstance(by, Node):
            return f"{self.wrapped(by, ATOM)} "
        return self.minus if by == -1 else f"{self.number(by)} "

    def number(self, value: float) -> str:
        return f"{value:g}".replace("-", self.minus)

    def leaf(self, node: Node) -> str:
        if node.op == "vector":
            return self.subscript("b", node.name)
        if node.op in ("scalar", "index"):
            return self.name(node.name)
        return self.old(node.name)

    def name(self, name: str) -> str:
        return GREEK.get(name, name)

    def gate(self, name: str) -> str:
        return self.name(name)

    def repeated(self, number: int) -> str:
        return f"a{number}"

    def old(self, name: str) -> str:
        return name

    def new_state(self, name: str) -> str:
        return f"{name}'"

    def function(self, op: str) -> str:
        return self.functions.get(op, op)

    def subscript(self, letter: str, name: str) -> str:
        return f"{letter}_{name}"

    def identity(self) -> str:
        return "I"

    def transposed(self, matrix: str) -> str:
        return f"{matrix}ᵀ"

    def fraction(self, over: Node, under: Node) -> str:
        return f"{self.factor(over, PRODUCT)} / {self.factor(under, POWER)}"

    def raised(self, base: str, power: int) -> str:
        return f"{base}{self.exponent(power)}"

    def exponent(self, power: int) -> str:
        return f"^{power}"


class _Indexed(_Text):
    """Common to LaTeX and Typst: old and new values are indexed by time step."""

    before = ""

    def earlier(self, node: Node, delay: int) -> str:
        """n_{t-2}, or (…)_{-2} for an expression: two steps before."""
        value, precedence = self.expression(node)
        left, right = self.before[0], self.before[-1]
        if node.op == "state":
            return f"{self.name(node.name)}_{left}t-{delay + 1}{right}"
        if value.endswith("_t"):
            return f"{value.removesuffix('_t')}_{left}t-{delay}{right}"
        return f"({value})_{left}-{delay}{right}" if precedence < ATOM else f"{value}_{left}-{delay}{right}"

    def gate(self, name: str) -> str:
        return f"{self.name(name)}_t"

    def old(self, name: str) -> str:
        return f"{self.name(name)}_{self.before if name in self.graph.states else 't'}"

    def new_state(self, name: str) -> str:
        return f"{self.name(name)}_t"


class _Latex(_Indexed):
    functions: Mapping[str, str] = {"sigmoid": r"\sigma", "sum": r"\Sigma", "maximum": r"\max", "minimum": r"\min"} | {
        name: rf"\{name}" for name in ("tanh", "exp", "log", "sin", "cos")
    }
    minus, times, scaled_by, before = "-", r" \odot ", r" \, ", "{t-1}"

    def name(self, name: str) -> str:
        if name in GREEK:
            return "\\" + name.removesuffix("_")
        return name if len(name) == 1 else rf"\mathrm{{{_escaped(name)}}}"

    def repeated(self, number: int) -> str:
        return f"a^{{({number})}}_t"

    def function(self, op: str) -> str:
        return self.functions.get(op, rf"\operatorname{{{_escaped(WORDS.get(op, op))}}}")

    def subscript(self, letter: str, name: str) -> str:
        return f"{letter}_{{{_escaped(name)}}}"

    def number(self, value: float) -> str:
        digits, _, exponent = super().number(value).partition("e")
        return rf"{digits} \cdot 10^{{{int(exponent)}}}" if exponent else digits

    def transposed(self, matrix: str) -> str:
        return f"{matrix}^\\top"

    def comparison(self, op: str) -> str:
        return ">" if op == "greater" else r"\geq"

    def called(self, op: str, inner: str) -> str:
        enclosing = {"sqrt": r"\sqrt{%s}", "abs": r"\left|%s\right|", "floor": r"\lfloor %s \rfloor"}
        return enclosing[op] % inner if op in enclosing else super().called(op, inner)

    def fraction(self, over: Node, under: Node) -> str:
        return rf"\frac{{{self.expression(over)[0]}}}{{{self.expression(under)[0]}}}"

    def exponent(self, power: int) -> str:
        return f"^{{{power}}}"


class _Typst(_Indexed):
    functions: Mapping[str, str] = {"sigmoid": "sigma", "sum": "Sigma", "maximum": "max", "minimum": "min"} | {
        name: name for name in ("tanh", "exp", "log", "sin", "cos")
    }
    minus, times, scaled_by, before = "-", " ⊙ ", " thin ", "(t-1)"

    def name(self, name: str) -> str:
        if name in GREEK:
            return name.removesuffix("_")
        return name if len(name) == 1 else f'"{name}"'  # Python identifiers contain neither quotes nor backslashes

    def repeated(self, number: int) -> str:
        return f"a^(({number}))_t"

    def function(self, op: str) -> str:
        return self.functions.get(op, f'op("{WORDS.get(op, op)}")')

    def subscript(self, letter: str, name: str) -> str:
        return f"{letter}_{name}" if len(name) == 1 else f'{letter}_"{name}"'

    def number(self, value: float) -> str:
        digits, _, exponent = super().number(value).partition("e")
        return f"{digits} ⋅ 10^({int(exponent)})" if exponent else digits

    def transposed(self, matrix: str) -> str:
        return f"{matrix}^top"

    def fraction(self, over: Node, under: Node) -> str:
        return f"frac({self.expression(over)[0]}, {self.expression(under)[0]})"

    def exponent(self, power: int) -> str:
        return f"^({power})"


class _Python(_Text):
    """The equations as Python source. Names of values that are not gates start with an underscore, so that tracing does
    not treat them as gates.
    """

    functions: Mapping[str, str] = {}
    minus, times, scaled_by = "-", " * ", " * "

    def lines(self) -> list[str]:
        """Assignments to numbers, maps and values, in topological order, and the return statement."""
        nodes = list(walk((*self.graph.gates.values(), *self.graph.new_states), operands=operands))
        used = {matrix for node in nodes if node.matrix for matrix in subexpressions(node.matrix)}
        numbers, values = ([n for n in nodes if n in self.labels and (n.shape == "scalar") is s] for s in (True, False))
        lines = [f"{self.labels[n]} = {self.expression(n, top=True)[0]}" for n in numbers]
        lines += [
            f"{label} = {self.matrix(matrix, top=True)}" for matrix, label in self.map_labels.items() if matrix in used
        ]
        lines += [f"{self.labels[n]} = {self.expression(n, top=True)[0]}" for n in values]
        named = {f"{weight.space}.{weight.name}" for matrix in used for weight in weights(matrix)}
        named |= {f"b.{node.name}" for node in nodes if node.op == "vector"}
        if unnamed := [name for name in self.graph.parameters if name not in named]:
            lines.append(f"{', '.join(unnamed)}  # parameters that no equation uses")
        return [*lines, f"return {', '.join(self.expression(node)[0] for node in self.graph.new_states)}"]

    def applied(self, matrix: Matrix, node: Node) -> tuple[str, int]:
        return f"{self.matrix(matrix)}({self.expression(node)[0]})", ATOM

    def scale(self, by: Node | float) -> str:
        return f"{self.wrapped(by, ATOM) if isinstance(by, Node) else self.number(by)} * "

    def number(self, value: float) -> str:
        return repr(value) if value >= 0 else f"({value!r})"

    def name(self, name: str) -> str:
        return name

    def filled(self, value: float) -> str:
        return f"full({value!r})"

    def comparison(self, op: str) -> str:
        return ">" if op == "greater" else ">="

    def repeated(self, number: int) -> str:
        return f"_a{number}"

    def new_state(self, name: str) -> str:
        return f"_new_{name}"

    def subscript(self, letter: str, name: str) -> str:
        return f"{letter}.{name}"

    def transposed(self, matrix: str) -> str:
        return f"{matrix}.T"

    def exponent(self, power: int) -> str:
        return f" ** {power}"


def _escaped(name: str) -> str:
    return name.replace("_", r"\_")
