"""What is gathered from run directories whose numbers are known, and what is said of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from gatelab.experiments import stats
from gatelab.experiments.results import comparisons, effect_sentence, gather, mixtures, sentences, with_minus
from gatelab.report import tables
from gatelab.training import Run
from gatelab.training.process import alone_in

IDENTITY = {"engine": "fused", "cell": "x", "data": "y"}


def written(path: Path, values: list[float], metric="accuracy", status="done", **facts) -> None:
    """A run with these validation values, epoch by epoch, and the last of them on the test set."""
    run = Run(path)
    path.mkdir(parents=True)
    test = {"test": {metric: values[-1], "loss": 0.5}} if status == "done" else {}
    run.write_manifest({
        "schema": 2, "status": status, "identity": IDENTITY, "parameters": 7, "best_epoch": len(values),
        "spec": {"model": {}}, "seed": int(path.name[-1]), "frozen": {}, "versions": {}, "threads": 1, "started": "",
        "machine": {"cpu": "z80", "cores": 1, "system": "CP/M"}, "engine": "fused", "resumed": [], **test, **facts
    })  # fmt: skip
    run.write_metrics([
        {"epoch": i + 1, f"validation_{metric}": v, "validation_seconds": 1.0, "seconds": 2.0}
        for i, v in enumerate(values)
    ])  # fmt: skip
    right = torch.tensor([0, 0, 0, 1])  # one of three zeros is taken for a one
    run.write_predictions(torch.eye(2)[[0, 1, 0, 1]], right if metric == "accuracy" else right.double()[:, None], None)


def experiment(models="ab", seeds=2, loss="auto", **more) -> dict:
    runs = [{"model": m, "seed": s, "place": f"{m}{s}"} for m in models for s in range(seeds)]
    spec = {"training": {"loss": loss}, **more.pop("spec", {})}
    return {"spec": spec, "classes": ["0", "1"], "models": {m: {} for m in models}, "runs": runs, **more}


# Numbers.


def test_curves_are_mean_smallest_and_largest_of_the_runs_that_got_so_far(tmp_path):
    written(tmp_path / "a0", [0.25, 0.5, 0.75])
    written(tmp_path / "a1", [0.5, 0.75])
    written(tmp_path / "a2", [0.75, 1.0])
    (entry,) = gather(experiment("a", 3), tmp_path)["models"].values()
    assert entry["curves"] == {
        "validation_accuracy": [
            {"epoch": 1, "mean": 0.5, "low": 0.25, "high": 0.75, "runs": 3},
            {"epoch": 2, "mean": 0.75, "low": 0.5, "high": 1.0, "runs": 3},
            {"epoch": 3, "mean": 0.75, "low": 0.75, "high": 0.75, "runs": 1},
        ]
    }
    assert entry["confusion"] == [[6, 3], [0, 3]]  # true by answered, over three runs
    assert entry["statistics"]["accuracy"]["values"] == (0.75, 0.75, 1.0)
    assert entry["statistics"]["accuracy"]["high"] == 1.0  # no interval goes beyond what there is
    assert entry["statistics"]["seconds_per_epoch"]["mean"] == 2.0


def test_the_better_one_is_named_first_and_its_runs_are_the_better_ones(tmp_path):
    for seed, (a, b) in enumerate([(0.1, 0.3), (0.2, 0.4), (0.35, 0.5)]):
        written(tmp_path / f"a{seed}", [a], "mse")
        written(tmp_path / f"b{seed}", [b], "mse")
    found = gather(experiment(seeds=3, seconds=12.5), tmp_path)
    assert (found["metric"], found["wall_clock_seconds"]) == ("mse", 12.5)
    (compared,) = found["comparisons"]
    assert (compared["a"], compared["b"]) == ("a", "b")
    assert compared["improvement"] == pytest.approx(8 / 9)
    assert tables.compared(found)[1] == ["a", "b", "−0.183", "−0.255 to −0.112", "0.2", "89 %"]


def test_errors_are_compared_as_they_were_trained_by(tmp_path):
    written(tmp_path / "a0", [0.3], "mae")
    assert gather(experiment("a", 1, loss="mae"), tmp_path)["metric"] == "mae"
    assert gather(experiment("a", 1), tmp_path)["metric"] is None  # no run has the squared one


# Runs that are not there.


def test_runs_that_go_on_failed_or_never_began_are_told_apart(tmp_path):
    written(tmp_path / "a0", [0.5])
    written(tmp_path / "a1", [0.5], status="running")
    written(tmp_path / "a2", [0.5], status="failed", error="MemoryError: too much")
    (tmp_path / "a3").mkdir()
    (tmp_path / "a3" / "log.txt").write_text("Traceback\nDataError: no such file\n")
    with alone_in(tmp_path / "a1"):
        busy = gather(experiment("a", 5), tmp_path)
    assert [run["status"] for run in busy["models"]["a"]["runs"]] == ["done", "running", "failed", "failed", "missing"]
    assert busy["models"]["a"]["counts"] == {"done": 1, "running": 1, "failed": 2, "missing": 1}
    assert busy["sentences"][:4] == [
        "The run of a with seed 1 is running and is not in the numbers.",
        "The run of a with seed 2 failed (MemoryError: too much) and is not in the numbers.",
        "The run of a with seed 3 failed (DataError: no such file) and is not in the numbers.",
        "The run of a with seed 4 is missing and is not in the numbers.",
    ]
    left = gather(experiment("a", 5), tmp_path)["models"]["a"]["runs"][1]
    assert (left["status"], left["reason"]) == ("failed", "its process ended without a word")
    json.dumps(busy, allow_nan=False)


def test_effects_are_of_the_seeds_that_all_arms_have(tmp_path):
    design = {"a": {"f": "0"}, "b": {"f": "1"}}
    for seed in range(4):
        written(tmp_path / f"a{seed}", [0.5 + seed / 100])
        if seed:
            written(tmp_path / f"b{seed}", [0.6 + seed / 100])
    found = gather(experiment(seeds=4, spec={"base": "a", "design": design}), tmp_path)
    (effect,) = found["effects"]
    assert (effect["name"], effect["n"]) == ("f: 0 → 1", 3)
    assert effect["difference"] == pytest.approx(0.1)
    assert "The effects are of the 3 seeds that finished in all arms (runs are missing of b)." in found["sentences"]
    nothing = gather(experiment(spec={"base": "a", "design": design}), tmp_path / "nowhere")
    assert nothing["sentences"] == [
        "The runs of a with seeds 0, 1 are missing and are not in the numbers.",
        "The runs of b with seeds 0, 1 are missing and are not in the numbers.",
        "No run has come to its end: there is nothing to compare.",
    ]


# Words.


@pytest.mark.parametrize(("metric", "values"), [("accuracy", (0.2, 0.05)), ("mse", (0.05, 0.2))])
def test_who_is_no_better_than_guessing_is_named(tmp_path, metric, values):
    for model, value in zip("ab", values, strict=True):
        written(tmp_path / f"{model}0", [value], metric)
    baseline = {"metric": metric, "value": 0.1, "rule": "always the same"}
    said, *_ = gather(experiment(seeds=1, task={"baseline": baseline}), tmp_path)["sentences"]
    shown = "10.00 %" if metric == "accuracy" else "0.1"
    assert said == f"Without learning {metric} is {shown} (always the same), and b is no better than that."


def test_sentences_say_what_the_numbers_say():
    def spoken(models, metric):
        return sentences(models, metric, comparisons(models, metric))

    def entry(values):
        runs = [{"seed": i, "status": "done", "metrics": {"accuracy": v}} for i, v in enumerate(values)]
        return {"runs": runs, "counts": {"done": len(values)}}

    clear = {"gru": entry([0.9, 0.91, 0.905, 0.902, 0.908]), "rnn": entry([0.8, 0.81, 0.805, 0.802, 0.808])}
    (said,) = spoken(clear, "accuracy")
    assert said.startswith("gru is 10.00 points above rnn in accuracy (the same in all 5 seeds; test of all runs,")
    assert "p = 0.00794 after Holm" in said
    assert "): a difference that can be called; with 5 seeds of this spread one of " in said
    assert said.endswith("points is called about every other time.")
    close = {"gru": entry([0.9, 0.8, 0.85, 0.87, 0.83]), "rnn": entry([0.89, 0.81, 0.86, 0.84, 0.82])}
    assert "not a difference that can be called" in spoken(close, "accuracy")[0]
    # Errors: the smaller one is named first, and the interval is in the direction of the sentence.
    for entry_ in close.values():
        for run in entry_["runs"]:
            run["metrics"] = {"mse": run["metrics"]["accuracy"]}
    (said,) = spoken(close, "mse")
    assert (low := re.search(r"0\.\d+ below \w+ in mse \(95 % CI (−?[\d.]+) to ([\d.]+)", said))
    assert float(low[1].replace("−", "-")) < 0 < float(low[2])
    assert spoken({"gru": entry([0.5, 0.6, 0.7])}, "accuracy") == [
        "There is one model, and nothing to compare it with."
    ]


def test_runs_that_are_not_of_one_kind_are_pointed_out():
    def entry(*identities):
        return {"runs": [{"identity": dict(zip(("engine", "cell", "data"), one, strict=True))} for one in identities]}

    assert not mixtures({"gru": entry("abc", "abc"), "rnn": entry("adc"), "lstm": {"runs": [{}]}})
    assert "engines (a, x)" in mixtures({"gru": entry("abc", "xbc")})[0]
    assert "The equations of gru were changed" in mixtures({"gru": entry("abc", "axc")})[0]
    assert "The data was changed" in mixtures({"gru": entry("abc"), "rnn": entry("abx")})[0]


def test_signs_and_intervals_as_they_are_printed():
    printed = {"-1.2e-05": "−1.2e-05", "-0.00": "0.00", "+0.50": "+0.50", "-3 points": "−3 points"}
    assert {number: with_minus(number) for number in printed} == printed
    found = {"metric": "accuracy", "comparisons": [
        {"a": "x", "b": "y", "difference": 0.01, "low": 0.01, "high": high, "p_adjusted": 0.01, "improvement": 1.0}
        for high in (0.01, 0.010004)
    ]}  # fmt: skip
    assert [row[3] for row in tables.compared(found)[1:]] == ["the same in all seeds", "+1.00 to +1.00"]


def test_effects_in_words():
    effect = stats.Effect("f: 0 → 1", 8, -0.02, -0.03, -0.01, 0.0078, 0.0234)
    assert effect_sentence(effect, "accuracy", 3) == (
        "f: 0 → 1: 2.00 points less accuracy on average over the arms (95 % CI 1.00 to 3.00 points, paired by seed; "
        "p = 0.0234 after Holm): an effect that can be called."
    )
    same = stats.Effect("f: 0 → 1 × g: a → b", 5, 0.5, 0.5, 0.5, 0.0625, 0.1875)
    said = effect_sentence(same, "mse", 3)
    assert "0.5 more mse than the two changes alone add up to (the same in all 5 seeds; p = 0.188 after Holm)" in said
    assert said.endswith("with 5 seeds no effect can be called, however large.")
