"""Contract tests that run over every task."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch
from places import DOCS, TESTS

from gatelab import style, tasks
from gatelab.tasks import Examples, Task, pictures, series
from gatelab.tasks.baseline import persistence
from gatelab.tasks.examples import Parts
from gatelab.tasks.images import Published
from gatelab.tasks.preparation import Preparation
from gatelab.training import kept

CASES = [
    "digits",
    "digits:order=pixels,noise_pad=20",
    "digits:order=permuted,limit=200,seed=3",
    "mnist1d",
    "mnist1d:shuffled=true,seed=1",
    "sine:length=20,duration=400",
    "adding:size=200,length=30",
    "copy:size=200,pause=12",
    "recall:size=200,delay=12",
    "agreement:size=200",
    "mnist",
    "mnist:order=permuted,limit=1000,noise_pad=10",
    "fashion_mnist:order=pixels",
    "cifar10:order=pixels",
    "cifar10:color=rgb,limit=500",
    "files:path=series.csv,columns=temperature+wind,inputs=sun,length=10",
    "files:path=arrays.npz",
    "files:path=folder",
    "files:path=long.csv,group=speaker",
    "text:path=prose.txt",
]


@pytest.fixture(scope="module")
def user_files(tmp_path_factory) -> Path:
    """User files of every kind."""
    folder = tmp_path_factory.mktemp("user")
    random = np.random.RandomState(0)
    lines = [f"day {i},{random.normal():.4f},{random.normal():.4f},{i % 7}" for i in range(200)]
    (folder / "series.csv").write_text("\n".join(["day,temperature,wind,sun", *lines]))
    np.savez(
        folder / "arrays.npz", X=random.normal(size=(60, 9, 3)), y=np.array(["up", "down", "level"])[np.arange(60) % 3]
    )
    rows = [f"{i},s{i % 7},{random.normal():.4f},{'ab'[i % 2]}" for i in range(40) for _ in range(2 + i % 4)]
    (folder / "long.csv").write_text("\n".join(["id,speaker,value,label", *rows]))
    (folder / "prose.txt").write_text("".join("the cat sat.\n"[i] for i in random.randint(0, 13, 2500)))
    for name in ("left", "right"):
        (folder / "folder" / name).mkdir(parents=True)
        for i in range(12):
            values = random.normal(size=(5 + i, 2))
            if i % 2:
                np.save(folder / "folder" / name / f"{i}.npy", values)
            else:
                np.savetxt(folder / "folder" / name / f"{i}.csv", values, delimiter=",")
    return folder


@pytest.fixture(params=CASES)
def task(request, user_files) -> Task:
    task = tasks.get(request.param.replace("path=", f"path={user_files}/"))
    if not task.is_here():
        pytest.skip(f"{task.name} is not available: set GATELAB_DATA to a folder that has it")
    return task


def test_parts_have_the_described_shapes(task):
    assert tuple(len(part) for part in task.parts) == task.sizes
    for part in task.parts:
        x, y, lengths = part.batch(torch.arange(min(3, len(part))))
        assert x.dtype == (torch.int64 if task.vocabulary else torch.float32)
        steps = task.steps if lengths is None else int(lengths.max())  # a batch is padded to its longest sequence
        assert x.shape == ((len(x), steps) if task.vocabulary else (len(x), steps, task.input_size))
        assert x.isfinite().all()
        if lengths is not None:
            assert lengths.dtype == torch.int64
            assert ((lengths >= 1) & (lengths <= task.steps)).all()
        expected: tuple[int, ...] = (len(x), steps) if task.per_step else (len(x),)
        if task.classes is None:
            assert y.dtype == torch.float32
            assert y.shape == (*expected, task.output_size)
        else:
            assert y.dtype == torch.int64
            assert y.shape == expected
            assert task.output_size == len(task.classes)
            assert ((part.targets >= 0) & (part.targets < len(task.classes))).all()


def test_preparation_and_kept_examples_agree_with_the_task(task, tmp_path):
    """After writing and reading, as a run does."""
    prepared = task.preparation
    read = Preparation.read(json.loads(json.dumps(prepared.document())), "here")
    assert read == prepared
    assert (read.input_size, read.steps, read.output_size) == (task.input_size, task.steps, task.output_size)
    assert (read.per_step, read.forecasts, read.classes) == (task.per_step, task.forecasts, task.classes)
    assert read.scored_steps == task.scored_steps
    kept.write(tmp_path, kept.examples(task))
    path = tmp_path / kept.FILE
    if task.from_disk and not getattr(task, "noise_pad", 0):
        parts = kept.parts(path, read)
        for ours, theirs in ((parts.test, task.test), (parts.validation, task.validation)):
            mine, full = ours.first(5), theirs.first(5)
            assert torch.equal(mine.x, full.x)
            assert torch.equal(mine.y, full.y)
            assert (mine.lengths is None) == (full.lengths is None)
    if task.forecasts:
        ending = kept.ending(path, read)
        scaled = torch.from_numpy(read.scaling.apply(ending.values))
        assert torch.equal(scaled[-1, : task.output_size], task.test.targets[-1, -1])
        assert len(scaled) == task.steps
    assert path.exists() == (task.forecasts or (task.from_disk and not getattr(task, "noise_pad", 0)))


def test_the_same_options_give_the_same_data_and_another_seed_does_not(task):
    again = task.with_options()
    other = task.with_options(seed=task.seed + 1)
    for mine, same in zip(task.parts, again.parts, strict=True):
        assert fingerprint(mine) == fingerprint(same)
    if task.streams() is None or task.synthetic:  # a series or a text is split by position, not at random
        assert fingerprint(task.train) != fingerprint(other.train)


def test_no_example_is_in_two_parts(task):
    seen = [{row.numpy().tobytes() for row in part.stored} for part in task.parts]
    if isinstance(task, Published):
        pytest.skip("published sets have a few duplicate images; test_images.py checks that each is used once")
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]
    assert not seen[1] & seen[2]


SCALED = ("digits", "mnist", "fashion_mnist", "mnist1d", "sine", "files")


def test_scaling_is_fitted_on_the_training_set(task):
    """Only over the training set is the mean exactly 0 and the deviation 1."""
    if task.name not in SCALED:
        pytest.skip("scaling is not fitted to the data")
    x, _, lengths = task.train.first(60_000)
    if task.forecasts:  # windows overlap: unroll them into the series
        x = torch.cat([x[:, 0], x[-1, 1:], task.train.targets[-1, -1:].new_zeros(0, x.shape[2])])
        last = torch.cat([task.train.targets[-1, -1], x[-1, task.output_size :] * float("nan")])
        values = torch.cat([x, last[None]])[:, : task.output_size]
    else:
        x = x[:, : x.shape[1] - getattr(task, "noise_pad", 0)]
        inside = torch.ones(x.shape[:2], dtype=torch.bool)
        if lengths is not None:
            inside = torch.arange(x.shape[1]) < lengths[:, None]
        values = x[inside] if task.name == "files" else x[inside].flatten()[:, None]
    torch.testing.assert_close(values.double().mean(0), torch.zeros(values.shape[1]).double(), atol=2e-6, rtol=0)
    torch.testing.assert_close(
        values.double().std(0, correction=0), torch.ones(values.shape[1]).double(), atol=1e-6, rtol=0
    )


def test_description_has_all_facts(task):
    description = task.describe()
    text = str(description)
    for fact in (
        task.name,
        f"{task.steps:,} steps",
        f"{task.sizes[0]:,} training",
        description.source,
        "trivial baseline",
    ):
        assert fact in text
    assert description.summary.endswith((".", "?"))
    assert description.baseline is not None
    if description.baseline.metric == "accuracy":
        assert 0 <= description.baseline.value <= 1
    else:
        assert description.baseline.value > 0
    assert all(field.description for field in type(task).model_fields.values())


def with_answers(name: str, train: list, test: list, lengths: list | None = None) -> Task:
    """A task whose answers to learn from and to be judged by are these; nothing is learned from its inputs."""

    def part(answers: list, ends: list | None = None) -> Examples:
        targets = torch.tensor(answers)
        return Examples(targets, targets, lengths=None if ends is None else torch.tensor(ends))

    task = tasks.get(name)
    return task.reopened(task.preparation, Parts(part(train, lengths), part(test), part(test)))


def test_the_baseline_of_classes_is_the_commonest_of_training():
    """Not of the test part, which nobody may look at before: there it would be right more often."""
    baseline = with_answers("recall", train=[3, 3, 3, 2, 2], test=[2, 2, 2, 3]).baseline()
    assert (baseline.metric, baseline.value) == ("accuracy", 0.25)
    assert baseline.rule == "majority class of the training set, 'D'"


def test_the_baseline_of_numbers_is_the_mean_of_training():
    baseline = with_answers("adding", train=[[1.0], [3.0]], test=[[5.0], [6.0]]).baseline()
    assert (baseline.metric, baseline.value) == ("mse", pytest.approx((3**2 + 4**2) / 2))


def test_the_baseline_at_every_step_leaves_out_what_lies_beyond_an_end():
    """Of the training answers the last two are scored; of the first of them one is inside its sequence."""
    train = [[0, 0, 0, 0, 1, 2], [0, 0, 0, 0, 1, 3], [0, 0, 0, 0, 2, 2]]
    task = with_answers("copy:length=2,pause=2,symbols=4", train, [[2, 2, 2, 2, 1, 1], [2, 2, 2, 2, 1, 2]], [5, 5, 5])
    assert task.baseline().value == 0.75  # always 1; over all steps it would be 0, over all scored ones 2


def test_picture_is_not_empty(task, tmp_path):
    style.save(task.picture(), tmp_path / "picture.png")
    pixels = matplotlib.image.imread(tmp_path / "picture.png")
    assert pixels.shape[0] > 300
    assert pixels.shape[1] > 1000
    assert (pixels[..., :3].min(-1) < 0.5).mean() > 0.003  # not an empty figure
    with pytest.raises(ValueError, match=r"expected a name that ends in \.png"):
        style.save(task.picture(), tmp_path / "picture.gif")


def test_every_task_has_a_case_and_a_row_in_the_docs():
    assert {case.partition(":")[0] for case in CASES} == set(tasks.names())
    docs = (DOCS / "tasks.md").read_text()
    for name in tasks.names():
        assert f"`{name}`" in docs
        for option in tasks.find(name).model_fields:
            assert f"`{option}`" in docs, f"{name}'s {option} is not in docs/tasks.md"


def test_one_error_lists_all_invalid_options():
    with pytest.raises(ValueError, match=r"did you mean 'order'.*") as raised:
        tasks.get("mnist", ordr="pixels", limit=2, seed=-1)
    lines = str(raised.value).splitlines()
    assert len(lines) == 3
    assert any("limit is 2" in line for line in lines)
    with pytest.raises(ValueError, match="unknown task 'mnits'; did you mean 'mnist'"):
        tasks.get("mnits")
    with pytest.raises(ValueError, match="cannot be parsed at 'pixels'"):
        tasks.get("mnist:pixels")
    with pytest.raises(ValueError, match="'limit' of the task 'mnist' is given twice"):
        tasks.get("mnist:limit=100", limit=200)
    with pytest.raises(ValueError, match="'path' is required"):
        tasks.get("files")
    with pytest.raises(ValueError, match="'limit' is given twice in 'digits:limit=10,limit=20'"):
        tasks.get("digits:limit=10,limit=20")
    with pytest.raises(ValueError, match="to name a file, write files:path=FILE"):
        tasks.get("files:weather.csv")
    with pytest.raises(ValueError, match=r"to use it as a task, write files:path="):
        tasks.get(str(TESTS))
    with pytest.raises(ValueError, match="did you mean 'order'"):
        tasks.get("digits").with_options(ordr="rows")


def test_data_that_is_generated_is_marked_as_synthetic():
    synthetic = {name for name in tasks.names() if tasks.find(name).synthetic}
    assert synthetic == {"sine", "adding", "copy", "recall", "agreement", "mnist1d"}


@pytest.mark.parametrize("length", [2, 7, 20, 50])
def test_example_windows_of_a_series_do_not_overlap(length):
    """Not even in the shortest series."""
    task = tasks.get("sine", length=length, duration=max(20, series.least_steps(length)))
    starts = pictures.spread_indices(task)
    assert (starts.diff() >= length).all()
    drawn = [axes.lines[0].get_ydata() for axes in task.picture().axes]
    for line, start in zip(drawn, starts, strict=True):
        np.testing.assert_array_equal(line, task.train.stored[start, :, 0])


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_many_features_are_a_heat_map_with_the_first_at_the_bottom(tmp_path, kind):
    X = np.random.RandomState(0).normal(size=(30, 9, 6))
    np.savez(tmp_path / "d.npz", X=X, y=np.arange(30) % 2 if kind == "classes" else X.mean((1, 2)))
    axes = tasks.get("files", path=tmp_path / "d.npz").picture().axes[0]
    assert (axes.images[0].origin, axes.images[0].get_array().shape) == ("lower", (6, 9))
    assert axes.get_ylabel() == "feature"
    image = tasks.get("digits").picture().axes[-1]
    assert (image.images[0].origin, image.get_ylabel()) == ("upper", "feature")


def test_tasks_are_values():
    one, same, other = tasks.get("digits:limit=100"), tasks.get("digits", limit=100), tasks.get("digits")
    assert one.parts
    assert same.parts
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert {one: 1}[same] == 1
    with pytest.raises(ValueError, match="frozen"):
        tasks.get("digits").limit = 5


def fingerprint(part) -> str:
    x, y, _ = part.batch(torch.arange(min(300, len(part))))
    return hashlib.sha256(x.numpy().tobytes() + y.numpy().tobytes()).hexdigest()


def test_persistence_is_scored_on_all_windows_whatever_the_blocks():
    task = tasks.get("sine:duration=600,length=20")
    whole = persistence(task)
    for block in (7, 1000):
        assert persistence(task, block).value == pytest.approx(whole.value, rel=1e-6)
    assert whole.by_column == pytest.approx([whole.value])


def test_persistence_of_two_equal_columns_is_that_of_one():
    values = np.sin(np.arange(300) / 4)
    one, two = (persistence(tasks.from_arrays(np.stack([values] * count, 1), length=12)) for count in (1, 2))
    assert two.value == pytest.approx(one.value)
    assert two.by_column == pytest.approx([one.value] * 2)


def test_a_series_drifts_if_one_of_its_columns_does():
    steady, rising = np.tile([0.0, 1.0], 50), np.arange(100.0)
    assert series.outside_training_range(np.stack([steady, rising], 1), 2) == 1
    assert series.outside_training_range(np.stack([steady, rising], 1), 1) == 0
