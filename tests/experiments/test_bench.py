"""A comparison from end to end: planned, executed in processes, stopped, killed, gone on with, refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import told
import torch
from places import ROOT
from safetensors.torch import load_file
from typer.testing import CliRunner
from waiting import wait_for

from gatelab import tasks
from gatelab.cli import app
from gatelab.errors import DataError
from gatelab.experiments import config
from gatelab.experiments.bench import Watcher, bench, gather_again, read_experiment, remarks
from gatelab.experiments.executors.local import LocalExecutor
from gatelab.experiments.plan import plan
from gatelab.experiments.results import read_results
from gatelab.report.words.findings import findings
from gatelab.training import Run, build, train
from gatelab.training.config import changed as config_changed
from gatelab.training.footprint import parameter_count

GATELAB = Path(sys.executable).with_name("gatelab")
SMALL = {
    "task": "digits:limit=100",
    "models": {"gru": {"hidden_size": 6}, "agru": {"hidden_size": 6, "gamma": 0.05, "learnable_epsilon": False}},
    "runs": 2,
    "training": {"num_epochs": 2, "batch_size": 32, "seed": 5},
}


def small(**changes) -> config.BenchSpec:
    return config.parse({**SMALL, **changes}, "here")


# What is planned.


def test_every_model_has_every_seed_and_all_else_is_the_same():
    runs = plan(small())
    assert [(run.model, run.seed) for run in runs] == [("gru", 5), ("agru", 5), ("gru", 6), ("agru", 6)]
    assert len({str(run.path) for run in runs}) == 4
    for run in runs:
        assert run.spec.training.seed == run.seed
        assert run.spec.task == tasks.get("digits:limit=100")
    agru = runs[1].spec.model
    assert str(agru.cell) == "agru"
    assert agru.options == {"gamma": 0.05, "learnable_epsilon": False}


def test_parameters_are_counted_as_they_are_made():
    for model in (
        {"cell": "gru"}, {"cell": "lstm", "num_layers": 2, "bidirectional": True}, {"cell": "agru", "num_layers": 3},
        {"cell": "agru", "options": {"learnable_epsilon": False}},
    ):  # fmt: skip
        spec = config.ModelSpec(hidden_size=9, **model)
        made = build.model(spec, tasks.get("digits"), 0)
        assert parameter_count(spec, tasks.get("digits")) == sum(p.numel() for p in made.parameters())


def test_matched_models_have_nearly_the_same_number_of_parameters():
    models = {"gru": {"hidden_size": 64}, "lstm": {"hidden_size": 64}, "rnn": {"hidden_size": 64}}
    spec = small(models=models, match="parameters")
    counts = {run.model: parameter_count(run.spec.model, spec.task) for run in plan(spec)}
    assert counts["gru"] == parameter_count(spec.models["gru"], spec.task)
    for count in counts.values():
        assert abs(count - counts["gru"]) / counts["gru"] < 0.02
    sizes = {run.model: run.spec.model.hidden_size for run in plan(spec)}
    assert sizes["lstm"] < 64 < sizes["rnn"]


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_ready_config_is_right(path):
    for spec in config.load(path).values():
        trials = spec.tune.trials if spec.tune else 0
        assert len(plan(spec)) == (trials + spec.runs) * len(spec.models)
    command = "ablate" if path.stem.startswith("ablation") else "bench"
    assert f"gatelab {command} configs/{path.name}" in path.read_text()


def test_a_config_with_the_keys_of_the_benchmark_runs_unchanged():
    text = {
        "training": {"num_epochs": 50, "batch_size": 128, "seed": 42},
        "optimization": {"optimizer": "adam", "learning_rate": 0.001},
        "models": {
            "LSTM": {"enabled": True, "hidden_size": 128, "dropout": 0.0},
            "GRU": {"enabled": False, "hidden_size": 128},
            "A-GRU": {"enabled": True, "hidden_size": 128, "gamma": 0.01, "epsilon": 1.0, "learnable_epsilon": True},
        },
    }
    spec = config.parse(text, "here")
    assert {name: str(model.cell) for name, model in spec.models.items()} == {"LSTM": "lstm", "A-GRU": "agru"}
    assert spec.models["A-GRU"].options == {"gamma": 0.01, "epsilon": 1.0, "learnable_epsilon": True}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": {}}, "models: this is {}: expected models by name"),
        ({"models": {"gru": {"enabled": False}}}, "models: all models have enabled: false"),
        ({"models": {"gruu": {}}}, "models.gruu.cell: unknown cell 'gruu'; did you mean 'gru'"),
        ({"models": {"gru": {"hiden_size": 3}}}, "models.gru.hiden_size: unknown key 'hiden_size'; did you mean"),
        ({"models": {"gru": {"gamma": 0.1}}}, "models.gru.gamma: unknown key 'gamma'"),
        ({"models": {"gru": {"dropout": 0.2}, "lstm": {}}}, "models.gru.dropout: acts between layers and does"),
        (
            {"models": {"gru": {}, "again": {"cell": "gru"}}},
            "models.again: this is the same model as 'gru', after defaults",
        ),
        (
            {"models": {"agru": {}, "again": {"cell": "agru", "epsilon": 1.0, "gamma": 0.01}}},
            "models.again: this is the same model as 'agru', after defaults",
        ),
        ({"model": "gru"}, "model: this is 'gru': expected keys that all models share"),
        ({"models": {"gru": {"freeze": ["b.q"]}}}, "models.gru.freeze: unknown parameter"),
        ({"models": {"gru": {"enabled": "maybe"}}}, "models.gru.enabled: this is 'maybe': expected true or false"),
        ({"models": {"gru": 7}}, "models.gru: this is 7"),
        ({"models": {"../gru": {}}}, "models.../gru: names of models are used as file names"),
        ({"models": {"_gru": {"cell": "gru"}}}, "models._gru: names of models are used as file names"),
        ({"models": {"gru": {}, "rnn": {"enabled": False}}, "base": "rnn"}, "base: the model 'rnn' has enabled: false"),
        ({"models": {"gru": {"enabled": None}}}, "models.gru.enabled: this is None: expected true or false"),
        ({"models": {"gru": {"hidden_size": None}}}, "models.gru.hidden_size: this is None: expected an integer"),
        ({"model": {"gate_bias": 1.0}, "models": {"gru": {"gate_bias": {"q": 1}}}}, "models.gru.gate_bias"),
        ({"models": {"agru": {"gamma": 0.1, "options": 5}}}, "models.agru.options: this is 5: expected values by name"),
        ({"ablation": True}, "ablation: only a config with `arms` or `factors` is an ablation"),
        ({"models": {"agru": {"gama": 0.1}}}, "models.agru.gama: unknown key 'gama'; did you mean 'gamma'?"),
        (
            {"models": {"agru": {"gamma": 1, "options": {"gamma": 2}}}},
            "given here and under options: remove one of them",
        ),
        ({"runs": 0}, "runs: this is 0: expected greater than or equal to 1"),
        ({"match": "size"}, "match: this is 'size'"),
        ({"modles": {}}, "unknown key 'modles'; did you mean 'models'"),
        ({"task": "sine", "models": {"gru": {"bidirectional": True}}}, "models.gru.bidirectional: a backward"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes, message):
    with pytest.raises(ValueError, match="here") as raised:
        small(**changes)
    assert message in str(raised.value)


# What is executed.


def test_what_the_command_line_says_of_all_models_goes_over_their_own():
    content = {**SMALL, "model": {"hidden_size": 4}}
    spec = config.parse(content, "here", changes={("model", "hidden_size"): 4})
    assert [model.hidden_size for model in spec.models.values()] == [4, 4]
    assert [model.hidden_size for model in config.parse(content, "here").models.values()] == [6, 6]
    own = {"a": {"cell": "agru", "epsilon": 0.5}, "b": {"cell": "agru", "gamma": 0.3, "options": {"epsilon": 0.6}}}
    for change in (("model", "epsilon"), ("model", "options", "epsilon")):
        spec = config.parse(config_changed({**SMALL, "models": own}, {change: 0.1}), "here", changes={change: 0.1})
        assert [m.options for m in spec.models.values()] == [{"epsilon": 0.1}, {"gamma": 0.3, "epsilon": 0.1}]
    with pytest.raises(ValueError, match=r"^the command line: model.hidden_size: this is 0: expected [^\n]*$"):
        config.parse({**SMALL, "model": {"hidden_size": 0}}, "here", changes={("model", "hidden_size"): 0})


@pytest.fixture(scope="module")
def done(tmp_path_factory, here) -> Path:
    """The first seed in two processes, the second here, which is quicker."""
    directory = tmp_path_factory.mktemp("bench") / "experiment"
    bench(small(runs=1), directory, LocalExecutor(2))
    bench(small(), directory, here)
    return directory


def test_runs_are_those_of_the_loop_to_the_bit(done, tmp_path):
    run = plan(small())[0]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    alone = train(run.spec, tmp_path / "alone").run
    torch.set_num_threads(threads)
    ours, theirs = load_file(done / run.path / "best.safetensors"), load_file(alone.best_path)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_the_results_are_all_there(done):
    results = read_results(done)
    assert results.metric == "accuracy"
    for model in results.models.values():
        assert model.counts == {"done": 2}
        values = [run.metrics["accuracy"] for run in model.runs]
        assert model.summaries["accuracy"].mean == pytest.approx(sum(values) / 2)
        assert sum(map(sum, model.confusion)) == 2 * 360
        assert len(model.curves["validation_accuracy"]) == 2
    assert len(results.comparisons) == results.family.tests == 1
    sentences = findings(results)
    assert sentences[-1].endswith("; not tested with 2 seeds.")
    assert sentences[0].startswith("Trivial baseline (majority class of the training set, '0'): accuracy 10.00 %.")


def test_the_same_command_does_nothing_again_and_a_changed_one_is_refused(done):
    before = {path: path.stat().st_mtime_ns for path in done.rglob("manifest.json")}
    spent = read_experiment(done).seconds
    results = bench(small(), done, LocalExecutor(2))
    assert results.seconds >= spent > 0  # sessions add up
    assert {path: path.stat().st_mtime_ns for path in before} == before
    with pytest.raises(ValueError, match=r"holds another experiment: .*training\.num_epochs is 2 there and 3 now"):
        bench(small(training={"num_epochs": 3, "batch_size": 32, "seed": 5}), done, LocalExecutor(1))
    assert config.parse(read_experiment(done).spec.document(), "there") == small()


def test_seeds_and_models_can_be_added(done, tmp_path, here):
    done = shutil.copytree(done, tmp_path / "experiment")  # what is added is not there for other tests
    more = small(runs=3, models={**SMALL["models"], "rnn": {"hidden_size": 6}})
    before = {path: path.stat().st_mtime_ns for path in done.rglob("manifest.json")}
    results = bench(more, done, here)
    assert [model.counts for model in results.models.values()] == [{"done": 3}] * 3
    assert results.family.tests == 3
    assert {path: path.stat().st_mtime_ns for path in before} == before
    with pytest.raises(ValueError, match="another experiment: it also has the model rnn; runs is 3 there and 2 now"):
        bench(small(), done, LocalExecutor(1))
    alike = {**more.document()["models"], "copy": {"cell": "rnn", "hidden_size": 6, "dropout": 0.0, "engine": "eager"}}
    with pytest.raises(ValueError, match="the weights, outputs and gradients of 'rnn'"):
        bench(small(runs=3, models=alike), done, LocalExecutor(1))


def test_a_first_model_that_changes_all_sizes_leaves_everything_as_it_was(tmp_path, here):
    two = {"gru": {"hidden_size": 6}, "rnn": {}}
    bench(small(models=two, runs=1, match="parameters"), tmp_path / "experiment", here)
    before = (tmp_path / "experiment" / "experiment.json").read_bytes()
    with pytest.raises(ValueError, match=r"holds another run: model.hidden_size is 6 there and \d+ now"):
        bench(small(models={"lstm": {}, **two}, runs=1, match="parameters"), tmp_path / "experiment", here)
    assert (tmp_path / "experiment" / "experiment.json").read_bytes() == before


def test_results_can_be_gathered_again_from_the_runs_alone(done):
    before = (done / "results.json").read_bytes()
    (done / "results.json").unlink()
    gather_again(done)
    assert (done / "results.json").read_bytes() == before
    assert read_results(done).seconds > 0


def test_a_directory_with_something_else_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="holds files, and no experiment"):
        bench(small(), tmp_path, LocalExecutor(1))
    with pytest.raises(DataError, match="does not hold an experiment"):
        read_experiment(tmp_path)
    with pytest.raises(ValueError, match="jobs is 0"):
        LocalExecutor(0)


class Ended(Watcher):
    """How runs ended."""

    def __init__(self) -> None:
        self.ended = []

    def finished(self, finished):
        self.ended.append((finished.run.model, finished.status, finished.reason))


def test_a_killed_run_is_resumed_by_its_worker_and_given_up_in_the_end(tmp_path, monkeypatch):
    training = {"num_epochs": 10, "batch_size": 8, "seed": 5, "threads": 1}
    spec = small(task={"name": told.TASK, "limit": 100}, training=training, runs=1)
    for name, value in told.at_batch(30, "kill", "/gru/seed-5", tmp_path / "kills", times=3).items():
        monkeypatch.setenv(name, value)  # an epoch has 13 batches
    watcher = Ended()
    results = bench(spec, tmp_path / "experiment", LocalExecutor(2), watcher)
    assert ("gru", "failed", "its process was killed by SIGKILL") in watcher.ended
    assert ("agru", "done", "") in watcher.ended
    assert findings(results)[0].startswith("gru, seed 5: failed (its process was killed by SIGKILL)")
    again = bench(spec, tmp_path / "experiment", LocalExecutor(2))
    assert again.models["gru"].counts == {"done": 1}
    assert len(Run(tmp_path / "experiment" / "runs" / "gru" / "seed-5").manifest().resumed) == 3


def test_a_diverged_run_is_reported_and_not_in_the_numbers(tmp_path, here):
    spec = small(
        models={"gru": {"hidden_size": 6}, "rnn": {"hidden_size": 6}}, task="adding:size=100,length=5", runs=1,
        optimization={"optimizer": "sgd", "learning_rate": 1e30, "clip_norm": None},
    )  # fmt: skip
    results = bench(spec, tmp_path / "experiment", here)
    assert results.models["gru"].counts == {"diverged": 1}
    sentences = findings(results)
    assert sentences[0].startswith("gru, seed 5: diverged (the ")
    assert "No run has finished: there is nothing to compare." in sentences


def test_a_bench_of_which_nothing_came_fails_and_cells_of_ones_own_can_be_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = (
        "from gatelab import cell, tanh\n\n\n@cell\ndef tiny(x, h, W, U, b):\n    return tanh(W.h(x) + U.h(h) + b.h)\n"
    )
    Path("mine.py").write_text(own)
    command = ["bench", "--task", "adding:size=100,length=5", "--cells", "mine.py:tiny, mgu", "--hidden-size", "3"]
    command += ["--runs", "1", "--epochs", "1", "--output-dir", "out", "--set", "optimization.clip_norm=null"]
    command += ["--set", "model.engine=eager"]  # no kernel has to be compiled for it
    wild = ["--set", "optimization.optimizer=sgd", "--set", "optimization.learning_rate=1e30"]
    done = CliRunner().invoke(app, [*command, *wild])
    assert done.exit_code == 1
    assert "tiny, seed 0: diverged" in done.stdout
    assert read_experiment(Path("out")).spec.models["tiny"]["cell"] == "mine.py:tiny"
    done = CliRunner().invoke(app, ["bench", "--cells", "gru,mine.py:gru"])
    assert (
        str(done.exception) == "--cells gru,mine.py:gru has two models named gru: give them different names in a config"
    )


def test_a_second_bench_in_the_same_directory_is_refused(tmp_path):
    raised = []

    class Second(Watcher):
        def start(self, runs, ended, directory):
            def try_it():
                with pytest.raises(ValueError, match="another process is training in"):
                    bench(small(), directory, LocalExecutor(1))
                raised.append(True)

            thread = threading.Thread(target=try_it)
            thread.start()
            thread.join()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench(small(), tmp_path / "experiment", LocalExecutor(1), Second())
    assert raised == [True]


def test_ctrl_c_stops_and_the_same_command_goes_on_to_the_bit(tmp_path, here, cli):
    training = {"num_epochs": 10, "batch_size": 8, "seed": 5, "threads": 1}
    longer = {**SMALL, "task": {"name": told.TASK, "limit": 100}, "training": training, "runs": 1}
    (tmp_path / "c.yaml").write_text(json.dumps(longer))
    command = ["bench", str(tmp_path / "c.yaml"), "--output-dir", str(tmp_path / "pieces")]
    once = told.at_batch(30, "interrupt", "/gru/seed-5", tmp_path / "once")  # in the third epoch
    alone = {"start_new_session": True, "stdout": subprocess.DEVNULL}
    assert subprocess.run([GATELAB, *command], env={**os.environ, **once}, **alone).returncode == 130
    stopped = Run(tmp_path / "pieces" / "runs" / "gru" / "seed-5")
    assert (stopped.manifest().status, len(stopped.metrics())) == ("interrupted", 2)
    code, out, err = cli(*command)
    assert code == 0, err
    assert "The report is in" in out
    bench(config.parse(longer, "here"), tmp_path / "whole", here)
    for model in ("gru", "agru"):
        ours, theirs = (
            load_file(tmp_path / n / "runs" / model / "seed-5" / "best.safetensors") for n in ("pieces", "whole")
        )
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


# What can go wrong around it.


def test_workers_save_and_stop_when_the_bench_is_killed(tmp_path):
    longer = {**SMALL, "models": {"gru": {"hidden_size": 6}}, "runs": 1}
    longer["training"] = {"num_epochs": 1_000_000, "batch_size": 8, "seed": 5}
    (tmp_path / "c.yaml").write_text(json.dumps(longer))
    place = tmp_path / "experiment" / "runs" / "gru" / "seed-5"
    process = subprocess.Popen(
        [GATELAB, "bench", str(tmp_path / "c.yaml"), "--output-dir", str(tmp_path / "experiment")],
        stdout=subprocess.DEVNULL,
    )
    wait_for(lambda: (place / "checkpoint.safetensors").is_file())
    process.kill()
    process.wait()
    wait_for(lambda: Run(place).manifest().status == "interrupted")


def test_a_full_disk_is_named_and_nothing_is_lost(tmp_path, cli, monkeypatch):
    """The system refuses files above a size, as a full disk would: checkpoints are larger, texts are not."""
    monkeypatch.setenv("GATELAB_ENGINE", "eager")  # a kernel that is not there yet is larger, too
    (tmp_path / "c.yaml").write_text(json.dumps({**SMALL, "models": {"gru": {"hidden_size": 200}}, "runs": 1}))
    command = ["bench", str(tmp_path / "c.yaml"), "--output-dir", str(tmp_path / "experiment")]
    limited = ["bash", "-c", 'ulimit -f 64; exec "$@"', "-", str(GATELAB), *command]
    full = subprocess.run(limited, capture_output=True, text=True)
    assert full.returncode == 1
    assert "gru, seed 5: failed [Errno 27] File too large" in full.stdout
    assert not list((tmp_path / "experiment" / "runs").rglob(".*.*.????????"))  # nothing half written
    code, again, err = cli(*command)
    assert code == 0, err
    assert "1/1  gru, seed 5: done" not in full.stdout
    assert "gru | 1 of 1" in again


def test_matched_models_that_become_equal_are_refused():
    models = {"gru": {"hidden_size": 64}, "wide": {"cell": "gru", "hidden_size": 128}}
    with pytest.raises(ValueError, match=r"models\.wide: with match: parameters this becomes the same model as 'gru'"):
        plan(small(models=models, match="parameters"))


def test_too_few_seeds_are_remarked_upon_before_the_first_run():
    three = {"gru": {"hidden_size": 6}, "rnn": {"hidden_size": 6}, "lstm": {"hidden_size": 6}}
    (remark,) = remarks(small(models=three, runs=2), 3)
    assert remark == "with 2 seeds nothing is tested: use at least 3 (--runs 3)"
    (remark,) = remarks(small(models=three, runs=3), 3)
    assert remark.startswith("with 3 seeds and 3 tests a difference must be 3.")
    assert remark.endswith("to be detected with 50 % power; 4 seeds bring that below 3 (--runs 4)")
    assert not remarks(small(models=three, runs=5), 3)
    assert remarks(small(models=three, runs=5), 100)  # studies count together
    assert not remarks(small(models={"gru": {"hidden_size": 6}}, runs=1), 0)


def test_a_gate_that_is_held_where_nothing_passes_is_remarked_upon():
    plain = {key: value for key, value in SMALL.items() if key != "models"} | {"runs": 7}
    arms = {"frozen": {"remove": {"z": 1}}, "amnesic": {"remove": {"z": 0}}, "half": {"remove": {"z": 0.5, "r": 1}}}
    assert remarks(config.parse({**plain, "arms": arms}, "here"), 3) == [
        "frozen holds z at 1, which blocks new content",
        "amnesic holds z at 0, which blocks the old state",
    ]


def test_a_copied_experiment_needs_neither_the_users_cell_nor_their_data(tmp_path, here):
    (tmp_path / "mine.py").write_text(
        "from gatelab import cell, tanh\n\n\n@cell\ndef tiny(x, h, W, U, b):\n    return tanh(W.h(x) + U.h(h) + b.h)\n"
    )
    rows = "\n".join(f"{i % 7},{(i * 3) % 5}" for i in range(200))
    (tmp_path / "mine.csv").write_text(f"a,b\n{rows}\n")
    spec = small(
        task={"name": "files", "path": str(tmp_path / "mine.csv"), "length": 10}, runs=1,
        models={"tiny": {"cell": f"{tmp_path / 'mine.py'}:tiny", "hidden_size": 3}, "rnn": {"hidden_size": 4}},
    )  # fmt: skip
    bench(spec, tmp_path / "experiment", here)
    for name in ("mine.py", "mine.csv"):
        (tmp_path / name).unlink()
    (tmp_path / "experiment").rename(tmp_path / "copy")
    gather_again(tmp_path / "copy")
    assert read_results(tmp_path / "copy").models["tiny"].counts == {"done": 1}
