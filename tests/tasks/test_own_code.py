"""Tasks in files of the user's: named as cells are, executed where they are named and nowhere else, checked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import gatelab
from gatelab import tasks
from gatelab.analysis import inspect, subject
from gatelab.errors import DataError
from gatelab.training import ModelSpec, Run, RunSpec, TrainingSpec, train
from gatelab.training.verify import verify

WALK = '''
"""A file of the user's."""
from pathlib import Path

import numpy as np
import torch
from pydantic import Field

from gatelab.tasks import Examples, Parts, Task

with (Path(__file__).parent / "executed").open("a") as log:
    log.write("once\\n")


class Walk(Task):
    """Whether a random walk ends above 0."""

    length: int = Field(8, ge=2, description="steps of the walk")

    @property
    def classes(self):
        return ("below", "above")

    @property
    def input_size(self):
        return 1

    @property
    def steps(self):
        return self.length

    @property
    def sizes(self):
        return (80, 20, 20)

    def load(self):
        random = np.random.RandomState(self.seed)
        x = torch.from_numpy(random.standard_normal((120, self.length, 1)).astype(np.float32))
        y = (x.sum((1, 2)) > 0).long()
        return Parts(*(Examples(x[a:b], y[a:b]) for a, b in ((0, 80), (80, 100), (100, 120))))
'''


def walk_file(folder: Path, text: str = WALK, name: str = "walks.py") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def executions(folder: Path) -> int:
    log = folder / "executed"
    return len(log.read_text().splitlines()) if log.is_file() else 0


def spec(task: object) -> RunSpec:
    return RunSpec(task=task, model=ModelSpec(hidden_size=4), training=TrainingSpec(num_epochs=2, threads=1))


def test_a_task_in_a_file_is_a_task(tmp_path, cli):
    path = walk_file(tmp_path)
    task = tasks.get(f"{path}:Walk:length=5")
    assert (task.length, task.steps, task.sizes) == (5, 5, (80, 20, 20))
    assert task == tasks.get(f"{path}:Walk", length=5)
    code, out, _ = cli("tasks", f"{path}:Walk:length=6", "--show", tmp_path / "walk.png")
    assert code == 0
    assert "Whether a random walk ends above 0." in out
    assert "length=6" in out
    assert (tmp_path / "walk.png").stat().st_size > 5000
    assert executions(tmp_path) == 1


FIELDS = [
    (
        "Examples(x[a:b], y[a:b], y[a:b])",
        r"walks\.py, line \d+: .* takes 3 positional arguments but 4 were",
    ),
    ("Examples(x[a:b].numpy(), y[a:b])", "stored of Examples is ndarray: expected a tensor"),
    ("Examples(x[a:b], list(y[a:b]))", "targets of Examples is list: expected a tensor"),
    ("Examples(x[a : b - 1], y[a:b])", "Examples has 79 sequences and 80 targets"),
    ("Examples(x[a:b], y[a:b], encoding=y)", "encoding of Examples is Tensor: expected an encoding"),
    ("Examples(x[a:b], y[a:b], per_step=True)", "per_step of Examples is True: expected False"),
    (
        "Examples(x[a:b], y[a:b], lengths=[8] * (b - a))",
        r"lengths of Examples is \[8, .*: expected 80 integers",
    ),
    ("Examples(x[a:b], y[a:b], lengths=y[a:b] + 8)", "expected 80 integers from 1 to 8, a tensor of int64"),
    ("Examples(x[a:b], y[a:b], lengths=y[a:b])", "expected 80 integers from 1 to 8"),
    ("Examples(x[a:b], y[a:b, None].float())", "from classes, output_size and per_step of the task"),
    ("Examples(x[a:b, :, 0], y[a:b])", "from steps, input_size and vocabulary of the task"),
]


@pytest.mark.parametrize(("examples", "message"), FIELDS)
def test_wrong_examples_are_refused_in_words(tmp_path, examples, message):
    path = walk_file(tmp_path, WALK.replace("Examples(x[a:b], y[a:b])", examples))
    with pytest.raises(DataError, match=message):
        tasks.get(f"{path}:Walk").parts  # noqa: B018


def test_lengths_are_given_as_the_docs_say(tmp_path):
    text = WALK.replace("Examples(x[a:b], y[a:b])", "Examples(x[a:b], y[a:b], lengths=3 + 2 * y[a:b])")
    _, y, lengths = tasks.get(f"{walk_file(tmp_path, text)}:Walk").train.first(9)
    assert torch.equal(lengths, 3 + 2 * y)


def test_opening_a_run_executes_nothing_and_resuming_it_only_what_is_named(tmp_path, cli):
    path = walk_file(tmp_path)
    code, out, err = cli("train", "--task", f"{path}:Walk:length=5", "--hidden-size", 4, "--epochs", 1, "--set",
                         "training.threads=1", "--output-dir", tmp_path / "run")  # fmt: skip
    assert code == 0, out + err
    before = executions(tmp_path)
    path.write_text(path.read_text() + "\n# changed, so that it would be executed again\n")
    run = Run(tmp_path / "run")
    assert run.spec().task.options()["length"] == 5
    x = torch.randn(3, 5, 1).numpy()
    assert gatelab.load(run.path).predict(x).shape == (3,)
    assert len(subject.load(run.path).task.test) == 20  # the examples that the run has kept
    assert cli("verify", run.path)[0] == 0
    code, _, err = cli("train", "--resume", run.path, "--epochs", 2)
    assert code == 2
    assert f"name the file again, and it is executed: --task {path}:Walk" in err
    assert executions(tmp_path) == before
    code, out, err = cli("train", "--resume", run.path, "--epochs", 2, "--task", f"{path}:Walk")
    assert code == 0, err
    assert executions(tmp_path) == before + 1
    moved = walk_file(tmp_path / "elsewhere")
    code, out, err = cli("train", "--resume", run.path, "--epochs", 3, "--task", f"{moved}:Walk")
    assert code == 0, err  # the same class elsewhere has the same data
    other = walk_file(tmp_path / "other", WALK.replace("> 0)", "> 1)"))
    code, _, err = cli("train", "--resume", run.path, "--epochs", 4, "--task", f"{other}:Walk")
    assert code == 2
    assert "data" in err


def test_a_comparison_uses_the_task_in_its_workers(tmp_path, cli):
    path = walk_file(tmp_path)
    code, out, err = cli("bench", "--task", f"{path}:Walk", "--cells", "gru,rnn", "--hidden-size", 3, "--epochs", 1,
                         "--runs", 1, "--output-dir", tmp_path / "bench")  # fmt: skip
    assert code == 0, out + err
    assert "walks.py:Walk" in out
    path.unlink()
    assert cli("report", tmp_path / "bench")[0] == 0


def test_a_class_can_be_used_without_its_file(tmp_path):
    scope: dict = {"__file__": str(tmp_path / "walks.py"), "__name__": "walks"}
    exec(compile(WALK, scope["__file__"], "exec"), scope)
    outcome = train(spec(scope["Walk"](length=6)), tmp_path / "run")
    assert outcome.status == "done"
    assert Run(tmp_path / "run").spec().task.name.endswith(":Walk")
    assert train(spec(scope["Walk"](length=6)), tmp_path / "run").status == "done"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("class Walk(Task)", "class Other(Task)"), r"unknown task in .*walks\.py .*'Walk'.*known: Other"),
        (("    def load(self)", "    def loaded(self)"), "does not define load"),
        (("return Parts(*(", "return list(("), "load returned list: expected Parts"),
        (("> 0).long()", "> 0).float()"), r"training set: y of a batch is torch.float32 .*: expected torch.int64"),
        (("> 0).long()", "> 0).long() + 1"), "y is from 1 to 2: expected classes 0 to 1"),
        (("astype(np.float32))", "astype(np.float64))"), r"x of a batch is torch.float64"),
        (("(120, self.length, 1)", "(120, 3, 1)"), r"x of a batch is .*shape \(2, 3, 1\): expected .*\(2, 8, 1\)"),
        (("return (80, 20, 20)", "return (800, 20, 20)"), r"load returned \(80, 20, 20\) examples: expected \(800, 20"),
        (("y = (x.sum", "x[70, 3] = torch.nan; y = (x.sum"), "training set: x has NaN or infinity"),
        (("random.standard_normal", "random.no_such_thing"), r"walks\.py, line 38: .*could not load its data: Attrib"),
        (("random = np", "x = 1 / 0; random = np"), "could not load its data: ZeroDivisionError"),
        (("import numpy as np", "import no_such_module"), "could not be executed: ModuleNotFoundError"),
        (("class Walk", "class Walk:\n  oops oops\nclass Walk"), "could not be executed: SyntaxError"),
    ],
)
def test_what_is_wrong_with_a_task_is_said_in_words(tmp_path, change, message):
    path = walk_file(tmp_path, WALK.replace(*change))
    with pytest.raises(ValueError, match=message):
        tasks.get(f"{path}:Walk").load()
    assert not [name for name in sys.modules if name.startswith("no_such")]


def test_files_are_named_with_what_they_define(tmp_path):
    path = walk_file(tmp_path)
    with pytest.raises(ValueError, match="is a file: name what it defines"):
        tasks.get(str(path))
    with pytest.raises(ValueError, match="there is no file"):
        tasks.get(f"{tmp_path}/none.py:Walk")


def test_a_recorded_task_says_what_it_lacks(tmp_path):
    train(spec(f"{walk_file(tmp_path)}:Walk"), tmp_path / "run")
    task = Run(tmp_path / "run").spec().task
    assert (task.steps, task.input_size, task.classes, task.per_step) == (8, 1, ("below", "above"), False)
    assert not task.is_here()
    for attempt in (task.load, lambda: task.with_options().preparation):
        with pytest.raises(DataError, match="is not in the run directory: name the file again"):
            attempt()


TOKENS = (
    WALK.replace("class Walk", "class Words")
    .replace("import Examples", "import Examples, TokenIndices")
    .replace(
        """    @property
    def input_size""",
        """    @property
    def vocabulary(self):
        return ("a", "b", "c")

    @property
    def input_size""",
    )
    .replace("return 1\n", "return 3\n")
    .replace(
        "x = torch.from_numpy(random.standard_normal((120, self.length, 1)).astype(np.float32))",
        "x = torch.from_numpy(random.randint(0, 3, (120, self.length)))",
    )
    .replace("(x.sum((1, 2)) > 0)", "(x.sum(1) > self.length)")
)
TOKENS = TOKENS.replace("y[a:b])", "y[a:b], encoding=TokenIndices())")


@pytest.mark.parametrize("embedding_size", [None, 2])
def test_tokens_of_ones_own_are_kept_and_predicted(tmp_path, embedding_size):
    path = walk_file(tmp_path, TOKENS, "words.py")
    task = tasks.get(f"{path}:Words")
    model = ModelSpec(hidden_size=4, embedding_size=embedding_size, engine="eager")
    run = train(RunSpec(task=task, model=model, training=TrainingSpec(num_epochs=1, threads=1)), tmp_path / "run").run
    assert run.preparation.vocabulary == ("a", "b", "c")
    assert all(finding.good for finding in verify(run))
    tokens = task.test.stored.numpy()
    expected = [task.classes[i] for i in run.predictions()["predictions"].argmax(1)]
    assert gatelab.load(run.path).predict(tokens).tolist() == expected
    assert len(inspect(run.path).reading.words) == 8
    wrong = walk_file(tmp_path, TOKENS.replace("randint(0, 3,", "randint(0, 5,"), "wrong.py")
    with pytest.raises(DataError, match="training set: x has tokens from 0 to 4: expected 0 to 2"):
        tasks.get(f"{wrong}:Words").load()
