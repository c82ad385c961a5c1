"""One step of a stream: `make bench-streaming` prints a table and saves it in docs/benchmarks.md.

One sequence whose inputs arrive one at a time, as in control or audio: every implementation takes a few hundred steps
in its turn and carries its state along, on one thread and under `torch.inference_mode()`. All compute the same numbers,
which is checked first. A time is the median over the turns. The fastest are then measured with all threads, each in a
process of its own, since idle threads of one would disturb the other.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import engine
import leaky_gru
import onnxruntime
import reading
import sections
import steppers
import torch

from gatelab import Recurrent

D, STEPS = 8, 300  # features, and steps per turn
SIZES = (32, 64, 128, 256, 512)
THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
CELLS = {"gru": "gru", "lstm": "lstm", "leaky_gru": leaky_gru.leaky_gru}
TARGET = 2.0  # the fastest other implementation's time over ours, at least
BOUND, READING = "ONNX Runtime, bound", "reading the weights"
Times = dict[str, float]  # microseconds per step of each implementation


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


def measure(cell: str, H: int, seconds: float) -> Times:
    torch.manual_seed(0)
    layer = Recurrent(CELLS[cell], D, H)
    made = streams(layer) | {READING: reading.reader(layer, STEPS)}
    with torch.inference_mode():
        times = {name: time / STEPS * 1e6 for name, time in engine.alternate(made, seconds).items()}
    for name in ("gatelab", BOUND) if THREADS > 1 else ():
        command = [sys.executable, __file__, "--alone", name, "--cells", cell, "--sizes", str(H)]
        done = subprocess.run([*command, "--seconds", str(seconds / 4)], capture_output=True, text=True, check=True)
        times[f"{name}, {THREADS} threads"] = float(done.stdout)
    return times


def measure_alone(name: str, cell: str, H: int, seconds: float) -> float:
    """Microseconds of one implementation with all threads, in this process."""
    torch.set_num_threads(THREADS)
    layer, xs = Recurrent(CELLS[cell], D, H), torch.randn(STEPS, D)
    make = steppers.gatelab_step if name == "gatelab" else steppers.others(layer)[name]
    with torch.inference_mode():
        return engine.alternate({name: make(layer, xs)}, seconds)[name] / STEPS * 1e6


def row(H: int, times: Times) -> dict[str, str]:
    columns = {"H": str(H), **{f"{name}, µs": f"{time:.1f}" for name, time in times.items()}}
    for ours in (name for name in times if name.startswith("gatelab")):
        columns[f"fastest other over {ours}"] = f"**{fastest_other(times, ours) / times[ours]:.2f}**"
    return columns


def measured(cell: str, sizes: list[int], seconds: float) -> dict[int, Times]:
    times = {}
    for H in sizes:
        times[H] = measure(cell, H, seconds)
        print(cell, "  ".join(f"{name} {value}" for name, value in row(H, times[H]).items()), flush=True)
    return times


def fastest_other(times: Times, ours: str) -> float:
    """One thread is compared with one thread, several with whatever is faster."""
    others = {name: time for name, time in times.items() if not name.startswith("gatelab") and name != READING}
    return min(time for name, time in others.items() if "threads" in ours or "threads" not in name)


def finding(ours: str, cases: list[Times]) -> str:
    reached = sum(fastest_other(times, ours) >= TARGET * times[ours] for times in cases)
    return f"{ours}: at most half the time of the fastest other in {reached} of {len(cases)} cases (target: all)."


def limits(cases: list[Times]) -> str:
    """Where one thread cannot take half the time of the fastest other."""
    few = sum(times[READING] > fastest_other(times, "gatelab") / TARGET for times in cases)
    return f"In {few} of {len(cases)} cases reading the weights once, on one thread, takes longer than that half."


def section(times: dict[str, dict[int, Times]]) -> str:
    cases = [each for of_cell in times.values() for each in of_cell.values()]
    measurement = f"""Microseconds of one step of one sequence with D = {D} features, on one thread, under
        `torch.inference_mode()`: `layer.step`, and implementations with the same weights, inputs and results. Each
        takes turns of {STEPS} steps in one process and carries its state along; a time is the median over the turns.
        "nn layer" is `nn.GRU` or `nn.LSTM` called with a sequence of one step, "nn cell" is `nn.GRUCell` or
        `nn.LSTMCell`. ONNX Runtime {onnxruntime.__version__} has its operator GRU or LSTM and all optimizations of the
        graph; "bound" is with buffers that are bound once (IoBinding). `leaky_gru` is a cell of one's own, the first of
        own-cells.md. Others have it as our eager engine, as torch operations written by hand, as those traced by
        `torch.jit` or compiled by `torch.compile`, and as a graph of ONNX operators. "{READING}" is a loop in C that
        adds up as many floats, on one thread: what does not fit into a core's cache limits the step. With several
        threads each is measured in a process of its own; ours takes them where the weights fill a core's cache."""
    ours = ["gatelab"] + [f"gatelab, {THREADS} threads"] * (THREADS > 1)
    findings = [sections.paragraph(text, "- ") for text in [*(finding(name, cases) for name in ours), limits(cases)]]
    tables = {cell: [row(H, each) for H, each in of_cell.items()] for cell, of_cell in times.items()}
    parts = [f"### {cell}\n\n{engine.table(rows)}\n" for cell, rows in tables.items()]
    return f"""{sections.STREAMING}

Measured on {date.today().isoformat()} by `make bench-streaming` on: {engine.machine()}.

{sections.paragraph(measurement)}

{chr(10).join(findings)}

{chr(10).join(parts)}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="per row")
    parser.add_argument("--cells", default=",".join(CELLS), help="names separated by commas; all by default")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="values of H separated by commas")
    parser.add_argument("--save", type=Path, help=f"replace the section {sections.STREAMING!r} of this page")
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.save and (options.cells, options.sizes) != (",".join(CELLS), ",".join(map(str, SIZES))):
        parser.error("--save is for all cells and sizes")
    sizes = [int(size) for size in options.sizes.split(",")]
    if options.alone:
        return print(measure_alone(options.alone, options.cells, sizes[0], options.seconds))
    torch.set_num_threads(1)
    text = section({cell: measured(cell, sizes, options.seconds) for cell in options.cells.split(",")})
    print(f"\n{text}")
    if options.save:
        sections.save(options.save, sections.STREAMING, text)
    return None


if __name__ == "__main__":
    main()
