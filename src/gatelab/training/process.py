"""What surrounds a run in its process: one run a directory, threads, denormals, and a way to stop between batches."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import torch

from gatelab import sealed
from gatelab.disk import clear_unfinished, foreign, within
from gatelab.engine import team
from gatelab.errors import DataError
from gatelab.training import kept
from gatelab.training.run import CELL, CELL_HEADING, LOG, MODEL, PROGRESS, Run
from gatelab.training.spec import TrainingSpec

BEGUN = (kept.FILE, CELL, MODEL)  # what a run writes before it has a manifest


@contextmanager
def alone_in(path: Path) -> Iterator[None]:
    """Nobody else trains in this directory meanwhile. The lock goes with the process, however that ends."""
    from filelock import FileLock, Timeout

    path.mkdir(parents=True, exist_ok=True)
    lock = within(path, path / ".lock")  # which is opened to be written
    try:
        with FileLock(lock, timeout=1):  # someone may be looking whether it is held
            clear_unfinished(path)
            yield
    except Timeout:
        raise ValueError(f"another process is training in {path}: wait for it, or choose another directory") from None


def is_busy(path: Path) -> bool:
    """Whether a process is at work in this directory."""
    from filelock import FileLock, Timeout

    lock = within(path, path / ".lock")
    if not lock.is_file():
        return False
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True


def refuse_foreign(path: Path) -> None:
    """A new run wants a directory of its own: what somebody else keeps there is not ours to mix with."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file: expected a directory for the run, a new one or that of the run itself")
    if others := foreign(path, [LOG, PROGRESS, *(name for name in BEGUN if _is_ours(path / name))]):
        what = "an experiment" if "experiment.json" in others or "studies.json" in others else "other files"
        some = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        raise ValueError(f"{path} holds {what} ({some}) and no run: choose a new or an empty directory")


def _is_ours(path: Path) -> bool:
    """Whether a file was left by a run that was killed before it had a manifest; not one of that name by chance."""
    try:
        if path.name == CELL:
            return path.read_text(errors="replace").startswith(CELL_HEADING)
        return bool(sealed.read_json(path) if path.suffix == ".json" else sealed.read_arrays(path))
    except (OSError, DataError):
        return False


@contextmanager
def prepared(spec: TrainingSpec, run: Run) -> Iterator[int]:
    """Threads and denormals set for the run, and put back afterwards, with torch's generator as it was. Yields the
    threads that are really granted.

    A run that is resumed asks for as many threads as before: sums in another order differ in the last bit.
    """
    threads, before = spec.threads, torch.get_num_threads()
    if run.exists():
        threads = run.manifest()["threads"]  # as many as were granted, which may be fewer than were wanted
    random = torch.get_rng_state()
    torch.set_num_threads(threads or before)
    try:
        with team.of_fixed_size(), denormals_flushed():
            yield team.granted(torch.get_num_threads())
    finally:
        torch.set_num_threads(before)
        torch.set_rng_state(random)


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Denormals count as zero, as they do inside the compiled kernels."""
    before = not bool(torch.tensor(1e-39) * torch.tensor(1.0) > 0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


@contextmanager
def politely_ended() -> Iterator[None]:
    """A polite kill is taken as Ctrl-C, and Ctrl-C is heard even where a shell has told its children to ignore it."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class Stop:
    """Whether someone asked the run to stop."""

    asked: bool = False


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Ctrl-C or a polite kill asks to stop after the batch; a second Ctrl-C stops at once. (A polite kill does not
    count as a second one: whoever started us may send it along with the terminal's Ctrl-C.)
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may handle signals
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
