"""Whatever comes is read right or refused in words: a small part of the campaign, and what once hung or crashed."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
from places import CAMPAIGNS

from gatelab import sealed, tasks
from gatelab.cli import app
from gatelab.cli.settings import integer
from gatelab.data.formats import read_table
from gatelab.engine.fused import files
from gatelab.errors import DataError, GatelabError
from gatelab.experiments import config as experiments
from gatelab.experiments.claims import Claims
from gatelab.experiments.executors.local import LocalExecutor
from gatelab.experiments.plan import plan
from gatelab.training import Run, config

CAMPAIGN = CAMPAIGNS / "hostile.py"


@pytest.fixture(autouse=True)
def _in_time():
    """What waits for a pipe would wait forever."""

    def late(number, frame):
        pytest.fail("this took more than a minute")  # no Exception: nobody takes it for a file that cannot be read

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not CAMPAIGN.is_file(), reason="the benchmarks are not here: this is a distribution of the source")
def test_a_part_of_the_campaign():
    command = [sys.executable, str(CAMPAIGN), "--count", "30", "--seed", "1", "--without-runs"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 findings" in done.stdout


# Configs.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {gate_bias: {z: 1e300}}", "gate_bias 'z' is 1e+300: expected a finite number in the range of float32"),
        ("model: {freeze: [b.z], freeze_at: 1e300}", "range of float32"),
        ("model: {cell: agru, options: {gamma: 1e300}}", "range of float32"),
        ("model: {gate_bias: {z: true}}", "model.gate_bias: expected numbers by name, not true or false"),
        ("model: {hidden_size: 1.5}", "model.hidden_size: this is 1.5: expected an integer"),
        ("model: {hidden_size: .nan}", "model.hidden_size"),
        ("training: {threads: 100000}", "training.threads: this is 100000: expected less than or equal to 1024"),
        ("training: {seed: 18446744073709551616}", "training.seed"),
        ("training: {batch_size: 1e300}", "training.batch_size"),
        ("task: {name: digits, seed: 1e30}", "task.seed"),
        ("task: {name: sine, noise: true}", "task.noise: expected a value of another kind"),
        (
            "task: {name: sine, length: 1e9}",
            "for windows of 1000000000 steps in training, validation and test set; choose a smaller length",
        ),
        ("task:", "task: a task needs a name"),
        ("task: []", "task: a task needs a name"),
        ("model:", "model: this is None: expected keys such as cell"),
        (f"model: {{cell: {'a' * 10_000}}}", "10,002 characters)"),
        ("".join(f"k{i}: 1\n" for i in range(500)), "… and 470 more problems"),
    ],
)
def test_configs(tmp_path, text, message):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(GatelabError) as raised:
        config.load(path)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)
    assert len(str(raised.value)) < 10_000


@pytest.mark.parametrize("key", ["runs: 1e9", "runs: .inf", "training: {seed: 9223372036854775807}"])
def test_numbers_of_runs(tmp_path, key):
    path = tmp_path / "config.yaml"
    path.write_text(f"task: digits\nmodels: {{gru: {{}}, rnn: {{}}}}\n{key}\n")
    with pytest.raises(GatelabError, match=r"config\.yaml:3: (runs|training\.seed): "):
        experiments.load(path)


def test_a_number_is_a_number_everywhere(tmp_path, cli):
    path = tmp_path / "config.yaml"
    path.write_text("model: {hidden_size: 1e2}\noptimization: {learning_rate: 1e-2}\ntraining: {seed: '1e1'}")
    spec = config.load(path)
    assert (spec.model.hidden_size, spec.optimization.learning_rate, spec.training.seed) == (100, 0.01, 10)
    task = tasks.get("sine:noise=1e-2,duration=1e3")
    assert (task.noise, task.duration) == (0.01, 1000)
    with pytest.raises(GatelabError, match=r"duration is 1000\.5: expected an integer"):
        tasks.get("sine:duration=1000.5")
    code, out, _ = cli("tasks", "adding:size=1e2,length=1e1")
    assert code == 0
    assert "100 training" in out
    code, _, err = cli("train", "--hidden-size", "1e1.5")
    assert code == 2
    assert "not an integer" in err
    for command in app.registered_commands:  # every integer option has this parser
        for name, hint in get_type_hints(command.callback, include_extras=True).items():
            if int in (getattr(hint, "__origin__", None), *get_args(getattr(hint, "__origin__", None))):
                assert hint.__metadata__[0].parser is integer, f"gatelab {command.name} --{name}"
    code, _, err = cli("train", path, "--set", "model.hidden_size=1e-2", "--output-dir", tmp_path / "run")
    assert code == 2
    assert "the command line: model.hidden_size: this is 0.01" in err


# Pipes, devices and links, in every place where a file is read.


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def device(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


def loop(path: Path) -> Path:
    path.symlink_to(path.name)
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize("make", [pipe, device, loop, folder])
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("c.yaml", ("train", "FILE")),
        ("c.yaml", ("bench", "FILE")),
        ("c.yaml", ("ablate", "FILE")),
        ("c.py", ("cells", "FILE:mine")),
        ("c.csv", ("tasks", "files:path=FILE")),
        ("c.parquet", ("tasks", "files:path=FILE")),
        ("c.npz", ("tasks", "files:path=FILE")),
        ("c.npz", ("verify", "FILE")),
        ("c.npz", ("inspect", "FILE")),
        ("c.npz", ("report", "FILE")),
        ("c.npz", ("train", "--resume", "FILE")),
    ],
)
def test_what_is_no_regular_file_is_refused(tmp_path, cli, make, name, command):
    path = make(tmp_path / name)
    code, _, err = cli(*(word.replace("FILE", str(path)) for word in command))
    assert code == 2, err
    if command[0] == "tasks" and make in (pipe, device):
        assert "is a pipe or a device: expected a regular file" in err
    assert str(path) in err.replace("\n", "")
    assert "Traceback" not in err


@pytest.mark.parametrize("make", [pipe, device, loop])
@pytest.mark.parametrize("suffix", [".csv", ".npy"])
def test_in_a_folder_of_sequences(tmp_path, make, suffix):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(3):
            (tmp_path / name / f"{i}.csv").write_text("x\n1\n2\n")
    path = make(tmp_path / "a" / f"3{suffix}")
    with pytest.raises(DataError, match=str(path)):
        tasks.get("files", path=tmp_path).parts  # noqa: B018


@pytest.mark.parametrize("make", [pipe, loop, folder])
def test_in_the_cache_of_kernels(tmp_path, make):
    assert not files.is_intact(make(tmp_path / "gru.so"))


# Arrays.


def forged(shape: str, descr: str = "<f8") -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(48)


@pytest.mark.parametrize("shape", ["(1000000000000, 2)", f"({10**30},)", "(-1, 2)", "(3,", "('a',)", "(3, 3)"])
def test_a_header_that_lies_is_refused_before_anything_is_allocated(tmp_path, shape):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(3):
            np.save(tmp_path / name / f"{i}.npy", np.zeros((3, 2)))
    (tmp_path / "a" / "0.npy").write_bytes(forged(shape))
    with pytest.raises(DataError, match=r"0\.npy cannot be read as an \.npy array"):
        tasks.get("files", path=tmp_path).parts  # noqa: B018
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", forged(shape))
        archive.writestr("y.npy", forged("(6,)"))
    with pytest.raises(DataError, match=r"x\.npz cannot be read"):
        tasks.get("files", path=path).parts  # noqa: B018


def test_odd_archives(tmp_path):
    path, X = tmp_path / "x.npz", np.zeros((6, 3, 1))
    for compression in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        with zipfile.ZipFile(path, "w", compression) as archive:
            archive.writestr("X.npy", forged("(6,)"))
        with pytest.raises(DataError, match=r"x\.npz cannot be read.*a method that NumPy does not use"):
            tasks.get("files", path=path).parts  # noqa: B018
    ragged = np.empty(6, object)
    ragged[:] = [[1]] * 5 + [[1, 2]]
    np.savez(path, X=ragged, y=np.arange(6))
    with pytest.raises(DataError, match="Python objects"):
        tasks.get("files", path=path).parts  # noqa: B018
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", forged("(6,)"))
        archive.writestr("X", forged("(6,)"))
    with pytest.raises(DataError, match="the array 'X' twice"):
        tasks.get("files", path=path).parts  # noqa: B018
    np.savez(path, X=X, y=np.frombuffer(np.array([0x7FFFFFFF, 65] * 3, np.int32).tobytes(), "<U1"))
    with pytest.raises(DataError, match="code points that are not characters"):
        tasks.get("files", path=path).parts  # noqa: B018


def test_messages_are_bounded_whatever_they_quote(tmp_path, cli):
    path = tmp_path / "x.npz"
    np.savez(path, **{f"array {i}": np.zeros(0) for i in range(3000)})
    code, _, err = cli("tasks", f"files:path={path}")
    assert (code, len(err) < 2000) == (2, True)
    assert "array 39, … (3,000 in all): expected X and y, X and y missing" in err
    given = "a" * 100_000
    said = str(GatelabError(f"this is {given}: expected b; do c"))
    assert len(said) < 7000
    assert said.startswith("this is aaa")
    assert said.endswith("aaa: expected b; do c")
    assert " characters left out) " in said


READERS = {
    ".ts": lambda path: tasks.get("files", path=path).parts,
    ".csv": lambda path: tasks.get("files", path=path).parts,
    ".parquet": lambda path: tasks.get("files", path=path).parts,
    ".txt": lambda path: tasks.get("text", path=path).parts,
    ".npy": sealed.plain_array,
    ".json": sealed.read_json,
    ".jsonl": sealed.read_lines,
    ".safetensors": sealed.read_tensors,
}


@pytest.mark.parametrize("suffix", READERS)
def test_a_file_larger_than_the_memory_is_refused_before_it_is_read(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    with path.open("wb") as file:
        file.truncate(1 << 42)  # a sparse file: 4 TB of zeros, and nothing on the disk
    with pytest.raises(GatelabError, match=rf"^{re.escape(str(path))}, a file of 4\.4 TB, needs about .*: split it"):
        READERS[suffix](path)


# Tables.


@pytest.mark.parametrize("value", ["1e400", "1_000", "1\0", "9" * 200_000, "x" * 200_000, "5%"])
def test_cells_of_a_table(tmp_path, value):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a", *map(str, range(50)), value, *map(str, range(50))]))
    with pytest.raises(DataError, match=r"t\.csv"):
        read_table(path).pick(("a",))


def test_many_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\n".join([",".join(f"c{i}" for i in range(5000)), ",".join("1" * 5000), ",".join("2" * 5000)]))
    table = read_table(path)
    assert table.pick(tuple(table.columns)).shape == (2, 5000)


@pytest.mark.parametrize("text", ["1," * 100_000, "\n".join([",".join("12" * 10_000)] * 3)])
def test_a_table_of_many_columns_is_refused_in_time(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    begin = time.process_time()
    with pytest.raises(DataError, match="rows: expected at least 339"):
        tasks.get("files", path=path).parts  # noqa: B018
    assert time.process_time() - begin < 60  # it takes two; it took minutes
    path.write_text("1," * 300_000)
    with pytest.raises(DataError, match="line 1: 300,001 cells: expected at most 200,000 columns"):
        read_table(path)


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"a": [[{"b": [1]}]] * 3, "v": [1.0, 2.0, 3.0]}), path)
    assert set(read_table(path).numbers) == {"v"}
    late = pyarrow.array([2_932_897] * 9, pyarrow.int32()).view(pyarrow.date32())  # 1 January 10000
    parquet.write_table(pyarrow.table({"day": late, "v": [1.0] * 9}), path)
    with pytest.raises(DataError, match=r"t\.parquet, column 'day', date32\[day\]: .*: expected dates of the years"):
        read_table(path)
    parquet.write_table(pyarrow.Table.from_arrays([pyarrow.array([1])] * 2, ["v", "v"]), path)
    with pytest.raises(DataError, match=r"t\.parquet: the header has 'v' twice"):
        read_table(path)


# Workers.


def finished(tmp_path, text: str) -> tuple[str, str]:
    """The reason that is shown, and the log, of a run whose data is this file by the time its worker starts."""
    path = tmp_path / "t.csv"
    path.write_text("a\n" + "\n".join(str(i % 7) for i in range(200)))
    given = {"task": f"files:path={path},length=5", "models": {"rnn": {"hidden_size": 3}}, "runs": 1}
    runs = plan(experiments.parse(given, "here"))
    path.write_text(text)
    (end,) = LocalExecutor(1).execute(runs, tmp_path / "out", lambda: None)
    assert end.status == "failed"
    return end.reason, (tmp_path / "out" / runs[0].path / "log.txt").read_text()


def test_a_worker_says_in_words_what_is_wrong_with_the_input(tmp_path):
    reason, log = finished(tmp_path, "a\n1\n")
    assert str(tmp_path / "t.csv") in reason
    assert "expected at least" in reason
    assert "Traceback" not in log
    assert "bug" not in log


def test_a_worker_shows_a_bug_with_its_traceback(tmp_path):
    """A module that breaks in the worker alone."""
    run = tmp_path / "run"
    run.mkdir()
    script = (
        "import sys; sys.argv = ['run', sys.argv[1]]; import gatelab.experiments.run_process as worker\n"
        "worker.train = lambda *_, **more: 1 / 0\nworker.main()"
    )
    claim = Claims(tmp_path).take(Path("run"))
    assert claim is not None
    job = json.dumps({"threads": 1, "spec": {"task": "digits"}, "claim": claim.handed_over()}) + "\n"
    with (run / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(run)], stdin=subprocess.PIPE, stdout=log, stderr=log, text=True
        )
        assert process.stdin is not None
        process.stdin.write(job)
        process.stdin.flush()
        assert process.wait() == 70
        process.stdin.close()
    text = (run / "log.txt").read_text()
    assert "Traceback" in text
    assert "ZeroDivisionError" in text
    assert Run(run).last_log_line().startswith("this is a bug in gatelab")


def test_a_file_of_cells_cannot_end_the_program(tmp_path, cli):
    path = tmp_path / "c.py"
    for text in ("raise SystemExit(0)", "class E(BaseException): pass\nraise E", "x = '\0'"):
        path.write_text(text)
        code, _, err = cli("cells", f"{path}:mine")
        assert code == 2
        assert str(path) in err
