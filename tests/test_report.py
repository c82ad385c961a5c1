"""Tables, figures and the page: right, whole, and drawn by a real browser without a network."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import matplotlib.image
import numpy as np
import pytest
from markdown_it import MarkdownIt
from typer.testing import CliRunner

from gatelab import sealed, style
from gatelab.cli import app
from gatelab.errors import DataError
from gatelab.experiments import config
from gatelab.experiments.bench import bench
from gatelab.experiments.record import read_experiment
from gatelab.experiments.results import manifests as gathered
from gatelab.experiments.results import unfinished
from gatelab.report import escaping, figures, page, sections, tables, together
from gatelab.report.write import write_report, write_reports

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
    return sealed.read_json(experiment / "results.json")


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
    made = read_experiment(experiment)
    text = page.page(spoilt, made, [], "<b>bold</b> & more")
    assert "<title>&lt;b&gt;bold&lt;/b&gt; &amp; more</title>" in text
    assert text.count("</script>") == 2
    inside = re.search(r'id="data">(.*?)</script>', text, flags=re.DOTALL)[1]
    assert json.loads(inside)["classes"][0] == "</script><script>alert(1)"


def test_what_is_put_into_the_page_is_not_looked_through_for_gaps(experiment):
    made = read_experiment(experiment)
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
    made = read_experiment(experiment)
    made["spec"]["base"] = "gru"
    assert made["command"] == "bench"
    assert tables.arms(results(experiment), made) == []
    assert tables.arms(results(experiment), made | {"command": "ablate"})[1].startswith("rnn: cell rnn")


# An experiment that somebody else made: what its files say is text, whatever it looks like.


HOSTILE = (
    """'"></title></style></pre></script><script>alert(1)</script><img src=x onerror=alert(1)>&lt;{{ 7 * 7 }}{% x %}"""
)
LOOKED_UP = {"schedule", "loss", "monitor", "metric", "status", "place"}  # words that a report cannot be made without
NAMED = {"models", "equations", "numbers", "versions", "gate_bias"}  # maps whose keys are anybody's
ORDINARY = ("gru", "init_z=0,freeze=b.z+b.r", "a__b", "2.x-y_", "ähnlich.größer", "1.5", "+0.56", "–", "s/epoch")


def ending_in(text: str, value, key: str = ""):
    """A document with this text at the end of everything in it that is free to be any text."""
    if isinstance(value, dict):
        return {name + text * (key in NAMED): ending_in(text, inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [ending_in(text, inner, key) for inner in value]
    return value + text if isinstance(value, str) and key not in LOOKED_UP else value


def somebodys(experiment: Path, text: str, ablation: bool = False) -> tuple[dict, dict, list[dict]]:
    """Results, description and manifests with this text everywhere; also what only an ablation has, or a failed run."""
    made = read_experiment(experiment)
    made["spec"] |= {"base": "gru"}
    made["spec"]["task"] |= {"path": "/somewhere/"}
    made["models"]["gru"] |= {"gate_bias": {"z": 1.0}}
    made["numbers"]["gru"] = {f"own{text}": {"value": 1.0, "learned": True}}
    found = results(experiment)
    failed = {"seed": 9, "status": f"failed{text}", "reason": "why", "metrics": {}}
    found["models"]["gru"]["runs"].append(failed)
    effect = {"name": "z: 0 → 1", "difference": 0.1, "low": None, "high": None, "n": 3, "p_adjusted": None}
    found["effects"] = [effect]
    manifests = gathered(made, experiment)
    found, made, manifests = (ending_in(text, document) for document in (found, made, manifests))
    found["sentences"] += unfinished(found["models"])
    return found, made | {"command": "ablate"} if ablation else made, manifests


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
        return Seen(page.page(*somebodys(experiment, text, ablation), f"title{text}", b"\x89PNG" + bytes(20)))

    plain, hostile = seen("harmless"), seen(HOSTILE)
    assert (hostile.tags, hostile.scripts, hostile.links) == (plain.tags, plain.scripts, plain.links)
    fields = ["title", "gru", "rnn", "digits", "python", "scikit-learn", "10 / 20 %", "failed", "needed.", "(why"]
    fields += ["torch", "adam", "own", "⊙ n", "z: 0 → 1", *(() if ablation else ("gatelab bench",))]
    assert [field for field in fields if f"{field}{HOSTILE}" not in hostile.text] == []


def test_nothing_in_a_study_or_an_inspection_is_markup_in_its_page(experiment, tmp_path):
    (tmp_path / "studies.png").write_bytes(b"\x89PNG" + bytes(20))

    def seen(text: str) -> Seen:
        studies = {f"{name}{text}": somebodys(experiment, text)[0] for name in ("one", "javascript:alert(1)", "//host")}
        made = [*together.sections(studies, "studies.png"), sections.Section(text, [text], {}, [[text], [text]], text)]
        return Seen(sections.page(f"title{text}", f"facts{text}", made, tmp_path))

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
        found["sentences"] += [f"{start}{text}" for start in ("- ", "+ ", "1. ", "# ", "> ", "---", "    ")]
        studies = {f"one{text}": found, f"two{text}": found}
        return Seen(reader.render(tables.markdown(found, made, f"title{text}") + "\n" + together.markdown(studies)))

    plain, hostile = seen("harmless"), seen(signs)
    assert hostile.tags == plain.tags
    assert hostile.text.count(" ".join(signs.split())) == plain.text.count("harmless") > 40
    assert [escaping.markdown(name) for name in ORDINARY] == list(ORDINARY)


def test_nothing_in_an_experiment_is_a_command_in_its_tex(experiment):
    found = results(experiment)
    names = [r"\input{/etc/passwd}", "[1cm] a & b \\\\ % c\n\nd", "* $x^^M$ #1 ~_<>|"]
    found["models"] = dict.fromkeys(names, found["models"]["gru"])
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
    found["models"] = {names[model]: entry for model, entry in found["models"].items()}
    made = set(figures.figures(found))
    assert "curves_x%2F..%2F..%2F..%2Fescaped.png" in made
    assert len(made) == 7
    assert [name for name in made if re.search(r"[/\\\s]", name)] == []


def test_names_that_experiments_accept_are_in_the_names_of_figures_as_they_are():
    for name in (*(name for name in ORDINARY if config.NAME.fullmatch(name)), "x" * 200):
        assert escaping.file_name(name) == name
    long = {escaping.file_name("/" * 300 + end) for end in "ab"}
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
