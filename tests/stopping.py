"""Runs that stop where a test says."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from gatelab.training.reporter import Reporter


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class StopAfter(Reporter):
    """Presses Ctrl-C after so many batches, or does something else."""

    def __init__(self, batches: int, act: Callable[[], object] = press_ctrl_c) -> None:
        self.left, self.act = batches, act

    def batch(self, *arguments: object) -> None:
        self.left -= 1
        if self.left == 0:
            self.act()
