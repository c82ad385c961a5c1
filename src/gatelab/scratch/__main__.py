"""`python -m gatelab.scratch`: train the NumPy GRU on a noisy sine wave and plot the results."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # write files, no display needed
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gatelab.scratch import network, sine
from gatelab.scratch.gru import Array
from gatelab.scratch.train import Report, train

PERIOD, NOISE, STEPS = 25, 0.1, 30
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"


def main() -> None:
    """Train, print the errors, and save two figures."""
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)  # before training, so that a bad path fails early
    rng = np.random.default_rng(options.seed)
    wave = sine.wave(1500, PERIOD, NOISE, rng)
    training, held_out = sine.windows(wave.noisy[:1000], STEPS), sine.windows(wave.noisy[1000:], STEPS)
    p = network.initialise(1, options.hidden_size, 1, rng)
    count = sum(value.size for value in p.values())
    print(f"NumPy GRU: {count:,} parameters, {len(training.target):,} windows of {STEPS} steps")

    started = time.perf_counter()
    curve = train(p, training, held_out, options.epochs, rng, report=_report(options.epochs))
    seconds = time.perf_counter() - started

    persistence = held_out.persistence_error()
    noise = float(np.mean((wave.noisy - wave.clean)[-len(held_out.target) :] ** 2))
    print(f"\nmean squared error on held-out data, after {seconds:.1f} s of training")
    print(f"  before training       {curve[0][1]:.4f}")
    print(f"  after training        {curve[-1][1]:.4f}")
    print(f"  persistence baseline  {persistence:.4f}   (predicts the last value)")
    print(f"  noise variance        {noise:.4f}   (irreducible)")

    curve_path = options.out / "gru_numpy_training_curve.png"
    _draw_curve(curve_path, curve, persistence, noise)
    prediction_path = options.out / "gru_numpy_prediction.png"
    _draw_prediction(prediction_path, network.predict(p, held_out.x)[:, 0], wave)
    print(f"\nsaved {curve_path} and {prediction_path}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gatelab.scratch", description=__doc__)
    parser.add_argument("--epochs", type=_positive, default=80, help="number of epochs (default: %(default)s)")
    parser.add_argument(
        "--hidden-size", type=_positive, default=32, help="hidden units of the GRU (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=_positive, default=1, help="random seed of noise and initialization (default: %(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(), help="output folder of the figures (default: current folder)"
    )
    return parser.parse_args()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def _report(epochs: int) -> Report:
    def line(epoch: int, training: float, held_out: float) -> None:
        if epoch % 5 and epoch != epochs:
            return
        print(f"epoch {epoch:3d}/{epochs}   training MSE {training:.4f}   held-out MSE {held_out:.4f}", flush=True)

    return line


def _draw_curve(path: Path, curve: list[tuple[float, float]], persistence: float, noise: float) -> None:
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    training, held_out = zip(*curve, strict=True)
    axes.semilogy(training, color=BLUE, label="training")
    axes.semilogy(held_out, color=ORANGE, label="held out")
    for level, name, offset in ((persistence, "persistence baseline", 4), (noise, "noise variance", -14)):
        axes.axhline(level, color=GREY, linestyle=":", linewidth=1)
        axes.annotate(
            name, (len(curve) - 1, level), xytext=(0, offset), textcoords="offset points", ha="right", color=GREY
        )
    axes.set(
        title="NumPy GRU: next value of a noisy sine",
        xlabel="epoch",
        ylabel="mean squared error",
        ylim=(0.6 * noise, None),
    )
    _finish(figure, axes, path)


def _draw_prediction(path: Path, predicted: Array, wave: sine.Wave) -> None:
    shown = slice(0, 4 * PERIOD)
    first = len(wave.noisy) - len(predicted)
    steps = np.arange(first, len(wave.noisy))[shown]
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    axes.plot(steps, wave.noisy[first:][shown], ".", color=GREY, markersize=4, label="measured")
    axes.plot(steps, wave.clean[first:][shown], color=BLUE, linewidth=1, label="true wave")
    axes.plot(steps, predicted[shown], color=ORANGE, label=f"one-step-ahead prediction from {STEPS} steps")
    axes.set(title="NumPy GRU: held-out data", xlabel="step", ylabel="value", ylim=(-1.5, 1.9))
    _finish(figure, axes, path)


def _finish(figure: Figure, axes: Axes, path: Path) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right", ncols=3)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main()
