"""A job array of Slurm. Each element is a worker that takes the next run that nobody has, and ends with it.

Nothing stays behind on the login node. Elements do not depend on each other: one that fails ends alone, and one that
reaches its time limit saves, is requeued and resumes what is left.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from gatelab import user_code
from gatelab.disk import within
from gatelab.errors import GatelabError
from gatelab.experiments.planned import Planned, has_ended
from gatelab.experiments.worker import Finished
from gatelab.formatting import counted

LOGS = "slurm"  # the folder for the output of the elements, in the directory of the experiment
NOTICE = 120  # seconds between SIGUSR1 and the time limit: enough to end a batch, save and requeue


class SlurmExecutor:
    """Submits an array with one element per run; `execute` returns at once. By default the cluster decides on the
    partition, the time limit and how many elements are executed at a time.
    """

    detached = True
    is_local = False

    def __init__(
        self,
        partition: str | None = None,
        minutes: int | None = None,
        array_parallel: int | None = None,
        cpus_per_run: int = 1,
        sbatch_options: tuple[str, ...] = (),
        dry_run: bool = False,
    ) -> None:
        for flag, value, unit in (
            ("--time", minutes, "minute"),
            ("--array-parallel", array_parallel, "run at a time"),
            ("--cpus-per-run", cpus_per_run, "core"),
        ):
            if value is not None and value < 1:
                raise GatelabError(f"{flag} is {value}: expected at least one {unit}")
        for option in sbatch_options:
            if not option.startswith("--"):
                raise GatelabError(
                    f"--sbatch-option is {option!r}: expected an option of sbatch in its long form, as "
                    "--sbatch-option=--mem=4G"
                )
            _refuse_lines("--sbatch-option", option)
        _refuse_lines("--partition", partition or "")
        self.partition, self.minutes, self.array_parallel = partition, minutes, array_parallel
        self.threads, self.sbatch_options, self.dry_run = cpus_per_run, sbatch_options, dry_run

    def threads_for(self, runs: int) -> int:
        """As many as were asked for."""
        return self.threads

    def execute(self, runs: list[Planned], directory: Path, tick: Callable[[], None]) -> Iterator[Finished]:
        """Submit the runs that have not ended, and print the number of the job. Nothing is waited for or yielded."""
        remaining = [run for run in runs if has_ended(run.path, directory) is None]
        name = runs[0].spec.task.name
        task = name if user_code.parse(name) is not None else None  # executed only where it is named
        if not remaining:
            print(f"All runs in {directory} have ended: nothing is submitted.")
        elif self.dry_run:
            print(self.script(len(remaining), directory, task), end="")
        else:
            job = _submit(self.script(len(remaining), directory, task), directory)
            print(f"Submitted the Slurm job array {job} ({counted(len(remaining), 'element')}).")
        return iter(())

    def script(self, count: int, directory: Path, task: str | None = None) -> str:
        """The batch script of an array with a number of elements; `task` is one of the user's own, FILE.py:NAME."""
        directory = directory.absolute()
        _refuse_lines("the directory", str(directory))
        if "\\" in str(directory):  # Slurm would expand neither %A nor %a in the name of the log
            raise GatelabError(f"the directory is {str(directory)!r}: expected one without a backslash, for Slurm")
        parallel = f"%{self.array_parallel}" if self.array_parallel else ""
        log = f"{str(directory).replace('%', '%%')}/{LOGS}/%A_%a.log"
        # Slurm takes the quotes of a shell.
        options = [
            f"--job-name={shlex.quote(f'gatelab-{directory.name}')}",
            f"--array=0-{count - 1}{parallel}",
            f"--cpus-per-task={self.threads}",
            *([f"--time={self.minutes}"] if self.minutes else []),
            *([f"--partition={shlex.quote(self.partition)}"] if self.partition else []),
            "--requeue",
            "--open-mode=append",
            f"--signal=B:USR1@{self._notice()}",
            f"--output={shlex.quote(log)}",
            *self.sbatch_options,
        ]
        worker = [sys.executable, "-m", "gatelab", "worker", str(directory), "--jobs", "1", "--runs", "1"]
        worker += ["--task", task] if task else []
        lines = [
            "#!/bin/bash",
            *(f"#SBATCH {option}" for option in options),
            "export PYTHONSAFEPATH=1  # nothing is imported from the current directory",
            "trap '' USR1  # until the worker listens, the signal must not end it",
            f"exec {shlex.join(worker)}",  # as the process of the job, it gets the signal
        ]
        return "\n".join(lines) + "\n"

    def _notice(self) -> int:
        """A sixth of a short limit: Slurm may be early by a minute, and the worker must be listening by then."""
        return min(NOTICE, 10 * self.minutes) if self.minutes else NOTICE


def _submit(script: str, directory: Path) -> str:
    """The number of the submitted job."""
    place = shlex.quote(str(directory))
    if shutil.which("sbatch") is None:
        raise GatelabError(
            "there is no sbatch on this machine: submit on a login node of the cluster, print the script with "
            f"--dry-run, or execute the plan, which is written, without Slurm: gatelab worker {place}"
        )
    within(directory, directory / LOGS).mkdir(exist_ok=True)  # Slurm does not, and elements without a log fail
    done = subprocess.run(["sbatch", "--parsable"], input=script, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = "; ".join(done.stderr.split("\n")).strip("; ") or f"exit code {done.returncode}"
        raise GatelabError(
            f"sbatch refused the job array ({reason}): change the options, and give the same command again (--dry-run "
            f"prints the script), or execute the plan, which is written, without Slurm: gatelab worker {place}"
        )
    return done.stdout.strip().partition(";")[0]  # the name of the cluster may follow


def _refuse_lines(what: str, text: str) -> None:
    """Raise for text that would begin a new line of the script."""
    if len(text.splitlines()) > 1 or text.endswith(("\n", "\r")):
        raise GatelabError(f"{what} is {text!r}: expected a single line")
