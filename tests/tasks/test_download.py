"""Downloads from a local server: failing mirrors, and two processes at once."""

from __future__ import annotations

import collections
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import tinyset
from places import TESTS
from waiting import wait_for

from gatelab.errors import DataError
from gatelab.tasks import download


class Handler(BaseHTTPRequestHandler):
    """/good/ serves, /slow/ once a test says go, /none/ has nothing, /wrong/ other bytes, /cut/ hangs up half-way."""

    def do_GET(self) -> None:
        _, kind, name = self.path.split("/")
        self.server.asked[kind, name] += 1
        content = tinyset.GZIPPED[name]
        if kind == "none":
            self.send_error(404)
            return
        if kind == "wrong":
            content = bytes(reversed(content))
        if kind == "slow":
            self.server.go.wait()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if kind == "cut" else content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.go = collections.Counter(), threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.go.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def _online(tmp_path, monkeypatch):
    monkeypatch.setenv("GATELAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GATELAB_OFFLINE", raising=False)
    monkeypatch.delenv("GATELAB_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def files(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name != ".download.lock")


def test_missing_files_are_downloaded_once(tmp_path, server):
    assert tinyset.right(tinyset.load(tmp_path, f"{server.url}/good/"))
    assert files(tmp_path / "tiny") == sorted(tinyset.GZIPPED)
    assert tinyset.right(tinyset.load(tmp_path, f"{server.url}/good/"))
    assert set(server.asked.values()) == {1}


def test_only_missing_files_are_downloaded(tmp_path, server):
    tinyset.write(tmp_path / "tiny", {"train-images-idx3-ubyte": tinyset.PLAIN["train-images-idx3-ubyte"]})
    assert tinyset.right(tinyset.load(tmp_path, f"{server.url}/good/"))
    assert ("good", "train-images-idx3-ubyte.gz") not in server.asked


@pytest.mark.parametrize("bad", ["none", "wrong", "cut"])
def test_the_next_mirror_takes_over(tmp_path, server, bad):
    assert tinyset.right(tinyset.load(tmp_path, f"{server.url}/{bad}/", f"{server.url}/good/"))
    assert server.asked[bad, "train-images-idx3-ubyte.gz"] == 1
    assert files(tmp_path / "tiny") == sorted(tinyset.GZIPPED)  # and no half file is left


def test_if_all_mirrors_fail_each_says_why_and_nothing_is_left(tmp_path, server):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}/"  # a port where nobody listens
        with pytest.raises(DataError) as raised:
            tinyset.load(tmp_path, f"{server.url}/none/", f"{server.url}/wrong/", f"{server.url}/cut/", closed)
    what, where, todo = str(raised.value).splitlines()
    assert "tiny is not available" in what
    for reason in ("/none/train-images-idx3-ubyte.gz: HTTPError: 404", "/wrong/", "/cut/", closed):
        assert reason in where
    assert "put train-images" in todo
    assert files(tmp_path / "tiny") == []


AT_THE_LOCK = """
import sys, tinyset

def tell(event, given):
    if event == "open" and str(given[0]).endswith(".download.lock"):
        open(sys.argv[2], "a").write("x")

sys.addaudithook(tell)
print(tinyset.right(tinyset.load(None, sys.argv[1])))
"""


def test_two_processes_at_once_download_once(tmp_path, server, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]))
    tries = tmp_path / "tries"
    tries.touch()
    command = [sys.executable, "-c", AT_THE_LOCK, f"{server.url}/slow/", str(tries)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    wait_for(lambda: tries.stat().st_size >= 3)  # one has the lock, and the other has tried in vain
    server.go.set()
    assert [process.communicate(timeout=600)[0] for process in both] == ["True\n", "True\n"]
    assert len(server.asked) == 4
    assert set(server.asked.values()) == {1}


def test_a_read_only_folder_is_skipped(tmp_path, server, monkeypatch):
    monkeypatch.setattr("gatelab.tasks.store._writable", lambda folder: "given" not in str(folder))
    assert tinyset.right(tinyset.load(tmp_path / "given", f"{server.url}/good/"))
    assert files(tmp_path / "cache" / "data" / "tiny") == sorted(tinyset.GZIPPED)


def test_the_bar_counts_in_bytes(server, tmp_path, monkeypatch):
    """Call the methods of the bar as pooch does."""
    from rich.progress import Progress

    with Progress(disable=True) as progress:
        bar = download._Bar(progress, download.Download("file", 100, "md5:0", ()))
        bar.update(40)
        assert progress.tasks[0].completed == 40
        bar.reset()
        bar.update(100)
        bar.close()
        assert progress.tasks[0].finished
