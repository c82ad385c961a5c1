"""Files of the archives: .ts by its header, NAME_TRAIN and NAME_TEST as the published split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatelab import tasks
from gatelab.errors import DataError

HEAD = "# about\n%more\n@problemName Toy\n@timeStamps false\n@missing false\n@univariate {u}\n{more}@data\n"


def ts(path: Path, cases: list[str], more: str = "@classLabel true a b\n", univariate: str = "true") -> Path:
    path.write_text(HEAD.format(u=univariate, more=more) + "\n".join(cases) + "\n")
    return path


def test_values_labels_and_order_of_the_classes(tmp_path):
    path = ts(tmp_path / "d.ts", ["1,2,3:b", "4.5,-1e-3:a", "", "# pause", "7:b"], "@classLabel true b a\n")
    content = tasks.get("files", path=path).content
    assert content.classes == ("b", "a")
    assert content.targets.tolist() == [0, 1, 0]
    assert content.ends.tolist() == [3, 2, 1]
    np.testing.assert_array_equal(content.values[..., 0], [[1, 2, 3], [4.5, -1e-3, 0], [7, 0, 0]])


def test_headers_in_any_case(tmp_path):
    path = ts(tmp_path / "d.ts", ["1,2:b", "4,5:a", "7,8:b"], "@CLASSLABEL True b a\n", "TRUE")
    assert tasks.get("files", path=path).content.classes == ("b", "a")


def test_dimensions_missing_values_and_targets(tmp_path):
    more = "@dimensions 2\n@equalLength true\n@seriesLength 3\n@targetLabel true\n"
    path = ts(tmp_path / "d.ts", ["1,?,3:4,5,6:0.5", "1,2,3:4,5,6:2", "0,0,0:1,1,1:3"], more, "false")
    with pytest.raises(DataError, match=r"line \d+, dimension 1: the value of step 1 is nan .*fill=interpolate"):
        tasks.get("files", path=path).load()
    content = tasks.get("files", path=path, fill="interpolate").content
    assert content.values[0].tolist() == [[1, 4], [2, 5], [3, 6]]
    assert (content.targets[:, 0].tolist(), content.classes) == ([0.5, 2, 3], None)
    assert content.columns == ("dimension 1", "dimension 2")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    st.integers(1, 3).flatmap(
        lambda d: st.lists(
            st.integers(1, 5).flatmap(
                lambda t: st.lists(st.lists(st.floats(-1e9, 1e9), min_size=t, max_size=t), min_size=d, max_size=d)
            ),
            min_size=3,
            max_size=8,
        )
    )
)
def test_what_is_written_is_read(tmp_path, cases):
    """Cases of D dimensions with T values each."""
    lines = [":".join([*(",".join(map(repr, values)) for values in case), "ab"[i % 2]]) for i, case in enumerate(cases)]
    path = ts(tmp_path / "d.ts", lines, univariate=str(len(cases[0]) == 1).lower())
    content = tasks.get("files", path=path).content
    for row, end, case in zip(content.values, content.ends, cases, strict=True):
        np.testing.assert_array_equal(row[:end].T, case)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n", "line 1: '1,2': expected @data before the first case"),
        ("@problemName x\n", "has no line @data"),
        ("@timeStamps true\n@data\n", "line 1: @timestamps true: cases with a time for every value are not supported"),
        ("@univariate maybe\n@data\n", "line 1: @univariate maybe: expected true or false"),
        ("@dimensions two\n@data\n", "line 1: @dimensions two: expected a positive integer"),
        ("@data\n1,2\n", "has neither @classLabel true nor @targetLabel true"),
        ("@classLabel true a b\n@data\n", "has no cases after @data"),
        ("@classLabel true a b\n@data\n1,2:c\n", "line 3: the label 'c' is not in @classLabel: expected a, b"),
        ("@classLabel true a b\n@data\n1,x:a\n", "line 3, dimension 1: 'x': expected a number, or \\? for a missing"),
        ("@classLabel true a b\n@data\na\n", "line 3: no ':' before the label"),
        ("@classLabel true a b\n@data\n(1,2):a\n", "line 3: values with times in brackets are not supported"),
        ("@univariate true\n@classLabel true a b\n@data\n1:2:a\n", "line 4: 2 dimensions: the header says 1"),
        ("@classLabel true a b\n@data\n1:2:a\n1:b\n", "line 4: 1 dimension: expected 2, as in the first case"),
        ("@classLabel true a b\n@data\n1,2:3:a\n", "line 3: dimensions of 1, 2 values: expected one length"),
        ("@targetLabel true\n@data\n1,2:high\n", "a target is not a number"),
        ("@classLabel true a b\n@data\n1,2:a\n2,3:b\n", "has 2 sequences: expected at least three"),
    ],
)
def test_an_invalid_ts_file_is_refused(tmp_path, text, message):
    (tmp_path / "d.ts").write_text(text)
    with pytest.raises(DataError, match=message):
        tasks.get("files", path=tmp_path / "d.ts").load()


def test_a_pair_is_the_published_split(tmp_path):
    cases = [f"{i},2,3:{'ab'[i % 2]}" for i in range(30)]
    ts(tmp_path / "Toy_TRAIN.ts", cases[:20])
    alone = tasks.get("files", path=tmp_path / "Toy_TRAIN.ts")
    assert "not used" not in alone.remarks()
    ts(tmp_path / "Toy_TEST.ts", cases[20:])
    (tmp_path / "README.md").write_text("about")
    for path in (tmp_path, tmp_path / "Toy"):
        task = tasks.get("files", path=path)
        assert (task.sizes, task.is_here()) == ((17, 3, 10), True)
        assert task.content.values[task.indices[2], 0, 0].tolist() == list(range(20, 30))
        assert task.describe().split.startswith("published; 15 % of the training examples for validation")
    alone = tasks.get("files", path=tmp_path / "Toy_TRAIN.ts")
    assert sum(alone.sizes) == 20
    assert alone.remarks()["not used"].startswith("Toy_TEST.ts beside this file is the published test set: path=")
    ts(tmp_path / "Other_TRAIN.ts", cases[:20])
    ts(tmp_path / "Other_TEST.ts", cases[:20])
    with pytest.raises(DataError, match=r"has 2 data sets, Other, Toy: name one, as path=.*Other"):
        tasks.get("files", path=tmp_path).load()
    ts(tmp_path / "Other_TEST.ts", ["1:2:a"], univariate="false")
    with pytest.raises(DataError, match=r"Other_TEST.ts has 2 dimensions: expected 1, as in Other_TRAIN.ts"):
        tasks.get("files", path=tmp_path / "Other").load()


def test_each_file_of_a_pair_has_lengths_of_its_own(tmp_path):
    ts(tmp_path / "Toy_TRAIN.ts", [f"{'1,' * (2 + i % 2)}2:{'ab'[i % 2]}" for i in range(8)])
    ts(tmp_path / "Toy_TEST.ts", ["1,2:a", "1,2,3,4,5,6:b"])
    assert tasks.get("files", path=tmp_path / "Toy").content.ends.tolist() == [3, 4] * 4 + [2, 6]


def test_options_for_tables_do_not_fit(tmp_path):
    path = ts(tmp_path / "d.ts", ["1:a", "2:b", "3:a"])
    for option in ({"columns": "x"}, {"split": "x"}, {"tokens": True}, {"id": "x"}):
        with pytest.raises(DataError, match=f"is a .ts file: {next(iter(option))} is for tables"):
            tasks.get("files", path=path, **option).load()
