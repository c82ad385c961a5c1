"""Files of runs and experiments, damaged by chance: every reader says so in words, or answers as it always did."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from places import CAMPAIGNS

from gatelab import sealed
from gatelab.errors import DataError

CAMPAIGN = CAMPAIGNS / "damage.py"


@pytest.mark.skipif(not CAMPAIGN.is_file(), reason="the benchmarks are not here: this is a distribution of the source")
def test_damage_by_chance_is_said_in_words_or_has_no_effect():
    done = subprocess.run(
        [sys.executable, str(CAMPAIGN), "--trials", "12", "--seed", "1", "--no-pictures"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 trials, 0 failed" in done.stdout


def test_a_packing_that_is_not_ours_is_refused_in_words(tmp_path):
    """Python knows several, each with errors of its own; a large file gets farther into them than a small one."""
    path = tmp_path / "arrays.npz"
    sealed.write_arrays(path, {"noise": np.random.RandomState(0).normal(size=20_000)})
    content = path.read_bytes()
    method = content.index(b"PK\1\2") + 10
    for change in range(1, 256):
        path.write_bytes(content[:method] + bytes([content[method] ^ change]) + content[method + 1 :])
        with pytest.raises(DataError, match=re.escape(str(path))):
            sealed.read_arrays(path)
