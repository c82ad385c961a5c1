"""Classifier and regressor in scikit-learn's manner: its own checks, its tools, weights, early stopping, files."""

from __future__ import annotations

import doctest
import importlib.util
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.estimator_checks import check_estimator

import gatelab
from gatelab import estimators, sealed, tasks
from gatelab.errors import DataError, GatelabError
from gatelab.estimators import defaults, holding_out, restarting, weighting
from gatelab.sklearn import RecurrentClassifier, RecurrentRegressor
from gatelab.training import Run, TrainingSpec
from gatelab.training.objective import Objective
from gatelab.training.reporter import Reporter
from gatelab.training.verify import verify
from gatelab.use.file_predictions import predict
from gatelab.use.inputs import Sequences

QUICK = {"hidden_size": 8, "max_epochs": 8, "learning_rate": 0.02, "random_state": 0}


def waves(count: int = 40, steps: int = 24, features: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Slow and fast oscillations (n, T, D), in units of their own, and 0 or 1."""
    random = np.random.RandomState(seed)
    y = np.arange(count) % 2
    phase = random.uniform(0, 6, (count, 1, features))
    X = np.sin(np.arange(steps)[None, :, None] * np.where(y, 1.0, 0.4)[:, None, None] + phase)
    return 50 + 3 * X + 0.1 * random.normal(size=X.shape), y


X, Y = waves()
LISTED = [x[: 12 + i % 9] for i, x in enumerate(X)]
SUMS = 1000 + 20 * (X[:, :, 0].mean(1) - 50)


@pytest.fixture(scope="module")
def classifier() -> RecurrentClassifier:
    return RecurrentClassifier(**QUICK).fit(X, np.where(Y, "fast", "slow"))


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Nothing that is temporary stays behind. It is in no repository, whose state every fit would ask git for."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    yield
    left = [path.name for path in (tmp_path / "temporary").iterdir() if path.name.startswith("gatelab-run")]
    assert left == []


# scikit-learn's own checks, and its tools.


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "estimator",
    [
        RecurrentClassifier(hidden_size=8, max_epochs=4, batch_size=32, learning_rate=0.04),
        RecurrentRegressor(hidden_size=8, max_epochs=6, batch_size=32, learning_rate=0.04),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_scikit_learns_checks_pass(estimator):
    found = check_estimator(estimator, on_skip=None, on_fail=None)
    status = {
        name: {each["check_name"]: str(each["exception"]) for each in found if each["status"] == name}
        for name in ("passed", "skipped", "failed", "xfail")
    }
    assert status["failed"] == status["xfail"] == {}
    assert len(status["passed"]) > 45
    # Where pandas is missing, or the variable was not set before SciPy was imported, scikit-learn does not check.
    assert all("pandas" in why or "SCIPY_ARRAY_API" in why for why in status["skipped"].values())


def test_cross_validation_of_arrays_and_lists():
    for inputs in (X, LISTED):
        scores = cross_val_score(RecurrentClassifier(**QUICK), inputs, Y, cv=3)
        assert scores.shape == (3,)
        assert scores.mean() > 0.9


def test_a_grid_search_in_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), RecurrentClassifier(**QUICK))
    grid = {"recurrentclassifier__cell": ["gru", "mgu"], "recurrentclassifier__max_epochs": [1, 10]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X[..., 0], Y)
    assert search.best_params_["recurrentclassifier__max_epochs"] == 10
    assert search.score(X[..., 0], Y) > 0.9


def test_the_same_seed_is_the_same_network_and_clones_are_unfitted(classifier):
    labels = np.where(Y, "fast", "slow")
    again = clone(classifier)
    with pytest.raises(NotFittedError):
        again.predict(X)
    again.fit(X, labels)
    other = clone(classifier).set_params(random_state=1).fit(X, labels)
    np.testing.assert_array_equal(classifier.decision_function(X), again.decision_function(X))
    assert np.abs(classifier.decision_function(X) - other.decision_function(X)).max() > 1e-3


def test_the_examples_of_the_docstrings():
    for module in (estimators.classifier, estimators.regressor):
        found = doctest.testmod(module)
        assert found.attempted > 0
        assert found.failed == 0


# Inputs.


def test_channels_first_and_one_feature_are_other_views_of_the_same_data(classifier):
    labels = np.where(Y, "fast", "slow")
    first = RecurrentClassifier(**QUICK, channels_first=True).fit(X.transpose(0, 2, 1), labels)
    np.testing.assert_array_equal(first.predict_proba(X.transpose(0, 2, 1)), classifier.predict_proba(X))
    assert first.n_features_in_ == classifier.n_features_in_ == 2
    flat, deep = RecurrentClassifier(**QUICK).fit(X[..., 0], Y), RecurrentClassifier(**QUICK).fit(X[..., :1], Y)
    np.testing.assert_array_equal(flat.predict_proba(X[..., 0]), deep.predict_proba(X[..., :1]))
    assert (flat.n_features_in_, deep.n_features_in_) == (24, 1)
    assert deep.predict(X[:, :10, 0]).shape == flat.predict(X[:, :10, :1]).shape == (40,)  # of other lengths


def test_lists_of_sequences_of_any_length():
    model = RecurrentClassifier(**QUICK).fit(LISTED, Y)
    assert model.score(LISTED, Y) == accuracy_score(Y, model.predict(LISTED)) > 0.9
    alone = np.concatenate([model.decision_function([one]) for one in LISTED])
    np.testing.assert_allclose(model.decision_function(LISTED), alone, rtol=1e-10, atol=1e-12)
    tensors = [torch.from_numpy(one) for one in LISTED]
    np.testing.assert_array_equal(model.decision_function(tensors), model.decision_function(LISTED))
    turned = clone(model).set_params(channels_first=True).fit([one.T for one in LISTED], Y)
    np.testing.assert_array_equal(turned.decision_function([one.T for one in LISTED]), model.decision_function(LISTED))
    single = RecurrentClassifier(**QUICK).fit(
        [one[:, 0].tolist() for one in LISTED], Y
    )  # nested lists of unequal length
    np.testing.assert_array_equal(
        single.predict_proba([one[:, :1] for one in LISTED]), single.predict_proba([one[:, 0] for one in LISTED])
    )


@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [-3, 7], [False, True], [1.0, 2.0], np.array(["b", "a"], object)],
    ids=repr,
)
def test_labels_of_any_type(labels, tmp_path):
    y = np.asarray(labels)[Y]
    model = RecurrentClassifier(**QUICK).fit(X, y)
    expected = np.unique(y)
    np.testing.assert_array_equal(model.classes_, expected)
    assert model.classes_.dtype == model.predict(X).dtype == expected.dtype
    assert model.score(X, y) > 0.9
    model.save(tmp_path / "run")
    loaded = RecurrentClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.classes_.dtype == expected.dtype


def test_labels_that_are_objects_of_one_type():
    whole = RecurrentClassifier(**QUICK).fit(X, np.array([5, 2], object)[Y])
    assert whole.classes_.tolist() == [2, 5]
    assert (whole.predict(X) == np.array([5, 2])[Y]).mean() > 0.9


def test_probabilities_decisions_and_labels_agree():
    y = np.arange(40) % 3
    model = RecurrentClassifier(**QUICK).fit(X, y)
    logits = model.decision_function(X)
    assert logits.shape == (40, 3)
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-10)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), expected, rtol=1e-10)
    np.testing.assert_array_equal(model.predict(X), model.classes_[logits.argmax(1)])


def test_columns_of_a_data_frame_have_names():
    frame = pd.DataFrame(X[..., 0], columns=[f"t{i}" for i in range(24)])
    model = RecurrentClassifier(**QUICK).fit(frame, Y)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[frame.columns[::-1]])
    assert not hasattr(model.fit(X, Y), "feature_names_in_")


# Regression.


def test_numbers_are_predicted_in_their_own_units():
    model = RecurrentRegressor(**{**QUICK, "max_epochs": 40}, stem="none").fit(X, SUMS)
    assert model.predict(X).shape == (40,)
    assert model.score(X, SUMS) == r2_score(SUMS, model.predict(X)) > 0.8
    column = clone(model).fit(X, SUMS[:, None])
    np.testing.assert_array_equal(column.predict(X), model.predict(X)[:, None])


def test_several_numbers_even_as_many_as_there_are_steps():
    targets = 3 * X[:, :, 0]
    model = RecurrentRegressor(**QUICK).fit(X, targets)
    assert model.predict(X).shape == (40, 24)
    assert np.abs(model.predict(X).mean(0) - targets.mean(0)).max() < 3


# Weights.


def test_a_weight_is_a_number_of_repetitions_in_any_order():
    weights = np.arange(40) % 4
    repeated = np.repeat(np.arange(40), weights)
    shuffled = np.random.RandomState(3).permutation(40)
    for options in ({}, {"early_stopping": True}, {"class_weight": "balanced"}):
        model = RecurrentClassifier(**QUICK, **options)
        outputs = [
            clone(model).fit(X[repeated], Y[repeated]).decision_function(X),
            clone(model).fit(X, Y, sample_weight=weights).decision_function(X),
            clone(model).fit(X[shuffled], Y[shuffled], sample_weight=10.0 * weights[shuffled]).decision_function(X),
        ]
        np.testing.assert_array_equal(outputs[0], outputs[1])
        np.testing.assert_array_equal(outputs[0], outputs[2])
        plain = clone(model).fit(X, Y).decision_function(X)
        assert np.abs(plain - outputs[0]).max() > 1e-3


def test_examples_are_one_if_values_targets_and_groups_are_the_same():
    """A zero has no sign; what is behind the end of a sequence is no part of it, and makes no other equal to it."""
    one, signed, other = [[1.0], [0.0]], [[1.0], [-0.0]], [[1.0], [7.0]]
    sequences = Sequences(np.array([one, signed, one, other, one, one]), np.array([2, 2, 1, 1, 2, 2]), single=False)
    targets, groups = np.array([0, 0, 0, 0, 1, 0]), np.array([0, 0, 0, 0, 0, 1])
    found = weighting.merged(sequences, targets, np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]), groups)
    assert sorted(found.weights) == [3, 12, 16, 32]


def test_weights_are_odds_where_inputs_say_nothing():
    """The best prediction for equal sequences is the weighted share, or the weighted mean."""
    same, half = np.repeat(X[:1], 2, axis=0), np.array([0, 1])
    model = RecurrentClassifier(**{**QUICK, "max_epochs": 200}, head_dropout=0.0, stem="none", label_smoothing=0.0)
    with pytest.warns(ConvergenceWarning, match="the network learned nothing"):  # there is nothing to learn
        model.fit(same, half, sample_weight=[3, 1])
    odds = model.predict_proba(same[:1])[0]
    np.testing.assert_allclose(odds, [0.75, 0.25], atol=0.02)
    mean = RecurrentRegressor(**{**QUICK, "max_epochs": 100}, head_dropout=0.0, stem="none")
    with pytest.warns(ConvergenceWarning, match="the network learned nothing"):
        mean.fit(same, [100.0, 200.0], sample_weight=[3, 1])
    assert mean.predict(same[:1])[0] == pytest.approx(125, abs=2)


def test_class_weights_are_sample_weights():
    y = np.where(np.arange(40) % 4, "often", "rare")
    model = RecurrentClassifier(**QUICK)
    by_hand = {"often": 40 / (2 * 30), "rare": 40 / (2 * 10)}
    balanced = clone(model).set_params(class_weight="balanced").fit(X, y).decision_function(X)
    np.testing.assert_array_equal(
        balanced, clone(model).set_params(class_weight=by_hand).fit(X, y).decision_function(X)
    )
    weights = compute_sample_weight("balanced", y)
    np.testing.assert_allclose(
        balanced, clone(model).fit(X, y, sample_weight=weights).decision_function(X), rtol=1e-3, atol=1e-4
    )
    plain, again = clone(model).fit(X, Y), clone(model).set_params(class_weight="balanced")
    threefold = again.fit(X, Y, sample_weight=np.where(Y, 3.0, 1.0))  # which the weights of the classes take back
    np.testing.assert_array_equal(threefold.decision_function(X), plain.decision_function(X))
    heavy = clone(model).set_params(class_weight={"rare": 1000.0}).fit(X, y)
    assert (heavy.predict(X) == "rare").mean() > 0.9


def test_class_weights_are_kept_with_labels_of_their_own_type(tmp_path):
    model = RecurrentClassifier(**{**QUICK, "max_epochs": 1}, class_weight={0: 3.0, 1: 0.5}).fit(X, Y)
    model.save(tmp_path / "run")
    loaded = RecurrentClassifier.load(tmp_path / "run")
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.fit(X, Y).decision_function(X), model.decision_function(X))


# Early stopping, warm start, progress.


def test_early_stopping_keeps_the_best_epoch():
    model = RecurrentClassifier(**{**QUICK, "max_epochs": 60}, early_stopping=True, n_iter_no_change=4).fit(X, Y)
    losses = [(line["validation_accuracy"], -line["validation_loss"]) for line in model.history_]
    assert model.best_epoch_ == 1 + int(np.lexsort(np.array(losses).T[::-1])[-1])
    assert model.n_iter_ == len(model.history_) == min(60, model.best_epoch_ + 4)
    whole = RecurrentClassifier(**QUICK).fit(X, Y)
    assert whole.best_epoch_ == whole.n_iter_ == 8
    assert "validation_loss" not in whole.history_[0]


def test_what_is_held_out():
    labels = np.repeat([0, 1], [80, 20])
    parts = holding_out.parts(100, 0.2, labels, None, 0)
    assert np.bincount(labels[parts == "validation"]).tolist() == [16, 4]
    groups = np.arange(100) // 10
    parts = holding_out.parts(100, 0.2, None, groups, 0)
    assert (parts == "validation").sum() == 20
    assert all(len(set(parts[groups == group])) == 1 for group in range(10))


def test_nothing_is_held_out_of_classes_with_one_sequence():
    """All of it is trained on, as without early stopping, bit for bit."""
    few = RecurrentClassifier(**QUICK, early_stopping=True, n_iter_no_change=1)
    with pytest.warns(UserWarning, match="early_stopping holds nothing out"):
        few.fit(X[:6], np.arange(6))
    assert few.n_iter_ == few.best_epoch_ == 8
    plain = RecurrentClassifier(**QUICK).fit(X[:6], np.arange(6))
    np.testing.assert_array_equal(few.predict_proba(X), plain.predict_proba(X))


def test_groups_are_held_out_together():
    """Of two groups with contrary labels one is learned, so that all of the other is wrong."""
    groups = np.repeat(["a", "b"], 20)
    labels = np.where(groups == "a", Y, 1 - Y)
    options = {"max_epochs": 30, "early_stopping": True, "validation_fraction": 0.5, "n_iter_no_change": 30}
    model = RecurrentClassifier(**{**QUICK, **options}).fit(X, labels, groups=groups)
    assert model.history_[-1]["train_accuracy"] > 0.9
    assert model.history_[-1]["validation_accuracy"] < 0.1


def test_a_warm_start_goes_on_from_the_weights():
    model = RecurrentClassifier(**QUICK, stem="none", head_dropout=0.0, warm_start=True).fit(X, Y)
    before, loss = model.decision_function(X), model.history_[-1]["train_loss"]
    model.set_params(max_epochs=1, learning_rate=1e-9, weight_decay=0.0).fit(X, Y)
    np.testing.assert_allclose(model.decision_function(X), before, atol=1e-4)
    model.set_params(max_epochs=8, learning_rate=0.02).fit(X, Y)
    assert model.history_[-1]["train_loss"] < loss
    cold = clone(model).set_params(warm_start=False, max_epochs=1, learning_rate=1e-9).fit(X, Y)
    assert np.abs(cold.decision_function(X) - before).max() > 0.1
    with pytest.raises(GatelabError, match=r"classes \[0, 1, 2\]: expected those of the previous fit, \[0, 1\]"):
        model.fit(X, np.arange(40) % 3)
    with pytest.raises(GatelabError, match="initial weights do not fit the model"):
        model.set_params(hidden_size=9).fit(X, Y)


def test_verbose_shows_a_line_per_epoch_or_a_bar(capsys, monkeypatch):
    RecurrentClassifier(**{**QUICK, "max_epochs": 2}).fit(X, Y)
    assert capsys.readouterr().out == ""
    RecurrentClassifier(**{**QUICK, "max_epochs": 2}, verbose=1).fit(X, Y)
    shown = capsys.readouterr().out
    assert "gru, " in shown
    assert "epoch   2/2  train loss" in shown
    assert "The run is in" not in shown
    monkeypatch.setenv("FORCE_COLOR", "1")  # which makes a terminal of anything
    RecurrentRegressor(**{**QUICK, "max_epochs": 2}, verbose=1).fit(X, SUMS)
    shown = capsys.readouterr().out
    assert "\x1b[" in shown
    assert "epoch   2/2  train loss" in shown
    assert "The run is in" not in shown


def test_ctrl_c_ends_a_fit(monkeypatch):
    class Interrupting(Reporter):
        def epoch(self, line, better):
            os.kill(os.getpid(), signal.SIGINT)

    model = RecurrentClassifier(**QUICK)
    monkeypatch.setattr(model, "_reporter", Interrupting)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert not hasattr(model, "run_")


def test_batches_are_nearly_equal():
    found = {n: defaults.even_batches(n, 16) for n in (1, 16, 17, 50, 67, 200)}
    assert found == {1: 1, 16: 16, 17: 9, 50: 13, 67: 14, 200: 16}
    model = RecurrentClassifier(**{**QUICK, "max_epochs": 1, "batch_size": 32}).fit(X, np.arange(40) % 2)
    assert model.run_.trained.record.spec.training.batch_size == 20


def test_the_default_number_of_epochs():
    found = {n: defaults.num_epochs(n, 16) for n in (10, 160, 161, 1000, 100_000)}
    assert found == {10: 300, 160: 150, 161: 137, 1000: 24, 100_000: 20}


# A network that learns nothing.


def test_a_network_that_learned_nothing_is_trained_once_more_at_another_learning_rate(monkeypatch):
    """Steps that are too small change nothing; ten million times larger ones do."""
    monkeypatch.setattr(defaults, "LEARNING_RATE", 1e-9)
    monkeypatch.setattr(restarting, "FACTOR", 1e7)
    slow = {**QUICK, "learning_rate": 1e-9, "max_epochs": 10}
    for model, y in ((RecurrentClassifier(**slow, class_weight={0: 3.0}), Y), (RecurrentRegressor(**slow), SUMS)):
        with pytest.warns(ConvergenceWarning, match="at a learning rate of 1e-09, the network learned nothing") as said:
            model.fit(X, y)
        assert "it was trained once more, at 0.01" in str(said[0].message)
        assert "Try" not in str(said[0].message)
        assert model.score(X, y) > 0.8
        assert model.run_.trained.record.restarted.startswith("at a learning rate of 1e-09")
    monkeypatch.setattr(restarting, "FACTOR", 1.5)
    with pytest.warns(
        ConvergenceWarning, match="more, at 1.5e-09: the network learned nothing .* Try another learning_"
    ):
        RecurrentClassifier(**slow).fit(X, Y)


def test_a_warm_start_that_learns_nothing_keeps_the_weights_that_it_began_with(monkeypatch):
    monkeypatch.setattr(defaults, "LEARNING_RATE", 1e-9)
    slow = {**QUICK, "learning_rate": 1e-9, "max_epochs": 1}
    model = RecurrentClassifier(**slow, stem="none", warm_start=True).fit(X, Y)
    before = model.decision_function(X)
    with pytest.warns(ConvergenceWarning, match="^the network learned nothing"):
        model.set_params(max_epochs=10).fit(X, Y)
    np.testing.assert_allclose(model.decision_function(X), before, atol=1e-4)


def test_what_was_learned_in_any_epoch_counts():
    task = tasks.from_arrays(X, SUMS, split=np.repeat("train", 40), per_sequence=True)
    spec = SimpleNamespace(task=task, training=TrainingSpec(loss="mse"))

    def stuck(losses):
        return restarting._what_is_stuck(spec, "done", [{"train_loss": loss} for loss in losses])

    assert stuck([1.0] * 6 + [0.9] + [1.0] * 6) == ""
    assert "training loss at best 1 in 13 epochs, 1 for the best constant answer" in stuck([1.0] * 13)


def test_a_learning_rate_that_was_chosen_is_kept():
    with pytest.warns(ConvergenceWarning, match=r"^the network learned nothing .*at best 0.\d+ in 10 epochs"):
        model = RecurrentClassifier(**{**QUICK, "learning_rate": 1e-9, "max_epochs": 10}).fit(X, Y)
    assert not model.run_.trained.record.restarted
    short = RecurrentClassifier(**{**QUICK, "learning_rate": 1e-9, "max_epochs": 9}).fit(X, Y)  # had no time
    assert short.n_iter_ == 9
    few = RecurrentClassifier(**{**QUICK, "max_epochs": 10, "learning_rate": 2e-3}).fit(X, Y)
    assert few.score(X, Y) > 0.6  # learned little, and nothing is said


@pytest.mark.parametrize("loss", ["cross_entropy", "mse", "mae"])
def test_the_loss_of_the_best_constant_answer(loss):
    """No other constant has a smaller one, as an optimizer finds."""
    random = np.random.RandomState(0)
    weights = None if loss == "mae" else random.uniform(0.2, 2, 40)
    targets = random.randint(0, 3, 40) if loss == "cross_entropy" else random.normal(size=(40, 2)) ** 2
    task = tasks.from_arrays(X, targets, weights=weights, split=np.repeat("train", 40), per_sequence=True)
    training = TrainingSpec(loss=loss, label_smoothing=0.1 if loss == "cross_entropy" else 0.0)
    goal, part = Objective(task, training), task.train
    batch = part.batch(torch.arange(40))
    answer = torch.zeros(task.output_size, requires_grad=True)
    descent = torch.optim.LBFGS([answer], max_iter=200, line_search_fn="strong_wolfe")

    def closure():
        descent.zero_grad()
        found = goal.training_loss(answer.expand(40, -1), batch, part.weights)
        found.backward()
        return found.detach()

    descent.step(closure)
    assert goal.constant_loss(part) == pytest.approx(float(closure()), abs=2e-3 if loss == "mae" else 1e-5)
    if loss == "cross_entropy":
        totals = np.bincount(targets, weights)
        assert goal.majority(part) == (pytest.approx(totals.max() / totals.sum()), 40)


# Any cell.


@gatelab.cell
def leaky(x, h, W, U, b):
    return 0.5 * h + 0.5 * gatelab.tanh(W.n(x) + U.n(h) + b.n)


def test_any_cell(tmp_path):
    for cell, options in (("lstm", {}), (leaky, {}), ("antisymmetric_rnn", {"cell_options": {"gamma": 0.1}})):
        model = RecurrentClassifier(cell, **{**QUICK, "max_epochs": 2}, **options).fit(X, Y)
        again = pickle.loads(pickle.dumps(clone(model).fit(X, Y)))
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
        path = tmp_path / model.run_.model.cell.name
        model.save(path)
        loaded = RecurrentClassifier.load(path)
        np.testing.assert_array_equal(loaded.fit(X, Y).decision_function(X), model.decision_function(X))


# Files.


def test_a_pickle_is_read_in_another_process(classifier, tmp_path):
    content = pickle.dumps(classifier)
    assert tempfile.gettempdir().encode() not in content
    assert b"gatelab-run" not in content
    (tmp_path / "model.pickle").write_bytes(content)
    np.save(tmp_path / "X.npy", X)
    code = (
        "import pickle, numpy as np; model = pickle.load(open('model.pickle', 'rb')); "
        "np.save('found.npy', model.decision_function(np.load('X.npy')))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "found.npy"), classifier.decision_function(X), rtol=1e-12)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_saved_estimator_is_a_run(early_stopping, tmp_path):
    labels = np.where(Y, "fast", "slow")
    options = {"class_weight": {"fast": 2, "slow": 1.0}, "early_stopping": early_stopping}
    model = RecurrentClassifier(**QUICK, **options).fit(LISTED, labels, sample_weight=1 + np.arange(40) % 2)
    model.save(tmp_path / "there")
    (tmp_path / "there").rename(tmp_path / "here")
    assert all(finding.good for finding in verify(Run(tmp_path / "here"))), verify(Run(tmp_path / "here"))
    loaded = RecurrentClassifier.load(tmp_path / "here")
    assert loaded.get_params() == model.get_params()
    assert (loaded.history_, loaded.n_iter_, loaded.n_features_in_) == (model.history_, model.n_iter_, 2)
    np.testing.assert_array_equal(loaded.decision_function(LISTED), model.decision_function(LISTED))
    trained = gatelab.load(tmp_path / "here")
    np.testing.assert_allclose(trained.predict_proba(LISTED), model.predict_proba(LISTED), atol=1e-5)
    np.savez(tmp_path / "new.npz", X=X[:5])
    assert [row[1] for row in predict(trained, tmp_path / "new.npz").rows] == model.predict(X[:5]).tolist()
    with pytest.raises(GatelabError, match="here exists and is not empty: choose a new directory"):
        clone(model).set_params(max_epochs=2).fit(LISTED, labels).save(tmp_path / "here")
    with pytest.raises(DataError, match="holds a RecurrentClassifier: expected a RecurrentRegressor"):
        RecurrentRegressor.load(tmp_path / "here")


def test_a_regressor_is_saved_with_its_units(tmp_path):
    model = RecurrentRegressor(**QUICK).fit(X, np.stack([SUMS, -SUMS], 1))
    model.save(tmp_path / "run")
    again = RecurrentRegressor.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert vars(again).keys() == vars(model).keys()
    np.testing.assert_allclose(gatelab.load(tmp_path / "run").predict(X), model.predict(X), rtol=1e-5)


def test_damaged_and_foreign_directories_are_refused(classifier, tmp_path):
    with pytest.raises(NotFittedError):
        RecurrentClassifier().save(tmp_path / "run")
    with pytest.raises(DataError, match="is not a run directory; expected a directory written by RecurrentClassifier"):
        RecurrentClassifier.load(tmp_path)
    classifier.save(tmp_path / "run")
    file = tmp_path / "run" / "estimator.json"
    file.write_text(file.read_text().replace('"hidden_size": 8', '"hidden_size": 9'))
    assert [finding.file for finding in verify(Run(tmp_path / "run")) if not finding.good] == ["estimator.json"]
    with pytest.raises(DataError, match="its checksum does not match its content"):
        RecurrentClassifier.load(tmp_path / "run")
    classifier.save(tmp_path / "large")
    with (tmp_path / "large" / "best.safetensors").open("r+b") as large:
        large.truncate(1 << 42)
    with pytest.raises(GatelabError, match=r"best\.safetensors, a file of 4\.4 TB, needs about .* of memory"):
        RecurrentClassifier.load(tmp_path / "large")
    content = sealed.read_json(tmp_path / "run" / "model.json")  # is intact
    assert content["preparation"]["classes"] == ["fast", "slow"]


# Errors.


@pytest.mark.parametrize(
    ("parameters", "arguments", "message"),
    [
        ({"hidden_size": 0}, (X, Y), "RecurrentClassifier: hidden_size is 0: expected greater than or equal to 1"),
        ({"max_epochs": 0}, (X, Y), "RecurrentClassifier: max_epochs is 0: expected greater than or equal to 1"),
        ({"batch_size": 0}, (X, Y), "batch_size is 0: expected greater than or equal to 1"),
        ({"batch_size": None}, (X, Y), "batch_size is None: expected an integer"),
        ({"n_jobs": 0}, (X, Y), "n_jobs == 0"),
        ({"pool": "sum"}, (X, Y), "pool is 'sum': expected 'last', 'mean'"),
        ({"cell": "grru"}, (X, Y), "unknown cell 'grru'; did you mean 'gru'"),
        ({"cell_options": {"gamma": 1}}, (X, Y), "gamma"),
        ({"class_weight": "even"}, (X, Y), "class_weight is 'even': expected None, \"balanced\" or a dict"),
        ({"class_weight": {0: -1.0}}, (X, Y), r"class_weight gives \[-1.0, 1.0\]: expected numbers from 0 up"),
        ({"schedule": "plateau"}, (X, Y), "has no validation set, and optimization.schedule: plateau needs one"),
        ({"early_stopping": True, "validation_fraction": 1.5}, (X, Y), "validation_fraction is 1.5: expected a number"),
        ({"learning_rate": 1e12, "clip_norm": None}, (X, Y), "training diverged: .*use a smaller learning_rate"),
        ({}, (X, np.zeros(40)), "y has 1 class, 0.0: expected at least two classes"),
        ({}, (X, Y[:3]), "inconsistent numbers of samples"),
        ({}, (X, None), "requires y to be passed, but the target y is None"),
        ({}, (X[..., None], Y), r"X has the shape \(40, 24, 2, 1\): expected \(n, T, D\)"),
        ({}, ([*X[1:], X[0, :, :1]], Y), r"sequence 39 of X has the shape \(24, 1\): expected \(T_i, D\) or \(T_i,\)"),
        ({}, ([*X[1:], X[0, :0]], Y), r"sequence 39 of X has the shape \(0, 2\)"),
        (
            {},
            (np.where(np.arange(24)[:, None] == 7, np.nan, X), Y),
            r"X has NaN in .* step 7, .*: expected finite numbers; fill",
        ),
        ({}, ([*X[1:], np.full((3, 2), np.inf)], Y), "X has inf in sequence 39, step 0"),
        ({}, (X, np.array([0, "a"] * 20, object)), "y has labels of the types int, str: expected text"),
        ({}, (X, Y, np.ones(3)), r"sample_weight has the shape \(3,\): expected \(40,\)"),
        ({}, (X, Y, -np.ones(40)), "sample_weight has -1: expected weights from 0 up"),
        ({}, (X, Y, None, np.zeros(40)), "groups were passed without early_stopping"),
        ({"early_stopping": True}, (X, Y, None, np.zeros(40)), "groups has 1 group: expected at least two"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_cannot_be_fitted_is_refused_in_words(parameters, arguments, message):
    with pytest.raises(ValueError, match=message):
        RecurrentClassifier(**{**QUICK, **parameters}).fit(*arguments)


def panels() -> dict[str, pd.DataFrame]:
    index = pd.MultiIndex.from_product([range(40), range(24)], names=["series", "step"])
    long = pd.DataFrame(X.reshape(-1, 2), index, columns=["a", "b"])
    deep = pd.concat({"lab": long}, names=["place"])
    nested = pd.DataFrame({"dim_0": [pd.Series(x[:, 0]) for x in X], "dim_1": [pd.Series(x[:, 1]) for x in X]})
    return {"an index of 2 levels": long, "an index of 3 levels": deep, "a nested data frame": nested}


@pytest.mark.parametrize("kind", panels())
def test_panels_are_refused_with_the_line_that_converts_them(classifier, kind):
    panel = panels()[kind]
    for refused in (classifier.predict, lambda X: RecurrentRegressor(**QUICK).fit(X, SUMS)):
        with pytest.raises(GatelabError, match=rf"X is .*{kind}, .*expected \(n, T, D\).* is such a list") as error:
            refused(panel)
    line = re.search(r"; X = (.*) is such a list", str(error.value))[1]
    np.testing.assert_array_equal(eval(line, {"X": panel, "np": np}), X)


def test_what_cannot_be_predicted_is_refused_in_words(classifier):
    with pytest.raises(GatelabError, match="X has 24 features per step, but RecurrentClassifier is expecting 2"):
        classifier.predict(X.transpose(0, 2, 1))
    with pytest.raises(GatelabError, match="X has 1 features per step"):
        classifier.predict(X[..., 0])
    with pytest.raises(GatelabError, match=r"X has the shape \(40, 0, 2\): expected .*, with at least one step"):
        classifier.predict(X[:, :0])  # convolutions have nothing to read there
    with pytest.raises(ValueError, match="dim 3, while dim <= 2 is required by RecurrentRegressor"):
        RecurrentRegressor(**QUICK).fit(X, X)


# Data that nobody here made.


@pytest.mark.skipif(importlib.util.find_spec("aeon") is None, reason="aeon, which has the data, is not installed")
def test_power_demand_is_classified():
    found = importlib.util.find_spec("aeon")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "datasets" / "data" / "ItalyPowerDemand"
    train, test = (
        tasks.get("files", path=folder / f"ItalyPowerDemand_{part}.ts").content for part in ("TRAIN", "TEST")
    )
    model = RecurrentClassifier(hidden_size=16, max_epochs=30, random_state=0).fit(train.inputs, train.targets)
    assert model.score(test.inputs, test.targets) > 0.92
