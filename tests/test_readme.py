"""What the README and the guides show runs as it stands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest
from places import ROOT

NAMES = (
    "layers", "tasks", "text", "training", "bench", "ablation", "cluster", "inspect", "explore", "use",
    "estimators", "forecasting", "fit",
)  # fmt: skip
GUIDES = ("README.md", *(f"docs/{name}.md" for name in NAMES))
TEXT = "\n".join((ROOT / name).read_text() for name in GUIDES)
PYTHON_BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
WRITTEN = [
    tuple(line.partition("#")[0].strip() for line in block.splitlines() if line.startswith(("gatelab", "python")))
    for block in re.findall(r"```sh\n(.*?)```", TEXT, flags=re.DOTALL)
    if "gatelab" in block or "python" in block
]
# Whole commands within a sentence or a table of the README.
WRITTEN += [
    (command,)
    for command in re.findall(r"`((?:gatelab|python) [^`]+)`", (ROOT / "README.md").read_text())
    if len(command.split()) > 2 and not re.search(r"\b[A-Z]+\b", command)
]
# What one page begins and another goes on with is run there alone.
SHELL_BLOCKS = [
    block for block in dict.fromkeys(WRITTEN) if not any(block == o[: len(block)] for o in WRITTEN if o != block)
]


# More epochs are more of the same: this trains for many, and in NumPy.
BRIEFLY = {"python -m gatelab.scratch": ["--epochs", "5"]}


@pytest.mark.parametrize("block", PYTHON_BLOCKS)
def test_python(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})


@pytest.mark.parametrize("commands", SHELL_BLOCKS, ids=lambda commands: commands[0])
@pytest.mark.usefixtures("working_here")
def test_commands(commands, tmp_path, monkeypatch, cli):
    """Those of a block one after the other in one folder; gatelab's and its runs in this process, which starts but
    once.
    """
    monkeypatch.chdir(tmp_path)
    for command in commands:
        program, *arguments = shlex.split(command)
        if program == "gatelab":
            code, out, err = cli(*arguments)
        else:
            arguments += BRIEFLY.get(command, [])
            done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
            code, out, err = done.returncode, done.stdout, done.stderr
        assert code == 0, err
        assert out or "--plan-only" in arguments


def test_it_is_short():
    assert len((ROOT / "README.md").read_text().split()) <= 900


def test_there_is_something_to_run():
    assert BRIEFLY.keys() <= {command for block in SHELL_BLOCKS for command in block}
    assert len(PYTHON_BLOCKS) >= 2
    assert sum(map(len, SHELL_BLOCKS)) >= 3


def test_what_the_first_block_says_in_its_comments_is_true(capsys):
    space: dict = {}
    exec(compile(PYTHON_BLOCKS[0], "README.md", "exec"), space)
    assert space["gates"]["z"].shape == (2, 32, 100, 128)
    assert space["leaky_gru"].roles == {"z": "write"}
    assert capsys.readouterr().out.startswith("z = σ(W_z x + U_z h + b_z)")
