"""Where `gatelab bench` and `gatelab ablate` execute their runs: options of the command line, and the executor."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from gatelab.cli.settings import WHOLE
from gatelab.errors import GatelabError

if TYPE_CHECKING:
    from gatelab.experiments.executors import Executor

OPTIONS = {
    "local": ("jobs",),
    "ray": ("cpus_per_run", "address", "shared_folder"),
    "slurm": ("cpus_per_run", "partition", "minutes", "array_parallel", "sbatch_option", "dry_run"),
}  # of each executor


@dataclass(frozen=True)
class Execution:
    """The options; each field becomes one of the command."""

    jobs: Annotated[
        int | None, typer.Option("--jobs", **WHOLE, help="Number of parallel processes; by default one per core.")
    ] = None
    plan_only: Annotated[
        bool, typer.Option("--plan-only", help="Only write the plan; execute it with gatelab worker DIR, anywhere.")
    ] = False
    executor: Annotated[
        str, typer.Option("--executor", metavar="NAME", help="Where runs are executed: local, ray or slurm.")
    ] = "local"
    cpus_per_run: Annotated[
        int | None, typer.Option("--cpus-per-run", **WHOLE, help="Ray, Slurm: cores, and threads, of each run.")
    ] = None
    address: Annotated[
        str | None, typer.Option("--address", help="Ray: address of a cluster; by default one on this machine.")
    ] = None
    shared_folder: Annotated[
        bool | None,
        typer.Option(
            "--shared-folder/--no-shared-folder",
            help="Ray: whether all nodes see the output directory; by default they are asked.",
        ),
    ] = None
    partition: Annotated[str | None, typer.Option("--partition", help="Slurm: partition.")] = None
    minutes: Annotated[int | None, typer.Option("--time", **WHOLE, help="Slurm: time limit in minutes.")] = None
    array_parallel: Annotated[
        int | None, typer.Option("--array-parallel", **WHOLE, help="Slurm: largest number of runs at a time.")
    ] = None
    sbatch_option: Annotated[
        list[str] | None,
        typer.Option("--sbatch-option", metavar="OPTION", help="Slurm: a further option of sbatch, as --mem=4G."),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Slurm: print the script and submit nothing.")] = False

    def make(self) -> Executor:
        """The executor; options of another one are errors."""
        if self.executor not in OPTIONS:
            raise GatelabError(f"--executor is {self.executor!r}: expected one of {', '.join(OPTIONS)}")
        for field in fields(self):
            value = getattr(self, field.name)
            given = value is not None and value is not False and value != []
            if given and field.name not in ("executor", "plan_only", *OPTIONS[self.executor]):
                users = " or ".join(name for name, options in OPTIONS.items() if field.name in options)
                raise GatelabError(f"{_flag(field.name)} is an option of --executor {users}, not of {self.executor}")
        cpus = 1 if self.cpus_per_run is None else self.cpus_per_run
        if self.executor == "ray":
            from gatelab.experiments.executors.ray import RayExecutor

            return RayExecutor(self.address, cpus, self.shared_folder)
        if self.executor == "slurm":
            from gatelab.experiments.executors.slurm import SlurmExecutor

            return SlurmExecutor(
                partition=self.partition,
                minutes=self.minutes,
                array_parallel=self.array_parallel,
                cpus_per_run=cpus,
                sbatch_options=tuple(self.sbatch_option or ()),
                dry_run=self.dry_run,
            )
        from gatelab.experiments.executors import local

        return local.LocalExecutor(self.jobs)


def _flag(name: str) -> str:
    return {"minutes": "--time"}.get(name, f"--{name.replace('_', '-')}")


def with_execution(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter `execution` is given by the options above."""
    names = [field.name for field in fields(Execution)]

    @functools.wraps(command)
    def wrapper(**options: Any) -> None:
        execution = Execution(**{name: options.pop(name) for name in names})
        command(**options, execution=execution)

    hints = get_type_hints(Execution, include_extras=True)
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "execution"]
    added = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(Execution)
    ]
    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    wrapper.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *added)}
    return wrapper
