"""User files: valid ones are read exactly, invalid ones raise a clear error, and none is modified."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gatelab import tasks
from gatelab.data.formats import csv_files
from gatelab.errors import DataError


def series_file(folder: Path, rows: int = 200, header: str = "day,a,b") -> Path:
    lines = [f"day {i},{np.sin(i / 5):.6f},{i * 1000}" for i in range(rows)]
    path = folder / "series.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_a_series_is_read_scaled_and_split_chronologically(tmp_path):
    task = tasks.get("files", path=series_file(tmp_path), columns="a", inputs="b", length=5)
    assert (task.input_size, task.output_size, task.steps, task.per_step) == (2, 1, 5, True)
    assert task.sizes == (135, 25, 25)
    x, y, _ = task.train.first(135)
    assert torch.equal(x[:, 1:, :1], y[:, :-1])
    a = np.round(np.sin(np.arange(200) / 5), 6)
    expected = (a - a[:140].mean()) / a[:140].std()
    np.testing.assert_allclose(x[0, :, 0], expected[:5], rtol=1e-5)
    np.testing.assert_allclose(task.test.first(1).x[0, :, 0], expected[170:175], rtol=1e-5)
    np.testing.assert_allclose(task.target_scaling.undo(y[0].numpy().astype(float))[:, 0], a[1:6], rtol=1e-5)
    both = tasks.get("files", path=series_file(tmp_path), length=5)
    assert both.output_size == 2  # by default all numeric columns are forecast; days are not numeric


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("header", [True, False])
def test_separators_and_headers_of_csv(tmp_path, separator, header):
    path = tmp_path / "table.csv"
    lines = [separator.join([str(i), f"{i / 3:.4f}"]) for i in range(80)]
    path.write_bytes(("﻿" + "\r\n".join(([f'"time of day"{separator}v'] if header else []) + lines + [""])).encode())
    task = tasks.get("files", path=path, length=3, columns="v" if header else "2")
    np.testing.assert_allclose(task.content.values[:, 0], [float(f"{i / 3:.4f}") for i in range(80)])


@pytest.mark.parametrize(
    ("lines", "header", "names", "first", "count"),
    [
        ("{i},{v}", None, ("1", "2"), [0, 0.5], 60),
        ("2026-01-{i},{v},{i}", None, ("2", "3"), [0.5, 0], 60),  # dates and no header
        (",a,b\n{i},{v},{i}", None, ("a", "b"), [0.5, 0], 60),  # an unnamed index is ignored
        (",,a\n{i},{i},{v}", None, ("a",), [0.5], 60),  # and so are several
        ("t;a\n{i};{v}", None, ("a",), [0.5], 60),  # a column that counts is time
        ("x;a\n{i};0,5", None, ("x", "a"), [0, 0.5], 60),  # decimal commas
        ("{i};0,5", None, ("1", "2"), [0, 0.5], 60),
        ("{i} {v}", None, ("1", "2"), [0, 0.5], 60),  # as written by numpy.savetxt
        ("0,1\n{i},{v}", True, ("0", "1"), [0, 0.5], 60),  # numeric column names need header=True
        ("0,1\n{i},{v}", None, ("1", "2"), [0, 1], 61),
        ("a,b\n{i},{v}\n\n", None, ("a", "b"), [0, 0.5], 60),  # empty lines at the end
    ],
)
def test_headers_and_separators_are_detected(tmp_path, lines, header, names, first, count):
    head, _, line = lines.rstrip("\n").rpartition("\n")
    body = "\n".join(line.format(i=i, v=i + 0.5) for i in range(60))
    path = tmp_path / "t.csv"
    path.write_text((head + "\n" if head else "") + body + "\n" * lines.endswith("\n\n"))
    content = tasks.get("files", path=path, length=2, header=header).content
    assert content.columns == names
    assert content.values[0].tolist() == first
    assert len(content.values) == count


def test_ignored_columns_are_named(tmp_path):
    description = str(tasks.get("files", path=series_file(tmp_path), columns="b", length=5).describe())
    assert "forecast: b; ignored: day, a" in description


def test_parquet_is_read_too(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet as pq

    table = pa.table({"when": [f"day {i}" for i in range(90)], "v": list(range(90)), "w": [i / 7 for i in range(90)]})
    pq.write_table(table, tmp_path / "t.parquet")
    task = tasks.get("files", path=tmp_path / "t.parquet", columns="w+v", length=4)
    np.testing.assert_allclose(task.content.values, np.stack([np.arange(90) / 7, np.arange(90)], -1))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match=r"bad\.parquet cannot be read as Parquet"):
        tasks.get("files", path=tmp_path / "bad.parquet").sizes  # noqa: B018
    gap = pa.table({"v": [1.0, None, *range(88)]})
    pq.write_table(gap, tmp_path / "gap.parquet")
    with pytest.raises(DataError, match="line 2, column 'v': missing value"):
        tasks.get("files", path=tmp_path / "gap.parquet", length=4).sizes  # noqa: B018


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "is empty"),
        ("a,b\n", {}, "has only a header"),
        ("a,b\n1,2\n3\n", {}, "line 3: 1 cells, expected 2"),
        ("a,b\n1,2\n3,x\n5,6\n", {}, "line 3, column 'b': 'x': expected a number"),
        ("a,a\n1,2\n", {}, "the header has 'a' twice"),
        ("a,b\n1,2\n3,\n5,6\n", {}, "line 3, column 'b': missing value"),
        ("a,b\n1,2\n3,NA\n5,6\n", {}, "line 3, column 'b': missing value"),
        ("a,b\n1,2\n3,inf\n5,6\n", {}, "line 3, column 'b': inf is not finite"),
        ("a\n1\n2\n\n4\n", {}, "line 4, column 'a': missing value"),
        ("a,b\n1,2\n\n3,4\n", {}, "line 3: 1 cells, expected 2"),
        ("a,b\n1,x\n3,4\n5,6\n7,8\n", {}, "line 2, column 'b': 'x': expected a number"),
        ("a,b\n1,2\n", {"columns": "c"}, "has no column 'c'; numeric columns: a, b"),
        ("a,b\nx,2\n", {"columns": "a"}, "column 'a' is not numeric; numeric columns: b"),
        ("a\nx\ny\n", {}, "no numeric column to forecast"),
        ('day,a\n2025-01-01,"1,035.00"\n2025-01-02,"1,135.00"\n', {}, r"line 2, column 'a': '1,035\.00' is no number"),
        ("a,b\n1,2\n", {}, "has 1 rows: expected at least 339 for windows of 50"),
        ("a,b\n1,2\n", {"columns": "a", "inputs": "a"}, "'a' is named twice"),
        ('a,b\n1,"2\n', {}, "cannot be read as a CSV file"),
        ('a,b\n1,2\n3,"1,500"\n5,6\n', {}, "line 3, column 'b': '1,500': expected a number"),  # it is not 1.5
    ],
)
def test_an_invalid_table_is_refused(tmp_path, text, options, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as raised:
        tasks.get("files", path=path, **options).load()
    assert "bad.csv" in str(raised.value)
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["", "late", "", "", "", ""], "words"),  # a gap is neither
        (["7", "late", "", "", "", ""], "words"),  # as many words as numbers
        (["", "", "", "", "", ""], "numbers"),
        (["7", "", "", "", "", ""], "numbers"),
        (["7", "8", "late", "", "", ""], "a mistake"),
    ],
)
def test_a_half_empty_column_is_what_its_filled_cells_are(tmp_path, cells, kind):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "\n".join(f"{i},{cell}" for i, cell in enumerate(cells)))
    if kind == "a mistake":
        with pytest.raises(DataError, match="line 4, column 'b': 'late': expected a number"):
            csv_files.read(path)
    else:
        table = csv_files.read(path)
        assert (table.names, set(table.numbers)) == (("a", "b"), {"a"} if kind == "words" else {"a", "b"})


def test_missing_values_in_ignored_columns_are_accepted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "\n".join(f"{i},{'' if i % 3 else i}" for i in range(60)))
    assert tasks.get("files", path=path, columns="a", length=3).sizes[0] > 0


def test_invalid_paths_are_refused(tmp_path):
    with pytest.raises(DataError, match="there is no file or folder"):
        tasks.get("files", path=tmp_path / "none.csv").load()
    (tmp_path / "image.gif").write_bytes(b"GIF")
    with pytest.raises(DataError, match=r"ends in '\.gif'"):
        tasks.get("files", path=tmp_path / "image.gif").load()
    (tmp_path / "latin.csv").write_bytes("größe\n1\n".encode("latin-1"))
    with pytest.raises(DataError, match="in UTF-8: byte 0xf6 in line 1"):
        tasks.get("files", path=tmp_path / "latin.csv").load()
    with pytest.raises(DataError, match="is for tables, leave it out"):
        tasks.get("files", path=tmp_path, columns="a").load()


def test_prose_is_no_table(tmp_path, cli):
    for text in (
        "The Zen of Python\n\nBeautiful is better than ugly.\n",
        "One\nword\na line\n",
        'He said "no" to\n"it."\n',
    ):
        (tmp_path / "zen.txt").write_text(text)
        with pytest.raises(DataError, match=r"zen\.txt.*; if it is plain text, text:path=zen\.txt reads it"):
            tasks.get("files", path=tmp_path / "zen.txt").load()
    code, _, err = cli("tasks", tmp_path / "zen.txt")
    assert (code, f"files:path={tmp_path / 'zen.txt'}, or text:path=" in err) == (2, True)


def npz(folder: Path, **arrays: object) -> Path:
    np.savez(folder / "d.npz", **arrays)
    return folder / "d.npz"


X = np.random.RandomState(0).normal(size=(30, 6, 2))


@pytest.mark.parametrize(
    ("y", "classes", "per_step", "output_size"),
    [
        (np.arange(30) % 3, ("0", "1", "2"), False, 3),
        (np.array(["b", "a"])[np.arange(30) % 2], ("a", "b"), False, 2),
        (np.arange(180).reshape(30, 6) % 4, ("0", "1", "2", "3"), True, 4),
        (np.linspace(0, 1, 30), None, False, 1),
        (np.ones((30, 5)) * np.arange(30)[:, None], None, False, 5),
        (np.random.RandomState(1).normal(size=(30, 6)), None, True, 1),
        (np.random.RandomState(1).normal(size=(30, 6, 3)), None, True, 3),
    ],
    ids=["integers", "text", "label per step", "value", "values", "value per step", "values per step"],
)
def test_the_kind_of_an_npz_follows_from_its_shapes(tmp_path, y, classes, per_step, output_size):
    task = tasks.get("files", path=npz(tmp_path, X=X, y=y))
    assert (task.classes, task.per_step, task.output_size) == (classes, per_step, output_size)
    assert task.sizes == (22, 4, 4)
    # Each target still belongs to its sequence.
    scale = task.scaling
    targets = {np.float32(row[0, 0]): target for row, target in zip(X, y, strict=True)}
    for row, target in zip(task.train.stored, task.train.targets, strict=True):
        first = scale.undo(row.numpy().astype(float))[0, 0]
        nearest = targets[min(targets, key=lambda known: abs(known - first))]
        if classes is not None:
            assert np.array(classes)[target.numpy()].tolist() == np.asarray(nearest).astype(str).tolist()
        else:
            np.testing.assert_allclose(
                task.target_scaling.undo(target.numpy().astype(float)), np.reshape(nearest, target.shape), atol=1e-5
            )


def test_padding_is_ignored(tmp_path):
    spoilt = X.copy()
    spoilt[3, 4:] = np.nan  # padding
    lengths = np.full(30, 6)
    lengths[3] = 4
    task = tasks.get("files", path=npz(tmp_path, X=spoilt, y=np.arange(30) % 2, lengths=lengths))
    for part in task.parts:
        x, _, ends = part.first(99)
        assert x.isfinite().all()
        for row, end in zip(x, ends, strict=True):
            assert (row[end:] == 0).all()
    inside = np.concatenate(
        [row[:end] for row, end in zip(spoilt[task.indices[0]], lengths[task.indices[0]], strict=True)]
    )
    np.testing.assert_allclose(task.scaling.mean, inside.mean(0))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": X}, "y missing"),
        ({"x": X, "y": np.zeros(30)}, "X missing"),
        ({"X": X[:2], "y": np.zeros(2)}, "has 2 sequences"),
        ({"X": X, "y": np.zeros(29)}, "expected a target for each of the 30 sequences"),
        ({"X": X[0, 0], "y": np.zeros(2)}, r"expected numbers \(N, T, D\)"),
        ({"X": np.where(X > 2, np.nan, X), "y": np.zeros(30)}, r"X\[\d+, \d+, \d+\] is nan"),
        ({"X": X, "y": np.full(30, np.inf)}, "y has NaN or infinity"),
        ({"X": X, "y": np.zeros(30, int)}, "y has 1 class: expected at least two"),
        (
            {"X": X, "y": np.zeros((30, 5), int)},
            r"shape \(30, 5\).*several labels per sequence \(multi-label\)",
        ),
        (
            {"X": X, "y": np.zeros((30, 6, 5), bool)},
            r"labels per step \(multi-label\).*classify=false learns",
        ),
        ({"X": X, "y": np.zeros((30, 0))}, r"y is float64 of shape \(30, 0\): expected labels"),
        ({"X": X, "y": np.zeros((30, 6, 0))}, r"y is float64 of shape \(30, 6, 0\): expected labels"),
        ({"X": X, "y": np.zeros((30, 0), int)}, r"y has no labels, its shape is \(30, 0\)"),
        ({"X": X, "y": np.zeros((30, 6, 0), bool)}, r"y has no labels, its shape is \(30, 6, 0\)"),
        ({"X": X, "y": np.zeros((30, 0), "U1")}, r"y has no labels, its shape is \(30, 0\)"),
        ({"X": X, "y": np.arange(30) % 2, "lengths": np.full(30, 7)}, "integers from 1 to 6"),
        ({"X": X, "y": np.arange(30) % 2, "lengths": np.arange(30) % 6}, "integers from 1 to 6"),
        ({"X": X, "y": np.zeros((30, 5, 1))}, r"float64 of shape \(30, 5, 1\)"),
        ({"X": X, "y": np.array([None] * 30)}, "cannot be read as an .npz of plain arrays"),
    ],
)
def test_an_invalid_npz_is_refused(tmp_path, arrays, message):
    path = npz(tmp_path, **arrays)
    with pytest.raises(DataError, match=message):
        tasks.get("files", path=path).load()
    with path.open("wb") as file:
        np.save(file, X)  # an .npy named .npz
    with pytest.raises(DataError, match=r"cannot be read as an \.npz"):
        tasks.get("files", path=path).load()
    np.savez(path, X=X)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"cannot be read as an \.npz"):
        tasks.get("files", path=path).load()


@pytest.mark.parametrize("shape", [(30, 4), (30, 6, 4)])
def test_labels_that_are_learned_as_numbers_are_not_passed_over_in_silence(tmp_path, shape):
    y = np.random.RandomState(0).randint(0, 2, shape)
    path = npz(tmp_path, X=X, y=y.astype(float))
    caution = tasks.get("files", path=path).remarks()["caution"]
    assert caution.startswith("4 targets that are 0 or 1, as if several labels could be true at once (multi-label)")
    assert "caution" not in tasks.get("files", path=path, classify=False).remarks()
    assert tasks.get("files", path=npz(tmp_path, X=X, y=y), classify=False).output_size == 4  # as the message says
    assert "caution" not in tasks.get("files", path=npz(tmp_path, X=X, y=y * 0.5)).remarks()


@pytest.mark.parametrize("shape", [(30,), (30, 6)])
def test_one_hot_targets_are_called_so(tmp_path, shape):
    labels = np.random.RandomState(0).randint(0, 4, shape)
    with pytest.raises(DataError, match=r"one-hot, a single 1 each; y\.argmax\(-1\) are labels"):
        tasks.get("files", path=npz(tmp_path, X=X, y=np.eye(4, dtype=int)[labels])).load()
    floats = tasks.get("files", path=npz(tmp_path, X=X, y=np.eye(4)[labels]))
    assert "one-hot" in floats.remarks()["caution"]
    assert tasks.get("files", path=npz(tmp_path, X=X, y=np.eye(4)[labels].argmax(-1))).classes == ("0", "1", "2", "3")


def test_one_value_per_step_may_be_a_class_too(tmp_path):
    path = npz(tmp_path, X=X, y=np.random.RandomState(0).randint(0, 3, (30, 6)).astype(float))
    assert tasks.get("files", path=path).remarks()["targets"].startswith("3 distinct whole numbers, read as quantities")
    ends = np.array([3, 6] * 15)
    y = 1.0 + np.random.RandomState(0).randint(0, 2, (30, 6))
    path = npz(tmp_path, X=X, y=np.where(np.arange(6) < ends[:, None], y, 7), lengths=ends)
    assert tasks.get("files", path=path).remarks()["targets"].startswith("2 distinct")  # of steps that there are


def test_labels_of_steps_beyond_an_end_are_no_classes(tmp_path):
    ends, y = np.array([3, 6] * 15), 1 + np.random.RandomState(0).randint(0, 2, (30, 6))
    inside = np.arange(6) < ends[:, None]
    content = tasks.get("files", path=npz(tmp_path, X=X, y=np.where(inside, y, 7), lengths=ends)).content
    assert content.classes == ("1", "2")
    np.testing.assert_array_equal(content.targets[inside], (y - 1)[inside])


def test_folders_of_files_that_are_not_read_say_what_to_do(tmp_path):
    for name in "01":
        (tmp_path / name).mkdir()
        for i in range(4):
            (tmp_path / name / f"{i}.wav").write_bytes(b"RIFF")
    (tmp_path / "0" / "notes").write_text("")
    with pytest.raises(DataError, match=r"0 has 0 sequences .*; it has 4 \.wav, 1 files without .*not read") as error:
        tasks.get("files", path=tmp_path).load()
    assert "an .npy of shape (T, D)" in str(error.value)
    assert "spectrogram" in str(error.value)
    with pytest.raises(DataError, match=r"0 has 0 subfolders: .*; it has 4 \.wav, .*not read"):
        tasks.get("files", path=tmp_path / "0").load()
    (tmp_path / "1" / "x.csv").write_text("1\n2\n")
    with pytest.raises(DataError, match=r"1 has 0 subfolders: .*; it has 4 \.wav, which"):
        tasks.get("files", path=tmp_path / "1").load()


def test_the_longest_of_unequal_sequences_is_not_called_their_length(tmp_path):
    lengths = np.array([2, 2, 6] * 10)
    task = tasks.get("files", path=npz(tmp_path, X=X, y=np.arange(30) % 2, lengths=lengths))
    assert task.remarks()["sequences"] == "30 of 2–6 steps (median 2)"
    assert task.describe().input == "up to 6 steps of 2 features"
    task = tasks.get("files", path=npz(tmp_path, X=X, y=np.arange(30) % 2, lengths=np.full(30, 6)))
    assert task.describe().input == "6 steps of 2 features"


def test_a_folder_of_class_folders(tmp_path):
    random = np.random.RandomState(0)
    for name, count in (("left", 10), ("right", 20)):
        (tmp_path / name).mkdir()
        for i in range(count):
            np.save(tmp_path / name / f"{i}.npy", random.normal(size=(3 + i % 4, 2)) + (name == "right") * 100)
    task = tasks.get("files", path=tmp_path)
    assert task.classes == ("left", "right")
    assert (task.steps, task.input_size) == (6, 2)
    for part in task.parts:
        x, y, _ = part.first(99)
        assert torch.equal((x[:, 0, 0] > 0).long(), y)
    assert torch.bincount(task.train.targets).tolist() in ([7, 15], [8, 14])
    (tmp_path / "left" / "a.CSV").write_text("u,v\n1,2\n")
    (tmp_path / "right" / "b.csv").write_text("v,u\n20,10\n")
    named = tasks.get("files", path=tmp_path)
    assert sum(named.sizes) == 32
    assert [10, 20] in named.content.values[:, 0].tolist()  # columns are matched by name
    (tmp_path / "right" / "b.csv").write_text("v,w\n20,10\n")
    with pytest.raises(DataError, match=r"b.csv has the columns v, w: expected u, v, as in the first sequence"):
        tasks.get("files", path=tmp_path).load()
    (tmp_path / "right" / "b.csv").unlink()
    np.save(tmp_path / "left" / "odd.npy", np.zeros((4, 3)))
    with pytest.raises(DataError, match=r"odd.npy has 3 features per step: expected 2, as in the first sequence"):
        tasks.get("files", path=tmp_path).load()
    (tmp_path / "left" / "odd.npy").write_bytes(b"not numpy")
    with pytest.raises(DataError, match=r"odd.npy cannot be read"):
        tasks.get("files", path=tmp_path).load()
    np.save(tmp_path / "left" / "odd.npy", np.full((4, 2), np.nan))
    with pytest.raises(DataError, match=r"odd.npy, step 0, feature 0: nan"):
        tasks.get("files", path=tmp_path).load()
    os.mkdir(tmp_path / "empty")
    with pytest.raises(DataError, match="empty has 0 sequences"):
        tasks.get("files", path=tmp_path).load()
    with pytest.raises(DataError, match="has 0 subfolders: expected one per class"):
        tasks.get("files", path=tmp_path / "empty").load()


cells = st.one_of(
    st.floats().map(repr),
    st.floats(-1e6, 1e6).map(repr),
    st.sampled_from(["", " ", "nan", "x", "1,5", "1e400", "-0", '"', "\0", "2026-01-01"]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(
    rows=st.lists(st.lists(cells, min_size=1, max_size=3), max_size=30),
    header=st.booleans(),
    length=st.integers(1, 3),
    quoted=st.booleans(),
)
def test_any_table_is_read_or_refused(tmp_path, rows, header, length, quoted):
    path = tmp_path / "any.csv"
    if quoted:
        text = io.StringIO()
        csv.writer(text).writerows(([["a", "b", "c"]] if header else []) + rows)
        content = text.getvalue()
    else:
        content = "\n".join(",".join(row) for row in ([["a", "b"]] if header else []) + rows)
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    read_or_refused(path, length=length)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(
    X=hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.int32, np.bool_]),
        hnp.array_shapes(min_dims=1, max_dims=4, max_side=6),
    ),
    y=hnp.arrays(
        st.sampled_from([np.float64, np.int64, np.dtype("U2"), np.complex128]),
        hnp.array_shapes(min_dims=1, max_dims=3, max_side=6),
    ),
)
def test_any_arrays_are_read_or_refused(tmp_path, X, y):
    read_or_refused(npz(tmp_path, X=X, y=y))


def read_or_refused(path: Path, **options: object) -> None:
    try:
        task = tasks.get("files", path=path, **options)
        parts = task.load()
    except DataError as error:
        message = str(error)
    else:
        message = ""
        assert tuple(map(len, parts)) == task.sizes
        assert all(part.first(99).x.isfinite().all() for part in parts)
        assert all(part.targets.isfinite().all() for part in parts)
    assert not message or (path.name in message and len(message) > 30)


def test_a_file_that_was_edited_is_read_anew(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a\n" + "\n".join(str(i % 7) for i in range(60)))
    task = tasks.get("files", path=path, length=3)
    before = task.content.values[0, 0]
    path.write_text("a\n" + "\n".join(str(100 + i % 7) for i in range(60)))
    assert (before, task.with_options().content.values[0, 0]) == (0, 100)
    assert task.content.values[0, 0] == 0
    assert task.understood_as(length=4).table is task.table
