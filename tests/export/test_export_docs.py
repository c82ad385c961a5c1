"""What the pages on exports show, run as a reader would: files are saved, commands entered, the output is as shown."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys

import pytest
from places import DOCS


def blocks(page: str) -> list[tuple[str, str, str]]:
    """Of each block: its language, its text, and the file name that the paragraph before it tells the reader."""
    text = (DOCS / page).read_text()
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    return [(m[1], m[2], (re.findall(r"`([\w.]+)`", text[: m.start()]) or [""])[-1]) for m in found]


@pytest.mark.parametrize("page", ["export/c.md", "export/json.md", "export/onnx.md"])
def test_page(page, tmp_path, monkeypatch, cli):
    monkeypatch.chdir(tmp_path)

    def entered(line: str) -> str:
        """What a command prints; gatelab's run in this process, which starts but once."""
        program, *arguments = shlex.split(line)
        if program == "gatelab":
            code, out, err = cli(*arguments)
        else:
            command = [sys.executable if program == "python" else program, *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            code, out, err = done.returncode, done.stdout, done.stderr
        assert code == 0, f"{line}\n{err}"
        return out

    if page == "export/c.md" and shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    said = ""
    for language, text, file in blocks(page):
        if language == "sh":
            said = "".join(entered(line) for line in text.splitlines())
        elif language == "c":
            (tmp_path / file).write_text(text)
        elif language == "python":
            (tmp_path / "page.py").write_text(text)
            said = entered("python page.py")
        elif not language:
            assert text == said
