"""Training on a device that is not the CPU: simulated here, since this needs no such device."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from simulated_device import simulated
from stopping import StopAfter

from gatelab import sealed, tasks
from gatelab.experiments.bench import bench, check_runs
from gatelab.experiments.config import BenchSpec
from gatelab.experiments.executors.local import LocalExecutor
from gatelab.report.words.settings import hardware
from gatelab.training import Run, RunSpec, TrainingSpec, devices, train
from gatelab.training.objective import Objective, Tally
from gatelab.training.run import MANIFEST

DIGITS = {"name": "digits", "limit": 60}


@pytest.fixture
def seeds(monkeypatch):
    """There is mps here, it seems; returns the numbers that its generator is seeded with."""
    numbers: list[int] = []
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "manual_seed", numbers.append)
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: torch.zeros(1))
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda state: numbers.append(-1))
    return numbers


def a_spec(task=DIGITS, model=None, optimization=None, **training) -> RunSpec:
    return RunSpec(
        task=task,
        model={"engine": "eager", "hidden_size": 3, **(model or {})},
        optimization=optimization or {},
        training={"num_epochs": 1, "batch_size": 16, "threads": 1, **training},
    )


CASES = {
    "classes": a_spec(
        model={"num_layers": 2, "dropout": 0.3, "head_dropout": 0.2, "residual": True, "bidirectional": True}
    ),
    "masks": a_spec(
        model={"cell": "zoneout_lstm", "pool": "mean", "freeze": ["b.f"]},
        optimization={"optimizer": "sgd", "momentum": 0.5},
    ),
    "series in chunks": a_spec({"name": "sine", "length": 10, "duration": 100}, bptt=4, record=["gradients"]),
    "lengths": a_spec({"name": "agreement", "size": 100, "gap": 6}, record=["gradients"]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_run_on_another_device_is_that_on_the_cpu(name, tmp_path, seeds):
    """Interrupted and resumed as well, where whatever is left on the wrong device would show."""
    spec = CASES[name]
    on_cpu = spec.model_copy(update={"training": spec.training.model_copy(update={"device": "cpu"})})
    expected = train(on_cpu, tmp_path / "cpu")
    with simulated("mps"):
        with pytest.raises(KeyboardInterrupt):
            train(spec, tmp_path / "mps", StopAfter(2))
        outcome = train(spec, tmp_path / "mps")
    assert outcome.test == pytest.approx(expected.test, rel=1e-5)  # there is no fused optimizer on mps
    assert outcome.run.manifest().device == "mps"
    assert outcome.run.manifest().machine.accelerator == "Apple GPU"
    assert seeds[-1] == -1  # the state of the generator is restored
    assert len(set(seeds)) > 2
    both = (outcome.run, expected.run)
    for weights, others in zip(*(run.model().state_dict().values() for run in both), strict=True):
        torch.testing.assert_close(weights, others)
    for key, values in outcome.run.predictions().items():
        np.testing.assert_allclose(values, expected.run.predictions()[key], rtol=1e-4, atol=1e-5)
    if spec.training.record:
        ours, theirs = (sealed.read_arrays(run.file("gradients.npz"))["norms"] for run in both)
        np.testing.assert_allclose(ours, theirs, rtol=1e-3)


def test_targets_at_every_step_of_sequences_of_unequal_length():
    task = tasks.get("copy", size=10)
    batch = task.train.first(3)
    batch = batch._replace(lengths=torch.tensor([2, batch.x.shape[1], 7]))
    goal, scores = Objective(task, TrainingSpec()), torch.randn(*batch.y.shape, task.output_size)
    results = []
    for device in ("cpu", "mps"):
        with simulated("mps"):
            here, tally = devices.moved(batch, torch.device(device)), Tally(goal)
            tally.add(scores.to(device), here, goal.loss(scores.to(device), here).item())
            results.append(tally.metrics())
    assert results[0] == results[1]


def test_the_simulated_device_is_not_the_cpu():
    """What a loop must not do with another device fails there."""
    with simulated("mps"):
        there = torch.ones(2).to("mps")
        assert there.device == torch.device("mps")
        with pytest.raises(TypeError, match="numpy"):
            there.numpy()
        with pytest.raises(RuntimeError, match="same device"):
            there + torch.ones(2)
        with pytest.raises(TypeError, match="float64"):
            there.double()
        assert there.cpu().numpy().sum() == 2


def test_what_auto_means(monkeypatch):
    assert devices.resolved(a_spec()) == "cpu"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert devices.resolved(a_spec()) == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert devices.resolved(a_spec()) == "cuda"
    assert devices.resolved(a_spec(device="mps")) == "mps"
    assert devices.resolved(a_spec(device="cpu")) == "cpu"
    assert devices.resolved(a_spec(model={"engine": "fused"})) == "cpu"
    monkeypatch.setenv("GATELAB_ENGINE", "fused")
    assert devices.resolved(a_spec()) == "cpu"
    with pytest.raises(ValueError, match=r"training\.device is 'cuda', and GATELAB_ENGINE is 'fused'"):
        devices.resolved(a_spec(device="cuda"))


def test_a_device_that_is_not_here_is_refused_before_anything_is_written(cli, tmp_path):
    words = "training.device is 'cuda', and torch finds no such device here (available: cpu): use one of these or auto"
    with pytest.raises(ValueError, match=r"available: cpu"):
        train(a_spec(device="cuda"), tmp_path / "run")
    code, _, err = cli("train", "--task", "digits", "--device", "cuda", "--output-dir", tmp_path / "run")
    assert code == 2
    assert words in err
    for command in (("bench", "--cells", "gru,lstm"), ("ablate", "--cell", "gru")):
        code, _, err = cli(*command, "--task", "digits", "--device", "cuda", "--output-dir", tmp_path / "run")
        assert code == 2
        assert words in err
    assert list(tmp_path.iterdir()) == []


def test_a_plan_for_other_machines_may_name_their_devices_and_a_worker_without_them_takes_no_run(cli, tmp_path):
    models = {"one": {"hidden_size": 3}, "two": {"hidden_size": 4}}
    spec = BenchSpec(task=DIGITS, models=models, runs=1, training={"device": "cuda", "num_epochs": 1})
    assert len(check_runs(spec, tmp_path)) == 2
    with pytest.raises(ValueError, match="no such device here"):
        bench(spec, tmp_path, LocalExecutor(1))
    arguments = ("--task", "digits:limit=60", "--cells", "gru,lstm", "--runs", 1, "--device", "cuda", "--quiet")
    assert cli("bench", *arguments, "--plan-only", "--output-dir", tmp_path / "plan")[0] == 0
    code, _, err = cli("worker", tmp_path / "plan")
    assert code == 2
    assert "training.device is 'cuda', and torch finds no such device here" in err
    assert not (tmp_path / "plan/claims").exists()


def test_unknown_devices_and_contradictions_are_refused(cli, tmp_path):
    (tmp_path / "config.yaml").write_text("task: digits\ntraining:\n  device: gpu\n")
    code, _, err = cli("train", tmp_path / "config.yaml")
    assert code == 2
    assert "config.yaml:3: training.device: this is 'gpu'" in err
    (tmp_path / "config.yaml").write_text("model:\n  engine: fused\ntraining:\n  device: cuda\n")
    code, _, err = cli("train", tmp_path / "config.yaml")
    assert code == 2
    assert "config.yaml:4: training.device: this is cuda, and model.engine is fused, which runs on the CPU" in err


def forge(run, **changes):
    """Change the manifest, with a right checksum."""
    sealed.write_json(run.path / MANIFEST, run.manifest().document() | changes)


def test_a_resumed_run_uses_its_device_or_refuses(tmp_path, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        train(a_spec(), tmp_path, StopAfter(1))
    run = Run(tmp_path)
    assert run.manifest().device == "cpu"
    forge(run, device="cuda")
    with pytest.raises(
        ValueError, match=r"was trained on 'cuda', and torch finds no such device here \(available: cpu"
    ):
        train(a_spec(), tmp_path)
    with pytest.raises(ValueError, match=r"training\.device is 'auto' there and 'cpu' now"):
        train(a_spec(device="cpu"), tmp_path)
    forge(run, device="gpu")
    with pytest.raises(ValueError, match="cannot be read"):
        train(a_spec(), tmp_path)


def test_a_run_that_is_over_needs_no_device(tmp_path):
    expected = train(a_spec(num_epochs=1), tmp_path)
    forge(expected.run, device="cuda")
    assert train(a_spec(num_epochs=1), tmp_path).test == expected.test
    assert expected.run.model() is not None  # for predictions, on the CPU


def test_a_report_names_the_device(tmp_path):
    run = train(a_spec(num_epochs=1), tmp_path).run.manifest()
    run = run.replaced(threads=1, identity=run.identity.replaced(engine="fused"))
    other = run.replaced(
        device="cuda",
        identity=run.identity.replaced(engine="native"),
        machine=run.machine.replaced(accelerator="A card"),
    )
    assert (
        dict(hardware([run, other]))["engine"] == "fused, 1 thread per run; native on cuda (A card), 1 thread per run"
    )
