"""What the training loop costs beside the bare step it runs, measured in turns.

python benchmarks/training.py

The bare step is forwards, the loss and backwards of a classifier on one fixed batch, denormals flushed. The loop adds
the batch, clipping, the optimiser, metrics, checkpoints and the report.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from gatelab import tasks
from gatelab.tasks.examples import Examples, Parts
from gatelab.training import ModelSpec, OptimizationSpec, RunSpec, TrainingSpec, build, train
from gatelab.training.reporter import Reporter

B, T, D, H, CLASSES, BATCHES = 128, 28, 28, 128, 10, 100
COMBINATIONS = [(cell, "adam") for cell in ("gru", "lstm", "agru")] + [("gru", o) for o in ("adamw", "sgd", "rmsprop")]


class Made(tasks.Task):
    """Noise in the shape of MNIST's rows."""

    name = "made"
    source = "synthetic"
    split_rule = "none"

    @property
    def input_size(self) -> int:
        return D

    @property
    def steps(self) -> int:
        return T

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple("0123456789")

    @property
    def sizes(self) -> tuple[int, int, int]:
        return B * BATCHES, B, B

    def load(self) -> Parts:
        generator = torch.Generator().manual_seed(0)
        return Parts(
            *(
                Examples(
                    torch.randn(n, T, D, generator=generator),
                    torch.randint(CLASSES, (n,), generator=generator),
                )
                for n in self.sizes
            )
        )


class Clock(Reporter):
    """Seconds of each epoch, as the loop itself counts them."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def epoch(self, line, better) -> None:
        self.seconds.append(line["seconds"])


def bare_epoch(model: torch.nn.Module, task: tasks.Task) -> float:
    batch = task.train.first(B)
    begin = time.perf_counter()
    for _ in range(BATCHES):
        model.zero_grad(set_to_none=True)
        cross_entropy(model(batch.x), batch.y).backward()
    return time.perf_counter() - begin


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_flush_denormal(True)
    task = Made()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, (B, T, D, H) = {(B, T, D, H)}\n")
    print(f"{'cell, optimiser':<20}{'bare step':>12}{'in the loop':>14}{'overhead':>11}")
    for cell, optimizer in COMBINATIONS:
        model = build.model(ModelSpec(cell=cell, hidden_size=H), task, seed=0)
        bare_epoch(model, task)
        bare, looped = [], []
        for round_ in range(11):
            bare.append(bare_epoch(model, task))
            spec = RunSpec(
                task=task,
                model=ModelSpec(cell=cell, hidden_size=H),
                optimization=OptimizationSpec(optimizer=optimizer),
                training=TrainingSpec(num_epochs=2, batch_size=B, seed=round_),
            )
            clock = Clock()
            with tempfile.TemporaryDirectory() as folder:
                train(spec, Path(folder) / "run", clock)
            looped += clock.seconds[1:]
        a, b = (1e3 * statistics.median(times) / BATCHES for times in (bare, looped))
        ratio = statistics.median(loop / step for loop, step in zip(looped, bare, strict=True))
        print(f"{cell + ', ' + optimizer:<20}{a:>9.2f} ms{b:>11.2f} ms{100 * (ratio - 1):>10.1f}%")


if __name__ == "__main__":
    main()
