"""Workers: real processes that share an experiment, are killed, and lose nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import told
from safetensors.torch import load_file
from waiting import wait_for

from gatelab import sealed
from gatelab.errors import GatelabError
from gatelab.experiments import config, studies
from gatelab.experiments.bench import bench, read_experiment, take_part
from gatelab.experiments.claims import Claims
from gatelab.experiments.experiment import planned
from gatelab.experiments.plan import plan
from gatelab.experiments.status import RunWatch
from gatelab.training import Run

GATELAB = str(Path(sys.executable).with_name("gatelab"))
CONTENT = {
    "task": "digits:limit=100",
    "models": {"gru": {"hidden_size": 6}, "rnn": {"hidden_size": 6}},
    "runs": 2,
    "training": {"num_epochs": 25, "batch_size": 8, "seed": 5},
}
TOLD = {**CONTENT, "task": {"name": told.TASK, "limit": 100}}


def spec(**changes) -> config.BenchSpec:
    return config.parse({**CONTENT, **changes}, "here")


def started(directory: Path, *options: str, **environment: str) -> subprocess.Popen[bytes]:
    command = [GATELAB, "worker", str(directory), "--jobs", "1", *options]
    environment = {**os.environ, **environment}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True, env=environment)


def same_bits(ours: Path, theirs: Path) -> bool:
    a, b = load_file(ours / "best.safetensors"), load_file(theirs / "best.safetensors")
    return all(a[name].equal(b[name]) for name in b) and _epochs(ours) == _epochs(theirs)


def _epochs(path: Path) -> list[dict[str, float]]:
    """The metrics without times."""
    return [{name: v for name, v in line.items() if "second" not in name} for line in Run(path).metrics()]


@pytest.fixture(scope="module")
def alone(tmp_path_factory, here) -> Path:
    """The same experiment without workers."""
    directory = tmp_path_factory.mktemp("alone") / "experiment"
    bench(config.parse(TOLD, "here"), directory, here)
    return directory


def test_workers_share_an_experiment_and_one_that_is_killed_loses_nothing(tmp_path, alone, cli):
    directory = tmp_path / "experiment"
    (tmp_path / "c.yaml").write_text(json.dumps(TOLD))
    code, _, err = cli("bench", tmp_path / "c.yaml", "--plan-only", "--output-dir", directory, "--jobs", "2")
    assert (code, f"gatelab worker {directory}" in err) == (0, True)
    assert {run.status for run in RunWatch(directory).look()} == {"waiting"}
    held = told.at_batch(30, "wait", "seed-5", tmp_path / "held")  # an epoch has 13
    first, second = (started(directory, "--task", told.TASK, **held) for _ in range(2))
    runs = [directory / run.path for run in plan(spec())]
    wait_for(lambda: sum((run / "checkpoint.safetensors").is_file() for run in runs) == 2)
    states = RunWatch(directory).look()
    assert sum(run.status == "running" for run in states) == 2
    assert all(run.host for run in states if run.status == "running")
    os.killpg(first.pid, signal.SIGKILL)  # the worker, and the process of its run
    first.wait()
    (tmp_path / "held" / "go").touch()
    assert second.wait(600) == 0
    for run in plan(spec()):
        assert same_bits(directory / run.path, alone / run.path), run.title
    resumed = [len(Run(run).manifest().resumed) for run in runs]
    assert sorted(resumed) == [0, 0, 0, 1]  # nothing was done twice
    assert {run.status for run in RunWatch(directory).look()} == {"done"}
    assert not list((directory / "claims").rglob("[0-9]*"))
    code, out, _ = cli("status", directory)
    assert (code, "4 of 4 runs ended" in out) == (0, True)
    code, out, _ = cli("report", directory)
    assert code == 0
    assert "The report is in" in out


def test_a_worker_takes_no_more_than_it_is_told_and_stops_when_asked(tmp_path):
    directory = tmp_path / "experiment"
    studies.plan_only({"": spec(training={**CONTENT["training"], "num_epochs": 2})}, directory, lambda runs: 1)
    assert take_part(directory, jobs=2, most=1) == ["done"]
    assert sorted(run.status for run in RunWatch(directory).look()) == ["done", "waiting", "waiting", "waiting"]
    long = {**CONTENT["training"], "num_epochs": 1_000_000}
    other = tmp_path / "long"
    studies.plan_only({"": spec(training=long, runs=1)}, other, lambda runs: 1)
    process = started(other)
    run = other / plan(spec(runs=1))[0].path
    wait_for(lambda: (run / "checkpoint.safetensors").is_file())
    process.send_signal(signal.SIGUSR1)  # outside Slurm: saved, and nothing to requeue
    assert process.wait(600) == 0
    assert Run(run).manifest().status == "interrupted"
    assert Claims(other).state(run.relative_to(other)) == "free"


def test_a_plan_can_be_read_back_as_it_was(tmp_path):
    tuned = spec(tune={"trials": 3, "space": {"learning_rate": {"log": [1e-3, 1e-2]}}})
    for number, one in enumerate((spec(), tuned)):
        directory = tmp_path / str(number)
        plans = studies.plan_only({"": one}, directory, lambda runs: 3)
        experiment = read_experiment(directory)
        assert experiment.threads == 3
        again = planned(experiment)
        assert [run.title for run in again] == [run.title for run in plans[""]]
        assert [run.spec.document() for run in again] == [run.spec.document() for run in plans[""]]
        studies.plan_only({"": one}, directory, lambda runs: 1)  # the number of threads stays that of the first plan
        assert read_experiment(directory).threads == 3


def test_code_of_the_users_is_executed_only_where_it_is_named(tmp_path):
    studies.plan_only({"": spec()}, tmp_path / "experiment", lambda runs: 1)
    path = tmp_path / "experiment" / "experiment.json"
    content = sealed.read_json(path)
    content["spec"]["task"] = {"name": "evil.py:Task"}
    sealed.write_json(path, content)
    with pytest.raises(GatelabError, match=r"evil\.py:Task, Python code, .*: add --task evil\.py:Task"):
        take_part(tmp_path / "experiment", 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--executor", "moon"], "--executor is 'moon': expected one of local, ray, slurm"),
        (["--partition", "long"], "--partition is an option of --executor slurm, not of local"),
        (["--executor", "slurm", "--jobs", "2"], "--jobs is an option of --executor local, not of slurm"),
    ],
)
def test_options_of_another_executor_are_refused(tmp_path, cli, options, message):
    (tmp_path / "c.yaml").write_text(json.dumps(CONTENT))
    code, _, err = cli("bench", tmp_path / "c.yaml", "--output-dir", tmp_path / "out", *options)
    assert (code, message in err) == (2, True), err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/etc/passwd", "ends in ''"),
        ("/dev/zero", "is a pipe or a device"),
        ("here.txt", "is empty"),
        ("gone.csv", "not on this machine: put it there, or plan the experiment again"),
    ],
)
def test_a_plan_whose_data_is_no_data_is_refused_in_words(tmp_path, cli, path, message):
    studies.plan_only({"": spec()}, tmp_path / "experiment", lambda runs: 1)
    (tmp_path / "here.txt").write_text("")
    record = tmp_path / "experiment" / "experiment.json"
    content = sealed.read_json(record)
    content["spec"]["task"] = {"name": "files", "path": str(tmp_path / path)}  # an absolute path stays as it is
    sealed.write_json(record, content)
    code, _, err = cli("worker", tmp_path / "experiment")
    assert (code, message in err, "Traceback" in err) == (2, True, False), err


def test_the_state_of_a_study_is_that_of_its_own_runs(tmp_path):
    """Runs of two studies have the same names; who has one says nothing about the other."""
    studies.plan_only({"one": spec(), "two": spec()}, tmp_path / "experiment", lambda runs: 1)
    first = plan(spec())[0]
    assert Claims(tmp_path / "experiment" / "two").take(first.path) is not None
    states = RunWatch(tmp_path / "experiment").look()
    assert [(run.model, run.name) for run in states if run.status == "running"] == [(f"two: {first.model}", "seed 5")]
    assert sum(run.status == "waiting" for run in states) == 7
