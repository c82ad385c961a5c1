"""A file is there whole or not at all."""

from __future__ import annotations

import os
import stat

import pytest

from gatelab.disk import whole_file


def test_what_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "kept.txt"
    path.write_text("old")

    def write_half():
        with whole_file(path) as file:
            file.write(b"ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["kept.txt"]


def test_it_makes_folders_and_gives_usual_rights(tmp_path):
    path = tmp_path / "new" / "folder" / "file"
    with whole_file(path) as file:
        file.write(b"all of it")
    (tmp_path / "plain").write_bytes(b"")
    assert path.read_bytes() == b"all of it"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)
