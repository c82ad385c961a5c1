"""Hostile input for every command: configs, arguments, cells and data files that are wrong, odd or made to hurt.

python tests/campaigns/hostile.py                          600 cases, about five minutes on one core
python tests/campaigns/hostile.py --seed 3 --count 2000
python tests/campaigns/hostile.py --seed 3 --only 17       one of them again, with all it said

Each case is one command in a process of its own, forked from one that has imported everything, with a limit of time
and memory. Trainings end after their first batch. Whatever comes is refused in words that name the file or the key
(exit code 2), or read right: as without the mutation, or with the one other meaning that it has. Exit code 1 if
anything else was seen: a traceback, a crash, more than 5 seconds, a success that is wrong, a refusal of what is right,
or one that does not say where.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # threads do not survive a fork; this process must not run a kernel

import hostile_configs
import hostile_files
import hostile_use
from hostile_cases import MEANING, REFUSED, SAME, SOUND, Answer, Case

LIMIT = 5.0  # seconds until a refusal or the first batch
KILLED = 20.0  # seconds; other processes may use the machine as well
MEMORY = 3 << 30  # bytes beyond what the parent has
LONGEST = 15_000  # characters of a message
BY_CHANCE = 0.3  # fraction of the cases
RECORD = "record.json"
COLUMNS = ("cases", "refused", "same", "other meaning", "traceback", "hang", "silent", "refused wrongly", "unclear")


# One case.


def imported() -> None:
    """Import everything before the first fork. Nothing here may start a thread."""
    import torch

    import gatelab.analysis
    import gatelab.cli.terminal.experiment
    import gatelab.experiments.executors.local
    import gatelab.experiments.studies
    import gatelab.experiments.verify_experiment
    import gatelab.report.forecast
    import gatelab.report.inspection.write_inspection
    import gatelab.report.paper.write_paper
    import gatelab.report.progress
    import gatelab.report.write_report
    import gatelab.use.file_predictions
    import gatelab.use.forecasting  # noqa: F401

    torch.set_num_threads(1)


def answer(case: Case, folder: Path, subjects: Path) -> Answer:
    """Run a case in a process of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for subject in subjects.iterdir():
        (folder / subject.name).symlink_to(subject)
    case.write(folder)
    begin = time.perf_counter()
    process = os.fork()
    if not process:
        _child(case, folder)
    hung = not _ended(process, begin)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = -signal.SIGKILL if hung else os.waitstatus_to_exitcode(_statuses.pop(process))
    seconds = usage.ru_utime + usage.ru_stime - _used[0]
    _used[0] = usage.ru_utime + usage.ru_stime
    try:
        record = json.loads((folder / RECORD).read_text().replace(str(folder), "HERE"))
    except (OSError, ValueError):
        record = {}
    output, errors = ((folder / name).read_text(errors="replace") for name in (".output", ".errors"))
    return Answer(code, output.replace(str(folder), "HERE"), errors, record, seconds, hung)


_statuses: dict[int, int] = {}
_used = [0.0]  # seconds of all children so far


def _ended(process: int, begin: float) -> bool:
    """Wait for the child; kill it after a while."""
    while time.perf_counter() - begin < KILLED:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            _statuses[process] = status
            return True
        time.sleep(0.01)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return False


def _child(case: Case, folder: Path) -> None:
    """The command as the entry point runs it. Never returns."""
    from gatelab.cli import main

    os.setsid()
    os.chdir(folder)
    for number, name in ((0, os.devnull), (1, ".output"), (2, ".errors")):
        handle = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(handle, number)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace")
    held = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
    _stop_at_first_batch()
    sys.argv = ["gatelab", *case.command]
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 99
    _leave(code)


def _leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _stop_at_first_batch() -> None:
    """Trainings write down what they are about, and end."""
    import gatelab.report.progress
    from gatelab.experiments.executors.local import LocalExecutor
    from gatelab.training.reporter import Reporter

    class FirstBatch(Reporter):
        def start(self, spec: Any, manifest: Any, place: Any) -> None:
            self.spec = spec

        def batch(self, epoch: int, batch: int, batches: int, examples: int, tally: Any) -> None:
            sums = {name: value for name, value in vars(tally).items() if name != "objective"}
            _record({"specs": {"run": self.spec.document()}, "tally": repr(sums), **_data(self.spec.task)})
            _leave(0)

    def planned(self: Any, runs: Any, directory: Any, tick: Any) -> Iterator[Any]:
        _record({"specs": {f"{run.model}, {run.seed}": run.spec.document() for run in runs}})
        _leave(0)
        yield

    gatelab.report.progress.reporter = lambda quiet: FirstBatch()  # type: ignore[assignment]
    LocalExecutor.execute = planned  # type: ignore[method-assign]


def _data(task: Any) -> dict[str, str]:
    return {"inputs": hostile_files.digest(task.content.values)} if task.name == "files" else {}


def _record(content: dict[str, Any]) -> None:
    Path(RECORD).write_text(json.dumps(content))


# What is wrong with an answer.


def judged(case: Case, given: Answer, original: Callable[[], Answer]) -> tuple[str, str]:
    """The column of an answer, and what is wrong with it."""
    expected, said = case.expected, _unwrapped(given.errors)
    if given.hung or given.seconds > LIMIT:
        return "hang", f"{given.seconds:.1f} seconds, killed: {given.hung}"
    if given.code not in (0, 1, 2, 3) or "Traceback" in given.errors:
        return "traceback", f"exit code {given.code}"
    if given.code in (1, 2):
        if expected.kind in (SAME, MEANING):
            return "refused wrongly", ""
        if len(said) < 10 or len(said) > LONGEST:
            return "unclear", f"a message of {len(said):,} characters"
        located = any(
            re.search(rf"{re.escape(word)}:\d+: ", said) for word in expected.words
        )  # file and line are enough
        if not located and (missing := [word for word in expected.words if word not in said]):
            return "unclear", f"the message does not name {missing[0]}"
        return "refused", ""
    if expected.kind == REFUSED:
        return "silent", "it was accepted"
    if expected.wrong is not None:
        why = expected.wrong(given)
        return ("silent", why) if why else ("other meaning", "")
    if expected.kind == SAME or case.base is not None:
        first = original()
        if (given.output, given.record) == (first.output, first.record):
            return "same", ""
        if expected.kind == SAME:
            return "silent", "another answer than without the mutation"
    return "other meaning", ""


def _unwrapped(text: str) -> str:
    """A message without the box that is drawn around some."""
    return " ".join(text.replace("│", " ").replace("─", "").split())


# All of them.


def chosen(seed: int, count: int | None) -> list[Case]:
    """Cases of the catalogue, as many of each kind as there is room for, and cases by chance; None is the catalogue."""
    chance = random.Random(seed)
    lists = [list(make()) for module in (hostile_configs, hostile_files, hostile_use) for make in module.CATALOGUE]
    for cases in lists:
        chance.shuffle(cases)
    named = [case for some in itertools.zip_longest(*lists) for case in some if case is not None]
    if count is None:
        return named
    by_chance = [
        chance.choice((hostile_configs, hostile_files)).by_chance(chance) for _ in range(round(BY_CHANCE * count))
    ]
    cases = [*named[: count - len(by_chance)], *by_chance]
    chance.shuffle(cases)
    return cases


def needs_runs(case: Case) -> bool:
    return case.kind == "use" or case.command[0] in ("predict", "forecast")


def subjects_in(folder: Path, needed: bool) -> Path:
    """Trained runs and an experiment, made by another process: this one must not run a kernel."""
    if not needed:
        folder.mkdir()
    else:
        script = f"import hostile_use; hostile_use.make({str(folder)!r})"
        subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parent, stdout=subprocess.DEVNULL)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--all", action="store_true", help="the whole catalogue")
    parser.add_argument("--without-runs", action="store_true", help="no case that needs a trained run: a quicker start")
    parser.add_argument("--only", type=int, help="one case again")
    options = parser.parse_args()
    imported()
    cases = chosen(options.seed, None if options.all else options.count)
    if options.without_runs:
        cases = [case for case in cases if not needs_runs(case)]
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        sys.exit(campaign(cases, Path(folder), options.seed, options.only))


def campaign(cases: list[Case], folder: Path, seed: int, only: int | None) -> int:
    subjects, begin = subjects_in(folder / "subjects", any(map(needs_runs, cases))), time.perf_counter()
    _used[0] = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    originals: dict[tuple[str, tuple[str, ...]], Answer] = {}
    counts: dict[str, Counter[str]] = {}

    def ask(case: Case) -> Answer:
        return answer(case, folder / "case", subjects)

    def original(case: Case) -> Answer:
        assert case.base is not None
        key = case.base.kind, case.base.command
        if key not in originals:
            originals[key] = ask(case.base)
            if originals[key].code or originals[key].hung:
                raise RuntimeError(f"{case.base.command} fails without a mutation: {originals[key]}")
        return originals[key]

    for number, case in enumerate(cases):
        if only is not None and number != only:
            continue
        given = ask(case)
        column, why = judged(case, given, lambda case=case: original(case))  # type: ignore[misc]
        counts.setdefault(case.kind, Counter())[column] += 1
        if column not in ("refused", "same", "other meaning") or only is not None:
            print_finding(f"--seed {seed} --only {number}", case, given, column, why)
    return print_table(counts, time.perf_counter() - begin)


def print_finding(place: str, case: Case, given: Answer, column: str, why: str) -> None:
    print(f"\n{column.upper()}: {place}: {case.kind}: {case.name}: {why} (expected: {case.expected.kind})")
    print(f"  gatelab {' '.join(word[:80] for word in case.command)!a}")
    for line in (given.errors[-1500:] or given.output[-600:]).splitlines()[-12:]:
        print(f"  | {line[:200]!s}".encode("ascii", "backslashreplace").decode())
    sys.stdout.flush()


def print_table(counts: dict[str, Counter[str]], seconds: float) -> int:
    print(f"\n{'kind':<16}" + "".join(f"{title:>16}" for title in COLUMNS))
    total: Counter[str] = Counter()
    for kind, found in sorted(counts.items()):
        total += found
        print(f"{kind:<16}" + "".join(f"{_number(found, title):>16}" for title in COLUMNS))
    print(f"{'all':<16}" + "".join(f"{_number(total, title):>16}" for title in COLUMNS))
    wrong = sum(total[title] for title in COLUMNS[4:])
    print(f"{sum(total.values())} cases, {wrong} findings, {seconds:.0f} seconds")
    return 1 if wrong else 0


def _number(found: Counter[str], title: str) -> int:
    return sum(found.values()) if title == "cases" else found[title]


__all__ = ["SOUND", "campaign", "chosen"]

if __name__ == "__main__":
    main()
