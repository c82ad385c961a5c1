"""Waiting for something that another process does. The limit is for what never comes, not for what is slow."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(true: Callable[[], object], seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited for {seconds} seconds"
        time.sleep(0.05)
