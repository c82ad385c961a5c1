"""All cells of the library in training: `make bench-zoo` prints a table and saves it in docs/benchmarks.md.

A training step is a forward pass, the sum of the output as the loss, and a backward pass for all parameters, without
the optimizer. The fused engine, the eager engine, torchrecurrent's layer and a large product take turns in one process,
and their medians are compared. Results are appended to a file of JSON lines as they come; `--resume` continues it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import engine
import sections
import torch
from torch import nn

from gatelab import Recurrent, cells
from gatelab.engine.fused import compiler
from gatelab.engine.fused.kernel_source import KernelSource
from gatelab.engine.fused.phases import parameters_only
from gatelab.lang.gradient import gradient
from gatelab.lang.graph import Node, walk, weights
from gatelab.lang.operations import POINTWISE

Shape = tuple[int, int, int, int]  # B, T, D, H
SHAPES: list[Shape] = [(64, 200, 8, 128), (16, 784, 1, 128)]
ROUND = ("fused", "fused", "sgemm", "eager", "fused", "fused", "sgemm", "torchrecurrent")  # the order of one round
ROUNDS = 2  # at least, whatever the budget
SHARE = 0.45  # of the sgemm rate: the target where products dominate
DOMINANT = 6  # multiply-adds per pointwise operation from which products dominate; no cell is near it
RATIO = 8  # torchrecurrent's time over ours: the target for the median
TESTS = Path(__file__).resolve().parents[1] / "tests"


@dataclass(frozen=True)
class Result:
    """The medians of one cell in one shape, in seconds, and the number of repetitions."""

    cell: str
    shape: Shape
    medians: dict[str, float]
    repetitions: dict[str, int]
    kernel: str  # digest of the C++ that was measured
    machine: str
    day: str

    def ratio(self, other: str) -> float | None:
        """Time of the other implementation divided by ours."""
        return self.medians[other] / self.medians["fused"] if other in self.medians else None

    def share(self) -> float:
        """The arithmetic rate of the products, relative to sgemm."""
        limit = 2 * 1024**3 / self.medians["sgemm"]
        return work(self.cell, self.shape) / self.medians["fused"] / limit

    def line(self) -> str:
        """One line of progress."""
        times = [f"fused {self.medians['fused'] * 1e3:7.1f} ms ({self.repetitions['fused']})"]
        for other in ("eager", "torchrecurrent"):
            if ratio := self.ratio(other):
                times.append(f"{other} {ratio:6.1f} × ({self.repetitions[other]})")
        if products_dominate(self.cell, self.shape):
            times.append(f"{self.share():.0%} of sgemm")
        return f"{self.cell:24} {', '.join(map(str, self.shape)):16}  " + "  ".join(times)


# What a cell consists of, counted in its equations


@cache
def step_nodes(cell: str) -> tuple[Node, ...]:
    graph = cells.get(cell).lowered
    return tuple(graph.nodes(*graph.new_states))


def length(product: Node, shape: Shape) -> int:
    """The multiply-adds per unit of a product."""
    return shape[2] if product.args[0].shape == "input" else shape[3]


def intensity(cell: str, shape: Shape) -> float:
    """Multiply-adds in the products of a forward step per pointwise operation on a vector, both per unit."""
    nodes = step_nodes(cell)
    pointwise = sum(n.op in POINTWISE and n.shape == "vector" and not parameters_only(n) for n in nodes)
    return sum(length(n, shape) for n in nodes if n.op == "product") / pointwise


def products_dominate(cell: str, shape: Shape) -> bool:
    return intensity(cell, shape) >= DOMINANT


@cache
def work(cell: str, shape: Shape) -> float:
    """Floating-point operations in the products of a training step that the gradients of all parameters require.

    Each product once forward, once for the gradient of its matrix if that is learned, and once for the gradient of its
    operand, unless that depends on the input only.
    """
    B, T, _, H = shape
    definition = cells.get(cell)
    adjoints = gradient(definition.lowered).products
    total = 0
    for product in step_nodes(cell):
        if product.op != "product" or product.matrix is None:
            continue
        passes = 1
        if product in adjoints:
            passes += any(f"{w.space}.{w.name}" not in definition.given for w in weights(product.matrix))
            passes += any(n.op in ("state", "vector", "product") for n in walk(product.args))
        total += passes * length(product, shape)
    return 2.0 * B * T * H * total


def shape_for(cell: str, shape: Shape) -> Shape:
    """With D = H where the cell uses the input itself."""
    B, T, D, H = shape
    return (B, T, H if cells.get(cell).graph.uses_input_itself else D, H)


# What is measured


def training_step(layer: nn.Module, x: torch.Tensor) -> Callable[[], None]:
    def train() -> None:
        layer.zero_grad()
        layer(x)[0].sum().backward()

    return train


@cache
def cases() -> dict[str, Any]:
    """torchrecurrent's layer and options for each of our cells, as the tests compare them; none if not installed."""
    if importlib.util.find_spec("torchrecurrent") is None:
        return {}
    sys.path.insert(0, str(TESTS))
    from test_torchrecurrent import CASES

    return dict(CASES)


def their_layer(cell: str, D: int, H: int) -> nn.Module:
    import torchrecurrent

    case = cases()[cell]
    options = dict(case.options)
    if "gate_nonlinearity" in options:
        options["gate_nonlinearity"] = "hard_sigmoid"  # torch's, which is faster than the tests' in float64
    return getattr(torchrecurrent, case.theirs)(D, H, **options)


def workloads(cell: str, shape: Shape) -> dict[str, Callable[[], object]]:
    """Everything that takes turns, warmed up: the slow ones on a few steps only."""
    B, T, D, H = shape
    torch.manual_seed(0)
    x = torch.randn(T, B, D)
    steps: dict[str, Callable[[], object]] = {"sgemm": engine.sgemm()}
    for name in ("fused", "eager"):
        torch.manual_seed(1)
        layer = Recurrent(cell, D, H, batch_first=False, engine=name)
        training_step(layer, x[:4])()
        if layer.engine_in_use != name:
            raise RuntimeError(f"{cell} ran on the engine {layer.engine_in_use} in place of {name}")
        steps[name] = training_step(layer, x)
    if cell in cases():
        theirs = their_layer(cell, D, H)
        training_step(theirs, x[:4])()
        steps["torchrecurrent"] = training_step(theirs, x)
    for name in ("sgemm", "fused", "fused"):
        steps[name]()
    return steps


def measure(cell: str, shape: Shape, seconds: float, kernel: str) -> Result:
    """Rounds in turn until the next one would exceed the time, but a minimum of them."""
    steps = workloads(cell, shape)
    times: dict[str, list[float]] = {name: [] for name in steps}
    started, rounds = time.perf_counter(), 0
    while rounds < ROUNDS or (time.perf_counter() - started) * (rounds + 1) / rounds < seconds:
        for name in ROUND:
            if name in steps:
                begin = time.perf_counter()
                steps[name]()
                times[name].append(time.perf_counter() - begin)
        rounds += 1
    medians = {name: statistics.median(values) for name, values in times.items()}
    repetitions = {name: len(values) for name, values in times.items()}
    return Result(cell, shape, medians, repetitions, kernel, engine.machine(), date.today().isoformat())


def kernel_digest(cell: str) -> str:
    text = "".join((KernelSource(cells.get(cell), False).text, compiler.RUNTIME, *compiler.COMMON))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


Results = dict[tuple[str, Shape], Result]


def read(file: Path) -> Results:
    """The results in a file of JSON lines, later ones in place of earlier ones; an incomplete last line is left out."""
    results: Results = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            values = json.loads(line)
        except json.JSONDecodeError:
            continue
        result = Result(**values | {"shape": tuple(values["shape"])})
        results[result.cell, result.shape] = result
    return results


def usable(results: Results) -> Results:
    """Those of this machine and of the kernels as they are now."""
    digests = {cell: kernel_digest(cell) for cell in {cell for cell, _ in results} & set(cells.names())}
    machine = engine.machine()
    return {key: r for key, r in results.items() if r.machine == machine and r.kernel == digests.get(r.cell)}


def measure_all(names: list[str], budget: float, file: Path, results: Results) -> dict[str, str]:
    """Adds what is missing to the results and to the file; returns the errors by cell."""
    errors: dict[str, str] = {}
    started = time.perf_counter()
    for i, cell in enumerate(names, 1):
        for shape in (shape_for(cell, shape) for shape in SHAPES):
            if (cell, shape) in results:
                continue
            try:
                result = measure(cell, shape, budget / len(SHAPES), kernel_digest(cell))
            except Exception as error:  # reported with the others at the end
                traceback.print_exc()
                errors[cell] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
                break
            results[cell, shape] = result
            with file.open("a") as lines:
                lines.write(json.dumps(asdict(result)) + "\n")
            minutes, seconds = divmod(int(time.perf_counter() - started), 60)
            print(f"{minutes:3d}:{seconds:02d} {i:3d}/{len(names)}  {result.line()}", flush=True)
    return errors


# What is said about it


def label(result: Result) -> str:
    """The cell's name in lists of results, with the number of steps."""
    return f"{result.cell} (T = {result.shape[1]})"


def listed(results: list[Result], value: Callable[[Result], str]) -> str:
    """Cells with a value each, by the number of steps."""
    parts = []
    for _, T, _, _ in SHAPES:
        if names := [f"{r.cell} {value(r)}" for r in results if r.shape[1] == T]:
            parts.append(f"at T = {T}: {', '.join(names)}")
    return "; ".join(parts)


def number_of_cells(results: list[Result]) -> int:
    return len({result.cell for result in results})


def findings(results: list[Result], errors: dict[str, str]) -> list[str]:
    """A sentence per target, with what is short of it."""
    sentences = []
    by_eager = sorted(results, key=lambda r: r.ratio("eager") or 0.0)
    slow = [r for r in by_eager if (r.ratio("eager") or 0.0) < 1]
    sentence = f"Slower than the eager engine: {number_of_cells(slow)} of {number_of_cells(results)} cells (target: 0)"
    if slow:
        sentence += ", " + listed(slow, lambda r: f"{r.ratio('eager'):.2f}")
    else:
        sentence += f"; the smallest ratio is {by_eager[0].ratio('eager'):.1f}, {label(by_eager[0])}"
    sentences.append(sentence + ".")

    dominated = sorted((r for r in results if products_dominate(r.cell, r.shape)), key=Result.share)
    low = [r for r in dominated if r.share() < SHARE]
    if dominated:
        median = statistics.median(r.share() for r in dominated)
        sentence = f"Below {SHARE:.0%} of the sgemm rate: {number_of_cells(low)} of {number_of_cells(dominated)} cells "
        sentence += f"where products dominate (target: 0); the median is {median:.0%}"
        sentences.append(sentence + (". Short of it " + listed(low, lambda r: f"{r.share():.1%}") if low else "") + ".")

    theirs = sorted((r for r in results if r.ratio("torchrecurrent")), key=lambda r: r.ratio("torchrecurrent") or 0.0)
    if theirs:
        ratios = {T: [r.ratio("torchrecurrent") or 0.0 for r in theirs if r.shape[1] == T] for _, T, _, _ in SHAPES}
        of_each = ", ".join(f"{statistics.median(each):.1f} at T = {T}" for T, each in ratios.items() if each)
        median = statistics.median(ratio for each in ratios.values() for ratio in each)
        verdict = "reached" if median >= RATIO else "not reached"
        sentence = (
            f"torchrecurrent's time over ours, median of {number_of_cells(theirs)} cells: {median:.1f} ({of_each}; "
        )
        sentence += f"target: at least {RATIO}, {verdict}), from {theirs[0].ratio('torchrecurrent'):.1f}, "
        sentence += f"{label(theirs[0])}, to {theirs[-1].ratio('torchrecurrent'):.1f}, {label(theirs[-1])}"
        low = [r for r in theirs if (r.ratio("torchrecurrent") or 0.0) < RATIO]
        below = f". Below {RATIO} " + listed(low, lambda r: f"{r.ratio('torchrecurrent'):.1f}") if low else ""
        sentences.append(sentence + below + ".")
    else:
        sentences.append("torchrecurrent was not measured: it is not installed, or does not have these cells.")
    if errors:
        sentences.append("Not measured: " + "; ".join(f"{cell} ({error})" for cell, error in errors.items()) + ".")
    return sentences


def row(cell: str, results: Results) -> dict[str, str]:
    marks = "\\*" * cells.get(cell).graph.uses_input_itself
    marks += "†" * (cell in cases() and cases()[cell].variant is not None)
    columns = {"cell": f"`{cell}`{marks}"}
    for shape in SHAPES:
        result = results.get((cell, shape_for(cell, shape)))
        eager, theirs = (result.ratio(other) if result else None for other in ("eager", "torchrecurrent"))
        T = f"T = {shape[1]}"
        columns[f"{T}: fused, ms"] = f"{result.medians['fused'] * 1e3:.1f}" if result else ""
        columns[f"{T}: × eager"] = f"{eager:.1f}" if eager else ""
        columns[f"{T}: × torchrecurrent"] = f"{theirs:.1f}" if theirs else ""
        shown = result is not None and products_dominate(cell, result.shape)
        columns[f"{T}: of sgemm"] = f"{result.share():.0%}" if result and shown else ""
    return columns


def gap() -> tuple[float, float]:
    """The counts next to the line between cells where products dominate and others."""
    counts = [intensity(cell, shape_for(cell, shape)) for cell in cells.names() for shape in SHAPES]
    return max(n for n in counts if n < DOMINANT), min(n for n in counts if n >= DOMINANT)


def repetitions(results: list[Result]) -> str:
    """How often each implementation was run, in words."""
    words = []
    for name in ("fused", "eager", "torchrecurrent"):
        if counts := {r.repetitions[name] for r in results if name in r.repetitions}:
            low, high = min(counts), max(counts)
            words.append(f"{name} of {low}" + (f" to {high}" if high > low else "") + " steps")
    return ", ".join(words)


def section(results: Results, errors: dict[str, str]) -> str:
    measured = list(results.values())
    names = [name for name in cells.names() if any(cell == name for cell, _ in results)]
    days = " and ".join(sorted({result.day for result in measured}))
    below, above = gap()
    package = f"torchrecurrent {version('torchrecurrent')}" if cases() else "torchrecurrent (not installed here)"
    shapes = " and ".join(f"({', '.join(map(str, shape))})" for shape in SHAPES)
    measurement = f"""A training step of each of {len(names)} cells at (B, T, D, H) = {shapes}: a forward pass, the sum
        of the output as the loss, and a backward pass for all parameters; the optimizer is not included. Cells marked
        \\* use the input itself: they have D = H = {SHAPES[0][3]}. The columns "×" are time of the other implementation
        divided by that of the fused engine: our eager engine, and the layer of {package} where it has the cell. For
        cells marked † it has an equation that differs from the paper's, which ours follows. All take turns in one
        process; a figure is a ratio of medians ({repetitions(measured)}). Denormals are flushed for all."""
    share = f""""of sgemm" is the arithmetic rate of the matrix products in a training step relative to torch's 1024³
        product in the same rounds, with the same number of threads. Counted are the products that the gradients of the
        parameters require: each once forward, once for the gradient of its matrix if that is learned, and once for the
        gradient of its operand, unless that depends on the input only. The share is given where products dominate by
        count: at least {DOMINANT} multiply-adds in products for each pointwise operation in the equations, per unit of
        a forward step. The counts leave a gap there: no cell has between {below:.1f} and {above:.1f}."""
    return f"""{sections.ALL_CELLS}

Measured on {days} by `make bench-zoo` on: {engine.machine()}.

{sections.paragraph(measurement)}

{sections.paragraph(share)}

{chr(10).join(sections.paragraph(sentence, "- ") for sentence in findings(measured, errors))}

{engine.table([row(name, results) for name in names])}
"""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default=",".join(cells.names()), help="names separated by commas; all by default")
    parser.add_argument("--budget", type=float, default=12.0, help="seconds per cell, shared among the shapes")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="for all implementations")
    parser.add_argument("--save", type=Path, help=f"replace the section {sections.ALL_CELLS!r} of this page")
    parser.add_argument("--resume", type=Path, help="JSON lines: results in this file are kept, new ones are appended")
    options = parser.parse_args()
    options.cells = [name.strip() for name in options.cells.split(",")]
    if unknown := [name for name in options.cells if name not in cells.names()]:
        parser.error(f"unknown cells: {', '.join(unknown)}")
    return options


def main() -> int:
    options = parse()
    torch.set_flush_denormal(True)  # before any thread exists, since threads inherit it
    torch.set_num_threads(options.threads)
    results: Results = {}
    if options.resume:
        file, before = options.resume, read(options.resume)
        results = usable(before)
        file.parent.mkdir(parents=True, exist_ok=True)
        if before and not file.read_text().endswith("\n"):  # an interrupted line
            with file.open("a") as lines:
                lines.write("\n")
        print(f"{len(results)} results from {file}; {len(before) - len(results)} of other kernels or machines left out")
    else:
        file = Path(tempfile.mkdtemp(prefix="bench-zoo-")) / "results.jsonl"
    missing = set(cells.names()) - set(options.cells) - {cell for cell, _ in results}
    if options.save and missing:
        raise SystemExit(f"a table of all cells cannot be saved without {', '.join(sorted(missing))}: see --resume")
    print(f"results are appended to {file}: after an interruption continue with --resume {file}", flush=True)
    if not cases():
        print("torchrecurrent is not installed: its columns stay empty (pip install torchrecurrent==0.2.5)", flush=True)
    errors = measure_all(options.cells, options.budget, file, results)
    if not results:
        return 1
    text = section(results, errors)
    print(f"\n{text}\nSummary\n\n" + "\n".join(findings(list(results.values()), errors)))
    if options.save:
        sections.save(options.save, sections.ALL_CELLS, text)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
