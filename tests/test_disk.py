"""Atomic file writes."""

from __future__ import annotations

import os
import stat

import pytest

from gatelab.disk import whole_file


def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(tmp_path):
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


def test_folders_are_created_and_permissions_are_the_default(tmp_path):
    path = tmp_path / "new" / "folder" / "file"
    with whole_file(path) as file:
        file.write(b"all of it")
    (tmp_path / "plain").write_bytes(b"")
    assert path.read_bytes() == b"all of it"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)
