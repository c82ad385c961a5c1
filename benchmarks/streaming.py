"""One step of a stream: `make bench-streaming` prints a table and saves it in docs/benchmarks.md.

One sequence whose inputs arrive one at a time, as in control or audio: every implementation takes a few hundred steps
in its turn and carries its state along, on one thread and under `torch.inference_mode()`. All compute the same numbers,
which is checked first. A time is the median over the turns.
"""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path

import engine
import leaky_gru
import onnxruntime
import sections
import steppers
import torch

from gatelab import Recurrent

D, STEPS = 8, 300  # features, and steps per turn
SIZES = (32, 64, 128, 256, 512)
CELLS = {"gru": "gru", "lstm": "lstm", "leaky_gru": leaky_gru.leaky_gru}
TARGET = 2.0  # the fastest other implementation's time over ours, at least


@torch.inference_mode()
def streams(layer: Recurrent) -> dict[str, steppers.Stream]:
    """All implementations with the same weights and inputs, after a first turn with the same result."""
    xs = torch.randn(STEPS, D)
    made = {"gatelab": steppers.gatelab_step(layer, xs)}
    made |= {name: make(layer, xs) for name, make in steppers.others(layer).items()}
    outputs = {name: torch.as_tensor(stream()).flatten().clone() for name, stream in made.items()}
    for name, output in outputs.items():
        torch.testing.assert_close(output, outputs["gatelab"], rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
    return made


def measure(cell: str, H: int, seconds: float) -> dict[str, float]:
    """Microseconds per step of each implementation."""
    torch.manual_seed(0)
    made = streams(Recurrent(CELLS[cell], D, H))
    with torch.inference_mode():
        times = engine.alternate(made, seconds)
    return {name: time / STEPS * 1e6 for name, time in times.items()}


def row(H: int, times: dict[str, float]) -> dict[str, str]:
    fastest = min((name for name in times if name != "gatelab"), key=times.__getitem__)
    ratio = times[fastest] / times["gatelab"]
    columns = {"H": str(H), **{f"{name}, µs": f"{time:.1f}" for name, time in times.items()}}
    columns |= {"fastest other": fastest, "its time over ours": f"**{ratio:.2f}**"}
    columns["ours at most half"] = "yes" if ratio >= TARGET else "no"
    print("  ".join(f"{k} {v}" for k, v in columns.items()), flush=True)
    return columns


def section(tables: dict[str, list[dict[str, str]]]) -> str:
    rows = [row for each in tables.values() for row in each]
    reached = sum(row["ours at most half"] == "yes" for row in rows)
    measurement = f"""Microseconds of one step of one sequence with D = {D} features, on one thread, under
        `torch.inference_mode()`: `layer.step`, and implementations with the same weights, inputs and results. Each
        takes turns of {STEPS} steps in one process and carries its state along; a time is the median over the turns.
        "nn layer" is `nn.GRU` or `nn.LSTM` called with a sequence of one step, "nn cell" is `nn.GRUCell` or
        `nn.LSTMCell`. ONNX Runtime {onnxruntime.__version__} has its operator GRU or LSTM, all optimizations of the
        graph, and one thread; "bound" is with buffers that are bound once (IoBinding). `leaky_gru` is a cell of one's
        own, the first of own-cells.md. Others have it as our eager engine, as torch operations written by hand, as
        those traced by `torch.jit` or compiled by `torch.compile`, and as a graph of ONNX operators."""
    finding = f"At most half the time of the fastest other implementation: {reached} of {len(rows)} (target: all)."
    parts = [f"### {cell}\n\n{engine.table(each)}\n" for cell, each in tables.items()]
    return f"""{sections.STREAMING}

Measured on {date.today().isoformat()} by `make bench-streaming` on: {engine.machine()}.

{sections.paragraph(measurement)}

{sections.paragraph(finding, "- ")}

{chr(10).join(parts)}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="per row")
    parser.add_argument("--cells", default=",".join(CELLS), help="names separated by commas; all by default")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="values of H separated by commas")
    parser.add_argument("--save", type=Path, help=f"replace the section {sections.STREAMING!r} of this page")
    options = parser.parse_args()
    if options.save and (options.cells, options.sizes) != (",".join(CELLS), ",".join(map(str, SIZES))):
        parser.error("--save is for all cells and sizes")
    torch.set_num_threads(1)
    tables: dict[str, list[dict[str, str]]] = {}
    for cell in options.cells.split(","):
        sizes = map(int, options.sizes.split(","))
        tables[cell] = [row(H, measure(cell, H, options.seconds)) for H in sizes]
    text = section(tables)
    print(f"\n{text}")
    if options.save:
        sections.save(options.save, sections.STREAMING, text)


if __name__ == "__main__":
    main()
