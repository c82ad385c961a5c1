"""Generated C, compiled by gcc and called through ctypes, for the check."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from gatelab.errors import GatelabError
from gatelab.export.check import Carried, Runner
from gatelab.export.network import Network
from gatelab.export.target import RuntimeMissingError

COMPILER, FLAGS = "gcc", ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O2")


def work_width(network: Network) -> int:
    """The number of floats of a step between layers, in the memory that a network for whole sequences needs."""
    return max(network.encoded_size, *(each.channels for each in network.stem), network.features)


def runner(network: Network, path: Path) -> Runner:
    """The network, compiled."""
    if shutil.which(COMPILER) is None:
        raise RuntimeMissingError(f"{COMPILER} is not installed: install a C compiler to have exports checked")
    with tempfile.TemporaryDirectory() as folder:  # where libraries can be loaded, which need not be so beside --out
        library = Path(folder) / "network.so"
        command = [COMPILER, *FLAGS, "-shared", "-fPIC", "-o", str(library), str(path / f"{network.name}.c"), "-lm"]
        compiled = subprocess.run(command, capture_output=True, text=True)
        if compiled.returncode:
            raise GatelabError(f"{COMPILER} refuses the generated C: {compiled.stderr[:500]}")
        return CRunner(network, ctypes.CDLL(str(library)))


class CRunner:
    """Calls NAME_run for one sequence after the other."""

    def __init__(self, network: Network, library: ctypes.CDLL) -> None:
        self.network = network
        self._run = getattr(library, f"{network.name}_run")
        self._run.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
        self._run.restype = None

    def __call__(self, x: np.ndarray, carried: Carried) -> tuple[np.ndarray, Carried]:
        """The answers, and what is carried on."""
        network = self.network
        x = np.ascontiguousarray(x, np.int32 if network.tokens else np.float32)
        own_shape = (x.shape[1], network.output_size) if network.read == "steps" else (network.output_size,)
        answers = np.empty((len(x), *own_shape), np.float32)
        new: dict[str, list[np.ndarray]] = {name: [] for name in carried}
        for row, answer in enumerate(answers):
            parts = [value.take(row, network.carried[name].index(0)) for name, value in carried.items()]
            memory = self._memory(parts, x.shape[1])
            self._run(x[row].ctypes.data, x.shape[1], memory.ctypes.data, answer.ctypes.data)
            ends = np.cumsum([part.size for part in parts], dtype=int)
            for name, part, flat in zip(carried, parts, np.split(memory, ends), strict=False):
                new[name].append(flat.reshape(part.shape))
        return answers, {name: np.stack(each, network.carried[name].index(0)) for name, each in new.items()}

    def _memory(self, parts: list[np.ndarray], steps: int) -> np.ndarray:
        """The state, a struct of floats in the order of `carried`; or memory for a whole sequence."""
        if parts:
            return np.concatenate([part.ravel() for part in parts]).astype(np.float32)
        return np.empty(2 * steps * work_width(self.network), np.float32)
