"""Exported networks in node, for the check: one process, a line of JSON for each question and answer."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import weakref
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from gatelab.errors import GatelabError
from gatelab.export.check import Carried, Runner
from gatelab.export.network import Network
from gatelab.export.target import RuntimeMissingError


def runner(network: Network, path: Path) -> Runner:
    """The network, in a process of node."""
    return NodeRunner(network, NodeProcess(path, network.name))


class NodeProcess:
    """A process of node that has loaded a network. It ends when it is closed, or is not used any more."""

    def __init__(self, path: Path, name: str) -> None:
        node = shutil.which("node")
        if node is None:
            raise RuntimeMissingError("node is not installed: install Node.js to have exports checked")
        driver = files("gatelab.export") / "js" / "driver.mjs"
        command = [node, "--input-type=module", "--eval", driver.read_text("utf-8"), str(path.resolve()), name]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        self.close = weakref.finalize(self, _end, self._process)
        self.ask()  # modules are loaded now, since files may be moved later

    def ask(self, **question: Any) -> dict[str, Any]:
        """Ask for a run; see driver.mjs for what can be asked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question, default=np.ndarray.tolist) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise GatelabError("node has ended while it ran the generated JavaScript")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise GatelabError(f"the generated JavaScript fails: {answer['error']}")
        return answer


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # it may have ended already
        process.stdin.close()
    process.wait()
    process.stdout.close()


class NodeRunner:
    """Runs one sequence after the other."""

    def __init__(self, network: Network, node: NodeProcess) -> None:
        self.network, self.node = network, node

    def __call__(self, x: np.ndarray, carried: Carried) -> tuple[np.ndarray, Carried]:
        """The answers, and what is carried on."""
        network = self.network
        answers: list[np.ndarray] = []
        new: dict[str, list[np.ndarray]] = {name: [] for name in carried}
        for row, sequence in enumerate(x):
            parts = {name: value.take(row, network.carried[name].index(0)) for name, value in carried.items()}
            ran = self.node.ask(xs=sequence, **({"state": self._state(parts)} if carried else {}))
            answer = np.array(ran["answers" if network.read == "steps" else "answer"], np.float64)
            answers.append(answer.reshape(-1, network.output_size) if network.read == "steps" else answer)
            for name, value in (self._carried(ran["state"]) if carried else {}).items():
                new[name].append(value)
        return np.stack(answers), {name: np.stack(each, network.carried[name].index(0)) for name, each in new.items()}

    def _state(self, parts: dict[str, np.ndarray]) -> dict[str, Any]:
        """What is carried, as JavaScript has it."""
        network = self.network
        state: dict[str, Any] = {
            "layers": [{s: parts[s][number] for s in network.graph.states} for number in range(len(network.layers))],
            "steps": 0,
        }
        state |= {name: parts[network.extra(name)] for name in network.extras}
        return state | ({"steps": int(state["steps"][0])} if "steps" in network.extras else {})

    def _carried(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        network = self.network
        values = {s: np.array([layer[s] for layer in state["layers"]], np.float64) for s in network.graph.states}
        for name in network.extras:
            values[network.extra(name)] = np.array(state[name], np.float64).reshape(-1)
        return values
