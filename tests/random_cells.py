"""Random cells: expression trees over the whole language, as the source of a function that somebody might have written.

`source(chance)` is its text, `made(text)` the cell. `chance` is a `random.Random`, or hypothesis's, which makes failing
cells smaller. Tests of a part of the language leave out the rest (`Language`); the campaign does not
(tests/campaigns/cells.py).
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gatelab import lang
from gatelab.lang import Cell

# Names that people use, words of C, C++, JavaScript and of browsers, and names that generated code might use itself.
_COMMON = "z r i f o g n u update reset forget candidate keep write gate new_gate leak mix c_t z_t n_1 keep_2"
_HOSTILE = """
s_gate b_t s_in b_out s_1 b_1 g_z d_h new_h old_h state_h gate_z on_z to_z free_z h_ h_1 n_T M_U_n int float double char
auto register static const volatile short signed unsigned struct union enum switch case default goto extern inline var
let function typeof this new delete null true false undefined export arguments eval constructor toString NaN NULL I_ J j
k i_ v r1 v2 x1 sums kept0 operand1 fixed0 total0 value1 products0 saved0 units inputs multiply encode answer advance
features state states step_ steps steps_ total_ work out in_ out_ begin end record adjoints parameter clamps bias values
weights names forward backward train training data items keys shape dtype device tensor torch linear Tensor self cls
layer number network expression_0 input_ expf tanhf power relu_ y0 y1 jn gamma_ lgamma é α alpha λ lambda_ δ delta_t Ω
"""
_STATES = "h c s m y p q h_1 memory slow fast state n_1 value_1 t_ b_h int new_h steps_ total_ x_next output double"
_OPTIONS = "rate gamma alpha epsilon decay tau k s_rate scale int_ beta training names"
COMMON, HOSTILE, STATES, OPTIONS = (each.split() for each in (_COMMON, _HOSTILE, _STATES, _OPTIONS))
PRIVATE = ("_tmp", "_a1", "_new_h", "_")

FUNCTIONS = ("sigmoid", "hard_sigmoid", "tanh", "softplus", "sin", "cos", "relu", "abs", "layer_norm", "rms_norm")
FORMS = (  # of one vector or two
    "(-{})", "{} ** 2", "(1.5 + abs({})) ** -2", "tanh({}) ** 3", "{} / (1.5 + {} ** 2)", "{} / (2 + cos({}))",
    "(0.5 + b.{name} ** 2) * {}", "exp(-abs({}))", "log(1.5 + {} ** 2)", "sqrt(1 + {} ** 2)", "maximum({}, {})",
    "minimum({}, 0.3 * {})", "clamp({}, -0.5, 0.7)", "mean({}) * {}", "0.1 * sum({}) + {}", "stop_gradient({}) + {}",
    "mean({}) - 0.2 * {}",
)  # fmt: skip
JUMPS = (  # where rounding decides
    "0.5 * floor({})", "0.5 * step({})", "surrogate(step({}), sigmoid(4 * {}))", "where({} > {}, {}, {})",
    "where({} <= 0.1, 0.5, {})", "where(mean({}) >= 0, {}, 0.2 * {})", "where(b.{name} < b.{other}, {}, {})",
)  # fmt: skip
SEQUENCE = (  # what needs the steps before, or to be drawn
    "prev({})", "prev({}, 2)", "bernoulli(0.7) * {}", "bernoulli(0.6) / (1.5 + bernoulli(0.6)) + {}",
    "full(0.4) + {}", "prev(bernoulli(0.7) / (1.5 + bernoulli(0.7))) + {}",
)  # fmt: skip
MATRICES = (
    "U.{name}.T", "(U.{name} - U.{name}.T)", "(U.{name} - U.{name}.T - {number} * I)", "relu(U.{name})",
    "(0.5 * U.{name}.T + {number} * U.{other})", "(U.{name} * U.{other})", "expm(U.{name} - U.{name}.T)",
    "(-abs(U.{name}))", "tanh(U.{name} - {number} * I)", "(sigmoid(U.{name}) * U.{other}.T)", "(U.{name} / 3)",
)  # fmt: skip
NAMESPACE = {name: getattr(lang, name) for name in lang.__all__}


@dataclass(frozen=True)
class Language:
    """What cells are made of, beside arithmetic and functions."""

    jumps: bool = True
    sequence: bool = True
    matrices: bool = True
    hostile: bool = True  # names


WHOLE = Language()


@dataclass
class Writer:
    """Writes one cell."""

    chance: random.Random
    language: Language
    states: list[str] = field(default_factory=list)
    vectors: list[str] = field(default_factory=list)  # what is known so far: states and gates
    numbers: list[str] = field(default_factory=list)
    maps: list[str] = field(default_factory=list)
    has_index: bool = False
    itself: bool = False  # whether the input is used without a map

    def is_so(self, probability: float) -> bool:
        return self.chance.random() < probability

    def names(self, count: int, pool: list[str]) -> list[str]:
        """Names that nothing else has."""
        return self.chance.sample([name for name in pool if name not in self.taken], count)

    def parameter(self) -> str:
        """The name of a map or vector, most often that of another one."""
        return self.chance.choice(self.parameters)

    def cell(self, name: str) -> str:
        chance, language = self.chance, self.language
        pool = COMMON + (HOSTILE if language.hostile else [])
        self.taken = set(NAMESPACE) | {"x", "t"}
        self.states = self.claim(chance.randint(1, 3), STATES if language.hostile else ["h", "c", "m"])
        options = self.claim(chance.randint(0, 2), OPTIONS)
        self.parameters = chance.sample(pool, chance.randint(3, 6))
        self.vectors, self.numbers = list(self.states), list(options)
        self.has_index = language.sequence and self.is_so(0.1)
        self.itself = language.hostile and self.is_so(0.1)
        body = [f"    {line}" for _ in range(chance.randint(1, 4)) for line in self.statement(pool)]
        returned = ", ".join(self.new_state(state) for state in self.states)
        arguments = ["x", *self.states, *(["t"] if self.has_index else []), "W", "U", "b"]
        values = ("learned(0.3)", "0.7", "learned(-0.4)", "1.5")
        arguments += ["*", *(f"{option}={chance.choice(values)}" for option in options)] if options else []
        head = f"def {name}({', '.join(arguments)}):"
        first = self.parameters[0]  # so that no cell is without input or parameters
        return "\n".join(["@cell", head, *body, f"    return {returned}".replace("INPUT", f"W.{first}(x)"), ""])

    def claim(self, count: int, pool: list[str]) -> list[str]:
        names = self.names(count, pool)
        self.taken |= set(names)
        return names

    def statement(self, pool: list[str]) -> Iterator[str]:
        """A named value, which later ones may use."""
        kind = self.chance.random()
        if kind < 0.08 and self.language.matrices:
            [name] = self.claim(1, pool)
            yield f"{name} = {self.matrix()}"
            self.maps.append(name)
        elif kind < 0.14:
            [name] = self.claim(1, pool)
            yield f"{name} = {self.chance.choice(('mean', '0.2 * sum'))}({self.value(2)})"
            self.numbers.append(name)
        elif kind < 0.18:
            [name] = self.claim(1, pool)
            space = self.chance.choice(("b", "U")) if self.language.matrices else "b"
            yield f"{name} = {space}.{self.parameter()}"  # an alias that nothing uses
        elif kind < 0.26 and self.language.hostile and (free := [n for n in PRIVATE if n not in self.taken]):
            name = free[0]
            self.taken.add(name)
            yield f"{name} = {self.value(3)}"
            self.vectors.append(name)
        else:
            [name] = self.claim(1, pool)
            function = self.chance.choice(("sigmoid", "sigmoid", "tanh", ""))
            yield f"{name} = {function}({self.pre_activation() if self.is_so(0.5) else self.value(3)})"
            self.vectors.append(name)

    def new_state(self, state: str) -> str:
        """What is bounded, so that no state grows without end."""
        value = f"({self.value(3)} + INPUT)" if state == self.states[0] else self.value(3)
        gate = f"sigmoid({self.pre_activation()})" if self.is_so(0.5) else f"clamp({self.leaf()}, 0, 1)"
        forms = [
            f"{gate} * {state} + (1 - {gate}) * tanh({value})",
            f"tanh({value})",
            f"0.5 * {state} + 0.5 * tanh({value})",
            f"clamp({value}, -2, 2)",
            f"0.9 * {state} + 0.1 * sin({value})",
            f"sigmoid({value}) - {gate} * 0.5",
        ]
        if self.language.jumps:
            forms.append(f"where({self.leaf()} > {self.leaf()}, {state}, tanh({value}))")
            forms.append(f"where(W.{self.parameter()}(x) > 0, tanh({value}), {state})")
        return self.chance.choice(forms)

    def pre_activation(self) -> str:
        name = self.parameter()
        return f"W.{name}(x) + U.{name}({self.chance.choice(self.vectors)}) + b.{name}"

    def leaf(self) -> str:
        kind, number = self.chance.random(), self.number()
        if kind < 0.35:
            return self.chance.choice(self.vectors)
        if kind < 0.55:
            return f"W.{self.parameter()}(x)"
        if kind < 0.7:
            return f"U.{self.parameter()}({self.chance.choice(self.vectors)})"
        if kind < 0.8:
            return f"b.{self.parameter()}"
        if kind < 0.84 and self.has_index:
            return "sin(0.3 * t)"
        if kind < 0.88 and self.itself:
            return "0.5 * x"
        return f"{number} * {self.chance.choice(self.vectors)}"

    def number(self) -> str:
        constants = ["0.5", "2", "-0.3", "1.25"]
        return self.chance.choice([*self.numbers, *constants])

    def value(self, depth: int) -> str:
        """An expression that is a vector."""
        if not depth or self.is_so(0.15):
            return self.leaf()
        kind = self.chance.random()
        if kind < 0.3:
            return f"({self.value(depth - 1)} {self.chance.choice('+-*')} {self.value(depth - 1)})"
        if kind < 0.5:
            return f"{self.chance.choice(FUNCTIONS)}({self.value(depth - 1)})"
        if kind < 0.6 and self.language.matrices:
            matrix = self.chance.choice([*self.maps, self.matrix()])
            return f"{matrix}({self.value(depth - 1)})"
        if kind < 0.66:
            return f"U.{self.parameter()}({self.value(depth - 1)})"
        forms = FORMS + (JUMPS if self.language.jumps else ()) + (SEQUENCE if self.language.sequence else ())
        return self.filled(self.chance.choice(forms), lambda: self.value(depth - 1))

    def matrix(self) -> str:
        return self.filled(self.chance.choice(MATRICES), self.leaf)

    def filled(self, form: str, value: Callable[[], str]) -> str:
        for placeholder, make in (("{name}", self.parameter), ("{other}", self.parameter), ("{number}", self.scalar)):
            form = form.replace(placeholder, make()) if placeholder in form else form
        parts = form.split("{}")
        return f"({''.join(itertools.chain(*((part, f'({value()})') for part in parts[:-1])))}{parts[-1]})"

    def scalar(self) -> str:
        """A number that is the same for all sequences."""
        options = [name for name in self.numbers if name in OPTIONS]
        return self.chance.choice([*options, "0.1", "0.25"])


def source(chance: random.Random, language: Language = WHOLE, name: str = "random") -> str:
    """The text of a cell."""
    return Writer(chance, language).cell(name)


def made(text: str, name: str = "random") -> Cell:
    """The cell of a text. Parameters that no state depends on are part of the game."""
    space = dict(NAMESPACE)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="in cell .* no new state depends on")
        exec(compile(text, f"<{name}>", "exec"), space)
    cell: Cell = space[name]
    return cell
