"""Seconds an epoch of real training, by engine: the loop's own step on real batches, in turns.

python benchmarks/epochs.py [--data-dir DIR]

A slice of an epoch is timed and scaled up to all of it (51,000 images); "fused" is our kernel, "native" torch.nn.GRU,
"eager" the cell's own Python step by step.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import torch

from gatelab import tasks
from gatelab.training import ModelSpec, OptimizationSpec, RunSpec, TrainingSpec, build, optimizers, seeds
from gatelab.training.objective import Objective, Tally

SETTINGS = [("rows", 32, 40), ("pixels", 128, 2)]  # order, batch size, batches of one turn
ENGINES = ("fused", "native", "eager")


def turns(task: tasks.Task, engine: str, batch_size: int):
    """Batches of training, one at a time."""
    model_spec = ModelSpec(hidden_size=128, engine=engine)
    spec = RunSpec(task=task, model=model_spec, training=TrainingSpec(batch_size=batch_size))
    model = build.model(spec.model, task, seed=0)
    optimizer, objective = optimizers.optimizer(OptimizationSpec(), model), Objective(task, spec.training)
    tally = Tally(objective)
    for index in torch.split(seeds.order(0, 0, len(task.train)), batch_size):
        batch = task.train.batch(index)
        optimizer.zero_grad(set_to_none=True)
        prediction = model(batch.x)
        loss = objective.loss(prediction, batch)
        loss.backward()
        optimizers.gradient_norm(optimizer, 1.0)
        optimizer.step()
        tally.add(prediction, batch, loss.item())
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_flush_denormal(True)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, gru with H=128, denormals flushed\n")
    for order, batch_size, count in SETTINGS:
        task = tasks.get("mnist", order=order, data_dir=arguments.data_dir)
        running = {engine: turns(task, engine, batch_size) for engine in ENGINES}
        times: dict[str, list[float]] = {engine: [] for engine in ENGINES}
        for round_ in range(arguments.rounds + 1):
            for engine, work in running.items():
                begin = time.perf_counter()
                for _ in range(count):
                    next(work)
                if round_:  # the first one warms up
                    times[engine].append((time.perf_counter() - begin) / count)
        batches = -(-len(task.train) // batch_size)
        fused = times["fused"]
        for engine in ENGINES:
            seconds = statistics.median(times[engine]) * batches
            ratio = statistics.median(a / b for a, b in zip(times[engine], fused, strict=True))
            print(f"mnist by {order}, batch {batch_size}: {engine:<7}{seconds:>8.1f} s an epoch   × {ratio:.1f}")


if __name__ == "__main__":
    main()
