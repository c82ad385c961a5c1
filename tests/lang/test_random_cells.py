"""Random cells through every engine and every export: a small part of the campaign."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from places import CAMPAIGNS

CAMPAIGN = CAMPAIGNS / "cells.py"


@pytest.mark.skipif(not CAMPAIGN.is_file(), reason="the benchmarks are not here: this is a distribution of the source")
def test_a_part_of_the_campaign():
    """A dozen cells, each through the quick checks and one or two of the others."""
    command = [sys.executable, str(CAMPAIGN), "--count", "12", "--seed", "1", "--light"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 cells, 0 failures" in done.stdout
