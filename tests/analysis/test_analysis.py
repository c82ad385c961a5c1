"""Analyses against what is known: gates by hand, Jacobians by autograd, networks that provably keep or forget."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gatelab import analysis, cell, cells, learned, sigmoid, tanh, tasks
from gatelab.analysis import clamping, eigenvalues, gates, horizon, predictions, subject
from gatelab.analysis.steps import FixedStep
from gatelab.models import SequenceClassifier, StepPredictor
from gatelab.training import Run
from gatelab.training.run import prediction_arrays

DIGITS = tasks.get("digits", limit=50)


def looked_at(model, task=DIGITS, layer=0, path="nowhere") -> subject.Subject:
    return subject.Subject(Run(path), task, model.double().eval().requires_grad_(False), layer)


def classifier(cell="gru", hidden=5, task=DIGITS, layers=1, **options) -> SequenceClassifier:
    return SequenceClassifier(
        cell, task.input_size, hidden, task.output_size, layers, dropout=0.1 if layers > 1 else 0.0, **options
    )


def held(z: float) -> subject.Subject:
    """A GRU without weights whose z is this number: its state is only ever multiplied by it, and moved."""
    model = classifier().double()
    for parameter in model.recurrent.parameters():
        parameter.data.zero_()
    model.recurrent.layers[0]["fwd"].b.z.data.fill_(40.0 if z == 1 else math.log(z / (1 - z)))
    return looked_at(model)


def joined(states) -> torch.Tensor:
    return torch.cat(states, -1)


# Gates.


def test_gates_and_states_are_those_of_the_equations():
    seen = looked_at(classifier("lstm"))
    batch = seen.examples(3)
    found, p = analysis.traces(seen, batch), seen.parameters
    h = c = torch.zeros(3, 5, dtype=torch.float64)
    for t in range(8):
        x = batch.x[:, t]
        i, f, o = (torch.sigmoid(x @ p.W[g].T + h @ p.U[g].T + p.b[g]) for g in "ifo")
        g = torch.tanh(x @ p.W.g.T + h @ p.U.g.T + p.b.g)
        c = f * c + i * g
        h = o * torch.tanh(c)
        for name, values in {"i": i, "f": f, "o": o, "g": g, "h": h, "c": c}.items():
            np.testing.assert_allclose(found.all[name][:, t], values, atol=1e-6)
    assert list(found.gates) == ["i", "f", "g", "o"]
    assert list(found.states) == ["h", "c"]


def test_a_summary_counts_what_is_there():
    """Two examples, one of them a step shorter; a z that is shut, open or in between."""
    z = np.array([[[0.01], [0.99], [0.5]], [[0.03], [0.5], [np.nan]]], np.float32)
    inside = np.array([[True, True, True], [True, True, False]])
    seen = gates.Traces({"z": z}, {"h": np.zeros_like(z)}, inside)
    (gate,) = analysis.summaries(held(0.5).cell, seen)
    assert gate.role == "keep"
    assert gate.mean == pytest.approx((0.01 + 0.99 + 0.5 + 0.03 + 0.5) / 5)
    assert (gate.closed, gate.open, gate.saturated) == pytest.approx((0.4, 0.2, 0.6))
    assert gate.over_time == pytest.approx((np.std([0.01, 0.99, 0.5]) + np.std([0.03, 0.5])) / 2)
    assert gate.over_samples == pytest.approx((np.std([0.01, 0.03]) + np.std([0.99, 0.5])) / 2)
    assert seen.all.keys() == {"z", "h"}


def test_shut_and_open_are_within_a_twentieth_of_the_ends():
    z = np.array([0.01, 0.04, 0.06, 0.09, 0.5, 0.91, 0.94, 0.96, 0.97, 0.99], np.float32).reshape(2, 5, 1)
    seen = gates.Traces({"z": z}, {"h": z}, np.ones((2, 5), bool))
    (gate,) = analysis.summaries(held(0.5).cell, seen)
    assert (gate.closed, gate.open) == pytest.approx((0.2, 0.3))


def test_the_most_variable_units_are_those_of_the_first_state_along_that_example_alone():
    random = np.random.RandomState(0)
    scales = np.array([[0.1, 3.0, 1.0, 2.0], [2.0, 0.1, 3.0, 1.0]])  # (B, H)
    h = (scales[:, None] * random.normal(size=(2, 6, 4)) + [50.0, -50.0, 0.0, 0.0]).astype(np.float32)
    h[1, 4:] = np.nan  # beyond the end
    c = h[::-1, :, ::-1]
    seen = gates.Traces({}, {"h": h, "c": c}, ~np.isnan(h[..., 0]))
    for sample, end in ((0, 6), (1, 4)):
        spread = [float(np.std(h[sample, :end, unit])) for unit in range(4)]
        expected = sorted(range(4), key=lambda unit: -spread[unit])
        assert gates.most_variable(seen, sample, 4).tolist() == expected
        assert gates.most_variable(seen, sample, 2).tolist() == expected[:2]


def test_what_is_beyond_the_end_is_not_seen():
    """Whatever stands in the padding, an example in a batch looks as it does alone."""
    seen = looked_at(classifier("lstm"))
    batch, ends = seen.examples(3), torch.tensor([8, 3, 5])
    found = analysis.traces(seen, batch._replace(lengths=ends))
    for row, end in enumerate(ends.tolist()):
        one = batch._replace(x=batch.x[[row], :end], y=batch.y[[row]])
        alone = analysis.traces(seen, one)
        for name, values in alone.all.items():
            np.testing.assert_allclose(found.all[name][row, :end], values[0], atol=1e-6)
            assert np.isnan(found.all[name][row, end:]).all()
        padded = analysis.spectrum(seen, batch._replace(x=batch.x[[row]], lengths=ends[[row]]))
        short = analysis.spectrum(seen, one)
        assert padded.steps.tolist() == short.steps.tolist()
        np.testing.assert_allclose(padded.values, short.values)


def test_a_candidate_is_not_said_to_be_saturated():
    found = {gate.name: gate for gate in _summaries(held(0.5))}
    assert found["n"].saturated is None
    assert found["z"].saturated == 0.0
    assert found["z"].mean == pytest.approx(0.5)


def _summaries(seen):
    return analysis.summaries(seen.cell, analysis.traces(seen, seen.probe()))


def test_a_unit_that_does_not_move_is_dead():
    model = classifier()
    for family in (model.recurrent.layers[0]["fwd"].W, model.recurrent.layers[0]["fwd"].U):
        family.n.data[3] = 0.0
    model.recurrent.layers[0]["fwd"].b.n.data[3] = 0.0
    model.recurrent.layers[0]["fwd"].b.hn.data[3] = 0.0
    seen = looked_at(model)
    assert analysis.dead_units(analysis.traces(seen, seen.probe())).tolist() == [3]


# Memory.


@pytest.mark.parametrize("cell", ["gru", "lstm", "agru", "rnn", "mgu"])
@pytest.mark.parametrize("lengths", [None, [6, 3]])
def test_with_all_directions_the_norm_is_exactly_autograds(cell, lengths):
    seen = looked_at(classifier(cell, hidden=4))
    ends = None if lengths is None else torch.tensor(lengths)
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    history, _ = seen.history(x, ends)
    n = 4 * len(seen.cell.states)
    found = horizon.decay(seen.parameters, history.x, history.states, ends, probes=n)
    assert found.exact
    for row in range(2):
        end = 6 if lengths is None else lengths[row]
        for lag in range(end + 1):

            def last(start, row=row, first=end - lag, end=end):
                states = start.split(4)
                for t in range(first, end):
                    states = FixedStep(seen.parameters).forward(x[row, t], states)
                return joined(states)

            start = joined([state[row] for state in history.states[end - lag]])
            jacobian = torch.autograd.functional.jacobian(last, start)
            assert found.norms[row, lag] == pytest.approx(jacobian.norm().item() / math.sqrt(n), rel=1e-9)
        assert np.isnan(found.norms[row, end + 1 :]).all()


def test_a_few_directions_estimate_it():
    seen = looked_at(classifier(hidden=60))
    batch = seen.examples(6)
    few, all_ = (analysis.memory(seen, batch, probes).quantile(0.5) for probes in (15, 60))
    np.testing.assert_allclose(few, all_, rtol=0.25)


def test_a_long_sequence_is_no_trouble():
    seen = looked_at(classifier(hidden=16))
    x = torch.randn(2, 1024, 8, dtype=torch.float64)
    history, _ = seen.history(x, None)
    found = horizon.decay(seen.parameters, history.x, history.states, None, 4)
    assert found.norms.shape == (2, 1025)
    assert np.isfinite(found.norms).all()
    assert found.norms[:, -1].max() < 1e-30  # told apart from nothing


def test_a_network_that_keeps_remembers_for_ever():
    seen = held(1.0)
    found = analysis.memory(seen, seen.examples(4))
    np.testing.assert_allclose(found.norms, 1.0, atol=1e-12)
    assert found.horizon(1 / math.e) is None
    assert found.horizon(0.01) is None


@pytest.mark.parametrize("z", [0.3, 0.7, 0.5])
def test_a_network_that_forgets_does_so_at_its_rate(z):
    seen = held(z)
    found = analysis.memory(seen, seen.examples(4))
    np.testing.assert_allclose(found.norms, np.broadcast_to(z ** np.arange(9.0), (4, 9)), rtol=1e-9)
    wanted = math.ceil(-1 / math.log(z))
    assert found.horizon(1 / math.e) == wanted
    assert found.horizon(0.01) == (math.ceil(math.log(0.01) / math.log(z)) if z < 0.55 else None)


@pytest.mark.parametrize(("z", "steps"), [(0.5, 1 / math.log(2)), (0.9, -1 / math.log(0.9)), (1.0, math.inf)])
def test_time_constants_of_a_known_gate(z, steps):
    seen = held(z)
    found = analysis.time_constants(seen.cell, analysis.traces(seen, seen.probe()))
    assert list(found) == ["z"]
    np.testing.assert_allclose(found["z"], steps, rtol=1e-5)


def test_a_gate_that_overwrites_keeps_the_rest():
    values = np.full((1, 4, 2), 0.25, np.float32)
    seen = gates.Traces({"f": values}, {}, np.ones((1, 4), bool))
    cell = classifier("mgu").recurrent.cell
    np.testing.assert_allclose(analysis.time_constants(cell, seen)["f"], -1 / math.log(0.75), rtol=1e-6)
    assert horizon.time_constant(0.0) == 0.0
    assert analysis.time_constants(classifier("agru").recurrent.cell, seen) == {}


def test_a_leaky_state_keeps_more_than_its_gate_says():
    """With h' = h + ε z (n − h) a step keeps 1 − ε z: beside the derivative itself, as ε is given or learned."""

    @cell
    def leaky(x, h, W, U, b, *, epsilon=learned(0.1)):
        z = sigmoid(W.z(x) + U.z(h) + b.z)
        return h + epsilon * z * (tanh(W.n(x) + b.n) - h)

    model = classifier(leaky).double()
    for parameter in model.recurrent.parameters():
        parameter.data.zero_()
    model.recurrent.layers[0]["fwd"].epsilon.data.fill_(0.2)
    seen = looked_at(model)
    batch = seen.examples(2)
    assert cells.get("gru").kept("z") == (0.0, 1.0)
    assert leaky.kept("z") == pytest.approx((1.0, 0.9))
    found = analysis.time_constants(leaky, analysis.traces(seen, batch), seen.hyperparameters)
    np.testing.assert_allclose(found["z"], -1 / math.log(0.9), rtol=1e-6)  # z is a half
    np.testing.assert_allclose(analysis.memory(seen, batch, 5).norms[:, 8], 0.9**8)
    assert analysis.spectrum(seen, batch).epsilon is None  # a step, but of nothing antisymmetric


def test_where_two_gates_decide_together_neither_promises_a_time():
    @cell
    def both(x, h, W, U, b):
        z = sigmoid(W.z(x) + b.z)
        f = sigmoid(W.f(x) + b.f)
        return f * z * h + (1 - z) * tanh(W.n(x))

    assert both.roles.keys() == {"z", "f"}
    assert (both.kept("z"), both.kept("f")) == (None, None)

    @cell
    def twofold(x, h, c, W, U, b):
        z = sigmoid(W.z(x) + b.z)
        return 0.5 * z * h + tanh(W.n(x)), z * c + tanh(W.m(x))

    assert twofold.kept("z") is None  # half as much of h as of c


def test_memory_is_shown_as_far_as_half_of_the_examples_reach():
    seen = looked_at(classifier())
    for lengths, last in (([8, 3, 3, 2], 3), ([8, 6, 3, 2], 6), ([5, 3, 2], 3), ([4], 4)):
        batch = seen.examples(len(lengths))
        found = analysis.memory(seen, batch._replace(lengths=torch.tensor(lengths)))
        assert found.lags.tolist() == list(range(last + 1))
        assert np.isfinite(found.quantile(0.5)).all()


# One step.


@pytest.mark.parametrize("cell", ["gru", "lstm", "agru"])
def test_eigenvalues_are_those_of_autograds_jacobian(cell):
    seen = looked_at(classifier(cell, hidden=4))
    example = seen.examples(1, first=2)
    found = analysis.spectrum(seen, example)
    history, _ = seen.history(example.x, None)
    assert found.steps.tolist() == [0, 2, 4, 5, 7]
    for t, values in zip(found.steps, found.values, strict=True):
        before = joined([state[0] for state in history.states[t]])
        jacobian = torch.autograd.functional.jacobian(
            lambda s, t=t: joined(FixedStep(seen.parameters).forward(example.x[0, t], s.split(4))), before
        )
        wanted = torch.linalg.eigvals(jacobian).numpy()
        np.testing.assert_allclose(np.sort_complex(values), np.sort_complex(wanted), atol=1e-10)
    assert found.radius[0] == np.abs(found.values[0]).max()
    assert (found.epsilon is None) == (cell != "agru")


def test_an_antisymmetric_step_lies_on_its_axis_and_a_symmetric_one_does_not():
    """Where the input is nothing, the state is 0 and tanh has slope 1: the rates are those of A alone, −γ ± iω."""
    model = classifier("antisymmetric_rnn", hidden=6)
    model.recurrent.layers[0]["fwd"].b.h.data.zero_()
    seen = looked_at(model)
    nothing = seen.examples(1)._replace(x=torch.zeros(1, 3, 8, dtype=torch.float64))
    found = analysis.spectrum(seen, nothing)
    np.testing.assert_allclose(found.rates.real, -0.01, atol=1e-9)
    assert found.off_axis == pytest.approx(0.01 / np.sqrt(np.mean(found.rates.imag**2)))
    assert found.off_axis < eigenvalues.NEAR_THE_AXIS
    lying = eigenvalues.Spectrum(np.array([0]), np.array([[0.9, 0.8, 1.1]]), 0.1)
    assert lying.off_axis == math.inf


# Agreement.


SENTENCES = tasks.get("agreement", size=300, gap=6, shortest_gap=2)


def number_keeper(hidden=6) -> subject.Subject:
    """A GRU of which unit 2 stores the number of the subject by hand: "the" first, then the noun, then shut.

    It writes at nouns, if nothing is stored yet: what it holds, of either sign, drives another unit that shuts it.
    """
    model = classifier("gru", hidden, SENTENCES, pool="last")
    p = model.recurrent.layers[0]["fwd"]
    for parameter in model.parameters():
        parameter.data.zero_()
    place = {word: i for i, word in enumerate(SENTENCES.vocabulary)}
    p.b.z.data.fill_(20.0)  # shut
    p.b.r.data.fill_(20.0)
    for word, sign in [(w, -1.0) for w in clamping.SINGULAR] + [(w, 1.0) for w in clamping.PLURAL]:
        p.W.n.data[2, place[word]] = 5.0 * sign
        p.W.z.data[2, place[word]] = -40.0  # a noun opens it
        p.W.n.data[4, place[word]] = 5.0  # and is noted by another unit
        p.W.z.data[4, place[word]] = -40.0
    p.U.z.data[2, 4] = 60.0  # which shuts it from then on
    model.head[-1].weight.data[:, 2] = torch.tensor([-3.0, 3.0])
    return looked_at(model, SENTENCES)


def test_the_unit_that_stores_the_number_is_found_and_its_clamp_flips_the_verb():
    found = analysis.agreement(number_keeper(), sentences=60)
    assert found.ranked[0] == 2
    assert found.correlations[2] > 0.999
    assert found.tested == found.sentences == 60
    assert found.counts.tolist() == [1, 2, 4, 6]
    assert found.flips.tolist() == [1.0] * 4
    assert found.gate == "z"
    assert found.retention > 0.999
    assert found.needed(0.95) == 1
    assert not found.chance[:, :2].any()  # the other units do nothing
    assert found.chance[:, -1].tolist() == [1.0] * len(found.chance)  # all units are all units
    assert found.few == 1
    assert found.flips_of_few == (1.0, 0.0)
    assert (found.opens, found.stays_closed, found.decides) == (True, True, True)  # here the story is true


def test_how_open_the_gate_is_at_each_kind_of_word():
    seen = number_keeper()
    batch = seen.examples(40)
    history, _ = seen.history(batch.x, batch.lengths, watch=True)
    opening = clamping.openness(seen.cell, "z", history.gates["z"])[..., [2]]
    writes = clamping._mean_openness(SENTENCES, SENTENCES.test.stored[:40], opening)
    assert writes["the subject"] > 0.99
    assert writes["nouns in the gap"] < 0.01
    assert writes["other words in the gap"] < 0.01


def test_opposite_sentences_differ_in_the_subject_alone():
    tokens = SENTENCES.test.stored[:20]
    other = clamping.opposite(SENTENCES, tokens)
    for row, changed, length in zip(tokens, other, SENTENCES.test.lengths[:20].tolist(), strict=True):
        before, after = (SENTENCES.words(each, length) for each in (row, changed))
        assert before[0] == after[0]
        assert before[2:] == after[2:]
        assert clamping.NOUNS.get(before[1], None) == after[1] or clamping.NOUNS[after[1]] == before[1]
    assert torch.equal(clamping.opposite(SENTENCES, other), tokens)


@pytest.mark.parametrize("cell", ["gru", "lstm", "agru", "rnn"])
def test_all_units_clamped_are_the_opposite_sentence(cell):
    """Whatever the network: with all its state replaced it answers what it answers there."""
    seen = looked_at(classifier(cell, 7, SENTENCES), SENTENCES)
    batch = seen.examples(30)
    tokens = clamping.opposite(SENTENCES, SENTENCES.test.stored[:30])
    other = SENTENCES.encoding()(tokens, torch.arange(30))
    donor, wanted = seen.history(other, batch.lengths)
    answered = clamping.clamped(seen, batch.x, batch.lengths, donor.states, np.arange(7))
    assert torch.equal(answered, wanted.argmax(1))
    untouched = clamping.clamped(seen, batch.x, batch.lengths, donor.states, np.array([], int))
    assert torch.equal(untouched, seen.model(batch.x, lengths=batch.lengths).argmax(1))
    assert clamping.update_gate(seen.cell) == {"gru": "z", "lstm": "i", "agru": "z", "rnn": None}[cell]


def sigmoid_of(v: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-v))


@pytest.mark.parametrize("layer", [0, 1])
def test_a_clamp_holds_its_units_of_one_layer_from_the_subject_on(layer):
    """Against a GRU of two layers in plain NumPy, in which the same units are overwritten by hand."""
    model, scores = classifier("gru", 6, SENTENCES, layers=2), []
    seen = looked_at(model, SENTENCES, layer)
    batch, units = seen.examples(6), np.array([4, 1])
    donor, _ = seen.history(torch.randint_like(batch.x, seen.task.input_size), batch.lengths)
    p = [{n: v.numpy() for n, v in each["fwd"].named_parameters()} for each in model.recurrent.layers]
    expected = []
    for row, length in enumerate(batch.lengths.tolist()):
        h = [np.zeros(6), np.zeros(6)]
        for t in range(length):
            x = np.eye(SENTENCES.input_size)[batch.x[row, t]]
            for k in range(2):
                r, z = (sigmoid_of(p[k][f"W.{g}"] @ x + p[k][f"U.{g}"] @ h[k] + p[k][f"b.{g}"]) for g in "rz")
                n = np.tanh(p[k]["W.n"] @ x + p[k]["b.n"] + r * (p[k]["U.n"] @ h[k] + p[k]["b.hn"]))
                h[k] = (1 - z) * n + z * h[k]
                if k == layer and t >= 1:  # the subject is the second word
                    h[k][units] = donor.states[t + 1][0][row, units].numpy()
                x = h[k]
        expected.append(model.head[-1].weight.numpy() @ h[1] + model.head[-1].bias.numpy())
    model.head.register_forward_hook(lambda head, states, output: scores.append(output))
    answered = clamping.clamped(seen, batch.x, batch.lengths, donor.states, units)
    np.testing.assert_allclose(scores[0], expected, atol=1e-12)
    assert answered.tolist() == np.argmax(expected, 1).tolist()


def test_an_untrained_model_has_nothing_to_clamp():
    model = classifier("gru", 4, SENTENCES)
    model.head[-1].weight.data.zero_()
    found = analysis.agreement(looked_at(model, SENTENCES), sentences=10)
    assert found.tested == 0
    assert not found.flips.any()
    assert not found.decides


# Predictions.


def test_mistakes_are_sorted_by_how_sure_they_were(tmp_path):
    run = Run(tmp_path)
    scores = torch.tensor([[0.0, 3.0], [1.0, 0.0], [0.0, 1.0], [0.0, 9.0]])
    run.write_predictions(prediction_arrays(scores, torch.tensor([0, 0, 0, 1]), None))
    found = analysis.predictions_of(looked_at(classifier("gru", 3, SENTENCES), SENTENCES, path=tmp_path))
    assert found.worst(5).tolist() == [0, 2]
    assert found.confusion.tolist() == [[1, 2], [0, 1]]
    assert found.confidence[0] == pytest.approx(1 / (1 + math.exp(-3)))


def test_answers_at_every_step_count_where_they_are_scored(tmp_path):
    task = tasks.get("copy", length=2, pause=2, symbols=4, size=10)
    right = task.test.targets
    scores = torch.nn.functional.one_hot(right, 5).float()
    scores[0, -1] = torch.nn.functional.one_hot((right[0, -1] + 1) % 5, 5) * 4.0
    scores[1, 0] = torch.tensor([0.0, 9.0, 0.0, 0.0, 0.0])  # wrong where it does not count
    Run(tmp_path).write_predictions(prediction_arrays(scores, right, None))
    model = StepPredictor("gru", task.input_size, 3, task.output_size)
    found = analysis.predictions_of(looked_at(model, task, path=tmp_path))
    assert found.scored.sum(1).tolist() == [2, 2]
    assert found.error.tolist() == [0.5, 0.0]
    assert found.worst(5).tolist() == [0]
    assert found.confusion.sum() == 4


def test_how_sure_is_of_the_worst_mistake_that_counts(tmp_path):
    """Every step by hand: not of right answers, not of steps that are not scored, not beyond an end."""
    task = tasks.get("copy", length=2, pause=2, symbols=4, size=10)
    right = torch.tensor([[0, 0, 0, 0, 1, 2], [0, 0, 0, 0, 3, 4], [0, 0, 0, 0, 2, 2], [0, 0, 0, 0, 1, 1]])
    sizes = np.array([  # of the score of what is said; the others are 0
        [9.0, 1.0, 1.0, 1.0, 2.0, 7.0],
        [1.0, 1.0, 1.0, 1.0, 3.0, 1.0],
        [1.0, 1.0, 1.0, 1.0, 1.0, 8.0],
        [1.0, 1.0, 1.0, 1.0, 6.0, 5.0],
    ])  # fmt: skip
    mistaken = np.array([  # right[0, 5] is surest and right; [0, 0] does not count; [2, 5] is beyond the end
        [True, False, False, False, True, False],
        [False, False, False, False, True, True],
        [False, False, False, False, True, True],
        [False, False, False, False, False, False],
    ])  # fmt: skip
    said = (right + torch.from_numpy(mistaken)) % 5
    scores = torch.nn.functional.one_hot(said, 5) * torch.from_numpy(sizes)[..., None]
    Run(tmp_path).write_predictions(prediction_arrays(scores, right, torch.tensor([6, 6, 5, 6])))
    seen = looked_at(StepPredictor("gru", task.input_size, 3, task.output_size), task, path=tmp_path)
    answers = analysis.predictions_of(seen)
    probability = np.exp([2.0, 3.0, 1.0]) / (np.exp([2.0, 3.0, 1.0]) + 4)
    np.testing.assert_allclose(answers.confidence, [*probability, 0.0])
    np.testing.assert_allclose(answers.error, [0.5, 1.0, 1.0, 0.0])
    expected = np.zeros((5, 5), int)
    for row, step in [(0, 4), (0, 5), (1, 4), (1, 5), (2, 4), (3, 4), (3, 5)]:
        expected[right[row, step], said[row, step]] += 1
    assert answers.confusion.tolist() == expected.tolist()
    assert answers.worst(4).tolist() == [1, 0]  # of the two examples that can be shown


def test_answers_beyond_an_end_do_not_count(tmp_path):
    task = tasks.get("sine", duration=200, length=10)
    right, lengths = task.test.targets, torch.full((len(task.test),), 10)
    lengths[0] = 4
    said = right.clone()
    said[0, 3] += 1.0
    said[0, 4:] += 100.0
    Run(tmp_path).write_predictions(prediction_arrays(said, right, lengths))
    found = analysis.predictions_of(looked_at(StepPredictor("gru", 1, 3, 1), task, path=tmp_path))
    assert found.error[0] == pytest.approx(0.25)
    assert not found.error[1:].any()
    assert not found.scored[0, 4:].any()


def test_numbers_are_sorted_by_their_error_and_made_where_a_run_has_none(tmp_path):
    task = tasks.get("sine", duration=200, length=10)
    seen = looked_at(StepPredictor("gru", 1, 3, 1), task, path=tmp_path)
    found = analysis.predictions_of(seen)
    worst = found.worst(3)
    batch = seen.examples(500)
    error = (seen.model(batch.x) - batch.y).abs().mean((1, 2))
    assert worst.tolist() == error.argsort(descending=True)[:3].tolist()
    assert found.confusion is None
    assert predictions.EVALUATED >= len(found.targets) == len(task.test)
