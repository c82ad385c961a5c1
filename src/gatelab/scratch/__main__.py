"""`python -m gatelab.scratch`: train the GRU by hand on a noisy sine wave and draw what it learned."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # files only: no screen needed
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
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)  # before training, so that it cannot fail after
    rng = np.random.default_rng(options.seed)
    wave = sine.wave(1500, PERIOD, NOISE, rng)
    training, held_out = sine.windows(wave.noisy[:1000], STEPS), sine.windows(wave.noisy[1000:], STEPS)
    p = network.initialise(1, options.hidden_size, 1, rng)
    count = sum(value.size for value in p.values())
    print(f"GRU by hand: {count:,} parameters, {len(training.target):,} windows of {STEPS} steps")

    started = time.perf_counter()
    curve = train(p, training, held_out, options.epochs, rng, report=_report(options.epochs))
    seconds = time.perf_counter() - started

    same = held_out.same_as_now()
    noise = float(np.mean((wave.noisy - wave.clean)[-len(held_out.target) :] ** 2))
    print(f"\nmean squared error on held-out data, after {seconds:.1f} s of training")
    print(f"  before training       {curve[0][1]:.4f}")
    print(f"  after training        {curve[-1][1]:.4f}")
    print(f'  "same as now"         {same:.4f}')
    print(f"  the noise itself      {noise:.4f}   (nobody can predict it)")

    curve_picture = options.out / "gru_numpy_training_curve.png"
    _draw_curve(curve_picture, curve, same, noise)
    prediction_picture = options.out / "gru_numpy_prediction.png"
    _draw_prediction(prediction_picture, network.predict(p, held_out.x)[:, 0], wave)
    print(f"\nsaved {curve_picture} and {prediction_picture}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gatelab.scratch", description=__doc__)
    parser.add_argument("--epochs", type=_positive, default=80, help="times through the data (default: %(default)s)")
    parser.add_argument("--hidden-size", type=_positive, default=32, help="units of the GRU (default: %(default)s)")
    parser.add_argument("--seed", type=_positive, default=1, help="of the noise and the weights (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path(), help="where the pictures go (default: here)")
    return parser.parse_args()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _report(epochs: int) -> Report:
    def line(epoch: int, training: float, held_out: float) -> None:
        if epoch % 5 and epoch != epochs:
            return
        print(f"epoch {epoch:3d}/{epochs}   training MSE {training:.4f}   held-out MSE {held_out:.4f}", flush=True)

    return line


def _draw_curve(path: Path, curve: list[tuple[float, float]], same: float, noise: float) -> None:
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    training, held_out = zip(*curve, strict=True)
    axes.semilogy(training, color=BLUE, label="training")
    axes.semilogy(held_out, color=ORANGE, label="held out")
    for level, name, offset in ((same, '"same as now"', 4), (noise, "the noise itself", -14)):
        axes.axhline(level, color=GREY, linestyle=":", linewidth=1)
        axes.annotate(
            name, (len(curve) - 1, level), xytext=(0, offset), textcoords="offset points", ha="right", color=GREY
        )
    axes.set(
        title="GRU by hand: next value of a noisy sine",
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
    axes.plot(steps, predicted[shown], color=ORANGE, label=f"predicted one step ahead, from {STEPS} measured steps")
    axes.set(title="GRU by hand: held-out stretch", xlabel="step", ylabel="value", ylim=(-1.5, 1.9))
    _finish(figure, axes, path)


def _finish(figure: Figure, axes: Axes, path: Path) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right", ncols=3)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main()
