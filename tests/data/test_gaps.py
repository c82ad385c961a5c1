"""Times: intervals, duplicates, missing steps and missing values are found, named, and treated as asked."""

from __future__ import annotations

import itertools
import math
import re
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatelab import tasks
from gatelab.data import gaps, time_intervals, timestamps
from gatelab.data.time_intervals import typical_interval
from gatelab.errors import DataError

DAYS = [datetime(2024, 1, 1) + timedelta(days=i) for i in range(120)]


def series(folder: Path, times: list[object], values: list[object] | None = None, head: str = "time,v") -> Path:
    values = list(range(len(times))) if values is None else values
    path = folder / "s.csv"
    path.write_text("\n".join([head, *(f"{t},{v}" for t, v in zip(times, values, strict=True))]))
    return path


def content(path: Path, **options: object):
    return tasks.get("files", path=path, length=2, **options).content


@pytest.mark.parametrize(
    ("times", "interval"),
    [
        ([datetime(2024, 1, 1) + timedelta(minutes=15 * i) for i in range(30)], "15 minutes"),
        ([datetime(2024, 1, 1) + timedelta(weeks=i) for i in range(30)], "1 week"),
        ([day for day in DAYS if day.weekday() < 5], "1 business day"),
        ([datetime(2020 + i // 12, i % 12 + 1, 15) for i in range(30)], "1 month"),
        ([datetime(2020 + (i + 1) // 12, (i + 1) % 12 + 1, 1) - timedelta(days=1) for i in range(30)], "1 month"),
        ([datetime(2020 + i // 4, i % 4 * 3 + 1, 1) for i in range(30)], "3 months"),
        ([datetime(1990 + i, 1, 1) for i in range(30)], "1 year"),
    ],
)
def test_clocks_and_calendars_are_recognised_with_and_without_gaps(times, interval):
    stamps = np.array(times, "datetime64[us]")
    full = time_intervals.regular(stamps)
    assert (full.interval, full.missing) == (interval, 0)
    np.testing.assert_array_equal(full.complete, stamps)
    kept = np.delete(stamps, [4, 11, 12])
    found = time_intervals.regular(kept)
    assert (found.interval, found.missing) == (interval, 3)
    np.testing.assert_array_equal(found.complete, stamps)
    np.testing.assert_array_equal(found.complete[found.positions], kept)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.5, "0.5 seconds"), (90, "90 seconds"), (5400, "90 minutes"), (129_600, "36 hours"), (1_209_600, "2 weeks")],
)
def test_an_interval_is_a_whole_number_of_its_largest_unit(seconds, said):
    assert time_intervals.duration(1e6 * seconds) == said


def test_times_are_written_as_all_of_their_series():
    midnight, noon = np.array(["2024-01-02T00:00"], "datetime64[s]"), np.array(["2024-01-01T12:00"], "datetime64[s]")
    assert timestamps.format_times(midnight) == ["2024-01-02"]
    assert timestamps.format_times(midnight, noon) == ["2024-01-02 00:00:00"]


def test_irregular_times_have_no_interval():
    seconds = np.cumsum(np.random.RandomState(0).randint(1, 1000, 50))
    assert time_intervals.regular(seconds.astype("datetime64[s]")) is None
    assert time_intervals.regular(np.sqrt(np.arange(1, 50))) is None
    assert time_intervals.regular(np.arange(50) * 0.1).interval == "0.1"
    assert time_intervals.regular(np.array([0.0, 1.0, 2.0, 90.0])) is None  # more steps missing than there are


def test_missing_steps_are_named_and_filled(tmp_path):
    times = [day for i, day in enumerate(DAYS) if i not in (40, 41, 60)]
    values = [float(i * i) for i in range(len(DAYS)) if i not in (40, 41, 60)]
    path = series(tmp_path, times, values)
    with pytest.raises(
        DataError,
        match=r"line 41, column 'time': after 2024-02-09 the step 2024-02-10 is missing \(3 missing steps at an "
        r"interval of 1 day\): fill=interpolate or fill=previous inserts them; fill=none takes the rows as consecutive",
    ):
        content(path)
    assert content(path, fill="none").values[:, 0].tolist() == values
    filled = content(path, fill="interpolate")
    assert len(filled.values) == 120
    assert filled.values[38:43, 0].tolist() == [38.0**2, 39.0**2, 1602.0, 1683.0, 42.0**2]  # 81 a day
    assert filled.values[60, 0] == (59**2 + 61**2) / 2
    previous = content(path, fill="previous")
    assert previous.values[[40, 41, 60], 0].tolist() == [39.0**2, 39.0**2, 59.0**2]
    assert previous.stamps[41] == np.datetime64("2024-02-11")
    assert previous.notes["gaps"] == "3 missing steps, first 2024-02-10 after line 41; filled (previous)"
    assert "taken as consecutive" in content(path, fill="none").notes["gaps"]


def test_duplicate_times_are_named_and_merged(tmp_path):
    hours = [datetime(2023, 10, 28) + timedelta(hours=i) for i in range(60)]
    times = [*hours[:27], hours[26], *hours[27:]]  # an hour that comes twice at the end of summer time
    values = [*range(27), 100, *range(27, 60)]
    path = series(tmp_path, times, values)
    with pytest.raises(
        DataError, match=r"line 29, column 'time': 2023-10-29 02:00 appears twice \(1 such row\): aggregate=mean, first"
    ):
        content(path)
    for how, expected in {"mean": 63.0, "first": 26.0, "last": 100.0, "sum": 126.0}.items():
        merged = content(path, aggregate=how)
        assert (len(merged.values), merged.values[26, 0], merged.values[27, 0]) == (60, expected, 27)
    assert merged.notes["aggregated"].startswith("1 row with the time of another merged (sum), first 2023-10-29 02:00")
    assert len(content(path, time="none").values) == 61
    lines = [f"2024-01-{d:02},s{s},{s}.5" for d in range(1, 20) for s in range(3)]
    path.write_text("\n".join(["date,store,v", *lines]))
    with pytest.raises(DataError, match=r"line 3, column 'date': 2024-01-01 appears twice .*; id=COLUMN if"):
        content(path)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.one_of(st.none(), st.integers(-9, 9))), min_size=1, max_size=30),
    st.sampled_from(["mean", "first", "last", "sum"]),
)
def test_merging_is_what_a_dictionary_of_lists_gives(rows, how):
    rows.sort(key=lambda row: row[0])
    groups: dict[int, list[int]] = {}
    for key, value in rows:
        groups.setdefault(key, []).extend([] if value is None else [value])
    rule = {"mean": lambda v: sum(v) / len(v), "first": lambda v: v[0], "last": lambda v: v[-1], "sum": sum}[how]
    expected = [rule(values) if values else math.nan for values in groups.values()]
    values = np.array([[math.nan if value is None else float(value)] for _, value in rows])
    np.testing.assert_allclose(gaps.merged(values, np.array([key for key, _ in rows]), how)[:, 0], expected)


@given(st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=1, max_size=20))
def test_previous_never_looks_ahead_and_interpolation_is_a_line(values):
    column = np.array([[math.nan if value is None else float(value)] for value in values])
    last, expected = math.nan, []
    for value in values:
        last = last if value is None else float(value)
        expected.append(last)
    np.testing.assert_array_equal(gaps.fill_missing(column, "previous")[:, 0], expected)
    line = gaps.fill_missing(column, "interpolate")[:, 0]
    known = [(i, v) for i, v in enumerate(values) if v is not None]
    for (a, left), (b, right) in itertools.pairwise(known):
        np.testing.assert_allclose(line[a : b + 1], [left + (right - left) * k / (b - a) for k in range(b - a + 1)])
    assert np.isnan(line).all() == (not known)


def test_missing_values_are_filled_or_refused(tmp_path):
    values = ["" if i in (0, 50, 51) else i for i in range(120)]
    path = series(tmp_path, DAYS, values)
    with pytest.raises(
        DataError, match=r"line 2, column 'v': missing value \(3 of 120 rows\): fill=interpolate or fill="
    ):
        content(path)
    with pytest.raises(DataError, match="fill=previous has no value before it; fill=interpolate repeats the first one"):
        content(path, fill="previous")
    with pytest.raises(DataError, match="missing value"):
        content(path, fill="none")
    filled = content(path, fill="interpolate")
    np.testing.assert_allclose(filled.values[:, 0], [1, *range(1, 120)])
    assert filled.notes["missing values"] == "3 filled (interpolate)"


def test_the_order_of_time(tmp_path):
    newest_first = content(series(tmp_path, DAYS[::-1]))
    assert newest_first.values[:3, 0].tolist() == [119, 118, 117]
    assert newest_first.notes["rows"] == "reversed: the file has the newest first"
    shuffled = np.random.RandomState(0).permutation(120)
    path = series(tmp_path, [DAYS[i] for i in shuffled], shuffled.tolist())
    with pytest.raises(
        DataError, match=r"column 'time': .* comes after .*: expected rows in the order of time; time=time "
    ):
        content(path)
    assert content(path, time="time").values[:, 0].tolist() == list(range(120))
    assert content(path, time="none").values[:, 0].tolist() == shuffled.tolist()


@pytest.mark.parametrize(("how", "pick"), [("first", min), ("last", max)])
def test_rows_of_one_time_keep_their_order_when_they_are_sorted(tmp_path, how, pick):
    days = np.random.RandomState(0).permutation(np.repeat(np.arange(60), 2))
    path = series(tmp_path, [DAYS[day] for day in days])  # of the values 0, 1, …
    merged = content(path, time="time", aggregate=how).values[:, 0]
    assert merged.tolist() == [pick(np.flatnonzero(days == day)) for day in range(60)]


def test_offsets_from_utc_and_fractions_of_seconds(tmp_path):
    local = [f"2023-10-29T0{1 + h}:00:00+02:00" for h in range(2)] + [
        f"2023-10-29T0{2 + h}:00:00+01:00" for h in range(6)
    ]
    times = timestamps.parse_column(local)
    assert time_intervals.regular(times).missing == 0
    assert str(times[0]) == "2023-10-28T23:00:00.000000"
    assert timestamps.parse_column([*local, "2023-10-29T08:00:00"]) is None  # nobody knows when that is
    fast = [f"2024-01-01 00:00:{i // 10:02}.{i % 10}00" for i in range(120)]
    read = content(series(tmp_path, fast))
    assert "one step every 0.1 seconds" in read.notes["time"]
    assert read.stamps is None  # forecasts have whole seconds


def test_irregular_times_are_consecutive_steps_with_a_remark(tmp_path):
    random = np.random.RandomState(0)
    times = [DAYS[0] + timedelta(seconds=int(s)) for s in np.cumsum(random.randint(1, 9999, 120))]
    assert content(series(tmp_path, times)).notes["time"].endswith("irregular intervals, taken as consecutive steps")


@pytest.mark.parametrize(
    ("texts", "last"),
    [
        (["1970 Q1", "1970 Q2", "1970 Q3"], "1970-07-01"),
        (["1991 Apr", "1991 May", "1991 Jun"], "1991-06-01"),
        (["May 1991", "Jun 1991", "Jul 1991"], "1991-07-01"),
        (["30-Apr-2020", "01-May-2020"], "2020-05-01"),
        (["01/02/2020", "01/03/2020", "01/04/2020"], None),  # three days of January, or three months
        (["2020-01-01", "yesterday"], None),
        (["2020-01-01T00:00:00+01:00", "2020-01-02"], None),  # with and without an offset
    ],
)
def test_dates_as_people_write_them(texts, last):
    times = timestamps.parse_column(texts)
    assert (None if times is None else str(times[-1])[:10]) == last


def test_numbers_that_are_dates(tmp_path):
    compact = content(series(tmp_path, [f"{day:%Y%m%d}" for day in DAYS], head="date,v"))
    assert str(compact.stamps[-1])[:10] == "2024-04-29"
    unix = content(series(tmp_path, [1_700_000_000 + 60 * i for i in range(120)], head="timestamp,v"))
    assert "one step per minute" in unix.notes["time"]
    counted = content(series(tmp_path, [*range(60), *range(62, 122)], head="step,v"), fill="previous")
    assert len(counted.values) == 122


@pytest.mark.parametrize(
    ("cell", "head", "line"),
    [
        ("2024-13-45", "date,v", 32),
        ("", "date,v", 32),
        ("n/a", "when,v", 32),  # a column that mostly has times
        ("31/01/2024", "when,v", 32),
        ("31.1.24", "Time,v", 32),
        ("2024-01-31T00:00:00+02:00", "date,v", 2),  # with and without an offset
    ],
)
def test_a_cell_that_is_no_time_is_refused(tmp_path, cell, head, line):
    shuffled = np.random.RandomState(0).permutation(120)
    times = [f"{DAYS[i]:%Y-%m-%d}" for i in shuffled]
    times[30] = cell
    path = series(tmp_path, times, shuffled.tolist(), head)
    shown = times[line - 2]
    for option in (None, head.split(",")[0]):
        with pytest.raises(
            DataError, match=f"line {line}, column '{head[:-2]}': '{re.escape(shown)}': .*time=none takes"
        ):
            content(path, time=option)
    assert content(path, time="none").values[:, 0].tolist() == shuffled.tolist()


def test_a_column_of_words_or_of_a_few_dates_is_no_time(tmp_path):
    dates = [day if i % 3 == 0 else "" for i, day in enumerate(DAYS)]
    assert content(series(tmp_path, dates, head="delivered,v")).ignored == ("delivered",)
    with pytest.raises(DataError, match=r"line 2, column 'date': '01\.01\.24': no time in a known format"):
        content(series(tmp_path, [f"{day:%d.%m.%y}" for day in DAYS], head="date,v"))
    with pytest.raises(DataError, match="line 2, column 'date': '02/01/2024': day and month cannot be told apart"):
        content(series(tmp_path, ["02/01/2024", "01/01/2024", "02/02/2024", "01/02/2024"], head="date,v"))
    lines = "\n".join(f"{day},{'' if i == 4 else day},{i}" for i, day in enumerate(DAYS))
    (tmp_path / "s.csv").write_text("when,updated,v\n" + lines)  # another column has the times
    assert "when, 2024-01-01 to" in content(tmp_path / "s.csv").notes["time"]


def test_numbers_that_are_dates_in_any_order(tmp_path):
    shuffled = [DAYS[i] for i in np.random.RandomState(0).permutation(120)]
    for head, times in {
        "date,v": [f"{day:%Y%m%d}" for day in shuffled],
        "timestamp,v": [int(day.timestamp()) for day in shuffled],
    }.items():
        with pytest.raises(DataError, match=r"comes after 2024-.*: expected rows in the order of time; time="):
            content(series(tmp_path, times, head=head))
    times = [f"{day:%Y%m%d}" for day in DAYS]
    with pytest.raises(DataError, match="line 12, column 'date': 20241345 is not a valid date"):
        content(series(tmp_path, [*times[:10], 20241345, *times[11:]], head="date,v"))
    path = series(tmp_path, [*times[:10], "", *times[11:]], head="date,v")
    with pytest.raises(DataError, match="line 12, column 'date': the time is missing"):
        content(path, fill="interpolate")
    assert content(path, time="none").columns == ("v",)
    hours = [1_700_000_000_000 + 3_600_000 * i for i in range(120)]
    read = content(series(tmp_path, hours, head="timestamp,v"))
    assert read.notes["time"] == "timestamp, 2023-11-14 22:13:20 to 2023-11-19 21:13:20, one step per hour"


LONG = [(i, step, i + step / 4) for i in range(12) for step in range(6)]


def long_file(folder: Path, rows: list[tuple[object, ...]]) -> Path:
    path = folder / "l.csv"
    path.write_text("id,t,v,label\n" + "\n".join(f"{i},{step},{v},{'xy'[int(i) % 2]}" for i, step, v in rows))
    return path


def test_gaps_within_sequences(tmp_path):
    path = long_file(tmp_path, [row for row in LONG if row[:2] not in ((3, 2), (5, 4))])
    with pytest.raises(
        DataError,
        match=r"line 21, column 't': after 1 the step 2 is missing in the sequence '3' \(2 missing .* 1\): fill=",
    ):
        content_long(path)
    filled = content_long(path, fill="interpolate")
    assert filled.ends.tolist() == [6] * 12
    np.testing.assert_allclose(filled.values[3, :, 0], [3 + step / 4 for step in range(6)])
    assert content_long(path, fill="previous").values[3, 2, 0] == 3.25
    assert content_long(path, fill="none").ends[3] == 5
    path = long_file(tmp_path, [(*row[:2], "" if row[:2] == (4, 3) else row[2]) for row in LONG])
    with pytest.raises(
        DataError, match=r"line 29, column 'v': missing value in step 3 of the sequence '4' .*: fill=inter"
    ):
        content_long(path)
    assert content_long(path, fill="interpolate").values[4, 3, 0] == 4.75


def test_labels_of_steps_are_refused_where_steps_would_be_inserted(tmp_path):
    path = tmp_path / "l.csv"
    rows = [f"{i},{t},{v},{'xy'[t % 2]}" for i, t, v in LONG if (i, t) != (3, 2)]
    path.write_text("\n".join(["id,t,v,label", *rows]))
    with pytest.raises(DataError, match="labels vary within sequences, and rows would be merged or inserted"):
        content_long(path, fill="interpolate")
    assert content_long(path, fill="none").targets[3, :5].tolist() == [0, 1, 1, 0, 1]


def test_a_sequence_may_lack_most_steps_of_the_interval_of_all_others(tmp_path):
    path = long_file(tmp_path, [row for row in LONG if row[0] != 3 or row[1] in (0, 5)])
    filled = content_long(path, fill="interpolate")
    assert filled.ends.tolist() == [6] * 12
    np.testing.assert_allclose(filled.values[3, :, 0], [3 + step / 4 for step in range(6)])


def test_duplicates_within_sequences(tmp_path):
    path = long_file(tmp_path, [*LONG, (3, 2, 100.0)])
    with pytest.raises(
        DataError, match=r"line 74, column 't': 2 appears twice in the sequence '3' \(1 such row\): aggreg"
    ):
        content_long(path)
    assert content_long(path, aggregate="last").values[3, 2, 0] == 100
    assert content_long(path, time="none").ends[3] == 7


def content_long(path: Path, **options: object):
    return tasks.get("files", path=path, **options).content


def test_missing_values_of_an_npz(tmp_path):
    X = np.arange(90.0).reshape(15, 6)
    X[2, 3] = np.nan
    np.savez(tmp_path / "d.npz", X=X, y=np.arange(15) % 2)
    with pytest.raises(
        DataError, match=r"X\[2, 3, 0\] is nan \(1 such values\): expected finite numbers; fill=interpolate"
    ):
        content_long(tmp_path / "d.npz")
    assert content_long(tmp_path / "d.npz", fill="interpolate").values[2, 3, 0] == 15
    assert content_long(tmp_path / "d.npz", fill="previous").values[2, 3, 0] == 14


def test_a_forecast_treats_new_data_as_in_training(tmp_path, cli):
    from gatelab.training import ModelSpec, RunSpec, TrainingSpec, train

    lines = [f"{2000 + i // 12},{i % 12 + 1},{10 + i % 12}" for i in range(150) if i not in (30, 31)]
    (tmp_path / "m.csv").write_text("YEAR,MONTH,level\n" + "\n".join(lines))
    task = tasks.get("files", path=tmp_path / "m.csv", length=5, fill="interpolate")
    spec = RunSpec(
        task=task, model=ModelSpec(hidden_size=3, engine="eager"), training=TrainingSpec(num_epochs=1, threads=1)
    )
    train(spec, tmp_path / "run")
    code, out, _ = cli("forecast", tmp_path / "run", "--steps", 2)
    assert (code, [line.split(",")[0] for line in out.splitlines()[1:]]) == (0, ["2012-07-01", "2012-08-01"])
    newer = [f"2020,{month},{month}" for month in (1, 2, 3, 5, 6, 7)]
    (tmp_path / "new.csv").write_text("YEAR,MONTH,level\n" + "\n".join(newer))
    code, out, _ = cli("forecast", tmp_path / "run", "--steps", 1, "--data", tmp_path / "new.csv")
    assert (code, out.splitlines()[1].split(",")[0]) == (0, "2020-08-01")
    code, out, _ = cli("predict", tmp_path / "run", tmp_path / "new.csv")
    rows = [line.split(",") for line in out.splitlines()[1:]]
    assert [row[0] for row in rows] == [f"2020-0{month}-01" for month in range(2, 8)]
    assert float(rows[2][2]) == 4  # interpolated


@pytest.mark.parametrize(("intervals", "typical"), [([1, 2], 1), ([2, 1, 1, 2], 1), ([2, 1, 2], 2), ([5], 5)])
def test_the_interval_is_the_lower_median(intervals, typical):
    """Where half of the intervals are gaps, the others are the interval."""
    assert typical_interval(np.array(intervals)) == typical


def test_a_series_whose_every_second_interval_is_a_gap_keeps_its_interval():
    found = time_intervals.regular(np.array([0.0, 1, 3, 4, 6]))
    assert found is not None
    assert (found.interval, found.missing) == ("1", 2)


def test_minutes_end_at_59(tmp_path):
    head = "year,month,day,hour,minute,v"
    stamps = [f"2024,1,1,{i // 60},{i % 60}" for i in range(130)]
    assert content(series(tmp_path, stamps, head=head)).notes["time"].endswith("one step per minute")
    stamps[61] = "2024,1,1,0,60"
    with pytest.raises(DataError, match="line 63, column 'minute': 60 is not a valid minute"):
        content(series(tmp_path, stamps, head=head))


def test_a_missing_value_is_named_by_its_own_line(tmp_path):
    path = tmp_path / "w.csv"
    path.write_text("label,t0,t1,t2\n" + "".join(f"{i % 2},1,{'' if i == 4 else 2},3\n" for i in range(9)))
    with pytest.raises(DataError, match=r"w\.csv, line 6: the value of step 1 is nan \(1 such values\)"):
        tasks.get("files", path=path).load()


def test_filled_values_are_counted_in_what_is_forecast_alone(tmp_path):
    """Not in inputs, on which there are no errors."""
    path = tmp_path / "s.csv"
    lines = [f"{i % 7},{'' if i >= 90 else i % 5}" for i in range(100)]
    path.write_text("load,weather\n" + "\n".join(lines))
    task = tasks.get("files", path=path, columns="load", inputs="weather", length=3, fill="previous")
    assert "caution" not in task.remarks()
    both = tasks.get("files", path=path, columns="weather", inputs="load", length=3, fill="previous")
    assert both.remarks()["caution"].startswith("10 of 15 test values are filled")
