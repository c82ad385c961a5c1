"""An epoch over sequences of unequal length, padded to the longest of all, to the longest of the batch, or in batches
of similar length.

python benchmarks/padding.py

Lengths are log-normal, as those of spoken words are: most are short, and a few long ones set the padding. The three
ways take turns in one process; ratios are medians over the turns.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from gatelab.models import SequenceClassifier
from gatelab.tasks.examples import Batch, Examples
from gatelab.training import seeds

EXAMPLES, FEATURES, HIDDEN, CLASSES, BATCH = 2000, 13, 64, 10, 32


def data(longest: int) -> Examples:
    """Sequences with a median length of a fifth of the longest."""
    random = torch.Generator().manual_seed(0)
    lengths = (longest / 5 * torch.exp(0.5 * torch.randn(EXAMPLES, generator=random))).round().long().clamp(3, longest)
    lengths[0] = longest
    x = torch.randn(EXAMPLES, longest, FEATURES, generator=random)
    return Examples(x, torch.randint(CLASSES, (EXAMPLES,), generator=random), lengths=lengths)


def padded_to_all(part: Examples, index: torch.Tensor) -> Batch:
    assert part.lengths is not None
    return Batch(part.stored.index_select(0, index), part.targets[index], part.lengths[index])


def epoch(model: SequenceClassifier, part: Examples, way: str) -> float:
    """Seconds of forward and backward passes over all batches."""
    lengths = part.lengths if way == "similar lengths" else None
    begin = time.perf_counter()
    for index in seeds.batches(0, 0, len(part), BATCH, lengths):
        batch = padded_to_all(part, index) if way == "longest of all" else part.batch(index)
        loss = torch.nn.functional.cross_entropy(model(batch.x, lengths=batch.lengths), batch.y)
        loss.backward()  # type: ignore[no-untyped-call]
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--longest", type=int, default=300)
    options = parser.parse_args()
    part, model = data(options.longest), SequenceClassifier("gru", FEATURES, HIDDEN, CLASSES, 1, dropout=0.0)
    ways = ("longest of all", "longest of the batch", "similar lengths")
    for way in ways:
        epoch(model, part, way)  # compiles
    times = [{way: epoch(model, part, way) for way in ways} for _ in range(options.turns)]
    assert part.lengths is not None
    print(f"{EXAMPLES} sequences, mean length {part.lengths.double().mean():.0f}, longest {options.longest}\n")
    for way in ways:
        seconds = statistics.median(turn[way] for turn in times)
        ratio = statistics.median(turn[ways[0]] / turn[way] for turn in times)
        print(f"{way:<22} {seconds:6.2f} s an epoch, {ratio:.1f} times as fast")


if __name__ == "__main__":
    main()
