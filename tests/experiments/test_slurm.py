"""Job arrays of Slurm: the script without Slurm, and everything else on a real Slurm of one node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import slurm_node
import torch
from safetensors.torch import load_file
from waiting import wait_for

from gatelab.experiments import config, worker
from gatelab.experiments.bench import bench
from gatelab.experiments.claims import Claims
from gatelab.experiments.executors.local import LocalExecutor
from gatelab.experiments.executors.slurm import SlurmExecutor
from gatelab.experiments.plan import plan
from gatelab.training import Run

GATELAB = str(Path(sys.executable).with_name("gatelab"))
SMALL = {
    "task": "digits:limit=100",
    "models": {"gru": {"hidden_size": 6}, "agru": {"hidden_size": 6}},
    "runs": 2,
    "training": {"num_epochs": 2, "batch_size": 32, "seed": 5},
}
ONE = {"models": {"gru": {"hidden_size": 6}}, "runs": 1}
SLURM = ("--executor", "slurm")


def written(folder: Path, **changes: object) -> Path:
    path = folder / "c.yaml"
    path.write_text(json.dumps({**SMALL, **changes}))
    return path


def long(epochs: int) -> dict[str, object]:
    return {**ONE, "training": {"num_epochs": epochs, "batch_size": 8, "seed": 5}}


# The script.


def test_a_dry_run_prints_the_script_and_writes_nothing(tmp_path, cli):
    place = tmp_path / "it's 100%"
    options = ["--array-parallel", "3", "--cpus-per-run", "2", "--time", "90", "--partition", "short", "--dry-run"]
    options += ["--sbatch-option", "--mem=4G", "--sbatch-option=--account=lab"]
    command = ["bench", written(tmp_path), "--output-dir", place, *SLURM, *options]
    code, out, _ = cli(*command)
    quoted = str(place).replace("'", "'\"'\"'")
    assert code == 0
    assert out.splitlines() == [
        "#!/bin/bash",
        "#SBATCH --job-name='gatelab-it'\"'\"'s 100%'",
        "#SBATCH --array=0-3%3",
        "#SBATCH --cpus-per-task=2",
        "#SBATCH --time=90",
        "#SBATCH --partition=short",
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        "#SBATCH --signal=B:USR1@120",
        f"#SBATCH --output='{quoted}%/slurm/%A_%a.log'",  # %% is a percent sign
        "#SBATCH --mem=4G",
        "#SBATCH --account=lab",
        "export PYTHONSAFEPATH=1  # nothing is imported from the current directory",
        "trap '' USR1  # until the worker listens, the signal must not end it",
        f"exec {sys.executable} -m gatelab worker '{quoted}' --jobs 1 --runs 1",
    ]
    assert os.listdir(tmp_path) == ["c.yaml"]


def test_by_default_the_cluster_decides_and_a_short_limit_leaves_time_to_train():
    script = SlurmExecutor().script(1, Path("/e"))
    assert "--array=0-0\n" in script
    assert "--time" not in script
    assert "--partition" not in script
    assert "USR1@120" in script
    assert "USR1@10" in SlurmExecutor(minutes=1).script(1, Path("/e"))
    assert "worker /" in SlurmExecutor().script(1, Path("e"))  # a job may begin elsewhere


def test_only_runs_that_have_not_ended_are_submitted(tmp_path, cli, here):
    bench(config.parse({**SMALL, "runs": 1}, "here"), tmp_path / "e", here)
    again = ["--output-dir", tmp_path / "e", *SLURM, "--dry-run"]
    assert "--array=0-1\n" in cli("bench", written(tmp_path), *again)[1]
    assert cli("bench", written(tmp_path, runs=1), *again)[1].startswith("All runs in ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--time", "0"], "--time is 0: expected at least one minute"),
        (["--array-parallel", "-2"], "--array-parallel is -2: expected at least one run at a time"),
        (["--cpus-per-run", "0"], "--cpus-per-run is 0: expected at least one core"),
        (["--sbatch-option", "mem=4G"], "--sbatch-option is 'mem=4G': expected an option of sbatch in its long form"),
        (["--sbatch-option", "--mem=4G\nrm x"], r"--sbatch-option is '--mem=4G\nrm x': expected a single line"),
        (["--partition", "a\nb"], r"--partition is 'a\nb': expected a single line"),
        (["--jobs", "2"], "--jobs is an option of --executor local, not of slurm"),
        (["--output-dir", "a\nb"], "expected a single line"),
        (["--output-dir", "a\rb"], "expected a single line"),
        (["--output-dir", "a\\b"], "expected one without a backslash"),
    ],
)
def test_what_slurm_would_misunderstand_is_refused(options, message, tmp_path, cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = cli("bench", written(tmp_path), *SLURM, "--dry-run", *options)
    assert (code, out) == (2, "")
    assert message in err


def test_options_of_slurm_are_refused_elsewhere_also_if_they_are_zero(tmp_path, cli):
    _, _, err = cli("bench", written(tmp_path), "--time", "0")
    assert "--time is an option of --executor slurm, not of local" in err


# sbatch and scontrol, played by a script of one line.


def play(folder: Path, name: str, line: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{line}\n")
    (folder / name).chmod(0o755)


def test_without_sbatch_the_plan_can_still_be_executed(tmp_path, cli, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    code, _, err = cli("bench", written(tmp_path, **ONE), "--output-dir", "e", *SLURM)
    assert code == 2
    assert "there is no sbatch on this machine" in err
    assert "gatelab worker e" in err
    assert (tmp_path / "e" / "experiment.json").is_file()


def test_what_sbatch_says_is_passed_on(tmp_path, cli, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    command = ["bench", written(tmp_path, **ONE), "--output-dir", tmp_path / "e", *SLURM]
    play(tmp_path / "bin", "sbatch", "echo 'sbatch: error: invalid partition' >&2; exit 1")
    code, _, err = cli(*command)
    assert code == 2
    assert "sbatch refused the job array (sbatch: error: invalid partition): change the options" in err
    play(tmp_path / "bin", "sbatch", f"cat > {tmp_path / 'script'}; echo '17;cluster'")
    code, out, err = cli(*command)
    assert code == 0
    assert out == "Submitted the Slurm job array 17 (1 element).\n"
    assert f"gatelab status {tmp_path / 'e'}" in err
    assert "--array=0-0\n" in (tmp_path / "script").read_text()
    assert (tmp_path / "e" / "slurm").is_dir()  # or Slurm could not write its logs


@pytest.mark.parametrize(("answer", "code"), [("exit 0", 0), ("echo no such job >&2; exit 1", 2)])
def test_a_signal_saves_and_requeues(answer, code, tmp_path, cli):
    cli("bench", written(tmp_path, **long(1_000_000)), "--output-dir", tmp_path / "e", "--plan-only")
    play(tmp_path / "bin", "scontrol", f'echo "$@" > {tmp_path / "asked"}; {answer}')
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "SLURM_ARRAY_JOB_ID": "17"}
    process = subprocess.Popen(
        [sys.executable, "-m", "gatelab", "worker", tmp_path / "e", "--jobs", "1", "--runs", "1"],
        env={**os.environ, **environment, "SLURM_ARRAY_TASK_ID": "3"}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    run = Run(tmp_path / "e" / "runs" / "gru" / "seed-5")
    try:
        wait_for((run.path / "checkpoint.safetensors").is_file)
        process.send_signal(signal.SIGUSR1)
        _, err = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == code
    assert (tmp_path / "asked").read_text() == "requeue 17_3\n"
    assert run.manifest().status == "interrupted"
    assert ("Slurm did not requeue the job 17_3 (no such job): what it did is saved" in err) == (code == 2)


def test_a_worker_of_one_run_leaves_if_living_workers_have_them_all(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "LEASE", 0.5)
    monkeypatch.setattr(worker, "RENEWAL", 0.1)
    runs = plan(config.parse(SMALL, "here"))
    assert all(Claims(tmp_path).take(run.path) for run in runs)  # by this process, which is alive
    assert list(worker.Worker(runs, tmp_path, jobs=1, threads=1, most=1).work()) == []


def test_a_worker_counts_its_own_runs_and_not_the_failures_of_others(tmp_path, cli):
    studies = {"a": {"task": "digits:limit=100"}, "b": {"task": "digits:limit=120"}}
    content = {key: value for key, value in SMALL.items() if key != "task"}
    (tmp_path / "c.yaml").write_text(json.dumps({**content, "studies": studies}))
    cli("bench", tmp_path / "c.yaml", "--output-dir", tmp_path / "e", "--plan-only")
    for run in plan(config.parse(SMALL, "here")):
        claim = Claims(tmp_path / "e" / "a").take(run.path)
        assert claim is not None
        claim.fail("its data is missing")
    code, out, _ = cli("worker", tmp_path / "e", "--jobs", "1", "--runs", "1")
    assert code == 0
    assert out.count("its data is missing") == 4
    assert len(list((tmp_path / "e").rglob("best.safetensors"))) == 1


# A real Slurm.


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    if slurm_node.MISSING:
        pytest.skip(f"there is no {slurm_node.MISSING[0]} here (apt-get install slurm-wlm)")
    with slurm_node.running(tmp_path_factory.mktemp("slurm")):
        yield


def submit(config_file: Path, directory: Path, *options: str) -> str:
    command = [GATELAB, "bench", str(config_file), "--output-dir", str(directory), *SLURM, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split("job array ")[1].split()[0]


def ended(job: str) -> dict[str, str]:
    """The final states of all elements of an array, by their numbers."""
    active = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED"}

    def elements() -> dict[str, str]:
        return {name: state for name, state in slurm_node.states().items() if name.startswith(f"{job}_")}

    wait_for(lambda: not active & set(elements().values()), 600)
    return elements()


def assert_same_weights(ours: Path, theirs: Path) -> None:
    paths = sorted(path.relative_to(theirs) for path in theirs.rglob("best.safetensors"))
    assert paths == sorted(path.relative_to(ours) for path in ours.rglob("best.safetensors"))
    for path in paths:
        one, other = load_file(ours / path), load_file(theirs / path)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("local")
    bench(config.parse(SMALL, "here"), directory, LocalExecutor(2))
    return directory


@pytest.mark.cluster
@pytest.mark.usefixtures("slurm")
def test_an_array_gives_the_weights_of_local_processes(tmp_path, local, cli):
    place = tmp_path / "it's 100%A"
    job = submit(written(tmp_path), place, "--array-parallel", "2", "--time", "10")
    assert ended(job) == {f"{job}_{element}": "COMPLETED" for element in range(4)}
    assert_same_weights(place, local)
    assert "4 of 4 runs ended" in cli("status", place)[1]
    assert {log.name for log in (place / "slurm").iterdir()} == {f"{job}_{element}.log" for element in range(4)}


@pytest.mark.cluster
@pytest.mark.usefixtures("slurm")
def test_a_failed_element_does_not_end_the_others_and_is_submitted_again(tmp_path, local, cli):
    foreign = tmp_path / "e" / "runs" / "gru" / "seed-5" / "thesis.tex"
    cli("bench", written(tmp_path), "--output-dir", tmp_path / "e", "--plan-only", *SLURM)
    foreign.parent.mkdir(parents=True)
    foreign.write_text("years of work")
    job = submit(written(tmp_path), tmp_path / "e")
    assert sorted(ended(job).values()) == ["COMPLETED"] * 3 + ["FAILED"]
    assert "holds other files (thesis.tex) and no run" in cli("status", tmp_path / "e")[1]
    foreign.unlink()
    job = submit(written(tmp_path), tmp_path / "e")
    assert ended(job) == {f"{job}_0": "COMPLETED"}
    assert_same_weights(tmp_path / "e", local)


@pytest.mark.cluster
@pytest.mark.usefixtures("slurm")
def test_a_requeued_element_resumes_bit_for_bit(tmp_path):
    job = submit(written(tmp_path, **long(100)), tmp_path / "e")
    run = Run(tmp_path / "e" / "runs" / "gru" / "seed-5")
    wait_for((run.path / "checkpoint.safetensors").is_file)
    subprocess.run(["scancel", "--signal=USR1", "--batch", f"{job}_0"], check=True)
    assert ended(job) == {f"{job}_0": "COMPLETED"}
    assert run.manifest().status == "done"
    assert len(run.manifest().resumed) == 1
    log = (tmp_path / "e" / "slurm" / f"{job}_0.log").read_text()
    assert log.index(f"requeueing the job {job}_0") < log.index("test accuracy")
    bench(config.parse({**SMALL, **long(100)}, "here"), tmp_path / "whole", LocalExecutor(2))
    assert_same_weights(tmp_path / "e", tmp_path / "whole")


@pytest.mark.cluster
@pytest.mark.usefixtures("slurm")
def test_a_time_limit_saves_and_requeues(tmp_path):
    job = submit(written(tmp_path, **long(1_000_000)), tmp_path / "e", "--time", "1")
    run = Run(tmp_path / "e" / "runs" / "gru" / "seed-5")
    wait_for(lambda: run.exists() and run.manifest().resumed)
    subprocess.run(["scancel", job], check=True)
    assert ended(job) == {f"{job}_0": "CANCELLED"}
    assert run.manifest().status == "interrupted"  # SIGTERM saves as well
