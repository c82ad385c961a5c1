"""Kernels compiled ahead: found by their source alone, chosen by what the CPU supports, loaded without a compiler."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gatelab
from gatelab import cells
from gatelab.engine import choose
from gatelab.engine.fused import ahead, compiler, files, function, prebuilt
from gatelab.engine.fused.kernel_source import KernelSource

pytestmark = pytest.mark.skipif(not prebuilt.is_possible(), reason="the levels are those of x86-64, on Linux")

OWN = """
from gatelab import cell, sigmoid, tanh

@cell
def leaky(x, h, W, U, b, *, rate=RATE):
    z = sigmoid(W.z(x) + U.z(h) + b.z)
    return h + rate * z * (tanh(W.n(x) + U.n(h) + b.n) - h)
"""

RUN = """
import sys, warnings
import torch, gatelab
from gatelab.engine.fused import function
warnings.simplefilter("always")
for name in sys.argv[1:]:
    layer = gatelab.Recurrent(gatelab.cells.get(name), 2, 8)
    layer(torch.randn(9, 4, 2), gates=True)
    layer(torch.randn(9, 4, 2))[0].sum().backward()
    print(layer.engine_in_use)
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("cells") / "own.py"
    path.write_text(OWN.replace("RATE", "0.5"))
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory, own, forks) -> Path:
    """A folder with kernels of a cell of the user's, and of gru."""
    folder = tmp_path_factory.mktemp("ahead") / "kernels"
    done = forks.run(GATELAB, "compile", f"{own}:leaky", "--out", str(folder))
    assert done.returncode == 0, done.stderr
    assert f"GATELAB_KERNELS={folder}" in done.stdout
    return folder


@pytest.fixture
def copied(built, tmp_path, monkeypatch) -> Path:
    folder = shutil.copytree(built, tmp_path / "copied")
    monkeypatch.setenv("GATELAB_KERNELS", str(folder))
    return folder


GATELAB = "from gatelab.cli import main; main()"


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)


def hidden(built: Path, cache: Path) -> dict[str, str]:
    """An environment without a compiler."""
    return {"PATH": "/nowhere", "CXX": "", "GATELAB_CACHE": str(cache), "GATELAB_KERNELS": str(built)}


def test_a_machine_without_a_compiler(built, own, tmp_path):
    done = python("-c", RUN, f"{own}:leaky", "gru", **hidden(built, tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["fused", "fused"]
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_an_edited_cell_is_another(built, own, tmp_path, forks):
    """It has no kernel, and the others keep theirs."""
    edited = tmp_path / "edited.py"
    edited.write_text(OWN.replace("RATE", "0.25").replace("tanh(W", "sigmoid(W"))
    done = forks.run(RUN, f"{edited}:leaky", f"{own}:leaky", **hidden(built, tmp_path / "cache"))
    assert done.stdout.splitlines()[:2] == ["eager", "fused"]
    assert "the kernel 'leaky_gates' was neither compiled ahead nor cached, and no C++ compiler" in done.stderr


def test_a_value_of_a_hyperparameter_is_no_part_of_the_kernel(built, tmp_path, forks):
    other = tmp_path / "other.py"
    other.write_text(OWN.replace("RATE", "0.25"))
    assert forks.run(RUN, f"{other}:leaky", **hidden(built, tmp_path / "cache")).stdout.startswith("fused\n")


def test_what_a_kernel_is_compiled_from_is_its_key(monkeypatch):
    text = KernelSource(cells.gru).text
    keys = {compiler.key(text), compiler.key(KernelSource(cells.gru, watch=True).text), compiler.key(text + "\n")}
    monkeypatch.setattr(compiler, "RUNTIME", compiler.RUNTIME + "\n")
    keys.add(compiler.key(text))
    for k, part in enumerate(compiler.COMMON):
        monkeypatch.setattr(compiler, "COMMON", [*compiler.COMMON[:k], part + "\n", *compiler.COMMON[k + 1 :]])
        keys.add(compiler.key(text))
    assert len(keys) == 4 + len(compiler.COMMON)
    monkeypatch.undo()
    monkeypatch.setattr(compiler, "version", lambda: "another compiler")
    monkeypatch.setattr(compiler, "cpu", lambda: "another CPU")
    assert compiler.key(text) in keys


@pytest.mark.parametrize(("level", "lanes"), [("x86-64-v4", 16), ("x86-64-v3", 8), ("x86-64-v2", 4)])
def test_every_level_computes_the_same(copied, monkeypatch, level, lanes):
    if level not in prebuilt.supported():
        pytest.skip(f"this CPU does not support {level}")
    monkeypatch.setattr(prebuilt, "supported", lambda: (level,))
    kernel = function.Kernel(cells.gru, False)
    assert kernel.library._name == str(next(copied.glob(f"*-{level}.so")))
    assert ctypes.c_int.in_dll(kernel.library, "lanes").value == lanes
    monkeypatch.setattr(function, "kernel", lambda *_: kernel)
    layer = gatelab.Recurrent("gru", 5, 37, engine="fused")
    exact = gatelab.Recurrent("gru", 5, 37, dtype=torch.float64)
    exact.load_state_dict(layer.state_dict())
    x = torch.randn(19, 7, 5)
    output, expected = layer(x)[0], exact(x.double())[0]
    torch.testing.assert_close(output.double(), expected, rtol=0, atol=5e-6)
    output.sum().backward()
    expected.sum().backward()
    for parameter, other in zip(layer.parameters(), exact.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad.double(), other.grad, rtol=2e-5, atol=2e-5)


def test_kernels_know_no_openmp_runtime(built):
    assert len(list(built.iterdir())) == 3
    assert all(b"omp.so" not in path.read_bytes() and b"GOMP_" not in path.read_bytes() for path in built.iterdir())


def test_kernels_of_one_library_are_told_apart(copied, own):
    leaky = cells.get(f"{own}:leaky")
    texts = [KernelSource(cell, watch).text for cell in (cells.gru, leaky) for watch in (False, True)]
    (library,) = {compiler.compiled_ahead(text) for text in texts}
    assert prebuilt.keys(library) == {compiler.key(text) for text in texts}
    addresses = set()
    for text in texts:
        kernel = compiler.load("any", text)
        addresses |= {ctypes.cast(f, ctypes.c_void_p).value for f in (kernel.forward, kernel.backward)}
    assert len(addresses) == 8


@pytest.mark.parametrize(
    ("flags", "levels"),
    [
        ("v2 v3 v4", ["x86-64-v4", "x86-64-v3", "x86-64-v2"]),
        ("v2 v3", ["x86-64-v3", "x86-64-v2"]),
        ("v2", ["x86-64-v2"]),
        ("v2 v4", ["x86-64-v2"]),
        ("v3 v4", []),
        ("", []),
    ],
)
def test_a_level_needs_those_below_it(flags, levels):
    known = {flag for version in flags.split() for flag in prebuilt.LEVELS[f"x86-64-{version}"]}
    assert list(prebuilt.levels_of({"fpu", *known})) == levels


def test_a_level_needs_all_of_its_flags():
    known = set.union(*prebuilt.LEVELS.values())
    for level, flags in prebuilt.LEVELS.items():
        for flag in flags:
            assert level not in prebuilt.levels_of(known - {flag})


def test_the_levels_are_what_the_compiler_takes_them_for():
    """The compiler's own list of what -march=LEVEL switches on."""
    names = {"abm": "LZCNT", "cx16": "GCC_HAVE_SYNC_COMPARE_AND_SWAP_16", "lahf_lm": "LAHF_SAHF", "pni": "SSE3"}
    names |= {"bmi1": "BMI"}
    for level, flags in prebuilt.LEVELS.items():
        arguments = [*compiler.command(), f"-march={level}", "-dM", "-E", "-x", "c++", "/dev/null"]
        macros = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
        for flag in flags:
            assert f"#define __{names.get(flag, flag.upper())}" in macros, (level, flag)


@pytest.mark.parametrize("damage", ["cut", "changed", "writable"])
def test_a_library_that_cannot_be_trusted_is_not_used(copied, tmp_path, damage, cli, forks):
    for path in copied.glob("*.so"):
        content = path.read_bytes()
        if damage == "cut":
            path.write_bytes(content[: len(content) // 2])
        if damage == "changed":
            path.write_bytes(content[:999] + bytes([content[999] ^ 255]) + content[1000:])
        if damage == "writable":
            path.chmod(0o777)
    assert compiler.compiled_ahead(KernelSource(cells.gru).text) is None
    done = forks.run(RUN, "gru", **hidden(copied, tmp_path / "cache"))
    assert done.stdout.startswith("eager\n")
    assert "neither compiled ahead nor cached" in done.stderr
    code, _, err = cli("doctor")
    assert code == 1
    assert "damaged or writable by others" in err


@pytest.mark.parametrize(
    ("user", "root", "trusted", "private"),
    [(0, 9, True, True), (9, 0, True, False), (9, 8, False, False)],
    ids=["own", "root's", "another user's"],
)
def test_whose_files_are_loaded(tmp_path, monkeypatch, user, root, trusted, private):
    """The numbers of this user and of root, relative to the owner of the file."""
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o755)
    owner = path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + user)
    monkeypatch.setattr(files, "ROOT", owner + root)
    assert files.is_trusted(path) == trusted
    assert files.is_private(path) == private
    path.chmod(0o775)
    assert not files.is_trusted(path)
    assert not files.is_private(path)


def test_a_folder_is_written_for_its_owner_alone(tmp_path, monkeypatch):
    before = os.umask(0)
    try:
        ahead.build([], tmp_path / "out", levels=[])
    finally:
        os.umask(before)
    assert files.is_trusted(tmp_path / "out")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "is not a folder: expected one that `gatelab compile --out` has written"),
        (lambda path: path.write_text(""), "is not a folder"),
        (lambda path: (path.mkdir(), path.chmod(0o777)), "writable by others.*chmod -R go-w"),
    ],
    ids=["missing", "a file", "writable"],
)
def test_a_folder_that_cannot_be_used_is_an_error(tmp_path, monkeypatch, make, message):
    folder = tmp_path / "folder"
    make(folder)
    monkeypatch.setenv("GATELAB_KERNELS", str(folder))
    with pytest.raises(compiler.CompilerError, match=f"GATELAB_KERNELS names '{folder}', which (?s:.)*{message}"):
        compiler.load("gru", KernelSource(cells.gru).text)
    choose._tried.cache_clear()


def test_a_library_that_cannot_be_loaded_says_so(tmp_path, monkeypatch):
    key = compiler.key(KernelSource(cells.gru).text)
    path = tmp_path / f"junk-{prebuilt.supported()[0]}.so"
    path.write_bytes(f"forward_{key}\0".encode())
    files.seal(path, path.name)
    monkeypatch.setenv("GATELAB_KERNELS", str(tmp_path))
    with pytest.raises(compiler.CompilerError, match=r"cannot be loaded \(.*\): compile them on a system as old"):
        compiler.load("gru", KernelSource(cells.gru).text)


def test_doctor_accepts_kernels_compiled_ahead(built, tmp_path, forks):
    done = forks.run(GATELAB, "doctor", **hidden(built, tmp_path))
    assert done.returncode == 0, done.stderr
    for part in ("none was found", f"4 kernels in {built}", "gru compiled ahead", "works for cells that have a kernel"):
        assert part in done.stdout


def test_the_same_cells_give_the_same_files(built, own, monkeypatch):
    """Libraries are replaced, not multiplied, and no temporary file remains."""
    before = {path.name for path in built.iterdir()}
    monkeypatch.setattr(prebuilt, "LEVELS", {"x86-64-v2": prebuilt.LEVELS["x86-64-v2"]})
    (path,) = ahead.build([cells.gru, cells.get(f"{own}:leaky")], built, ["x86-64-v2"])
    assert {path.name for path in built.iterdir()} == before
    assert path.name in before
    assert files.is_intact(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gruu", "--out", "out"], "unknown cell 'gruu'; did you mean 'gru'?"),
        (["gru", "--out", "file"], "--out file is a file: expected a directory"),
    ],
)
def test_errors_of_the_command(tmp_path, monkeypatch, cli, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    code, _, err = cli("compile", *arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"PATH": "/nowhere", "CXX": ""}, "nothing was compiled: no C++ compiler was found"),
        ({"CXX": "no-such"}, "nothing was compiled: CXX names 'no-such'"),
    ],
)
def test_without_a_compiler_nothing_is_written(tmp_path, environment, message, forks):
    """In another process: this one knows its compiler."""
    done = forks.run(GATELAB, "compile", "gru", "--out", str(tmp_path / "out"), **environment)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_elsewhere_than_on_x86_it_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(prebuilt, "is_possible", lambda: False)
    with pytest.raises(gatelab.errors.GatelabError, match="compiled ahead for Linux on x86-64"):
        ahead.build([cells.gru], tmp_path / "out")
    assert not (tmp_path / "out").exists()
