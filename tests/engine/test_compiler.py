"""The cache of compiled kernels: compiled once, never half written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import wait_for

import gatelab
from gatelab import cells
from gatelab.disk import cache_folder
from gatelab.engine.fused import compiler, files
from gatelab.engine.fused.kernel_source import KernelSource

SOURCE = '#include "runtime.hpp"\nextern "C" int answer() { return 42; }\n'

RUN_A_LAYER = """
import torch, gatelab
layer = gatelab.Recurrent("gru", 2, 8)
layer(torch.zeros(3, 4, 2))
layer(torch.zeros(3, 4, 2), gates=True)
print(layer.engine_in_use)
"""
DOCTOR = "import sys; from gatelab.cli import main; sys.argv = ['gatelab', 'doctor']; main()"


@pytest.fixture
def empty(tmp_path, monkeypatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("GATELAB_CACHE", str(tmp_path))
    return tmp_path / "kernels"


@pytest.fixture
def cache(monkeypatch, tmp_path) -> Path:
    """The same with the products, which take longer to compile than a small kernel: a copy of this test run's."""
    products = compiler._products()
    monkeypatch.setenv("GATELAB_CACHE", str(tmp_path))
    shutil.copy(products, files.cache())
    return tmp_path / "kernels"


@pytest.fixture
def with_gru(monkeypatch, tmp_path) -> Path:
    """The same with the kernels that RUN_A_LAYER needs."""
    kernels = []
    for name, watch in (("gru", False), ("gru_gates", True)):
        source = KernelSource(cells.gru, watch).text
        compiler.load(name, source)
        kernels.append(compiler.cached(name, source))
    monkeypatch.setenv("GATELAB_CACHE", str(tmp_path))
    for path in kernels:
        shutil.copy(path, files.cache())
    return tmp_path / "kernels"


def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)


def test_compiled_once_then_cached(cache, monkeypatch):
    assert compiler.load("test", SOURCE).answer() == 42
    (path,) = cache.glob("test-*.so")
    before = path.stat().st_mtime_ns
    monkeypatch.setattr(compiler, "compile_object", lambda *_: pytest.fail("compiled again"))
    assert compiler.load("test", SOURCE).answer() == 42
    assert path.stat().st_mtime_ns == before


def test_source_and_flags_are_part_of_the_cache_key(cache, monkeypatch):
    compiler.load("test", SOURCE)
    assert compiler.load("test", SOURCE.replace("42", "43")).answer() == 43
    monkeypatch.setattr(compiler, "FLAGS", (*compiler.FLAGS, "-O0"))
    compiler.load("test", SOURCE)
    assert len(list(cache.glob("test-*.so"))) == 3
    assert len(list(cache.glob("products-*.o"))) == 2


def test_a_damaged_file_is_recompiled(tmp_path, monkeypatch, forks):
    """In a subprocess: loading a truncated library could crash it."""
    monkeypatch.setattr(compiler, "FLAGS", (*compiler.FLAGS, "-O0"))  # compiled sooner
    damages = {
        "cut": lambda content, middle: content[:middle],
        "empty": lambda content, middle: b"",
        "changed": lambda content, middle: content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :],
        "text": lambda content, middle: b"not a library",
        "another": lambda content, middle: other,  # whole, and not what its name says
    }
    monkeypatch.setenv("GATELAB_CACHE", str(tmp_path / "intact"))
    assert compiler.load("other", SOURCE.replace("42", "43")).answer() == 43
    (library,) = files.cache().glob("other-*.so")
    other = library.read_bytes()
    library.unlink()
    assert compiler.load("test", SOURCE).answer() == 42
    for damage, damaged in damages.items():
        folder = shutil.copytree(tmp_path / "intact" / "kernels", tmp_path / damage / "kernels")
        for path in folder.iterdir():  # the kernel, and the products that are linked to it
            content = path.read_bytes()
            path.write_bytes(damaged(content, len(content) // 2))
    script = f"""
import os, sys
from gatelab.engine.fused import compiler
compiler.FLAGS = (*compiler.FLAGS, "-O0")
for os.environ["GATELAB_CACHE"] in sys.argv[1:]:
    print(compiler.load("test", {SOURCE!r}).answer())
"""
    assert forks.run(script, *(str(tmp_path / damage) for damage in damages)).stdout == "42\n" * len(damages)
    for damage in damages:
        paths = list((tmp_path / damage / "kernels").iterdir())
        assert len(paths) == 2
        assert all(map(files.is_usable, paths))


def test_several_processes_at_once(empty):
    script = f"""
from gatelab.engine.fused import compiler
compiler.FLAGS = (*compiler.FLAGS, "-O0")  # compiled sooner
print(compiler.load("test", {SOURCE!r}).answer())
"""
    processes = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0] for process in processes] == ["42\n"] * 3
    assert len(list(empty.iterdir())) == 2  # the kernel and the products; no temporary files remain


def test_a_compile_error_is_reported(cache):
    with pytest.raises(compiler.CompilerError, match=r"failed to compile the kernel 'test'(.|\n)*error"):
        compiler.load("test", "this is not C++")
    assert list(cache.glob("test-*")) == []


def test_generated_code_has_no_warnings(tmp_path):
    """Not even with -Wall -Wextra; all cells in one file."""
    path = tmp_path / "kernel.cpp"
    kernels = []
    for name in cells.names():
        text = KernelSource(cells.get(name), watch=len(kernels) % 2 == 0).text
        functions = re.findall(r'^extern "C" \w+ (\w+)\(', text, re.MULTILINE)
        kernels.append(re.sub(rf"\b({'|'.join(functions)})\((?=void|p, n)", rf"\1_{name}(", text))
    path.write_text("\n".join(kernels))
    flags = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-march=native"]
    done = subprocess.run(
        [*compiler.command(), *flags, f"-I{compiler.include()}", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    generated = [line for line in done.stderr.splitlines() if "kernel.cpp" in line and "warning" in line]
    assert generated == []


def test_generated_code_names_the_equations():
    text = KernelSource(cells.agru).text
    for line in cells.agru.text().splitlines():
        assert f"//   {line}" in text
    for part in ("const V g_z = sigmoid(", "const V g_r = sigmoid(", "const V g_n = tanh(", "s_epsilon * ", "d_W_z"):
        assert part in text
    assert KernelSource(cells.agru).text == text  # deterministic: the source is the cache key


def test_location_of_the_cache(monkeypatch):
    monkeypatch.delenv("GATELAB_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    if sys.platform != "darwin":
        assert cache_folder("kernels") == Path("/somewhere/gatelab/kernels")
    monkeypatch.setenv("GATELAB_CACHE", "/elsewhere")
    assert cache_folder("kernels") == Path("/elsewhere/kernels")


def test_without_a_compiler_eager_runs_with_one_warning(tmp_path):
    done = run(RUN_A_LAYER, PATH="/nowhere", CXX="", GATELAB_CACHE=str(tmp_path))
    assert done.stdout == "eager\n"
    assert done.stderr.count("UserWarning") == 1
    assert "no C++ compiler was found" in done.stderr
    assert "install g++" in done.stderr


def test_a_cached_kernel_needs_no_compiler(with_gru, forks):
    done = forks.run(RUN_A_LAYER, PATH="/nowhere", CXX="")
    assert done.stdout == "fused\n"
    assert done.stderr == ""


def test_without_a_compiler_a_cell_without_a_kernel_does_not_stop_the_others(with_gru, forks):
    done = forks.run(RUN_A_LAYER.replace("gru", "mgu") + RUN_A_LAYER, PATH="/nowhere", CXX="")
    assert done.stdout == "eager\nfused\n"
    assert done.stderr.count("UserWarning") == 1
    assert "the kernel 'mgu' was neither compiled ahead nor cached, and no C++ compiler was found" in done.stderr


@pytest.mark.parametrize("change", ["cpu", "source", "damaged", "writable"])
def test_without_a_compiler_only_a_kernel_that_fits_is_loaded(cache, monkeypatch, change):
    compiler.load("test", SOURCE)
    (path,) = cache.glob("test-*.so")
    monkeypatch.setenv("CXX", "")
    monkeypatch.setenv("PATH", "/nowhere")
    for cached in (compiler.command, compiler.version):
        monkeypatch.setattr(compiler, cached.__name__, cached.__wrapped__)
    assert compiler.cached("test", SOURCE) == path
    source = SOURCE.replace("42", "43") if change == "source" else SOURCE
    if change == "cpu":
        monkeypatch.setattr(compiler, "cpu", lambda: "another")
    if change == "damaged":
        content = path.read_bytes()
        path.unlink()  # another file: this process has loaded that one, and would crash at its end
        path.write_bytes(content[:-100])
        path.chmod(0o700)
    if change == "writable":
        path.chmod(0o722)
    with pytest.raises(compiler.KernelError, match="neither compiled ahead nor cached"):
        compiler.load("test", source)


def test_of_several_compilers_the_one_used_last(cache, monkeypatch):
    compiler.load("test", SOURCE)
    (first,) = cache.glob("test-*.so")
    monkeypatch.setattr(compiler, "version", lambda: "another")
    compiler.load("test", SOURCE)
    (second,) = set(cache.glob("test-*.so")) - {first}

    def missing() -> str:
        raise compiler.NoCompilerError("none")

    monkeypatch.setattr(compiler, "version", missing)
    assert compiler.cached("test", SOURCE) == second
    os.utime(first, ns=(1, second.stat().st_mtime_ns + 1))
    assert compiler.cached("test", SOURCE) == first


def test_an_unwritable_cache_is_reported(tmp_path, forks):
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = forks.run(RUN_A_LAYER, GATELAB_CACHE=str(blocked))
    assert done.stdout == "eager\n"
    assert done.stderr.count("UserWarning") == 1
    assert "GATELAB_CACHE" in done.stderr


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"GATELAB_CACHE": "/proc"}, "GATELAB_CACHE"),
        ({"CXX": "no-such-compiler -x"}, "CXX names 'no-such-compiler'"),
    ],
)
def test_other_problems_are_reported_once(environment, message, forks):
    done = forks.run(RUN_A_LAYER, **environment)
    assert done.stdout == "eager\n"
    assert done.stderr.count("UserWarning") == 1
    assert message in done.stderr


def test_a_library_that_cannot_be_loaded_is_reported(tmp_path, forks):
    wrapper = tmp_path / "junk"
    wrapper.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; echo junk > "$2"\n')
    wrapper.chmod(0o755)
    done = forks.run(RUN_A_LAYER, CXX=str(wrapper), GATELAB_CACHE=str(tmp_path))
    assert done.stdout == "eager\n"
    assert done.stderr.count("UserWarning") == 1


def test_gatelab_is_installed_anew_while_it_runs(tmp_path):
    """What a process compiles later belongs to the modules that it has, and to the name it gets in the cache."""
    source = tmp_path / "src"
    shutil.copytree(Path(gatelab.__file__).parent, source / "gatelab", ignore=shutil.ignore_patterns("__pycache__"))
    code = """
import sys, torch
from pathlib import Path
import gatelab
from gatelab import Recurrent
for name in ("gru", "lstm", "mgu"):  # the second one has a precompiled header
    layer = Recurrent(name, 3, 8, engine="fused").requires_grad_(False)
    x, state = torch.randn(2, 3), None
    for _ in range(3):
        output, state = layer.step(x, state)
    print(name, float(output.abs().sum()) > 0)
    if sys.argv[1:]:
        for path in Path(gatelab.__file__).parent.glob("engine/fused/*.[ch]pp"):
            path.write_text("this is not C++")
"""
    environment = os.environ | {"PYTHONPATH": str(source), "GATELAB_CACHE": str(tmp_path / "cache")}
    for arguments in (["changes"], []):
        if not arguments:
            shutil.copytree(Path(gatelab.__file__).parent, source / "gatelab", dirs_exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, env=environment
        )
        assert done.stdout == "gru True\nlstm True\nmgu True\n", done.stderr
    assert len(list((tmp_path / "cache" / "kernels").glob("*.so"))) == 3


def test_the_header_is_there_again_if_the_system_tidied_up(cache):
    shutil.rmtree(compiler.include())
    compiler.load("test", SOURCE)


def test_importing_compiles_nothing(tmp_path):
    done = run("import gatelab; gatelab.Recurrent('gru', 2, 8)", GATELAB_CACHE=str(tmp_path))
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_doctor_reports_a_working_engine(cache):
    done = subprocess.run(
        [Path(sys.executable).with_name("gatelab"), "doctor"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for part in ("compiler", "floats wide", "threads", str(cache), "largest error", "denormals", "engine works"):
        assert part in done.stdout
    assert "gru compiled in" in done.stdout


def test_doctor_accepts_a_cached_kernel(with_gru, forks):
    done = forks.run(DOCTOR, PATH="/", CXX="")
    assert done.returncode == 0, done.stderr
    assert "none was found" in done.stdout
    assert "gru from the cache" in done.stdout
    assert "works for cells that have a kernel" in done.stdout


@pytest.mark.parametrize(
    ("environment", "remedy"),
    [({"PATH": "/nowhere", "CXX": ""}, "install g++"), ({"GATELAB_CACHE": "/dev/null"}, "GATELAB_CACHE")],
    ids=["no compiler", "no cache"],
)
def test_doctor_reports_the_remedy(tmp_path, environment, remedy, forks):
    done = forks.run(DOCTOR, **{"GATELAB_CACHE": str(tmp_path), **environment})
    assert done.returncode == 1
    assert "NO " in done.stdout
    assert "What to do:" in done.stderr
    assert remedy in done.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no file ownership on this platform")
def test_a_world_writable_cache_is_not_used(cache):
    library = compiler.load("answer", SOURCE)
    assert library.answer() == 42
    (kernel,) = cache.glob("*.so")
    cache.chmod(0o777)
    files._private_folder.cache_clear()
    with pytest.warns(UserWarning, match=r"writable by others: it is not used.*chmod go-w"):
        library_path = compiler._library_path("answer", SOURCE)
    assert not library_path.is_relative_to(cache)
    assert library_path.parent.stat().st_mode & 0o077 == 0
    cache.chmod(0o700)
    assert files.is_usable(kernel)
    kernel.chmod(0o722)
    assert not files.is_usable(kernel)
    files._private_folder.cache_clear()


def test_cell_names_cannot_escape_the_cache(cache):
    assert compiler._library_path("../../gru(r=1)", SOURCE).parent == cache


def _has_ended(pipe: int) -> bool:
    """Whether nobody writes into the pipe any more."""
    try:
        return os.read(pipe, 1) == b""
    except BlockingIOError:
        return False


@pytest.mark.parametrize("hangs_at", ["--version", "-shared"])
def test_a_compiler_that_hangs_is_ended(tmp_path, hangs_at):
    """With the programs that it has started; auto falls back with the reason, and fused is an error."""
    wrapper, pipe = tmp_path / "hanging", tmp_path / "pipe"
    wrapper.write_text(f'#!/bin/sh\nfor a; do [ "$a" = {hangs_at} ] && sleep 10000 > {pipe}; done\nexec g++ "$@"\n')
    wrapper.chmod(0o755)
    os.mkfifo(pipe)
    alive = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    script = (
        "from gatelab.engine.fused import compiler\n"
        "compile, hangs = compiler._run, []\n"
        "def in_time(given, _):\n"  # what does not hang has all the time that it needs
        f"    hangs.extend(given.count({hangs_at!r}) * ['once'])\n"
        f"    return compile(given, 3 if {hangs_at!r} in given else 600)\n"
        "compiler._run = in_time\n" + RUN_A_LAYER + "gatelab.Recurrent('lstm', 2, 8)(torch.zeros(3, 4, 2))\n"
        "try:\n    gatelab.Recurrent('gru', 2, 8, engine='fused')(torch.zeros(3, 4, 2))\n"
        "except ValueError as error:\n    print(error)\nprint(*hangs)\n"
    )
    done = run(script, CXX=str(wrapper), GATELAB_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\nonce\n")  # and not for each layer
    wait_for(lambda: _has_ended(alive))
    os.close(alive)
    assert done.stdout.startswith("eager\nengine 'fused' is not available: the compiler")
    assert done.stderr.count("UserWarning") == 1
    assert f"{wrapper} did not end within 3 seconds" in done.stderr


def test_doctor_reports_a_compiler_that_hangs(tmp_path):
    wrapper = tmp_path / "hanging"
    wrapper.write_text("#!/bin/sh\nsleep 600\n")
    wrapper.chmod(0o755)
    script = "from gatelab.engine.fused import compiler; compiler.PROBE_TIMEOUT = 1\n" + DOCTOR
    done = run(script, CXX=str(wrapper))
    assert done.returncode == 1
    assert "NO  compiler" in done.stdout
    assert "did not end within 1 seconds" in done.stderr
