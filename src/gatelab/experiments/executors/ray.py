"""A Ray cluster, on this machine or on many. Each run is a task of Ray, which starts the process of the run as a worker
on this machine would, and is started again on another node if its own is lost.

If all nodes see the directory of the experiment, they train in it. Otherwise run directories travel (`transfer.py`).
`ray_task.py` is what happens on the nodes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gatelab import disk
from gatelab.errors import GatelabError, HopelessError
from gatelab.experiments.claims import Claims
from gatelab.experiments.executors import ray_task
from gatelab.experiments.planned import Planned
from gatelab.experiments.run_process import ordered
from gatelab.experiments.transfer import DirectoryKeeper
from gatelab.experiments.worker import LOOK, POLL, Finished
from gatelab.formatting import counted
from gatelab.training.recorder import FINAL

RETRIES = 5  # of a run whose node or Ray process is lost
CONNECT = 10.0  # seconds to wait for a cluster; Ray itself waits for many minutes


class RayExecutor:
    """Executes as many runs at a time as the cluster has room for, each with `cpus_per_run` cores."""

    detached = False
    is_local = False
    SEND_EVERY = 60.0  # seconds between two copies of a run directory that travels: a lost node costs at most these
    PROGRESS_EVERY = 5.0  # seconds between two copies of its progress

    def __init__(self, address: str | None = None, cpus_per_run: int = 1, shared_folder: bool | None = None) -> None:
        try:
            import ray  # noqa: F401
        except ImportError:
            raise GatelabError("the executor ray needs the package ray: pip install 'gatelab[ray]'") from None
        if cpus_per_run < 1:
            raise GatelabError(f"cpus_per_run is {cpus_per_run}: expected at least one core")
        if address is not None and "://" in address:
            raise GatelabError(
                f"the address of the cluster is {address}, of a Ray Client, which is not part of the cluster and keeps "
                "no run directories: start gatelab on a node of the cluster, with --address auto"
            )
        self.address, self.threads, self.shared_folder = address, cpus_per_run, shared_folder

    def threads_for(self, runs: int) -> int:
        """As many as were asked for."""
        return self.threads

    def execute(self, runs: list[Planned], directory: Path, tick: Callable[[], None]) -> Iterator[Finished]:
        """Yield each run when it ends. If the caller stops, all others save and exit, and are in the directory."""
        import ray

        directory = directory.resolve()
        waiting, running, looked, claims = list(runs), dict[Any, Planned](), 0.0, Claims(directory)
        with _connected(self.address), _token(directory) as token:
            submit = self._submitter(directory, token)
            try:
                while waiting or running:
                    if time.monotonic() - looked > LOOK:
                        looked = time.monotonic()
                        for run in list(waiting):
                            try:
                                order = ordered(run, directory)
                            except HopelessError as error:  # what it waited for has failed
                                waiting.remove(run)
                                yield Finished(run, "failed", str(error))
                                continue
                            if order is not None:
                                waiting.remove(run)
                                running[submit(json.dumps(order.document()), str(run.path))] = run
                    if not running:
                        time.sleep(POLL)
                    ended, _ = ray.wait(list(running), timeout=POLL) if running else ([], [])
                    tick()
                    for task in ended:
                        run, (status, reason) = running.pop(task), _outcome(task)
                        if status not in FINAL and (claim := claims.take(run.path)) is not None:
                            claim.fail(reason)  # so that runs that wait for it do not do so for ever
                        yield Finished(run, status, reason)
                        looked = 0.0  # others may have waited for it
            finally:
                for task in running:
                    ray.cancel(task, recursive=False)  # KeyboardInterrupt in it; calls of its own go through
                if running:
                    ray.wait(list(running), num_returns=len(running))

    def _submitter(self, directory: Path, token: Path) -> Callable[[str, str], Any]:
        """What starts the task of a run, given its order and path."""
        import ray

        sees = _ask_nodes(self.threads, token)
        task = ray.remote(num_cpus=self.threads, max_retries=RETRIES)
        if all(sees.values()) if self.shared_folder is None else self.shared_folder:
            train = task(ray_task.train_in_place)
            return lambda order, path: train.remote(order, path, token, self.threads)
        here = ray.get_runtime_context().get_node_id()
        keeper = ray.remote(num_cpus=0)(DirectoryKeeper).options(scheduling_strategy=_on(here)).remote(str(directory))
        train, every = task(ray_task.train_copy), (self.SEND_EVERY, self.PROGRESS_EVERY)
        return lambda order, path: train.remote(order, path, keeper, self.threads, every)


@contextlib.contextmanager
def _connected(address: str | None) -> Iterator[None]:
    """A connection to a cluster, by default to a new one on this machine, unless this process has one already."""
    import ray

    if ray.is_initialized():
        yield
        return
    _refuse_silent(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # otherwise a new cluster reports its use to Ray's makers
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # otherwise Ray warns about its next version
    new = {"include_dashboard": False} if address is None else {}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **new)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise GatelabError(f"no connection to the Ray cluster {address or 'on this machine'}: {error}") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)  # Ray's own would exit where ours interrupts
    try:
        yield
    finally:
        ray.shutdown()


def _refuse_silent(address: str | None) -> None:
    """Raise if nothing answers at HOST:PORT."""
    host, _, port = (address or "").rpartition(":")
    if not host or not port.isdecimal():
        return  # `auto`, or something that Ray explains
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT).close()
    except (OSError, OverflowError) as error:
        raise GatelabError(f"no Ray cluster answers at {address} ({error}): expected HOST:PORT, or auto") from error


@contextlib.contextmanager
def _token(directory: Path) -> Iterator[Path]:
    """A file in the directory whose name no other directory has: whoever sees it sees the directory."""
    path = directory / f"{disk.TEMPORARY}{uuid.uuid4().hex}"
    path.touch()
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _ask_nodes(cpus: int, token: Path) -> dict[str, bool]:
    """Whether each node that has enough cores sees the directory, by node. Raises if no node can execute a run."""
    import ray

    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    cores = {key: int(node["Resources"].get("CPU", 0)) for key, node in nodes.items()}
    if max(cores.values()) < cpus:
        raise GatelabError(
            f"a run needs {counted(cpus, 'core')} (--cpus-per-run), and the largest node of the cluster has "
            f"{max(cores.values())}: ask for fewer"
        )
    look = ray.remote(num_cpus=0)(ray_task.sees)
    asked = {key: look.options(scheduling_strategy=_on(key)).remote(token) for key in cores if cores[key] >= cpus}
    sees = {}
    for key, answer in asked.items():
        try:
            sees[key] = ray.get(answer)
        except ray.exceptions.RayTaskError as error:
            name = nodes[key]["NodeManagerHostname"]
            why = str(error).strip().splitlines()[-1]
            raise GatelabError(
                f"the node {name} cannot import gatelab: install the same version there ({why})"
            ) from error
        except ray.exceptions.RayError:  # it was lost meanwhile
            continue
    return sees


def _on(node: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def _outcome(task: Any) -> tuple[str, str]:
    """Status and reason of a task that has ended; an error that it did not expect is raised."""
    import ray

    try:
        status, reason = ray.get(task)
    except ray.exceptions.RayTaskError:
        raise
    except ray.exceptions.RayError as error:  # Ray has given up
        return "failed", " ".join(str(error).split())
    return status, reason
