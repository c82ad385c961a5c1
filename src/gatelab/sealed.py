"""Files with a checksum of their content, verified on reading: JSON, JSON lines, arrays and tensors.

The checksum is stored inside the file, which is replaced atomically, so that content and checksum cannot disagree, and
every file remains valid in its format. It detects damage, not forgery. Reading never executes code.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any, cast

import numpy as np
import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from gatelab import memory
from gatelab.disk import open_regular, read_regular, whole_file, write_text
from gatelab.errors import DataError, GatelabError

CHECKSUM = "checksum"
JSON_FACTOR, TENSORS_FACTOR = 4, 3  # memory that reading takes, in sizes of the file
LARGE = 1 << 28  # bytes; larger archives must not be compressed by more than a factor of 100
MAX_DEFLATE_RATIO = 1032  # the largest compression ratio of deflate
UNREADABLE = (
    OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, OverflowError, MemoryError, RecursionError,
    NotImplementedError, RuntimeError, SyntaxError, tokenize.TokenError, struct.error, zipfile.BadZipFile, zlib.error,
    SafetensorError,
)  # fmt: skip


def damaged(path: Path, why: object) -> DataError:
    """The error for a file that cannot be read."""
    if isinstance(why, GatelabError) and str(why).startswith(str(path)):  # a pipe, or too large: it may be whole
        return DataError(why)
    if isinstance(why, BaseException) and memory.is_exhausted(why):
        return DataError(f"{path} cannot be read: there is not enough memory for it here; it may be whole")
    return DataError(f"{path} cannot be read: damaged, or not written by gatelab ({why}); restore it from a copy")


def _verify(path: Path, stored: Any, computed: str) -> None:
    if stored is None:
        raise damaged(path, "it has no checksum")
    if stored != computed:
        raise damaged(path, "its checksum does not match its content")


# JSON: an additional key.


def sum_of(content: Any, previous: str = "") -> str:
    """The checksum of JSON values, independent of the order of keys; `previous` chains it to an earlier one."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256((previous + text).encode()).hexdigest()


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write indented JSON with a checksum; NaN and infinity are an error."""
    write_text(path, json.dumps({**content, CHECKSUM: sum_of(content)}, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read what `write_json` wrote; raises `DataError` if it is damaged."""
    try:
        content = json.loads(read_regular(path, factor=JSON_FACTOR))
        if not isinstance(content, dict):
            raise ValueError("it holds no JSON object")
        stored = content.pop(CHECKSUM, None)
        computed = sum_of(content)
    except UNREADABLE as error:
        raise damaged(path, error) from error
    _verify(path, stored, computed)
    return content


# JSON lines: each with a checksum over itself and all previous lines.


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    """Write one JSON object per line, each with a chained checksum."""
    texts, checksum = [], ""
    for line in lines:
        checksum = sum_of(line, checksum)[:16]
        texts.append(json.dumps({**line, CHECKSUM: checksum}, allow_nan=False) + "\n")
    write_text(path, "".join(texts))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read what `write_lines` wrote; raises `DataError` if a line is damaged, reordered, or missing before another."""
    lines, checksum = [], ""
    try:
        for text in read_regular(path, factor=JSON_FACTOR).splitlines():
            line = json.loads(text)
            stored = line.pop(CHECKSUM, None)
            checksum = sum_of(line, checksum)[:16]
            _verify(path, stored, checksum)
            lines.append(line)
    except DataError:
        raise
    except UNREADABLE as error:
        raise damaged(path, error) from error
    return lines


# Arrays: an .npz with an additional array.


def write_arrays(path: Path, arrays: dict[str, np.ndarray], compressed: bool = True) -> None:
    """Write an .npz with a checksum; object arrays are refused."""
    save = np.savez_compressed if compressed else np.savez
    if pickled := [name for name, array in arrays.items() if array.dtype.hasobject]:
        raise TypeError(f"the array {pickled[0]!r} holds Python objects: expected numbers or strings")
    everything: dict[str, Any] = {**arrays, CHECKSUM: np.array(_sum_of_arrays(arrays))}
    with whole_file(path) as file:
        save(file, **everything)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read what `write_arrays` wrote; raises `DataError` if it is damaged."""
    try:
        arrays = plain_arrays(path)
        stored = str(arrays.pop(CHECKSUM)) if CHECKSUM in arrays else None
        computed = _sum_of_arrays(arrays)
    except UNREADABLE as error:
        raise damaged(path, error) from error
    _verify(path, stored, computed)
    return arrays


def plain_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of any .npz, with or without a checksum; raises one of `UNREADABLE`."""
    with open_regular(path) as file, zipfile.ZipFile(file) as archive:
        size, compressed_size = sum(m.file_size for m in archive.infolist()), path.stat().st_size
        if size > LARGE and size > 100 * compressed_size:
            raise ValueError(f"{compressed_size:,} bytes would decompress to {size:,}")
        memory.refuse(2 * size, f"{path.name} with its {size:,} bytes of arrays", "split it")
        names = [member.filename.removesuffix(".npy") for member in archive.infolist()]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"it has the array {repeated[0]!r} twice")
        contents = (_content(archive, member) for member in archive.infolist())
        return {name: _array(content) for name, content in zip(names, contents, strict=True)}


def plain_array(path: Path) -> np.ndarray:
    """The array of any .npy; raises one of `UNREADABLE`. The shape in its header is compared with the size of the file
    before anything is allocated.
    """
    return _array(bytearray(read_regular(path)))


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytearray:
    """The decompressed member; the zip file's own CRC is verified before anything is parsed."""
    size, compressed_size = member.file_size, member.compress_size
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or size > MAX_DEFLATE_RATIO * (
        compressed_size + 1
    ):
        raise ValueError(f"{member.filename} is compressed with a method that NumPy does not use")
    content = bytearray(size)
    view, filled = memoryview(content), 0
    with archive.open(member) as opened:
        while count := cast(zipfile.ZipExtFile, opened).readinto(view[filled:]):
            filled += count
        if filled != size or opened.read(1):  # reading to the end also verifies the CRC
            raise ValueError(f"{member.filename} does not have the length in its header")
    return content


def _array(content: bytearray) -> np.ndarray:
    """Parse an .npy without copying its data."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"it has version {version[0]}.{version[1]} of NumPy's format: expected 1.0 or 2.0")
    shape, is_fortran, dtype = readers[version](file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, whose unpickling could execute code")
    expected, found = math.prod(shape) * dtype.itemsize, len(content) - file.tell()
    if min(shape, default=0) < 0 or expected != found:
        raise ValueError(f"its header has the shape {shape}, {expected:,} bytes, and it has {found:,}")
    if not found:
        return np.empty(shape, dtype)
    if dtype.kind == "U":
        _check_text(np.frombuffer(content, np.dtype("u4").newbyteorder(dtype.byteorder), offset=file.tell()))
    values = np.frombuffer(content, dtype, offset=file.tell())
    return values.reshape(shape, order="F" if is_fortran else "C")


def _check_text(codes: np.ndarray) -> None:
    """Refuse code points that are not characters: Python fails on them, and files cannot have them."""
    if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any():
        raise ValueError("it has text with code points that are not characters")


def _sum_of_arrays(arrays: dict[str, np.ndarray]) -> str:
    total = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        if array.size:
            total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


# Tensors: a .safetensors with an additional entry in its header.


def write_tensors(path: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Write tensors, and JSON values in the header."""
    plain = {name: value.detach().contiguous() for name, value in tensors.items()}
    # One entry: the order of several is not deterministic, and equal content should give equal files.
    text = json.dumps({**state, CHECKSUM: _sum_of_tensors(plain, state)}, allow_nan=False)
    with whole_file(path) as file:
        file.write(safetensors.torch.save(plain, metadata={"state": text}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote; raises `DataError` if it is damaged."""
    try:
        # Not memory-mapped: truncating a mapped file would crash the process.
        content = read_regular(path, factor=TENSORS_FACTOR)
        (length,) = struct.unpack("<Q", content[:8])
        state = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["state"])
        stored = state.pop(CHECKSUM, None)
        tensors = safetensors.torch.load(content)
        computed = _sum_of_tensors(tensors, state)
    except UNREADABLE as error:
        raise damaged(path, error) from error
    _verify(path, stored, computed)
    return tensors, state


def _sum_of_tensors(tensors: dict[str, Tensor], state: dict[str, Any]) -> str:
    total = hashlib.sha256(sum_of(state).encode())
    for name, value in sorted(tensors.items()):
        total.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        total.update(value.numpy().tobytes())
    return total.hexdigest()
