"""Files that carry a checksum of what they hold, verified whenever they are read: JSON, lines, arrays and tensors.

The sum is over the content, not the bytes of the file: it lies inside the file, which is replaced in one go, so that
the two cannot disagree, and every file stays what its ending says. Damage is found, forgery is not: whoever can write
the file can write its sum. Nothing that is read can run code.
"""

from __future__ import annotations

import hashlib
import io
import json
import stat
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, cast

import numpy as np
import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from gatelab.disk import whole_file, write_text
from gatelab.errors import DataError

CHECKSUM = "checksum"
LARGE = 1 << 28  # bytes; what is larger than this must not have been packed to a hundredth
DEFLATED_MOST = 1032  # bytes that one byte can be unpacked to
UNREADABLE = (
    OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, OverflowError, MemoryError, RecursionError,
    NotImplementedError, RuntimeError, struct.error, zipfile.BadZipFile, zlib.error, SafetensorError,
)  # fmt: skip


def damaged(path: Path, why: object) -> DataError:
    return DataError(f"{path} cannot be read: damaged, or not written by gatelab ({why}); restore it from a copy")


def _regular(path: Path) -> Path:
    """A pipe or a device in the place of a file would keep whoever reads it waiting for ever."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is not a regular file")
    return path


def _refuse_other(path: Path, found: Any, computed: str) -> None:
    if found is None:
        raise damaged(path, "it carries no checksum")
    if found != computed:
        raise damaged(path, "its checksum does not fit what it holds")


# JSON: one more key.


def sum_of(content: Any, before: str = "") -> str:
    """The checksum of plain values, whatever the order of their keys."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256((before + text).encode()).hexdigest()


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Indented, and without what JSON does not know: NaN and infinity are an error."""
    write_text(path, json.dumps({**content, CHECKSUM: sum_of(content)}, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(_regular(path).read_bytes())
        if not isinstance(content, dict):
            raise ValueError("it holds no JSON object")
        found = content.pop(CHECKSUM, None)
        computed = sum_of(content)
    except UNREADABLE as error:
        raise damaged(path, error) from error
    _refuse_other(path, found, computed)
    return content


# Lines: each with a sum over itself and the lines before it.


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    written, before = [], ""
    for line in lines:
        before = sum_of(line, before)[:16]
        written.append(json.dumps({**line, CHECKSUM: before}, allow_nan=False) + "\n")
    write_text(path, "".join(written))


def read_lines(path: Path) -> list[dict[str, Any]]:
    lines, before = [], ""
    try:
        for text in _regular(path).read_bytes().splitlines():
            line = json.loads(text)
            found = line.pop(CHECKSUM, None)
            before = sum_of(line, before)[:16]
            _refuse_other(path, found, before)
            lines.append(line)
    except DataError:
        raise
    except UNREADABLE as error:
        raise damaged(path, error) from error
    return lines


# Arrays: an .npz with one more array.


def write_arrays(path: Path, arrays: dict[str, np.ndarray], compressed: bool = True) -> None:
    save = np.savez_compressed if compressed else np.savez
    if pickled := [name for name, array in arrays.items() if array.dtype.hasobject]:
        raise TypeError(f"the array {pickled[0]!r} holds Python objects: expected plain numbers or texts")
    everything: dict[str, Any] = {**arrays, CHECKSUM: np.array(_sum_of_arrays(arrays))}
    with whole_file(path) as file:
        save(file, **everything)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        arrays = plain_arrays(path)
        found = str(arrays.pop(CHECKSUM)) if CHECKSUM in arrays else None
        computed = _sum_of_arrays(arrays)
    except UNREADABLE as error:
        raise damaged(path, error) from error
    _refuse_other(path, found, computed)
    return arrays


def plain_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz, with or without a checksum of ours; what goes wrong is one of `UNREADABLE`."""
    with _regular(path).open("rb") as file, zipfile.ZipFile(file) as archive:
        unpacked, packed = sum(m.file_size for m in archive.infolist()), path.stat().st_size
        if unpacked > LARGE and unpacked > 100 * packed:
            raise ValueError(f"{packed:,} bytes would become {unpacked:,}")
        return {m.filename.removesuffix(".npy"): _array(_content(archive, m)) for m in archive.infolist()}


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytearray:
    """All of a member, compared with its own sum, before any of it is taken for a header."""
    size, packed = member.file_size, member.compress_size
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or size > DEFLATED_MOST * (packed + 1):
        raise ValueError(f"{member.filename} is compressed in a way that NumPy does not use")
    content = bytearray(size)
    view, filled = memoryview(content), 0
    with archive.open(member) as opened:
        while count := cast(zipfile.ZipExtFile, opened).readinto(view[filled:]):
            filled += count
        if filled != size or opened.read(1):  # which also lets the sum be compared
            raise ValueError(f"{member.filename} is not as long as it says")
    return content


def _array(content: bytearray) -> np.ndarray:
    """An array in the memory of a file's content, without a copy."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, is_fortran, dtype = readers[version](file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, and reading those could run anything")
    values = np.frombuffer(content, dtype, offset=file.tell())
    return values.reshape(shape, order="F" if is_fortran else "C")


def _sum_of_arrays(arrays: dict[str, np.ndarray]) -> str:
    total = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        if array.size:
            total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


# Tensors: a .safetensors with one more entry in its header.


def write_tensors(path: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Tensors, and plain values beside them."""
    plain = {name: value.detach().contiguous() for name, value in tensors.items()}
    # One entry, since several come in any order, and the same content should be the same file.
    text = json.dumps({**state, CHECKSUM: _sum_of_tensors(plain, state)}, allow_nan=False)
    with whole_file(path) as file:
        file.write(safetensors.torch.save(plain, metadata={"state": text}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        content = _regular(path).read_bytes()  # not mapped: a file that shrinks under a map ends the process
        (length,) = struct.unpack("<Q", content[:8])
        state = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["state"])
        found = state.pop(CHECKSUM, None)
        tensors = safetensors.torch.load(content)
        computed = _sum_of_tensors(tensors, state)
    except UNREADABLE as error:
        raise damaged(path, error) from error
    _refuse_other(path, found, computed)
    return tensors, state


def _sum_of_tensors(tensors: dict[str, Tensor], state: dict[str, Any]) -> str:
    total = hashlib.sha256(sum_of(state).encode())
    for name, value in sorted(tensors.items()):
        total.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        total.update(value.numpy().tobytes())
    return total.hexdigest()
