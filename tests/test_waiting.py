"""How threads wait, and how many there are: settings that reach the OpenMP runtime before torch loads it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
import torch

from gatelab.engine import team
from gatelab.experiments.executors.local import LocalExecutor
from gatelab.training import process
from gatelab.training.run import Run
from gatelab.training.spec import TrainingSpec

CLEAN = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}


def answer(code: str, **environment: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env={**CLEAN, **environment}
    ).stdout.strip()


DESCRIBED = "from gatelab import waiting; import os; print(waiting.description(), os.environ.get('GOMP_SPINCOUNT'))"


@pytest.mark.parametrize(
    ("code", "environment", "wanted"),
    [
        (DESCRIBED, {}, "(True, 'idle threads sleep soon (GOMP_SPINCOUNT=3000)') 3000"),
        (DESCRIBED, {"OMP_WAIT_POLICY": "active"}, "as the environment says (OMP_WAIT_POLICY=active)') None"),
        (DESCRIBED, {"GOMP_SPINCOUNT": "7"}, "as the environment says (GOMP_SPINCOUNT=7)') 7"),
        (
            f"import torch; {DESCRIBED}",
            {},
            "(False, 'idle threads spin for long, since torch was imported before gatelab') None",
        ),
    ],
    ids=["first", "policy", "spins", "torch first"],
)
def test_what_is_in_force(code, environment, wanted):
    assert answer(code, **environment).endswith(wanted)


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell")
def test_idle_cores_are_those_that_nobody_uses():
    """A busy process takes one away. (Others may be busy too, so only the difference is certain.)"""
    code = "while True: pass"
    cores = len(os.sched_getaffinity(0))
    busy = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(cores)]
    try:
        time.sleep(0.3)
        assert team.idle_cores() < 0.5
    finally:
        for one in busy:
            one.kill()
            one.wait()
    assert 0 <= team.idle_cores() <= cores


@pytest.mark.parametrize(("idle", "wanted"), [(0.1, 1), (0.9, 1), (1.2, 1), (1.8, 2), (5.0, 2)])
def test_a_new_run_takes_idle_cores(idle, wanted, tmp_path, monkeypatch):
    monkeypatch.setattr(team, "idle_cores", lambda: idle)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with process.prepared(TrainingSpec(), Run(tmp_path)) as threads:
            assert threads == torch.get_num_threads() == wanted
        with process.prepared(TrainingSpec(threads=2), Run(tmp_path)) as threads:  # what was asked for
            assert threads == 2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_few_runs_share_the_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [LocalExecutor().threads_for(runs) for runs in (1, 3, 4, 8, 100)] == [8, 2, 2, 1, 1]
    assert [LocalExecutor(jobs=2).threads_for(runs) for runs in (1, 2, 100)] == [8, 4, 4]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert [LocalExecutor().threads_for(runs) for runs in (1, 2, 100)] == [3, 1, 1]
