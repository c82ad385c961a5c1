"""The walk-throughs in examples/ run as they are, and their pictures are drawn."""

from __future__ import annotations

import re
import runpy

import matplotlib.pyplot as plt
import numpy as np
import pytest
from places import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_walk_through(example, tmp_path, monkeypatch):
    if "statsmodels" in example.read_text():
        pytest.importorskip("statsmodels", reason="statsmodels, which has the series, is not installed")
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("agg")
    runpy.run_path(str(example), run_name="__main__")
    plt.close("all")
    pictures = list(tmp_path.glob("*.png"))
    assert len(pictures) == example.read_text().count("savefig(")
    for picture in pictures:
        pixels = plt.imread(picture)
        assert pixels.shape[0] >= 400
        assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 20


def test_they_are_cells_of_a_notebook():
    assert [path.stem for path in EXAMPLES] == ["classify", "forecast"]
    for path in EXAMPLES:
        first, *cells = re.split(r"^# %%", path.read_text(), flags=re.MULTILINE)
        assert not first
        assert cells[0].startswith(" [markdown]\n# # ")
        assert all(cell.startswith((" [markdown]\n# ", "\n")) for cell in cells)
