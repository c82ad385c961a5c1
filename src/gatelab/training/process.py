"""The process around a run: one run per directory, threads, denormals, signals between batches."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import torch
from torch import nn

from gatelab import sealed
from gatelab.disk import clear_unfinished, foreign, read_regular, within
from gatelab.engine import Recurrent, team
from gatelab.engine.choose import choose
from gatelab.errors import BusyError, DataError, GatelabError
from gatelab.training import devices, kept, optimizers
from gatelab.training.run import CELL, CELL_HEADING, CHECKPOINT, LOG, MODEL, PROGRESS

BEGUN = (kept.FILE, CELL, MODEL, CHECKPOINT)  # files that a run writes before its manifest


@contextmanager
def alone_in(path: Path) -> Iterator[None]:
    """An exclusive lock on the directory. It ends with the process, however that ends."""
    from filelock import FileLock, Timeout

    path.mkdir(parents=True, exist_ok=True)
    lock = within(path, path / ".lock")  # which is opened to be written
    try:
        with FileLock(lock, timeout=1):  # `is_busy` may hold it for a moment
            clear_unfinished(path)
            yield
    except Timeout:
        raise BusyError(f"another process is training in {path}: wait for it, or choose another directory") from None


def is_busy(path: Path) -> bool:
    """Whether another process holds the lock of this directory."""
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
    """A new run needs its own directory: other files there are an error."""
    if path.exists() and not path.is_dir():
        raise GatelabError(f"{path} is a file: expected a directory for the run, a new one or that of the run itself")
    if others := foreign(path, [LOG, PROGRESS, *(name for name in BEGUN if _is_ours(path / name))]):
        what = "an experiment" if "experiment.json" in others or "studies.json" in others else "other files"
        some = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        raise GatelabError(f"{path} holds {what} ({some}) and no run: choose a new or an empty directory")


def _is_ours(path: Path) -> bool:
    """Whether a file is that of a run that was killed before it had a manifest, not another one of that name."""
    try:
        if path.name == CELL:
            return read_regular(path).decode(errors="replace").startswith(CELL_HEADING)
        read: dict[str, Callable[[Path], object]] = {".json": sealed.read_json, ".npz": sealed.read_arrays}
        return bool(read.get(path.suffix, sealed.read_tensors)(path))
    except (OSError, DataError):
        return False


@contextmanager
def prepared(threads: int | None, device: str = "cpu") -> Iterator[int]:
    """Set threads and denormals for training, and restore them and torch's generators afterwards. Yields the number of
    threads that are granted.

    Where no number is asked for, there are as many as idle cores, for threads that have to share one make all others
    wait.
    """
    before = torch.get_num_threads()
    if threads is None and before > 1:
        threads = max(1, min(before, round(team.idle_cores())))
    torch.set_num_threads(threads or before)
    try:
        with devices.generators_restored(device), team.of_fixed_size(), denormals_flushed():
            yield team.granted(torch.get_num_threads())
    finally:
        torch.set_num_threads(before)


def divided(model: nn.Module) -> AbstractContextManager[None]:
    """A context in which all threads are for the kernels of recurrent layers, if torch itself has little to do."""
    layer: Recurrent = model.recurrent  # type: ignore[assignment]
    is_small = max(p.numel() for p in model.parameters()) < optimizers.WORTH_THREADS
    is_fused = choose(layer.engine, layer.cell, next(layer.parameters()), watch=False) == "fused"
    is_recurrent = getattr(model, "is_mostly_recurrent", False)
    return team.for_kernels() if is_small and is_recurrent and is_fused else nullcontext()


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Flush denormals to zero, as the compiled kernels do."""
    before = not bool(torch.tensor(1e-39) * torch.tensor(1.0) > 0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as Ctrl-C does, even where a shell has told its children to ignore that."""

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
    """Whether the run was asked to stop."""

    asked: bool = False


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Ctrl-C or SIGTERM asks to stop after the batch; a second Ctrl-C stops at once. (SIGTERM does not count as a
    second one: a parent process may send it along with the terminal's Ctrl-C.)
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
