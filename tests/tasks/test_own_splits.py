"""Splits that the data prescribes, and groups that stay together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatelab import tasks
from gatelab.data.formats import folders
from gatelab.data.reading import Reading
from gatelab.errors import DataError
from gatelab.estimators import holding_out
from gatelab.tasks.own import division
from gatelab.tasks.sampling import spared, split_groups, stream

RANDOM = np.random.RandomState(0)
X = RANDOM.normal(size=(60, 5, 2))
Y = np.arange(60) % 3


def npz(folder: Path, **more: object) -> Path:
    np.savez(folder / "d.npz", X=X, y=Y, **more)
    return folder / "d.npz"


def members(task: tasks.Task) -> list[set[int]]:
    return [set(indices.tolist()) for indices in task.indices]


@pytest.mark.parametrize(
    "names", [("train", "val", "test"), ("Training", "dev", "TEST"), ("train", "valid", "testing")]
)
def test_an_array_says_which_part(tmp_path, names):
    parts = RANDOM.choice(3, 60, p=[0.6, 0.2, 0.2])
    task = tasks.get("files", path=npz(tmp_path, split=np.array(names)[parts]))
    assert members(task) == [set(np.flatnonzero(parts == part).tolist()) for part in range(3)]
    assert task.describe().split == "by the array 'split'"
    mean = X[parts == 0].reshape(-1, 2).mean(0)
    np.testing.assert_allclose(task.scaling.mean, mean)  # fitted on that training set only


def test_without_validation_a_stratified_part_of_training_is_taken(tmp_path):
    parts = np.where(np.arange(60) < 40, "train", "test")
    task = tasks.get("files", path=npz(tmp_path, split=parts))
    train, validation, test = members(task)
    assert (len(train), len(validation), test) == (34, 6, set(range(40, 60)))
    assert train | validation == set(range(40))
    assert np.bincount(Y[list(validation)]).tolist() == [2, 2, 2]
    assert members(task.with_options(seed=1))[2] == test
    assert members(task.with_options(seed=1))[1] != validation
    assert "15 % of the training examples for validation, random, stratified by label" in task.describe().split


def test_arrays_named_after_their_part(tmp_path):
    path = tmp_path / "d.npz"
    np.savez(path, x_test=X[40:], y_test=Y[40:], x_train=X[:40], y_train=Y[:40])
    task = tasks.get("files", path=path)
    assert (len(task.indices[2]), task.sizes) == (20, (34, 6, 20))
    np.testing.assert_array_equal(task.content.values[task.indices[2]], X[40:])
    np.savez(path, X_train=X[:40], X_test=X[40:], y_train=Y[:40])
    with pytest.raises(DataError, match=r"y of train, test has the shapes \(40,\): expected one array for each part"):
        tasks.get("files", path=path).load()


@pytest.mark.parametrize(
    ("more", "options", "message"),
    [
        ({"split": np.full(60, "train")}, {}, "its split has no test examples: expected train and test"),
        ({"split": np.full(60, "test")}, {}, "its split has no training examples"),
        ({"split": np.arange(60) % 2}, {}, "sequence 0: the split is '0': expected train, validation"),
        ({"split": np.where(np.arange(60) < 9, "train", "tset")}, {}, "sequence 9: the split is 'tset'"),
        (
            {"split": np.full(9, "train")},
            {},
            r"split is <U5 of shape \(9,\): expected text or integers of shape \(60,\)",
        ),
        ({}, {"split": "fold"}, "has no array 'fold'; its arrays: X, y"),
        ({}, {"group": "who"}, "has no array 'who'; its arrays: X, y"),
        ({"who": np.arange(60) % 2}, {"group": "who"}, "has 2 groups: expected at least three"),
        (
            {"who": np.arange(60) // 20, "split": np.where(np.arange(60) < 30, "train", "test")},
            {"group": "who"},
            "the group '1' is in the training and test set: expected each group in one of them",
        ),
        (
            {"who": np.arange(60) // 30, "split": np.where(np.arange(60) < 30, "train", "test")},
            {"group": "who"},
            "has one group in the training set and no validation set",
        ),
    ],
)
def test_a_split_that_cannot_be_is_refused(tmp_path, more, options, message):
    with pytest.raises(DataError, match=message):
        tasks.get("files", path=npz(tmp_path, **more), **options).load()


def test_a_column_says_which_part_of_a_table(tmp_path):
    lines = [f"{i},{v},{'ab'[i % 2]},{'train' if i < 14 else 'test'}" for i in range(20) for v in range(3)]
    path = tmp_path / "t.csv"
    path.write_text("id,v,label,Set\n" + "\n".join(lines))
    task = tasks.get("files", path=path)
    assert members(task)[2] == set(range(14, 20))
    assert "by the column 'Set'" in task.describe().split
    path.write_text("id,v,label,Set\n" + "\n".join([*lines, "3,1,b,test"]))
    with pytest.raises(DataError, match="line 62: the sequence '3' has the part 'test' and 'train': expected one part"):
        tasks.get("files", path=path).load()
    path.write_text("id,v,label,fold\n" + "\n".join(line.replace("train", "one") for line in lines))
    assert tasks.get("files", path=path).content.parts is None  # another column, with other values
    with pytest.raises(DataError, match=r"line 2, column 'fold': the split is 'one': expected .*, found 'one', 'test'"):
        tasks.get("files", path=path, split="fold").load()


@pytest.mark.parametrize("values", ["012", "ABC"])
@pytest.mark.parametrize("layout", ["long", "wide", "series"])
def test_a_column_called_split_is_understood_refused_or_ignored(tmp_path, layout, values):
    head, line = {
        "long": ("id,v,label,Split", "{i},0.5,{c},{s}\n{i},0.7,{c},{s}"),
        "wide": ("label,t0,t1,t2,Split", "{c},0.5,0.6,0.7,{s}"),
        "series": ("v,Split", "0.5,{s}"),
    }[layout]
    path = tmp_path / "t.csv"
    lines = [line.format(i=i, c="ab"[i % 2], s=values[min(i // 12, 2)]) for i in range(36)]
    path.write_text("\n".join([head, *lines]))
    options = {"length": 2} if layout == "series" else {}
    message = (
        f"line 2, column 'Split': the split is '{values[0]}': expected train, .*, found '{values[0]}', .*split=none"
    )
    with pytest.raises(DataError, match=message):
        tasks.get("files", path=path, **options).load()
    content = tasks.get("files", path=path, split="none", **options).content
    assert (content.parts, content.ignored) == (None, ("Split",))
    assert content.columns == (("value",) if layout == "wide" else ("v",))
    np.savez(tmp_path / "d.npz", X=X, y=Y, split=np.arange(60) % 3)
    assert tasks.get("files", path=tmp_path / "d.npz", split="none").content.parts is None


def series(folder: Path, parts: list[str]) -> Path:
    path = folder / "s.csv"
    lines = [f"2024-01-01 {i // 60:02}:{i % 60:02},{np.sin(i):.3f},{part}" for i, part in enumerate(parts)]
    path.write_text("\n".join(["time,v,split", *lines]))
    return path


def test_a_series_has_its_own_boundaries(tmp_path):
    task = tasks.get("files", path=series(tmp_path, ["train"] * 50 + ["val"] * 20 + ["test"] * 30), length=4)
    assert (task.cuts, task.sizes) == ((0, 50, 70, 100), (46, 16, 26))
    values = task.content.values[:50, 0]
    np.testing.assert_allclose(task.scaling.mean, values.mean())
    scaled = (task.content.values[50:54, 0] - values.mean()) / values.std()
    np.testing.assert_allclose(task.validation.stored[0, :, 0], scaled, rtol=1e-5)
    assert (
        task.describe().split == "chronological, by the column 'split': validation from 2024-01-01 00:50:00, "
        "test from 2024-01-01 01:10:00; no window crosses a boundary"
    )
    without = tasks.get("files", path=series(tmp_path, ["train"] * 80 + ["test"] * 20), length=4)
    assert without.cuts == (0, 68, 80, 100)
    assert "the last 15 % of training for validation" in without.describe().split
    with pytest.raises(DataError, match="line 52: training after validation: expected one block of rows each"):
        tasks.get("files", path=series(tmp_path, ["train"] * 40 + ["val"] * 10 + ["train"] * 9 + ["test"] * 9)).load()
    with pytest.raises(DataError, match="the shortest part of its split has 5 steps: expected at least 10 for windows"):
        tasks.get("files", path=series(tmp_path, ["train"] * 90 + ["val"] * 5 + ["test"] * 50), length=9).load()


def test_folders_are_parts(tmp_path):
    for part, count in (("train", 9), ("test", 4)):
        for name in ("left", "right"):
            (tmp_path / part / name).mkdir(parents=True)
            for i in range(count):
                np.save(
                    tmp_path / part / name / f"{i}.npy", np.full((3 + i % 2, 1), float(part == "test")) + RANDOM.rand()
                )
    task = tasks.get("files", path=tmp_path)
    assert (task.classes, sum(task.sizes), task.sizes[2]) == (("left", "right"), 26, 8)
    assert (task.content.values[task.indices[2], 0] >= 1).all()
    assert "by the folders test and train" in task.describe().split
    for file in (tmp_path / "test" / "left").iterdir():
        file.unlink()
    with pytest.raises(DataError, match=r"left has 0 sequences .*: expected at least one"):
        tasks.get("files", path=tmp_path).load()


def test_parts_are_never_classes(tmp_path):
    for part in ("train", "test", "validation"):
        (tmp_path / part).mkdir()
        for i in range(4):
            np.save(tmp_path / part / f"{i}.npy", np.ones((3, 1)))
    message = r"has the parts test, train and validation, and no classes in them: expected .* test/CLASS/1\.csv; or, "
    with pytest.raises(DataError, match=message):
        tasks.get("files", path=tmp_path).load()
    for name in ("left", "right"):
        (tmp_path / "train" / name).mkdir()
        np.save(tmp_path / "train" / name / "1.npy", np.ones((3, 1)))
    with pytest.raises(DataError, match=r"test has no subfolders: expected one per class, as in the other parts"):
        tasks.get("files", path=tmp_path).load()
    (tmp_path / "extra").mkdir()
    with pytest.raises(DataError, match="has the folder 'extra' beside test, train and validation: expected the parts"):
        tasks.get("files", path=tmp_path).load()
    (tmp_path / "extra").rename(tmp_path / "train" / "up")
    read = folders.read(tmp_path, Reading(), need_label=False)  # for predictions, all files with or without a class
    assert (len(read.values), read.targets) == (14, None)


@settings(max_examples=25)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=3, max_size=25),
    seed=st.integers(0, 5),
    labelled=st.booleans(),
)
def test_groups_stay_together_near_the_wanted_sizes(sizes, seed, labelled):
    groups = np.repeat([f"g{i}" for i in range(len(sizes))], sizes)
    labels = np.arange(len(groups)) % 2 if labelled else None
    shares = (0.7, 0.15, 0.15)
    parts = split_groups(groups, labels, shares, stream(seed, "groups"))
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(groups)))
    held = [set(groups[part]) for part in parts]
    assert all(held)
    assert len(set.union(*held)) == sum(map(len, held))
    again = split_groups(groups, labels, shares, stream(seed, "groups"))
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    if len(sizes) >= 10:
        for part, share in zip(parts, shares, strict=True):
            assert abs(len(part) - share * len(groups)) <= 1.5 * max(sizes)


def test_speakers_stay_together(tmp_path):
    speakers = np.array([f"s{i}" for i in range(20)])[RANDOM.permutation(60) % 20]
    task = tasks.get("files", path=npz(tmp_path, who=speakers), group="who")
    held = [set(speakers[indices]) for indices in task.indices]
    assert [len(each) for each in held] == [14, 3, 3]
    assert len(set.union(*held)) == 20
    assert "whole groups (by 'who') stay together" in task.describe().split
    assert "14 training, 3 validation, 3 test groups" in task.describe().split
    assert task.indices[2].tolist() != task.with_options(seed=1).indices[2].tolist()
    split = np.where(np.isin(speakers, ["s0", "s1", "s2"]), "test", "train")
    own = tasks.get("files", path=npz(tmp_path, who=speakers, split=split), group="who")
    assert set(speakers[own.indices[2]]) == {"s0", "s1", "s2"}
    assert not set(speakers[own.indices[0]]) & set(speakers[own.indices[1]])


def test_validation_leaves_training_examples_of_every_class(tmp_path):
    """A class of one or two examples has them all in training; where most are so small, nothing is held out."""
    for sizes, held in (([1] * 18, 0), ([2] * 18, 0), ([3] * 18, 8), ([40, 40, 2, 1], 12), ([6, *[1] * 17], 0)):
        y = np.repeat(np.arange(len(sizes)), sizes)
        count, classes = len(y), np.arange(len(sizes))
        data = {"X": np.zeros((count + len(sizes), 5, 1)), "y": np.concatenate([y, classes])}
        np.savez(tmp_path / "few.npz", split=np.repeat(["train", "test"], [count, len(sizes)]), **data)
        for seed in range(6):
            task = tasks.get("files", path=tmp_path / "few.npz", seed=seed)
            train, validation, _ = task.indices
            assert sorted([*train, *validation]) == list(range(count))
            left = np.bincount(y[train], minlength=len(sizes))
            assert (left >= np.minimum(2, sizes)).all()
            assert held - 2 <= len(validation) <= held
            assert ("no validation set: it would take the last 2" in task.describe().split) == (not len(validation))
            names = holding_out.parts(count, 0.15, y, None, seed) if held else np.full(count, "train")
            assert held - 2 <= (names == "validation").sum() <= held  # the estimators' rule
    with pytest.warns(UserWarning, match="early_stopping holds nothing out"):
        assert set(holding_out.parts(18, 0.15, np.arange(18), None, 0)) == {"train"}


def test_groups_are_given_back_as_a_whole():
    labels, groups = np.array([0, 0, 0, 0, 1, 0, 1]), np.array([0, 0, 1, 1, 2, 2, 3])
    train, held = spared(np.array([0, 1]), np.array([2, 3, 4, 5]), labels, groups)
    assert train.tolist() == [0, 1, 4, 5]
    assert held.tolist() == [2, 3]
    alone = spared(np.array([0, 1]), np.array([2, 3, 4, 5]), labels)
    assert [part.tolist() for part in alone] == [[0, 1, 4], [2, 3, 5]]
    assert spared(np.array([0]), np.array([1, 2]), None)[1].tolist() == [1, 2]  # numbers have no classes


def test_no_more_groups_are_given_back_than_a_class_needs():
    """The first group has both of the examples of class 1 that are needed, so that the second one is held out."""
    labels, groups = np.array([0, 0, 1, 1, 1, 0, 0, 0, 0, 0]), np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    train, held = spared(np.arange(2), np.arange(2, 10), labels, groups)
    assert (train.tolist(), held.tolist()) == ([0, 1, 2, 3], [4, 5, 6, 7, 8, 9])


def test_groups_stay_together_where_classes_get_their_examples_back():
    groups, labels = np.repeat(np.arange(12), 4), np.zeros(48, np.int64)
    labels[[0, 1, 4, 5]] = [1, 1, 2, 2]  # two classes that are in one group each
    for seed in range(20):
        train, validation, _ = division.indices(48, labels, None, groups, seed, "file")
        assert not set(groups[train]) & set(groups[validation])


def test_a_class_that_is_never_trained_is_named(tmp_path):
    task = tasks.get("files", path=npz(tmp_path, split=np.where(Y == 2, "test", "train")))
    assert task.remarks()["caution"] == "no training examples of 2"


SENTENCE = "'fold' has train and test only, and is not used: split=fold splits by it, split=none does not"


@pytest.mark.parametrize("layout", ["long", "wide", "series", "npz"])
def test_a_split_of_another_name_is_not_passed_over_in_silence(tmp_path, layout):
    fold = ["train"] * 20 + ["test"] * 10
    path = tmp_path / ("t.npz" if layout == "npz" else "t.csv")
    if layout == "long":
        rows = [f"{i},{t},{i + t},{i % 2},{fold[i]},ann" for i in range(30) for t in range(4)]
        path.write_text("id,t,v,label,fold,who\n" + "\n".join(rows))
    elif layout == "wide":
        path.write_text("t0,t1,t2,label,fold\n" + "\n".join(f"{i},{i},1,{i % 2},{fold[i]}" for i in range(30)))
    elif layout == "series":
        path.write_text("v,fold\n" + "\n".join(f"{i % 7},{fold[i // 10]}" for i in range(300)))
    else:
        np.savez(path, X=np.ones((30, 4)), y=np.arange(30) % 2, fold=np.array(fold), more=np.ones((2, 2)))
    task = tasks.get("files", path=path, **({"length": 5} if layout == "series" else {}))
    assert task.remarks()["caution"] == SENTENCE
    assert "caution" not in task.with_options(split="none").remarks()
    if layout != "series":
        assert task.with_options(split="fold").sizes == (17, 3, 10)
        assert "caution" not in task.with_options(split="fold").remarks()


def test_a_column_of_parts_and_other_words_is_no_split(tmp_path):
    path = tmp_path / "t.csv"
    words = ["train", "bus", "test"]
    path.write_text("t0,t1,t2,label,by\n" + "\n".join(f"{i},{i},1,{i % 2},{words[i % 3]}" for i in range(30)))
    assert "caution" not in tasks.get("files", path=path).remarks()
    path.write_text("t0,t1,t2,label,by\n" + "\n".join(f"{i},{i},1,{i % 2},train" for i in range(30)))
    assert "caution" not in tasks.get("files", path=path).remarks()


def test_all_cautions_are_said(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{i},{i},1,{i % 2},{'train' if i < 20 else 'test'},{'ab'[i % 2]}" for i in range(30)]
    path.write_text("t0,t1,t2,label,fold,speaker\n" + "\n".join(rows))
    caution = tasks.get("files", path=path).remarks()["caution"]
    assert caution.startswith(f"{SENTENCE}; sequences of one speaker may be in training and test set")
