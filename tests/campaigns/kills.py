"""Training killed at random moments and started again, until it is done: is it the same, to the bit, as never killed?

python tests/campaigns/kills.py --kills 100    some twenty minutes: each start imports torch, which takes seconds

Runs of several cells, optimisers and schedules are started as real processes, save every 0.02 s, and are killed
(SIGKILL) some ten times each: while their directory is made, within epochs, at the end, anywhere. A cell of one's own
loses its file once the run exists, and is resumed from an empty folder with nothing but the run directory. After each
kill the run must be whole, as `gatelab verify` sees it. Then `gatelab bench` is killed: all of its processes, one
worker alone, itself alone. Exit code 1 if anything differs from what was never killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gatelab import sealed
from gatelab.disk import TEMPORARY, foreign
from gatelab.experiments.verify_experiment import verify_experiment
from gatelab.training import Run
from gatelab.training.verify import verify

GATELAB = [sys.executable, "-c", "from gatelab.cli import main; main()"]
EPOCHS = 16
MINE = """from gatelab import cell, sigmoid, tanh


@cell
def mine(x, h, W, U, b):
    z = sigmoid(W.z(x) + U.z(h) + b.z)
    n = tanh(W.n(x) + U.n(h) + b.n)
    return z * h + (1 - z) * n
"""
PROSE = "".join("the cat sat on a mat.\n"[(i * i // 7 + i) % 22] for i in range(12_000))
CASES: dict[str, dict[str, Any]] = {
    "gru, adam, cosine": {
        "model": {"cell": "gru", "engine": "fused"},
        "optimization": {"schedule": "cosine", "warmup_steps": 20, "weight_decay": 0.01},
    },
    "lstm of two layers with dropout, sgd, plateau": {
        "model": {"cell": "lstm", "num_layers": 2, "dropout": 0.3, "head_dropout": 0.1},
        "optimization": {
            "optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.1, "schedule": "plateau", "plateau_patience": 2,
        },
    },
    "a cell of one's own, rmsprop, step": {
        "model": {"cell": "mine.py:mine"},
        "optimization": {"optimizer": "rmsprop", "learning_rate": 0.003, "schedule": "step", "step_epochs": 5},
        "training": {"record": ["gradients"]},
    },
    "gru by PyTorch, adamw, mean": {
        "model": {"cell": "gru", "engine": "native", "pool": "mean", "bidirectional": True},
        "optimization": {"optimizer": "adamw", "learning_rate": 0.003},
    },
    "text in chunks, with a state that is carried along": {
        "task": "text:path=prose.txt",
        "model": {"cell": "lstm", "num_layers": 2, "dropout": 0.2},
        "optimization": {"learning_rate": 0.005},
        "training": {"bptt": 40, "batch_size": 8},
    },
}  # fmt: skip
MOMENTS = ("begin", "begin", *["within"] * 5, "anywhere", "end", "end")  # of the kills of one run
TIMES = ("seconds", "validation_seconds", "samples_per_second")
WAYS = ("all", "worker", "parent")  # who is killed of a bench


@dataclass
class Count:
    """What was seen."""

    kills: int = 0
    where: Counter[str] = field(default_factory=Counter)
    unfinished: int = 0  # kills in the middle of writing a file
    verified: int = 0
    wrong: list[str] = field(default_factory=list)

    def check(self, what: str, differing: list[str]) -> None:
        for difference in differing:
            self.wrong.append(f"{what}: {difference}")
            print(f"WRONG: {self.wrong[-1]}", flush=True)


# Runs.


def config_of(case: dict[str, Any]) -> dict[str, Any]:
    training = {"num_epochs": EPOCHS, "batch_size": 32, "threads": 1, "checkpoint_seconds": 0.02}
    return {
        "task": case.get("task", "digits"),
        "model": {"hidden_size": 24, **case["model"]},
        "optimization": case["optimization"],
        "training": {**training, **case.get("training", {})},
    }


def started(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """In a session of its own, so that all of its processes can be killed at once."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*GATELAB, *words], cwd=folder, env=environment, start_new_session=True)


class Life:
    """One run, from its first start to its end."""

    def __init__(self, folder: Path, case: dict[str, Any]) -> None:
        self.home, self.empty, self.run = folder / "home", folder / "empty", Run(folder / "run")
        self.home.mkdir(parents=True)
        self.empty.mkdir()
        (self.home / "prose.txt").write_text(PROSE)
        (self.home / "config.yaml").write_text(json.dumps(config_of(case)))  # JSON is YAML

    def start(self) -> subprocess.Popen[bytes]:
        """The first command until the run exists; from then on the run directory has to be enough."""
        if not self.run.exists():
            (self.home / "mine.py").write_text(MINE)
            return started(["train", "config.yaml", "--output-dir", str(self.run.path), "--quiet"], self.home)
        (self.home / "mine.py").unlink(missing_ok=True)
        return started(["train", "--resume", str(self.run.path), "--quiet"], self.empty)

    def finish(self) -> list[str]:
        """Left alone until it is done; what is wrong if it does not get there."""
        code = self.start().wait()
        return [f"left alone it ended with code {code}"] if code else []


def sleep_until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None and not condition():
        time.sleep(0.001)


def wait_for(moment: str, run: Run, process: subprocess.Popen[bytes], chance: random.Random) -> None:
    """Until the moment for a kill has come, or the process has ended."""
    if moment == "anywhere":
        deadline = time.monotonic() + chance.uniform(0, 8)
        sleep_until(lambda: time.monotonic() > deadline, process)
        return
    before = changed_at(run.manifest_path), changed_at(run.checkpoint_path)
    if moment == "begin" and not run.exists():
        sleep_until(lambda: bool(foreign(run.path, ())), process)  # its first file
        pause(process, chance.uniform(0, 0.02))
    elif moment == "begin":
        sleep_until(lambda: changed_at(run.manifest_path) != before[0], process)
        pause(process, chance.uniform(0, 0.03))
    elif moment == "within":
        sleep_until(lambda: changed_at(run.checkpoint_path) != before[1], process)
        pause(process, chance.uniform(0, 0.4))
    else:
        sleep_until(lambda: lines_of(run) == EPOCHS, process)
        pause(process, chance.uniform(0, 0.06))


def pause(process: subprocess.Popen[bytes], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    sleep_until(lambda: time.monotonic() > deadline, process)


def changed_at(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.exists() else None


def lines_of(run: Run) -> int:
    path = run.path / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def stage(run: Run) -> str:
    """Where a run was when it was killed, as its directory has it."""
    if not run.exists():
        return "before the run existed"
    if run.manifest().status == "done":
        return "after the last file"
    if not run.checkpoint_path.is_file():
        return "before the first checkpoint"
    place = sealed.read_tensors(run.checkpoint_path)[1]["place"]
    if place["epoch"] == EPOCHS:
        return "after the last epoch"
    return "within an epoch" if place["batch"] else "between epochs"


def kill_run(folder: Path, case: dict[str, Any], most: int, chance: random.Random, count: Count, what: str) -> Run:
    """Killed at most so many times on its way, then left alone until it is done."""
    life = Life(folder, case)
    for moment in MOMENTS[:most]:
        process = life.start()
        wait_for(moment, life.run, process, chance)
        process.kill()
        if (code := process.wait()) != -signal.SIGKILL:
            count.check(what, [f"ended with code {code} by itself"] if code else [])
            break
        count.kills += 1
        count.where[stage(life.run)] += 1
        count.unfinished += any(life.run.path.glob(f"{TEMPORARY}*"))
        if life.run.exists():
            count.verified += 1
            bad = [f"after kill {count.kills}: {f.file}: {f.message}" for f in verify(life.run) if not f.good]
            count.check(what, bad)
    count.check(what, life.finish())
    return life.run


def differing(run: Run, whole: Run) -> list[str]:
    """What is not the same, to the bit."""
    if run.manifest().status != "done":
        return ["it is not done"]
    ours, theirs = contents(run), contents(whole)
    return [f"{name} is another" for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]


def contents(run: Run) -> dict[str, Any]:
    """All that was learned and found, without times."""
    manifest = run.manifest()
    tensors, state = sealed.read_tensors(run.checkpoint_path)
    place = {key: value for key, value in state["place"].items() if key not in ("seconds", "history")}
    history = [without_times(line) for line in state["place"]["history"]]
    recorded, cell = run.path / "gradients.npz", run.model_record["cell"]
    kept = {"status", "test", "best_epoch", "epochs", "identity", "parameters"}
    return {
        "metrics": [without_times(line) for line in run.metrics()],
        "best.safetensors": run.best_path.read_bytes(),
        "tensors of the checkpoint": exact({name: value.numpy() for name, value in tensors.items()}),
        "place in the checkpoint": (place, history, state["schedule"]),
        "predictions": exact(run.predictions()),
        "gradients": exact(sealed.read_arrays(recorded)) if recorded.exists() else None,
        "manifest": manifest.model_dump(include=kept),
        "model": {**run.model_record, "cell": {**cell, "file": None}},  # which lay in another folder
    }


def without_times(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in TIMES}


def exact(arrays: dict[str, np.ndarray]) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


def campaign(folder: Path, kills: int, chance: random.Random) -> Count:
    """Runs of all cases in turn, until there were so many kills."""
    count, wholes, number = Count(), dict[str, Run](), 0
    while count.kills < kills:
        name = list(CASES)[number % len(CASES)]
        if name not in wholes:
            life = Life(folder / f"whole-{number}", CASES[name])
            count.check(name, life.finish())
            wholes[name] = life.run
        before, begin, place = count.kills, time.time(), folder / f"killed-{number}"
        run = kill_run(place, CASES[name], kills - count.kills, chance, count, f"run {number} ({name})")
        count.check(f"run {number} ({name})", [*differing(run, wholes[name]), *not_whole(run)])
        print(f"run {number:>2}: {count.kills - before:>2} kills, {time.time() - begin:3.0f} s: {name}", flush=True)
        number += 1
    return count


def not_whole(run: Run) -> list[str]:
    return [f"at the end: {f.file}: {f.message}" for f in verify(run) if not f.good]


# Experiments.

BENCH = [
    "bench", "--task", "digits:limit=600", "--cells", "gru,lstm", "--runs", "2", "--epochs", "10", "--jobs", "2",
    "--hidden-size", "16", "--quiet", "--set", "training.checkpoint_seconds=0.02", "--set", "training.batch_size=16",
]  # fmt: skip


def kill_bench(directory: Path, folder: Path, way: str, chance: random.Random, count: Count) -> bool:
    """One session that is killed; whether it was still at work then."""
    process, begun = started([*BENCH, "--output-dir", str(directory)], folder), time.time_ns()
    sleep_until(lambda: any_newer(directory, begun), process)  # a worker is at work
    pause(process, chance.uniform(0, 1.5))
    workers = children(process.pid)
    if process.poll() is not None or (way != "all" and not workers):
        process.wait()
        return False
    if way == "all":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        os.kill(process.pid if way == "parent" else chance.choice(workers), signal.SIGKILL)
    process.wait()  # of a worker alone: the others are brought to their end
    gone = time.monotonic() + 60
    while any(Path(f"/proc/{worker}").exists() for worker in workers) and time.monotonic() < gone:
        time.sleep(0.05)  # left alone, they save and stop
    count.kills += 1
    count.where[way] += 1
    count.check(f"bench, kill {count.kills} ({way})", list(bad_in(directory, at_the_end=False)))
    return True


def any_newer(directory: Path, begun: int) -> bool:
    return any((changed_at(path) or 0) > begun for path in directory.glob("runs/*/*/checkpoint.safetensors"))


def children(process: int) -> list[int]:
    """Those of a process, by number, where the system tells."""
    try:
        return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def bad_in(directory: Path, at_the_end: bool) -> Iterator[str]:
    """What verify finds. Results are written when a session ends: those of an earlier one may be behind the runs."""
    for place, findings in verify_experiment(directory):
        for finding in findings:
            if not finding.good and (at_the_end or finding.file != "results.json"):
                yield f"{place.relative_to(directory)}/{finding.file}: {finding.message}"


def numbers(directory: Path) -> Any:
    """The results without times."""
    results = sealed.read_json(directory / "results.json")
    for entry in results["models"].values():
        entry["summaries"].pop("seconds_per_epoch", None)
        for run in entry["runs"]:
            run["metrics"].pop("seconds_per_epoch", None)
    return {key: results.get(key) for key in ("models", "metric", "comparisons", "effects", "classes", "search")}


def bench_campaign(folder: Path, kills: int, chance: random.Random) -> Count:
    """Experiments, each killed in all ways, then left alone until done."""
    count, number = Count(), 0
    whole = folder / "whole"
    folder.mkdir()
    if kills and started([*BENCH, "--output-dir", str(whole)], folder).wait():
        raise RuntimeError("a bench that nobody killed failed")
    while count.kills < kills:
        directory, before, begin = folder / f"killed-{number}", count.kills, time.time()
        for way in WAYS[: kills - count.kills]:
            if not kill_bench(directory, folder, way, chance, count):
                break
        code = started([*BENCH, "--output-dir", str(directory)], folder).wait()
        wrong = [f"the last session ended with code {code}"] if code else []
        wrong += ["numbers are others"] if numbers(directory) != numbers(whole) else []
        count.check(f"bench {number}", [*wrong, *bad_in(directory, at_the_end=True)])
        print(f"bench {number}: {count.kills - before} kills, {time.time() - begin:.0f} s", flush=True)
        number += 1
    return count


# Workers.

PLAN = {
    "task": "digits:limit=400",
    "models": {"gru": {"hidden_size": 12}, "rnn": {"hidden_size": 12}},
    "tune": {"trials": 6, "space": {"learning_rate": {"log": [1e-3, 3e-2]}}, "num_epochs": 4},
    "runs": 2,
    "training": {"num_epochs": 8, "batch_size": 16, "checkpoint_seconds": 0.02},
}


def worker_campaign(folder: Path, kills: int, chance: random.Random) -> Count:
    """Experiments with a search, shared by three workers that are killed at random and replaced, until none is left."""
    count, number = Count(), 0
    folder.mkdir()
    (folder / "plan.yaml").write_text(json.dumps(PLAN))
    planned = ["bench", "plan.yaml", "--quiet", "--jobs", "2", "--output-dir"]
    if kills and started([*planned, str(folder / "whole")], folder).wait():
        raise RuntimeError("an experiment that nobody killed failed")
    while count.kills < kills:
        directory, before, begin = folder / f"shared-{number}", count.kills, time.time()
        if started([*planned, str(directory), "--plan-only"], folder).wait():
            raise RuntimeError("a plan could not be written")
        joined = ["worker", str(directory), "--jobs", "1", "--quiet"]
        workers = [started(joined, folder) for _ in range(3)]
        while all(worker.poll() is None for worker in workers) and count.kills < kills:
            time.sleep(chance.uniform(2, 8))
            place = chance.randrange(len(workers))
            way, victim = chance.choice(WAYS), workers[place]
            own = children(victim.pid)
            if victim.poll() is not None or (way == "worker" and not own):
                continue
            if way == "all":
                os.killpg(victim.pid, signal.SIGKILL)
            else:
                os.kill(victim.pid if way == "parent" else own[0], signal.SIGKILL)
            count.kills += 1
            count.where[way] += 1
            if way != "worker":
                victim.wait()
                workers[place] = started(joined, folder)
        codes = [worker.wait() for worker in workers]
        reported = started(["report", str(directory)], folder).wait()
        wrong = [f"workers and the report ended with {[*codes, reported]}"] if any([*codes, reported]) else []
        wrong += ["numbers are others"] if numbers(directory) != numbers(folder / "whole") else []
        wrong += ["claims are left"] if any(path.is_file() for path in (directory / "claims").rglob("*")) else []
        count.check(f"shared {number}", [*wrong, *bad_in(directory, at_the_end=True)])
        print(f"shared {number}: {count.kills - before} kills, {time.time() - begin:.0f} s", flush=True)
        number += 1
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="of single runs")
    parser.add_argument("--bench-kills", type=int, default=6, help="of experiments")
    parser.add_argument("--worker-kills", type=int, default=30, help="of workers that share an experiment")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance, begin = random.Random(given.seed), time.time()
    folder = Path(tempfile.mkdtemp(prefix="gatelab-kills-"))
    runs = campaign(folder, given.kills, chance)
    print(f"{runs.kills} kills of runs, {runs.unfinished} of them while a file was written, {runs.verified} looked at")
    for where, times in runs.where.most_common():
        print(f"  {times:>3} {where}")
    benches = bench_campaign(folder / "bench", given.bench_kills, chance)
    print(f"{benches.kills} kills of experiments: {', '.join(f'{n} {way}' for way, n in benches.where.items())}")
    workers = worker_campaign(folder / "workers", given.worker_kills, chance)
    print(f"{workers.kills} kills of workers: {', '.join(f'{n} {way}' for way, n in workers.where.items())}")
    wrong = [*runs.wrong, *benches.wrong, *workers.wrong]
    print(f"{len(wrong)} differences or broken files; {time.time() - begin:.0f} s")
    if wrong:
        print(f"all of it is left in {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
