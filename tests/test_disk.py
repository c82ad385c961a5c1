"""Atomic file writes."""

from __future__ import annotations

import os
import stat

import pytest

from gatelab.disk import cache_folder, foreign, whole_file, within
from gatelab.errors import DataError


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


def test_an_interrupt_just_after_the_renaming_stays_an_interrupt(tmp_path, monkeypatch):
    rename = os.replace

    def rename_and_interrupt(*names):
        rename(*names)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", rename_and_interrupt)

    def write():
        with whole_file(tmp_path / "file") as file:
            file.write(b"whole")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(os.name != "posix", reason="folders cannot be synchronised elsewhere")
@pytest.mark.parametrize("sync", [True, False])
def test_the_content_is_on_the_disk_before_its_name_and_the_name_before_it_returns(tmp_path, monkeypatch, sync):
    calls, fsync, rename = [], os.fsync, os.replace

    def recorded_fsync(handle):
        status = os.fstat(handle)
        fsync(handle)
        calls.append(("fsync", status.st_ino, status.st_size if stat.S_ISREG(status.st_mode) else None))

    def recorded_rename(source, target):
        rename(source, target)
        calls.append(("rename", os.stat(target).st_ino, None))

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_rename)
    path = tmp_path / "new" / "file"
    with whole_file(path, sync=sync) as file:
        file.write(b"all of it")  # still in Python's buffer
    file_number, folder_number = path.stat().st_ino, path.parent.stat().st_ino
    renamed = ("rename", file_number, None)
    assert calls == ([("fsync", file_number, 9), renamed, ("fsync", folder_number, None)] if sync else [renamed])


def test_folders_are_created_and_permissions_are_the_default(tmp_path):
    path = tmp_path / "new" / "folder" / "file"
    with whole_file(path) as file:
        file.write(b"all of it")
    (tmp_path / "plain").write_bytes(b"")
    assert path.read_bytes() == b"all of it"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_foreign_is_what_is_neither_known_nor_unfinished(tmp_path):
    for name in ("known", ".lock", ".gatelab-tmp-known.abc", "b", "a", ".hidden"):
        (tmp_path / name).touch()
    assert foreign(tmp_path, ["known", "absent"]) == [".hidden", "a", "b"]
    assert foreign(tmp_path / "absent", []) == []


def test_a_path_may_come_through_a_link_to_its_folder_but_not_lead_out_of_it(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "outside").touch()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "folder" / "escape").symlink_to(tmp_path / "outside")
    for folder in (tmp_path / "folder", tmp_path / "link"):
        assert within(folder, folder / "file") == folder / "file"
        with pytest.raises(DataError, match="leads out of"):
            within(folder, folder / "escape")


def test_the_cache_is_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("GATELAB_CACHE", str(tmp_path / "own"))
    assert cache_folder("kernels") == tmp_path / "own" / "kernels"
    monkeypatch.delenv("GATELAB_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    assert cache_folder("kernels") == tmp_path / "xdg" / "gatelab" / "kernels"
