"""What the pages on exports show, run as a reader would: files are saved, commands entered, the output is as shown."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def entered(command: str, folder: Path) -> str:
    environment = {**os.environ, "PATH": PATH, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def blocks(page: str) -> list[tuple[str, str, str]]:
    """Of each block: its language, its text, and the file name that the paragraph before it tells the reader."""
    text = (DOCS / page).read_text()
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    return [(m[1], m[2], (re.findall(r"`([\w.]+)`", text[: m.start()]) or [""])[-1]) for m in found]


@pytest.mark.parametrize("page", ["export.md", "export/c.md", "export/json.md", "export/onnx.md"])
def test_page(page, tmp_path):
    if page == "export/c.md" and shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    said = ""
    for language, text, file in blocks(page):
        if language == "sh":
            said = "".join(entered(line, tmp_path) for line in text.splitlines())
        elif language == "c":
            (tmp_path / file).write_text(text)
        elif language == "python":
            (tmp_path / "page.py").write_text(text)
            said = entered("python page.py", tmp_path)
        elif not language:
            assert text == said
