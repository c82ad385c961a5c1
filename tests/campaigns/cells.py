"""Random cells through every engine and every export: does each of them compute what the equations say?

python tests/campaigns/cells.py                         240 cells, about half an hour on one core
python tests/campaigns/cells.py --seed 3 --count 1000
python tests/campaigns/cells.py --seed 3 --only 17      one of them again, with its text and all it said
python tests/campaigns/cells.py --light --count 12      each cell through one or two of the checks that take long

Cells are expression trees over the whole language (tests/random_cells.py), with names that people use, words of C and
JavaScript, and names that generated code might use. The eager engine in float64 is the reference; what may differ
follows from its own float32, and from numbers that are off by ten roundings. Each cell runs in a process of its own,
with a limit of CPU time. Exit code 1 if anything differs, fails, is refused or does not end.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # threads do not survive a fork; this process must not run a kernel

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from random_cells import made, source
from torch import Tensor

from gatelab import Recurrent, hold
from gatelab.export import export, network_of
from gatelab.export.js_runner import NodeProcess
from gatelab.export.torch_module import _imported
from gatelab.lang import Cell
from gatelab.lang.document import digest, from_document, to_document
from gatelab.models import SequenceClassifier

CPU_SECONDS, SECONDS = 150, 900  # of a cell, until it is ended; other processes may use the machine as well
ROUNDING = 10  # times what float32 costs the reference
OFF = 10 * float(np.finfo(np.float32).eps)  # ten roundings
NEAR, EXACT = 3e-6, 1e-9  # of the largest value, for what computes in float32 and in float64
COMPILED = 24  # the compiled engine takes long: one cell in so many
TARGETS = ("json", "c", "js", "onnx", "torch")
COLUMNS = ("right", "depends on rounding", "not possible", "wrong", "did not end")

Values = dict[str, Tensor]


class NothingToCheckError(Exception):
    """A check that has nothing to look at, such as a hold that leaves no parameters."""


# What a layer computes.


class Case:
    """One cell, and the sequences that it runs on."""

    def __init__(self, seed: int, number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        self.number, self.chance = number, chance
        self.text = source(chance)
        self.cell = made(self.text)
        self.H = chance.choice((4, 9, 17))
        self.D = self.H if self.cell.lowered.uses_input_itself else chance.choice((1, 3, 5))
        self.B, self.T, self.layers = chance.choice((1, 3, 6)), chance.choice((2, 5, 11)), chance.choice((1, 1, 2))
        self.bidirectional = chance.random() < 0.15 and not self.cell.lowered.uses_input_itself
        generator = torch.Generator().manual_seed(chance.randrange(10**6))
        self.x = torch.randn(self.B, self.T, self.D, dtype=torch.float64, generator=generator).float()
        scans = self.layers * (2 if self.bidirectional else 1)
        zero = 0.0 if chance.random() < 0.3 else 1.0  # sequences that begin with nothing, as most do
        shape = (len(self.cell.states), scans, self.B, self.H)
        self.states = zero * 0.5 * torch.randn(shape, dtype=torch.float64, generator=generator).float()
        self.lengths = torch.tensor([chance.randint(1, self.T) for _ in range(self.B)])
        self.resets = torch.rand(self.B, self.T, generator=generator) < 0.3
        self.seed = chance.randrange(10**6)
        self.parameters = {
            name: value + 0.1 * torch.randn(value.shape, generator=generator)  # biases begin as zeros
            for name, value in self.layer(self.cell, "eager").state_dict().items()
        }

    def layer(
        self, cell: Cell, engine: str, dtype: torch.dtype = torch.float32, layers: int | None = None
    ) -> Recurrent:
        torch.manual_seed(self.seed)
        options = {"bidirectional": self.bidirectional and layers is None, "engine": engine, "dtype": dtype}
        return Recurrent(cell, self.D, self.H, layers or self.layers, **options)

    def filled(self, cell: Cell, engine: str, dtype: torch.dtype = torch.float32) -> Recurrent:
        """A layer with the parameters of this case, those that the cell has."""
        layer = self.layer(cell, engine, dtype)
        layer.load_state_dict({name: self.parameters[name] for name in layer.state_dict()})
        return layer

    def situations(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"": {}, "lengths": {"lengths": self.lengths}}
        return found if self.bidirectional else {**found, "resets": {"resets": self.resets}}

    def values(self, layer: Recurrent, off: int | None = None, **arguments: Any) -> Values:
        """Outputs, states and gradients of a random sum of them. `off`: seed of numbers that are off by roundings."""
        layer = layer.train()
        dtype = next(layer.parameters()).dtype
        x, states = (each.to(dtype).clone() for each in (self.x, self.states))
        if off is not None:
            generator = torch.Generator().manual_seed(off)
            with torch.no_grad():
                for each in (x, states, *layer.parameters()):
                    each.mul_(1 + OFF * (2 * torch.rand(each.shape, dtype=dtype, generator=generator) - 1))
        x.requires_grad_(), states.requires_grad_()
        torch.manual_seed(self.seed)  # of masks
        output, final, *gates = layer(x, tuple(states) if len(states) > 1 else states[0], **arguments)
        finals = final if isinstance(final, tuple) else (final,)
        found = {"output": output, **{f"state {name}": f for name, f in zip(self.cell.states, finals, strict=True)}}
        found |= {f"gate {name}": gate for name, gate in (gates[0].items() if gates else ())}
        generator = torch.Generator().manual_seed(self.seed)
        weighted = [
            (v * torch.randn(v.shape, dtype=torch.float64, generator=generator).to(dtype)).sum() for v in found.values()
        ]
        layer.zero_grad()
        torch.stack(weighted).sum().backward()
        leaves = {"x": x, "states": states, **dict(layer.named_parameters())}
        zeros = {name: each.grad if each.grad is not None else torch.zeros_like(each) for name, each in leaves.items()}
        return {name: each.detach() for name, each in found.items()} | {f"d {n}": each for n, each in zeros.items()}

    def reference(self, cell: Cell, **arguments: Any) -> tuple[Values, dict[str, float]]:
        """By the eager engine in float64; and how far others may be from it."""
        exact = self.values(self.filled(cell, "eager", torch.float64), **arguments)
        single = self.values(self.filled(cell, "eager"), **arguments)
        shaken = [self.values(self.filled(cell, "eager", torch.float64), off, **arguments) for off in range(4)]
        scales = scales_of(exact)
        allowed = {}
        for name, value in exact.items():
            cost = max(ROUNDING * distance(single[name], value), *(distance(each[name], value) for each in shaken))
            allowed[name] = allowance(cost, scales[name]) + NEAR * scales[name]
        return exact, allowed

    def evaluated(self, cell: Cell, off: int | None = None) -> Tensor:
        """The outputs in evaluation, from zeros, by the eager engine in float64."""
        x = self.x.double()
        if off is not None:
            noise = torch.rand(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(off))
            x = x * (1 + OFF * (2 * noise - 1))
        with torch.no_grad():
            output: Tensor = self.filled(cell, "eager", torch.float64).eval()(x)[0]
        return output


def allowance(cost: float, scale: float) -> float:
    """What may differ, from what rounding costs the reference: beside a threshold, the cost is a sample."""
    return ROUNDING * cost if cost > 0.01 * scale else cost


def scales_of(values: Values) -> dict[str, float]:
    """The largest value; of gradients that of all, since some are sums that cancel to nearly nothing."""
    sizes = {name: float(value.abs().max()) if value.numel() else 0.0 for name, value in values.items()}
    gradients = max((size for name, size in sizes.items() if name.startswith("d ")), default=0.0)
    return {name: max(size, gradients if name.startswith("d ") else 0.0, 1e-3) for name, size in sizes.items()}


def distance(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).abs().max()) if other.numel() else 0.0


def assert_near(got: Values, wanted: Values, allowed: dict[str, float]) -> None:
    if got.keys() != wanted.keys():
        raise AssertionError(f"{sorted(got)} instead of {sorted(wanted)}")
    for name, value in wanted.items():
        if got[name].shape != value.shape:
            raise AssertionError(f"{name} is {tuple(got[name].shape)} instead of {tuple(value.shape)}")
        if not (off := distance(got[name], value)) <= allowed[name]:
            raise AssertionError(f"{name} is off by {off:.1e}, may be off by {allowed[name]:.1e}")


def assert_same(got: Values, wanted: Values) -> None:
    scales = scales_of(wanted)
    assert_near(got, wanted, {name: EXACT * scales[name] for name in wanted})


# Checks.


def fused(case: Case, folder: Path) -> None:
    """With one, two and three threads; lengths, resets, and for some cells their gates."""
    gates = {"gates": True} if case.number % 3 == 0 else {}
    layer = case.filled(case.cell, "fused")
    for situation in case.situations().values():
        wanted, allowed = case.reference(case.cell, **situation, **gates)
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            assert_near(case.values(layer, **situation, **gates), wanted, allowed)
        torch.set_num_threads(1)
    if layer.engine_in_use != "fused":
        raise AssertionError(f"the engine is {layer.engine_in_use}")


def compiled(case: Case, folder: Path) -> None:
    layer = case.filled(case.cell, "compiled")
    for situation in case.situations().values():
        wanted, allowed = case.reference(case.cell, **situation)
        assert_near(case.values(layer, **situation), wanted, allowed)


def step(case: Case, folder: Path) -> None:
    """One step at a time, on both engines, in evaluation."""
    if case.bidirectional:
        raise NothingToCheckError
    wanted = case.evaluated(case.cell)
    scale = max(1e-3, float(wanted.abs().max()))
    cost = max(distance(case.evaluated(case.cell, off), wanted) for off in range(6))
    for engine, dtype in (("eager", torch.float64), ("fused", torch.float32)):
        layer, state, outputs = case.filled(case.cell, engine, dtype).eval(), None, []
        with torch.no_grad():
            for t in range(case.T):
                output, state = layer.step(case.x[:, t].to(dtype), state)
                outputs.append(output)
        exact = dtype == torch.float64 and cost <= 0.01 * scale
        limit = EXACT * scale if exact else ROUNDING * cost + NEAR * scale
        assert_near({"output": torch.stack(outputs, 1)}, {"output": wanted}, {"output": limit})


def held(case: Case, folder: Path) -> None:
    """A gate that is held, beside the same text in which the gate is written as a vector of that number."""
    gates = [gate for gate in case.cell.gates if re.search(rf"^    {re.escape(gate)} = ", case.text, re.MULTILINE)]
    if not gates:
        raise NothingToCheckError
    gate = case.chance.choice(gates)
    bare = re.sub(r"[() ]", "", case.text)
    if bare.count(re.sub(r"[() ]", "", re.search(rf"^    {re.escape(gate)} = (.*)$", case.text, re.MULTILINE)[1])) > 1:
        raise NothingToCheckError  # equal expressions are one value: that of the gate is held in every place
    text = re.sub(rf"^    {re.escape(gate)} = .*$", lambda _: f"    {gate} = full(0.25)", case.text, flags=re.MULTILINE)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="in cell .* no new state depends on")
        cells = hold(case.cell, {gate: 0.25}), made(text)
    if not any(each.graph.parameters for each in cells):
        raise NothingToCheckError
    ours, theirs = ({"output": case.evaluated(each)} for each in cells)
    assert_same(ours, theirs)


def document(case: Case, folder: Path) -> None:
    """Plain data, written as JSON and read again."""
    again = from_document(json.loads(json.dumps(to_document(case.cell))))
    if (digest(again), again.text()) != (digest(case.cell), case.cell.text()):
        raise AssertionError("the cell that is read again is another one")
    wanted = case.values(case.filled(case.cell, "eager", torch.float64))
    assert_same(case.values(case.filled(again, "eager", torch.float64)), wanted)


def python(case: Case, folder: Path) -> None:
    """The equations as Python, executed; and in the languages of formulas, which must not fail."""
    again = made(case.cell.python())
    if sorted(again.graph.parameters) != sorted(case.cell.graph.parameters):
        raise AssertionError(f"the parameters are {again.graph.parameters} instead of {case.cell.graph.parameters}")
    wanted = case.values(case.filled(case.cell, "eager", torch.float64))
    assert_same(case.values(case.filled(again, "eager", torch.float64)), wanted)
    for printed in (case.cell.text, case.cell.latex, case.cell.typst, case.cell.mathml):
        printed()


def exported(target: str) -> Callable[[Case, Path], str | None]:
    def check(case: Case, folder: Path) -> str | None:
        """In the target's own runtime; and the gradient of the input where the target has one."""
        model: Any = case.filled(case.cell, "eager")
        if case.chance.random() < 0.4:
            options = {
                "bidirectional": case.bidirectional,
                "pool": case.chance.choice(("last", "mean", "max", "attention")),
            }
            model = SequenceClassifier(case.cell, case.D, case.H, 3, case.layers, dropout=0.0, **options)
        done = export(model.eval(), target, folder / target)
        if done.checked is None and "depends on rounding" not in done.unchecked:
            raise AssertionError(f"it was not checked: {done.unchecked}")
        if target in ("js", "torch") and isinstance(model, Recurrent):
            _gradient(case, target, folder)
        return done.unchecked or None

    return check


def _gradient(case: Case, target: str, folder: Path) -> None:
    """Of a random sum of the last output, with respect to the input."""
    of = torch.randn(
        case.H * (2 if case.bidirectional else 1), dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )

    def exact(off: float) -> Tensor:
        noise = 2 * torch.rand(case.x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) - 1
        x = (case.x.double() * (1 + off * noise)).requires_grad_()
        (case.filled(case.cell, "eager", torch.float64).eval()(x)[0][:, -1] * of).sum().backward()
        assert x.grad is not None
        return x.grad

    wanted = exact(0.0)
    if target == "js":
        name = network_of(case.layer(case.cell, "eager")).name
        node = NodeProcess(folder / target, name)
        rows = [node.ask(xs=row.numpy(), of=of.numpy())["gradient"]["x"] for row in case.x.double()]
        got = torch.tensor(rows, dtype=torch.float64).reshape(wanted.shape)
    else:
        [path] = (folder / target).glob("*.py")
        module, x = _imported(path).load(), case.x.clone().requires_grad_()
        answer = module(x)
        ((answer[0] if isinstance(answer, tuple) else answer)[:, -1] * of.float()).sum().backward()
        assert x.grad is not None
        got = x.grad
    base = 1e-7 if target == "js" else 3e-5
    scale = max(1e-3, float(wanted.abs().max()))
    allowed = base * scale + allowance(ROUNDING * distance(exact(OFF), wanted), scale)
    assert_near({"d x": got}, {"d x": wanted}, {"d x": allowed})


QUICK: dict[str, Callable[[Case, Path], str | None]] = {"document": document, "python": python, "hold": held}
SLOW: dict[str, Callable[[Case, Path], str | None]] = {
    **{target: exported(target) for target in TARGETS},
    "fused": fused,
    "step": step,
}


# In turn, those that compile or trace seldom.
LIGHT = (("json", "c"), ("js",), ("onnx",), ("c", "js"), ("onnx", "json"), ("fused", "step"), ("torch",))


def checks(case: Case, light: bool) -> dict[str, Callable[[Case, Path], str | None]]:
    if light:
        return QUICK | {name: SLOW[name] for name in LIGHT[case.number % len(LIGHT)]}
    return QUICK | SLOW | ({"compiled": compiled} if case.number % COMPILED == 0 else {})


# One cell.


def imported() -> None:
    """Import before the first fork what every cell would import again. Nothing here may start a thread."""
    for name in ("functorch.compile", "networkx", "onnx.checker", "onnxruntime", "torch.export"):
        importlib.import_module(name)
    torch.set_num_threads(1)


def child(seed: int, number: int, light: bool, folder: Path) -> None:
    """All checks of a cell, each written down before it begins and when it is done. Never returns."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with open(folder / "said", "w", buffering=1) as file:
        case = Case(seed, number)
        for name, check in checks(case, light).items():
            print(json.dumps([name, "did not end", ""]), file=file)
            begin = time.perf_counter()
            try:
                note = check(case, folder)
                column = "depends on rounding" if note else "right"
            except NothingToCheckError:
                column, note = "not possible", ""
            except Exception as error:
                column, note = "wrong", f"{type(error).__name__}: {error}"
            print(json.dumps([name, column, note or "", time.perf_counter() - begin]), file=file)
    os._exit(0)


def outcome(seed: int, number: int, light: bool, folder: Path) -> dict[str, tuple[str, str, float]]:
    """What became of each check: its column, what was said, and the seconds."""
    process = os.fork()
    if not process:
        try:
            child(seed, number, light, folder)
        except BaseException as error:
            (folder / "said").write_text(json.dumps(["cell", "wrong", f"{type(error).__name__}: {error}"]) + "\n")
        finally:
            os._exit(1)
    ended = _ended(process)
    found = {}
    for line in (folder / "said").read_text().splitlines():
        name, column, note, *seconds = json.loads(line)
        found[name] = column, note or ended, seconds[0] if seconds else 0.0
    return found


def _ended(process: int) -> str:
    """Wait for a child; end it and what it started after a while. How it ended, if not by itself."""
    begin = time.monotonic()
    while time.monotonic() - begin < SECONDS:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return "" if code == 0 else f"the process ended with {code}"
        time.sleep(0.02)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return f"ended after {SECONDS} seconds"


# All of them.


def campaign(numbers: Iterator[int], seed: int, light: bool, is_alone: bool) -> int:
    counts: dict[str, Counter[str]] = {}
    seconds: Counter[str] = Counter()
    begin, cells = time.perf_counter(), 0
    for number in numbers:
        cells += 1
        with tempfile.TemporaryDirectory(prefix="cell-") as folder:
            found = outcome(seed, number, light, Path(folder))
        for name, (column, note, took) in found.items():
            counts.setdefault(name, Counter())[column] += 1
            seconds[name] += took  # type: ignore[assignment]
            if column in ("wrong", "did not end") or is_alone:
                print(f"{column.upper()}: --seed {seed} --only {number}: {name}: {note[:1500]}", flush=True)
        if is_alone:
            print(Case(seed, number).text)
        elif cells % 40 == 0:
            print(f"{cells} cells, {time.perf_counter() - begin:.0f} seconds", flush=True)
    print(f"\n{'check':<10}" + "".join(f"{column:>21}" for column in COLUMNS) + f"{'seconds':>10}")
    for name, each in counts.items():
        print(f"{name:<10}" + "".join(f"{each[column]:>21}" for column in COLUMNS) + f"{seconds[name]:>10.0f}")
    failed = sum(each[column] for each in counts.values() for column in ("wrong", "did not end"))
    print(f"{cells} cells, {failed} failures, {time.perf_counter() - begin:.0f} seconds")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=240)
    parser.add_argument("--first", type=int, default=0, help="the number of the first cell")
    parser.add_argument("--only", type=int, help="one cell again")
    parser.add_argument("--light", action="store_true", help="of the checks that take long one or two, in turn")
    given = parser.parse_args()
    imported()
    numbers = range(given.first, given.first + given.count) if given.only is None else [given.only]
    with tempfile.TemporaryDirectory(prefix="cells-") as cache:  # of kernels, whose common parts are compiled once
        os.environ["GATELAB_CACHE"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        return campaign(iter(numbers), given.seed, given.light, given.only is not None)


if __name__ == "__main__":
    sys.exit(main())
