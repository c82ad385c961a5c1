"""How long training takes beside another process, by the number of threads and how they wait.

MNIST by rows in small: 313 batches of 32 sequences, 28 steps of 28 numbers, a GRU of 128 units. Each measurement is a
process of its own, and the ways take turns. `python benchmarks/threads.py`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext

WAYS = {  # threads; "divided": torch has one of them, as in runs of gatelab
    "one thread": (1, ""),
    "two threads, in a run of gatelab": (2, "divided"),
    "two threads, in a loop of one's own": (2, ""),
}
BUSY = "while True: pass"


def measure(threads: int, divided: str) -> None:
    """Print the seconds of three epochs."""
    import torch

    from gatelab.models import SequenceClassifier
    from gatelab.training import optimizers, process

    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    model = SequenceClassifier("gru", 28, 128, 10, num_layers=1, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    x, y = torch.randn(313, 32, 28, 28), torch.randint(0, 10, (313, 32))

    def epoch(batches: int) -> None:
        for i in range(batches):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x[i]), y[i])
            loss.backward()
            optimizers.step(optimizer)
            loss.item()

    with process.divided(model) if divided else nullcontext():
        epoch(30)
        for _ in range(3):
            begin = time.perf_counter()
            epoch(len(x))
            print(f"{time.perf_counter() - begin:.2f}", end=" ", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure(int(options.measure[0]), options.measure[1])
    clean = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    for busy in (0, 1):
        print(f"{busy} other busy processes")
        seconds: dict[str, list[float]] = {name: [] for name in WAYS}
        others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(busy)]
        try:
            for _ in range(options.rounds):
                for name, way in WAYS.items():
                    command = [sys.executable, __file__, "--measure", *map(str, way)]
                    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=True)
                    seconds[name] += map(float, done.stdout.split())
        finally:
            for other in others:
                other.kill()
        for name, times in seconds.items():
            print(f"  {name:40} {min(times):.2f} to {max(times):.2f} s, median {statistics.median(times):.2f}")
    return None


if __name__ == "__main__":
    main()
