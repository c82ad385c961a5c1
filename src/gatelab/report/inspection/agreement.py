"""Subject and verb, drawn: the gate of the units that carry number over a sentence, and what clamping them does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gatelab import style
from gatelab.analysis import Inspection
from gatelab.analysis.clamping import KINDS, OPEN, SHUT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STRONG, SURE = 0.9, 0.95
MOST_OF = 0.5  # of the sentences a model must get right both ways before it is asked how


def sentence(found: Inspection) -> Figure:
    """The words along the axis; the gate and the state of the units that carry number above them."""
    carried, words = found.agreement, found.reading.words
    assert carried is not None
    assert words is not None
    units = carried.ranked[: carried.few]
    gates = {carried.gate: found.example.gates[carried.gate]} if carried.gate else {}
    panels = {
        **{f"gate {k}": v for k, v in gates.items()},
        **{f"state {k}": v for k, v in found.example.states.items()},
    }
    with style.house():
        figure = style.new_figure(9, 0.9 + 1.8 * len(panels))
        for axes, (name, values) in zip(
            figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0], panels.items(), strict=True
        ):
            for number, unit in enumerate(units):
                axes.plot(values[0, :, unit], "o-", markersize=3.5, color=style.colour(number),
                          label=f"unit {unit} (r = {carried.correlations[unit]:+.2f})")  # fmt: skip
            which = f"{len(units)} units that carry" if len(units) > 1 else "unit that carries"
            axes.set_title(f"{name} of the {which} number most", size=9)
            axes.axvline(1, color=style.FAINT, linewidth=0.8, linestyle=":")
            if name.startswith("gate"):
                axes.set_ylim(-0.03, 1.03)
            else:
                axes.axhline(0, color=style.FAINT, linewidth=0.5)
        axes.set_xticks(range(len(words)), words, rotation=35, ha="right")
        axes.get_xticklabels()[1].set_weight("bold")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=4)
    return figure


def clamping(found: Inspection) -> Figure:
    """How often the verb flips if the strongest units are clamped, and if as many others are."""
    carried = found.agreement
    assert carried is not None
    with style.house():
        figure = style.new_figure(9, 3.6)
        left, right = figure.subplots(1, 2)
        chance = 100 * carried.chance
        left.fill_between(carried.counts, chance.min(0), chance.max(0), color=style.FAINT, alpha=0.25, linewidth=0)
        left.plot(carried.counts, chance.mean(0), "o-", color=style.FAINT, label="others, by chance")
        left.plot(carried.counts, 100 * carried.flips, "o-", color=style.COLOURS[1], label="that carry number most")
        left.set_xscale("log", base=2)
        left.set_xticks(carried.counts, [str(count) for count in carried.counts])
        left.minorticks_off()
        left.set(ylim=(-3, 103), xlabel="units clamped", ylabel="% of sentences that flip")
        left.set_title("was ↔ were, with units clamped to the opposite sentence", size=9)
        left.legend(title="units", loc="lower right", alignment="left")
        order = carried.ranked
        sizes = np.abs(carried.correlations[order])
        right.bar(np.arange(len(order)), sizes, color=style.COLOURS[0])
        right.set(xlabel="unit, strongest first", ylabel="|correlation with the subject's number|", ylim=(0, 1.02))
        right.set_title("State before the verb and number of the subject", size=9)
    return figure


def story(found: Inspection) -> list[str]:
    """The story of the stored bit, claim by claim, as the numbers have it."""
    carried = found.agreement
    assert carried is not None
    if carried.tried < MOST_OF * carried.of:
        return [
            f"The model gets {carried.tried or 'none'} of {carried.of} sentences right for both numbers of the "
            "subject: it has not learned to store the number, and the story cannot be tested on it. Train it longer."
        ]
    clamped, chance = (100 * share for share in carried.flips_of_few)
    said = []
    if carried.gate is not None:
        subject, nouns, others = (carried.writes[kind] for kind in KINDS)
        said.append(
            f"“At the subject the gate opens” {_holds(carried.opens)}: {carried.gate} of the {carried.few} units that "
            f"carry number most lets in {subject:.2f} of the new at the subject and {carried.gap:.2f} of it in the gap "
            f"(true would be {OPEN} at least, and twice what it is in the gap)."
        )
        said.append(
            f"“In between it stays shut” {_holds(carried.stays_shut)}: {carried.gap:.2f} (1 is open, and true would be "
            f"{SHUT} at most), {nouns:.2f} at other nouns and {others:.2f} at other words. What the strongest unit "
            f"holds before the verb and what it held after the subject correlate at r = {carried.lasts:+.2f}."
        )
    else:
        said.append(
            "This cell has no gate that lets the new in, so nothing can be said about one that opens and shuts."
        )
    said.append(
        f"“At the verb the stored bit decides” {_holds(carried.decides)} of these units alone: with the {carried.few} "
        f"strongest clamped to what they are in the sentence of the other number, was and were flip in {clamped:.0f} % "
        f"of {carried.tried} sentences; with as many of the other units, by chance, in {chance:.0f} % "
        f"({len(carried.chance)} draws, at most {100 * carried.most_by_chance:.0f} %)."
    )
    needed = carried.needed(SURE)
    enough = f"as soon as {needed} are clamped" if needed else "with none of the numbers of units that were tried"
    said.append(
        f"{int((np.abs(carried.correlations) >= STRONG).sum())} of {len(carried.ranked)} units go with the number at "
        f"|r| ≥ {STRONG} before the verb; at least {100 * SURE:.0f} % of the verbs flip {enough}."
    )
    parts = [carried.decides] if carried.gate is None else [carried.opens, carried.stays_shut, carried.decides]
    whole = "holds" if all(parts) else "does not hold" if not any(parts) else "holds in part"
    return [f"The story of the stored bit {whole} here.", *said]


def _holds(true: bool) -> str:
    return "is true" if true else "is not true"
