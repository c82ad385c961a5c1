"""Whether a few units carry the number of the subject to the verb: found by correlation, tested by intervention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gatelab.analysis.subject import Subject
from gatelab.engine.eager import States
from gatelab.engine.unroll import History
from gatelab.lang import Cell
from gatelab.tasks.agreement import NOUNS, PLURAL, SINGULAR
from gatelab.tasks.agreement import Agreement as Sentences

SUBJECT = 1  # the step at which the subject is read
SENTENCES, DRAWS, FEW = 200, 20, 4
KINDS = ("the subject", "nouns in the gap", "other words in the gap")
OPEN, SHUT, DECIDED = 0.5, 0.2, 0.8


@dataclass(frozen=True)
class Agreement:
    """How the number of the subject gets to the verb, over test sentences."""

    correlations: np.ndarray  # (H,), of each unit before the verb with the number (1 is plural)
    ranked: np.ndarray  # (H,), units by the size of that, the strongest first
    counts: np.ndarray  # (K,), so many units were clamped
    flips: np.ndarray  # (K,), the share of sentences in which the verb flipped, with the strongest units
    chance: np.ndarray  # (draws, K), the same with as many of the other units, drawn by chance
    tried: int  # sentences, of those whose number the model gets right both ways
    of: int
    gate: str | None  # the gate that lets the new in, if the cell has one
    writes: dict[str, float]  # how open it is for the strongest few, at each kind of word
    lasts: float  # correlation between the strongest unit's state after the subject and before the verb

    @property
    def few(self) -> int:
        """How many units the strongest few are: four at most, of those that are not far behind the strongest."""
        return _few(self.correlations)

    def needed(self, share: float) -> int | None:
        """The smallest number of the strongest units, of those tried, with which so many verbs flip."""
        enough = self.counts[self.flips >= share]
        return int(enough[0]) if len(enough) else None

    @property
    def flips_of_few(self) -> tuple[float, float]:
        """The share of flips with the strongest few, and with as many by chance."""
        place = self._place
        return float(self.flips[place]), float(self.chance[:, place].mean())

    @property
    def _place(self) -> int:
        return int(np.flatnonzero(self.counts == self.few)[0])

    @property
    def most_by_chance(self) -> float:
        """The share of flips in the luckiest draw of as many units."""
        return float(self.chance[:, self._place].max())

    @property
    def gap(self) -> float:
        """How open the gate is in the gap, over all words there."""
        return self.writes["the gap"]

    @property
    def opens(self) -> bool:
        return self.gate is not None and self.writes[KINDS[0]] >= max(OPEN, 2 * self.gap)

    @property
    def stays_shut(self) -> bool:
        return self.gate is not None and self.gap <= SHUT

    @property
    def decides(self) -> bool:
        """With the strongest few, and with them only: no draw of as many flips as often."""
        clamped, _ = self.flips_of_few
        return clamped >= DECIDED and clamped > self.most_by_chance


def agreement(subject: Subject, sentences: int = SENTENCES) -> Agreement:
    """Find the units that encode number, and clamp them."""
    task, H = subject.task, subject.recurrent.hidden_size
    assert isinstance(task, Sentences)
    batch = subject.examples(sentences)
    assert batch.lengths is not None
    tokens = task.test.stored[: len(batch.y), : batch.x.shape[1]]
    seen, prediction = subject.history(batch.x, batch.lengths, watch=True)
    correlations, lasts = _carriers(seen, batch.y)
    ranked = np.argsort(-np.abs(correlations), kind="stable")
    other = task.encoding()(opposite(task, tokens), torch.arange(len(tokens))).double()
    donor, opposite_prediction = subject.history(other, batch.lengths)
    sure = (prediction.argmax(1) == batch.y) & (opposite_prediction.argmax(1) == 1 - batch.y)
    counts = np.unique([*(2**i for i in range(H.bit_length()) if 2**i <= H), H])
    random = np.random.RandomState(0)

    x, lengths, right = batch.x[sure], batch.lengths[sure], batch.y[sure]
    states = [tuple(state[sure] for state in states) for states in donor.states]

    def flipped(units: np.ndarray) -> float:
        if not len(x):
            return 0.0
        return float((clamped(subject, x, lengths, states, units) != right).double().mean())

    gate, strongest = update_gate(subject.cell), ranked[: _few(correlations)]
    return Agreement(
        correlations,
        ranked,
        counts,
        np.array([flipped(ranked[:count]) for count in counts]),
        np.array([[flipped(random.permutation(_others(ranked, k))[:k]) for k in counts] for _ in range(DRAWS)]),
        int(sure.sum()),
        len(batch.y),
        gate,
        _writes(task, tokens, let_in(subject.cell, gate, seen.gates[gate])[..., strongest]) if gate else {},
        float(lasts[ranked[0]]),
    )


def _few(correlations: np.ndarray) -> int:
    """A power of two, as the numbers of units that are clamped."""
    sizes = np.abs(correlations)
    carriers = int((sizes >= sizes.max() / 2).sum())
    return max(count for count in (1, 2, FEW) if count <= max(1, carriers))


def _others(ranked: np.ndarray, count: int) -> np.ndarray:
    """The units to draw from beside the strongest: the others, where there are enough of them, else all."""
    return ranked[count:] if len(ranked) >= 2 * count else ranked


def update_gate(cell: Cell) -> str | None:
    """The gate that lets new content in: one that adds, else one that overwrites or keeps."""
    for wanted in (("add",), ("write", "keep")):
        for name, role in cell.roles.items():
            if role in wanted:
                return name
    return None


def let_in(cell: Cell, gate: str, values: Tensor) -> Tensor:
    """How far a gate lets new content in: a gate that keeps is open where it is 0."""
    return 1 - values if cell.roles[gate] == "keep" else values


def opposite(task: Sentences, tokens: Tensor) -> Tensor:
    """The same sentences about the other number: cat for cats, and the other way round."""
    place = {word: i for i, word in enumerate(task.vocabulary)}
    swapped = torch.arange(256, dtype=tokens.dtype)
    for one, many in NOUNS.items():
        swapped[place[one]], swapped[place[many]] = place[many], place[one]
    changed = tokens.clone()
    changed[:, SUBJECT] = swapped[tokens[:, SUBJECT].long()]
    return changed


def clamped(subject: Subject, x: Tensor, lengths: Tensor, donor: list[States], units: np.ndarray) -> Tensor:
    """The predictions if these units have the donor's states from just after the subject on."""
    held = torch.from_numpy(np.ascontiguousarray(units))

    def change(run: int, step: int, states: States) -> States:
        if run != subject.number or step < SUBJECT:
            return states
        return tuple(
            state.index_copy(1, held, other[:, held]) for state, other in zip(states, donor[step + 1], strict=True)
        )

    return subject.history(x, lengths, change=change)[1].argmax(1)


def _carriers(seen: History, number: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """For each unit the correlation of its state before the verb with the number, and with its state after the subject;
    of a cell with several states, by the one that has more of the number.
    """
    ends = [state.numpy() for state in seen.states[-1]]  # states stand still after a sentence's end
    starts = [state.numpy() for state in seen.states[SUBJECT + 1]]
    goal = number.double().numpy()[:, None]
    with_number = np.stack([_correlation(end, goal) for end in ends])  # (S, H)
    with_start = np.stack([_correlation(end, start) for end, start in zip(ends, starts, strict=True)])
    best, units = np.abs(with_number).argmax(0), np.arange(with_number.shape[1])
    return with_number[best, units], with_start[best, units]


def _correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Column by column; 0 where one does not vary."""
    a, b = a - a.mean(0), b - b.mean(0)
    size = np.sqrt((a**2).sum(0) * (b**2).sum(0))
    found: np.ndarray = np.where(size > 1e-12, (a * b).sum(0) / np.maximum(size, 1e-12), 0.0)
    return found


def _writes(task: Sentences, tokens: Tensor, openness: Tensor) -> dict[str, float]:
    """The mean opening (T, B, units) at each kind of word."""
    words = np.array([*task.vocabulary, *[""] * (256 - len(task.vocabulary))])[tokens.numpy()]  # (B, T)
    by_word = openness.mean(2).T.numpy()  # (B, T)
    gap = (words != "") & (np.arange(words.shape[1]) > SUBJECT)
    nouns = np.isin(words, [*SINGULAR, *PLURAL])
    first = np.broadcast_to(np.arange(words.shape[1]) == SUBJECT, words.shape)
    kinds = {KINDS[0]: first, KINDS[1]: gap & nouns, KINDS[2]: gap & ~nouns, "the gap": gap}
    return {kind: float(by_word[where].mean()) if where.any() else 0.0 for kind, where in kinds.items()}
