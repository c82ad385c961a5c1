from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import browser
import pytest
import torch
from forked import Forks
from hypothesis import settings

from gatelab.cli import main
from gatelab.experiments.executors import Executor
from gatelab.experiments.planned import Planned
from gatelab.experiments.worker import Finished, Worker
from gatelab.report.inspection import write_inspection as inspection
from gatelab.training import train

# The same examples every time, and no clock: a test run says the same thing on every machine. To look for new ones:
# HYPOTHESIS_PROFILE=explore
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture(scope="session", autouse=True)
def _kernels(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Kernels are compiled anew for a test run, once for all of its worker processes."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    os.environ["GATELAB_CACHE"] = str(shared / "cache")
    os.environ.pop("GATELAB_KERNELS", None)
    os.environ["GATELAB_OFFLINE"] = "1"  # what a test downloads comes from its own server


class Here:
    """Runs in this process, one after the other: quick, where processes are not what is tested."""

    detached, is_local = False, True

    def threads_for(self, runs: int) -> int:
        return 1

    def execute(self, runs: list[Planned], directory: Path, tick: Callable[[], None]) -> Iterator[Finished]:
        for run in runs:
            spec = run.settled(directory)
            assert spec is not None
            yield Finished(run, train(spec, directory / run.path).status)
            tick()


@pytest.fixture(scope="session")
def here() -> Executor:
    return Here()


@pytest.fixture
def working_here(monkeypatch: pytest.MonkeyPatch, here: Executor) -> None:
    """Workers, also those of `gatelab bench` and `gatelab worker`, execute runs in this process."""

    def work(self: Worker, tick: Callable[[], None] = lambda: None) -> Iterator[Finished]:
        yield from here.execute(list(self.open.values()), self.directory, tick)

    monkeypatch.setattr(Worker, "work", work)


@pytest.fixture
def one_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """All figures of an inspection are made and one is drawn, since that takes long: test_inspect.py draws them all."""
    figures = inspection._figures
    monkeypatch.setattr(inspection, "_figures", lambda found: {"predictions.png": figures(found)["predictions.png"]})


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """The command line in this process, since another takes seconds to start: its exit code, and what it said."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gatelab", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """Other processes that need not import torch once more."""
    forks = Forks(tmp_path_factory.mktemp("forks"))
    yield forks
    forks.close()


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def chromium():
    """Debian's Chromium, driven by Playwright."""
    if browser.CHROMIUM is None:
        pytest.skip("there is no chromium here (apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=browser.CHROMIUM, args=["--no-sandbox"], timeout=browser.LIMIT)
        yield running
        running.close()


@pytest.fixture
def open_page(chromium):
    """Opens a file at a width, light or dark, without a network; errors of its scripts are errors of the test."""
    contexts, errors = [], []

    def opened(path, width, scheme):
        context = chromium.new_context(viewport={"width": width, "height": 1000}, color_scheme=scheme, offline=True)
        context.set_default_timeout(browser.LIMIT)
        contexts.append(context)
        view = context.new_page()
        view.on("pageerror", lambda error: errors.append(str(error)))
        view.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        view.goto(path.resolve().as_uri())
        return view

    yield opened
    for context in contexts:
        context.close()
    assert errors == []
