"""Seconds an epoch of real training, by engine: the loop's own step on real batches, in turns.

python benchmarks/epochs.py [--data-dir DIR] [--only pixels]

A slice of an epoch is timed and scaled up to all of it; "fused" is our kernel, "native" torch.nn's own layer, "eager"
the cell's own Python step by step.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import torch

from gatelab import tasks
from gatelab.training import ModelSpec, OptimizationSpec, RunSpec, TrainingSpec, build, optimizers, seeds
from gatelab.training.objective import Objective, Tally


class Setting(NamedTuple):
    task: str
    cell: str
    hidden_size: int
    batch_size: int
    count: int  # batches of one turn
    engines: tuple[str, ...] = ("fused", "native", "eager")


SETTINGS = [
    Setting("mnist:order=rows", "gru", 128, 32, 40),
    Setting("mnist:order=pixels", "gru", 128, 128, 2),
    Setting("mnist:order=pixels", "lstm", 128, 128, 2, ("fused", "native")),
    Setting("mnist:order=pixels", "agru", 128, 128, 2, ("fused", "eager")),
    Setting("cifar10:order=pixels,color=grey", "gru", 181, 128, 1, ("fused", "native")),
]


def turns(task: tasks.Task, setting: Setting, engine: str):
    """Batches of training, one at a time."""
    model_spec = ModelSpec(cell=setting.cell, hidden_size=setting.hidden_size, engine=engine)
    spec = RunSpec(task=task, model=model_spec, training=TrainingSpec(batch_size=setting.batch_size))
    model = build.model(spec.model, task, seed=0)
    optimizer, objective = optimizers.optimizer(OptimizationSpec(), model), Objective(task, spec.training)
    tally = Tally(objective)
    for index in torch.split(seeds.order(0, 0, len(task.train)), setting.batch_size):
        batch = task.train.batch(index)
        optimizer.zero_grad(set_to_none=True)
        prediction = model(batch.x)
        loss = objective.loss(prediction, batch)
        loss.backward()
        optimizers.gradient_norm(optimizer, 1.0)
        optimizer.step()
        tally.add(prediction, batch, loss.item())
        yield


def measure(setting: Setting, data_dir: Path | None, rounds: int) -> None:
    task = tasks.get(setting.task).with_data_dir(data_dir)
    running = {engine: turns(task, setting, engine) for engine in setting.engines}
    times: dict[str, list[float]] = {engine: [] for engine in setting.engines}
    for round_ in range(rounds + 1):
        for engine, work in running.items():
            begin = time.perf_counter()
            for _ in range(setting.count):
                next(work)
            if round_:  # the first one warms up
                times[engine].append((time.perf_counter() - begin) / setting.count)
    batches = -(-len(task.train) // setting.batch_size)
    for engine in setting.engines:
        seconds = statistics.median(times[engine]) * batches
        ratio = statistics.median(a / b for a, b in zip(times[engine], times["fused"], strict=True))
        what = f"{setting.task}, {setting.cell} H={setting.hidden_size}, batch {setting.batch_size}"
        print(f"{what}: {engine:<7}{seconds:>8.1f} s an epoch   × {ratio:.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="only settings whose task or cell has this in its name")
    arguments = parser.parse_args()
    torch.set_flush_denormal(True)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, denormals flushed\n")
    for setting in SETTINGS:
        if arguments.only in f"{setting.task} {setting.cell}":
            measure(setting, arguments.data_dir, arguments.rounds)


if __name__ == "__main__":
    main()
