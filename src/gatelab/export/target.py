"""What a target of the exporter is: how its files are written, and how they are run in its own runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gatelab.errors import GatelabError
from gatelab.export.check import Runner
from gatelab.export.network import Network


class RuntimeMissingError(GatelabError):
    """The runtime of a target is not installed here, so that an export cannot be checked."""


@dataclass(frozen=True)
class Settings:
    """What may be chosen for an export; each target refuses what it does not have."""

    chunk: int | None = None  # the number of steps per call, if it is to be fixed
    int8: bool = False  # whether weights are stored as 8-bit integers


@dataclass(frozen=True)
class Target:
    """One of the languages and formats that a network is exported to."""

    name: str
    title: str
    runtime: str  # where the export is checked
    suffix: str | None  # of a file; None for a folder
    write: Callable[[Network, Path, Settings], None]  # to a path that does not exist yet
    runner: Callable[[Network, Path], Runner]  # may raise RuntimeMissingError
    settings: tuple[str, ...] = ()  # those of `Settings` that it has
