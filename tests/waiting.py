"""Waiting for something that another process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(true: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited for {seconds} seconds"
        time.sleep(0.05)
