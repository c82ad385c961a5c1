"""The compiled engine against the eager one: `make bench-compiled` prints a table and saves it in docs/benchmarks.md.

A training step is a forward pass, the sum of the output as the loss, and a backward pass for all parameters, without
the optimizer. Both engines take turns in one process, and their medians are compared. `--device cuda` measures a GPU.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import engine
import sections
import torch

from gatelab import Recurrent, cells
from gatelab.engine.fused import compiler

Shape = tuple[int, int, int, int]  # B, T, D, H
SHAPES: list[Shape] = [(64, 200, 8, 128), (16, 784, 1, 128)]
CELLS = ["gru", "lstm", "agru", "layer_norm_lstm", "indrnn", "ltc"]


def workloads(cell: str, shape: Shape, device: str) -> dict[str, dict[str, Callable[[], object]]]:
    """A training step and a forward pass of each engine, with the same parameters."""
    B, T, D, H = shape
    D = H if cells.get(cell).graph.uses_input_itself else D
    x = torch.randn(B, T, D, device=device)
    layers = {name: Recurrent(cell, D, H, engine=name).to(device) for name in ("compiled", "eager")}
    layers["eager"].load_state_dict(layers["compiled"].state_dict())

    def finished() -> None:
        if device != "cpu":
            torch.get_device_module(device).synchronize()

    def train(layer: Recurrent) -> None:
        layer.zero_grad()
        layer(x)[0].sum().backward()
        finished()

    @torch.no_grad()
    def infer(layer: Recurrent) -> None:
        layer(x)
        finished()

    return {
        kind.__name__: {name: (lambda kind=kind, layer=layer: kind(layer)) for name, layer in layers.items()}
        for kind in (train, infer)
    }


def measure(cell: str, shape: Shape, device: str, seconds: float) -> dict[str, str]:
    """One row of the table. The first call of each workload compiles it."""
    row = {"cell": cell, "B, T, D, H": ", ".join(map(str, shape))}
    compilation = 0.0
    for kind, by_engine in workloads(cell, shape, device).items():
        begin = time.perf_counter()
        by_engine["compiled"]()
        compilation += time.perf_counter() - begin
        times = engine.alternate(by_engine, seconds)
        word = {"train": "training step", "infer": "inference"}[kind]
        row[f"{word}, ms"] = f"{times['compiled'] * 1e3:.1f}"
        row[f"{word}, × eager"] = f"{times['eager'] / times['compiled']:.1f}"
    row["compilation, s"] = f"{compilation:.0f}"
    print("  ".join(f"{k} {v}" for k, v in row.items()), flush=True)
    return row


def section(rows: list[dict[str, str]], device: str) -> str:
    machine = compiler.cpu_name() if device == "cpu" else f"{torch.cuda.get_device_name()}, {compiler.cpu_name()}"
    setting = f"{machine}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    return f"""{sections.COMPILED}

Measured on {date.today()} by `make bench-compiled` on: {setting}.

`engine="compiled"` beside `engine="eager"` on {device}. A training step is a forward pass, the sum of the output as the
loss, and a backward pass for all parameters; the optimizer is not included. "×" is the time of the eager engine divided
by that of the compiled one, as a ratio of medians. The compilation is that of both kinds of step, with nothing in
torch's cache.

{engine.table(rows)}
"""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default=",".join(CELLS), help="names separated by commas")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds per cell, shape, and kind of step")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--save", type=Path, help=f"replace the section {sections.COMPILED!r} of this page")
    return parser.parse_args()


def main() -> int:
    options = parse()
    torch.set_flush_denormal(True)  # before any thread exists, since threads inherit it
    torch.set_num_threads(options.threads)
    rows = []
    for cell, shape in itertools.product(options.cells.split(","), SHAPES):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
            rows.append(measure(cell.strip(), shape, options.device, options.budget))
    text = section(rows, options.device)
    print(f"\n{text}")
    if options.save:
        page = options.save.read_text() if options.save.exists() else ""
        options.save.write_text(sections.replaced(page, sections.COMPILED, text))
        print(f"saved {options.save}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
