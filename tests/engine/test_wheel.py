"""The wheel that `make wheel` builds: every cell of the library runs fused on a machine without a compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from places import ROOT

from gatelab import cells
from gatelab.engine.fused import compiler, prebuilt
from gatelab.engine.fused.kernel_source import KernelSource

EVERY_CELL = """
import json, sys
import torch
import gatelab
from gatelab.engine.fused import function, prebuilt

levels = json.loads(sys.argv[1])
prebuilt.supported = lambda: tuple(levels)
found = {}
for name in gatelab.cells.names():
    layer = gatelab.Recurrent(name, 8, 8)
    reference = gatelab.Recurrent(name, 8, 8, engine="eager")
    reference.load_state_dict(layer.state_dict())
    x = torch.randn(5, 7, 8)
    error = 0.0
    if not any(layer.cell.graph.randoms):
        error = (layer.eval()(x)[0] - reference.eval()(x)[0]).abs().max().item()
    layer(x)[0].sum().backward()
    layer(x, gates=True)
    kernels = [function.kernel(layer.cell, watch).library._name for watch in (False, True)]
    found[name] = [layer.engine_in_use, error, *kernels]
openmp = {line.split()[-1] for line in open("/proc/self/maps") if "omp" in line.rpartition("/")[2]}
print(json.dumps([gatelab.__file__, found, sorted(openmp)]))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Path:
    """A new environment with the wheel and what it depends on."""
    wheels = list((ROOT / "dist").glob("gatelab-*.whl"))
    assert len(wheels) == 1, "run `make test-wheel`, which builds the wheel first"
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    command = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", *wheels]
    subprocess.run(command, check=True, env=_clean())
    return folder


def _clean(**more: str) -> dict[str, str]:
    """The environment variables without those that lead to another gatelab, a compiler or a kernel."""
    hidden = ("PYTHONPATH", "CXX", "GATELAB_CACHE", "GATELAB_KERNELS")
    return {name: value for name, value in os.environ.items() if name not in hidden} | more


def run(environment: Path, *arguments: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of that environment, with no other program on the PATH."""
    program, *others = arguments
    return subprocess.run(
        [environment / "bin" / program, *others],
        capture_output=True,
        text=True,
        env=_clean(PATH=str(environment / "bin"), GATELAB_CACHE=str(cache)),
        cwd=cache,
        check=False,
    )


@pytest.mark.wheel
@pytest.mark.parametrize("level", prebuilt.LEVELS)
def test_every_cell_runs_fused_without_a_compiler(environment, tmp_path, level):
    if level not in prebuilt.supported():
        pytest.skip(f"this CPU does not support {level}")
    done = run(environment, "python", "-c", EVERY_CELL, json.dumps([level]), cache=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    package, found, openmp = json.loads(done.stdout)
    assert Path(package).is_relative_to(environment)
    assert list(found) == cells.names()
    for name, (engine, error, *kernels) in found.items():
        assert engine == "fused", name
        assert error < 2e-4, name
        for kernel in kernels:
            assert Path(kernel).is_relative_to(environment), name
            assert kernel.endswith(f"-{level}.so"), name
    assert len(openmp) == 1
    assert "/torch/lib/" in openmp[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.wheel
def test_doctor_is_content_without_a_compiler(environment, tmp_path):
    done = run(environment, "gatelab", "doctor", cache=tmp_path)
    assert done.returncode == 0, done.stderr
    keys = {
        compiler.key(KernelSource(cells.get(name), watch).text) for name in cells.names() for watch in (False, True)
    }
    assert f"{len(keys)} kernels in" in done.stdout  # a cell without gates has one for both
    assert "gru compiled ahead" in done.stdout


@pytest.mark.wheel
def test_the_wheel_is_small(environment):
    (wheel,) = (ROOT / "dist").glob("gatelab-*.whl")
    assert wheel.stat().st_size < 10e6
    assert "manylinux" in wheel.name
    assert sys.platform == "linux"
