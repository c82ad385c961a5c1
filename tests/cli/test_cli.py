"""The command line, as a user runs it."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gatelab
from gatelab import cells, tasks
from gatelab.cli import app, main
from gatelab.errors import DataError
from gatelab.report.words.cells import parameter_count
from gatelab.training import Run

GATELAB = Path(sys.executable).with_name("gatelab")


def environment() -> dict[str, str]:
    """As bare as a user's can be, but for the cache of this test run."""
    kept = {name: os.environ[name] for name in ("GATELAB_CACHE", "GATELAB_OFFLINE")}
    return {"PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "utf-8", "OMP_NUM_THREADS": "1", **kept}


def run(*arguments: str, columns: int = 100, code: int = 0) -> subprocess.CompletedProcess[str]:
    given = {**environment(), "COLUMNS": str(columns)}
    done = subprocess.run([GATELAB, *arguments], capture_output=True, text=True, env=given, check=False)
    assert done.returncode == code, done.stderr
    return done


def called(*arguments: str, columns: int = 100, code: int = 0) -> subprocess.CompletedProcess[str]:
    """The same in this process, since another takes seconds to start."""
    out, err, ended = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["gatelab", *arguments])
        patch.setenv("COLUMNS", str(columns))
        try:
            main()
        except SystemExit as end:
            ended = int(end.code or 0)
    assert ended == code, err.getvalue()
    return subprocess.CompletedProcess(arguments, ended, out.getvalue(), err.getvalue())


def test_cells_lists_all_and_fits_the_terminal():
    out = run("cells", columns=80).stdout
    for name in cells.names():
        assert name in out
        assert f"{parameter_count(cells.get(name), 28, 128):,}" in out
    assert "z (keeps)" in out
    assert "z (writes)" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("name", cells.names())
def test_cells_prints_the_equations_of_one(name):
    out = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["cells", name]).stdout
    for line in cells.get(name).text().splitlines():
        assert f"  {line}\n" in out
    assert cells.get(name).reference in out
    assert cells.get(name).convention in out


def test_cells_prints_latex():
    assert called("cells", "gru", "--latex").stdout.strip() == cells.gru.latex()
    assert "name it" in called("cells", "--latex", code=2).stderr


def test_tasks_lists_all_and_fits_the_terminal():
    out = called("tasks", columns=90).stdout
    for name in tasks.names():
        assert name in out
    assert "51,000 / 9,000 / 10,000" in out
    assert max(map(len, out.splitlines())) <= 90


def test_tasks_describes_one_and_draws_it(tmp_path):
    out = called("tasks", "recall:delay=7,size=50", "--show", str(tmp_path / "recall.png")).stdout
    for part in ("9 steps, each one of 17 tokens", "50 training, 10 validation, 10 test", "delay=7", "baseline"):
        assert part in out
    assert (tmp_path / "recall.png").stat().st_size > 10_000
    assert "path=…" in called("tasks", "files").stdout
    (tmp_path / "t.csv").write_text("t0,t1,t2,label\n" + "".join(f"{i},1,2,{i % 2}\n" for i in range(30)))
    own = called("tasks", f"files:path={tmp_path / 't.csv'},label=label", columns=200).stdout
    assert "label=label" in own
    assert "all options: gatelab tasks files" in own
    for other in ("  aggregate ", "  difference ", "  length=50 "):
        assert other in called("tasks", "files", columns=200).stdout
        assert other not in own
    assert "name it" in called("tasks", "--show", "x.png", code=2).stderr
    assert "did you mean 'delay'" in called("tasks", "recall:dely=7", code=2).stderr
    assert ".gif" in called("tasks", "recall", "--show", "recall.gif", code=2).stderr


def test_tasks_whose_data_is_missing_say_so(tmp_path, monkeypatch):
    monkeypatch.setenv("GATELAB_CACHE", str(tmp_path))
    monkeypatch.delenv("GATELAB_DATA", raising=False)
    described = CliRunner().invoke(app, ["tasks", "cifar10"]).stdout
    assert "not available yet; downloaded on first use" in described
    done = CliRunner().invoke(app, ["tasks", "cifar10", "--show", str(tmp_path / "x.png")])
    assert isinstance(done.exception, DataError)
    assert len(str(done.exception).splitlines()) == 3


TRAIN = ("train", "--task", "digits:limit=100", "--hidden-size", "8", "--epochs", "2", "--threads", "1")


def test_train_runs_and_is_not_run_twice(tmp_path):
    out = run(*TRAIN, "--seed", "7", "--output-dir", str(tmp_path / "run")).stdout
    for part in ("digits: gru, 506 parameters, seed 7, 1 thread", "epoch   2/2", "test (weights of epoch"):
        assert part in out
    again = called("train", "--resume", str(tmp_path / "run")).stdout
    assert f"{tmp_path}/run ended before (done, " in again
    assert "test (weights of epoch" in again
    assert "epoch   1/2" not in again
    different = called(*TRAIN, "--seed", "8", "--output-dir", str(tmp_path / "run"), code=2).stderr
    assert "training.seed is 7 there and 8 now" in different
    assert (
        "leave out all settings but --epochs"
        in called("train", "--resume", str(tmp_path), "--seed", "3", code=2).stderr
    )
    for epochs in ("-3", "99999999999"):
        refused = called("train", "--resume", str(tmp_path / "run"), "--epochs", epochs, code=2).stderr
        assert refused.startswith(f"gatelab: --epochs: num_epochs is {epochs}: expected "), refused


def test_train_reads_a_config_and_says_what_is_wrong_with_it(tmp_path):
    (tmp_path / "c.yaml").write_text(called("config").stdout)
    flags = ("--set", "task.limit=100", "--set", "model.hidden_size=8", "--epochs", "1", "--quiet", "--threads", "1")
    done = called("train", str(tmp_path / "c.yaml"), *flags, "--output-dir", str(tmp_path / "run"))
    assert done.stdout == ""
    assert Run(tmp_path / "run").spec().task.limit == 100
    (tmp_path / "c.yaml").write_text("model:\n  cel: gru\n")
    wrong = called("train", str(tmp_path / "c.yaml"), code=2).stderr
    assert f"{tmp_path}/c.yaml:2: model.cel: unknown key 'cel'; did you mean 'cell'?" in wrong
    assert "--set nonsense is not understood" in called("train", "--set", "nonsense", code=2).stderr
    assert "this is not YAML" in called("train", "--set", "model.gate_bias={z:1", code=2).stderr
    assert "length: 50" in called("config", "--task", "sine").stdout


def test_ctrl_c_stops_train_after_the_batch_and_says_how_to_go_on(tmp_path):
    command = [GATELAB, *TRAIN, "--epochs", "2000", "--output-dir", str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        for line in process.stdout:
            if line.startswith("epoch"):
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 130
    assert f"interrupted; resume with: gatelab train --resume {tmp_path}/run" in rest
    assert Run(tmp_path / "run").manifest().status == "interrupted"


def test_divergence_has_an_exit_code_of_its_own(tmp_path):
    flags = ("--set", "optimization.optimizer=sgd", "--set", "optimization.clip_norm=null", "--learning-rate", "1e30")
    adding = ("--task", "adding:size=100,length=5", *TRAIN[3:], *flags)
    out = called("train", *adding, "--output-dir", str(tmp_path / "run"), code=3).stdout
    assert "diverged: the " in out
    assert "gradient of " in out


def test_an_unknown_cell_is_one_line_and_exit_code_2():
    done = called("cells", "gruu", code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("gatelab: unknown cell 'gruu'; did you mean 'gru'?")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("word", "hint"),
    [("tune", "section `tune` in the config of `gatelab bench`"), ("resume", "train --resume RUN"), ("nonsense", "")],
)
def test_a_command_that_there_is_not_says_where_it_is(word, hint):
    said = " ".join(called(word, columns=200, code=2).stderr.split())
    assert f"No such command '{word}'." in said
    assert hint in said
    assert ("`gatelab" in said) == bool(hint)


def test_version_and_help_do_not_wait_for_torch():
    assert called("--version").stdout == f"gatelab {gatelab.__version__}\n"
    script = "import sys, gatelab.cli; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_package_exports_what_it_promises():
    for name in gatelab.__all__:
        assert getattr(gatelab, name) is not None
    assert set(gatelab.__all__) <= set(dir(gatelab))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gatelab.nothing  # noqa: B018
