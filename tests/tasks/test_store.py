"""Data sets on disk: all usual layouts, checksums, cache."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
import tinyset

from gatelab.errors import DataError
from gatelab.tasks import published, store
from gatelab.tasks.download import Download


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GATELAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GATELAB_DATA", raising=False)


@pytest.mark.parametrize("files", [tinyset.PLAIN, tinyset.GZIPPED], ids=["plain", "gzipped"])
@pytest.mark.parametrize("layout", ["tiny", "tiny/raw", "TINY/raw"])
def test_usual_layouts_are_found(tmp_path, files, layout):
    tinyset.write(tmp_path / "data" / layout, files)
    assert store.is_here(tinyset.source(), tmp_path / "data", "bytes")
    assert tinyset.right(tinyset.load(tmp_path / "data"))


def test_the_data_directories_are_searched_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("GATELAB_DATA", str(tmp_path / "named"))
    folders = [tmp_path / "given", tmp_path / "named", tmp_path / "cache" / "data"]
    assert store.search_path(tmp_path / "given") == folders
    tinyset.write(tmp_path / "named" / "tiny", tinyset.PLAIN)
    (tmp_path / "given" / "tiny").mkdir(parents=True)
    (tmp_path / "given" / "tiny" / "train-labels-idx1-ubyte").write_bytes(b"another file")
    assert not list((tmp_path / "cache").rglob("*.npz"))
    with pytest.raises(DataError, match=f"{tmp_path}/given/tiny/train-labels-idx1-ubyte is not train-labels"):
        tinyset.load(tmp_path / "given")
    assert tinyset.right(tinyset.load(None))


def test_the_error_for_missing_data_says_what_where_and_what_to_do(tmp_path):
    with pytest.raises(DataError) as raised:
        tinyset.load(tmp_path / "data")
    what, where, todo = str(raised.value).splitlines()
    assert what.startswith("tiny is not available: missing train-images-idx3-ubyte, train-labels")
    assert str(tmp_path / "data") in where
    assert str(tmp_path / "cache" / "data") in where
    assert "GATELAB_OFFLINE disables downloads" in where
    assert f"into {tmp_path}/data/tiny" in todo
    assert "train-images-idx3-ubyte.gz" in todo
    assert "digits" in todo


@pytest.mark.parametrize("keep", [0, 5, -1])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_truncated_file_is_named_and_not_modified(tmp_path, suffix, keep):
    files = tinyset.GZIPPED if suffix else tinyset.PLAIN
    name = f"t10k-images-idx3-ubyte{suffix}"
    tinyset.write(tmp_path / "tiny", {**files, name: files[name][:keep]})
    with pytest.raises(DataError, match=f"tiny/{name} is (truncated, damaged|not t10k-images)"):
        tinyset.load(tmp_path)
    assert (tmp_path / "tiny" / name).read_bytes() == files[name][:keep]
    tinyset.write(tmp_path / "tiny", {name: files[name]})
    assert tinyset.right(tinyset.load(tmp_path))


def test_a_damaged_byte_is_found(tmp_path):
    name = "train-images-idx3-ubyte.gz"
    spoilt = bytearray(tinyset.GZIPPED[name])
    spoilt[len(spoilt) // 2] ^= 0x40
    tinyset.write(tmp_path / "tiny", {**tinyset.GZIPPED, name: bytes(spoilt)})
    with pytest.raises(DataError, match=name):
        tinyset.load(tmp_path)


def test_decoded_arrays_are_cached_verified_and_decoded_again(tmp_path):
    tinyset.write(tmp_path / "data" / "tiny", tinyset.PLAIN)
    tinyset.load(tmp_path / "data")
    (kept,) = (tmp_path / "cache" / "decoded").iterdir()
    assert kept.name.startswith("tiny-bytes-")
    whole = kept.read_bytes()

    def decode(_: dict[str, bytes]) -> store.Arrays:
        raise AssertionError("decoded again")

    store.load(tinyset.source(), tmp_path / "data", "bytes", decode)  # comes from the cache
    store.load(tinyset.source(), tmp_path / "nowhere", "bytes", decode)  # even where the files are gone
    assert store.is_here(tinyset.source(), tmp_path / "nowhere", "bytes")
    offset = whole.find(tinyset.ARRAYS["t10k-images-idx3-ubyte"].tobytes()) + 7
    for spoilt in (whole[:-30], whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :], b""):
        kept.write_bytes(spoilt)
        assert tinyset.right(tinyset.load(tmp_path / "data"))
        assert kept.read_bytes() == whole


def test_no_room_for_the_cache_is_no_error(tmp_path, monkeypatch):
    tinyset.write(tmp_path / "data" / "tiny", tinyset.PLAIN)
    (tmp_path / "occupied").write_text("a file where a folder should be")
    monkeypatch.setenv("GATELAB_CACHE", str(tmp_path / "occupied"))
    assert tinyset.right(tinyset.load(tmp_path / "data"))


def test_a_tarball_is_read_in_place(tmp_path):
    content = {"a.bin": b"first", "b.bin": b"second"}
    import hashlib

    source = store.PublishedData(
        name="packed",
        folders=("packed", "packed/inner"),
        contents={name: hashlib.sha256(data).hexdigest() for name, data in content.items()},
        downloads=(Download("packed.tar.gz", 1, "md5:0", tuple(content)),),
        mirrors=(),
    )
    (tmp_path / "packed").mkdir()
    with tarfile.open(tmp_path / "packed" / "packed.tar.gz", "w:gz") as tar:
        for name, data in content.items():
            member = tarfile.TarInfo(f"inner/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    seen = {}

    def decode(files: dict[str, bytes]) -> store.Arrays:
        seen.update(files)
        return {"n": np.zeros(1)}

    whole = (tmp_path / "packed" / "packed.tar.gz").read_bytes()
    (tmp_path / "packed" / "packed.tar.gz").write_bytes(whole[:-30])
    with pytest.raises(DataError, match=r"packed\.tar\.gz is truncated"):
        store.load(source, tmp_path, "bytes", decode)
    (tmp_path / "packed" / "packed.tar.gz").write_bytes(whole)  # repaired while the process is running
    store.load(source, tmp_path, "bytes", decode)
    assert seen == content
    assert os.listdir(tmp_path / "packed") == ["packed.tar.gz"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected an idx file"),
        (b"\0\0\x0d\x01\0\0\0\x01....", "expected an idx file"),
        (b"\0\0\x08\x03\0\0", "expected an idx file"),
        (tinyset.idx(np.zeros((2, 3), np.uint8))[:-1], r"holds 5 bytes: expected \(2, 3\) from its header"),
        (tinyset.idx(np.zeros((2, 3), np.uint8)) + b"x", "holds 7 bytes"),
    ],
)
def test_an_idx_file_is_what_its_header_says(content, message):
    with pytest.raises(DataError, match=message):
        published.read_idx(content, "some file")


def test_the_published_sets_are_complete():
    for source in (published.MNIST, published.FASHION_MNIST, published.CIFAR10):
        assert source.folders[0] == source.name
        assert {member for d in source.downloads for member in d.members} == set(source.contents)
        assert len(source.mirrors) >= 2
        assert all(mirror.endswith("/") for mirror in source.mirrors)
        assert all(len(total) == 64 for total in source.contents.values())
        for download in source.downloads:
            kind, _, digits = download.hash.partition(":")
            assert len(digits) == {"md5": 32, "sha256": 64}[kind]
    assert not any(Path(d.name).suffix == ".pkl" for d in published.CIFAR10.downloads)
