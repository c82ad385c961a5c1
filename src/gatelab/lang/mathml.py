"""Prints a cell's equations as MathML, in which every value and weight carries its name.

`data-kind` is "gate", "state", "weight", "bias", "number" or "input", and `data-name` the name of its values in a
recorded run or among the weights: z, h, W.z, b.z. So a page can show the values of what is pointed at.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from gatelab.lang.graph import Graph, Matrix, Node
from gatelab.lang.printing import ATOM, GREEK, PRODUCT, WORDS, _Text


def mathml(graph: Graph) -> str:
    """The equations as one `math` element, aligned at the equals signs."""
    rows = "\n".join(
        f'<mtr><mtd style="text-align: right"><mrow>{left}</mrow></mtd>'
        f'<mtd style="text-align: left"><mrow><mo>=</mo>{right}</mrow></mtd></mtr>'
        for left, right in _MathML(graph).equations()
    )
    return f'<math display="block"><mtable displaystyle="true">\n{rows}\n</mtable></math>'


class _MathML(_Text):
    functions: Mapping[str, str] = {"sigmoid": "σ", "sum": "Σ", "maximum": "max", "minimum": "min"}
    plus, minus, comma = "<mo>+</mo>", "<mo>−</mo>", "<mo>,</mo>"
    # A thin space where a number scales a value: the operator is invisible otherwise.
    times, scaled_by = "<mo>⊙</mo>", '<mspace width="0.17em"></mspace>'

    def gate(self, name: str) -> str:
        return _named("gate", name, _indexed(self.name(name), "<mi>t</mi>"))

    def old(self, name: str) -> str:
        if name in self.graph.states:
            return _named("state", name, _indexed(self.name(name), _before(1)))
        return _named("input", name, _indexed(self.name(name), "<mi>t</mi>"))

    def new_state(self, name: str) -> str:
        return _named("state", name, _indexed(self.name(name), "<mi>t</mi>"))

    def earlier(self, node: Node, delay: int) -> str:
        """n with the index t − 2; an expression in parentheses gets the index −2."""
        for name, gate in self.graph.gates.items():
            if gate is node:
                return _named("gate", name, _indexed(self.name(name), _before(delay)))
        if node.op == "state":
            return _named("state", node.name, _indexed(self.name(node.name), _before(delay + 1)))
        value, precedence = self.expression(node)
        return _indexed(value if precedence >= ATOM else self.parenthesized(value), f"<mo>−</mo><mn>{delay}</mn>")

    def name(self, name: str) -> str:
        return f"<mi>{escape(GREEK.get(name, name))}</mi>"

    def leaf(self, node: Node) -> str:
        text = super().leaf(node)
        kind, key = {"vector": ("bias", f"b.{node.name}"), "scalar": ("number", node.name)}.get(node.op, ("", ""))
        return _named(kind, key, text) if kind else text

    def repeated(self, number: int) -> str:
        return f"<msubsup><mi>a</mi><mi>t</mi><mrow><mo>(</mo><mn>{number}</mn><mo>)</mo></mrow></msubsup>"

    def function(self, op: str) -> str:
        return f"<mi>{escape(self.functions.get(op, WORDS.get(op, op)))}</mi><mo>&#8289;</mo>"  # function application

    def called(self, op: str, inner: str) -> str:
        if op == "sqrt":
            return f"<msqrt><mrow>{inner}</mrow></msqrt>"
        fences = {"abs": ("|", "|"), "floor": ("⌊", "⌋")}.get(op)
        if fences is not None:
            return f"<mrow><mo>{fences[0]}</mo>{inner}<mo>{fences[1]}</mo></mrow>"
        return super().called(op, inner)

    def parenthesized(self, inner: str) -> str:
        return f"<mrow><mo>(</mo>{inner}<mo>)</mo></mrow>"

    def applied(self, matrix: Matrix, node: Node) -> tuple[str, int]:
        return f'{self.matrix(matrix)}<mspace width="0.17em"></mspace>{self.wrapped(node, ATOM)}', PRODUCT

    def subscript(self, letter: str, name: str) -> str:
        text = f"<msub><mi>{letter}</mi><mi>{escape(GREEK.get(name, name))}</mi></msub>"
        return text if letter == "b" else _named("weight", f"{letter}.{name}", text)

    def scale(self, by: Node | float) -> str:
        if isinstance(by, Node):
            return f"{self.wrapped(by, ATOM)}{self.scaled_by}"
        return self.minus if by == -1 else f"{self.number(by)}{self.scaled_by}"

    def number(self, value: float) -> str:
        digits, _, exponent = f"{abs(value):g}".partition("e")
        text = f"<mn>{digits}</mn>"
        if exponent:
            text += f"<mo>·</mo><msup><mn>10</mn><mn>{str(int(exponent)).replace('-', '−')}</mn></msup>"
        return f"{self.minus}{text}" if value < 0 else text

    def comparison(self, op: str) -> str:
        return f"<mo>{escape('>' if op == 'greater' else '≥')}</mo>"

    def identity(self) -> str:
        return "<mi>I</mi>"

    def transposed(self, matrix: str) -> str:
        return f"<msup><mrow>{matrix}</mrow><mo>⊤</mo></msup>"

    def fraction(self, over: Node, under: Node) -> str:
        parts = "".join(f"<mrow>{self.expression(part)[0]}</mrow>" for part in (over, under))
        return f"<mfrac>{parts}</mfrac>"

    def raised(self, base: str, power: int) -> str:
        return f"<msup><mrow>{base}</mrow><mn>{power}</mn></msup>"


def _named(kind: str, name: str, text: str) -> str:
    """A term that can be pointed at."""
    return f'<mrow data-kind="{kind}" data-name="{escape(name)}">{text}</mrow>'


def _indexed(name: str, index: str) -> str:
    return f"<msub><mrow>{name}</mrow><mrow>{index}</mrow></msub>"


def _before(steps: int) -> str:
    return f"<mi>t</mi><mo>−</mo><mn>{steps}</mn>"
