"""Fitted estimators of gatelab.sklearn leave as other models do: with their classes, scaling, stem and pooling."""

from __future__ import annotations

import shutil

import exported
import numpy as np
import pytest
from places import DOCS
from scipy.special import softmax

import gatelab
from gatelab.errors import GatelabError
from gatelab.export import TARGETS, export, network_of, to_c, to_json
from gatelab.export.check import beginning
from gatelab.sklearn import RecurrentClassifier, RecurrentRegressor


@pytest.fixture(scope="module")
def sequences() -> tuple[list[np.ndarray], np.ndarray]:
    """Of unequal length, far from zero."""
    random = np.random.RandomState(0)
    y = np.array(["slow", "fast"])[np.arange(24) % 2]
    rates = np.where(y == "slow", 0.2, 1.0)
    return [500 + 3 * np.sin(rate * np.arange(random.randint(3, 30))[:, None] + [0, 1]) for rate in rates], y


@pytest.fixture(scope="module")
def classifier(sequences) -> RecurrentClassifier:
    """With the default network, but fewer units."""
    return RecurrentClassifier(hidden_size=5, max_epochs=2, random_state=0).fit(*sequences)


@pytest.mark.parametrize(
    "target", ["onnx", "js", "json", *(pytest.param(t, marks=pytest.mark.export) for t in ("c", "torch"))]
)
def test_a_classifier_predicts_the_same_elsewhere(target, classifier, sequences, tmp_path):
    if target == "js" and shutil.which("node") is None:
        pytest.skip("node is not installed")
    out = tmp_path / f"out{TARGETS[target].suffix or ''}"
    assert export(classifier, target, out).checked.difference < 1e-6
    whole = network_of(classifier)
    assert whole.classes == tuple(classifier.classes_) == ("fast", "slow")
    run = TARGETS[target].runner(whole, out)
    scores = [run(x[None].astype(np.float32), beginning(whole, 1))[0][0] for x in sequences[0]]
    np.testing.assert_allclose(softmax(scores, -1), classifier.predict_proba(sequences[0]), atol=1e-5)


def test_a_regressor_answers_in_the_units_of_y(tmp_path):
    random = np.random.RandomState(1)
    X = random.normal(size=(20, 9, 2))
    model = RecurrentRegressor(hidden_size=4, max_epochs=2, random_state=0, pool="attention")
    model.fit(X, 1000 + 5 * X[:, :, 0].sum(1))
    assert to_json(model, tmp_path / "a.json").checked.difference < 1e-6
    values = TARGETS["json"].runner(network_of(model), tmp_path / "a.json")(X.astype(np.float32), {})[0]
    np.testing.assert_allclose(values[:, 0], model.predict(X), rtol=1e-6)


def test_a_saved_one_is_a_run(classifier, tmp_path, cli):
    classifier.save(tmp_path / "waves")
    code, said, err = cli("export", tmp_path / "waves", "--to", "json", "--out", tmp_path / "a.json")
    assert code == 0, err
    assert "largest difference" in said
    assert network_of(gatelab.load(tmp_path / "waves")).name == "waves"
    assert network_of(classifier).name == "network"


def test_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exported.run_page(DOCS / "export.md")


def test_one_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(GatelabError, match=r"a RecurrentClassifier cannot be exported: expected .* a fitted Recurrent"):
        to_c(RecurrentClassifier(), tmp_path / "c")
