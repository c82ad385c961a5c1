"""Recurrences without a matrix: `make bench-scans` prints tables and saves them in docs/benchmarks.md.

Where no product is in the recurrence, the products of all steps can be computed at once. How much time is beside them,
and how long does a parallel scan in torch take? A training step is a forward pass, a given gradient of the output, and
a backward pass for all parameters and for the input, as in a stack of layers. `--json` keeps the times, and
`--baseline` compares with those of an earlier version.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import engine
import sections
import torch
import torch_scans
from torch import Tensor, nn

from gatelab import Recurrent, cells

Shape = tuple[int, int, int, int]  # B, T, D, H
SHAPES: list[Shape] = [(1, 1024, 128, 256), (4, 1024, 128, 256), (64, 256, 128, 256)]
CELLS = ("mingru", "minlstm", "gilr", "qrnn", "sru", "lru", "hgrn", "rg_lru")
SMALL, TARGET = 4, 1.6  # up to this B, our time over that of the products is to be at most this
TOLERANCE = 1.05  # with more sequences it is not to exceed that of the baseline by more than this factor


@dataclass(frozen=True)
class Result:
    """Of one cell in one shape."""

    cell: str
    shape: Shape
    seconds: float  # of our training step
    over_products: float  # that, divided by the time of the products alone
    others: dict[str, float]  # times of the scans in torch, divided by ours

    def line(self) -> str:
        """One line of progress."""
        others = "  ".join(f"{name} {ratio:.1f} ×" for name, ratio in self.others.items())
        return f"{self.cell:8} {self.shape!s:22} {self.seconds * 1e3:8.1f} ms {self.over_products:6.2f}  {others}"


# What is measured


def measure(cell: str, shape: Shape, seconds: float) -> Result:
    """Ours in turns with the products, and then in turns with the scans in torch."""
    torch.manual_seed(0)
    B, T, D, H = shape = shape_for(cell, shape)
    layer = Recurrent(cell, D, H, batch_first=False, engine="fused")
    x, gradient = torch.randn(T, B, D, requires_grad=True), torch.randn(T, B, H)
    ours = training_step(layer, x, gradient)
    times = engine.alternate({"ours": ours, "products": products(cell, shape)}, seconds)
    scans = torch_scans.SCANS if cell in torch_scans.EQUATIONS else {}
    others = {name: torch_scans.Layer(layer, scan) for name, scan in scans.items()}
    check(layer, others, x, gradient)
    in_turns = {"ours": ours, **{name: training_step(other, x, gradient) for name, other in others.items()}}
    beside = engine.alternate(in_turns, seconds) if others else {}
    ratios = {name: beside[name] / beside["ours"] for name in others}
    return Result(cell, shape, times["ours"], times["ours"] / times["products"], ratios)


def shape_for(cell: str, shape: Shape) -> Shape:
    """With D = H where the cell uses the input itself."""
    B, T, D, H = shape
    return (B, T, H if cells.get(cell).graph.uses_input_itself else D, H)


def training_step(layer: nn.Module, x: Tensor, gradient: Tensor) -> Callable[[], Tensor]:
    def train() -> Tensor:
        layer.zero_grad()
        x.grad = None
        output = layer(x)[0]
        output.backward(gradient)
        return output.detach()

    return train


def products(cell: str, shape: Shape) -> Callable[[], None]:
    """The products of a training step, those of all steps and gates at once, into buffers that exist: inputs with all
    W, and states with all U, which are read-outs here.
    """
    B, T, D, H = shape
    graph = cells.get(cell).graph
    sizes = [(D, len(graph.W) * H)] + [(len(graph.U) * H, H)] * bool(graph.U)  # of operands and products
    each = [product(B * T, *size) for size in sizes]

    def run() -> None:
        for one in each:
            one()

    return run


def product(rows: int, inner: int, outer: int) -> Callable[[], None]:
    """Y = X Wᵀ, and from the gradient of Y those of W and X."""
    X, W, Y = torch.randn(rows, inner), torch.randn(outer, inner), torch.randn(rows, outer)
    of_X, of_W, of_Y = torch.empty_like(X), torch.empty_like(W), torch.randn_like(Y)

    def run() -> None:
        torch.mm(X, W.t(), out=Y)
        torch.mm(of_Y.t(), X, out=of_W)
        torch.mm(of_Y, W, out=of_X)

    return run


def check(layer: Recurrent, others: dict[str, torch_scans.Layer], x: Tensor, gradient: Tensor) -> None:
    """Raise unless the layers in torch have our output and gradients."""
    p = next(layer.cell_parameters())
    expected = [training_step(layer, x, gradient)(), x.grad, torch.cat([W.grad for W in p.W.values()])]
    for name, other in others.items():
        found = [training_step(other, x, gradient)(), x.grad, other.W.grad]
        for what, value, ours in zip(("output", "gradient of x", "gradient of W"), found, expected, strict=True):
            message = f"{what} of {layer.cell.name} by {name} differs from ours"
            torch.testing.assert_close(value, ours, rtol=0, atol=1e-4 * float(ours.abs().max()), msg=message)


# What is kept of it and said about it


Results = dict[tuple[str, Shape], Result]


def read(file: Path) -> Results:
    results = [Result(**values | {"shape": tuple(values["shape"])}) for values in json.loads(file.read_text())]
    return {(result.cell, result.shape): result for result in results}


def write(file: Path, results: Results) -> None:
    file.write_text(json.dumps([asdict(result) for result in results.values()], indent=1) + "\n")


def row(result: Result, before: Result | None) -> dict[str, str]:
    columns = {"cell": f"`{result.cell}`" + "\\*" * cells.get(result.cell).graph.uses_input_itself}
    columns |= {"ours, ms": f"{result.seconds * 1e3:.1f}", "over products": f"**{result.over_products:.2f}**"}
    columns["before"] = f"{before.over_products:.2f}" if before else ""
    return columns | {f"× {name}": f"{r:.1f}" if (r := result.others.get(name)) else "" for name in torch_scans.SCANS}


def findings(results: Results, baseline: Results) -> list[str]:
    """A sentence per target, with what misses it."""
    sentences = []
    if few := [result for (_, shape), result in results.items() if shape[0] <= SMALL]:
        over = [result for result in few if result.over_products > TARGET]
        sentence = f"At most {TARGET} times the time of the products with up to {SMALL} sequences: "
        sentence += f"{len(few) - len(over)} of {len(few)} (target: all)"
        sentences.append(sentence + listed(over, lambda r: f"{r.over_products:.2f}"))
    changes = {key: r.over_products / baseline[key].over_products for key, r in results.items() if key in baseline}
    if many := [results[key] for key in changes if key[1][0] > SMALL]:
        slower = [r for r in many if changes[r.cell, r.shape] > TOLERANCE]
        sentence = f"Slower than the version before with more sequences, by more than {TOLERANCE - 1:.0%} relative to "
        sentence += f"the products: {len(slower)} of {len(many)} (target: 0)"
        sentences.append(sentence + listed(slower, lambda r: f"{changes[r.cell, r.shape]:.2f} times"))
    if fastest := [min(result.others.values()) for result in results.values() if result.others]:
        sentence = f"The fastest scan in torch takes {min(fastest):.1f} to {max(fastest):.1f} times as long as ours, "
        sentences.append(sentence + f"{statistics.median(fastest):.1f} times in the median.")
    return sentences


def listed(results: list[Result], value: Callable[[Result], str]) -> str:
    """What misses a target, to end a sentence with."""
    each = ", ".join(f"{result.cell} {value(result)} (B = {result.shape[0]})" for result in results)
    return f"; missed by {each}." if each else "."


def section(results: Results, baseline: Results) -> str:
    measurement = """A training step of cells whose recurrence has no matrix product: a forward pass, a given gradient
        of the output, and a backward pass for all parameters and for the input. "over products" is our time divided by
        that of the products alone: those of all steps and gates as one `torch.mm` forward and two backward, into
        buffers that exist, and likewise for the read-out of `lru`. Cells marked \\* use the input itself: they have
        D = H."""
    others = """The columns "×" are time of a layer in torch divided by ours, for the cells that are linear in their
        state: the input products as one, the gates, and a scan over time. "loop" is a loop of operations in place with
        a backward pass written by hand, "doubling" is the scan of Hillis and Steele in log₂ T passes. All have our
        outputs and gradients, and take turns with ours in one process; figures are ratios of medians. Denormals are
        flushed for all."""
    before = ' "before" is "over products" in an earlier version.' if baseline else ""
    tables = []
    for shape in SHAPES:
        keys = [(cell, shape_for(cell, shape)) for cell in CELLS]
        if rows := [row(results[key], baseline.get(key)) for key in keys if key in results]:
            tables.append(f"### B, T, D, H = {', '.join(map(str, shape))}\n\n{engine.table(rows)}\n")
    return f"""{sections.SCANS}

Measured on {date.today().isoformat()} by `make bench-scans` on: {engine.machine()}.

{sections.paragraph(measurement + before)}

{sections.paragraph(others)}

{chr(10).join(sections.paragraph(sentence, "- ") for sentence in findings(results, baseline))}

{chr(10).join(tables)}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="per cell, shape and comparison")
    parser.add_argument("--cells", default=",".join(CELLS), help="names separated by commas; all by default")
    parser.add_argument("--rows", type=int, nargs="+", help="only the shapes with these B")
    parser.add_argument("--json", type=Path, help="write the times here")
    parser.add_argument("--baseline", type=Path, help="compare with the times in this file, written by --json")
    parser.add_argument("--save", type=Path, help=f"replace the section {sections.SCANS!r} of this page")
    options = parser.parse_args()
    if options.save and (options.rows or options.cells != ",".join(CELLS)):
        parser.error("--save is for all cells and shapes")
    torch.set_flush_denormal(True)  # before any thread exists, since threads inherit it
    results: Results = {}
    for shape in SHAPES:
        for cell in options.cells.split(",") if options.rows is None or shape[0] in options.rows else ():
            result = measure(cell, shape, options.seconds)
            results[cell, result.shape] = result
            print(result.line(), flush=True)
    if options.json:
        write(options.json, results)
    text = section(results, read(options.baseline) if options.baseline else {})
    print(f"\n{text}")
    if options.save:
        sections.save(options.save, sections.SCANS, text)


if __name__ == "__main__":
    main()
