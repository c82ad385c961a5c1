"""The paper: it says what the results say, shows every character as it is, and copes with whatever the runs did."""

from __future__ import annotations

import io
import itertools
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib.image
import numpy as np
import pypdf
import pytest
import typst
from typer.testing import CliRunner

from gatelab import cells
from gatelab.cli import app
from gatelab.experiments import config, facts
from gatelab.experiments.bench import bench, gather_again
from gatelab.experiments.experiment import Experiment, read_experiment
from gatelab.experiments.results import Results, read_results
from gatelab.experiments.stats import Change, Effect, Estimate
from gatelab.experiments.worker import Finished
from gatelab.lang import Option
from gatelab.report import tables
from gatelab.report.paper.write_paper import TEMPLATE, paper, write_paper
from gatelab.report.words import settings
from gatelab.report.words.findings import general, in_brief, significant
from gatelab.training import train
from gatelab.training.manifest import Manifest
from gatelab.training.spec import ModelSpec

SPECIAL = r"""* _ # $ @ < > \ ` ~ " ' = + - / // /* */ [ ] { } ( ) % & ^ | -- --- ... #panic("x") @ref <label> ä→∞"""


class Here:
    """Runs in this process: quick, where nothing will crash."""

    def __init__(self, leave_out: tuple[str, ...] = ()) -> None:
        self.leave_out = leave_out

    detached, is_local = False, True

    def threads_for(self, runs: int) -> int:
        return 1

    def execute(self, runs, directory, tick):
        for run in runs:
            if str(run.path) not in self.leave_out:
                train(run.spec, directory / run.path)
                yield Finished(run, "done")


def made(directory: Path, task: str, models: dict, runs: int, executor: Here | None = None) -> Path:
    spec = {"task": task, "models": models, "model": {"engine": "eager", "hidden_size": 3}, "runs": runs}
    training = {"training": {"num_epochs": 2, "batch_size": 64}}
    bench(config.parse(spec | training, "here"), directory, executor or Here())
    return directory


@pytest.fixture(scope="module")
def experiment(tmp_path_factory) -> Path:
    models = {"rnn": {}, "slow.rnn": {"cell": "antisymmetric_rnn", "gamma": 0.05, "gate_bias": {"h": 1.0}}}
    return made(tmp_path_factory.mktemp("paper") / "experiment", "digits:limit=60", models, runs=3)


def text(pdf: Path | bytes) -> str:
    """What a reader reads, without the spaces: lines end where the column does."""
    pages = pypdf.PdfReader(io.BytesIO(pdf) if isinstance(pdf, bytes) else pdf).pages
    return squeezed("".join(page.extract_text() for page in pages))


def squeezed(words: str) -> str:
    return re.sub(r"[\s\u200b]", "", words)


def changed(experiment: Path, names: list[str] | None = None, **entries) -> tuple[Results, Experiment, list[Manifest]]:
    """The experiment with other models' names and other entries of its results, and without its runs."""
    results, planned = read_results(experiment), read_experiment(experiment)
    if names is not None:
        models = dict(zip(names, itertools.cycle(results.models.values())))
        built = dict(zip(names, itertools.cycle(planned.models.values())))
        planned = planned.model_copy(update={"models": built})
        pair = results.comparisons[0]
        pairs = tuple(replace(pair, a=a, b=b) for a, b in itertools.combinations(names, 2))
        results = results.model_copy(update={"models": models, "comparisons": pairs})
    return results.model_copy(update=entries), planned, []


def test_report_writes_it_with_what_the_results_say_and_always_the_same(experiment):
    done = CliRunner().invoke(app, ["report", str(experiment), "--pdf"])
    assert done.exit_code == 0, done.output
    assert "paper.pdf" in done.output
    assert (experiment / "results_table.tex").is_file()
    said, results = text(experiment / "paper.pdf"), read_results(experiment)
    for sentence in (*general(results), *significant(results), in_brief(results)):
        assert squeezed(sentence) in said
    assert squeezed("".join(tables.comparisons(results)[1])) in said
    rnn = results.means["rnn"]
    assert f"{100 * rnn.mean:.2f}±{100 * rnn.sd:.2f}" in said
    manifest = json.loads((experiment / "runs/rnn/seed-0/manifest.json").read_text())
    for fact in (
        "rnn and slow.rnn on digits", "8 steps of 8 features", "70 / 10 / 20 %", "adam", "at most 2", "0 to 2",
        "γ = 0.05 (fixed)", "ε = 0.1 (fixed)", "gate bias h = 1", f"{manifest['parameters']:,}",
        f"torch {manifest['versions']['torch']}", manifest["machine"]["cpu"], manifest["started"][:10],
        "other splits or other test sets", "Figure 3:", "Table 4:",
    ):  # fmt: skip
        assert squeezed(fact) in said, fact
    assert "𝑈⊤" in said  # the equations are set as maths
    before = (experiment / "paper.pdf").read_bytes()
    assert write_paper(experiment).read_bytes() == before


def test_a_copy_without_the_cells_file_has_its_equations(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(
        "from gatelab import cell, tanh\n\n\n@cell\ndef own(x, h, W, U, b):\n"
        '    """Reference: Nobody 2020."""\n    return tanh(W.n(x) + U.n(h) + b.n)\n'
    )
    made(tmp_path / "there", "digits:limit=60", {"mine": {"cell": f"{file}:own"}}, runs=1)
    shutil.copytree(tmp_path / "there", tmp_path / "copy")
    file.unlink()
    shutil.rmtree(tmp_path / "there")
    gather_again(tmp_path / "copy")
    said = text(write_paper(tmp_path / "copy"))
    assert squeezed("own, in mine: ℎ𝑡 = tanh(𝑊𝑛𝑥𝑡 +𝑈𝑛ℎ𝑡−1 +𝑏𝑛)") in said
    assert "Nobody2020" in said
    assert "own.py" not in said
    assert squeezed("With fewer than 3 nothing is tested") in said


@pytest.mark.parametrize(
    "names", [[r"a*b_c#d$e@f", r'<label> \n `raw` ~x~ "q"'], ['#panic("x")', "$x$ @ref <results> *b* \\u{1F600} //"]]
)
def test_every_character_is_shown_as_it_is(experiment, names):
    results, described, _ = changed(experiment, names)
    runs = tuple(
        run.model_copy(update={"status": "failed", "reason": SPECIAL}) for run in results.models[names[0]].runs
    )
    failed = results.models[names[0]].model_copy(update={"runs": runs})
    results = results.model_copy(update={"models": {**results.models, names[0]: failed}})
    task = described.task.replaced(source=f"source {SPECIAL}", split='#include "x"')
    versions = described.versions | {"torch": "#1*2*", "$gatelab$": "@3"}
    described = described.model_copy(update={"task": task, "versions": versions})
    for name, equations in described.equations.items():
        described.equations[name] = replace(equations, cell="#cell_*x*", reference=f"reference {SPECIAL}")
    said = text(paper(results, described, []))
    shown = ["torch #1*2*", "$gatelab$ @3", '#include "x"', "#cell_*x*", f"source {SPECIAL}", f"reference {SPECIAL}"]
    for words in (*names, SPECIAL, *shown):
        assert squeezed(words) in said, words


def test_nothing_but_equations_is_read_as_source():
    assert TEMPLATE.read_text().count("eval(") == 1


def test_errors_are_compared_where_there_is_no_accuracy(tmp_path):
    place = made(tmp_path / "sine", "sine:duration=300,length=20", {"rnn": {}, "gru": {}}, runs=2)
    said = text(write_paper(place))
    for words in ("MSE", "squared error", "differ in test error", "No comparison could be tested", "one per step"):
        assert squeezed(words) in said, words
    assert "accuracy" not in said


def test_runs_that_did_not_finish_are_named(tmp_path):
    lost = ("runs/rnn/seed-1", "runs/gru/seed-0", "runs/gru/seed-1")
    place = made(tmp_path / "lost", "digits:limit=60", {"rnn": {}, "gru": {}}, 2, Here(leave_out=lost))
    said = text(write_paper(place))
    for words in ("0 of 2", "(1 of rnn missing and 2 of gru missing)", "rnn, seed 1: is missing"):
        assert squeezed(words) in said, words


def test_nothing_finished(tmp_path):
    place = made(tmp_path / "none", "digits:limit=60", {"rnn": {}}, 1, Here(leave_out=("runs/rnn/seed-0",)))
    assert squeezed("No run has finished, so there is no answer.") in text(write_paper(place))


def test_effects_of_an_ablation(experiment):
    change, other = Change("init_z", "0", "1"), Change("freeze", "none", "b.z")
    effects = (
        Effect((change,), Estimate(3, 0.0123, 0.01, 0.01, 0.03, 0.01, 0.04, 0.02)),
        Effect((change, other), Estimate(2, -0.002, 0.01)),
    )
    results, described, _ = changed(experiment, effects=effects)
    described = described.model_copy(update={"spec": described.spec.replaced(ablation=True)})
    said = text(paper(results, described, []))
    for words in (
        "A factorial ablation on digits: 2 arms",
        "init_z: 0 → 1 +1.23 +1.00 to +3.00 0.040 * 3",
        "init_z: 0 → 1 × freeze: none → b.z −0.20 – – 2",
        "1 of 1 effect on accuracy is significant at 5 %",
    ):
        assert squeezed(words) in said, words


@pytest.mark.parametrize("count", [9, 50])
def test_many_models_with_long_names_stay_on_the_page(experiment, tmp_path, count):
    names = [f"model_{i}.with-a-rather_long_name+of-its_own" for i in range(count)]
    pdf = tmp_path / "paper.pdf"
    pdf.write_bytes(paper(*changed(experiment, names)))
    said = text(pdf)
    assert all(said.count(name) >= 2 for name in names)
    assert (squeezed("Test results of every run") in said) is (count == 9)
    assert (squeezed("comparisons are in results_summary.md") in said) is (count == 50)
    for picture in pictures(pdf, tmp_path):
        edge = round(0.07 * picture.shape[1])  # the margin is 8 % of the page
        assert picture[:, :edge].min() == picture[:, -edge:].min() == 1


def pictures(pdf: Path, folder: Path) -> list[np.ndarray]:
    """The pages, white being 1."""
    pages = (f'#image("paper.pdf", page: {i + 1})' for i in range(len(pypdf.PdfReader(pdf).pages)))
    source = '#set page(paper: "a4", margin: 0pt)\n' + "\n".join(pages)
    made = typst.compile(source.encode(), root=folder, format="png", ppi=50)
    return [matplotlib.image.imread(io.BytesIO(page))[..., :3] for page in (made if isinstance(made, list) else [made])]


def test_without_typst_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "typst", None)
    done = CliRunner().invoke(app, ["report", str(tmp_path / "nothing here"), "--pdf"])
    assert "pip install 'gatelab[paper]'" in str(done.exception)


def test_the_fonts_come_with_typst():
    named = set(re.findall(r'font: "([^"]+)"', TEMPLATE.read_text()))
    assert named <= set(typst.Fonts(include_system_fonts=False).families())
    assert named


def test_names_are_shortened_without_becoming_equal():
    long = ["the_same_beginning_and_" + middle + "_the_same_end" for middle in "ab"]
    assert settings.shortened(["gru", *long]) == ["gru", "2: the_same_be…same_end", "3: the_same_be…same_end"]


def test_the_equations_of_every_cell_are_recorded():
    models = {f"my_{name}": ModelSpec(cell=name) for name in cells.names()}
    for model in models.values():
        recorded, cell = facts.equations(model), model.cell.cell
        assert (recorded.text, recorded.typst) == (cell.text(), cell.typst())
        assert recorded.reference
    assert facts.hyperparameters(models["my_agru"])["epsilon"] == Option(1.0, learned=True)


def test_a_gate_that_is_removed_is_not_in_the_equations():
    recorded = facts.equations(ModelSpec(cell="gru", remove={"r": 1.0}))
    assert "r_t" not in recorded.typst
    assert recorded.reference == cells.get("gru").reference
