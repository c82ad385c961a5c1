from __future__ import annotations

import os

import pytest
import torch
from hypothesis import settings

# The same examples every time, and no clock: a test run says the same thing on every machine. To look for new ones:
# HYPOTHESIS_PROFILE=explore
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture(scope="session", autouse=True)
def _kernels(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Kernels are compiled anew for a test run, once for all of its worker processes."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    os.environ["GATELAB_CACHE"] = str(shared / "cache")
    os.environ["GATELAB_OFFLINE"] = "1"  # what a test downloads comes from its own server


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
