"""ONNX."""

from __future__ import annotations

from pathlib import Path

from gatelab.export.check import Runner
from gatelab.export.network import Network
from gatelab.export.target import Settings, Target


def write(network: Network, path: Path, settings: Settings) -> None:
    """Write."""
    raise NotImplementedError


def runner(network: Network, path: Path) -> Runner:
    """Run."""
    raise NotImplementedError


TARGET = Target("onnx", "ONNX", "ONNX", ".onnx", write, runner)
