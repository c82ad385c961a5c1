"""The threads of kernels: their own, or those of torch's OpenMP runtime. Bits depend on their number alone. How many
there are follows from the load of the machine.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from beside_eager import set_limits

from gatelab import Recurrent
from gatelab.engine import team
from gatelab.engine.fused import kernel as kernels
from gatelab.experiments.executors.local import LocalExecutor
from gatelab.models import SequenceClassifier
from gatelab.training import process

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}


@pytest.fixture(params=["own", "openmp"])
def layer_in_pool(request, monkeypatch):
    """Makes layers whose kernels have a new pool of threads."""
    before = torch.get_num_threads()
    pools = []

    def make(cell: str, *sizes: int) -> Recurrent:
        layer = Recurrent(cell, *sizes, engine="fused")
        library = kernels.kernel(layer.cell).library
        if not pools:
            monkeypatch.setattr(kernels, "settings_of_waiting", lambda: "decided" if request.param == "own" else "")
            library.new_pool.restype = ctypes.c_void_p
            pools.append(library.new_pool(ctypes.byref(kernels.PoolInputs.here())))
        library.use_pool(pools[0])
        return layer

    yield make
    torch.set_num_threads(before)
    kernels._kernel.cache_clear()  # loaded again, they have the pool of all


def results(layer: Recurrent, x: torch.Tensor) -> list[torch.Tensor]:
    layer.zero_grad()
    output = layer(x)[0]
    output.sin().sum().backward()
    return [output.detach(), *(p.grad.clone() for p in layer.parameters())]


def assert_same(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("threads", [2, 3, 17])
def test_the_caller_alone_computes_the_same_bits(layer_in_pool, threads):
    """Two threads of the program at once: one of them has the pool, the other does without."""
    layer, x = layer_in_pool("gru", 7, 40), torch.randn(70, 30, 7)
    torch.set_num_threads(threads)
    expected = results(layer, x)
    for _ in range(20):
        assert_same(results(layer, x), expected)
    # The weights are copied: gradients of one module in two threads would be added up.
    others = [layer_in_pool("gru", 7, 40) for _ in range(2)]
    found: list[list[list[torch.Tensor]]] = [[], []]

    def compute(k: int) -> None:
        torch.set_num_threads(threads)
        found[k] += [results(others[k], x) for _ in range(30)]

    for other in others:
        other.load_state_dict(layer.state_dict())
    running = [threading.Thread(target=compute, args=(k,)) for k in range(2)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert [len(each) for each in found] == [30, 30]
    for each in found:
        for again in each:
            assert_same(again, expected)


@pytest.mark.parametrize("cell", ["mingru", "gru"])
def test_a_team_computes_the_bits_of_one_thread(layer_in_pool, cell, monkeypatch):
    """So it may be dissolved on a busy machine. (Three rows cannot be divided evenly by these.)"""
    set_limits(monkeypatch, TEAM_BYTES=0, THREAD_WORK=1)
    layer, x = layer_in_pool(cell, 7, 70), torch.randn(3, 60, 7)
    torch.set_num_threads(1)
    expected = results(layer, x)
    for threads in (2, 4, 5):
        torch.set_num_threads(threads)
        assert_same(results(layer, x), expected)


def test_a_forked_process_has_threads_of_its_own(tmp_path):
    """Those of its parent do not exist there."""
    code = """
import os, gatelab, torch
torch.set_num_threads(3)
layer, x = gatelab.Recurrent("gru", 7, 40, engine="fused").requires_grad_(False), torch.randn(70, 30, 7)
expected = layer(x)[0].numpy()
if (child := os.fork()) == 0:  # torch's own operations would wait for threads of its parent
    ours = all((layer(x)[0].numpy() == expected).all() for _ in range(20))
    names = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 3
    os._exit(0 if ours and names >= 3 else 1)
assert os.waitpid(child, 0)[1] == 0
assert (layer(x)[0].numpy() == expected).all()
print("done")
"""
    done = subprocess.run([sys.executable, "-c", code], env=CLEAN, capture_output=True, text=True, timeout=1200)
    assert done.stdout == "done\n", done.stderr


@contextmanager
def all_cores_busy() -> Iterator[int]:
    """As many other processes as there are cores; yields their number."""
    cores = len(os.sched_getaffinity(0))
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield cores
    finally:
        for other in others:
            other.kill()
            other.wait()


BUSY = """
import torch, gatelab, os
torch.set_num_threads(2)
layer, x, A = gatelab.Recurrent("gru", 28, 128, engine="fused"), torch.randn(32, 28, 28), torch.randn(300, 300)
expected, before = layer(x)[0], len(os.listdir("/proc/self/task"))
while len(os.listdir("/proc/self/task")) < before + len(os.sched_getaffinity(0)) + 1:  # or until the test gives up
    A @ A
    assert torch.equal(layer(x)[0], expected)
    layer(x)[1].sum().backward()
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell how many threads there are")
def test_a_busy_machine_lets_threads_of_torch_sleep():
    """More threads of OpenMP than cores: that is when its runtime lets idle ones sleep soon."""
    with all_cores_busy() as cores:
        done = subprocess.run([sys.executable, "-c", BUSY], env=CLEAN, capture_output=True, text=True, timeout=1200)
    assert int(done.stdout or 0) >= cores + 1, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="torch has another OpenMP runtime")
def test_whoever_decides_how_threads_wait_is_respected(monkeypatch):
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    assert kernels.PoolInputs.here().parallel is not None, "torch has no OpenMP runtime"
    assert kernels.PoolInputs.here().cores is not None
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    assert (kernels.PoolInputs.here().parallel, kernels.PoolInputs.here().cores) == (None, None)
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")  # they spin: beside them ours would be slow
    assert kernels.PoolInputs.here().parallel is not None
    assert kernels.PoolInputs.here().cores is None


@pytest.mark.parametrize(
    ("options", "of_torch"),
    [({}, 1), ({"pool": "mean"}, 2), ({"num_layers": 2, "dropout": 0.5}, 2), ({"engine": "eager"}, 2)],
)
def test_threads_are_for_kernels_where_torch_has_little_to_do(options, of_torch):
    before = torch.get_num_threads()
    model = SequenceClassifier("gru", 4, 16, 3, **{"num_layers": 1, "dropout": 0.0, **options})
    torch.set_num_threads(2)
    try:
        with process.divided(model):
            assert (team.of_kernels(), torch.get_num_threads()) == (2, of_torch)
        assert (team.of_kernels(), torch.get_num_threads()) == (2, 2)
    finally:
        torch.set_num_threads(before)


def test_idle_cores_are_those_that_nobody_uses(tmp_path, monkeypatch):
    """As the system counts, in ticks: user, nice, system, idle, waiting for a disk, and more."""
    before = "cpu 9 9 9 9 9 0 0 0\ncpu0 10 0 0 500 0 0 0 0 5 0\ncpu1 20 0 0 400 7 0 0 0 0 0\ncpu2 5 5 5 5 5 5 5 5 0 0"
    after = "cpu 9 9 9 9 9 0 0 0\ncpu0 80 2 8 520 0 0 0 0 9 0\ncpu1 25 0 5 470 27 0 0 0 0 0\ncpu2 5 5 5 99 5 5 5 5 0 0"
    (tmp_path / "stat").write_text(before)
    monkeypatch.setattr(team, "STAT", str(tmp_path / "stat"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(time, "sleep", lambda _: (tmp_path / "stat").write_text(after))
    assert team.idle_cores() == pytest.approx(0.2 + 0.9)  # not that of others
    assert team.idle_cores() == 2  # in no time at all: unknown
    (tmp_path / "stat").unlink()
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert team.idle_cores() == 2


def test_idle_cores_are_some_of_those_that_this_process_may_use():
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert 0 <= team.idle_cores() <= cores


@pytest.mark.parametrize(("idle", "wanted"), [(0.1, 1), (0.9, 1), (1.2, 1), (1.8, 2), (5.0, 2)])
def test_a_new_run_takes_idle_cores(idle, wanted, tmp_path, monkeypatch):
    monkeypatch.setattr(team, "idle_cores", lambda: idle)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with process.prepared(None) as threads:
            assert threads == torch.get_num_threads() == wanted
        with process.prepared(2) as threads:  # what was asked for
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
