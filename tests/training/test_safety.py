"""Directories that somebody else made: opening one executes nothing, writes nowhere else, follows no link out of it;
and what is not ours is left alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import gatelab
from gatelab import sealed
from gatelab.analysis import inspect
from gatelab.errors import DataError
from gatelab.experiments import config
from gatelab.experiments.bench import bench, gather_again
from gatelab.experiments.executors.local import LocalExecutor
from gatelab.experiments.experiment import read_experiment
from gatelab.experiments.results import read_results
from gatelab.experiments.studies import directories
from gatelab.experiments.studies import execute as execute_studies
from gatelab.report.inspection.write_inspection import write_inspection
from gatelab.report.words.findings import findings
from gatelab.report.write_report import write_reports
from gatelab.training import ModelSpec, Run, RunSpec, TrainingSpec, train
from gatelab.training.manifest import git_commit
from gatelab.training.verify import verify

GATELAB = Path(sys.executable).with_name("gatelab")
SMALL = {
    "task": "digits:limit=100",
    "models": {"gru": {"hidden_size": 4}, "rnn": {"hidden_size": 4}},
    "training": {"num_epochs": 1, "batch_size": 50},
    "runs": 1,
}


def small(**training) -> RunSpec:
    return RunSpec(
        task="digits:limit=100",
        model=ModelSpec(hidden_size=4),
        training=TrainingSpec(**{"num_epochs": 1, "batch_size": 50, "threads": 1, **training}),
    )


@pytest.fixture(scope="module")
def theirs(tmp_path_factory, here) -> Path:
    """A run and an experiment, whole, to be copied and tampered with."""
    home = tmp_path_factory.mktemp("theirs")
    train(small(), home / "run")
    bench(config.parse(SMALL, "here"), home / "experiment", here)
    return home


@pytest.fixture
def run(theirs, tmp_path) -> Path:
    shutil.copytree(theirs / "run", tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def experiment(theirs, tmp_path) -> Path:
    shutil.copytree(theirs / "experiment", tmp_path / "experiment")
    return tmp_path / "experiment"


def rewrite(path: Path, change) -> None:
    """A file with something else in it, and the checksum that belongs to that: forged, not damaged."""
    content = sealed.read_json(path)
    change(content)
    sealed.write_json(path, content)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# Nothing is executed.


def test_a_cell_that_names_a_file_does_not_run_it(run):
    """The file lies in the run directory, and every record of the run points to it."""
    evil, marker = run / "evil.py", run.parent / "executed"
    evil.write_text(f"open({str(marker)!r}, 'w').close()\nfrom gatelab.cells import gru as g\n")
    name = f"{evil}:g"

    def point(content):
        content["spec"]["model"]["cell"] = name

    rewrite(run / "manifest.json", point)
    rewrite(run / "model.json", lambda content: content["cell"].update(name=name, file=str(evil), text="# other"))
    gatelab.load(run).predict(np.zeros((2, 8, 8)))
    verify(Run(run))
    with pytest.raises(ValueError, match=r"evil\.py, from which its cell was taken, was edited"):
        inspect(run)
    inspect(run, accept_changes=True)
    spec = Run(run).spec()
    longer = spec.model_copy(update={"training": spec.training.model_copy(update={"num_epochs": 2})})
    with pytest.raises(ValueError, match="was edited"):
        train(longer, run, extend=True)
    train(longer, run, extend=True, accept_changes=True)
    assert not marker.exists()


def test_a_record_that_is_no_data_is_refused(run):
    rewrite(run / "model.json", lambda content: content.update(cell=f"{run}/evil.py:g"))
    (run / "evil.py").write_text("raise SystemExit('executed')")
    for ask in (gatelab.load, inspect):
        with pytest.raises(DataError, match=r"model\.json cannot be read"):
            ask(run)


def test_workers_do_not_import_from_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("yaml", "torch", "json", "gatelab"):
        (tmp_path / f"{name}.py").write_text(f"open('{name} was imported', 'w').close()\nraise SystemExit(1)\n")
    spec = config.parse({**SMALL, "models": {"rnn": {"hidden_size": 4}}}, "here")
    results = bench(spec, Path("out"), LocalExecutor(1))
    assert results.models["rnn"].counts == {"done": 1}
    assert not list(tmp_path.glob("*was imported"))


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_runs_nobodys_programs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    marker = tmp_path / "executed"
    program = tmp_path / "program.sh"
    program.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
    program.chmod(0o755)

    def git(*command):
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *who, *command], check=True, capture_output=True)

    git("init")
    Path("file").write_text("one")
    git("add", "file")
    git("commit", "-m", "first")
    assert git_commit().changed is False
    Path("file").write_text("other")
    assert git_commit().changed is True
    git("config", "core.fsmonitor", str(program))
    assert git_commit().changed is True
    assert not marker.exists()
    git("status")
    assert marker.exists()  # which it would run if it were asked plainly
    marker.unlink()
    git("config", "--unset", "core.fsmonitor")
    Path(".gitattributes").write_text("* filter=evil\n")
    git("config", "extensions.worktreeConfig", "true")
    for scope in ("--local", "--worktree"):
        git("config", scope, "filter.evil.clean", str(program))
        Path("file").write_text("two")  # as long as it was: to know whether it was changed, git has to read it
        assert git_commit().changed is None
        assert len(git_commit().commit) == 40
        assert not marker.exists()
        git("config", scope, "--unset", "filter.evil.clean")
    git("config", "filter.evil.clean", str(program))
    git("status")
    assert marker.exists()


# Nothing is written elsewhere, and no link is followed.


def test_names_in_an_experiment_cannot_be_paths(experiment):
    def rename(content):
        content["models"]["x/../../../escaped"] = content["models"].pop("gru")
        content["spec"]["models"]["x/../../../escaped"] = content["spec"]["models"].pop("gru")
        for run in content["runs"]:
            if run["model"] == "gru":
                run.update(model="x/../../../escaped")

    rewrite(experiment / "experiment.json", rename)
    with pytest.raises(DataError, match=r"a model has the name 'x/\.\./\.\./\.\./escaped'"):
        gather_again(experiment)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e["spec"].update(ablation="yes"), "spec.ablation: Input should be a valid boolean"),
        (lambda e: e["runs"][0].update(place="../elsewhere"), "runs.0.place: Unexpected keyword argument"),
        (lambda e: e["runs"][0].update(seed="0"), "runs.0.seed: Input should be a valid integer"),
        (lambda e: e["runs"][0].update(model="lstm"), "lstm, seed 0: unknown model"),
        (lambda e: e.update(extra=1), "extra: Extra inputs are not permitted"),
        (lambda e: e["models"]["gru"]["cell"].update(equations={}), "the equations cannot be read"),
        (lambda e: e["models"]["gru"].update(cell="evil.py:g"), "expected a model with the equations of its cell"),
        (lambda e: e["family"].update(tests=0), "family: 0 tests, expected 1"),
        (lambda e: e["models"]["gru"].update(hidden_size=-1), "hidden_size: Input should be greater"),
        (lambda e: e["spec"].update(base="nobody"), "base or design: unknown model"),
        (lambda e: e["spec"]["task"].update(name="../x"), "expected its name"),
        (lambda e: e.pop("task"), "task: Field required"),
        (lambda e: e.update(schema=99), "was written by a newer gatelab, with schema 99"),
    ],
)
def test_an_experiment_is_read_strictly(experiment, change, message):
    rewrite(experiment / "experiment.json", change)
    with pytest.raises(DataError, match=r"experiment\.json") as refused:
        read_experiment(experiment)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "name", ["manifest.json", "model.json", "best.safetensors", "predictions.npz", "metrics.jsonl"]
)
def test_a_file_that_is_a_link_out_of_the_run_is_refused(run, tmp_path, name):
    shutil.move(run / name, tmp_path / name)
    (run / name).symlink_to(tmp_path / name)
    with pytest.raises(DataError, match=f"{name} leads out of"):
        gatelab.load(run), Run(run).metrics(), Run(run).predictions()


def test_links_are_not_written_through(experiment, tmp_path):
    """A new session of the experiment, all of whose files to write are links to one of the user's."""
    thesis = tmp_path / "thesis.tex"
    thesis.write_text("years of work")
    place = experiment / "runs" / "gru" / "seed-1"
    place.mkdir()
    for name in ("log.txt", "progress.json", "metrics.jsonl", "cell.txt"):
        (place / name).symlink_to(thesis)
    for name in ("results.json", "report.html", "results.csv", "results_summary.md", "test_comparison.png"):
        (experiment / name).unlink(missing_ok=True)
        (experiment / name).symlink_to(thesis)
    results = bench(config.parse({**SMALL, "runs": 2}, "here"), experiment, LocalExecutor(2))
    write_reports(experiment, directories(experiment))
    assert thesis.read_text() == "years of work"
    assert results.models["rnn"].counts == {"done": 2}


def test_folders_and_locks_that_are_links_are_refused(experiment, run, tmp_path, cli):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "lock").write_text("precious")
    (experiment / "runs" / "gru" / "seed-1").symlink_to(outside)
    with pytest.raises(DataError, match="leads out of"):
        bench(config.parse({**SMALL, "runs": 2}, "here"), experiment, LocalExecutor(1))
    (run / ".lock").unlink()
    (run / ".lock").symlink_to(outside / "lock")
    with pytest.raises(DataError, match="leads out of"):
        train(small(), run)
    (run / "inspect").symlink_to(outside)
    code, _, err = cli("inspect", run)
    assert (code, "leads out of" in err) == (2, True)
    assert tree(outside) == {"lock": b"precious"}


def forged(content, *keys, value):
    for key in keys[:-1]:
        content = content[key]
    content[keys[-1]] = value


@pytest.mark.parametrize(
    ("file", "keys", "value", "message"),
    [
        ("manifest.json", ("spec", "model", "hidden_size"), 10**9, "too few for a model of 1000000000 units"),
        ("manifest.json", ("spec", "model", "num_layers"), 10**4, "too few for a model of 4 units in 10000 layers"),
        ("manifest.json", ("spec", "model", "num_layers"), 10**8, "num_layers: Input should be less than or equal to"),
        ("manifest.json", ("threads",), 10**9, "threads: Input should be less than or equal to 1024"),
        ("manifest.json", ("spec", "task", "name"), "nothing", "unknown task 'nothing'"),
        ("manifest.json", ("spec",), {}, "cannot be read"),
        ("model.json", ("preparation", "input_size"), 10**9, "too few for a model"),
        ("model.json", ("preparation", "classes"), ["a"], "do not fit output_size"),
        ("model.json", ("preparation", "label_type"), "<b>", "label_type"),
        ("model.json", ("cell", "text"), 7, "expected a string"),
    ],
)
def test_forged_facts_are_refused_before_anything_is_made_of_them(run, file, keys, value, message):
    rewrite(run / file, lambda content: forged(content, *keys, value=value))
    with pytest.raises(DataError) as refused:
        gatelab.load(run)
    assert message in str(refused.value)
    assert not all(finding.good for finding in verify(Run(run)))


def epoch_without(name: str):
    return lambda lines: [{key: value for key, value in lines[0].items() if key != name}]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (epoch_without("train_loss"), "line 1 lacks train_loss"),
        (lambda lines: [lines[0] | {"validation_accuracy": "<b>"}], "line 1: validation_accuracy is '<b>'"),
        (lambda lines: [lines[0] | {"seconds": None}], "line 1: seconds is None"),
        (lambda lines: [lines[0] | {"seconds": True}], "line 1: seconds is True"),
        (lambda lines: [lines[0] | {"epoch": 7}], "line 1: epoch is 7"),
    ],
)
def test_forged_metrics_are_noticed(run, change, message):
    Run(run).write_metrics(change(Run(run).metrics()))
    (found,) = [finding for finding in verify(Run(run)) if not finding.good]
    assert (found.file, message in found.message) == ("metrics.jsonl", True), found


def test_epochs_have_the_same_metrics(run):
    lines = Run(run).metrics()
    rewrite(run / "manifest.json", lambda content: content.update(epochs=2))
    Run(run).write_metrics([*lines, lines[0] | {"epoch": 2}])
    assert len(Run(run).metrics()) == 2
    Run(run).write_metrics([*lines, lines[0] | {"epoch": 2, "more": 1.0}])
    with pytest.raises(DataError, match="line 2 alone has more"):
        Run(run).metrics()


@pytest.mark.parametrize("name", ["best.safetensors", "checkpoint.safetensors"])
@pytest.mark.parametrize("kind", [torch.bool, torch.float64])
def test_weights_of_another_type_are_noticed(run, name, kind):
    tensors, state = sealed.read_tensors(run / name)
    (weight,) = [each for each in tensors if each.endswith("layers.0.fwd.W.z")]
    sealed.write_tensors(run / name, tensors | {weight: tensors[weight].to(kind)}, state)
    (found,) = [finding for finding in verify(Run(run)) if not finding.good]
    assert (found.file, f"W.z is {kind}, and the model's torch.float32" in found.message) == (name, True), found


@pytest.mark.parametrize("name", ["best.safetensors", "checkpoint.safetensors"])
@pytest.mark.parametrize(
    ("schema", "message"), [(0, "its schema is 0, expected 1"), ("1", "its schema is '1'"), (2, "by a newer gatelab")]
)
def test_tensors_of_another_schema_are_noticed(run, name, schema, message):
    tensors, state = sealed.read_tensors(run / name)
    sealed.write_tensors(run / name, tensors, state | {"schema": schema})
    (found,) = [finding for finding in verify(Run(run)) if not finding.good]
    assert (found.file, message in found.message) == (name, True), found


def test_a_pipe_in_the_place_of_a_file_is_refused(run):
    for name in ("model.json", "best.safetensors", "predictions.npz"):
        (run / name).unlink()
        os.mkfifo(run / name)
    with pytest.raises(DataError, match=r"\w+\.\w+ is a pipe or a device: expected a regular file"):
        gatelab.load(run)
    with pytest.raises(DataError, match=r"\w+\.\w+ is a pipe or a device: expected a regular file"):
        Run(run).predictions()
    assert not all(finding.good for finding in verify(Run(run)))


# One damaged run.


def test_one_damaged_run_does_not_stop_the_report_of_the_others(experiment):
    place = experiment / "runs" / "gru" / "seed-0"
    for name, content in (
        ("predictions.npz", b"PK\x03\x04 half a zip"),
        ("metrics.jsonl", b""),
        ("manifest.json", b'{"schema": 2}'),
    ):
        whole = (place / name).read_bytes()
        (place / name).write_bytes(content)
        gather_again(experiment)
        write_reports(experiment, directories(experiment))
        results = read_results(experiment)
        assert results.models["gru"].counts == {"damaged": 1}
        assert results.models["rnn"].counts == {"done": 1}
        assert any(sentence.startswith("gru, seed 0: is damaged") for sentence in findings(results))
        assert "is damaged" in (experiment / "report.html").read_text()
        (place / name).write_bytes(whole)


def test_verify_says_file_by_file_what_is_not_whole(experiment, run, cli):
    code, out, _ = cli("verify", experiment)
    assert code == 0, out
    assert "experiment is intact." in out
    assert out.count("best.safetensors") == 2
    best = experiment / "runs" / "rnn" / "seed-0" / "best.safetensors"
    content = bytearray(best.read_bytes())
    content[-3] ^= 1
    best.write_bytes(content)
    code, out, _ = cli("verify", experiment)
    assert code == 1
    (line,) = [line for line in out.splitlines() if "BAD" in line]
    assert "its checksum does not match its content" in line
    assert cli("verify", run.parent / "nothing")[0] == 2
    (run / "best.safetensors").unlink()
    found = {finding.file: finding for finding in verify(Run(run))}
    assert (found["best.safetensors"].good, found["best.safetensors"].message) == (False, "missing")
    shutil.copytree(experiment / "runs" / "gru" / "seed-0", experiment / "copy")
    shutil.rmtree(experiment / "runs" / "rnn" / "seed-0")
    shutil.move(experiment / "copy", experiment / "runs" / "rnn" / "seed-0")  # another model in its place
    code, out, _ = cli("verify", experiment)
    assert (code, "not of rnn with seed 0" in out) == (1, True)
    gather_again(experiment)
    assert read_results(experiment).models["rnn"].counts == {"damaged": 1}
    # Results that belong to other weights: whole files that do not fit each other.
    rewrite(run / "manifest.json", lambda content: content["test"].update(accuracy=0.999))
    found = {finding.file: finding for finding in verify(Run(run))}
    assert "and the manifest says 0.999" in found["predictions.npz"].message


# Nothing that is not ours is deleted or overwritten.


def test_train_leaves_a_folder_with_other_things_alone(tmp_path, experiment):
    (tmp_path / "work").mkdir()
    for name in (".env.local.template", ".git.config.abcd1234", "notes.txt"):
        (tmp_path / "work" / name).write_text("mine")
    before = tree(tmp_path / "work")
    with pytest.raises(ValueError, match=r"holds other files \(.env.local.template, .* and no run: choose a new"):
        train(small(), tmp_path / "work")
    with pytest.raises(ValueError, match="holds an experiment"):
        train(small(), experiment)
    assert tree(tmp_path / "work") == before
    for name in ("model.json", "metrics.jsonl", "predictions.npz", "cell.txt"):  # by chance called as ours are
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("mine")
        with pytest.raises(ValueError, match="holds other files"):
            train(small(), tmp_path / name)
        assert tree(tmp_path / name) == {name: b"mine"}
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="is a file: expected a directory"):
        train(small(), tmp_path / "file")


def test_what_lies_beside_a_run_is_left_alone(run):
    (run / "notes.txt").write_text("mine")
    (run / ".env.local.template").write_text("mine")
    spec = Run(run).spec()
    longer = spec.model_copy(update={"training": spec.training.model_copy(update={"num_epochs": 2})})
    train(longer, run, extend=True)
    assert (run / "notes.txt").read_text() == (run / ".env.local.template").read_text() == "mine"
    assert any(finding.file == "notes.txt" and finding.good for finding in verify(Run(run)))


def test_our_own_leftovers_do_not_lock_a_directory(tmp_path, here):
    """As a kill in the very first write leaves them."""
    for name in ("bench", "studies", "train"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".gatelab-tmp-experiment.json.x1y2").write_text('{"sch')
        (tmp_path / name / ".lock").touch()
    assert bench(config.parse(SMALL, "here"), tmp_path / "bench", here).models["gru"].counts == {"done": 1}
    assert len(execute_studies({"one": config.parse(SMALL, "here")}, tmp_path / "studies", here)) == 1
    assert train(small(), tmp_path / "train").status == "done"
    assert not list((tmp_path / "train").glob(".gatelab-tmp*"))


PICTURE = "predictions.png"


@pytest.mark.usefixtures("one_picture")
def test_pictures_of_an_inspection_do_not_replace_others(run, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / PICTURE).write_bytes(b"my own picture")
    found = inspect(run)
    with pytest.raises(ValueError, match=r"holds predictions\.png and no inspection"):
        write_inspection(found, tmp_path / "mine")
    assert tree(tmp_path / "mine") == {PICTURE: b"my own picture"}
    write_inspection(found, tmp_path / "new")
    write_inspection(found, tmp_path / "new")  # its own may be made again
    assert (tmp_path / "new" / PICTURE).is_file()


# Threads.


def test_threads_that_are_not_granted_are_noticed(tmp_path):
    def spec(epochs):
        return small(threads=2, num_epochs=epochs)

    assert train(spec(1), tmp_path / "run").run.manifest().threads == 2
    shutil.copytree(tmp_path / "run", tmp_path / "dynamic")

    def resumed(path, **environment):
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("OMP_")}
        command = [GATELAB, "train", "--resume", path, "--epochs", "2", "--quiet"]
        return subprocess.run(command, env=inherited | environment, capture_output=True, text=True, check=False)

    limited = resumed(tmp_path / "run", OMP_THREAD_LIMIT="1")
    assert limited.returncode == 2
    assert "it began with 2 threads, and 1 are granted here" in limited.stderr
    ours = train(spec(2), tmp_path / "run", extend=True).run
    assert resumed(tmp_path / "dynamic", OMP_DYNAMIC="true").returncode == 0
    theirs = Run(tmp_path / "dynamic")
    assert ours.best_path.read_bytes() == theirs.best_path.read_bytes()
    assert (ours.predictions()["predictions"] == theirs.predictions()["predictions"]).all()
