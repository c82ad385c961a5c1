"""The command line, as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gatelab
from gatelab import cells
from gatelab.cli import app

GATELAB = Path(sys.executable).with_name("gatelab")


def run(*arguments: str, columns: int = 100, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {"COLUMNS": str(columns), "PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([GATELAB, *arguments], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == code, done.stderr
    return done


def test_cells_lists_all_and_fits_the_terminal():
    out = run("cells", columns=80).stdout
    for name in cells.names():
        assert name in out
        assert f"{cells.get(name).parameter_count(28, 128):,}" in out
    assert "z (keeps)" in out
    assert "z (writes)" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("name", cells.names())
def test_cells_prints_the_equations_of_one(name):
    out = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["cells", name]).stdout
    for line in cells.get(name).text().splitlines():
        assert f"  {line}\n" in out
    assert cells.get(name).reference in out
    assert cells.get(name).convention in out


def test_cells_prints_latex():
    assert run("cells", "gru", "--latex").stdout.strip() == cells.gru.latex()
    assert "name it" in run("cells", "--latex", code=2).stderr


def test_an_unknown_cell_is_one_line_and_exit_code_2():
    done = run("cells", "gruu", code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("gatelab: unknown cell 'gruu'; did you mean 'gru'?")
    assert "Traceback" not in done.stderr


def test_version_and_help_do_not_wait_for_torch():
    assert run("--version").stdout == f"gatelab {gatelab.__version__}\n"
    script = "import sys, gatelab.cli; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_package_exports_what_it_promises():
    for name in gatelab.__all__:
        assert getattr(gatelab, name) is not None
    assert set(gatelab.__all__) <= set(dir(gatelab))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gatelab.nothing  # noqa: B018
