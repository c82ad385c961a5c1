"""Loading time of tasks, and the cost of a batch compared with a training step.

python benchmarks/tasks.py      (sets that are not available are skipped)
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

import torch

from gatelab import Recurrent, tasks

B, H = 128, 128
LOAD = """
import sys, time
from gatelab import tasks
start = time.perf_counter()
tasks.get(sys.argv[1]).parts
print(time.perf_counter() - start)
"""
NAMES = (
    "digits", "mnist", "mnist:order=permuted", "mnist:noise_pad=100", "fashion_mnist", "cifar10:order=pixels",
    "cifar10:color=rgb", "copy", "agreement", "adding", "sine",
)  # fmt: skip


def median_ms(work, rounds: int = 300) -> float:
    """Return the median time of a call in milliseconds, after 20 warm-up calls."""
    for _ in range(20):
        work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def loading_seconds(name: str) -> float:
    """Return the loading time in a new process, with decoded arrays in the cache."""
    runs = [
        subprocess.run([sys.executable, "-c", LOAD, name], capture_output=True, text=True, check=True) for _ in range(4)
    ]
    return statistics.median(float(run.stdout) for run in runs[1:])


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_flush_denormal(True)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, batch {B}, gru with H={H}\n")
    print(f"{'task':<34}{'loading':>10}{'batch':>12}{'step':>12}{'share':>9}")
    for name in NAMES:
        task = tasks.get(name)
        if not task.is_here():
            print(f"{name:<34}{'missing':>10}")
            continue
        seconds, generator = loading_seconds(name), torch.Generator().manual_seed(0)
        layer = Recurrent("gru", task.input_size, H)
        head = torch.nn.Linear(H, task.output_size)

        def batch(task=task, generator=generator) -> tasks.Batch:
            return task.train.batch(torch.randint(len(task.train), (B,), generator=generator))

        def step(first=batch(), layer=layer, head=head) -> None:
            output, _ = layer(first.x)
            head(output[:, -1]).sum().backward()

        rounds = 300 if task.steps < 200 else 20
        steps, batches = median_ms(step, rounds), median_ms(batch)
        print(f"{name:<34}{seconds:>8.2f} s{1e3 * batches:>9.0f} µs{steps:>9.2f} ms{100 * batches / steps:>8.2f}%")


if __name__ == "__main__":
    main()
