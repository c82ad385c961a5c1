"""One form of a series, whatever it comes from."""

from __future__ import annotations

import numpy as np
import pytest

from gatelab.data import series_tables
from gatelab.data.index import Index
from gatelab.data.reading import Reading
from gatelab.data.series import Series


@pytest.fixture
def read(tmp_path):
    path = tmp_path / "s.csv"
    rows = [f"2024-01-{day:02},{day},{'' if day == 5 else -day},{day**2}" for day in range(1, 21)]
    path.write_text("date,a,b,c\n" + "\n".join(rows))
    return series_tables.read(path, ("a", "b", "c"), Reading(fill="interpolate"))


def test_columns_are_taken_with_all_that_belongs_to_them(read):
    read = Series(**{**vars(read), "num_targets": 2})
    some = read.with_columns([1, 2])
    assert (some.columns, some.target_names, some.input_names) == (("b", "c"), ("b",), ("c",))
    assert np.argwhere(some.filled).tolist() == [[4, 0]]
    np.testing.assert_array_equal(some.values, read.values[:, 1:])


def test_a_part_has_its_own_times(read):
    part = read.part(3, 8)
    assert part.values[:, 0].tolist() == [4, 5, 6, 7, 8]
    assert [str(time)[:10] for time in part.index.ahead(2)] == ["2024-01-09", "2024-01-10"]
    late = Series(read.values, read.columns, Index.at(read.stamps[5:], 20), num_targets=3)  # the first are not known
    assert late.part(10, 15).stamps.tolist() == read.stamps[10:15].tolist()
    assert late.part(3, 8).stamps.tolist() == read.stamps[5:8].tolist()


def test_a_file_without_a_split_is_split_by_nothing(read):
    assert read.split_by == ""
    assert read.parts is None
