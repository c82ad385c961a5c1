"""Subject-verb agreement: the gate of the units that encode number over a sentence, and the effect of clamping."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gatelab import style
from gatelab.analysis import Inspection

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sentence(inspection: Inspection) -> Figure:
    """The words along the axis; above them gate and state of the units that encode number."""
    carried, words = inspection.agreement, inspection.reading.words
    assert carried is not None
    assert words is not None
    units = carried.ranked[: carried.few]
    gates = {carried.gate: inspection.example.gates[carried.gate]} if carried.gate else {}
    panels = {
        **{f"gate {k}": v for k, v in gates.items()},
        **{f"state {k}": v for k, v in inspection.example.states.items()},
    }
    with style.house():
        figure = style.new_figure(9, 0.9 + 1.8 * len(panels))
        for axes, (name, values) in zip(
            figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0], panels.items(), strict=True
        ):
            for number, unit in enumerate(units):
                axes.plot(values[0, :, unit], "o-", markersize=3.5, color=style.colour(number),
                          label=f"unit {unit} (r = {carried.correlations[unit]:+.2f})")  # fmt: skip
            which = f"{len(units)} units that encode" if len(units) > 1 else "unit that encodes"
            axes.set_title(f"{name} of the {which} number best", size=9)
            axes.axvline(1, color=style.FAINT, linewidth=0.8, linestyle=":")
            if name.startswith("gate"):
                axes.set_ylim(-0.03, 1.03)
            else:
                axes.axhline(0, color=style.FAINT, linewidth=0.5)
        axes.set_xticks(range(len(words)), words, rotation=35, ha="right")
        axes.get_xticklabels()[1].set_weight("bold")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=4)
    return figure


def clamping(inspection: Inspection) -> Figure:
    """How often the verb flips when the best units are clamped, and when as many others are."""
    carried = inspection.agreement
    assert carried is not None
    with style.house():
        figure = style.new_figure(9, 3.6)
        left, right = figure.subplots(1, 2)
        chance = 100 * carried.chance
        left.fill_between(carried.counts, chance.min(0), chance.max(0), color=style.FAINT, alpha=0.25, linewidth=0)
        left.plot(carried.counts, chance.mean(0), "o-", color=style.FAINT, label="random others")
        left.plot(carried.counts, 100 * carried.flips, "o-", color=style.COLOURS[1], label="that encode number best")
        left.set_xscale("log", base=2)
        left.set_xticks(carried.counts, [str(count) for count in carried.counts])
        left.minorticks_off()
        left.set(ylim=(-3, 103), xlabel="units clamped", ylabel="% of sentences that flip")
        left.set_title("was ↔ were, with units clamped to the opposite sentence", size=9)
        left.legend(title="units", loc="lower right", alignment="left")
        order = carried.ranked
        sizes = np.abs(carried.correlations[order])
        right.bar(np.arange(len(order)), sizes, color=style.COLOURS[0])
        right.set(xlabel="unit, best first", ylabel="|correlation with the subject's number|", ylim=(0, 1.02))
        right.set_title("State before the verb and number of the subject", size=9)
    return figure
