"""Arrays as floats: what is masked is missing, and integers keep their digits, wherever data comes in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gatelab import floats, tasks
from gatelab.data import series
from gatelab.data.formats import read_table
from gatelab.data.formats.sequence_files import read_sequence
from gatelab.errors import DataError, GatelabError
from gatelab.sklearn import RecurrentClassifier, RecurrentForecaster, RecurrentRegressor
from gatelab.use import inputs

LOST = 2**53 + 1  # the first integer without a float
SAID = r"9007199254740993, which would become 9007199254740992 as a 64-bit float: expected integers up to 9,007,199,254"
X = np.random.RandomState(0).normal(size=(20, 6))
Y = np.arange(20) % 2
MASK = np.arange(20) == 3
SEQUENCES = {"hidden_size": 4, "max_epochs": 1, "stem": "none", "random_state": 0}


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_are_floats_if_they_keep_their_digits(dtype):
    exact = np.array([0, 2**53, 2**53 + 2, 2**62], dtype)
    assert [int(each) for each in floats.floats(exact, "y")] == exact.tolist()
    with pytest.raises(DataError, match=f"y has the integer {SAID}"):
        floats.floats(np.array([1, LOST], dtype), "y")
    assert floats.floats([True, False], "y").tolist() == [1.0, 0.0]
    assert floats.floats(np.array([-(2**53)]), "y") == -(2**53)
    with pytest.raises(DataError, match=f"-{SAID[:10]}"):
        floats.floats(np.array([-LOST]), "y")


def test_masked_numbers_are_missing():
    masked = np.ma.array([[1, 2], [3, LOST]], mask=[[False, True], [False, True]])
    np.testing.assert_array_equal(floats.unmasked(masked, "X"), [[1, np.nan], [3, np.nan]])
    assert floats.unmasked(np.ma.array([1, 2]), "X").dtype == np.int64
    both = floats.unmasked([masked[0], [5, 6]], "X")
    np.testing.assert_array_equal(both, [[1, np.nan], [5, 6]])
    with pytest.raises(DataError, match=r"y is masked in 1 places, first \[1\]: expected a value in every place"):
        floats.unmasked(np.ma.array(["a", "b"], mask=[False, True]), "y")
    rows = [(1, 2), 3]
    assert floats.unmasked(rows, "X") is rows


# The estimators.


def masked(values):
    return np.ma.array(values, mask=np.broadcast_to(MASK.reshape(-1, *[1] * (values.ndim - 1)), values.shape))


@pytest.mark.parametrize(
    "given", [masked(X), masked(X[..., None]), [masked(X[:, :1]), *X[1:, :, None]], [X[0], masked(X)[3]]]
)
def test_masked_inputs_are_refused_as_missing_ones_are(given):
    with pytest.raises(ValueError, match="X has NaN in sequence"):
        RecurrentClassifier(**SEQUENCES).fit(given, Y[: len(given)])
    known = RecurrentRegressor(**SEQUENCES).fit(X[..., None], X[:, 0])
    with pytest.raises(ValueError, match="X has NaN in sequence"):
        known.predict(given)


@pytest.mark.parametrize("missing", [masked(Y), np.where(MASK, np.nan, Y)])
def test_missing_labels_are_refused(missing):
    words = r"Input y contains NaN: the label of sequence 3 is missing \(1 of 20\): expected one for every sequence"
    with pytest.raises(GatelabError, match=words):
        RecurrentClassifier(**SEQUENCES).fit(X, missing)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        RecurrentRegressor(**SEQUENCES).fit(X, masked(X[:, 0]))
    for name, early in (("sample_weight", False), ("groups", True)):
        with pytest.raises(ValueError, match=f"Input {name} contains NaN"):
            RecurrentClassifier(**SEQUENCES, early_stopping=early).fit(X, Y, **{name: masked(np.arange(20))})


@pytest.mark.parametrize("dtype", ["Int64", "UInt8", "boolean"])
def test_labels_of_pandas_types_come_back_as_they_are(dtype):
    labels = pd.Series(Y, dtype=dtype)
    found = RecurrentClassifier(**SEQUENCES).fit(X, labels)
    expected = np.dtype({"Int64": "int64", "UInt8": "uint8", "boolean": "bool"}[dtype])
    assert found.classes_.dtype == found.predict(X).dtype == expected
    labels[3] = pd.NA
    with pytest.raises(GatelabError, match="the label of sequence 3 is missing"):
        RecurrentClassifier(**SEQUENCES).fit(X, labels)


def test_estimators_refuse_integers_that_would_change():
    large = np.full((20, 6), LOST)
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.array([None, *large[1:, 0]], "Int64")})
    for given, what in (
        (large, "X"),
        (large.tolist(), "X"),
        ([large[0], X[1]], "sequence 0 of X"),
        (frame, "X, column 'b',"),
    ):
        with pytest.raises(DataError, match=f"{what} has the integer {SAID}"):
            RecurrentClassifier(**SEQUENCES).fit(given, Y[: len(given)])
    with pytest.raises(DataError, match=f"y has the integer {SAID}"):
        RecurrentRegressor(**SEQUENCES).fit(X, large[:, 0])
    labels = LOST + Y
    assert RecurrentClassifier(**SEQUENCES).fit(X, labels).classes_.tolist() == [LOST, LOST + 1]


def test_a_forecaster_fills_what_is_masked_and_keeps_the_digits_of_an_index():
    values = np.ma.array(np.arange(20.0), mask=MASK)
    with pytest.raises(DataError, match="y, row 3: missing value"):
        series.as_given(values).regular()
    assert series.as_given(values).regular(fill="interpolate").values[:, 0].tolist() == list(range(20))
    with pytest.raises(DataError, match="X has a missing value in row 3"):
        RecurrentForecaster().fit(np.arange(20.0), X=values[:, None])
    for given in (Y + LOST, (Y + LOST).tolist(), pd.Series(Y + LOST), pd.DataFrame({"n": Y + LOST})):
        with pytest.raises(DataError, match=f"y(, column 'n',)? has the integer {SAID}"):
            series.as_given(given)
    begin = 2**62 + 1
    numbered = pd.Series(np.arange(20.0), np.arange(begin, begin + 40, 2))
    for given in (numbered, numbered.iloc[::-1]):
        found = series.as_given(given).regular()
        assert found.index.ahead(2).tolist() == [begin + 40, begin + 42]
    with pytest.raises(DataError, match=f"y, row 1: after {begin + 2} the step {begin + 4} is missing"):
        series.as_given(numbered.drop(begin + 4)).regular()
    filled = series.as_given(numbered.drop(begin + 4)).regular(fill="previous")
    assert filled.index.times.tolist() == numbered.index.tolist()
    gaps = series.as_given(pd.Series(np.arange(5.0), [0, 1, 2, 4, 6])).regular(fill="none")
    assert gaps.index.ahead(2).tolist() == [7, 8]
    with pytest.raises(DataError, match="y has 9223372036854775808 in its index: expected integers below"):
        series.as_given(pd.Series([1.0, 2.0], np.array([2**63, 2**63 - 1], np.uint64)))
    last = series.as_given(pd.Series([1.0, 2.0], [2**63 - 3, 2**63 - 2]))
    assert last.index.ahead(1).tolist() == [2**63 - 1]
    assert last.index.ahead(2).tolist() == [2, 3]  # there are no such numbers: positions


# Tables, arrays, new data for a model.


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_cells_that_would_change_are_refused_and_labels_keep_their_digits(tmp_path, kind):
    columns = {"id": [LOST, LOST + 1, LOST + 2], "count": [1, LOST, 3], "even": [2**53, 2**53 + 2, 0], "x": [0.5, 1, 2]}
    path = tmp_path / f"table.{kind}"
    if kind == "csv":
        rows = zip(*columns.values(), strict=True)
        path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table(columns), path)
    table = read_table(path)
    line = 3 if kind == "csv" else 2
    with pytest.raises(DataError, match=rf"table.{kind}, line {line}, column 'count': {SAID}"):
        table.number_columns(("x", "count"))
    assert table.number_columns(("even", "x"))[:, 0].tolist() == columns["even"]
    assert table.cells("id") == [str(each) for each in columns["id"]]
    assert table.target_column("id", True).tolist() == table.token_column("id").tolist() == columns["id"]


def test_cells_between_missing_ones_and_times_keep_their_digits_or_are_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(f"t,n,label\n1,{LOST},{2**64}\n2,,{LOST}\n3,5,7\n")
    table = read_table(path)
    with pytest.raises(DataError, match=f"line 2, column 'n': {SAID}"):
        table.number_columns(("n",))
    assert table.target_column("label", True).tolist() == [str(2**64), str(LOST), "7"]
    path.write_text("t,x\n" + "\n".join(f"{LOST + i},{i % 3}" for i in range(30)))
    with pytest.raises(DataError, match=f"line 2, column 't': {SAID}"):
        tasks.get("files", path=path, columns="x", length=4).content  # noqa: B018


def test_arrays_and_new_data_are_treated_alike(tmp_path):
    np.save(tmp_path / "steps.npy", np.full(3, LOST))
    with pytest.raises(DataError, match=f"steps.npy has the integer {SAID}"):
        read_sequence(tmp_path / "steps.npy")
    with pytest.raises(DataError, match=f"the arrays: X has the integer {SAID}"):
        tasks.from_arrays(np.full((20, 6), LOST), Y).content  # noqa: B018
    with pytest.raises(DataError, match=f"the arrays: y has the integer {SAID}"):
        tasks.from_arrays(X, Y + LOST, classify=False).content  # noqa: B018
    with pytest.raises(DataError, match=f"X has the integer {SAID}"):
        tasks.from_arrays(np.full(200, LOST)).content  # noqa: B018
    with pytest.raises(DataError, match=r"X\[3, 0, 0\] is nan"):
        tasks.from_arrays(masked(X), Y).content  # noqa: B018
    filled = tasks.from_arrays(np.ma.array(X, mask=X > 2), Y, fill="interpolate")
    assert filled.content.values.max() < 2
    prepared = tasks.from_arrays(X, Y).preparation
    with pytest.raises(DataError, match=f"X has the integer {SAID}"):
        inputs.read(np.full((2, 6), LOST), prepared)
    for given in (masked(X), [masked(X)[3], X[0]]):
        with pytest.raises(GatelabError, match="X has NaN in sequence"):
            inputs.check_finite(inputs.read(given, prepared), prepared)
