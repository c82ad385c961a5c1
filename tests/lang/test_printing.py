"""Printed equations: they evaluate to what the graph computes."""

from __future__ import annotations

import random
import re
from xml.etree import ElementTree

import pytest
import torch
import typst
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.mathtext import MathTextParser
from random_cells import NAMESPACE, Language, made, source

from gatelab import I, cell, cells, exp, learned, mean, relu, sigmoid, sqrt, tanh
from gatelab.lang.graph import evaluate
from gatelab.lang.printing import GREEK

TYPESETTER = typst.Compiler(ignore_system_fonts=True)


def typeset(equations: str) -> None:
    """Typst compiles the equations without warnings."""
    _, warnings = TYPESETTER.compile_with_warnings(f"$ {equations} $".encode(), format="svg")
    assert not warnings


def read_back(line: str) -> str:
    """A printed equation as Python: products become names, signs become operators."""
    right = line.partition(" = ")[2]
    right = re.sub(r"U_(\w+) (\w+'?|\(|[√Σσ])", r"U_\1 @ \2", re.sub(r"W_(\w+) x", r"W_\1", right))
    for sign, operator in (
        ("⊙", "*"),
        ("·", "*"),
        ("−", "-"),
        ("^", "**"),
        ("σ", "sigmoid"),
        ("√", "sqrt"),
        ("Σ", "sum"),
        ("≥", ">="),
    ):
        right = right.replace(sign, operator)
    return right.replace("stop(", "stop_gradient(")


class Matrix:
    """A 1 × 1 matrix that can only be applied from the left."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __neg__(self):
        return Matrix(-self.factor)

    def __matmul__(self, value):
        return self.factor * value


PLAIN = Language(sequence=False, matrices=False, hostile=False)


@settings(max_examples=50)  # Typst takes long
@given(st.randoms(use_true_random=False))
def test_printed_equations_evaluate_to_the_graph(chance):
    random_ = made(source(chance, PLAIN))
    numbers, graph = random.Random(1), random_.graph
    maps = {name: numbers.uniform(-1, 1) for name in graph.U}
    known = [*graph.states, *(f"b_{name}" for name in graph.b), *(f"W_{name}" for name in graph.W)]
    values = {name: numbers.uniform(-1, 1) for name in known}
    values |= {GREEK.get(name, name): option.value for name, option in random_.options.items()}

    by_node: dict = {}
    for node in graph.nodes():
        if node.op == "product" and node.matrix.space == "U":
            by_node[node] = maps[node.matrix.name] * evaluate(node.args[0], by_node)
        elif node.op in ("product", "vector", "state", "scalar"):
            names = {"product": lambda n: f"W_{n.matrix.name}", "vector": lambda n: f"b_{n.name}"}
            key = names.get(node.op, lambda n: GREEK.get(n.name, n.name))(node)
            by_node[node] = torch.tensor(values[key], dtype=torch.float64)

    known = {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}
    known |= {f"U_{name}": Matrix(factor) for name, factor in maps.items()}
    for line in random_.text().splitlines():
        left = line.partition(" = ")[0].replace("'", "_new")
        known[left] = eval(read_back(line).replace("'", "_new"), {**NAMESPACE, **known})
    for state, node in zip(graph.states, graph.new_states, strict=True):  # six digits are printed
        value = torch.as_tensor(known[f"{state}_new"]).squeeze()
        torch.testing.assert_close(value, evaluate(node, by_node).squeeze(), rtol=1e-4, atol=1e-4)
    for line in random_.latex().splitlines()[1:-1]:
        MathTextParser("path").parse(f"${line.removesuffix(chr(92) * 2).replace('&', '')}$")
    typeset(random_.typst())


def named_terms(printed: str) -> set[tuple[str, str]]:
    """Kind and name of every term of MathML that can be pointed at."""
    terms = ElementTree.fromstring(printed).iter()
    return {(term.get("data-kind"), term.get("data-name")) for term in terms if term.get("data-kind")}


@pytest.mark.parametrize("name", cells.names())
def test_mathml_names_every_value(name):
    graph = cells.get(name).graph
    kinds = {"W": "weight", "U": "weight", "b": "bias"}
    expected = {("gate", gate) for gate in graph.gates} | {("state", state) for state in graph.states}
    expected |= {(kinds[parameter[0]], parameter) for parameter in graph.parameters}
    assert expected <= named_terms(cells.get(name).mathml())


def refuse_loose_text(printed: str) -> None:
    """MathML shows text in some elements only."""
    for element in ElementTree.fromstring(printed).iter():
        assert element.tag in ("mi", "mo", "mn") or not (element.text or "").strip()
        assert not (element.tail or "").strip()


@pytest.mark.parametrize("name", cells.names())
def test_mathml_has_all_text_in_elements(name):
    refuse_loose_text(cells.get(name).mathml())


@settings(max_examples=50)
@given(st.randoms(use_true_random=False))
def test_mathml_and_typst_of_random_cells(chance):
    random_ = made(source(chance))
    refuse_loose_text(random_.mathml())
    typeset(random_.typst())


@pytest.mark.parametrize("name", cells.names())
def test_typst_compiles_for_every_cell(name):
    typeset(cells.get(name).typst())


def test_typst_of_agru():
    assert cells.get("agru").typst().splitlines() == [
        "z_t &= sigma(W_z x_t + U_z h_(t-1) + b_z) \\",
        "r_t &= sigma(W_r x_t + U_r h_(t-1) + b_r) \\",
        "n_t &= tanh(W_n x_t + (U_n - U_n^top - gamma I) (r_t ⊙ h_(t-1)) + b_n) \\",
        "h_t &= h_(t-1) + epsilon thin (z_t ⊙ n_t)",
    ]


def test_typst_of_long_names_powers_fractions_and_small_numbers():
    @cell
    def mine(x, h, W, U, b, *, lambda_=learned(1.0), step_size=0.1):
        forget = relu(W.f_in(x) - b.f) ** 2
        return lambda_ * forget * h / 2 + 1e-5 * h + step_size * b.hn

    assert mine.typst().splitlines() == [
        '"forget"_t &= op("relu")(W_"f_in" x_t - b_f)^(2) \\',
        'h_t &= frac(lambda thin "forget"_t ⊙ h_(t-1), 2) + 1 ⋅ 10^(-5) thin h_(t-1) + "step_size" thin b_"hn"',
    ]
    typeset(mine.typst())


def test_states_greek_letters_and_long_names():
    @cell
    def mine(x, h, c, W, U, b, *, lambda_=learned(1.0), step_size=0.1):
        forget = sigmoid(W.f_in(x) - b.f)
        c = lambda_ * forget * c / 2
        return -(tanh(c) ** 3), h

    assert mine.text().splitlines() == [
        "forget = σ(W_f_in x − b_f)",
        "h' = −tanh(λ · forget ⊙ c / 2)^3",
        "c' = h",
    ]
    assert r"\mathrm{forget}_t &= \sigma(W_{f\_in} x_t - b_{f}) \\" in mine.latex()
    assert r"\frac{\lambda \, \mathrm{forget}_t \odot c_{t-1}}{2}" in mine.latex()


def test_named_scalars_keep_their_name():
    @cell
    def mine(x, h, W, *, tau=learned(10.0)):
        k = exp(-1 / tau)
        return k * h + (1 - k) * W.n(x)

    assert mine.text().splitlines() == ["k = exp((−1) / τ)", "h' = k · h + (1 − k) · (W_n x)"]


def test_small_numbers_are_powers_of_ten_in_latex():
    @cell
    def mine(x, h, W, U):
        return 1e-5 * U.a.T.T(h) + W.n(x)

    assert mine.latex().splitlines()[1] == r"h_t &= 1 \cdot 10^{-5} \, (U_{a} h_{t-1}) + W_{n} x_t"


def test_a_long_repeated_expression_is_printed_once():
    @cell
    def unrolled(x, h, W, U):
        for _ in range(12):
            h = h + 0.1 * tanh(W.n(x) + U.n(h) * (1 - h))
        return h

    assert len(unrolled.text()) < 2000
    assert unrolled.text().splitlines()[-1].startswith("h' = a")
    for line in unrolled.latex().splitlines()[1:-1]:
        MathTextParser("path").parse(f"${line.removesuffix(chr(92) * 2).replace('&', '')}$")


def test_matrix_expressions():
    @cell
    def mine(x, h, U, *, gamma=0.1):
        A = -(U.a + 2 * U.b.T) - gamma * I
        return A(h) + (U.a - (U.b - U.c))(h) + (U.d / 2)(h)

    assert mine.text().splitlines() == [
        "A = −(U_a + 2 U_bᵀ) − γ I",
        "h' = A h + (U_a − (U_b − U_c)) h + (0.5 U_d) h",
    ]


def test_a_normalization_with_an_epsilon_of_its_own_is_printed_in_full():
    @cell
    def own(x, h, W, U):
        n = W.n(x) + U.n(h)
        return n / sqrt(mean(n * n) + 1e-2)

    assert own.text().splitlines()[-1] == "h' = n / √(mean(n ⊙ n) + 0.01)"
