"""How fast the fused engine is: `make bench-engine` prints the tables and saves them in docs/benchmarks.md.

Each figure is a ratio of medians, measured in turns in this one process, so that whatever else the machine does falls
on both sides alike. A training step is forwards, a loss on the last state, and backwards for all parameters.
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
Run = Callable[[], object]


def in_turns(runs: dict[str, Run], seconds: float) -> dict[str, float]:
    """The median time of each, every round running all of them once; at least five rounds, after one to warm up."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    started = time.perf_counter()
    while len(next(iter(times.values()))) < 5 or time.perf_counter() - started < seconds:
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(found) for name, found in times.items()}


def sgemm() -> Run:
    """The machine's own rate of multiplication, 1024³: the limit in float32."""
    A, B = torch.randn(1024, 1024), torch.randn(1024, 1024)
    return lambda: A @ B


def work(cell: str, B: int, T: int, D: int, H: int) -> float:
    """Floating-point operations in the products of one forward run; backwards is twice that."""
    own = next(Recurrent(cell, D, H).runs())
    return 2.0 * B * T * sum(p.numel() for name, p in own.named_parameters() if name[0] in "WU")


def against(cell: str, shape: tuple[int, int, int, int], seconds: float) -> dict[str, str]:
    """One row: fused against everything else that can run this cell at this shape."""
    fused = contenders.fused(cell, *shape)
    others = {name: made for name, make in contenders.OTHERS.items() if (made := make(cell, *shape))}
    row = {"B, T, D, H": ", ".join(map(str, shape))}

    def longer(kind: str, name: str) -> str:
        """How many times longer the other one takes; the two run in turns, and nobody else beside them."""
        other = getattr(others[name], kind) if name in others else None
        if other is None:
            return ""
        times = in_turns({"fused": getattr(fused, kind), "other": other}, seconds)
        return f"{times['other'] / times['fused']:.1f}"

    torch.set_flush_denormal(True)
    train = in_turns({"fused": fused.train, "sgemm": sgemm()}, seconds)
    row["training, ms"] = f"{train['fused'] * 1e3:.1f}"
    row["× torch.nn"] = f"**{longer('train', 'torch.nn')}**"
    torch.set_flush_denormal(False)
    row["as shipped"] = longer("train", "torch.nn")
    torch.set_flush_denormal(True)
    row |= {f"× {name}": longer("train", name) for name in ("Python loop", "JAX")}
    limit = 2 * 1024**3 / train["sgemm"]
    row["of sgemm"] = f"{3 * work(cell, *shape) / train['fused'] / limit:.0%}"
    infer = in_turns({"fused": fused.infer}, seconds / 2)
    row["inference, ms"] = f"{infer['fused'] * 1e3:.2f}"
    for name in ("torch.nn", "Python loop", "ONNX Runtime", "JAX"):
        row[f"{name} (inf.)"] = longer("infer", name)
    torch.set_flush_denormal(False)
    print("  ".join(f"{k} {v}" for k, v in row.items() if v), flush=True)
    return row


def rates(shape: tuple[int, int, int, int], seconds: float) -> list[dict[str, str]]:
    """Other cells' arithmetic rate in training, against gru's."""
    torch.set_flush_denormal(True)
    runs = {cell: contenders.fused(cell, *shape).train for cell in ["gru", "lstm", *OTHER_CELLS]}
    times = in_turns(runs, seconds)
    torch.set_flush_denormal(False)
    rate = {cell: 3 * work(cell, *shape) / seconds / 1e9 for cell, seconds in times.items()}
    row = {"B, T, D, H": ", ".join(map(str, shape)), "gru, GFLOP/s": f"{rate['gru']:.0f}"}
    row |= {cell: f"{rate[cell] / rate['gru']:.0%}" for cell in ["lstm", *OTHER_CELLS]}
    print("  ".join(f"{k} {v}" for k, v in row.items()), flush=True)
    return [row]


def large_states(shape: tuple[int, int, int, int], seconds: float) -> dict[str, str]:
    """Few rows and many units: weights that no core's cache holds are read anew at every step."""
    fused, native = contenders.fused("gru", *shape), contenders.torch_nn("gru", *shape)
    row = {"B, T, D, H": ", ".join(map(str, shape))}
    torch.set_flush_denormal(True)
    for kind in ("train", "infer"):
        times = in_turns({"fused": getattr(fused, kind), "nn.GRU": getattr(native, kind)}, seconds / 2)
        row[f"{kind}, × torch.nn"] = f"{times['nn.GRU'] / times['fused']:.1f}"
    torch.set_flush_denormal(False)
    print("  ".join(f"{k} {v}" for k, v in row.items()), flush=True)
    return row


def peak_memory(which: str, shape: tuple[int, int, int, int]) -> float:
    """Megabytes that a training step adds to the process's peak, measured in a process of its own."""
    command = [sys.executable, __file__, "--memory", which, *map(str, shape)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure_memory(which: str, shape: list[int]) -> None:
    def peak() -> float:  # of this process alone: getrusage would count its parent's too
        status = Path("/proc/self/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024

    make = {"fused": contenders.fused, "torch.nn": contenders.torch_nn}[which]
    (small := make("gru", 2, 4, shape[2], shape[3])) and small.train()  # everything is loaded after this
    ready = make("gru", *shape)
    before = peak()
    ready.train()
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
JAX and ONNX Runtime take part where they are installed (`pip install -c constraints.txt -e '.[bench]'`).

Ratios say how many times longer the other one takes; they are ratios of medians, measured in turns in one process, with
denormal numbers flushed for both sides, and under "as shipped" also without. "of sgemm" is the arithmetic rate of the
products in a training step against torch's own 1024³ product in the same rounds. "Python loop" is `nn.GRUCell` or
`nn.LSTMCell` in a `for`. A training step is forwards, a loss on the last state, and backwards for all parameters.

## gru

{table(gru)}

## lstm

{table(lstm)}

## Other cells

Arithmetic rate in training against `gru`'s, denormals flushed.

{table(cells)}

## Few rows and many units

Weights that are too large for a core's own cache are read anew at every step, which is what takes the time here. Where
rows are too few to share out, threads share out columns instead on the way forwards. (Below 1 torch.nn is faster.)

{table(large)}

## Memory

What one training step of `gru` adds to the peak of a process.

{table(memory)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each row and kind of measurement")
    parser.add_argument("--save", type=Path, help="write the tables here")
    parser.add_argument("--memory", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        return measure_memory(options.memory[0], [int(size) for size in options.memory[1:]])
    text = report(options.seconds)
    print(f"\n{text}")
    if options.save:
        options.save.parent.mkdir(parents=True, exist_ok=True)
        options.save.write_text(text)
        print(f"saved {options.save}")
    return None


if __name__ == "__main__":
    main()
