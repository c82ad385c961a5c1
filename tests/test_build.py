"""Kernels on disk: built once, by whoever comes first, and never half."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gatelab import cells
from gatelab.disk import cache_folder
from gatelab.engine.fused import build
from gatelab.engine.fused.source import Source

SOURCE = '#include "runtime.hpp"\nextern "C" int answer() { return 42; }\n'

RUN_A_LAYER = """
import torch, gatelab
layer = gatelab.Recurrent("gru", 2, 8)
layer(torch.zeros(3, 4, 2))
layer(torch.zeros(3, 4, 2), gates=True)
print(layer.engine_in_use)
"""


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("GATELAB_CACHE", str(tmp_path))
    return tmp_path / "kernels"


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=os.environ | environment, check=False
    )


def test_built_once_and_found_again(cache, monkeypatch):
    assert build.load("test", SOURCE).answer() == 42
    (path,) = cache.iterdir()
    before = path.stat().st_mtime_ns
    monkeypatch.setattr(build, "_build", lambda *_: pytest.fail("compiled again"))
    assert build.load("test", SOURCE).answer() == 42
    assert path.stat().st_mtime_ns == before


def test_another_source_or_flag_is_another_kernel(cache, monkeypatch):
    build.load("test", SOURCE)
    assert build.load("test", SOURCE.replace("42", "43")).answer() == 43
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-DOTHER"))
    build.load("test", SOURCE)
    assert len(list(cache.iterdir())) == 3


@pytest.mark.parametrize("damage", ["cut", "empty", "changed", "text"])
def test_a_damaged_file_is_built_again(cache, damage):
    """In a process of its own, since loading a cut library could end it."""
    build_it = f"from gatelab.engine.fused import build; print(build.load('test', {SOURCE!r}).answer())"
    assert run(build_it).stdout == "42\n"
    (path,) = cache.iterdir()
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(
        {
            "cut": content[:middle],
            "empty": b"",
            "changed": content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :],
            "text": b"not a library",
        }[damage]
    )
    assert run(build_it).stdout == "42\n"
    assert path.read_bytes()[-build.DIGEST :] == content[-build.DIGEST :] or build._whole(path)


def test_several_processes_at_once(cache):
    script = f"from gatelab.engine.fused import build; print(build.load('test', {SOURCE!r}).answer())"
    processes = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[0] for process in processes] == ["42\n"] * 4
    assert len(list(cache.iterdir())) == 1  # nothing half-built is left behind


def test_source_that_does_not_compile_is_said(cache):
    with pytest.raises(build.CompilerError, match=r"refused the kernel 'test'(.|\n)*error"):
        build.load("test", "this is not C++")
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("name", cells.names())
def test_generated_code_has_no_warnings(name, tmp_path):
    """Not even those that compilers keep to themselves unless asked."""
    path = tmp_path / "kernel.cpp"
    path.write_text(Source(cells.get(name)).text)
    flags = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-fopenmp", "-march=native"]
    done = subprocess.run(
        [*build.compiler(), *flags, f"-I{build.RUNTIME.parent}", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    generated = [line for line in done.stderr.splitlines() if "kernel.cpp" in line and "warning" in line]
    assert generated == []


def test_generated_code_speaks_of_the_equations():
    text = Source(cells.agru).text
    for line in cells.agru.text().splitlines():
        assert f"//   {line}" in text
    for part in ("const V z = sigmoid(", "const V r = sigmoid(", "const V n_ = tanh(", "epsilon * ", "h_new", "d_W_z"):
        assert part in text
    assert Source(cells.agru).text == text  # the same every time, or the cache would be of no use


def test_the_cache_is_where_it_is_said_to_be(monkeypatch):
    monkeypatch.delenv("GATELAB_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    if sys.platform != "darwin":
        assert cache_folder("kernels") == Path("/somewhere/gatelab/kernels")
    monkeypatch.setenv("GATELAB_CACHE", "/elsewhere")
    assert cache_folder("kernels") == Path("/elsewhere/kernels")


def test_without_a_compiler_everything_runs_on_eager_with_one_warning(tmp_path):
    done = run(RUN_A_LAYER, PATH="/nowhere", CXX="", GATELAB_CACHE=str(tmp_path))
    assert done.stdout == "eager\n"
    assert done.stderr.count("UserWarning") == 1
    assert "no C++ compiler was found" in done.stderr
    assert "install g++" in done.stderr


def test_a_cache_that_cannot_be_written_is_said(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = run(RUN_A_LAYER, GATELAB_CACHE=str(blocked))
    assert done.stdout == "eager\n"
    assert done.stderr.count("UserWarning") == 1
    assert "GATELAB_CACHE" in done.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"GATELAB_CACHE": "/proc"}, "GATELAB_CACHE"),
        ({"CXX": "no-such-compiler -x"}, "CXX names 'no-such-compiler'"),
    ],
)
def test_whatever_else_is_wrong_is_said_once(change, said):
    done = run(RUN_A_LAYER, **change)
    assert done.stdout == "eager\n"
    assert done.stderr.count("UserWarning") == 1
    assert said in done.stderr


def test_a_library_that_cannot_be_loaded_is_said(tmp_path):
    compiler = tmp_path / "junk"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; echo junk > "$2"\n')
    compiler.chmod(0o755)
    done = run(RUN_A_LAYER, CXX=str(compiler), GATELAB_CACHE=str(tmp_path))
    assert done.stdout == "eager\n"
    assert done.stderr.count("UserWarning") == 1


def test_a_compiler_without_openmp_makes_a_kernel_of_its_own(tmp_path):
    """One thread then; and once OpenMP is there, it is used."""
    compiler = tmp_path / "plain"
    compiler.write_text('#!/bin/sh\nfor a; do [ "$a" = -fopenmp ] && [ ! -e "$0.ok" ] && exit 1; done\nexec g++ "$@"\n')
    compiler.chmod(0o755)
    script = RUN_A_LAYER + (
        "import ctypes; from gatelab.engine.fused import function\n"
        "print(ctypes.c_int.in_dll(function.kernel(layer.cell).library, 'openmp').value)"
    )
    if build.compiler()[0].endswith("g++"):
        change = {"CXX": str(compiler), "GATELAB_CACHE": str(tmp_path)}
        assert run(script, **change).stdout == "fused\n0\n"
        (tmp_path / "plain.ok").touch()
        assert run(script, **change).stdout == "fused\n1\n"


def test_importing_compiles_nothing(tmp_path):
    done = run("import gatelab; gatelab.Recurrent('gru', 2, 8)", GATELAB_CACHE=str(tmp_path))
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_doctor_is_well(cache):
    done = subprocess.run(
        [Path(sys.executable).with_name("gatelab"), "doctor"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for part in ("compiler", "numbers at a time", "threads", str(cache), "off by", "denormals", "engine works"):
        assert part in done.stdout


@pytest.mark.parametrize(
    ("change", "remedy"),
    [({"PATH": "/nowhere", "CXX": ""}, "install g++"), ({"GATELAB_CACHE": "/dev/null"}, "GATELAB_CACHE")],
    ids=["no compiler", "no cache"],
)
def test_doctor_is_not_well(change, remedy):
    command = [str(Path(sys.executable).with_name("gatelab")), "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | change, check=False)
    assert done.returncode == 1
    assert "NO " in done.stdout
    assert "What to do:" in done.stderr
    assert remedy in done.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
def test_a_folder_that_others_can_write_to_is_not_used(cache):
    cache.mkdir(mode=0o700)
    library = build.load("answer", SOURCE)
    assert library.answer() == 42
    (kernel,) = cache.glob("*.so")
    cache.chmod(0o777)
    build._own_folder.cache_clear()
    with pytest.warns(UserWarning, match=r"can be written by others: it is not used.*chmod go-w"):
        place = build._place("answer", SOURCE, build.FLAGS)
    assert not place.is_relative_to(cache)
    assert place.parent.stat().st_mode & 0o077 == 0
    cache.chmod(0o700)
    assert build._whole(kernel)
    kernel.chmod(0o722)
    assert not build._whole(kernel)
    build._own_folder.cache_clear()


def test_names_of_cells_are_no_paths(cache):
    assert build._place("../../gru(r=1)", SOURCE, build.FLAGS).parent == cache
