"""Results gathered from run directories whose numbers are known."""

from __future__ import annotations

import json

import pytest
from known import at, experiment, written

from gatelab.errors import DataError
from gatelab.experiments.results import failures_of, gather, read_results
from gatelab.report import tables
from gatelab.tasks import Baseline
from gatelab.training import Run
from gatelab.training.manifest import Divergence
from gatelab.training.process import alone_in


def test_every_seed_has_its_curve_and_the_mean_ends_with_the_first_to_stop(tmp_path):
    written(tmp_path, "a0", [0.25, 0.5, 0.75])
    written(tmp_path, "a1", [0.5, 0.75])
    written(tmp_path, "a2", [0.75, 1.0])
    model = gather(experiment("a", 3), tmp_path).models["a"]
    assert model.curves == {
        "train_loss": ((1.0, 1.0, 1.0), (1.0, 1.0), (1.0, 1.0)),
        "validation_accuracy": ((0.25, 0.5, 0.75), (0.5, 0.75), (0.75, 1.0)),
    }
    assert model.mean_curve("validation_accuracy") == [0.5, 0.75]
    assert model.confusion == ((6, 3), (0, 3))  # true by predicted, over three runs
    assert model.summaries["accuracy"].values == (0.75, 0.75, 1.0)
    assert model.summaries["accuracy"].high == 1.0  # no accuracy is above 1
    assert model.summaries["seconds_per_epoch"].mean == 2.0


def test_the_better_one_is_named_first_and_its_runs_are_the_better_ones(tmp_path):
    for seed, (a, b) in enumerate([(0.1, 0.3), (0.2, 0.4), (0.35, 0.5)]):
        written(tmp_path, f"a{seed}", [a], "mse")
        written(tmp_path, f"b{seed}", [b], "mse")
    results = gather(experiment(seeds=3, seconds=12.5), tmp_path)
    assert (results.metric, results.seconds) == ("mse", 12.5)
    (comparison,) = results.comparisons
    assert (comparison.a, comparison.b) == ("a", "b")
    assert comparison.superiority == pytest.approx(8 / 9)
    assert tables.comparisons(results)[1] == ["a", "b", "−0.183", "−0.255 to −0.112", "0.008 *", "89 %"]


def test_runs_far_from_the_others_are_found_by_the_metric_and_what_can_be_told_apart(tmp_path):
    ends = {"a": [0.9, 0.91, 0.905, 0.5, 0.906], "b": [0.9, 0.9, 0.9, 0.75, 0.9], "c": [0.2, 0.3, 0.25, 0.28, 0.23]}
    for model, values in ends.items():
        for seed, value in enumerate(values):
            written(tmp_path, f"{model}{seed}", [value])
    results = gather(experiment("abc", 5), tmp_path)
    assert {name: one.failed for name, one in results.failures.items()} == {"a": (), "b": (), "c": ()}  # 4 examples
    plain = {name: model.model_copy(update={"confusion": None}) for name, model in results.models.items()}
    assert {name: one.failed for name, one in failures_of(plain, "accuracy").items()} == {"a": (3,), "b": (3,), "c": ()}
    assert {name: one.better for name, one in failures_of(plain, "loss").items()} == {"a": (), "b": (), "c": ()}
    results.write(tmp_path)
    assert read_results(tmp_path).failures == results.failures
    (tmp_path / "errors").mkdir()
    for seed, value in enumerate([2.0, 2.0, 2.0, 2.01, 2.4]):  # a thousandth of 2 is the finest difference
        written(tmp_path / "errors", f"a{seed}", [value], "mse")
    assert gather(experiment("a", 5), tmp_path / "errors").failures["a"].failed == (4,)


def test_a_model_of_two_runs_has_no_majority(tmp_path):
    for name in ("a0", "a1"):
        written(tmp_path, name, [0.5])
    divergence = Divergence(what="the loss is 1e+09", epoch=1, batch=1, largest_gradients={})
    written(tmp_path, "a2", [0.5], status="diverged", divergence=divergence)
    assert gather(experiment("a", 3), tmp_path).failures == {}


def test_the_family_of_tests_is_that_of_the_plan(tmp_path):
    for seed, (a, b) in enumerate([(0.1, 0.3), (0.2, 0.4), (0.35, 0.5)]):
        written(tmp_path, f"a{seed}", [a], "mse")
        written(tmp_path, f"b{seed}", [b], "mse")
    one, ten = (gather(experiment(seeds=3, tests=tests), tmp_path).comparisons[0].difference for tests in (1, 10))
    assert ten.p == one.p
    assert ten.p_adjusted == pytest.approx(10 * one.p)
    assert ten.low < one.low
    assert one.significant
    assert not ten.significant


def test_errors_are_compared_by_the_loss_they_were_trained_with(tmp_path):
    written(tmp_path, "a0", [0.3], "mae")
    assert gather(experiment("a", 1, loss="mae"), tmp_path).metric == "mae"
    assert gather(experiment("a", 1), tmp_path).metric is None  # no run has the squared error


def test_runs_that_go_on_failed_or_never_began_are_told_apart(tmp_path):
    written(tmp_path, "a0", [0.5])
    written(tmp_path, "a1", [0.5], status="running")
    written(tmp_path, "a2", [0.5], status="failed", error="MemoryError: too much")
    at(tmp_path, "a3").mkdir()
    (at(tmp_path, "a3") / "log.txt").write_text("Traceback\nDataError: no such file\n")
    with alone_in(at(tmp_path, "a1")):
        model = gather(experiment("a", 5), tmp_path).models["a"]
    assert [(run.status, run.reason) for run in model.runs] == [
        ("done", ""), ("running", ""), ("failed", "MemoryError: too much"), ("failed", "DataError: no such file"),
        ("missing", ""),
    ]  # fmt: skip
    assert model.counts == {"done": 1, "running": 1, "failed": 2, "missing": 1}
    left = gather(experiment("a", 5), tmp_path).models["a"].runs[1]
    assert (left.status, left.reason) == ("failed", "its process ended without a message")


def test_effects_use_the_seeds_that_all_arms_finished(tmp_path):
    design = {"a": {"f": "0"}, "b": {"f": "1"}}
    for seed in range(4):
        written(tmp_path, f"a{seed}", [0.5 + seed / 100])
        if seed:
            written(tmp_path, f"b{seed}", [0.6 + seed / 90])
    results = gather(experiment(seeds=4, base="a", design=design), tmp_path)
    (effect,) = results.effects
    assert effect.difference.n == 3
    assert effect.difference.mean == pytest.approx(0.1 + 2 / 90 - 2 / 100)


def test_results_are_numbers_and_come_back_as_they_were(tmp_path):
    baseline = Baseline("majority class", "accuracy", 0.5)
    for seed in range(3):
        written(tmp_path, f"a{seed}", [0.5, 0.6 + seed / 7])
        written(tmp_path, f"b{seed}", [0.4 + seed / 9])
    results = gather(experiment(seeds=3, baseline=baseline), tmp_path)
    results.write(tmp_path)
    assert read_results(tmp_path) == results
    assert results.baseline == baseline

    def texts(value):
        if isinstance(value, dict):
            return [text for inner in value.values() for text in texts(inner)]
        return [text for inner in value for text in texts(inner)] if isinstance(value, list) else [value]

    content = json.loads((tmp_path / "results.json").read_text())
    assert not [text for text in texts(content) if isinstance(text, str) and text.count(" ") > 3]  # no sentences


def test_forged_results_are_refused(tmp_path):
    from gatelab import sealed

    written(tmp_path, "a0", [0.5])
    gather(experiment("a", 1), tmp_path).write(tmp_path)
    content = sealed.read_json(tmp_path / "results.json")
    content["models"]["a"]["curves"]["validation_accuracy"] = [["much"]]
    sealed.write_json(tmp_path / "results.json", content)
    with pytest.raises(DataError, match=r"models\.a\.curves\.validation_accuracy\.0\.0"):
        read_results(tmp_path)


def test_a_run_with_other_metrics_than_the_others_is_damaged(tmp_path):
    for seed in range(3):
        written(tmp_path, f"a{seed}", [0.5])
    manifest = Run(at(tmp_path, "a1")).manifest()
    Run(at(tmp_path, "a1")).write_manifest(manifest.replaced(test={**manifest.test, "f1": 0.5}))
    model = gather(experiment("a", 3), tmp_path).models["a"]
    assert [run.status for run in model.runs] == ["done", "damaged", "done"]
    assert "are not those of the other runs" in model.runs[1].reason


def test_seconds_per_epoch_are_those_of_all_epochs(tmp_path):
    written(tmp_path, "a0", [0.75, 0.5, 0.25], best=1)
    assert gather(experiment("a", 1), tmp_path).models["a"].summaries["seconds_per_epoch"].mean == 2.0
