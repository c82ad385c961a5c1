"""Sequences with resets, as in recurrent reinforcement learning: `make bench-resets` prints a table and saves it in
docs/benchmarks.md.

A training pass of an LSTM over rollouts in which episodes start at random steps: a forward pass, a loss on all outputs,
and a backward pass for all parameters. All ways take turns in one process and compute the same numbers, which is
checked first.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import NamedTuple

import engine
import reset_ways
import sections
import torch
from torch import Tensor, nn

from gatelab import Recurrent, from_torch

B, T, D, H = 16, 128, 64, 256  # environments, steps, features, units
PROBABILITIES = {"resets": 1 / 50, "no resets": 0.0}  # of an episode's start, at every step
TARGET = 4.0  # time of every other way over ours where there are resets, at least
OTHERS = {
    "sb3-contrib": reset_ways.lstm_step_by_step,
    "sb3-contrib, cut by its buffer": reset_ways.episodes_step_by_step,
    "TorchRL": reset_ways.packed_episodes,
    "TorchRL, in Python": reset_ways.masked_episodes,
    "`nn.LSTMCell`": reset_ways.cell_step_by_step,
}


class Way(NamedTuple):
    """One way to run the layer, with weights of its own."""

    module: nn.Module
    run: Callable[[], Tensor]  # returns the output, (B, T, H)

    def train(self) -> Tensor:
        self.module.zero_grad()
        output = self.run()
        output.square().sum().backward()
        return output.detach()


def ways(starts: Tensor) -> dict[str, Way]:
    """All with the same weights, inputs and initial states."""
    lstm = nn.LSTM(D, H, batch_first=True)
    x, states = torch.randn(B, T, D), (torch.zeros(1, B, H), torch.zeros(1, B, H))
    layer = from_torch(lstm)
    made = {"gatelab": Way(layer, lambda: layer(x, states, resets=starts)[0])}
    for name, run in OTHERS.items():
        own = layer.to_torch()
        made[name] = Way(own, lambda run=run, own=own: run(own, x, states, starts))
    return made


def episode_starts(probability: float) -> Tensor:
    """(B, T): at random, and at the first step of one environment; nowhere if the probability is 0."""
    starts = torch.rand(B, T) < probability
    starts[0, 0] = probability > 0
    return starts


def check(made: dict[str, Way]) -> None:
    """Raise unless all ways have the same output and the same gradients."""
    expected: dict[str, Tensor] = {}
    for name, way in made.items():
        found = {"output": way.train(), **gradients(way.module)}
        expected = expected or found
        for what, value in found.items():
            scale = float(expected[what].abs().max())
            message = f"{what} of {name} differs from that of {next(iter(made))}"
            torch.testing.assert_close(value, expected[what], rtol=0, atol=1e-4 * scale, msg=message)


def gradients(module: nn.Module) -> dict[str, Tensor]:
    """In torch's layout; its two biases have the same gradient."""
    if isinstance(module, Recurrent):
        p = next(module.cell_parameters())
        return {name: torch.cat([getattr(p, name)[gate].grad for gate in "ifgo"]) for name in "WUb"}
    return dict(zip("WUb", (weight.grad for weight in module.parameters()), strict=False))


def measure(seconds: float) -> list[dict[str, str]]:
    """A row for each way: its time, and its ratio to ours, with and without resets."""
    rows: dict[str, dict[str, str]] = {}
    for name, probability in PROBABILITIES.items():
        torch.manual_seed(0)
        made = ways(episode_starts(probability))
        check(made)
        times = engine.alternate({way: each.train for way, each in made.items()}, seconds)
        for way, time in times.items():
            ratio = time / times["gatelab"]
            columns = {f"{name}, ms": f"{time * 1e3:.1f}", f"{name}, over ours": f"**{ratio:.2f}**"}
            print(f"{name:10}  {way:32}  {time * 1e3:8.1f} ms  {ratio:6.1f} ×", flush=True)
            rows.setdefault(way, {"way": way}).update(columns)
    return list(rows.values())


def section(rows: list[dict[str, str]]) -> str:
    ratios = {row["way"]: float(row["resets, over ours"].strip("*")) for row in rows[1:]}
    of_packages = [ratio for way, ratio in ratios.items() if not way.startswith("`")]
    reached = sum(ratio >= TARGET for ratio in of_packages)
    measurement = f"""A training pass of an LSTM over {T} steps of {B} environments, D = {D}, H = {H}: a forward pass, a
        loss on all outputs, and a backward pass for all parameters. An episode starts at a step with a probability of
        1/{1 / PROBABILITIES["resets"]:.0f}, and the state is zero before it: `layer(x, state, resets=starts)`. In the
        last two columns no episode starts. "over ours" is time divided by that of gatelab, a ratio of medians; all take
        turns in one process, have the same weights, and compute the same numbers. Denormals are flushed for all."""
    others = """The ways of sb3-contrib 2.9.2 and TorchRL 0.14.1 are rewritten without the rest of these packages.
        sb3-contrib calls `nn.LSTM` for one step after another where any episode starts; its buffer cuts the sequences
        there before, and pads them. TorchRL cuts, pads and packs the sequences for one call of `nn.LSTM`, or, "in
        Python", runs the equations step by step on what was cut and padded. The last is a loop of `nn.LSTMCell` with a
        mask on its states."""
    finding = f"""At least {TARGET:.0f} times as fast with resets as the ways of sb3-contrib and TorchRL: {reached} of
        {len(of_packages)} (target: all); the smallest ratio is {min(of_packages):.2f}. A loop of `nn.LSTMCell` takes
        {ratios["`nn.LSTMCell`"]:.2f} times as long as ours."""
    return f"""{sections.RESETS}

Measured on {date.today().isoformat()} by `make bench-resets` on: {engine.machine()}.

{sections.paragraph(measurement)}

{sections.paragraph(others)}

{sections.paragraph(finding, "- ")}

{engine.table(rows)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="with and without resets, each")
    parser.add_argument("--save", type=Path, help=f"replace the section {sections.RESETS!r} of this page")
    options = parser.parse_args()
    torch.set_flush_denormal(True)  # before any thread exists, since threads inherit it
    text = section(measure(options.seconds))
    print(f"\n{text}")
    if options.save:
        sections.save(options.save, sections.RESETS, text)


if __name__ == "__main__":
    main()
