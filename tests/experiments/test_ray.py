"""Runs on a Ray cluster: the same results as on this machine, also if a node is lost on the way."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import wait_for

from gatelab.cli.execution import Execution
from gatelab.errors import DataError, GatelabError
from gatelab.experiments import config, transfer
from gatelab.experiments.bench import Watcher, bench
from gatelab.experiments.claims import Claims
from gatelab.experiments.executors.local import LocalExecutor
from gatelab.experiments.executors.ray import RayExecutor
from gatelab.experiments.executors.ray_task import Sent
from gatelab.experiments.plan import plan
from gatelab.experiments.run_process import Order
from gatelab.training import Run, train
from gatelab.training.checkpoint import read_place

HAS_RAY = importlib.util.find_spec("ray") is not None
GATELAB = Path(sys.executable).with_name("gatelab")
needs_ray = pytest.mark.skipif(not HAS_RAY, reason="ray is not installed: pip install 'gatelab[ray]'")
LONG = {
    "task": "digits:limit=100",
    "models": {"gru": {"hidden_size": 6}, "agru": {"hidden_size": 6, "gamma": 0.05, "learnable_epsilon": False}},
    "runs": 1,
    "training": {"num_epochs": 100, "batch_size": 8, "seed": 5},
}
BRIEF = {**LONG, "training": {"num_epochs": 2, "batch_size": 32, "seed": 5}}


def spec_of(content: dict) -> config.BenchSpec:
    return config.parse(content, "here")


# Without a cluster.


def test_without_the_package_its_installation_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # importing it fails then
    with pytest.raises(GatelabError, match=r"pip install 'gatelab\[ray\]'"):
        RayExecutor()


@needs_ray
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpus_per_run": -1}, "cpus_per_run is -1: expected at least one core"),
        ({"address": "ray://127.0.0.1:10001"}, "start gatelab on a node of the cluster, with --address auto"),
        ({"jobs": 2}, "--jobs is an option of --executor local, not of ray"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options, message):
    with pytest.raises(GatelabError, match=message):
        Execution(executor="ray", **options).make()


@needs_ray
def test_an_address_at_which_nothing_answers_is_refused_at_once(tmp_path):
    with pytest.raises(GatelabError, match=r"no Ray cluster answers at 127\.0\.0\.1:1 "):
        next(RayExecutor("127.0.0.1:1").execute([], tmp_path, lambda: None))


def test_a_run_that_was_sent_is_the_same():
    run = plan(spec_of(BRIEF))[1]
    sent = Sent.read(json.dumps(Order(run.spec, [[0.5, 0.75]]).document()), str(run.path))
    assert (sent.path, sent.spec, sent.seed) == (run.path, run.spec, run.seed)
    assert sent.rivals(Path()) == [[0.5, 0.75]]
    assert sent.settled(Path()) is sent.spec


def test_only_changed_files_of_a_run_are_sent_and_the_manifest_is_the_last(tmp_path):
    place, known = tmp_path / "run", {}
    place.mkdir()
    (place / "log.txt").write_text("…")
    (place / "checkpoint.safetensors").write_text("of a run that has no manifest yet")
    assert list(transfer.changed(place, known)) == ["log.txt"]
    (place / "checkpoint.safetensors").unlink()
    train(plan(spec_of(BRIEF))[0].spec, place)
    files = transfer.changed(place, known)
    assert list(files)[-2:] == ["checkpoint.safetensors", "manifest.json"]
    assert {"best.safetensors", "metrics.jsonl", "model.json", "predictions.npz"} < files.keys()
    assert transfer.changed(place, known) == {}
    (place / "progress.json").write_text("{}")
    (place / "inspect").mkdir()
    assert transfer.changed(place, known, ("log.txt",)) == {}
    assert transfer.changed(place, known) == {"progress.json": b"{}"}
    transfer.write(tmp_path / "copy", files)
    assert Run(tmp_path / "copy").manifest() == Run(place).manifest()


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "own.py", "inspect", ".lock"])
def test_only_files_of_a_run_are_received(tmp_path, name):
    with pytest.raises(DataError, match="is not a file of a run"):
        transfer.write(tmp_path / "run", {name: b""})
    assert not (tmp_path / "run").exists()
    keeper = transfer.DirectoryKeeper(str(tmp_path / "experiment"))
    with pytest.raises(DataError, match="leads out of"):
        keeper.lend("../elsewhere", "a")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "run").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="leads out of"):
        keeper.lend("run", "a")


def test_a_run_is_the_task_that_asked_last(tmp_path):
    keeper, path, claims = transfer.DirectoryKeeper(str(tmp_path)), Path("runs/gru"), Claims(tmp_path)
    other = claims.take(path)
    assert keeper.lend("runs/gru", "a") is None  # a worker has it
    other.fail("no memory")
    assert keeper.lend("runs/gru", "a") == {}
    assert claims.take(path) is None
    assert keeper.lend("runs/gru", "b") == {}  # the node of `a` was lost
    assert not keeper.receive("runs/gru", "a", {"manifest.json": b"old"})
    assert keeper.receive("runs/gru", "b", {"manifest.json": b"new"})
    assert (tmp_path / "runs/gru/manifest.json").read_bytes() == b"new"
    keeper.give_back("runs/gru", "a", "failed", "lost")
    assert claims.state(path) == "held"
    keeper.give_back("runs/gru", "b", "failed", "no memory")
    assert (claims.state(path), claims.holder(path).reason) == ("failed", "no memory")
    keeper.lend("runs/gru", "c")
    keeper.give_back("runs/gru", "c", "done", "")
    assert claims.state(path) == "free"


# On real clusters.


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    """A head that executes nothing, and two nodes with one core each."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a killed node leaves its copies of runs there
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")  # of sockets, whose paths must be short
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.workers = [made.add_node(num_cpus=1) for _ in range(2)]
    yield made
    made.shutdown()


class Quick(RayExecutor):
    SEND_EVERY, PROGRESS_EVERY = 0.5, 0.2


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("local") / "experiment"
    executor = LocalExecutor(2)
    assert executor.threads_for(5) == 1
    bench(spec_of(LONG), directory, executor)
    return directory


def assert_same(ours: Path, theirs: Path) -> None:
    """Weights, predictions, metrics by epoch and test metrics, bit for bit; clocks differ."""
    for run in plan(spec_of(LONG)):
        for name in ("best.safetensors", "predictions.npz", "model.json"):
            assert (ours / run.path / name).read_bytes() == (theirs / run.path / name).read_bytes(), (run.path, name)
        mine, other = Run(ours / run.path), Run(theirs / run.path)
        clocks = ("seconds", "validation_seconds", "samples_per_second")
        lines = [[{k: v for k, v in line.items() if k not in clocks} for line in r.metrics()] for r in (mine, other)]
        assert lines[0] == lines[1]
        assert mine.manifest().test == other.manifest().test


class NodeKiller(Watcher):
    """Removes a node as soon as all runs have a checkpoint in the directory."""

    def __init__(self, cluster) -> None:
        self.cluster, self.ended = cluster, []
        self.histories: dict[str, list[dict]] = {}  # of the checkpoints when the node was removed

    def start(self, runs, ended, directory):
        self.places = [Run(directory / run.path) for run in runs]

    def tick(self):
        if self.histories or not all(run.exists() and run.metrics() for run in self.places):
            return
        self.histories = {run.path.parent.name: read_place(run.checkpoint_path).history for run in self.places}
        assert all(run.manifest().status == "running" for run in self.places)
        self.cluster.remove_node(self.cluster.workers[0], allow_graceful=False)

    def finished(self, finished):
        self.ended.append((finished.run.model, finished.status, finished.reason))


@needs_ray
@pytest.mark.cluster
@pytest.mark.parametrize("shared_folder", [None, False], ids=["shared", "travels"])
def test_a_lost_node_costs_nothing_but_time(cluster, local, tmp_path, shared_folder):
    watcher = NodeKiller(cluster)
    directory = tmp_path / "experiment"
    results = bench(spec_of(LONG), directory, Quick(cluster.address, 1, shared_folder), watcher)
    assert sorted(watcher.ended) == [("agru", "done", ""), ("gru", "done", "")]
    assert all(model.counts == {"done": 1} for model in results.models.values())
    assert_same(directory, local)
    ended = {model: Run(directory / "runs" / model / "seed-5") for model in watcher.histories}
    assert sorted(len(run.manifest().resumed) for run in ended.values()) == [0, 1]  # that of the lost node
    for model, history in watcher.histories.items():  # no epoch was trained again: even the clocks are the same
        assert history
        assert ended[model].metrics()[: len(history)] == history
    assert not list(directory.glob(".gatelab-tmp-*"))
    assert all(Claims(directory).state(run.path) == "free" for run in plan(spec_of(LONG)))


class Interrupter(NodeKiller):
    def tick(self):
        if all(run.exists() and run.metrics() for run in self.places):
            raise KeyboardInterrupt


@needs_ray
@pytest.mark.cluster
@pytest.mark.parametrize("shared_folder", [True, False], ids=["shared", "travels"])
def test_an_interrupted_experiment_is_saved_and_resumed(cluster, local, tmp_path, shared_folder):
    directory = tmp_path / "experiment"
    executor = Quick(cluster.address, 1, shared_folder)
    with pytest.raises(KeyboardInterrupt):
        bench(spec_of(LONG), directory, executor, Interrupter(cluster))
    runs = [Run(directory / run.path) for run in plan(spec_of(LONG))]
    assert [run.manifest().status for run in runs] == ["interrupted"] * 2  # they were asked to save, and did
    assert all(Claims(directory).state(run.path) == "free" for run in plan(spec_of(LONG)))
    bench(spec_of(LONG), directory, LocalExecutor(2))  # anywhere
    assert [len(run.manifest().resumed) for run in runs] == [1, 1]
    assert_same(directory, local)


@needs_ray
@pytest.mark.cluster
def test_a_cluster_of_small_nodes_is_refused(cluster, tmp_path):
    message = r"a run needs 2 cores \(--cpus-per-run\), and the largest node of the cluster has 1: ask for fewer"
    with pytest.raises(GatelabError, match=message):
        bench(spec_of(BRIEF), tmp_path / "experiment", RayExecutor(cluster.address, 2))


@needs_ray
@pytest.mark.cluster
@pytest.mark.parametrize("stop", ["SIGTERM", "Ctrl-C"])
def test_the_command_line_starts_a_cluster_of_its_own_and_ends_it(tmp_path, stop):
    (tmp_path / "c.yaml").write_text(json.dumps({**LONG, "training": {**LONG["training"], "num_epochs": 1_000_000}}))
    command = [GATELAB, "bench", "c.yaml", "--executor", "ray", "--output-dir", "out"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, **pipes)
    place = tmp_path / "out" / "runs" / "gru" / "seed-5"
    wait_for(lambda: (place / "checkpoint.safetensors").is_file() or process.poll() is not None)
    if stop == "Ctrl-C":
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to all of them
    else:
        process.terminate()
    out, error = process.communicate(timeout=600)
    assert process.returncode == 130, error
    assert out == "2 runs, in out\n"  # nothing of Ray's
    assert [line for line in error.splitlines() if not line.startswith("note: ")] == [
        "interrupted; the same command resumes it, in out"
    ]
    assert Run(place).manifest().status == "interrupted"


@needs_ray
@pytest.mark.cluster
def test_a_run_that_fails_says_why(cluster, tmp_path):
    (tmp_path / "mine.csv").write_text("a,b\n" + "\n".join(f"{i % 7},{(i * 3) % 5}" for i in range(200)) + "\n")
    task = {"name": "files", "path": str(tmp_path / "mine.csv"), "length": 10}
    executor, ended = Quick(cluster.address, 1, False), []

    class Remover(NodeKiller):
        def start(self, runs, ended, directory):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(tmp_path / "mine.csv")  # as if the nodes had no copy

        def tick(self):
            pass

        def finished(self, finished):
            ended.append((finished.status, finished.reason))

    bench(spec_of({**BRIEF, "task": task}), tmp_path / "experiment", executor, Remover(cluster))
    assert [status for status, _ in ended] == ["failed", "failed"]
    assert all("mine.csv" in reason for _, reason in ended)
    claims = Claims(tmp_path / "experiment")
    assert all(claims.state(run.path) == "failed" for run in plan(spec_of(BRIEF)))
