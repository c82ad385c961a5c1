"""Claims on runs: one holder at a time, death that is noticed, holders that are replaced and notice it."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from waiting import wait_for

from gatelab.experiments import claims, run_process
from gatelab.experiments.claims import Claims, adopted, newest

RUN = Path("runs/gru/seed-0")


def holder_elsewhere(claim: claims.Claim) -> None:
    """The claim as a process on another machine would have made it."""
    claim.path.write_text(json.dumps(asdict(replace(claim.holder, machine="another"))))


def held_by_a_dead_process(directory: Path) -> None:
    code = f"from gatelab.experiments.claims import Claims; from pathlib import Path; Claims(Path({str(directory)!r}))"
    subprocess.run([sys.executable, "-c", f"{code}.take(Path({str(RUN)!r}))"], check=True)


def test_a_run_has_one_holder_who_can_give_it_back(tmp_path):
    mine, others = Claims(tmp_path), Claims(tmp_path)
    assert mine.state(RUN) == "free"
    claim = mine.take(RUN)
    assert claim is not None
    assert others.state(RUN) == "held"
    assert others.take(RUN) is None
    assert others.holder(RUN).pid == os.getpid()
    claim.release()
    assert others.take(RUN) is not None


def _take_all(directory: str, start, taken, end) -> None:
    start.wait()
    mine = Claims(Path(directory))
    taken.put([number for number in range(40) if mine.take(Path(f"runs/r/{number}")) is not None])
    end.wait()  # a dead process loses what it holds


def test_of_many_processes_one_gets_each_run(tmp_path):
    context = multiprocessing.get_context("fork")
    start, taken, end = context.Event(), context.Queue(), context.Event()
    workers = [context.Process(target=_take_all, args=(str(tmp_path), start, taken, end)) for _ in range(6)]
    for worker in workers:
        worker.start()
    start.set()
    try:
        got = [taken.get(timeout=600) for _ in workers]
    finally:
        end.set()
    assert sorted(number for numbers in got for number in numbers) == list(range(40))
    for worker in workers:
        worker.join()


def test_a_process_that_died_here_is_replaced_at_once(tmp_path):
    held_by_a_dead_process(tmp_path)
    assert newest(tmp_path / "claims" / RUN).number == 1
    claim = Claims(tmp_path).take(RUN)
    assert claim is not None
    assert claim.path.name == "2"


def test_a_process_number_that_is_used_again_is_another_process(tmp_path):
    claim = Claims(tmp_path).take(RUN)
    claim.path.write_text(json.dumps(asdict(replace(claim.holder, started="12345"))))
    assert Claims(tmp_path).state(RUN) == "free"


def test_a_process_elsewhere_is_presumed_dead_after_a_minute_without_renewal(tmp_path, monkeypatch):
    claim = Claims(tmp_path).take(RUN)
    holder_elsewhere(claim)
    watching, clock = Claims(tmp_path), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    assert watching.state(RUN) == "held"
    clock[0] += claims.LEASE - 1
    assert watching.state(RUN) == "held"
    os.utime(claim.path, ns=(1, 1))  # renewed, by a clock that is years behind: only the change counts
    clock[0] += claims.LEASE - 1
    assert watching.state(RUN) == "held"
    clock[0] += claims.LEASE + 1
    assert watching.state(RUN) == "free"
    assert watching.take(RUN) is not None


def test_a_holder_that_wakes_up_again_sees_that_it_was_replaced(tmp_path, monkeypatch):
    first = Claims(tmp_path).take(RUN)
    holder_elsewhere(first)
    watching, clock, lost = Claims(tmp_path), [1000.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(claims, "clocks", lambda: (clock[0], 0.0))
    first.renewed = claims.clocks()
    watching.state(RUN)
    clock[0] += claims.LEASE + 1
    second = watching.take(RUN)
    assert first.is_lost()
    assert not second.is_lost()
    first.check(lambda: lost.append(True))
    assert lost == [True]
    first.release()  # removes nothing of the other's
    first.fail("no")
    assert Claims(tmp_path).state(RUN) == "held"
    second.release(ended=True)
    assert first.is_lost()  # even if there is no claim any more
    assert not list((tmp_path / "claims" / RUN).iterdir())


OVERTAKEN = """
import os, sys
from pathlib import Path
import gatelab.experiments.run_process as process

path = Path(sys.argv[1])

def train(*arguments, **more):  # meanwhile somebody else has taken the run over, and finished it
    for claim in (path.parent / "claims" / path.name).iterdir():
        claim.unlink()
    raise FileNotFoundError(2, "No such file or directory", str(path / "x"))

process.train = train
process.main()
"""


def test_a_process_whose_run_was_taken_from_it_has_lost_it_and_not_failed(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    claim = Claims(tmp_path).take(Path("run"))
    job = json.dumps({"threads": 1, "spec": {"task": "digits"}, "claim": claim.handed_over()})
    command = [sys.executable, "-c", OVERTAKEN, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        process.stdin.write(job + "\n")
        process.stdin.flush()  # and stays open: the parent is there
        assert process.wait(600) == run_process.LOST


@pytest.mark.parametrize("clock", [0, 1])
def test_a_holder_whose_machine_slept_asks_before_it_goes_on(tmp_path, monkeypatch, clock):
    """Suspended, or a virtual machine that was paused: then only the time of day has moved."""
    now, lost = [1000.0, 5000.0], []
    monkeypatch.setattr(time, "monotonic", lambda: 7.0)
    monkeypatch.setattr(claims, "clocks", lambda: tuple(now))
    claim = Claims(tmp_path).take(RUN)
    (claim.path.parent / "2").write_text(claim.path.read_text())  # another has taken the run
    claim.check(lambda: lost.append(clock))
    assert not lost  # it was renewed a moment ago
    now[clock] += claims.LEASE / 2 + 1
    claim.check(lambda: lost.append(clock))
    assert lost == [clock]


def test_the_clock_of_a_holder_goes_on_while_the_machine_sleeps():
    expected = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    before = time.clock_gettime(expected), time.time()
    found = claims.clocks()
    after = time.clock_gettime(expected), time.time()
    assert all(a <= b <= c for a, b, c in zip(before, found, after, strict=True))


def test_a_claim_is_handed_over_to_a_child_and_renewed(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "RENEWAL", 0.02)
    parent = Claims(tmp_path).take(RUN)
    child = adopted(parent.handed_over())
    assert not child.is_lost()
    before = newest(parent.path.parent).stamp
    child.keep(lambda: pytest.fail("it is not lost"))
    wait_for(lambda: newest(parent.path.parent).stamp != before)
    child.release()
    assert Claims(tmp_path).state(RUN) == "free"
    Claims(tmp_path).take(RUN).release(ended=True)
    assert adopted(parent.handed_over()).is_lost()


def test_a_failed_run_is_left_alone_until_it_is_asked_for_again(tmp_path):
    claim = Claims(tmp_path).take(RUN)
    claim.fail("no memory")
    others = Claims(tmp_path)
    assert others.state(RUN) == "failed"
    assert others.holder(RUN).reason == "no memory"
    assert others.take(RUN) is None
    others.forget_failures(RUN)
    assert others.take(RUN) is not None


def test_numbers_are_not_used_again_so_that_a_slow_worker_cannot_share_a_run(tmp_path, monkeypatch):
    held_by_a_dead_process(tmp_path)
    slow, seen = Claims(tmp_path), newest(tmp_path / "claims" / RUN)
    Claims(tmp_path).take(RUN).release()  # another took it, gave it back,
    third = Claims(tmp_path).take(RUN)  # and a third has it
    monkeypatch.setattr(claims, "newest", lambda folder, now=newest: seen if not monkeypatch.undo() else now(folder))
    assert slow.take(RUN) is None
    assert not third.is_lost()


def test_a_claim_that_cannot_be_read_is_held_for_a_minute(tmp_path, monkeypatch):
    folder = tmp_path / "claims" / RUN
    folder.mkdir(parents=True)
    (folder / "1").write_bytes(b'{"token": \xff')  # its writer died, or is writing
    watching, clock = Claims(tmp_path), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    assert watching.state(RUN) == "held"
    clock[0] += claims.LEASE + 1
    assert watching.take(RUN).path.name == "2"


def test_a_claim_that_is_outrun_while_it_is_made_is_not_believed(tmp_path, monkeypatch):
    """The run has ended in between, its claims were removed, and another has taken it anew."""

    def meanwhile(holder):
        (tmp_path / "claims" / RUN / "2").write_text("{}")
        return asdict(holder)

    monkeypatch.setattr(claims, "asdict", meanwhile)
    assert Claims(tmp_path).take(RUN) is None


@pytest.mark.skipif(not claims.PROC.is_dir(), reason="this system has no /proc")
def test_the_start_of_a_process_is_the_time_when_it_began():
    """In ticks since the machine was started."""
    ticks = os.sysconf("SC_CLK_TCK")
    own = int(claims._start_of(os.getpid()))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        later = int(claims._start_of(child.pid))
        assert int(claims._start_of(1)) <= own < later <= ticks * time.clock_gettime(time.CLOCK_BOOTTIME)
