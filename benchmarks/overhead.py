"""What a training call takes beside its kernels: `make bench-overhead`.

At (B, T, D, H) = (1, 1, 1, 16) a kernel takes microseconds, so that nearly all of a call is Python and torch's
autograd. Of a real batch the time outside of the calls of kernels is measured: it is longer, since the caches are full
of other data.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import contenders
import engine
import sections
import torch
from torch import Tensor

from gatelab import Recurrent
from gatelab.engine.fused import calls

TINY, BATCH = (1, 1, 1, 16), (32, 100, 1, 64)
CELLS = ("gru", "lstm")


class Nothing(torch.autograd.Function):
    """As many parameters as a layer has, an output and a state; no work. What torch itself takes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *parameters: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*parameters)
        return torch.zeros(1, 1, 16), torch.zeros(1, 1, 16)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return (None, *(torch.empty_like(parameter) for parameter in ctx.saved_tensors))


def nothing(cell: str) -> Callable[[], None]:
    layer, x = Recurrent(cell, 1, 16), torch.randn(1, 1, 1)
    parameters = list(layer.parameters())

    def train() -> None:
        layer.zero_grad()
        Nothing.apply(x, *parameters)[1].square().sum().backward()

    return train


def tiny(cell: str, seconds: float) -> dict[str, str]:
    """Microseconds of a call without work."""
    implementations = {"ours": contenders.fused, "torch.nn": contenders.torch_nn}
    workloads = {name: make(cell, *TINY).train for name, make in implementations.items()}
    workloads = {name: many(train) for name, train in (workloads | {"torch alone": nothing(cell)}).items() if train}
    times = {name: time / STEPS * 1e6 for name, time in engine.alternate(workloads, seconds).items()}
    row = {"cell": f"`{cell}`", **{f"{name}, µs": f"{time:.0f}" for name, time in times.items()}}
    return row | {"ours beside torch alone, µs": f"**{times['ours'] - times['torch alone']:.0f}**"}


STEPS = 50


def many(step: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(STEPS):
            step()

    return run


def outside(cell: str, seconds: float) -> dict[str, str]:
    """Microseconds of a call of a real batch, and of these outside of kernels."""
    inside, totals, shares = [0.0], [], []
    original = calls.Call.__call__

    def timed(self: calls.Call, *inputs: Tensor | None) -> tuple[Any, ...]:
        begin = time.perf_counter()
        results = original(self, *inputs)
        inside[0] += time.perf_counter() - begin
        return results

    train = contenders.fused(cell, *BATCH).train
    assert train is not None
    calls.Call.__call__ = timed  # type: ignore[method-assign]
    try:
        started = time.perf_counter()
        while len(totals) < 20 or time.perf_counter() - started < seconds:
            inside[0], begin = 0.0, time.perf_counter()
            train()
            totals.append(time.perf_counter() - begin)
            shares.append(totals[-1] - inside[0])
    finally:
        calls.Call.__call__ = original  # type: ignore[method-assign]
    total, share = (statistics.median(times) * 1e6 for times in (totals, shares))
    return {"cell": f"`{cell}`", "ours, µs": f"{total:.0f}", "outside of kernels, µs": f"{share:.0f}"}


def section(seconds: float) -> str:
    small, real = [tiny(cell, seconds) for cell in CELLS], [outside(cell, seconds) for cell in CELLS]
    measurement = f"""A training call (forward pass, loss on the last state, backward pass for all parameters) at
        (B, T, D, H) = {TINY}, where nearly all of it is overhead, on one thread. "torch alone" is a function with as
        many parameters that computes nothing. A time is the median over turns of {STEPS} calls."""
    batch = f"""The same at {BATCH}: the time outside of the functions that run kernels. It is longer there, since a
        kernel leaves other data in the caches."""
    return f"""{sections.OVERHEAD}

Measured on {date.today().isoformat()} by `make bench-overhead` on: {engine.machine()}.

{sections.paragraph(measurement)}

{engine.table(small)}

{sections.paragraph(batch)}

{engine.table(real)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="per row")
    parser.add_argument("--save", type=Path, help=f"replace the section {sections.OVERHEAD!r} of this page")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    text = section(options.seconds)
    print(text)
    if options.save:
        sections.save(options.save, sections.OVERHEAD, text)


if __name__ == "__main__":
    main()
