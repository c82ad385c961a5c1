"""Memory is estimated before it is asked for: estimates are near what is measured; what cannot fit is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from places import ROOT

from gatelab import memory, sealed, tasks
from gatelab.errors import DataError, GatelabError
from gatelab.training import config, footprint, train

# A small run first, for libraries and the kernel; then what is measured, from the peak of memory.
MEASURE = """
import json, sys, tempfile
from pathlib import Path
import torch
from gatelab.training import config, footprint, train

def kilobytes(name):
    return int(Path("/proc/self/status").read_text().split(name + ":")[1].split()[0])

given = json.loads(sys.argv[1])
spec = config.parse(given, "the test")
small = {"task": "digits:limit=50", "model": {**given["model"], "hidden_size": 4}, "training": {"num_epochs": 1}}
train(config.parse(small, "the test"), tempfile.mkdtemp() + "/small")
data, before = spec.task.data_bytes(), kilobytes("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
spec.task.parts
of_data, before_run = kilobytes("VmHWM") - before, kilobytes("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
train(spec, tempfile.mkdtemp() + "/run")
of_run = kilobytes("VmHWM") - before_run
print(json.dumps([data, of_data * 1024, sum(footprint.estimate(spec)), of_run * 1024]))
"""


def measured(task: str, batch_size: int, **model: object) -> list[int]:
    given = {"task": task, "model": model, "training": {"num_epochs": 1, "batch_size": batch_size, "threads": 1}}
    done = subprocess.run([sys.executable, "-c", MEASURE, json.dumps(given)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is not known here")
@pytest.mark.parametrize(
    ("task", "batch_size", "model"),
    [
        ("digits", 512, {"cell": "gru", "hidden_size": 1000}),  # parameters
        ("digits:order=pixels,limit=600", 600, {"cell": "gru", "hidden_size": 256}),  # activations
        ("digits:order=pixels,limit=600", 600, {"cell": "lstm", "hidden_size": 256, "engine": "eager"}),
        ("copy:size=1500,pause=2000", 64, {"cell": "lstm", "hidden_size": 32}),  # data, and a target per step
    ],
)
def test_estimates_are_near_what_is_measured(task, batch_size, model):
    data, of_data, run, of_run = measured(task, batch_size, **model)
    assert 1 / 2.5 < run / of_run < 2.5, (run, of_run)
    if of_data > 50e6:  # small amounts are lost in what the allocator keeps
        assert 1 / 2.5 < data / of_data < 2.5, (data, of_data)


def spec(**changes: object) -> object:
    given = {"task": "digits", "model": {"engine": "eager", "hidden_size": 8}, "training": {"num_epochs": 1}}
    return config.parse(config.changed(given, {tuple(k.split(".")): v for k, v in changes.items()}), "here")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.hidden_size": 10**9}, r"the run needs about .* EB of memory.*available: make model\.hidden_size"),
        ({"model.hidden_size": 10**6}, r"TB of memory.*model\.hidden_size \(1,000,000\)"),
        ({"task": "digits:noise_pad=1000000000"}, r"the data of the task 'digits' needs.*noise_pad \(1,000,000,000\)"),
        ({"task": "recall:delay=1000000000"}, r"option delay \(1,000,000,000\) smaller"),
        ({"task": "adding:size=1000000000"}, r"option size"),
        ({"task": "sine:duration=100000000000"}, r"option duration"),
        ({"task": "agreement:gap=1000000000"}, r"option gap"),
        ({"task": "copy:pause=1000000000"}, r"option pause"),
    ],
)
def test_what_cannot_fit_is_refused_before_it_is_allocated(tmp_path, changes, message):
    with pytest.raises(memory.MemoryLimitError, match=message):
        train(spec(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_available_memory_is_the_smallest_of_what_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_cgroups", list)
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 100000\n")
    names = ("memory.max", "memory.current", "inactive_file")
    monkeypatch.setattr(memory, "_cgroups", lambda: [(tmp_path, names)])
    assert memory.available() == 700_000
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "meminfo").write_text("MemTotal:       9000 kB\nMemFree:  500 kB\nMemAvailable:      600 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    assert memory.available() == 600 * 1024
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "nothing")
    monkeypatch.setattr(memory, "_left_of_own_limit", lambda: None)
    assert memory.available() is None
    memory.refuse(1, "nothing", "")


def test_a_limit_of_the_process_counts():
    """As `ulimit -v` sets it, and the campaign of hostile input."""
    resource = pytest.importorskip("resource")
    script = (
        "import resource; from gatelab import memory; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)); "
        "print(memory.available())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert resource
    assert 0 < int(done.stdout) < 2 << 30


def test_existing_configs_fit():
    for path in sorted(ROOT.glob("configs/*.yaml")):
        from gatelab.experiments import config as experiments

        for study in experiments.load(path).values():
            if study.task.is_here():
                for model in study.models.values():
                    run = spec().model_copy(update={"task": study.task, "model": model, "training": study.training})
                    assert sum(footprint.estimate(run)) < 2e9


def test_amounts_are_for_people():
    assert [memory.amount(n) for n in (5_000, 2_500_000, 3 * 10**9, 10**13)] == ["5 kB", "2.5 MB", "3.0 GB", "10.0 TB"]
    with pytest.raises(GatelabError, match="EB"):
        memory.refuse(10**20, "this", "make it smaller")
    assert tasks.get("digits").data_bytes() < 10**7


@pytest.mark.parametrize(("name", "factor"), [("t.csv", 20), ("t.ts", 20), ("t.txt", 12)])
def test_what_a_reader_makes_of_a_file_counts(tmp_path, monkeypatch, name, factor):
    """Cells and tokens take many times the bytes of their text."""
    path = tmp_path / name
    rows = "".join(f"{i % 7},{i % 5}\n" for i in range(2000))
    path.write_text(rows if name != "t.ts" else "@classLabel true 0 1\n@data\n" + "1,2,3:0\n1,2,4:1\n" * 1000)
    task = "text" if name == "t.txt" else "files"
    size = path.stat().st_size
    monkeypatch.setattr(memory, "available", lambda: factor * size - 1)
    with pytest.raises(memory.MemoryLimitError, match=rf"{name}, a file of .* needs about .*: split it"):
        tasks.get(task, path=path).content  # noqa: B018
    monkeypatch.setattr(memory, "available", lambda: factor * size + 10**6)
    assert tasks.get(task, path=path).content is not None


def test_what_reading_files_of_runs_takes_counts(tmp_path, monkeypatch):
    files = {name: tmp_path / name for name in ("a.json", "a.jsonl", "a.safetensors")}
    sealed.write_json(files["a.json"], {"a": 1})
    sealed.write_lines(files["a.jsonl"], [{"a": 1}])
    sealed.write_tensors(files["a.safetensors"], {"a": torch.zeros(9)}, {})
    readers = {"a.json": (sealed.read_json, 4), "a.jsonl": (sealed.read_lines, 4)}
    readers["a.safetensors"] = sealed.read_tensors, 3
    for name, (read, factor) in readers.items():
        size = files[name].stat().st_size
        monkeypatch.setattr(memory, "available", lambda most=factor * size - 1: most)
        with pytest.raises(DataError, match=rf"{name}, a file of .* needs about .*: split it"):
            read(files[name])
        monkeypatch.setattr(memory, "available", lambda most=factor * size: most)
        read(files[name])


def test_a_file_for_which_there_is_no_memory_is_not_called_damaged(tmp_path, monkeypatch):
    def exhausted(*arguments, **more):
        raise MemoryError

    sealed.write_json(tmp_path / "a.json", {"a": 1})
    monkeypatch.setattr("gatelab.sealed.json.loads", exhausted)
    with pytest.raises(DataError, match=r"a\.json cannot be read: there is not enough memory for it here"):
        sealed.read_json(tmp_path / "a.json")
