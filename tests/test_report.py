"""Tables, figures and the page: right, whole, and drawn by a real browser without a network."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from typer.testing import CliRunner

from gatelab import style
from gatelab.cli import app
from gatelab.experiments import config
from gatelab.experiments.bench import bench
from gatelab.report import figures, page, tables
from gatelab.report.write import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr",
    "--virtual-time-budget=3000",
)  # fmt: skip


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


def results(experiment: Path) -> dict:
    return json.loads((experiment / "results.json").read_text())


def test_the_files_are_all_there(experiment):
    names = {path.name for path in experiment.iterdir()}
    assert {
        "results_summary.md", "results.json", "results.csv", "results_table.tex", "report.html", "training_curves.png",
        "accuracy_curves.png", "test_comparison.png", "curves_gru.png", "confusion_gru.png",
    } <= names  # fmt: skip


def test_the_tables_hold_the_numbers(experiment):
    found = results(experiment)
    mean, sd = (100 * found["models"]["gru"]["statistics"]["accuracy"][key] for key in ("mean", "sd"))
    summary = (experiment / "results_summary.md").read_text()
    assert f"{mean:.2f} ± {sd:.2f}" in summary
    assert "## What can be said" in summary
    rows = list(csv.DictReader(io.StringIO((experiment / "results.csv").read_text())))
    assert len(rows) == 6
    first = found["models"]["gru"]["runs"][0]
    assert float(rows[0]["accuracy"]) == first["metrics"]["accuracy"]
    tex = (experiment / "results_table.tex").read_text()
    assert rf"{mean:.2f} $\pm$ {sd:.2f}" in tex
    assert tex.count(r"\\") == 3
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert rule in tex


def test_the_figures_show_something(experiment):
    for path in experiment.glob("*.png"):
        pixels = matplotlib.image.imread(path)
        assert (pixels[..., :3].min(-1) < 0.6).mean() > 0.004, path.name


def test_a_run_that_is_missing_is_a_dash(experiment):
    found = results(experiment)
    found["models"]["gru"] |= {"statistics": {}, "counts": {"failed": 3}}
    assert "| gru | 0 of 3 | – |" in tables.markdown(found, {"command": "bench"}, "title")


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
    spoilt = {**results(experiment), "classes": ["</script><script>alert(1)", *"123456789"]}
    made = json.loads((experiment / "experiment.json").read_text())
    text = page.page(spoilt, made, [], "<b>bold</b> & more")
    assert "<title>&lt;b&gt;bold&lt;/b&gt; &amp; more</title>" in text
    assert text.count("</script>") == 2
    inside = re.search(r'id="data">(.*?)</script>', text, flags=re.DOTALL)[1]
    assert json.loads(inside)["classes"][0] == "</script><script>alert(1)"


def test_what_is_put_into_the_page_is_not_looked_through_for_gaps(experiment):
    made = json.loads((experiment / "experiment.json").read_text())
    made["spec"]["task"] |= {"path": "/home/someone/{{FACTS}}.csv"}
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
    made = json.loads((experiment / "experiment.json").read_text())
    made["spec"]["base"] = "gru"
    assert made["command"] == "bench"
    assert tables.arms(results(experiment), made) == []
    assert tables.arms(results(experiment), made | {"command": "ablate"})[1].startswith("rnn: cell rnn")


PROBE = """
<script>
addEventListener("error", (event) => { document.documentElement.dataset.error = event.message; });
</script>
"""
USE = """
<script>
const buttons = document.querySelectorAll("#models button"), root = document.documentElement.dataset;
root.lines = document.querySelectorAll("#curves polyline").length;
root.dots = document.querySelectorAll("#comparison circle").length;
document.querySelector("#curves rect").dispatchEvent(new PointerEvent("pointermove", { clientX: 300, clientY: 300 }));
root.tip = document.getElementById("tip").textContent;
const touched = (selector) => {
  const finger = new PointerEvent("pointerdown", { bubbles: true, pointerType: "touch" });
  document.querySelector(selector).dispatchEvent(finger);
  return document.getElementById("tip").textContent;
};
root.dotTip = touched("#comparison circle");
root.tableTip = touched("td[data-tip]");
buttons[1].click();
root.linesAfter = document.querySelectorAll("#curves polyline").length;
const metric = document.getElementById("metric");
metric.value = "train_loss";
metric.dispatchEvent(new Event("change"));
root.loss = document.querySelector("#curves svg").textContent.includes("loss");
root.wide = document.documentElement.scrollWidth > innerWidth + 1 ? "yes" : "no";
</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here (apt-get install chromium)")
@pytest.mark.parametrize("width", [1200, 400])
def test_a_browser_draws_it_and_it_answers(experiment, tmp_path, width):
    text = (experiment / "report.html").read_text()
    (tmp_path / "used.html").write_text(text.replace("<body>", "<body>" + PROBE).replace("</body>", USE + "</body>"))
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--window-size={width},1600", f"--user-data-dir={tmp_path}/profile", "--dump-dom",
         f"file://{tmp_path}/used.html"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    root = dict(re.findall(r'data-([a-z-]+)="([^"]*)"', done.stdout.partition(">")[2].partition("<head")[0]) or [])
    root |= dict(re.findall(r'data-([a-z-]+)="([^"]*)"', re.search(r"<html[^>]*>", done.stdout)[0]))
    assert "error" not in root
    assert root["drawn"] == "yes"
    assert (root["lines"], root["lines-after"], root["dots"]) == ("2", "1", "6")
    assert re.match(r"epoch \d: gru \d+\.\d\d %", root["tip"])
    assert re.match(r"gru, seed 0: \d+\.\d\d %", root["dot-tip"])  # a finger is enough
    assert re.match(r"95 % interval \d+\.\d\d to \d+\.\d\d", root["table-tip"])
    assert root["loss"] == "true"
    assert root["wide"] == "no"  # nothing makes the whole page scroll sideways
    assert "CONSOLE" not in done.stderr or "Uncaught" not in done.stderr
