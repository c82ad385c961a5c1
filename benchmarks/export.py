"""One step of exported networks: `make bench-export` prints a table and saves it in docs/benchmarks.md.

The generated C is compiled by gcc -O3 -march=native and called from C; ONNX Runtime and OpenVINO read the exported ONNX
file, and Node the exported JavaScript. Each takes turns of a few hundred steps, carries its state along, and has one
thread. All compute the same numbers, which is checked first. A time is the median over the turns.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import engine
import numpy as np
import onnxruntime
import openvino
import sections
import steppers
import torch

from gatelab import Recurrent
from gatelab.export import to_c, to_js, to_onnx

D, STEPS = 1, 300  # features, as in the published figures, and steps per turn
SIZES = (8, 16, 32, 64, 128)
RTNEURAL = {8: 0.15, 16: 0.27, 32: 0.74, 64: 2.4}  # µs, GRU with Eigen on an i7-8700B, as published
Turn = Callable[[], np.ndarray]  # takes all inputs and returns the last output

LOOP = """
#include "network.h"
static network_state state;
void turn(const float *x, int steps, float *out)
{
    for (int t = 0; t < steps; t++)
        network_step(x + t * NETWORK_INPUTS, &state, out);
}
"""
NODE = """
import {{ create }} from "{module}"; import {{ weights }} from "{weights}"; import fs from "node:fs";
const network = create(weights), xs = {inputs}, state = network.begin();
process.stdin.on("data", () => {{
  let out;
  for (const x of xs) out = network.step(x, state);
  fs.writeSync(1, JSON.stringify(Array.from(out)) + "\\n");
}});
"""


def in_c(layer: Recurrent, xs: np.ndarray, folder: Path) -> Turn:
    to_c(layer, folder / "c", check=False)
    (folder / "c" / "turn.c").write_text(LOOP)
    files = [folder / "c" / "turn.c", folder / "c" / "network.c"]
    flags = ["-std=c99", "-O3", "-march=native", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", folder / "c.so", *files, "-lm"], check=True)
    turn, out = ctypes.CDLL(folder / "c.so").turn, np.zeros(layer.hidden_size, np.float32)
    pointers = ctypes.c_void_p(xs.ctypes.data), len(xs), ctypes.c_void_p(out.ctypes.data)

    def stream() -> np.ndarray:
        turn(*pointers)
        return out

    return stream


def in_onnxruntime(layer: Recurrent, xs: np.ndarray, file: Path) -> Turn:
    """With buffers that are bound once: two bindings, each of which reads the state that the other has written."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    states, H = layer.cell.states, layer.hidden_size
    x, output = np.zeros((1, 1, D), np.float32), np.zeros((1, 1, H), np.float32)
    buffers = [{state: np.zeros((1, 1, H), np.float32) for state in states} for _ in range(2)]
    bindings = []
    for old, new in (buffers, buffers[::-1]):
        binding = session.io_binding()
        for name, array in {"x": x, **old}.items():
            binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        for name, array in {session.get_outputs()[0].name: output, **{f"{s}_next": new[s] for s in states}}.items():
            binding.bind_output(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        bindings.append(binding)

    def stream() -> np.ndarray:
        for t, value in enumerate(xs):
            x[0, 0] = value
            session.run_with_iobinding(bindings[t % 2])
        return output.ravel() if buffers else output  # bindings do not keep their buffers alive, this function does

    return stream


def in_openvino(layer: Recurrent, xs: np.ndarray, file: Path) -> Turn:
    settings: dict[str, Any] = {
        "INFERENCE_NUM_THREADS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    core = openvino.Core()
    model = core.read_model(file)
    states, H = layer.cell.states, layer.hidden_size
    model.reshape({"x": [1, 1, D], **{state: [1, 1, H] for state in states}})
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    x = np.zeros((1, 1, D), np.float32)
    carried = {state: np.zeros((1, 1, H), np.float32) for state in states}
    output = request.model_outputs[0]
    new = {state: next(o for o in request.model_outputs if f"{state}_next" in o.names) for state in states}

    def stream() -> np.ndarray:
        for value in xs:
            x[0, 0] = value
            found = request.infer({"x": x, **carried}, share_inputs=True)
            carried.update({state: found[port].copy() for state, port in new.items()})
        return np.asarray(found[output]).ravel()

    return stream


@contextmanager
def in_node(layer: Recurrent, xs: np.ndarray, folder: Path) -> Iterator[Turn]:
    to_js(layer, folder / "js", check=False)
    module, weights = (f"./js/network{end}.mjs" for end in ("", ".weights"))
    (folder / "turn.mjs").write_text(NODE.format(module=module, weights=weights, inputs=xs.tolist()))
    with subprocess.Popen(
        ["node", "turn.mjs"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def stream() -> np.ndarray:
            process.stdin.write("turn\n")
            process.stdin.flush()
            return np.array(eval(process.stdout.readline()))

        yield stream
        process.stdin.close()


def measure(cell: str, H: int, seconds: float) -> dict[str, float]:
    """Microseconds per step of each."""
    torch.manual_seed(0)
    layer, xs = Recurrent(cell, D, H), np.random.default_rng(0).standard_normal((STEPS, D)).astype(np.float32)
    with TemporaryDirectory() as name, torch.inference_mode():
        folder = Path(name)
        to_onnx(layer, folder / "network.onnx", check=False)
        with in_node(layer, xs, folder) as node:
            turns: dict[str, Callable[[], Any]] = {
                "generated C": in_c(layer, xs, folder),
                "Node": node,
                "layer.step": steppers.gatelab_step(layer, torch.from_numpy(xs)),
                "ONNX Runtime": in_onnxruntime(layer, xs, folder / "network.onnx"),
                "OpenVINO": in_openvino(layer, xs, folder / "network.onnx"),
            }
            first = {name: np.asarray(turn()).ravel() for name, turn in turns.items()}
            for name, output in first.items():
                np.testing.assert_allclose(output, first["layer.step"], atol=1e-5, err_msg=name)
            times = engine.alternate(turns, seconds)
    return {name: time / STEPS * 1e6 for name, time in times.items()}


def section(rows: dict[str, list[dict[str, str]]]) -> str:
    measurement = f"""Microseconds of one step of one sequence with D = {D} feature, one thread, in exported networks of
        one layer without a head. The generated C is compiled by `gcc -O3 -march=native` and called from C. ONNX Runtime
        {onnxruntime.__version__} (with buffers bound once) and OpenVINO {openvino.__version__.split("-")[0]} read the
        exported ONNX file and are called from Python, as `layer.step` is, so that their times have a few microseconds
        of Python in them. Each takes turns of {STEPS} steps in one run and carries its state along; a time is the
        median over the turns. RTNeural's figures are its published ones for a GRU with Eigen on an i7-8700B, another
        machine."""
    tables = "\n\n".join(f"### {cell}, one step\n\n{engine.table(each)}" for cell, each in rows.items())
    return f"""{sections.EXPORT}

Measured on {date.today().isoformat()} by `make bench-export` on: {engine.machine()}.

{sections.paragraph(measurement)}

{tables}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each size")
    parser.add_argument("--save", type=Path, help="the page to put the tables into")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, list[dict[str, str]]] = {}
    for cell in ("gru", "lstm"):
        rows[cell] = []
        for H in SIZES:
            times = measure(cell, H, arguments.seconds)
            row = {"H": str(H), **{f"{name}, µs": f"{time:.2f}" for name, time in times.items()}}
            if cell == "gru":
                row["RTNeural (published), µs"] = f"{RTNEURAL[H]:.2f}" if H in RTNEURAL else "–"
            print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
            rows[cell].append(row)
    if arguments.save:
        sections.save(arguments.save, sections.EXPORT, section(rows))


if __name__ == "__main__":
    main()
