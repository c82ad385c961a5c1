"""Layouts of tables: clear ones are recognised, unclear ones are refused with the option that reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatelab import tasks
from gatelab.data.series import Series
from gatelab.errors import DataError


def write(folder: Path, text: str, name: str = "t.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def rows(head: str, line: str, count: int = 90) -> str:
    values = np.round(np.random.RandomState(0).normal(size=(count, 9)), 3)
    return (
        head
        + "\n"
        + "\n".join(line.format(i=i, q=i // 9, r=i % 9, v=values[i], c="xy"[i // 9 % 2]) for i in range(count))
    )


@pytest.mark.parametrize(
    ("text", "options", "columns", "ignored"),
    [
        (rows("t,a,b", "{i},{v[0]},{v[1]}"), {}, ("a", "b"), ()),  # a counter is time
        (rows("t,a,b", "{i},{v[0]},{v[1]}"), {"columns": "t"}, ("t",), ("a", "b")),  # unless it is asked for
        (rows("Year,a", "{i},{v[0]}"), {}, ("Year", "a"), ()),  # 0 to 89 are no years
        (rows("id,note,a", "{i},x{i},{v[0]}"), {}, ("a",), ("id", "note")),
        (rows("time,a", "{v[1]},{v[0]}"), {}, ("time", "a"), ()),  # a value that happens to be called time
        (rows("a,label", "{v[0]},{c}"), {"columns": "a"}, ("a",), ("label",)),
        (rows("a,label,b", "{v[0]},{r},{v[1]}"), {"layout": "series"}, ("a", "b"), ("label",)),
        (rows("patient,a", "3,{v[0]}"), {}, ("a",), ("patient",)),
        (rows(",0,1", "{i},{v[0]},{v[1]}"), {}, ("0", "1"), ("(column 1, unnamed)",)),
        # Numbers that start again and words in blocks are common in a series.
        (rows("a,activity", "{v[0]},{c}"), {}, ("a",), ("activity",)),
        (rows("week,hour,a", "{q},{r},{v[0]}"), {}, ("week", "hour", "a"), ()),
        (rows("a,weather_id,holiday", "{v[0]},80{r},{q}"), {}, ("a", "weather_id", "holiday"), ()),
        (rows("t,shift,operator,a", "{i},{q},{c},{v[0]}"), {}, ("shift", "a"), ("operator",)),
        (rows("t,user,a", "-{i},{r},{v[0]}"), {}, ("a",), ("user",)),
        (rows("phase,a", "p{q},{v[0]}"), {}, ("a",), ("phase",)),
        (rows("time,x0,x1,x2", "{i},{v[0]},{v[1]},{v[2]}"), {}, ("x0", "x1", "x2"), ()),
        (rows("load,x0,x1,x2", "{v[3]},{v[0]},{v[1]},{v[2]}"), {}, ("load", "x0", "x1", "x2"), ()),
        (rows("day,t0,t1,t2", "{i},{v[0]},{v[1]},{v[2]}"), {}, ("day", "t0", "t1", "t2"), ()),
        (rows("0,1,2,3", "{v[3]},{v[0]},{v[1]},{v[2]}"), {"header": True}, ("0", "1", "2", "3"), ()),
    ],
)
def test_a_series_forecasts_its_values_only(tmp_path, text, options, columns, ignored):
    content = tasks.get("files", path=write(tmp_path, text), length=3, **options).content
    assert (content.columns, content.ignored) == (columns, ignored)


def test_years_are_times_and_are_continued(tmp_path):
    lines = [f"{year},{np.sin(year):.4f}" for year in range(1920, 2021)]
    for head in ("YEAR,a", ",a"):
        task = tasks.get("files", path=write(tmp_path, "\n".join([head, *lines])), length=3)
        assert task.ending().stamps.astype("datetime64[Y]").astype(str).tolist() == ["2018", "2019", "2020"]
    months = [f"{2000 + i // 12},{i % 12 + 1},{i}" for i in range(60)]
    task = tasks.get("files", path=write(tmp_path, "\n".join(["Year,Month,v", *months])), length=3)
    assert task.content.columns == ("v",)
    assert str(task.ending().stamps[-1]) == "2004-12-01T00:00:00"
    assert "Year+Month, 2000-01-01 to 2004-12-01, one step per month" in str(task.describe())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            rows("t,a", "{r},{v[0]}"),
            "line 11, column 't': the times start again, .* id=COLUMN,label=COLUMN if .* layout=series,time=none if",
        ),
        (
            rows("run,t,a", "r{q},{r},{v[0]}"),
            "the times start again, and it is not clear .* id=run,label=COLUMN if the rows are steps of many seq",
        ),
        (
            rows("a,label", "{v[0]},{c}"),
            "column 'label', and it is not clear .* id=COLUMN,label=label if .* layout=wide,label=label .*=a if",
        ),
        (rows("ds,y", "2024-01-{r},{v[0]}"), "a column 'y', and it is not clear what a row is: .* columns=y if they"),
        (
            rows("t,value,is_anomaly", "{i},{v[0]},0"),
            "column 'is_anomaly', and it is not clear .* columns=value if they",
        ),
        (
            rows("1,5,7,8,9,10", "{r},{v[0]},7,8,9,10"),
            "no header, few distinct values in its first column and 5 further columns, .* layout=wide if .* layout=ser",
        ),
        (rows("id,a", "{q},{v[0]}"), "is a long table without a label: name the column of the targets, label=COLUMN"),
        ("a,b\n1,2\n", "choose a smaller length"),
        # Other names: a number that starts again, a name that is one of ids, labels within blocks.
        (
            rows("patient,day,bp,diagnosis", "{q},{r},{v[0]},{c}"),
            "'day' starts again with each value of 'patient', and it is not clear what a row is: "
            "id=patient,label=diagnosis if the rows are .*many sequences; .* layout=series if",
        ),
        (
            rows("walk,n,a", "w{q},{r},{v[0]}"),
            "'n' starts again with each value of 'walk', and .*: id=walk,label=COLUMN if",
        ),
        (
            rows("9,0,5.5,x", "{q},{r},{v[0]},{c}", 27),
            "'2' starts again with each value of '1', and .*: id=1,label=4 if",
        ),
        (
            rows("patient,a,ill", "{r},{v[0]},{r}"),
            "'patient' has 9 values, which repeat, and .*: id=patient,label=COLUMN",
        ),
        (rows("store_no,a", "{q},{v[0]}"), "'store_no' has 10 values, which repeat, and .*: id=store_no,label=COLUMN"),
        (
            rows("word,a,vowel", "w{q},{v[0]},{c}"),
            "'vowel' is constant within each value of 'word', and .*: id=word,label=vowel",
        ),
        (rows("run,t,a,kind", "r{q},{r},{v[0]},{c}"), "the times start again, .* id=run,label=kind if"),
        # Numbered columns beside one that may be a label.
        (
            rows("gesture,t0,t1,t2", "{c},{v[0]},{v[1]},{v[2]}"),
            "layout=wide,label=gesture if each row .* layout=series if",
        ),
        (
            rows("outcome,0,1,2", "{v[5]},{v[0]},{v[1]},{v[2]}"),
            "layout=wide,label=outcome if each row .* layout=series",
        ),
        (rows("kind,x0,x1,x2", "{q},{v[0]},{v[1]},{v[2]}"), "has numbered columns and 'kind', and it is not clear"),
        (rows("label,t0,t1,t2,age", "{c},{v[0]},{v[1]},{v[2]},{v[3]}"), "a column 'label', and it is not clear"),
    ],
)
def test_an_unclear_table_is_refused_with_the_option_that_reads_it(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        tasks.get("files", path=write(tmp_path, text)).load()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (rows("a,b", "{v[0]},{v[1]}"), {"id": "c"}, "id=c: unknown column 'c'"),
        (rows("a,b", "{v[0]},{v[1]}"), {"layout": "long"}, "layout=long needs the column that tells sequences apart"),
        (rows("id,a,b", "{q},{v[0]},{c}"), {"label": "lable"}, "label=lable: unknown column 'lable'"),
        (rows("id,a,label", "{q},{v[0]},"), {}, "line 2, column 'label': the label is missing"),
        (rows("id,a,label", ",{v[0]},{c}"), {"id": "id"}, "line 2, column 'id': the id is missing"),
        (rows("id,label", "{q},{c}"), {}, "has no numeric column to read"),
        (
            rows("id,word,label", "{q},w{r},{c}"),
            {},
            "no numeric column to read; .* as tokens, columns=word,tokens=true$",
        ),
        (rows("a,b", "{v[0]},{v[1]}"), {"label": "a", "layout": "series"}, "label is for sequences, leave it out"),
        (rows("a,b", "{v[0]},{v[1]}"), {"tokens": True}, "tokens are for sequences"),
        (rows("id,a,b,label", "{q},{v[0]},{v[1]},{c}"), {"tokens": True}, r"tokens need one column: name it, columns="),
        (rows("id,a,label", "{q},{v[0]},{c}"), {"tokens": True}, "the column 'a' has fractions: expected tokens"),
        (rows("id,a,label", "{q},{v[0]},{c}"), {"inputs": "a"}, "inputs is for a series, leave it out"),
        (rows("id,a,label", "{q},{v[0]},{c}"), {"time": "a+id"}, r"time=a\+id: expected one column, or year\+month"),
        (rows("x,a", "r{i},{v[0]}"), {"time": "x"}, "line 2, column 'x': 'r0': no time in a known format"),
        (rows("label,t0,t1,t2", "{c},,,"), {}, "line 2: no values: expected at least one step per row"),
        (rows("t0,t1,t2", "{v[0]},2,3"), {"layout": "wide"}, "has one sequence per row and no label: name its column"),
        (
            rows("t0,t1,t2,outcome", "1,2,3,{r}"),
            {"layout": "wide"},
            "one sequence per row and no label: name its column, label=outcome$",
        ),
        (rows("year,month,a", "2000,{r},{v[0]}"), {}, "line 2, column 'month': 0 is not a valid month"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, text, options, message):
    with pytest.raises(DataError, match=message):
        tasks.get("files", path=write(tmp_path, text), **options).load()


def test_other_files_are_refused_with_advice(tmp_path):
    with pytest.raises(DataError, match=r"\.arff files are not read: use the \.ts or \.tsv file"):
        tasks.get("files", path=write(tmp_path, "@relation x", "d.arff")).load()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=4, max_size=9),
    order=st.randoms(use_true_random=False),
    labels=st.sampled_from(["text", "integer", "float"]),
    has_time=st.booleans(),
)
def test_a_long_table_has_its_sequences_whatever_the_order_of_its_rows(tmp_path, lengths, order, labels, has_time):
    """An independent reader: a dictionary of lists."""
    random = np.random.RandomState(len(lengths))
    expected = {f"s{i}": random.randint(-99, 99, (length, 2)) / 4 for i, length in enumerate(lengths)}
    targets = {
        name: {"text": "xy"[i % 2], "integer": i % 2, "float": i + 0.5}[labels] for i, name in enumerate(expected)
    }
    lines = [
        f"{name},{step},{u},{v},{targets[name]}"
        for name, x in expected.items()
        for step, (u, v) in enumerate(x.tolist())
    ]
    if has_time:
        order.shuffle(lines)
    else:
        lines = [",".join([line.split(",")[0], *line.split(",")[2:]]) for line in lines]
    path = write(tmp_path, f"id,{'t,' if has_time else ''}u,v,label\n" + "\n".join(lines))
    content = tasks.get("files", path=path, id="id").content
    names = list(dict.fromkeys(line.split(",")[0] for line in lines))
    assert content.columns == ("u", "v")
    for row, end, target, name in zip(content.values, content.ends, content.targets, names, strict=True):
        np.testing.assert_array_equal(row[:end], expected[name])
        assert (row[end:] == 0).all()
        if labels == "float":
            assert target[0] == targets[name]
        else:
            assert content.classes[target] == str(targets[name])


def test_labels_that_vary_within_a_sequence_are_targets_per_step(tmp_path):
    path = write(tmp_path, rows("id,a,label", "{q},{v[0]},{r}"))
    task = tasks.get("files", path=path)
    assert (task.per_step, task.classes) == (True, tuple(map(str, range(9))))
    floats = tasks.get("files", path=write(tmp_path, rows("id,a,target", "{q},{v[0]},{v[1]}")))
    assert (floats.per_step, floats.classes) == (True, None)


@pytest.mark.parametrize("head", ["label,t0,t1,t2,t3", "label,0,1,2,3", "label,1,2,3,4", "label,t_1,t_2,t_3,t_4"])
def test_a_wide_table_with_a_header(tmp_path, head):
    text = rows(head, "{c},{v[0]},{v[1]},{v[2]},", 30) + "\ny,1,2,3,4\nx,5"
    text = text.rsplit("\n", 1)[0]
    content = tasks.get("files", path=write(tmp_path, text)).content
    assert content.values.shape == (31, 4, 1)
    assert content.ends.tolist() == [3] * 30 + [4]
    assert content.classes == ("x", "y")


def test_a_row_ends_with_its_last_value_not_with_its_first_gap(tmp_path):
    path = write(tmp_path, "label,t0,t1,t2,t3\na,1,,3,4\nb,1,2,,\na,,2,3,\n")
    content = tasks.get("files", path=path, fill="interpolate").content
    assert content.ends.tolist() == [4, 2, 3]
    assert content.values[..., 0].tolist() == [[1, 2, 3, 4], [1, 2, 0, 0], [2, 2, 3, 0]]


def test_the_options_of_a_refusal_read_the_table(tmp_path):
    path = write(tmp_path, rows("patient,day,bp,diagnosis", "{q},{r},{v[0]},{c}"))
    content = tasks.get("files", path=path, id="patient", label="diagnosis").content
    assert (content.classes, content.ends.tolist()) == (("x", "y"), [9] * 10)
    assert tasks.get("files", path=path, layout="series", length=3).content.columns == ("day", "bp")
    path = write(tmp_path, rows("gesture,speaker,t0,t1,t2", "{c},{r},{v[0]},{v[1]},{v[2]}"))
    content = tasks.get("files", path=path, layout="wide", label="gesture").content
    assert (content.values.shape, content.classes, content.ignored) == ((90, 3, 1), ("x", "y"), ("speaker",))


@pytest.mark.parametrize(("separator", "name"), [("\t", "A_TRAIN.tsv"), ("  ", "a.txt"), (",", "a.csv")])
def test_a_table_of_the_archive(tmp_path, separator, name):
    values = np.random.RandomState(1).normal(size=(20, 12))
    values = (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)
    lines = [separator.join([f"{i % 2 * 2 - 1:.7e}", *(f"{v:.7e}" for v in row)]) for i, row in enumerate(values)]
    content = tasks.get("files", path=write(tmp_path, "\n".join(lines), name)).content
    assert (content.classes, content.label_type) == (("-1", "1"), "integer")
    np.testing.assert_allclose(content.values[..., 0], values, rtol=1e-6)
    spelled = [line.replace("-1.0000000e+00", "low", 1).replace("1.0000000e+00", "high", 1) for line in lines]
    if separator == ",":
        assert tasks.get("files", path=write(tmp_path, "\n".join(spelled), name)).classes == ("high", "low")


def test_classes_and_quantities_can_be_told_apart(tmp_path):
    X = np.random.RandomState(0).normal(size=(30, 5))
    np.savez(tmp_path / "d.npz", X=X, y=(np.arange(30) % 3).astype(float))
    path = tmp_path / "d.npz"
    task = tasks.get("files", path=path)
    assert task.classes is None
    assert task.remarks()["targets"] == "3 distinct whole numbers, read as quantities; classify=true reads classes"
    assert tasks.get("files", path=path, classify=True).classes == ("0", "1", "2")
    np.savez(tmp_path / "d.npz", X=X, y=np.arange(30))
    assert tasks.get("files", path=path, classify=False).classes is None
    assert "targets" not in tasks.get("files", path=path, classify=False).remarks()


@pytest.mark.parametrize(
    ("y", "classes", "expected", "first"),
    [
        (np.arange(30) % 3, ["a", "b", "c"], ("a", "b", "c"), 0),
        ((np.arange(30) % 2).astype(float), ["a", "b", "never"], ("a", "b", "never"), 0),
        (np.array(["x", "y"])[np.arange(30) % 2], ["y", "x"], ("y", "x"), 1),
        (np.arange(30) % 2 + 7, [8, 7], ("8", "7"), 1),
    ],
)
def test_the_classes_of_an_npz_have_names_and_an_order(tmp_path, y, classes, expected, first):
    np.savez(tmp_path / "d.npz", X=np.random.RandomState(0).normal(size=(30, 5)), y=y, classes=classes)
    task = tasks.get("files", path=tmp_path / "d.npz")
    assert (task.classes, task.content.targets[0]) == (expected, first)
    assert task.preparation.label_type == ("integer" if expected[0] == "8" else "text")
    assert len(task.preparation.labels) == len(expected)


def test_classes_that_do_not_fit_are_refused(tmp_path):
    for classes, message in (
        (["a"], "is not one of the classes a: expected"),
        (["a", "b"], "the label '0' is not one of the classes a, b: expected their names, or integers from 0 to 1"),
        (["a", "a"], "are not unique"),
    ):
        np.savez(tmp_path / "d.npz", X=np.zeros((30, 5)), y=np.arange(30) % 3, classes=classes)
        with pytest.raises(DataError, match=message):
            tasks.get("files", path=tmp_path / "d.npz").load()


def test_integers_that_may_be_tokens_are_remarked(tmp_path):
    np.savez(tmp_path / "d.npz", X=np.arange(150).reshape(30, 5) % 4, y=np.arange(30) % 2)
    task = tasks.get("files", path=tmp_path / "d.npz")
    assert task.remarks()["steps"] == "4 distinct integers, read as quantities; tokens=true reads tokens"
    read = tasks.get("files", path=tmp_path / "d.npz", tokens=True)
    assert (read.preparation.kind, read.vocabulary, read.input_size) == ("tokens", ("0", "1", "2", "3"), 4)
    np.savez(tmp_path / "d.npz", X=np.array([["a", "b"], ["b", "a"]] * 9), y=np.arange(18) % 2)
    with pytest.raises(DataError, match="tokens=true reads text as tokens"):
        tasks.get("files", path=tmp_path / "d.npz").load()


def test_the_description_says_what_was_understood(tmp_path, cli):
    text = rows("id,frame,u,v,comment,label", "{q},{r},{v[0]},{v[1]},-,{c}")
    task = tasks.get("files", path=write(tmp_path, text))
    described = str(task.describe())
    for part in (
        "long table: one row per step, 10 sequences by 'id', the label in column 'label'", "10 of 9 steps", "2: u, v",
        "x (5), y (5)", "comment",
        "frame, interval 1", "70 / 15 / 15 %, random, stratified by label",
    ):  # fmt: skip
        assert part in described
    code, out, _ = cli("tasks", f"files:path={tmp_path / 't.csv'}", "--show", tmp_path / "t.png")
    assert code == 0
    assert any(set("▁▂▃▄▅▆▇█") & set(line) and line.split()[:2] == ["u", "input"] for line in out.splitlines())
    assert (tmp_path / "t.png").stat().st_size > 5000
    drawn = task.picture().axes[0].lines[0].get_ydata()
    first = next(index for index in np.sort(task.indices[0]) if task.content.targets[index] == 0)
    np.testing.assert_array_equal(drawn, task.content.values[first, :, 0])  # in the units of the file


def test_the_description_uses_the_names_of_the_file(tmp_path):
    text = rows("utterance,u,speaker,vowel", "{q},{v[0]},{q},{c}")
    path = write(tmp_path, text)
    task = tasks.get("files", path=path, id="utterance", label="vowel", group="speaker")
    assert task.remarks()["layout"].endswith("10 sequences by 'utterance', the label in column 'vowel'")
    assert task.describe().split.startswith("random, whole groups (by 'speaker') stay together")
    task = tasks.get("files", path=write(tmp_path, rows("id,label,t0,t1,t2", "{i},{c},1,2,{r}")))
    assert task.remarks()["layout"] == "wide table: one sequence per row, the label in column 'label', its name in 'id'"
    X = np.arange(450).reshape(90, 5) % 30
    np.savez(tmp_path / "d.npz", X=X, y=np.arange(90) % 2, speaker=np.arange(90) // 9, more=X)
    remarks = tasks.get("files", path=tmp_path / "d.npz").remarks()
    assert (remarks["ignored"], "group=speaker keeps them together" in remarks["caution"]) == ("speaker, more", True)
    assert remarks["steps"] == "30 distinct integers, read as quantities; tokens=true reads tokens"


def test_pictures_name_classes_and_columns(tmp_path):
    head = "id,label," + ",".join(f"coefficient {i} of the left channel" for i in range(6))
    line = "{q},a long name of a class {q}," + ",".join(f"{{v[{i}]}}" for i in range(6))
    figure = tasks.get("files", path=write(tmp_path, rows(head, line, 99))).picture()
    assert [axes.get_title("left").replace("\n", " ") for axes in figure.axes[:2]] == [
        "a long name of a class 0",
        "a long name of a class 1",
    ]
    assert all(len(part) <= 16 for part in figure.axes[0].get_title("left").split("\n"))
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [f"coefficient {i} of the left channel" for i in range(6)]
    assert figure.get_suptitle() == "t.csv: training examples by class, 10 of 11 classes"
    steps = tasks.get("files", path=write(tmp_path, rows("id,a,label", "{q},{v[0]},c{r}"))).picture()
    assert [text.get_text() for text in steps.axes[0].texts] == [f"c{i}" for i in range(9)]
    assert not np.array_equal(steps.axes[0].lines[0].get_ydata(), steps.axes[1].lines[0].get_ydata())


def test_ids_are_names_not_numbers(tmp_path):
    """007 is not 7, and neighbours of 17 digits are not equal."""
    ids = ["007", "7", "12345678901234567", "12345678901234568"]
    lines = [f"{name},{step},{'xy'[i % 2]}" for i, name in enumerate(ids) for step in range(i + 1)]
    content = tasks.get("files", path=write(tmp_path, "\n".join(["id,v,label", *lines]))).content
    assert content.ends.tolist() == [1, 2, 3, 4]


def test_an_id_that_repeats_makes_a_table_with_numbered_columns_long(tmp_path):
    """t0, t1 and t2 are features there, and the label varies from step to step."""
    path = write(tmp_path, rows("name,t0,t1,t2,label", "n{q},{v[0]},{v[1]},{v[2]},{c}"))
    content = tasks.get("files", path=path, id="name").content
    assert content.layout.startswith("long table")
    assert content.columns == ("t0", "t1", "t2")
    once = write(tmp_path, rows("name,t0,t1,t2,label", "n{i},{v[0]},{v[1]},{v[2]},{c}"), "once.csv")
    assert tasks.get("files", path=once, id="name").content.layout.startswith("wide table")


def test_a_column_that_comes_back_to_a_value_is_not_suggested_as_the_id(tmp_path):
    blocks = [("a", "x"), ("b", "y"), ("a", "z")]
    for column, suggested in (("kind", None), ("name", "id=name")):
        cells = [(kind if column == "kind" else name, t) for kind, name in blocks for t in range(5)]
        path = write(tmp_path, f"{column},t,v\n" + "\n".join(f"{name},{t},0.{t}" for name, t in cells))
        with pytest.raises(DataError, match="the times start again") as refused:
            tasks.get("files", path=path, length=2).load()
        assert (suggested or "id=COLUMN,label=COLUMN") in str(refused.value)


def test_an_id_that_never_changes_is_that_of_one_series(tmp_path):
    path = write(tmp_path, rows("id,a,b", "1,{v[0]},{v[1]}"))
    content = tasks.get("files", path=path, length=5).content
    assert isinstance(content, Series)
    assert content.columns[-2:] == ("a", "b")


@pytest.mark.parametrize("line", ["{i}", "-{i}"])
def test_rows_that_are_counted_up_or_down_are_no_feature(tmp_path, line):
    path = write(tmp_path, rows("id,obs,a,label", "{q}," + line + ",{v[0]},{k}".replace("{k}", "{c}")))
    assert tasks.get("files", path=path).content.columns == ("a",)


def test_rows_that_are_sorted_are_remarked_if_one_sequence_was_not_in_order(tmp_path):
    times = {"first": (2, 0, 1), "second": (0, 1, 2), "third": (0, 1, 2)}
    lines = [f"{name},{t},0.{t},{len(name)}" for name, steps in times.items() for t in steps]
    content = tasks.get("files", path=write(tmp_path, "id,time,v,label\n" + "\n".join(lines))).content
    assert content.notes["rows"] == "sorted by time within each sequence"
    assert (np.diff(content.values[..., 0]) > 0).all()
