"""The sentences of an experiment follow from its numbers."""

from __future__ import annotations

import numpy as np
import pytest
from known import experiment

from gatelab import formatting, style
from gatelab.experiments import stats
from gatelab.experiments.experiment import FamilyOfTests
from gatelab.experiments.results import ModelResult, Results, RunResult, failures_of
from gatelab.report import figures, tables, write_report
from gatelab.report.paper import manuscript
from gatelab.report.words import findings
from gatelab.report.words.limitations import limitations
from gatelab.tasks import Baseline
from gatelab.training.manifest import Identity


def results_of(values: dict[str, list[float]], metric="accuracy", tests=1, base=None, design=None, **more) -> Results:
    """Results with these values by model and seed."""
    models = {
        name: ModelResult(
            spec={},
            runs=tuple(
                RunResult(seed=seed, place=f"{name}{seed}", status="done", metrics={metric: v, "best_epoch": 1})
                for seed, v in enumerate(own)
            ),
            summaries={metric: stats.summarise(own)} if own else {},
        )
        for name, own in values.items()
    }
    by_seed = {name: dict(enumerate(own)) for name, own in values.items()}
    larger = metric == "accuracy"
    return Results(
        metric=metric, seconds=1.0, classes=(), base=base, design=design or {}, models=models,
        baseline=more.pop("baseline", None), family=FamilyOfTests(tests=tests, **more),
        comparisons=tuple(stats.compare(by_seed, tests, larger, base)),
        effects=tuple(stats.effects(by_seed, design or {}, tests)), failures=failures_of(models, metric),
    )  # fmt: skip


FAILS = {"gru": [0.9, 0.91, 0.12, 0.908, 0.902], "rnn": [0.8, 0.81, 0.806, 0.801, 0.807]}
CLEAR = {"gru": [0.9, 0.91, 0.905, 0.902, 0.908], "rnn": [0.8, 0.81, 0.806, 0.801, 0.807]}
CLOSE = {"gru": [0.9, 0.8, 0.85, 0.87, 0.83], "rnn": [0.89, 0.81, 0.86, 0.84, 0.82]}


def test_a_comparison_gives_difference_interval_p_verdict_and_power():
    (clear,) = findings.findings(results_of(CLEAR))
    assert clear == (
        "gru is 10.02 points above rnn in accuracy (difference +10.02, 95 % CI +9.92 to +10.12, p < 0.001): "
        "significant at 5 %. Detectable with 50 % power: 0.10 points."
    )
    (close,) = findings.findings(results_of(CLOSE))
    assert "p = 0.468): not significant." in close


def test_sentences_have_the_signs_of_the_tables():
    results = results_of(CLOSE, "mse")
    (sentence,) = findings.findings(results)
    assert sentence.startswith(
        "rnn is 0.006 below gru in MSE (difference −0.006, 95 % CI −0.0268 to +0.0148, p = 0.468)"
    )
    assert tables.comparisons(results)[1][2:5] == ["−0.006", "−0.0268 to +0.0148", "0.468"]


def test_what_is_not_tested_is_said():
    (few,) = findings.findings(results_of({"gru": [0.9, 0.8], "rnn": [0.7, 0.9]}))
    assert few.endswith("; not tested with 2 seeds.")
    (constant,) = findings.findings(results_of({"gru": [0.9] * 4, "rnn": [0.5] * 4}))
    assert (
        constant == "gru is 40.00 points above rnn in accuracy in each of 4 seeds; without variance there is no test."
    )
    assert findings.findings(results_of({"gru": [0.5, 0.6, 0.7]})) == [
        "There is one model and nothing to compare it with."
    ]
    apart = results_of({"gru": [0.5], "rnn": []})
    assert "gru and rnn are not compared: no seed finished for both." in findings.findings(apart)


@pytest.mark.parametrize(
    ("metric", "values", "poor"),
    [
        ("accuracy", (0.2, 0.05), "b"),
        ("mse", (0.05, 0.2), "b"),
        ("accuracy", (0.2, 0.1), "b"),
        ("mse", (0.1, 0.05), "a"),
    ],
)
def test_a_model_that_does_not_beat_the_trivial_baseline_is_named(metric, values, poor):
    baseline = Baseline("majority class", metric, 0.1)
    results = results_of({"a": [values[0]], "b": [values[1]]}, metric, baseline=baseline)
    shown = "10.00 %" if metric == "accuracy" else "0.1000"
    name = "accuracy" if metric == "accuracy" else "MSE"
    assert findings.baseline(results) == [
        f"Trivial baseline (majority class): {name} {shown}. {poor} does not beat it."
    ]
    assert findings.baseline(results_of({"a": [0.5]}, "mse", baseline=Baseline("x", "accuracy", 0.1))) == []


def test_the_baseline_is_in_its_own_metric_where_models_are_compared_by_another():
    results = results_of({"a": [0.5]}, "mae", baseline=Baseline("mean", "mse", 0.1))
    model = results.models["a"].model_copy(update={"summaries": {"mse": stats.summarise([0.2])}})
    (sentence,) = findings.baseline(results.model_copy(update={"models": {"a": model}}))
    assert sentence == "Trivial baseline (mean): MSE 0.1000. a does not beat it."


def test_the_family_is_named():
    design = {f"{i}{j}": {"i": str(i), "j": str(j)} for i in (0, 1) for j in (0, 1)}
    values = {arm: [0.1, 0.2, 0.3] for arm in design}
    alone = findings.family_sentence(results_of(values, tests=6, base="00", design=design))
    assert "One family of 6 tests: the 3 comparisons and 3 effects of this experiment." in alone
    several = findings.family_sentence(results_of(values, tests=12, base="00", design=design, studies=("one", "other")))
    assert "One family of 12 tests: all comparisons and effects of the 2 studies (one, other)." in several
    assert "need no correction" in findings.family_sentence(results_of(CLEAR, tests=1))


def test_effects_in_words():
    design = {f"{i}{j}": {"i": str(i), "j": str(j)} for i in (0, 1) for j in (0, 1)}
    random = np.random.RandomState(0)
    values = {arm: list(0.5 - 0.02 * int(arm[0]) + 0.001 * random.normal(size=5)) for arm in design}
    first, second, both = (
        findings.effect(one, "accuracy") for one in results_of(values, tests=6, base="00", design=design).effects
    )
    assert first.startswith("i: 0 → 1 (main effect): accuracy −2.03, 95 % CI −2.21 to −1.86, ")
    assert first.endswith("p < 0.001: significant at 5 %.")
    assert second.startswith("j: 0 → 1 (main effect): ")
    assert both.startswith("i: 0 → 1 × j: 0 → 1 (interaction): ")
    assert both.endswith(": not significant.")


def test_effects_of_fewer_seeds_say_so():
    design = {"a": {"f": "0"}, "b": {"f": "1"}}
    results = results_of({"a": [0.5, 0.6, 0.7], "b": [0.6, 0.8, 0.7]}, base="a", design=design, tests=2)
    assert findings.incomplete_effects(results) == []
    failed = results.models["b"].runs[0].model_copy(update={"status": "failed", "metrics": {}})
    b = results.models["b"].model_copy(update={"runs": (failed, *results.models["b"].runs[1:])})
    lost = results.model_copy(update={"models": {**results.models, "b": b}})
    assert findings.incomplete_effects(lost) == [
        "The effects use the 2 seeds that all arms finished (runs of b are missing)."
    ]


def test_excluded_runs_are_named_with_the_reason():
    def run(seed, status, reason=""):
        return RunResult(seed=seed, place=str(seed), status=status, reason=reason)

    runs = (run(0, "missing"), run(1, "missing"), run(2, "failed", "MemoryError"), run(3, "running"))
    assert findings.unfinished({"a": ModelResult(spec={}, runs=runs)}) == [
        "a, seeds 0, 1: are missing and are excluded from all numbers.",
        "a, seed 2: failed (MemoryError) and is excluded from all numbers.",
        "a, seed 3: is running and is excluded from all numbers.",
    ]


def test_runs_that_do_not_belong_together_are_pointed_out():
    def model(*identities):
        runs = (
            RunResult(
                seed=i,
                place=str(i),
                identity=Identity(engine=one[0], cell=one[1], data=one[2]) if one else None,
            )
            for i, one in enumerate(identities)
        )
        return ModelResult(spec={}, runs=tuple(runs))

    assert not findings.mixtures({"gru": model("abc", "abc"), "rnn": model("adc"), "lstm": model("")})
    assert "engines (a, x)" in findings.mixtures({"gru": model("abc", "xbc")})[0]
    assert "The equations of gru were changed" in findings.mixtures({"gru": model("abc", "axc")})[0]
    assert "The data was changed" in findings.mixtures({"gru": model("abc"), "rnn": model("abx")})[0]


def test_the_answer_in_brief():
    assert findings.in_brief(results_of(CLEAR)) == (
        "The difference in accuracy is significant at 5 %: gru is better than rnn."
    )
    assert findings.in_brief(results_of(CLOSE)).startswith("No difference in accuracy is significant at 5 %")
    assert findings.in_brief(results_of({"gru": [0.5, 0.6]})) == (
        "gru reaches accuracy 55.00 % (standard deviation 7.1) over 2 runs."
    )


def test_runs_far_from_the_others_are_named_and_how_often_models_fail():
    assert not findings.failures(results_of(CLEAR))
    far, rates, meaning, *others = findings.findings(results_of(FAILS))
    assert far == (
        "gru, seed 2: accuracy 12.00 %, far worse than the majority of its runs (3 of 5 runs have 90.00 % to 90.80 %)."
    )
    assert rates == (
        "Runs that diverged, or are far worse than the majority of their own model's: gru 1 of 5 (95 % CI 1 to 72 %) "
        "and rnn 0 of 5 (95 % CI 0 to 52 %)."
    )
    assert meaning.endswith("Look at how often each model fails, and at the runs that did not.")
    assert others == findings.findings(results_of(FAILS).model_copy(update={"failures": {}}))
    most = {"gru": [0.12, 0.99, 0.11, 0.98, 0.13], "rnn": CLEAR["rnn"]}
    assert findings.failures(results_of(most))[0] == (
        "gru, seeds 1 and 3: accuracy 99.00 % and 98.00 %, far better than the majority of its runs (3 of 5 runs have "
        "11.00 % to 13.00 %)."
    )
    errors = findings.failures(results_of(FAILS, "mse"))
    assert errors[0].startswith("gru, seed 2: MSE 0.1200, far better than the majority of its runs (3 of 5 runs have ")
    assert "gru 0 of 5 (" in errors[1]


def test_a_run_that_diverged_has_failed():
    results = results_of(CLEAR)
    lost = RunResult(seed=5, place="gru5", status="diverged", reason="the loss is 1e+09")
    models = {**results.models, "gru": results.models["gru"].model_copy(
        update={"runs": (*results.models["gru"].runs, lost)})}  # fmt: skip
    known = results.model_copy(update={"models": models, "failures": failures_of(models, "accuracy")})
    (rates,) = findings.failures(known)
    assert "gru 1 of 6 (95 % CI 0 to 64 %) and rnn 0 of 5 (" in rates
    assert findings.general(known)[:2] == [
        "gru, seed 5: diverged (the loss is 1e+09) and is excluded from all numbers.",
        rates,
    ]


def test_limitations_say_what_so_few_runs_cannot_show():
    planned = experiment(epochs=1)
    three = {"a": [0.1, 0.2, 0.15], "b": [0.2, 0.3, 0.25]}
    texts = {n: limitations(results_of({m: v * n for m, v in three.items()}), planned) for n in (1, 2, 4)}
    assert ["six tests gave a false alarm in 15 %" in " ".join(text) for text in texts.values()] == [True, False, False]
    for n, share in ((1, 71), (2, 46), (4, 26)):
        assert any(f"{3 * n} runs without a failure do not rule out that {share} % fail." in t for t in texts[n])
    assert ["only large differences are detectable" in " ".join(text) for text in texts.values()] == [True, True, False]
    assert not any("fail" in text for text in limitations(results_of({"a": [0.1, 0.2]}), planned))


def test_limitations_name_few_seeds_and_runs_at_the_end_of_the_budget():
    planned = experiment(epochs=1)
    text = " ".join(limitations(results_of(CLEAR), planned))
    assert "With 5 finished runs per model only large differences are detectable" in text
    assert "10 of 10 finished runs were best in the last epoch" in text
    few = " ".join(limitations(results_of({"a": [0.1], "b": [0.2, 0.3]}), planned))
    assert "At least one model has 1 finished run. With fewer than 3 nothing is tested." in few


def test_numbers_as_they_are_printed():
    printed = {"-1.2e-05": "−1.2e-05", "-0.00": "0.00", "+0.00": "0.00", "+0.50": "+0.50", "-3 points": "−3 points"}
    assert {number: formatting.with_minus(number) for number in printed} == printed
    assert formatting.mean_and_sd("accuracy", 0.98765, 0.00123) == "98.77 ± 0.12"
    assert formatting.mean_and_sd("parameters", 12345, 0.0) == "12,345"
    assert formatting.mean_and_sd("mse", 0.00012, 0.00003) == "0.00012 ± 0.00003"
    assert (formatting.p_value(0.0004), formatting.p_value(0.0123)) == ("p < 0.001", "p = 0.012")
    assert [formatting.duration(s) for s in (12, 300, 7200)] == ["12 seconds", "5 minutes", "2.0 hours"]
    assert formatting.file_name("init_z=0,freeze=b.z") == "init_z=0__freeze=b.z"
    assert formatting.file_name("../x") == "..%2Fx"


def test_effects_use_the_seeds_that_all_arms_have_not_as_many():
    design = {"a": {"f": "0"}, "b": {"f": "1"}}
    results = results_of({"a": [0.5, 0.6, 0.7], "b": [0.6, 0.8, 0.7]}, base="a", design=design, tests=2)

    def without(name: str, seed: int) -> ModelResult:
        runs = results.models[name].runs
        lost = runs[seed].model_copy(update={"status": "failed", "metrics": {}})
        return results.models[name].model_copy(update={"runs": (*runs[:seed], lost, *runs[seed + 1 :])})

    lost = results.model_copy(update={"models": {"a": without("a", 2), "b": without("b", 0)}})
    (said,) = findings.incomplete_effects(lost)
    assert said.startswith("The effects use the 1 seed that all arms finished (runs of a and b are missing)")


def test_a_paper_says_of_effects_what_is_significant():
    design = {f"{i}{j}": {"i": str(i), "j": str(j)} for i in (0, 1) for j in (0, 1)}
    random = np.random.RandomState(0)
    values = {arm: list(0.5 - 0.02 * int(arm[0]) + 0.001 * random.normal(size=5)) for arm in design}
    results = results_of(values, tests=6, base="00", design=design)
    assert [one.difference.significant for one in results.effects] == [True, False, False]
    said = findings.significant(results)
    assert [sentence for sentence in said if "effect" in sentence or "interaction" in sentence] == [
        findings.effect(results.effects[0], "accuracy")
    ]


def test_arms_say_what_they_change_also_to_nothing():
    specs = {
        "base": {"hidden_size": 8, "clip_norm": 1.0, "chrono": None},
        "unclipped": {"hidden_size": 8, "clip_norm": None, "chrono": None},
        "slow": {"hidden_size": 8, "clip_norm": 1.0, "chrono": 50},
    }
    results = results_of({name: [0.5] for name in specs}, base="base")
    models = {name: results.models[name].model_copy(update={"spec": spec}) for name, spec in specs.items()}
    planned = experiment(("base", "unclipped", "slow"), base="base", ablation=True)
    assert tables.arms(results.model_copy(update={"models": models}), planned) == [
        "base: the base", "unclipped: clip norm none", "slow: chrono 50"
    ]  # fmt: skip


def test_a_model_has_the_colour_of_its_place():
    results = results_of({"b": [0.5], "c": [0.6], "a": [0.7]})
    assert [figures.colour_of(results, name) for name in "bca"] == [style.colour(place) for place in range(3)]


def test_the_most_frequent_of_many_classes_stay_in_their_order():
    counts = np.diag([5.0] * 31)
    counts[0, 0], counts[20, 20], counts[30, 30] = 1, 9, 7
    axes = figures.confusion_matrix(counts, [f"c{i}" for i in range(31)], "all").axes[0]
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert [label.get_text() for label in labels] == [f"c{i}" for i in range(1, 31)]


def test_titles_name_the_data_set_of_the_users():
    results = results_of({"b": [0.5], "a": [0.6]})
    task = {"name": "files", "path": "/home/ann/fsdd.npz", "label": "digit"}
    planned = experiment(task=task)
    assert manuscript.title(results, planned) == "b and a on fsdd"
    assert write_report._title(results, planned) == "b, a on fsdd"
