"""Benchmarks of the fused engine: `make bench-engine` prints the tables and saves them in docs/benchmarks.md.

Each figure is a ratio of medians, measured alternately in one process, so that other load on the machine affects both
sides alike. A training step is a forward pass, a loss on the last state, and a backward pass for all parameters.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import contenders
import sections
import torch

from gatelab import Recurrent
from gatelab.engine.fused import compiler

SHAPES = [  # B, T, D, H
    (128, 28, 28, 128),
    (128, 784, 1, 128),
    (128, 1024, 1, 128),
    (128, 1024, 1, 181),
    (32, 100, 1, 64),
    (64, 256, 64, 256),
    (1, 1024, 1, 128),
]
LARGE_STATES = [
    (1, 30, 8, 512),
    (4, 30, 8, 512),
    (16, 30, 8, 512),
    (1, 30, 8, 1024),
    (4, 30, 8, 1024),
    (16, 30, 8, 1024),
]
OTHER_CELLS = ["gru_cho", "agru", "mgu", "rnn", "antisymmetric_rnn", "gated_antisymmetric_rnn"]
Workload = Callable[[], object]


def alternate(
    workloads: dict[str, Workload], seconds: float, summary: Callable[[list[float]], float] = statistics.median
) -> dict[str, float]:
    """The median time of each workload; every round runs all of them once, at least five rounds after a warm-up."""
    times: dict[str, list[float]] = {name: [] for name in workloads}
    for workload in workloads.values():
        workload()
    started = time.perf_counter()
    while len(next(iter(times.values()))) < 5 or time.perf_counter() - started < seconds:
        for name, workload in workloads.items():
            begin = time.perf_counter()
            workload()
            times[name].append(time.perf_counter() - begin)
    return {name: summary(measured) for name, measured in times.items()}


def sgemm() -> Workload:
    """torch's 1024³ product in float32: the practical limit of the machine."""
    A, B = torch.randn(1024, 1024), torch.randn(1024, 1024)
    return lambda: A @ B


def work(cell: str, B: int, T: int, D: int, H: int) -> float:
    """Floating-point operations in the products of one forward pass; the backward pass takes twice as many."""
    parameters = next(Recurrent(cell, D, H).cell_parameters())
    return 2.0 * B * T * sum(p.numel() for name, p in parameters.named_parameters() if name[0] in "WU")


def against(cell: str, shape: tuple[int, int, int, int], seconds: float) -> dict[str, str]:
    """One row: the fused engine against every other implementation of this cell."""
    fused = contenders.fused(cell, *shape)
    others = {name: contender for name, make in contenders.OTHERS.items() if (contender := make(cell, *shape))}
    row = {"B, T, D, H": ", ".join(map(str, shape))}

    def ratio(kind: str, name: str) -> str:
        """Time of the other implementation divided by ours; only the two alternate."""
        other = getattr(others[name], kind) if name in others else None
        if other is None:
            return ""
        times = alternate({"fused": getattr(fused, kind), "other": other}, seconds)
        return f"{times['other'] / times['fused']:.1f}"

    torch.set_flush_denormal(True)
    row["training, ms"] = f"{alternate({'fused': fused.train}, seconds / 2)['fused'] * 1e3:.1f}"
    row["× torch.nn"] = f"**{ratio('train', 'torch.nn')}**"
    torch.set_flush_denormal(False)
    row["as shipped"] = ratio("train", "torch.nn")
    torch.set_flush_denormal(True)
    row |= {f"× {name}": ratio("train", name) for name in ("Python loop", "JAX")}
    # Of the fastest steps: other load on the machine slows down a product whose threads wait for each other the most.
    fastest = alternate({"fused": fused.train, "sgemm": sgemm()}, seconds, min)
    limit = 2 * 1024**3 / fastest["sgemm"]
    row["of sgemm"] = f"{3 * work(cell, *shape) / fastest['fused'] / limit:.0%}"
    infer = alternate({"fused": fused.infer}, seconds / 2)
    row["inference, ms"] = f"{infer['fused'] * 1e3:.2f}"
    for name in ("torch.nn", "Python loop", "ONNX Runtime", "JAX"):
        row[f"{name} (inf.)"] = ratio("infer", name)
    torch.set_flush_denormal(False)
    print("  ".join(f"{k} {v}" for k, v in row.items() if v), flush=True)
    return row


def rates(shape: tuple[int, int, int, int], seconds: float) -> list[dict[str, str]]:
    """Arithmetic rate of other cells in training, relative to gru."""
    torch.set_flush_denormal(True)
    workloads = {cell: contenders.fused(cell, *shape).train for cell in ["gru", "lstm", *OTHER_CELLS]}
    times = alternate(workloads, seconds)
    torch.set_flush_denormal(False)
    rate = {cell: 3 * work(cell, *shape) / seconds / 1e9 for cell, seconds in times.items()}
    row = {"B, T, D, H": ", ".join(map(str, shape)), "gru, GFLOP/s": f"{rate['gru']:.0f}"}
    row |= {cell: f"{rate[cell] / rate['gru']:.0%}" for cell in ["lstm", *OTHER_CELLS]}
    print("  ".join(f"{k} {v}" for k, v in row.items()), flush=True)
    return [row]


def large_states(shape: tuple[int, int, int, int], seconds: float) -> dict[str, str]:
    """Few rows and many units: weights exceed the cache and are read from memory at every step."""
    fused, native = contenders.fused("gru", *shape), contenders.torch_nn("gru", *shape)
    row = {"B, T, D, H": ", ".join(map(str, shape))}
    torch.set_flush_denormal(True)
    for kind in ("train", "infer"):
        times = alternate({"fused": getattr(fused, kind), "nn.GRU": getattr(native, kind)}, seconds / 2)
        row[f"{kind}, × torch.nn"] = f"{times['nn.GRU'] / times['fused']:.1f}"
    torch.set_flush_denormal(False)
    print("  ".join(f"{k} {v}" for k, v in row.items()), flush=True)
    return row


def peak_memory(which: str, shape: tuple[int, int, int, int]) -> float:
    """Increase of peak memory by a training step, in megabytes, measured in a subprocess."""
    command = [sys.executable, __file__, "--memory", which, *map(str, shape)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure_memory(which: str, shape: list[int]) -> None:
    def peak() -> float:  # of this process only: getrusage would include its parent's
        status = Path("/proc/self/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024

    make = {"fused": contenders.fused, "torch.nn": contenders.torch_nn}[which]
    (small := make("gru", 2, 4, shape[2], shape[3])) and small.train()  # loads all libraries
    contender = make("gru", *shape)
    before = peak()
    contender.train()
    print(peak() - before)


def table(rows: list[dict[str, str]]) -> str:
    columns = [name for name in rows[0] if any(row[name] for row in rows)]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(row[name] for name in columns) + " |" for row in rows])


def machine() -> str:
    threads = f"{torch.get_num_threads()} threads"
    return f"{compiler.cpu_name()}, {threads}, torch {torch.__version__}, {compiler.version()}"


def report(seconds: float) -> str:
    """All tables, as the text of docs/benchmarks.md."""
    gru = [against("gru", shape, seconds) for shape in SHAPES]
    lstm = [against("lstm", shape, seconds) for shape in SHAPES]
    cells = [row for shape in (SHAPES[0], SHAPES[1], SHAPES[5]) for row in rates(shape, seconds)]
    large = [large_states(shape, seconds) for shape in LARGE_STATES]
    memory = []
    for shape in (SHAPES[2], SHAPES[3]):
        fused, native = peak_memory("fused", shape), peak_memory("torch.nn", shape)
        row = {"B, T, D, H": ", ".join(map(str, shape)), "fused, MB": f"{fused:.0f}", "nn.GRU, MB": f"{native:.0f}"}
        memory.append(row | {"ratio": f"{fused / native:.2f}"})
        print(memory[-1], flush=True)
    return f"""# Speed of the fused engine

Measured on {date.today().isoformat()} by `make bench-engine` on: {machine()}.
JAX and ONNX Runtime are included if they are installed (`pip install -c constraints.txt -e '.[bench]'`).

Ratios are time of the other implementation divided by ours: ratios of medians, measured alternately in one process.
Denormals are flushed for both, except under "as shipped". "of sgemm" is the arithmetic rate of the matrix products in
the fastest training step relative to the fastest of torch's 1024³ products in the same rounds. "Python loop" is
`nn.GRUCell` or `nn.LSTMCell` in a `for` loop. A training step is a forward pass, a loss on the last state, and a
backward pass for all parameters. On a virtual machine that shares its host, absolute times vary by half from run to
run; ratios vary less.

## gru

{table(gru)}

## lstm

{table(lstm)}

## Other cells

Arithmetic rate in training relative to `gru`, denormals flushed.

{table(cells)}

## Few rows and many units

Weights that exceed a core's private cache are read from memory at every step, which dominates the time. With too few
rows to split among threads, the forward pass splits columns instead. (Below 1 torch.nn is faster.)

{table(large)}

## Memory

Increase of the process's peak memory by one training step of `gru`.

{table(memory)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="per row and measurement")
    parser.add_argument("--save", type=Path, help="write the tables here")
    parser.add_argument("--memory", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        return measure_memory(options.memory[0], [int(size) for size in options.memory[1:]])
    text = report(options.seconds)
    print(f"\n{text}")
    if options.save:
        options.save.parent.mkdir(parents=True, exist_ok=True)
        before = options.save.read_text() if options.save.exists() else ""
        options.save.write_text(sections.with_others(text, before))
        print(f"saved {options.save}")
    return None


if __name__ == "__main__":
    main()
