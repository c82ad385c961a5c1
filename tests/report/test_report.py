"""Tables, figures and the page: right, whole, and drawn by a real browser without a network."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shutil
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import matplotlib.image
import numpy as np
import pytest
from browser import VIEWS, refuse_clipped
from markdown_it import MarkdownIt
from pydantic import BaseModel
from typer.testing import CliRunner

from gatelab import style
from gatelab.cli import app
from gatelab.errors import DataError
from gatelab.experiments import config
from gatelab.experiments.bench import bench
from gatelab.experiments.experiment import Experiment, read_experiment
from gatelab.experiments.failures import Failures
from gatelab.experiments.results import Results, read_results
from gatelab.experiments.results import manifests as gathered
from gatelab.experiments.stats import Summary
from gatelab.formatting import file_name
from gatelab.report import escaping, figures, page, sections, studies, tables
from gatelab.report.words import settings
from gatelab.report.write_report import write_report, write_reports
from gatelab.training.manifest import Manifest


@pytest.fixture(scope="module")
def experiment(tmp_path_factory, here) -> Path:
    directory = tmp_path_factory.mktemp("report") / "experiment"
    spec = config.parse(
        {
            "task": "digits:limit=100",
            "models": {"gru": {"hidden_size": 6}, "rnn": {"hidden_size": 6}},
            "runs": 3,
            "training": {"num_epochs": 3, "batch_size": 32},
        },
        "here",
    )
    bench(spec, directory, here)
    write_report(directory)
    return directory


def results(experiment: Path) -> Results:
    return read_results(experiment)


def changed(results: Results, model: str, **changes) -> Results:
    """The same with something else about a model."""
    models = {**results.models, model: results.models[model].model_copy(update=changes)}
    return results.model_copy(update={"models": models})


def test_the_files_are_all_there(experiment):
    names = {path.name for path in experiment.iterdir()}
    assert {
        "results_summary.md", "results.json", "results.csv", "results_table.tex", "report.html", "training_curves.png",
        "accuracy_curves.png", "test_comparison.png", "curves_gru.png", "confusion_gru.png",
    } <= names  # fmt: skip


def test_the_page_links_to_explorers_where_there_are_some(experiment):
    assert "explorer.html" not in (experiment / "report.html").read_text()
    run = read_experiment(experiment).runs[1]
    place = experiment / run.path / "explorer.html"
    place.write_text("")
    write_report(experiment)
    link = f'<a href="{run.path}/explorer.html">{run.model}, seed {run.seed}</a>'
    assert link in (experiment / "report.html").read_text()
    place.unlink()
    write_report(experiment)


def test_the_tables_hold_the_numbers(experiment):
    gru = results(experiment).models["gru"]
    mean, sd = 100 * gru.summaries["accuracy"].mean, 100 * gru.summaries["accuracy"].sd
    summary = (experiment / "results_summary.md").read_text()
    assert f"{mean:.2f} ± {sd:.2f}" in summary
    assert "## Findings" in summary
    rows = list(csv.DictReader(io.StringIO((experiment / "results.csv").read_text())))
    assert len(rows) == 6
    assert float(rows[0]["accuracy"]) == gru.runs[0].metrics["accuracy"]
    tex = (experiment / "results_table.tex").read_text()
    assert rf"{mean:.2f} $\pm$ {sd:.2f}" in tex
    assert tex.count(r"\\") == 3
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert rule in tex


def test_the_figures_show_something(experiment):
    for path in experiment.glob("*.png"):
        pixels = matplotlib.image.imread(path)
        assert (pixels[..., :3].min(-1) < 0.6).mean() > 0.004, path.name


# What is drawn, read off the drawing.


def lines(axes, label: str) -> list:
    """The lines of that label as (x, y) arrays."""
    return [np.asarray(line.get_xydata()).T for line in axes.lines if line.get_label() == label]


def test_loss_panels_show_each_seed_and_the_mean_of_their_part(experiment):
    found = results(experiment)
    figure = figures.loss_curves(found, ["gru", "rnn"])
    for axes, part in zip(figure.axes, ("train", "validation"), strict=True):
        gru = found.models["gru"]
        ((epochs, drawn),) = lines(axes, "gru")
        np.testing.assert_allclose(drawn, np.mean(gru.curves[f"{part}_loss"], axis=0))
        assert epochs.tolist() == [1, 2, 3]
        seeds = [y.tolist() for _, y in lines(axes, "_seed")]
        assert seeds == [list(c) for name in ("gru", "rnn") for c in found.models[name].curves[f"{part}_loss"]]
        assert part.removeprefix("train") in axes.get_title(loc="left")


def test_the_mean_is_drawn_as_long_as_all_seeds_train(experiment):
    found = results(experiment)
    curves = dict(found.models["gru"].curves)
    curves["validation_accuracy"] = ((0.1, 0.2, 0.3), (0.3, 0.4), (0.5, 0.6, 0.7))
    figure = figures.accuracy_curves(changed(found, "gru", curves=curves), ["gru", "rnn"])
    ((epochs, mean),) = lines(figure.axes[0], "gru")
    assert epochs.tolist() == [1, 2]
    assert mean.tolist() == pytest.approx([30, 40])
    assert sorted(len(x) for x, _ in lines(figure.axes[0], "_seed")) == [2, 3, 3, 3, 3, 3]


def test_every_seed_is_a_dot_and_the_bar_is_the_interval(experiment):
    found = results(experiment)
    (axes,) = figures.comparison(found, ["gru", "rnn"]).axes
    for row, (name, (x, y)) in enumerate(zip(("gru", "rnn"), lines(axes, "_seeds"), strict=True)):
        summary = found.means[name]
        assert x.tolist() == pytest.approx([100 * value for value in summary.values])
        assert (y < row).all()
        bar = axes.containers[row].lines[2][0].get_segments()[0]
        assert bar[:, 0].tolist() == pytest.approx([100 * summary.low, 100 * summary.high])
    assert axes.get_xlim()[1] <= 101
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["gru", "rnn"]
    texts = [text.get_text() for text in axes.texts]
    assert texts == [f"{100 * found.means[name].mean:.2f}" for name in ("gru", "rnn")]


def test_seeds_at_the_same_place_are_stacked():
    levels = figures.stacked(np.array([1.0, 5.0, 1.0, 1.0, 3.0]), 0.1)
    assert len(set(levels[[0, 2, 3]])) == 3
    assert levels[[1, 4]].tolist() == [0, 0]
    assert len(set(figures.stacked(np.full(4, 100.0), 0.0))) == 4  # all at 100 %


def test_effects_are_drawn_with_their_intervals_and_interactions_in_another_colour():
    from test_findings import results_of

    design = {f"{i}{j}": {"i": str(i), "j": str(j)} for i in (0, 1) for j in (0, 1)}
    random = np.random.RandomState(0)
    values = {arm: list(0.5 + 0.1 * random.uniform(size=5)) for arm in design}
    found = results_of(values, tests=6, base="00", design=design)
    (axes,) = figures.effects(found).axes
    for effect, bars in zip(found.effects, axes.containers, strict=True):
        ends = bars.lines[2][0].get_segments()[0][:, 0]
        assert ends.tolist() == pytest.approx([100 * effect.difference.low, 100 * effect.difference.high])
    diamonds = [line for line in axes.lines if line.get_marker() == "D"]
    assert [line.get_color() for line in diamonds] == [style.colour(0), style.colour(0), style.colour(1)]


def test_a_confusion_matrix_is_in_percent_of_the_true_class():
    figure = figures.confusion_matrix(np.array([[3.0, 1.0], [0.0, 2.0]]), ["a", "b"], "title")
    (axes,) = figure.axes
    drawn = {tuple(map(int, text.get_position())): text.get_text() for text in axes.texts}
    assert drawn == {(0, 0): "75.0", (1, 0): "25.0", (1, 1): "100.0"}  # (predicted, true)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "true")


def test_dark_pictures_have_dark_paper_and_light_ink(experiment, tmp_path):
    figure = figures.comparison(results(experiment), ["gru", "rnn"])
    style.save(figure, tmp_path / "light.png")
    light, dark = (tmp_path / "light.png").read_bytes(), style.dark_png(figure)
    for content, ground in ((light, [255, 255, 255]), (dark, [13, 17, 23])):
        pixels = (255 * matplotlib.image.imread(io.BytesIO(content))[..., :3]).round().astype(int)
        assert pixels[0, 0].tolist() == ground
        assert (np.abs(pixels - ground).max(-1) > 120).mean() > 0.004  # and something can be seen on it


@pytest.mark.parametrize(
    ("spec", "title"),
    [
        ({"name": "digits", "limit": 100}, "digits"),
        ({"name": "files", "path": "/data/fsdd.npz"}, "fsdd"),
        ({"name": "files", "path": "/data/ucr/FordA"}, "FordA"),
        ({"name": "text", "path": "shakes.peare.txt"}, "shakes.peare"),
        ({"name": "lab/walks.py:Walk"}, "walks.py:Walk"),
    ],
)
def test_a_title_names_the_data(spec, title):
    assert settings.data_set(spec) == title


def test_settings_are_those_of_the_spec(experiment):
    made = read_experiment(experiment)
    rows = dict(settings.settings(results(experiment), made, gathered(made, experiment)))
    assert rows["tested weights"] == "epoch with the best validation accuracy"
    assert rows["epochs"] == "at most 3"
    assert rows["seeds"] == "0 to 2"
    assert rows["gradient clipping"] == "maximum norm 1"
    by_loss = made.spec.training.model_copy(update={"monitor": "loss", "patience": 4})
    made = made.replaced(spec=made.spec.replaced(training=by_loss))
    rows = dict(settings.settings(results(experiment), made, []))
    assert rows["tested weights"] == "epoch with the best validation loss"
    assert rows["epochs"] == "at most 3, early stopping with patience 4"


def test_runs_far_from_the_others_are_on_the_page_and_in_the_summary(experiment):
    known, document = results(experiment), read_experiment(experiment)
    assert not any(
        "Runs that diverged" in text
        for text in (tables.markdown(known, document, "x"), page.page(known, document, [], "x"))
    )
    far = Failures(runs=3, failed=(1,), better=(), majority=2, smallest=0.5, largest=0.5, low=0.1, high=0.9)
    failing = known.model_copy(update={"failures": {**known.failures, "gru": far}})
    for text in (tables.markdown(failing, document, "x"), page.page(failing, document, [], "x")):
        assert "far worse than the majority of its runs (2 of 3 runs have 50.00 %)" in text
        assert "gru 1 of 3 (95 % CI 10 to 90 %)" in text


def test_a_run_that_is_missing_is_a_dash(experiment):
    whole = results(experiment)
    failed = [run.model_copy(update={"status": "failed", "metrics": {}}) for run in whole.models["gru"].runs]
    lost = changed(whole, "gru", summaries={}, runs=tuple(failed))
    assert "| gru | 0 of 3 | – |" in tables.markdown(lost, read_experiment(experiment), "title")


def test_report_makes_it_again(experiment):
    for name in ("report.html", "results.json", "test_comparison.png"):
        (experiment / name).unlink()
    done = CliRunner().invoke(app, ["report", str(experiment)])
    assert done.exit_code == 0, done.output
    assert (experiment / "report.html").is_file()
    assert (experiment / "test_comparison.png").is_file()


def test_the_page_refers_to_nothing_outside_itself(experiment):
    text = (experiment / "report.html").read_text()
    for address in re.findall(r"""(?:src|href)\s*=\s*["']([^"']*)""", text):
        assert address == "data:,"
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "{{" not in text.split("<script")[0]


def test_names_cannot_break_out_of_the_page(experiment):
    spoilt = results(experiment).model_copy(update={"classes": ("</script><script>alert(1)", *"123456789")})
    made = read_experiment(experiment)
    text = page.page(spoilt, made, [], "<b>bold</b> & more")
    assert "<title>&lt;b&gt;bold&lt;/b&gt; &amp; more</title>" in text
    assert text.count("</script>") == 3
    inside = re.search(r'id="data">(.*?)</script>', text, flags=re.DOTALL)[1]
    assert json.loads(inside)["classes"][0] == "</script><script>alert(1)"


def test_what_is_put_into_the_page_is_not_looked_through_for_gaps(experiment):
    made = read_experiment(experiment)
    task = made.spec.task | {"path": "/home/someone/{{FACTS}}.csv"}
    made = made.replaced(spec=made.spec.replaced(task=task))
    text = page.page(results(experiment), made, [], "{{TABLE}}")
    assert "<title>{{TABLE}}</title>" in text
    assert "path: '{{FACTS}}.csv'" in html.unescape(text)
    assert "someone" not in text  # nor does it tell where files lie


def test_names_are_not_taken_for_formulas(tmp_path):
    for classes in (["$a_$b", "x"], ["$5-$10", "^_{"]):
        figure = figures.confusion_matrix(np.array([[3.0, 1.0], [0.0, 2.0]]), classes, "$a_$b: % of each")
        style.save(figure, tmp_path / "confusion.png")
        assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == classes
        assert not figure.axes[0].get_yticklabels()[0].get_parse_math()


def test_a_comparison_with_a_base_is_not_an_ablation(experiment):
    made = read_experiment(experiment)
    made = made.replaced(spec=made.spec.replaced(base="gru"))
    assert made.command == "bench"
    assert tables.arms(results(experiment), made) == []
    ablation = made.replaced(spec=made.spec.replaced(ablation=True))
    assert ablation.command == "ablate"
    assert tables.arms(results(experiment), ablation)[1].startswith("rnn: cell rnn")


# An experiment that somebody else made: what its files say is text, whatever it looks like.


PNG = b"\x89PNG" + bytes(20)
HOSTILE = (
    """'"></title></style></pre></script><script>alert(1)</script><img src=x onerror=alert(1)>&lt;{{ 7 * 7 }}{% x %}"""
)
LOOKED_UP = {"schedule", "loss", "monitor", "metric", "status", "init"}  # words that a report cannot be made without
NAMED = {"models", "equations", "hyperparameters", "versions", "gate_bias"}  # maps whose keys are anybody's
ORDINARY = ("gru", "init_z=0,freeze=b.z+b.r", "a__b", "2.x-y_", "ähnlich.größer", "1.5", "+0.56", "–", "s/epoch")


def ending_in(text: str, value, key: str = ""):
    """A document or record with this text at the end of everything in it that is free to be any text."""
    if isinstance(value, BaseModel):
        return value.model_copy(update={name: ending_in(text, inner, name) for name, inner in value})
    if is_dataclass(value):
        return replace(value, **{each.name: ending_in(text, getattr(value, each.name)) for each in fields(value)})
    if isinstance(value, dict):
        return {name + text * (key in NAMED): ending_in(text, inner, name) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(ending_in(text, inner, key) for inner in value)
    return value + text if isinstance(value, str) and key not in LOOKED_UP else value


def somebodys(experiment: Path, text: str, ablation: bool = False) -> tuple[Results, Experiment, list[Manifest]]:
    """Results, description and manifests with this text everywhere; also what only an ablation has, or a failed run."""
    made = read_experiment(experiment)
    gru = made.models["gru"].model_copy(update={"gate_bias": {"z": 1.0}})
    spec = made.spec.replaced(base="gru", task=made.spec.task | {"path": "/somewhere/"}, ablation=ablation)
    made = made.replaced(spec=spec, models={**made.models, "gru": gru})
    made.equations  # noqa: B018 - known from now on, so that these have the text too
    document = results(experiment).model_dump(mode="json", by_alias=True)
    failed = {"seed": 9, "place": "x", "status": "failed", "reason": "why"}
    document["models"]["gru"]["runs"].append(failed)
    document["effects"] = [
        {"changes": [{"factor": "z", "before": "0", "after": "1"}], "difference": {"n": 3, "mean": 0.1, "sd": 0.0}}
    ]
    document["family"] = {"tests": 3, "studies": ["one", "other"]}
    manifests = gathered(made, experiment)
    document, made, manifests = (ending_in(text, content) for content in (document, made, manifests))
    return Results.read(document, "here"), made, manifests


class Seen(HTMLParser):
    """The tags of a page with their attributes' names, its scripts, its links, and all that is text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.scripts, self.links, self.text = [], [], [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, *(name for name, _ in attributes)))
        self.links += [value for name, value in attributes if name in ("href", "src")]

    def handle_endtag(self, tag):
        self.tags.append(f"/{tag}")

    def handle_data(self, data):
        if self.tags and self.tags[-1] == ("script",):
            self.scripts.append(data)
        elif self.tags and self.tags[-1] != ("script", "type", "id"):
            self.text += data


@pytest.mark.parametrize("ablation", [False, True])
def test_nothing_in_an_experiment_is_markup_in_its_page(experiment, ablation):
    def seen(text: str) -> Seen:
        return Seen(page.page(*somebodys(experiment, text, ablation), f"title{text}", (PNG, PNG)))

    plain, hostile = seen("harmless"), seen(HOSTILE)
    assert (hostile.tags, hostile.scripts, hostile.links) == (plain.tags, plain.scripts, plain.links)
    fields = ["title", "gru", "rnn", "digits", "python", "scikit-learn", "10 / 20 %", "why"]
    fields += [
        "torch",
        "adam",
        "z",
        "⊙ n",
        results(experiment).baseline.rule,
    ]
    assert [field for field in fields if f"{field}{HOSTILE}" not in hostile.text] == []


def test_nothing_in_a_study_or_an_inspection_is_markup_in_its_page(experiment, tmp_path):
    (tmp_path / "studies.png").write_bytes(PNG)

    def seen(text: str) -> Seen:
        several = {f"{name}{text}": somebodys(experiment, text)[0] for name in ("one", "javascript:alert(1)", "//host")}
        made = [
            *studies.sections(several, "studies.png"),
            sections.PageSection(text, [text], {}, [[text], [text]], text),
        ]
        return Seen(
            sections.page(f"title{text}", f"facts{text}", made, {"studies.png": style.new_figure(1, 1)}, tmp_path)
        )

    plain, hostile = seen("harmless"), seen(HOSTILE)
    assert hostile.tags == plain.tags
    assert hostile.text.replace(HOSTILE, "harmless") == plain.text
    for link in (*plain.links, *hostile.links):
        assert urlsplit(link).scheme in ("", "data")
        assert not link.startswith("/")


def test_nothing_in_an_experiment_is_markup_in_its_summary(experiment):
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    signs = HOSTILE + "\n\n# | a\\| b\r\n```\n- *b* _c_ ~~d~~ `e` [f](javascript:g) ![h](i) <j> &copy; $k$ \\"

    def seen(text: str) -> Seen:
        found, made, _ = somebodys(experiment, text, ablation=True)
        several = {f"one{text}": found, f"two{text}": found}
        starts = tables.bullets([f"{start}{text}" for start in ("- ", "+ ", "1. ", "# ", "> ", "---", "    ")])
        parts = [tables.markdown(found, made, f"title{text}"), studies.markdown(several), *starts]
        return Seen(reader.render("\n".join(parts)))

    plain, hostile = seen("harmless"), seen(signs)
    assert hostile.tags == plain.tags
    assert hostile.text.count(" ".join(signs.split())) == plain.text.count("harmless") > 40
    assert [escaping.markdown(name) for name in ORDINARY] == list(ORDINARY)


def test_nothing_in_an_experiment_is_a_command_in_its_tex(experiment):
    found = results(experiment)
    names = [r"\input{/etc/passwd}", "[1cm] a & b \\\\ % c\n\nd", "* $x^^M$ #1 ~_<>|"]
    found = found.model_copy(update={"models": dict.fromkeys(names, found.models["gru"])})
    rows = [line.partition(" & ")[0] for line in tables.latex(found).splitlines()[4:-2]]
    assert rows == [
        r"\textbackslash{}input\{/etc/passwd\}",
        r"{[}1cm{]} a \& b \textbackslash{}\textbackslash{} \% c d",
        r"{*} \$x\textasciicircum{}\textasciicircum{}M\$ \#1 \textasciitilde{}\_\textless{}\textgreater{}\textbar{}",
    ]
    assert len(tables.latex(found).splitlines()) == 9


def test_no_name_of_a_model_leads_out_of_the_directory(experiment):
    found = results(experiment)
    names = {"gru": "x/../../../escaped", "rnn": "/y\\z\n"}
    found = found.model_copy(update={"models": {names[name]: model for name, model in found.models.items()}})
    made = set(figures.figures(found))
    assert "curves_x%2F..%2F..%2F..%2Fescaped.png" in made
    assert len(made) == 7
    assert [name for name in made if re.search(r"[/\\\s]", name)] == []


def test_names_that_experiments_accept_are_in_the_names_of_figures_without_commas():
    for name in (*(name for name in ORDINARY if config.NAME.fullmatch(name)), "x" * 200):
        assert file_name(name) == name.replace(",", "__")
    long = {file_name("/" * 300 + end) for end in "ab"}
    assert len(long) == 2
    assert max(map(len, long)) < 100


@pytest.mark.parametrize("leads", ["../other", "link"])
def test_no_name_of_a_study_leads_out_of_the_directory(experiment, tmp_path, leads):
    other, directory = tmp_path / "other", tmp_path / "studies"
    other.mkdir()
    directory.mkdir()
    (directory / "link").symlink_to(other)
    for name in ("results.json", "experiment.json"):
        shutil.copy(experiment / name, other)
    with pytest.raises(DataError, match="leads out of"):
        write_reports(directory, {leads: directory / leads})
    assert {path.name for path in other.iterdir()} == {"results.json", "experiment.json"}


# In a browser.


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_a_browser_draws_it_and_the_charts_respond(experiment, open_page, width, scheme):
    view = open_page(experiment / "report.html", width, scheme)
    refuse_clipped(view)
    count = view.locator
    assert count("#curves polyline[data-model]").count() == 2
    assert count("#curves polyline.seed").count() == 6
    assert count("#comparison circle").count() == 6
    tip = count("#tip")
    count("#curves rect").hover(position={"x": 60, "y": 60})
    assert re.match(r"epoch \d: gru \d+\.\d\d %", tip.inner_text())
    count("#comparison circle").first.dispatch_event("pointerdown")  # a finger is enough
    assert re.match(r"gru, seed 0: \d+\.\d\d %", tip.inner_text())
    count("td[data-tip]").first.dispatch_event("pointerdown")
    assert re.match(r"95 % CI \d+\.\d\d to \d+\.\d\d", tip.inner_text())
    count("#models button").nth(1).click()
    assert count("#curves polyline[data-model]").count() == 1
    count("#metric").select_option("train_loss")
    assert "loss" in count("#curves svg").text_content()
    ground = view.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(13, 17, 23)" if scheme == "dark" else "rgb(255, 255, 255)")


def test_an_interval_that_is_cut_off_on_one_side_is_drawn_so():
    """An accuracy cannot be above 100 %: the two halves of its interval differ."""
    axes = style.new_figure(3, 2).subplots()
    figures.draw_interval(axes, Summary((0.9, 1.0), 0.97, 0.02, 0.91, 1.0), 0, 100, "k", 7.0)
    ends = axes.containers[0].lines[2][0].get_segments()[0][:, 0]
    assert ends.tolist() == pytest.approx([91, 100])


def test_what_begins_a_block_of_markdown_is_text_in_a_list():
    starts = ("- ", "+ ", "* ", "1. ", "12) ", "# ", "> ", "--- ", "``` ", "~~~ ", "| ")
    shown = MarkdownIt("commonmark").render("\n".join(tables.bullets([f"{start}x" for start in starts])))
    assert Seen(shown).tags == [("ul",), *[("li",), "/li"] * len(starts), "/ul"]
