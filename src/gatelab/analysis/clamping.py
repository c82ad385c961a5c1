"""Whether a few units carry the number of the subject to the verb: selected by correlation, tested by intervention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gatelab.analysis.subject import Subject
from gatelab.engine.eager import States
from gatelab.engine.unroll import Trajectory
from gatelab.lang import Cell
from gatelab.tasks.agreement import NOUNS, PLURAL, SINGULAR
from gatelab.tasks.agreement import Agreement as Sentences

SUBJECT = 1  # the step at which the subject is read
SENTENCES, DRAWS, FEW = 200, 20, 4
KINDS = ("the subject", "nouns in the gap", "other words in the gap")
OPEN, CLOSED, DECIDED = 0.5, 0.2, 0.8


@dataclass(frozen=True)
class NumberAgreement:
    """How the number of the subject reaches the verb, measured on test sentences."""

    correlations: np.ndarray  # (H,), of each unit's state before the verb with the number (1 is plural)
    ranked: np.ndarray  # (H,), units by absolute correlation, the strongest first
    counts: np.ndarray  # (K,), numbers of units that were clamped
    flips: np.ndarray  # (K,), share of sentences whose verb flips if the strongest units are clamped
    chance: np.ndarray  # (draws, K), the same with as many random other units
    tested: int  # number of sentences that the model predicts correctly with both numbers of the subject
    sentences: int  # number of sentences in all
    gate: str | None  # the gate that admits new content, if the cell has one
    openness: dict[str, float]  # mean openness of this gate in the strongest few units, at each kind of word
    retention: float  # correlation between the strongest unit's states after the subject and before the verb

    @property
    def few(self) -> int:
        """Number of the strongest few units: at most four, with at least half the largest correlation."""
        return _few(self.correlations)

    def needed(self, share: float) -> int | None:
        """The smallest tested number of the strongest units that flips at least this share of the verbs."""
        enough = self.counts[self.flips >= share]
        return int(enough[0]) if len(enough) else None

    @property
    def flips_of_few(self) -> tuple[float, float]:
        """The share of flips with the strongest few units, and its mean over as many random other units."""
        index = self._few_index
        return float(self.flips[index]), float(self.chance[:, index].mean())

    @property
    def _few_index(self) -> int:
        return int(np.flatnonzero(self.counts == self.few)[0])

    @property
    def most_by_chance(self) -> float:
        """The largest share of flips over all draws of as many random units."""
        return float(self.chance[:, self._few_index].max())

    @property
    def gap(self) -> float:
        """The mean openness of the gate over all words in the gap."""
        return self.openness["the gap"]

    @property
    def opens(self) -> bool:
        """Whether the gate is open at the subject, and at least twice as open as in the gap."""
        return self.gate is not None and self.openness[KINDS[0]] >= max(OPEN, 2 * self.gap)

    @property
    def stays_closed(self) -> bool:
        """Whether the gate is closed in the gap."""
        return self.gate is not None and self.gap <= CLOSED

    @property
    def decides(self) -> bool:
        """Whether the strongest few units decide the verb, and no draw of as many other units flips it as often."""
        clamped, _ = self.flips_of_few
        return clamped >= DECIDED and clamped > self.most_by_chance


def agreement(subject: Subject, sentences: int = SENTENCES) -> NumberAgreement:
    """Select the units that encode number, and clamp them."""
    task, H = subject.task, subject.recurrent.hidden_size
    assert isinstance(task, Sentences)
    batch = subject.examples(sentences)
    assert batch.lengths is not None
    tokens = task.test.stored[: len(batch.y), : batch.x.shape[1]]
    history, prediction = subject.history(batch.x, batch.lengths, watch=True)
    correlations, retention = _carriers(history, batch.y)
    ranked = np.argsort(-np.abs(correlations), kind="stable")
    other = task.encoding()(opposite(task, tokens), torch.arange(len(tokens)))
    donor, opposite_prediction = subject.history(other, batch.lengths)
    correct = (prediction.argmax(1) == batch.y) & (opposite_prediction.argmax(1) == 1 - batch.y)
    counts = np.unique([*(2**i for i in range(H.bit_length()) if 2**i <= H), H])
    random = np.random.RandomState(0)

    x, lengths, number = batch.x[correct], batch.lengths[correct], batch.y[correct]
    states = [tuple(state[correct] for state in states) for states in donor.states]

    def flipped(units: np.ndarray) -> float:
        if not len(x):
            return 0.0
        return float((clamped(subject, x, lengths, states, units) != number).double().mean())

    gate, strongest = update_gate(subject.cell), ranked[: _few(correlations)]
    return NumberAgreement(
        correlations,
        ranked,
        counts,
        np.array([flipped(ranked[:count]) for count in counts]),
        np.array([[flipped(random.permutation(_others(ranked, k))[:k]) for k in counts] for _ in range(DRAWS)]),
        int(correct.sum()),
        len(batch.y),
        gate,
        _mean_openness(task, tokens, openness(subject.cell, gate, history.gates[gate])[..., strongest]) if gate else {},
        float(retention[ranked[0]]),
    )


def _few(correlations: np.ndarray) -> int:
    """A power of two, since powers of two are the numbers of units that are clamped."""
    sizes = np.abs(correlations)
    carriers = int((sizes >= sizes.max() / 2).sum())
    return max(count for count in (1, 2, FEW) if count <= max(1, carriers))


def _others(ranked: np.ndarray, count: int) -> np.ndarray:
    """The units to draw from: all but the strongest, or all units if there are too few others."""
    return ranked[count:] if len(ranked) >= 2 * count else ranked


def update_gate(cell: Cell) -> str | None:
    """The gate that admits new content: one that adds, otherwise one that writes or keeps."""
    for roles in (("add",), ("write", "keep")):
        for name, role in cell.roles.items():
            if role in roles:
                return name
    return None


def openness(cell: Cell, gate: str, values: Tensor) -> Tensor:
    """The share of new content that a gate admits: a gate that keeps is open at 0."""
    return 1 - values if cell.roles[gate] == "keep" else values


def opposite(task: Sentences, tokens: Tensor) -> Tensor:
    """The same sentences with the other number of the subject: cat for cats, and vice versa."""
    index = {word: i for i, word in enumerate(task.vocabulary)}
    swapped = torch.arange(256, dtype=tokens.dtype)
    for one, many in NOUNS.items():
        swapped[index[one]], swapped[index[many]] = index[many], index[one]
    changed = tokens.clone()
    changed[:, SUBJECT] = swapped[tokens[:, SUBJECT].long()]
    return changed


def clamped(subject: Subject, x: Tensor, lengths: Tensor, donor: list[States], units: np.ndarray) -> Tensor:
    """The predictions if these units have the donor's states from just after the subject on."""
    indices = torch.from_numpy(np.ascontiguousarray(units))

    def change(direction: int, step: int, states: States) -> States:
        if direction != subject.index or step < SUBJECT:
            return states
        return tuple(
            state.index_copy(1, indices, other[:, indices])
            for state, other in zip(states, donor[step + 1], strict=True)
        )

    return subject.history(x, lengths, change=change)[1].argmax(1)


def _carriers(history: Trajectory, number: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """For each unit the correlation of its state before the verb with the number, and with its state after the subject;
    in a cell with several states, those of the state with the larger correlation with the number.
    """
    ends = [state.numpy() for state in history.states[-1]]  # constant after the end of a sentence
    starts = [state.numpy() for state in history.states[SUBJECT + 1]]
    target = number.double().numpy()[:, None]
    with_number = np.stack([_correlation(end, target) for end in ends])  # (S, H)
    with_start = np.stack([_correlation(end, start) for end, start in zip(ends, starts, strict=True)])
    best, units = np.abs(with_number).argmax(0), np.arange(with_number.shape[1])
    return with_number[best, units], with_start[best, units]


def _correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The correlation of each column; 0 for constant columns."""
    a, b = a - a.mean(0), b - b.mean(0)
    size = np.sqrt((a**2).sum(0) * (b**2).sum(0))
    correlation: np.ndarray = np.where(size > 1e-12, (a * b).sum(0) / np.maximum(size, 1e-12), 0.0)
    return correlation


def _mean_openness(task: Sentences, tokens: Tensor, values: Tensor) -> dict[str, float]:
    """The mean of the openness (T, B, units) at each kind of word."""
    words = np.array([*task.vocabulary, *[""] * (256 - len(task.vocabulary))])[tokens.numpy()]  # (B, T)
    by_word = values.mean(2).T.numpy()  # (B, T)
    gap = (words != "") & (np.arange(words.shape[1]) > SUBJECT)
    nouns = np.isin(words, [*SINGULAR, *PLURAL])
    first = np.broadcast_to(np.arange(words.shape[1]) == SUBJECT, words.shape)
    kinds = {KINDS[0]: first, KINDS[1]: gap & nouns, KINDS[2]: gap & ~nouns, "the gap": gap}
    return {kind: float(by_word[where].mean()) if where.any() else 0.0 for kind, where in kinds.items()}
