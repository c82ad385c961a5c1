from __future__ import annotations

import os

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _kernels(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Kernels are compiled anew for a test run, once for all of its worker processes."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    os.environ["GATELAB_CACHE"] = str(shared / "cache")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
