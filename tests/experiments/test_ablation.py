"""Ablations: arms and factors from a config, refused where they cannot differ, frozen to the bit, and reported."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from browser import VIEWS, refuse_clipped
from safetensors.torch import load_file
from typer.testing import CliRunner

from gatelab import cells
from gatelab.cli import app
from gatelab.experiments import ablation, config
from gatelab.experiments.bench import bench
from gatelab.experiments.executors.local import LocalExecutor
from gatelab.experiments.probe import refuse_alike
from gatelab.experiments.results import read_results
from gatelab.experiments.studies import directories, execute
from gatelab.report.words.findings import change_names
from gatelab.report.write_report import write_reports
from gatelab.training import Run, build, train
from gatelab.training import config as training_config

SMALL = {
    "task": "recall:delay=3,size=100",
    "model": {"cell": "gru", "hidden_size": 5, "init": "xavier"},
    "runs": 2,
    "training": {"num_epochs": 2, "batch_size": 32},
}
TWO_BY_TWO = {"init_z": [0, 1], "freeze": ["none", ["b.z", "b.r"]]}


def parsed(**changes) -> config.BenchSpec:
    return config.parse({**SMALL, **changes}, "here")


# From a config to arms.


def test_arms_change_named_parts_of_the_base():
    spec = parsed(
        arms={
            "open": {"init": {"b.z": 1.0}},
            "forgets": {"freeze": ["b.z", "b.r"], "at": 0.0, "init": {"b.z": 2.0, "b.r": -1}},
            "no_reset": {"remove": {"r": 1.0}},
            "slow": {"chrono": 20},
        }
    )
    assert (spec.base, list(spec.models)) == ("base", ["base", "open", "forgets", "no_reset", "slow"])
    assert spec.models["open"].gate_bias == {"z": 1.0}
    assert (spec.models["forgets"].freeze, spec.models["forgets"].freeze_at) == (("b.z", "b.r"), 0.0)
    assert spec.models["no_reset"].equations().gates == ("z", "n")
    assert spec.models["slow"].chrono == 20
    assert all(model.init == "xavier" and model.hidden_size == 5 for model in spec.models.values())


def test_an_arm_without_changes_is_the_base():
    assert parsed(arms={"open": {"init": {"b.z": 1.0}}, "plain": {}}).base == "plain"


def test_factors_are_every_combination():
    spec = parsed(factors=TWO_BY_TWO)
    names = [
        "init_z=0,freeze=none", "init_z=0,freeze=b.z+b.r", "init_z=1,freeze=none", "init_z=1,freeze=b.z+b.r",
    ]  # fmt: skip
    assert list(spec.models) == names
    assert spec.base == names[0]
    assert spec.design[names[3]] == {"init_z": "1", "freeze": "b.z+b.r"}
    assert spec.models[names[3]].gate_bias == {"z": 1.0}
    assert spec.models[names[3]].freeze == ("b.z", "b.r")
    assert spec.models[names[2]].freeze == ()


def test_levels_may_have_names_and_options_of_the_cell():
    spec = parsed(
        model={"cell": "agru", "hidden_size": 5},
        factors={
            "start": {"low": {"init": {"b.z": -1}}, "high": {"init": {"b.z": 1, "b.r": 1}}},
            "epsilon": [1.0, 0.5],
        },
        arms={"without": {"remove": {"r": 1}}},
    )  # fmt: skip
    high = spec.models["start=high,epsilon=0.5"]
    assert (high.gate_bias, high.options) == ({"z": 1.0, "r": 1.0}, {"epsilon": 0.5})
    assert "without" in spec.models
    assert "without" not in spec.design


def test_an_arms_own_number_goes_over_that_of_the_base():
    spec = parsed(
        model={"cell": "agru", "hidden_size": 5, "gamma": 0.01, "options": {"epsilon": 0.2}},
        arms={"a": {"options": {"gamma": 0.5}}, "b": {"gamma": 0.7, "epsilon": "none"}},
    )
    numbers = {name: model.options for name, model in spec.models.items()}
    both = {"gamma": 0.01, "epsilon": 0.2}
    assert numbers == {"base": both, "a": {"gamma": 0.5, "epsilon": 0.2}, "b": {"gamma": 0.7}}


def test_none_takes_away_what_the_base_has():
    base = {"cell": "gru", "hidden_size": 5, "freeze": ["b.z"], "freeze_at": 0.5, "remove": {"r": 1}, "chrono": 9}
    arm = ablation.changed(base, {"freeze": "none", "remove": {"r": "none"}, "init": {"b.r": 1}, "chrono": None})
    assert arm == {"cell": "gru", "hidden_size": 5, "remove": {}, "gate_bias": {"r": 1}}
    assert ablation.changed(base, {"remove": "none"})["freeze_at"] == 0.5


def test_the_base_of_a_design_is_what_its_effects_refer_to():
    levels = {"start": {"high": {"init": {"b.z": 1}}, "low": {}}, "hidden_size": [5, 6]}
    assert parsed(factors=levels).base == "start=high,hidden_size=5"


def test_an_arm_without_changes_beside_a_design_is_not_the_reference_of_its_effects():
    spec = parsed(factors={"init_z": [1, 2]}, arms={"plain": {}})
    assert spec.base == "init_z=1"
    assert list(spec.design) == ["init_z=1", "init_z=2"]


def test_the_level_none_takes_away_what_the_base_freezes():
    base = {**SMALL["model"], "freeze": ["b.r"], "freeze_at": 0.5}
    levels = {"freeze": ["none", ["b.z"]], "hidden_size": [5, 6]}
    models = parsed(model=base, factors=levels).models
    assert {name: (model.freeze, model.freeze_at) for name, model in models.items()} == {
        "freeze=none,hidden_size=5": ((), None),
        "freeze=none,hidden_size=6": ((), None),
        "freeze=b.z,hidden_size=5": (("b.z",), 0.5),
        "freeze=b.z,hidden_size=6": (("b.z",), 0.5),
    }


@pytest.mark.parametrize("first", ["a", "b"])
def test_none_of_one_factor_gives_way_to_what_another_sets(first):
    """In whatever order the factors are written."""
    factors = {"a": {"no": {"freeze": "none"}, "yes": {"freeze": ["b.z"]}}, "b": {"no": {}, "yes": {"freeze": ["b.r"]}}}
    ordered = {name: factors[name] for name in sorted(factors, key=lambda name: name != first)}
    spec = parsed(model={**SMALL["model"], "freeze": ["b.n"]}, factors=ordered)
    frozen = {tuple(spec.design[name].values()): set(model.freeze) for name, model in spec.models.items()}
    by_levels = {(a, b): frozen[(a, b) if first == "a" else (b, a)] for a in ("no", "yes") for b in ("no", "yes")}
    assert by_levels == {
        ("no", "no"): set(),
        ("no", "yes"): {"b.r"},
        ("yes", "no"): {"b.z"},
        ("yes", "yes"): {"b.z", "b.r"},
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": {}}, "arms: this is {}: expected {no_r: {remove: {r: 1}}}"),
        ({"arms": {"a": 3}}, "arms.a: this is 3: expected changes"),
        ({"arms": {"a": {"freeze": ["b.q"]}}}, "arms.a.freeze: unknown parameter"),
        ({"arms": {"a": {"frieze": ["b.z"]}}}, "arms.a.frieze: unknown key 'frieze'; did you mean 'freeze'"),
        ({"arms": {"a": {"remove": {"q": 1}}}}, "arms.a.remove: unknown gate of cell 'gru': 'q'"),
        ({"arms": {"a": {"init": {"W.z": 1}}}}, "arms.a: init has 'W.z': expected initial values of biases"),
        (
            {"arms": {"a": {"remove": {"r": 1}, "init": {"b.r": 1}}}},
            "init has b.r, and remove removes the gate r",
        ),
        ({"arms": {"a": {"at": 0.0}}}, "arms.a.at: this needs freeze"),
        ({"arms": {"base": {"init": {"b.z": 1}}}}, "arms.base: this is the name of the model without changes"),
        ({"arms": {"init_z=0": {"chrono": 5}}, "factors": {"init_z": [0, 1]}}, "a combination of the factors"),
        ({"model": {"hiden_size": 5}, "arms": {"a": {}}}, "model.hiden_size: unknown key 'hiden_size'"),
        (
            {"factors": {"a": {"x": {"chrono": 5}, "y": {}}, "b": {"x": {"chrono": 6}, "y": {}}}},
            "factors: b sets chrono to 6 and another factor to 5",
        ),
        ({"arms": {"a": {"hidden_size": 5}}}, "arms.a: this is the same model as 'base', after defaults"),
        ({"factors": {"remove": ["none", {"r": 1}], "init_r": [0, 1]}}, "factors.remove=r-1,init_r=0: init has b.r"),
        ({"factors": {"init_z": [1]}}, "factors.init_z: this is [1]: expected at least two levels"),
        ({"factors": {"init_z": [1, 1.0]}}, "factors.init_z: this is [1, 1.0]: expected at least two levels, all"),
        ({"factors": {"init_z": 1}}, "factors.init_z: this is 1: expected a list of levels"),
        ({"factors": {"init_q": [0, 1]}}, "factors.init_q=0.init: "),
        ({"arms": {"a": {}}, "models": {"gru": {}}}, "one model and arms that change it"),
        ({"arms": {"a": {"init": {"b.z": 1}}}, "base": "nobody"}, "base: unknown model 'nobody'"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes, message):
    with pytest.raises(ValueError, match="here") as raised:
        parsed(**changes)
    assert message in str(raised.value)


def test_every_gate_can_be_taken_out():
    assert ablation.every_gate(cells.gru) == {"no_r": {"remove": {"r": 1.0}}, "no_z": {"remove": {"z": 0.5}}}
    assert cells.lstm.neutral == {"i": 1.0, "f": 1.0, "o": 1.0}  # at 1 the forget gate keeps, and i still adds
    assert cells.gru_cho.neutral == {"z": 0.5, "r": 1.0}


@pytest.mark.parametrize("change", [{"remove": {"r": 1}}, {"remove": {"z": 0.5}}, {"chrono": 20}, {"init": {"b.z": 1}}])
@pytest.mark.parametrize("init", ["torch", "xavier"])
def test_what_arms_have_in_common_starts_alike(change, init):
    spec = parsed(model={"cell": "gru", "hidden_size": 5, "init": init, "num_layers": 2}, arms={"other": change})
    base, other = (dict(build.model(spec.models[name], spec.task, 3).named_parameters()) for name in ("base", "other"))
    for name, value in other.items():
        changed = name.endswith("b.z") and "remove" not in change
        assert torch.equal(value, base[name]) != changed, name


def test_what_factors_change_stands_side_by_side():
    def two(changes, others):
        return {"a": {"no": {}, "yes": changes}, "b": {"no": {}, "yes": others}}

    both = parsed(factors=two({"freeze": ["b.z"], "init": {"b.z": 1}}, {"freeze": ["b.r"]})).models["a=yes,b=yes"]
    assert (both.freeze, both.gate_bias) == (("b.z", "b.r"), {"z": 1.0})
    both = parsed(factors=two({"freeze": ["b.z", "b.n"]}, {"freeze": ["b.r", "b.z"]})).models["a=yes,b=yes"]
    assert both.freeze == ("b.z", "b.n", "b.r")  # what both freeze is named once
    both = parsed(factors=two({"remove": {"r": 1}}, {"remove": {"z": 0.5}})).models["a=yes,b=yes"]
    assert both.remove == {"r": 1.0, "z": 0.5}
    base = {**SMALL["model"], "remove": {"r": 1}, "gate_bias": {"z": 2}}
    assert parsed(model=base, arms={"a": {"remove": {"z": 0.5}}}).models["a"].remove == {"r": 1.0, "z": 0.5}


@pytest.mark.parametrize(
    "design", [{"a": {"f": "x"}, "b": {"g": "y"}}, {"a": {"f": "x", "g": "y"}, "b": {"f": "y", "g": "x"}}]
)
def test_a_design_with_gaps_is_refused(design):
    models = {"a": {"cell": "gru"}, "b": {"cell": "lstm"}}
    with pytest.raises(ValueError, match="a model for every combination"):
        config.parse({"task": "digits", "models": models, "design": design}, "here")


# Arms that cannot differ.


@pytest.mark.parametrize("change", [{"init": {"b.z": 0.0}}, {"engine": "eager"}, {"chrono": 2}], ids=str)
def test_an_arm_that_is_the_base_in_all_it_does_is_refused(change, tmp_path):
    """Xavier starts have zero biases: to set them to zero is no change, and neither is another engine."""
    spec = parsed(arms={"same": change})
    with pytest.raises(ValueError, match=r"arms\.same: on one batch this has the weights, outputs and gradients of"):
        bench(spec, tmp_path / "experiment", LocalExecutor(1))
    assert not (tmp_path / "experiment").exists()  # so that the corrected config is not refused there


@pytest.mark.parametrize(
    "change",
    [{"freeze": ["b.z"]}, {"init": {"b.z": 0.1}}, {"remove": {"r": 1}}, {"head_dropout": 0.1}, {"pool": "mean"}],
    ids=str,
)
def test_an_arm_that_differs_somewhere_is_not(change):
    spec = parsed(arms={"other": change})
    refuse_alike(spec, spec.models)


# Frozen is frozen.


@pytest.mark.parametrize(
    "optimization",
    [{"optimizer": "adamw", "weight_decay": 0.5}, {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.5},
     {"optimizer": "adam", "weight_decay": 0.5, "clip_norm": 0.01}, {"optimizer": "rmsprop", "momentum": 0.5}],
    ids=lambda o: o["optimizer"],
)  # fmt: skip
def test_a_frozen_parameter_is_as_it_was_to_the_bit(optimization, tmp_path):
    content = {
        "task": SMALL["task"], "training": SMALL["training"], "optimization": {"learning_rate": 0.1, **optimization},
        "model": {"cell": "gru", "hidden_size": 5, "freeze": ["b.z", "U.r"], "gate_bias": {"z": 0.3}},
    }  # fmt: skip
    spec = training_config.parse(content, "here")
    outcome = train(spec, tmp_path / "run")
    start = dict(build.model(spec.model, spec.task, spec.training.seed).named_parameters())
    saved = load_file(outcome.run.best_path)
    frozen = {name for name in start if name.endswith(("b.z", "U.r"))}
    assert len(frozen) == 2
    assert outcome.run.manifest().frozen.keys() == frozen
    for name, value in start.items():
        assert torch.equal(saved[name], value.detach()) == (name in frozen), name


def test_a_run_whose_frozen_parameter_moved_fails(tmp_path, monkeypatch):
    content = {**{k: SMALL[k] for k in ("task", "training")}, "model": {"hidden_size": 5, "freeze": ["b.z"]}}

    monkeypatch.setattr(build, "_frozen", lambda layer, spec: layer)  # as if freezing were lost
    with pytest.raises(RuntimeError, match="was frozen and has changed"):
        train(training_config.parse(content, "here"), tmp_path / "run")
    assert Run(tmp_path / "run").manifest().status == "failed"


# From end to end.


def test_studies_are_run_and_reported_together(tmp_path, monkeypatch, here):
    monkeypatch.setattr("gatelab.experiments.executors.local.LocalExecutor", lambda jobs: here)
    content = {
        **{key: SMALL[key] for key in ("model", "training")}, "factors": {"init_z": [0, 1]}, "runs": 1,
        "studies": {
            "recall": {"task": "recall:delay=2,size=60"},
            "adding": {"task": "adding:length=4,size=60", "training": {"num_epochs": 1}},
        },
    }  # fmt: skip
    (tmp_path / "c.yaml").write_text(json.dumps(content))
    specs = config.load(tmp_path / "c.yaml")
    assert [spec.training.num_epochs for spec in specs.values()] == [2, 1]
    command = ["ablate", str(tmp_path / "c.yaml"), "--output-dir", str(tmp_path / "out"), "--jobs", "2"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    results = read_results(tmp_path / "out" / "adding")
    assert results.family.tests == 4  # a comparison and an effect in each of two studies
    assert results.family.studies == ("recall", "adding")
    assert [change_names(effect.changes) for effect in results.effects] == ["init_z: 0 → 1"]
    summary = (tmp_path / "out" / "results_summary.md").read_text()
    assert "| [recall](recall/report.html) | accuracy, % |" in summary
    assert "init_z: 0 → 1" in (tmp_path / "out" / "recall" / "report.html").read_text()
    assert 'href="adding/report.html"' in (tmp_path / "out" / "report.html").read_text()
    for name in ("studies.png", "recall/effects.png", "adding/test_comparison.png"):
        assert (tmp_path / "out" / name).is_file()
    (tmp_path / "out" / "results_summary.md").unlink()
    assert CliRunner().invoke(app, ["report", str(tmp_path / "out")]).exit_code == 0
    assert (tmp_path / "out" / "results_summary.md").read_text() == summary
    content["studies"].pop("adding")
    (tmp_path / "c.yaml").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"holds the studies recall, adding, and the config no longer has adding"):
        CliRunner().invoke(app, command, catch_exceptions=False)
    shutil.rmtree(tmp_path / "out" / "adding")  # a study that was not begun is not in the report
    again = CliRunner().invoke(app, ["report", str(tmp_path / "out")])
    assert again.exit_code == 0, again.output
    assert "## adding" not in (tmp_path / "out" / "results_summary.md").read_text()


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_pages_of_a_factorial_design_and_of_studies_fit(factorial, open_page, width, scheme):
    for page in ("report.html", "recall/report.html"):
        view = open_page(factorial / page, width, scheme)
        refuse_clipped(view)
        assert view.locator("figure.picture img").count() == 1
        table = view.locator(".wide").first.bounding_box()
        if width == 1280:  # four arms with long names are not cut off
            assert view.locator(".wide table").first.bounding_box()["width"] <= table["width"]


@pytest.fixture(scope="module")
def factorial(tmp_path_factory, here):
    """Two studies of a 2×2, with the names that combinations of factors have."""
    content = {
        **{key: SMALL[key] for key in ("model", "training")}, "runs": 1,
        "factors": {"init_z": [0, 1], "freeze": ["none", ["b.z", "b.r"]]},
        "studies": {"recall": {"task": "recall:delay=2,size=60"}, "adding": {"task": "adding:length=4,size=60"}},
    }  # fmt: skip
    directory = tmp_path_factory.mktemp("factorial")
    (directory / "c.yaml").write_text(json.dumps(content))
    execute(config.load(directory / "c.yaml"), directory / "out", here)
    write_reports(directory / "out", directories(directory / "out"))
    return directory / "out"


def test_a_study_with_an_error_is_found_by_its_line(tmp_path):
    (tmp_path / "c.yaml").write_text(
        "model: {cell: gru}\narms: {a: {init: {b.z: 1}}}\nstudies:\n  one: {task: sine}\n"
        "  two:\n    task: digits\n    training: {num_epochs: 0}\n"
    )
    with pytest.raises(ValueError, match=r"in the study two:\n.*c\.yaml:7: training\.num_epochs: this is 0"):
        config.load(tmp_path / "c.yaml")
    repaired = config.load(tmp_path / "c.yaml", {("studies", "two", "training", "num_epochs"): 3, ("runs",): 4})
    assert (repaired["two"].training.num_epochs, repaired["one"].runs) == (3, 4)
    with pytest.raises(ValueError, match="--task cannot be given for all of them"):
        config.load(tmp_path / "c.yaml", {("task",): "digits"})
