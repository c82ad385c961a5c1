"""The search: the same chance for every model, on validation data alone, the same wherever it is executed."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from places import ROOT

from gatelab import style
from gatelab.errors import GatelabError
from gatelab.experiments import config
from gatelab.experiments.bench import bench, gather_again
from gatelab.experiments.executors.local import LocalExecutor
from gatelab.experiments.plan import plan
from gatelab.experiments.results import read_results
from gatelab.experiments.tuning import outcome, search
from gatelab.experiments.tuning.outcome import best_of_weights, explained
from gatelab.experiments.tuning.search import EndedTrial, Trial, best, is_hopeless, pruner_of, suggest
from gatelab.experiments.tuning.space import Range, applied, place_of
from gatelab.experiments.verify_experiment import verify_experiment
from gatelab.experiments.worker import Finished
from gatelab.report import search as pictures
from gatelab.report.words.search import search_findings
from gatelab.report.write_report import write_reports
from gatelab.training import ModelSpec, Run, RunSpec, train

pytest.importorskip("optuna")
SMALL = {
    "task": "digits:limit=100",
    "models": {"gru": {"hidden_size": 4}, "agru": {"hidden_size": 4}},
    "runs": 1,
    "training": {"num_epochs": 3, "batch_size": 32, "seed": 5},
    "tune": {
        "trials": 6,
        "space": {"learning_rate": {"log": [1e-3, 1e-1]}},
        "models": {"agru": {"epsilon": {"uniform": [0.1, 1.0]}}},
    },
}


def small(**changes) -> config.BenchSpec:
    return config.parse({**SMALL, **changes}, "here")


def tuned(**changes) -> config.BenchSpec:
    return small(tune={**SMALL["tune"], **changes})


class Here:
    """Runs in this process, in a given order, as soon as they do not depend on others."""

    detached, is_local = False, True

    def threads_for(self, runs: int) -> int:
        return 1

    def __init__(self, order=lambda runs: runs):
        self.order = order

    def execute(self, runs, directory, tick):
        waiting = list(runs)
        while waiting:
            ready = [run for run in self.order(waiting) if run.settled(directory) is not None]
            run = ready[0]
            waiting.remove(run)
            outcome = train(run.settled(directory), directory / run.path, pruner=pruner_of(run.rivals(directory)))
            yield Finished(run, outcome.status)


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("tuned") / "experiment"
    bench(small(), directory, Here())
    return directory


# The space.


@pytest.mark.parametrize(
    ("tune", "message"),
    [
        ({"space": {"learning_rat": [1, 2]}}, "tune.space.learning_rat: unknown setting 'learning_rat'; did you mean"),
        ({"space": {"learning_rate": 1}}, "tune.space.learning_rate: this is 1: expected {log: [1e-4, 1e-2]}"),
        ({"space": {"learning_rate": {"log": [0, 1]}}}, "expected numbers above 0"),
        ({"space": {"learning_rate": {"log": [1, 0.1]}}}, "expected a smaller number, then a larger one"),
        ({"space": {"learning_rate": {"log": [1]}}}, "log is [1]: expected two numbers"),
        ({"space": {"learning_rate": {"uniform": [-1, 1]}}}, "tune.space.learning_rate: -1.0: this is -1.0: expected"),
        ({"space": {"hidden_size": [64, 64]}}, "expected at least two different values"),
        ({"space": {"hidden_size": [0, 64]}}, "tune.space.hidden_size: 0: this is 0: expected greater than"),
        ({"space": {"gate_bias.q": [0, 1]}}, "tune.space: gru with gate_bias.q: 0: gate_bias: "),
        ({"space": {"epsilon": [0.1, 1]}}, "tune.space.epsilon: unknown setting 'epsilon'"),
        ({"space": {"cell": ["gru", "lstm"]}}, "tune.space.cell: unknown setting 'cell'"),
        ({"space": {"seed": [1, 2]}}, "tune.space.seed: unknown setting 'seed'"),
        ({"space": {"num_epochs": [1, 2]}}, "tune.space.num_epochs: unknown setting"),
        ({"space": {"learning_rate": [1e-3, 1e-2]}, "models": {"lstm": {}}}, "tune.models.lstm: unknown model 'lstm'"),
        ({"space": {}}, "tune.space: there is nothing to tune for gru"),
        ({"space": {"learning_rate": [1e-3, 1e-2]}, "trials": 1}, "tune.trials: this is 1: expected greater than"),
        ({"space": {"learning_rate": [1e-3, 1e-2]}, "trails": 9}, "tune.trails: unknown key 'trails'; did you mean"),
        (7, "tune: this is 7: expected keys such as trials and space"),
    ],
)
def test_a_space_that_cannot_be_meant_is_refused(tune, message):
    with pytest.raises(GatelabError) as raised:
        small(tune=tune)
    assert message in str(raised.value)


def test_hidden_sizes_are_either_matched_or_tuned():
    with pytest.raises(GatelabError, match=r"tune\.space\.hidden_size: match: parameters chooses sizes"):
        small(match="parameters", tune={"space": {"hidden_size": [4, 8]}})
    for space, message in {
        "bidirectional": "expected a list of values of bidirectional",
        "momentum": "gru with momentum: 0.1: momentum: .*adam has its own",
    }.items():
        with pytest.raises(GatelabError, match=message):
            small(tune={"space": {space: {"uniform": [0.1, 0.5]}}})
    small(tune={"space": {"momentum": {"uniform": [0, 0.9]}}}, optimization={"optimizer": "sgd"})
    with pytest.raises(GatelabError, match=r"tune\.space: gru with dropout: 0.5, num_layers: 1: dropout: acts between"):
        small(tune={"space": {"dropout": [0.5, 0.2], "num_layers": [1, 2]}})
    with pytest.raises(GatelabError, match=r"final_learning_rate: this is 0.001, expected no more than learning_rate"):
        small(optimization={"final_learning_rate": 1e-3}, tune={"space": {"learning_rate": {"log": [1e-4, 1e-2]}}})
    with pytest.raises(GatelabError, match=r"training\.test: models are compared on the test set"):
        small(training={"test": False})


def test_settings_go_where_they_belong():
    spec = RunSpec(task="digits", model=ModelSpec(cell="agru", gate_bias={"z": 0.5}))
    values = {"learning_rate": 0.02, "hidden_size": 7, "gate_bias.z": 1.5, "epsilon": 0.3, "batch_size": 16}
    changed = applied(values, spec)
    assert changed.optimization.learning_rate == 0.02
    assert (changed.model.hidden_size, changed.training.batch_size) == (7, 16)
    assert changed.model.gate_bias == {"z": 1.5}
    assert changed.model.options == {"epsilon": 0.3}
    assert search.space.read(values, changed) == values
    assert place_of("gamma", spec.model) == ("model", "options", "gamma")


def test_a_config_of_a_search_is_kept_as_it_was_written():
    assert config.parse(small().document(), "there") == small()
    assert small().document()["tune"]["space"] == {"learning_rate": {"log": [1e-3, 1e-1]}}


# The trials.


def test_every_model_has_the_same_number_of_trials_with_seeds_of_their_own():
    runs = plan(small())
    trials = [run for run in runs if isinstance(run, Trial)]
    assert [run.model for run in trials].count("gru") == [run.model for run in trials].count("agru") == 6
    final = {run.seed for run in runs if not isinstance(run, Trial)}
    assert not final & {run.seed for run in trials}
    assert all(not run.spec.training.test for run in trials)
    assert all(run.spec.training.test for run in runs if not isinstance(run, Trial))
    assert small().tune.models == {"agru": {"epsilon": Range(uniform=(0.1, 1.0))}}


def test_models_try_the_same_values_of_what_they_share_and_values_are_spread():
    runs = [run for run in plan(tuned(trials=40, pruner="none")) if isinstance(run, Trial)]
    by_model = {name: [suggest(run, []) for run in runs if run.model == name] for name in ("gru", "agru")}
    rates = [settings["learning_rate"] for settings in by_model["gru"]]
    assert rates == [settings["learning_rate"] for settings in by_model["agru"]]
    assert len(set(rates)) == 40
    assert 0.35 < np.mean(np.log10(rates) > -2) < 0.65  # uniform in the logarithm
    assert all(0.1 <= settings["epsilon"] <= 1.0 for settings in by_model["agru"])


def test_tpe_learns_from_earlier_rounds_and_from_nothing_else():
    trials = [r for r in plan(tuned(trials=40, sampler="tpe")) if isinstance(r, Trial) and r.model == "gru"]

    def ended(number):
        rate = float(10 ** np.random.RandomState(number).uniform(-3, -1))
        return EndedTrial(number, "done", {"learning_rate": rate}, [-abs(np.log10(rate) + 1.5)])  # best at 0.03

    known = [ended(number) for number in range(20)]
    near = [abs(np.log10(suggest(trial, known)["learning_rate"]) + 1.5) for trial in trials[20:]]
    blind = [abs(np.log10(suggest(trial, [])["learning_rate"]) + 1.5) for trial in trials[20:]]
    assert np.mean(near) < 0.6 * np.mean(blind)
    assert suggest(trials[20], known) == suggest(trials[20], known)
    assert tuned(sampler="tpe").tune.round_start(7) == 4


def test_whole_numbers_stay_whole():
    spec = small(tune={"space": {"hidden_size": {"log": [4, 64]}}, "trials": 8})
    trials = [run for run in plan(spec) if isinstance(run, Trial) and run.model == "gru"]
    sizes = [suggest(trial, [])["hidden_size"] for trial in trials]
    assert all(isinstance(size, int) and 4 <= size <= 64 for size in sizes)
    assert len(set(sizes)) > 3


def test_a_trial_below_the_median_of_earlier_ones_is_hopeless():
    rivals = [[0.1 * k + 0.05 * epoch for epoch in range(8)] for k in range(1, 6)]
    assert is_hopeless([0.0, 0.01, 0.02], rivals)
    assert not is_hopeless([0.5, 0.6, 0.7], rivals)
    assert not is_hopeless([0.0], rivals)  # too early
    assert not is_hopeless([0.0, 0.01, 0.02], rivals[:3])  # too few to know


# From end to end.


def test_the_final_runs_use_the_best_trial_of_each_model(done):
    results = read_results(done)
    for name, model in results.search.models.items():
        assert [trial.number for trial in model.trials] == list(range(6))
        scores = {trial.number: trial.score for trial in model.trials}
        assert scores[model.chosen] == max(scores.values())
        settings = next(trial.settings for trial in model.trials if trial.number == model.chosen)
        spec = Run(done / "runs" / name / "seed-5").spec()
        assert spec.optimization.learning_rate == settings["learning_rate"]
        if name == "agru":
            assert spec.model.options["epsilon"] == settings["epsilon"]
        assert results.models[name].counts == {"done": 1}
    for _, found in verify_experiment(done):
        assert all(finding.good for finding in found), found


def test_trials_are_never_tested(done):
    trials = sorted((done / "tuning").glob("*/trial-*"))
    assert len(trials) == 12
    for path in trials:
        manifest = Run(path).manifest()
        assert not manifest.test
        assert "baseline" not in manifest
        assert not (path / "predictions.npz").exists()


def test_the_search_does_not_depend_on_the_test_set(tmp_path):
    """The same training and validation examples, and a test set of noise with arbitrary labels."""
    random = np.random.RandomState(0)
    X, y = random.randn(60, 6, 2), np.arange(60) % 2
    X[:40] += y[:40, None, None]
    parts = np.array(["train"] * 30 + ["validation"] * 10 + ["test"] * 20)
    found = []
    for number in range(2):
        np.savez(tmp_path / f"{number}.npz", X=X, y=np.array(["a", "b"])[y], split=parts)
        spec = small(task={"name": "files", "path": str(tmp_path / f"{number}.npz")})
        results = bench(spec, tmp_path / str(number), Here())
        found.append(results)
        X[40:], y[40:] = 100 * random.randn(20, 6, 2), random.randint(0, 2, 20)
    one, two = ({name: model.trials for name, model in each.search.models.items()} for each in found)
    assert one == two
    assert [model.chosen for model in found[0].search.models.values()] == [
        model.chosen for model in found[1].search.models.values()
    ]
    first, second = (each.models["gru"].summaries["loss"].mean for each in found)
    assert first != second  # the test sets do differ


def test_the_search_is_the_same_in_any_order_and_in_processes(done, tmp_path):
    bench(small(), tmp_path / "backwards", Here(lambda runs: runs[::-1]))
    shutil.copytree(done, tmp_path / "processes")  # as if it had been interrupted after the first round
    for path in (tmp_path / "processes").glob("tuning/*/trial-06"):
        shutil.rmtree(path)
    bench(small(), tmp_path / "processes", LocalExecutor(2))
    for path in sorted((done / "tuning").glob("*/trial-*")):
        for other in ("backwards", "processes"):
            copy = tmp_path / other / path.relative_to(done)
            assert (copy / "best.safetensors").read_bytes() == (path / "best.safetensors").read_bytes()
            assert Run(copy).manifest().pruned == Run(path).manifest().pruned
    for other in ("backwards", "processes"):
        assert read_results(tmp_path / other).search == read_results(done).search


def test_a_model_whose_trials_all_diverge_fails_in_words(tmp_path):
    spec = small(
        models={"gru": {"hidden_size": 4}},
        task="adding:size=60,length=4",
        optimization={"optimizer": "sgd", "clip_norm": None},
        tune={"trials": 2, "space": {"learning_rate": [1e30, 1e31]}},
    )
    results = bench(spec, tmp_path / "experiment", LocalExecutor(2))
    assert results.models["gru"].counts == {"missing": 1}
    assert results.search.models["gru"].chosen is None
    assert "gru: 2 trials without a score (diverged or failed): 1 and 2." in search_findings(results.search)
    with pytest.raises(GatelabError, match="none of the 2 trials of gru has finished"):
        best([EndedTrial(0, "diverged", {}, []), EndedTrial(1, "failed", {}, [])], "gru")


def test_the_ready_config_in_small(tmp_path):
    small = {("task", "limit"): 60, ("tune", "trials"): 2, ("tune", "num_epochs"): 1, ("training", "num_epochs"): 1}
    (spec,) = config.load(ROOT / "configs" / "digits_tuned.yaml", {**small, ("runs",): 1}).values()
    results = bench(spec, tmp_path / "experiment", Here())
    assert {name: model.counts for name, model in results.models.items()} == {name: {"done": 1} for name in spec.models}
    assert all(len(model.trials) == 2 for model in results.search.models.values())


# What it says.


def test_the_expected_best_is_that_of_all_subsets():
    values = np.sort(np.random.RandomState(1).randn(7))
    for n, weights in enumerate(best_of_weights(7), 1):
        subsets = [max(subset) for subset in itertools.combinations(values, n)]
        assert weights @ values == pytest.approx(np.mean(subsets))
        assert weights.sum() == pytest.approx(1)


def test_the_variance_that_a_setting_explains():
    random = np.random.RandomState(2)
    rates = 10 ** random.uniform(-4, -2, 30)
    trials = [EndedTrial(i, "done", {"learning_rate": rate, "other": i % 2}, [0.0]) for i, rate in enumerate(rates)]
    curve = -((np.log10(rates) + 3) ** 2)
    values = Range(log=(1e-4, 1e-2))
    assert explained(trials, curve, "learning_rate", values) == pytest.approx(1)
    assert explained(trials, random.randn(30), "learning_rate", values) < 0.3
    assert explained(trials, np.arange(30) % 2.0, "other", Range(choices=(0, 1))) == pytest.approx(1)
    assert explained(trials[:4], curve[:4], "learning_rate", values) is None
    assert explained(trials, np.ones(30), "learning_rate", values) is None


def test_the_report_shows_the_search(done):
    gather_again(done)
    write_reports(done, {"": done})
    summary = (done / "results_summary.md").read_text()
    assert "## Search" in summary
    assert "Each model was tuned with 6 trials, sampled at random" in summary
    assert "The winner " in summary
    page = (done / "report.html").read_text()
    assert "Expected best validation score by number of trials" in page
    assert "the experiment does not tune" not in page
    assert "tuned for each model" in page
    for name in ("expected_best.png", "search.png"):
        assert (done / name).is_file()
    chosen = read_results(done).search.models["agru"]
    epsilon = next(t.settings["epsilon"] for t in chosen.trials if t.number == chosen.chosen)
    assert f"ε = {epsilon:g} (learned)" in page


def test_a_search_by_error_is_read_as_errors(tmp_path):
    spec = small(task="sine:length=100", models={"gru": {"hidden_size": 3}, "rnn": {"hidden_size": 3}},
                 tune={"trials": 4, "space": {"learning_rate": {"log": [1e-4, 1e-1]}}})  # fmt: skip
    results = bench(spec, tmp_path / "experiment", Here())
    assert results.search.metric == "loss"
    write_reports(tmp_path / "experiment", {"": tmp_path / "experiment"})
    summary = (tmp_path / "experiment" / "results_summary.md").read_text()
    assert "best validation loss" in summary
    assert json.loads((tmp_path / "experiment" / "results.json").read_text())


def test_an_ablation_can_be_tuned(tmp_path):
    content = {key: SMALL[key] for key in ("task", "training")} | {
        "model": {"cell": "gru", "hidden_size": 4}, "arms": {"no_r": {"remove": {"r": 1.0}}}, "runs": 1,
        "tune": {"trials": 2, "space": {"learning_rate": [1e-3, 1e-2]}, "models": {"no_r": {"gate_bias.z": [0, 1]}}},
    }  # fmt: skip
    results = bench(config.parse(content, "here"), tmp_path / "experiment", Here())
    assert {name: len(model.trials) for name, model in results.search.models.items()} == {"base": 2, "no_r": 2}
    assert results.models["no_r"].counts == {"done": 1}


def test_a_trial_that_diverged_counts_as_the_worst_of_any_model():
    """Errors are negative scores: 0 would be the best of all."""
    found = {
        "a": [EndedTrial(0, "done", {}, [-1.0]), EndedTrial(1, "diverged", {}, [-0.1])],
        "b": [EndedTrial(0, "done", {}, [-2.5, -2.0]), EndedTrial(1, "failed", {}, [])],
    }
    assert outcome._scores(found["a"], found).tolist() == [-1.0, -2.0]
    assert outcome._scores(found["b"], found).tolist() == [-2.0, -2.0]


def test_the_expected_best_of_nearly_all_trials_has_no_interval():
    scores = np.random.RandomState(0).randn(7)
    expected = outcome._expected(scores, small(tune={"space": {"learning_rate": [1, 2]}, "trials": 7}).tune)
    assert [one.low is not None and one.high is not None for one in expected] == [True] * 3 + [False] * 4
    assert expected[-1].mean == pytest.approx(scores.max())
    assert all(one.low < one.mean < one.high for one in expected[:3])


def test_several_settings_of_one_dictionary_stay_together():
    spec = RunSpec(task="digits", model=ModelSpec(gate_bias={"n": 0.5}))
    assert applied({"gate_bias.z": 1.0, "gate_bias.r": 2.0}, spec).model.gate_bias == {"n": 0.5, "z": 1.0, "r": 2.0}


@pytest.mark.parametrize(("confidence", "decides"), [((0.99, 0.96), True), ((0.99, 0.5), False), ((0.5, 0.6), False)])
def test_a_search_that_does_not_decide_at_one_budget_says_so(done, confidence, decides):
    search = read_results(done).search.model_copy(update={"confidence": confidence})
    (said,) = [sentence for sentence in search_findings(search) if sentence.startswith("The winner ")]
    assert ("where that is below 95 % the search does not decide" in said) != decides
    assert f"{100 * min(confidence):.0f} to {100 * max(confidence):.0f} % of bootstrap samples" in said


@pytest.mark.parametrize(("rate", "is_named"), [(1.1e-3, True), (0.01, False), (0.09, True)])
def test_a_choice_near_an_end_of_its_range_is_named(done, rate, is_named):
    search = read_results(done).search
    trial = search.models["gru"].trials[0].model_copy(update={"settings": {"learning_rate": rate}})
    model = search.models["gru"].model_copy(update={"trials": (trial,), "chosen": trial.number})
    space = {"gru": {"learning_rate": {"log": [1e-3, 0.1]}}}
    found = search_findings(search.model_copy(update={"models": {"gru": model}, "space": space}))
    said = f"gru: learning rate {rate:.3g} is at the edge of its range, 0.001 to 0.1: a wider range may hold better"
    assert [sentence.startswith(said) for sentence in found if "edge" in sentence] == [True] * is_named


def test_figures_of_a_search_begin_at_a_typical_score():
    """The worst two of eleven trials would press the others together: arrows stand for them. A loss is a negative
    score.
    """
    for factor, top, step in ((-1, -1.0, -0.1), (100, 0.98, -0.01)):
        scores = [*(top + step * i for i in range(9)), top + 80 * step, top + 80 * step]
        figure = style.new_figure(4, 3)
        axes, values = figure.subplots(), factor * np.array(scores)
        axes.plot(range(11), values, "o")
        pictures._begin_at_typical(figure, scores, factor)
        low, high = axes.get_ylim()
        assert [low <= value <= high for value in values] == [True] * 9 + [False] * 2
        assert [line.get_label() for line in axes.lines[1:]] == ["_outside"] * 2
