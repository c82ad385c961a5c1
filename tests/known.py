"""Experiments and runs whose numbers are known, without training."""

from __future__ import annotations

from pathlib import Path

import torch

from gatelab import tasks
from gatelab.experiments.experiment import Comparison, Experiment, FamilyOfTests
from gatelab.experiments.facts import of_task
from gatelab.experiments.planned import RunName
from gatelab.experiments.stats import count_tests
from gatelab.training import ModelSpec, OptimizationSpec, Run, RunSpec, TrainingSpec
from gatelab.training.manifest import Identity, Machine, Manifest, SpecFacts
from gatelab.training.run import prediction_arrays


def at(directory: Path, name: str) -> Path:
    """The directory of the run a0, of the model a with seed 0."""
    return directory / RunName(name[0], int(name[1])).path


def built(model: str) -> ModelSpec:
    return ModelSpec(hidden_size=ord(model[0]))


def written(
    directory: Path, name: str, values: list[float], metric="accuracy", status="done", best=None, **facts
) -> None:
    """A run with these validation values, epoch by epoch, and the last of them on the test set."""
    run = Run(at(directory, name))
    run.path.mkdir(parents=True)
    spec = RunSpec(model=built(name[0]))
    run.write_manifest(
        Manifest(
            status=status,
            spec=SpecFacts.of(spec),
            seed=int(name[1]),
            parameters=7,
            frozen={},
            versions={},
            machine=Machine(cpu="z80", cores=1, system="CP/M"),
            device="cpu",
            threads=1,
            identity=Identity(engine="fused", cell="x", data="y"),
            git=None,
            started="",
            best_epoch=best or len(values),
            test={metric: values[-1], "loss": 0.5} if status == "done" else {},
            **facts,
        )
    )
    run.write_metrics([
        {"epoch": i + 1, "train_loss": 1.0, f"validation_{metric}": v, "learning_rate": 0.1, "gradient_norm": 1.0,
         "validation_seconds": 1.0, "seconds": 2.0}
        for i, v in enumerate(values)
    ])  # fmt: skip
    targets = torch.tensor([0, 0, 0, 1])  # one of three zeros is predicted as a one
    answers = targets if metric == "accuracy" else targets.double()[:, None]
    run.write_predictions(prediction_arrays(torch.eye(2)[[0, 1, 0, 1]], answers, None))


def experiment(
    models="ab",
    seeds=2,
    loss="auto",
    tests=None,
    baseline=None,
    base=None,
    design=None,
    seconds=0.0,
    ablation=False,
    epochs=10,
    task=None,
) -> Experiment:
    """One of these models with so many seeds."""
    training, expected = TrainingSpec(loss=loss, num_epochs=epochs), count_tests(list(models), base, design or {})
    facts = of_task(tasks.get("adding:size=100,length=10")).replaced(baseline=baseline)
    facts = facts.replaced(
        preparation=facts.preparation.replaced(classes=("0", "1"), output_size=2, target_scaling=None)
    )
    specs = {model: built(model) for model in models}
    return Experiment(
        spec=Comparison(
            task=task or {"name": "adding"},
            models={model: spec.document() for model, spec in specs.items()},
            optimization=OptimizationSpec(),
            training=training,
            runs=seeds,
            match="none",
            base=base,
            design=design or {},
            ablation=ablation,
        ),
        task=facts,
        models=specs,
        runs=tuple(RunName(model, seed) for model in models for seed in range(seeds)),
        versions={},
        family=FamilyOfTests(tests=tests or expected, studies=() if tests in (None, expected) else ("one", "other")),
        threads=1,
        seconds=seconds,
    )
