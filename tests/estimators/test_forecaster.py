"""The forecaster: sktime's verbs and formats, transforms that invert, intervals that cover, naive forecasts beside."""

from __future__ import annotations

import itertools
import json
import math
import pickle
import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import gatelab
from gatelab import sealed
from gatelab.data import series
from gatelab.data.index import Index
from gatelab.errors import DataError, GatelabError
from gatelab.estimators.forecasting import (
    baselines,
    calendar_features,
    covariates,
    horizons,
    intervals,
    networks,
    parameters,
    selection,
)
from gatelab.estimators.forecasting.ensemble import Material
from gatelab.estimators.forecasting.history import History
from gatelab.estimators.forecasting.intervals import Scores, conformal_rank
from gatelab.estimators.forecasting.transforms import KINDS, Combination, Transform
from gatelab.estimators.forecasting.verify_forecaster import verify_forecaster
from gatelab.estimators.forecasting.windows import Windows
from gatelab.sklearn import RecurrentForecaster

STEPS = np.arange(96)
MONTHLY = pd.Series(
    10 + STEPS / 20 + np.sin(2 * np.pi * STEPS / 12) + 0.1 * np.random.RandomState(0).normal(size=96),
    pd.period_range("2015-01", periods=96, freq="M"),
    name="sales",
)
SMALL = {"hidden_size": 8, "num_networks": 1, "num_steps": 64, "random_state": 0}
QUICK = {**SMALL, "transform": "difference", "log": False}


def read(y, **parameters):
    """A series as a fit reads it."""
    return series.as_given(y).regular(**parameters)


@pytest.fixture(scope="module")
def fitted():
    return RecurrentForecaster(**QUICK).fit(MONTHLY, fh=range(1, 5))


# Parameters.


def test_parameters_are_stored_and_cloned():
    forecaster = RecurrentForecaster("lstm", season=7, transform="window")
    assert forecaster.get_params() == clone(forecaster).get_params()
    assert clone(forecaster).set_params(season=3).season == 3
    assert not [name for name in vars(forecaster) if name.endswith("_")]


def test_nothing_is_forecast_before_fit():
    for verb in ("predict", "predict_interval", "predict_quantiles", "summary"):
        with pytest.raises(NotFittedError, match="call fit"):
            getattr(RecurrentForecaster(), verb)()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"num_networks": 0}, r"num_networks is 0: expected an integer of at least 1"),
        ({"season": 2.5}, r"season is 2\.5: expected an integer"),
        ({"log": "yes"}, r"log is 'yes': expected one of 'auto', True, False"),
        ({"fill": "linear"}, r"fill is 'linear': expected one of None, 'interpolate'"),
        ({"holdout": 1}, r"holdout is 1: expected a fraction"),
        ({"hidden_size": -1}, r"hidden_size is -1: expected greater"),
        ({"cell": "grux"}, r"unknown cell 'grux'; did you mean"),
        ({"transform": "diff"}, r"transform is 'diff': expected one of window, difference"),
        ({"transform": "seasonal", "season": 1}, r"needs a season of at least 2 steps"),
        ({"window": 95}, r"y has 96 steps: expected at least 104.*choose a smaller window"),
    ],
)
def test_wrong_parameters_are_refused_in_words(parameters, message):
    with pytest.raises(GatelabError, match=message):
        RecurrentForecaster(**{**QUICK, **parameters}).fit(MONTHLY)


@pytest.mark.parametrize("coverage", [0.0, 1.5, "0.9", []])
def test_coverages_are_probabilities(coverage, fitted):
    with pytest.raises(GatelabError, match="expected a probability between 0 and 1"):
        fitted.predict_interval(coverage=coverage)


# Verbs and formats.


def test_a_forecast_continues_the_index(fitted):
    forecast = fitted.predict()
    assert isinstance(forecast, pd.Series)
    assert forecast.name == "sales"
    pd.testing.assert_index_equal(forecast.index, pd.period_range("2023-01", periods=4, freq="M"))
    assert fitted.predict([2, 4]).tolist() == forecast.iloc[[1, 3]].tolist()
    assert fitted.predict(3).tolist() == [forecast.iloc[2]]
    assert fitted.predict(pd.PeriodIndex(["2023-03"], freq="M")).tolist() == [forecast.iloc[2]]
    assert len(fitted.predict(range(1, 31))) == 30  # farther than fitted for: only intervals have an end


def test_interval_columns_are_sktimes(fitted):
    table = fitted.predict_interval([1, 3], coverage=[0.5, 0.8])
    assert table.columns.tolist() == [("sales", c, side) for c in (0.5, 0.8) for side in ("lower", "upper")]
    pd.testing.assert_index_equal(table.index, pd.PeriodIndex(["2023-01", "2023-03"], freq="M"))
    narrow, wide = table["sales", 0.5], table["sales", 0.8]
    assert (wide["lower"] < narrow["lower"]).all()
    assert (narrow["upper"] < wide["upper"]).all()
    middle = (narrow["lower"] + narrow["upper"]) / 2
    np.testing.assert_allclose(middle, fitted.predict([1, 3]), rtol=1e-12)


def test_quantiles_are_the_bounds_of_intervals(fitted):
    table = fitted.predict_quantiles([2], alpha=[0.1, 0.5, 0.9])
    assert table.columns.tolist() == [("sales", 0.1), ("sales", 0.5), ("sales", 0.9)]
    interval = fitted.predict_interval([2], coverage=0.8)["sales", 0.8].iloc[0]
    assert table.iloc[0].tolist() == pytest.approx([interval["lower"], fitted.predict(2).iloc[0], interval["upper"]])


@pytest.mark.parametrize("alpha", [0.025, 0.05, 0.1, 0.2, 0.25])
def test_two_quantiles_are_the_interval_between_them(alpha, fitted):
    """1 − 2 × 0.95 is not exactly −0.9 in floating point."""
    table = fitted.predict_quantiles(alpha=[alpha, 1 - alpha]).to_numpy()
    interval = fitted.predict_interval(coverage=round(1 - 2 * alpha, 9)).to_numpy()
    np.testing.assert_array_equal(table, interval)


def test_intervals_end_where_they_are_calibrated(fitted):
    with pytest.raises(GatelabError, match=r"fh has the step 5, and intervals are calibrated for 4.*fh=range\(1, 6\)"):
        fitted.predict_interval(5)


@pytest.mark.parametrize(
    ("fh", "message"),
    [
        (0, "fh has the step 0: expected steps ahead"),
        ("12", "fh is '12': expected steps ahead"),
        ([1.5], "expected steps ahead, as fh=12"),
        ([], "expected steps ahead"),
        (pd.PeriodIndex(["2022-12"], freq="M"), "fh has 2022-12, which is no future step"),
    ],
)
def test_wrong_horizons_are_refused_in_words(fh, message, fitted):
    with pytest.raises(GatelabError, match=message):
        fitted.predict(fh)


def test_horizons_of_sktime_are_understood():
    class ForecastingHorizon:
        def to_pandas(self):
            return pd.Index([3, 1])

    assert horizons.read(ForecastingHorizon()).tolist() == [1, 3]


def test_future_dates_in_any_order_are_steps_ahead():
    index = read(MONTHLY).index
    assert horizons.relative(index.ahead(4)[[3, 0]], index).tolist() == [1, 4]


def test_arrays_give_arrays():
    one = RecurrentForecaster(**QUICK, season=12).fit(MONTHLY.to_numpy(), fh=3)
    assert one.predict().shape == (1,)
    assert one.predict_interval().columns.tolist() == [(0, 0.9, "lower"), (0, 0.9, "upper")]
    assert one.predict_interval().index.tolist() == [98]
    several = RecurrentForecaster(**QUICK).fit(MONTHLY.to_numpy()[:, None], fh=[1, 2])
    assert several.predict().shape == (2, 1)


@pytest.fixture(scope="module")
def never_updated():
    return RecurrentForecaster(**QUICK, calendar=False).fit(MONTHLY, fh=[1, 2])


def test_the_last_training_step_is_the_first_origin_that_is_judged(never_updated):
    """Right after a fit no origin before its end counts: the networks have seen what came. Steps are added by hand."""
    history = never_updated.history_
    more = replace(
        history.frame,
        values=np.concatenate([history.values, [[14.0], [14.5], [15.0]]]),
        index=replace(history.frame.index, steps=99, times=np.arange(len(history.values) + 3)),
    )
    longer = History(more, np.zeros((len(more.values), 0)), ())
    forecasts, scales = longer.forecasts(never_updated.ensemble_, 5, 0, 96)
    assert np.isnan(forecasts[:, 0, 0]).tolist() == [True, False, False, False, False]
    assert (scales[0], scales[1] != 1) == (1, True)
    forecasts, _ = longer.forecasts(never_updated.ensemble_, 5, 2, 96)  # two steps behind
    assert np.isnan(forecasts[:, 0, 0]).tolist() == [True, True, True, False, False]


def test_several_series_are_forecast_together():
    frame = pd.DataFrame({"up": MONTHLY, "down": -2 * MONTHLY})
    forecaster = RecurrentForecaster(**QUICK).fit(frame, fh=[1, 2])
    forecast = forecaster.predict()
    assert forecast.columns.tolist() == ["up", "down"]
    assert abs(forecast["up"].iloc[0] - MONTHLY.iloc[-1]) < 3
    assert abs(forecast["down"].iloc[0] + 2 * MONTHLY.iloc[-1]) < 6
    assert forecaster.predict_interval().columns.tolist() == [
        (name, 0.9, side) for name in ("up", "down") for side in ("lower", "upper")
    ]
    with pytest.raises(DataError, match="y has the columns other: expected those of fit, up, down"):
        forecaster.update(pd.DataFrame({"other": [1.0]}, pd.PeriodIndex(["2023-01"], freq="M")))


def test_the_same_seed_gives_the_same_bits_and_another_does_not(fitted):
    again = RecurrentForecaster(**QUICK).fit(MONTHLY, fh=range(1, 5))
    np.testing.assert_array_equal(again.predict(), fitted.predict())
    pd.testing.assert_frame_equal(again.predict_interval(), fitted.predict_interval(), check_exact=True)
    other = RecurrentForecaster(**{**QUICK, "random_state": 1}).fit(MONTHLY, fh=range(1, 5))
    assert (other.predict() != fitted.predict()).all()


# The index.


@pytest.mark.parametrize(
    ("index", "following"),
    [
        (pd.date_range("2020-01-31", periods=5, freq="ME"), ["2020-06-30", "2020-07-31"]),
        (pd.date_range("2020-01-01", periods=5, freq="QS"), ["2021-04-01", "2021-07-01"]),
        (pd.date_range("2021-01-01", periods=5, freq="B"), ["2021-01-08", "2021-01-11"]),
        (pd.date_range("2021-01-01", periods=5, freq="15min"), ["2021-01-01 01:15", "2021-01-01 01:30"]),
        (pd.period_range("2000", periods=5, freq="Y"), ["2005", "2006"]),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_dates_continue(index, following, known):
    given = index if known or isinstance(index, pd.PeriodIndex) else pd.DatetimeIndex(index.to_numpy())
    frame = read(pd.Series(np.arange(5.0), given))
    found = frame.index.ahead(2)
    assert [str(stamp) for stamp in found] == [str(type(found[0])(each)) for each in following]
    assert found.freqstr == index.freqstr
    assert found.dtype == index.dtype


@pytest.mark.parametrize("freq", ["D", "ME", "QS-FEB", "B", "W-WED", "2h", "YE-JUN"])
@pytest.mark.parametrize("known", [True, False])
def test_a_series_given_newest_first_is_the_sorted_one(freq, known):
    index = pd.date_range("2021-01-04", periods=12, freq=freq, tz="Europe/Berlin" if freq == "2h" else None)
    y = pd.Series(np.arange(12.0), index if known else pd.DatetimeIndex(index.array))
    sorted_, found = read(y), read(y[::-1])
    np.testing.assert_array_equal(found.values, sorted_.values)
    pd.testing.assert_index_equal(found.index.ahead(3), sorted_.index.ahead(3))
    assert found.index.season() == sorted_.index.season()
    assert found.notes == {"rows": "reversed: y has the newest first"}


def test_a_fit_to_a_series_given_newest_first_is_that_to_the_sorted_one():
    """Dates, values and intervals, and covariates without times belong to the rows of y as it was given."""
    dates = pd.date_range("2021-01-01", periods=46, freq="D")
    y, known = pd.Series(np.sin(np.arange(46.0)), dates), np.cos(np.arange(46.0))[:, None]
    options = {**QUICK, "num_steps": 4, "window": 4}
    here, there = (RecurrentForecaster(**options).fit(y[part], X=known[part], fh=[1, 2])
                   for part in (slice(0, 40), slice(39, None, -1)))  # fmt: skip
    ahead = pd.DataFrame(known[40:42], dates[40:42])
    for forecaster in (here, there):
        assert forecaster.predict(X=ahead).index.tolist() == dates[40:42].tolist()
    pd.testing.assert_frame_equal(there.predict_interval(X=ahead), here.predict_interval(X=ahead), check_exact=True)
    here.update(y[40:44], X=known[40:44])
    there.update(y[43:39:-1], X=known[43:39:-1])
    pd.testing.assert_series_equal(there.predict(X=known[44:]), here.predict(X=known[44:]), check_exact=True)
    backwards = RecurrentForecaster(**options).backtest(y[::-1], X=known[::-1], fh=[1])
    np.testing.assert_array_equal(backwards.upper, RecurrentForecaster(**options).backtest(y, X=known, fh=[1]).upper)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_dates_continue_in_their_resolution(unit):
    index = pd.date_range("2021-01-01", periods=5, freq="D", unit=unit)
    assert read(pd.Series(np.arange(5.0), index)).index.ahead(2).unit == unit


def test_hours_of_a_time_zone_with_a_gap_are_read_in_utc_newest_first_too():
    hours = pd.date_range("2024-03-30 20:00", periods=60, freq="h", tz="Europe/Berlin").delete(slice(2, 30))
    for index in (hours, hours[::-1]):
        assert Index.of(index, len(index)).utc
    twice = pd.DatetimeIndex(["2024-03-30", "2024-03-30", "2024-03-31", "2024-04-01"], tz="Europe/Berlin")
    assert not Index.of(twice, 4).utc


def test_numbers_continue_at_their_interval():
    assert read(pd.Series(np.arange(4.0), [2, 4, 6, 8])).index.ahead(2).tolist() == [10, 12]
    assert read(pd.Series(np.arange(4.0))).index.ahead(2).tolist() == [4, 5]
    assert read(pd.Series(np.arange(4.0), [0.0, 0.5, 1.0, 1.5])).index.ahead(2).tolist() == [2.0, 2.5]


def test_time_zones_continue_over_the_change_of_the_clock():
    hours = pd.date_range("2024-03-30 20:00", periods=5, freq="h", tz="Europe/Berlin")  # to midnight
    found = read(pd.Series(np.arange(5.0), hours)).index.ahead(3)
    assert found.tolist() == pd.date_range(hours[-1], periods=4, freq="h")[1:].tolist()
    days = pd.date_range("2024-03-27", periods=4, freq="D", tz="Europe/Berlin")
    found = read(pd.Series(np.arange(4.0), days)).index.ahead(2)
    assert found.tolist() == [
        pd.Timestamp("2024-03-31", tz="Europe/Berlin"),
        pd.Timestamp("2024-04-01", tz="Europe/Berlin"),
    ]


@pytest.mark.parametrize(
    ("freq", "season"),
    [
        ("YS", 1), ("YE-JUN", 1), ("QE", 4), ("QS-FEB", 4), ("MS", 12), ("ME", 12), ("3MS", 4), ("W-SUN", 52), ("D", 7),
        ("7D", 1), ("B", 5), ("h", 24), ("2h", 12), ("30min", 48), ("5h", 1), ("48h", 1), ("5MS", 1), ("2D", 1),
    ],
)  # fmt: skip
def test_the_season_is_that_of_the_frequency(freq, season):
    assert Index.of(pd.date_range("2020-01-01", periods=9, freq=freq), 9).season() == season


def test_calendar_features_are_phases():
    hours = pd.date_range("2024-01-01", periods=24 * 21, freq="h").to_numpy()  # a Monday
    assert calendar_features.chosen(hours) == ("day", "week")  # of a year it has seen three weeks
    table = calendar_features.features(hours, ("day",), len(hours))
    np.testing.assert_allclose(table[6], [1, 0], atol=1e-12)
    np.testing.assert_allclose(table[12], [0, -1], atol=1e-12)
    months = pd.date_range("2020-01-01", periods=36, freq="MS").to_numpy()
    assert calendar_features.chosen(months) == ("year",)
    assert calendar_features.phase(months, "year")[6] == 182 / 366  # July 1 of a leap year
    assert calendar_features.chosen(pd.date_range("1900", periods=99, freq="YS").to_numpy()) == ()
    assert calendar_features.chosen(pd.date_range("2020", periods=12, freq="QS").to_numpy()) == ("year",)
    weeks = calendar_features.phase(hours, "week")
    assert weeks[24 * 7] == weeks[0]
    assert weeks[24] - weeks[0] == pytest.approx(1 / 7)


@pytest.mark.parametrize(
    ("freq", "enough", "cycles"),
    [
        ("D", 14, ("week",)),
        ("h", 48, ("day",)),
        ("MS", 24, ("year",)),
        ("10min", 12, ("hour",)),
        ("15s", 8, ("minute",)),
    ],
)
def test_a_cycle_that_is_covered_twice_is_enough(freq, enough, cycles):
    """The last step lasts as long as the others."""
    for steps, found in ((enough, cycles), (enough - 1, ())):
        assert calendar_features.chosen(pd.date_range("2021-03-01", periods=steps, freq=freq).to_numpy()) == found


def test_the_calendar_is_read_if_there_is_one(fitted):
    assert fitted.history_.cycles == ("year",)
    assert RecurrentForecaster(**QUICK, calendar=False).fit(MONTHLY).history_.cycles == ()
    assert RecurrentForecaster(**QUICK).fit(MONTHLY.to_numpy()).history_.cycles == ()


# Gaps and duplicates, as the task `files` treats them.


def test_missing_values_are_refused_or_filled():
    holes = MONTHLY.copy()
    holes.iloc[[0, 5]] = np.nan
    with pytest.raises(
        DataError, match=r"y, row 0, column 'sales': missing value \(2 of 96 rows\): fill='interpolate'"
    ):
        read(holes)
    filled = read(holes, fill="interpolate")
    assert filled.values[5, 0] == pytest.approx((MONTHLY.iloc[4] + MONTHLY.iloc[6]) / 2)
    assert filled.notes == {"missing values": "2 filled (interpolate)"}
    with pytest.raises(DataError, match="fill='previous' has no value before it"):
        read(holes, fill="previous")


def test_missing_steps_are_refused_or_filled_or_passed_over():
    dates = pd.date_range("2021-03-01", periods=10, freq="D").delete([3])
    gap = pd.Series(np.arange(9.0), dates)
    with pytest.raises(DataError, match=r"row 2: after 2021-03-03 the step 2021-03-04 is missing \(1 missing step"):
        read(gap)
    filled = read(gap, fill="interpolate")
    assert filled.values[:, 0].tolist() == [0, 1, 2, 2.5, 3, 4, 5, 6, 7, 8]
    assert filled.index.ahead(1)[0] == pd.Timestamp("2021-03-11")
    assert len(read(gap, fill="none").values) == 9


def test_duplicate_stamps_are_refused_or_merged():
    dates = pd.DatetimeIndex(["2021-01-01", "2021-01-02", "2021-01-02", "2021-01-03", "2021-01-04"])
    twice = pd.Series([1.0, 2, 4, 5, 6], dates)
    with pytest.raises(
        DataError, match=r"y, row 2: 2021-01-02 appears twice \(1 such row\): aggregate='mean'.*reset_index"
    ):
        read(twice)
    for how, value in (("mean", 3), ("first", 2), ("last", 4), ("sum", 6)):
        assert read(twice, aggregate=how).values[:, 0].tolist() == [1, value, 5, 6]


def test_rows_are_sorted_and_irregular_times_are_consecutive_steps():
    frame = read(MONTHLY.sample(frac=1, random_state=0))
    np.testing.assert_array_equal(frame.values[:, 0], MONTHLY)
    irregular = pd.Series(
        STEPS[:6], pd.to_datetime(["2021-01-01", "2021-01-05", "2021-01-06", "2021-02-20", "2021-03-01", "2021-07-09"])
    )
    frame = read(irregular)
    assert frame.notes == {"time": "irregular intervals, taken as consecutive steps"}
    assert frame.index.ahead(2).tolist() == [6, 7]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (pd.Series(["a", "b"]), "y has the column None, which is not numeric"),
        (np.zeros((2, 2, 2)), r"y has the shape \(2, 2, 2\): expected \(S,\)"),
        ("series", "y is 'series': expected a series of numbers"),
        ([1.0, math.inf], "y is inf in row 1: expected finite numbers"),
        (pd.Series([1.0, 2.0], ["a", "b"]), "expected dates, periods or numbers; pd.to_datetime"),
        (pd.Series([1.0], pd.MultiIndex.from_tuples([(1, 2)])), "y has an index of 2 levels"),
        (pd.Series(dtype=float), r"y has the shape \(0,\)"),
    ],
)
def test_wrong_series_are_refused_in_words(y, message):
    with pytest.raises(DataError, match=message):
        read(y)


# Transforms.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("log", [False, True])
def test_transforms_invert(kind, log):
    transform = Transform(kind, length=5, season=4, log=log)
    random = np.random.RandomState(1)
    history = transform.forwards(random.uniform(1, 9, (3, transform.context, 2)))
    future = random.uniform(1, 9, (3, 11, 2))
    scale = transform.scale(history)
    assert transform.inputs(history, scale).shape == (3, 5, 2)
    targets = transform.targets(history, scale, transform.forwards(future))
    np.testing.assert_allclose(transform.backwards(transform.forecast(history, scale, targets)), future, rtol=1e-13)


def test_references_are_naive_forecasts():
    values = np.random.RandomState(2).normal(size=(40, 2))
    origin = np.array([30])
    for kind, expected in (
        ("difference", baselines.persistence(values, origin, 9)),
        ("seasonal", baselines.seasonal_naive(values, origin, 9, 4)),
    ):
        transform = Transform(kind, 6, 4)
        history = values[None, 31 - transform.context : 31]
        np.testing.assert_array_equal(transform.reference(history, 9), expected)
    line = np.arange(20.0)[None, :, None]
    drifting = Transform("seasonal+difference", 6, 4)
    np.testing.assert_array_equal(drifting.reference(line, 9)[0, :, 0], np.arange(20, 29))


def test_a_constant_window_has_the_scale_1():
    transform = Transform("window", 6)
    assert transform.scale(np.full((1, 6, 1), 1e6)).tolist() == [[[1.0]]]
    forecaster = RecurrentForecaster(**{**QUICK, "log": "auto"}).fit(np.full(60, 3.0), fh=[1, 2])
    np.testing.assert_allclose(forecaster.predict(), [3, 3], atol=0.2)


def test_a_window_that_is_constant_but_for_rounding_has_the_scale_1():
    rounded = np.array([0.3, 0.1 + 0.2] * 3)[None, :, None]
    assert np.ptp(rounded) > 0
    assert Transform("window", 6).scale(rounded).tolist() == [[[1.0]]]


def test_all_kinds_have_the_scale_of_the_steps_that_are_read():
    wild = np.array([900.0, -900, 900, -900, 1, 2, 4, 7])[None, :, None]  # the first season, which is compared with
    for kind in KINDS:
        transform = Transform(kind, length=4, season=4)
        assert transform.scale(wild[:, -transform.context :]) == (1 + 2 + 3) / 3


def test_every_whole_window_with_a_next_step_is_trained_on():
    squares = np.arange(10.0)[:, None] ** 2
    X, y = Windows(Transform("difference", length=3), squares, np.empty((11, 0))).examples(9)  # a context of 4
    changes = np.diff(squares[:, 0])
    scales = [np.mean(changes[i + 1 : i + 3]) for i in range(5)]
    assert y[:, 0].tolist() == pytest.approx([changes[i + 3] / scales[i] for i in range(5)])
    np.testing.assert_allclose(X[..., 0], [changes[i : i + 3] / scales[i] for i in range(5)])


def test_held_out_errors_are_in_the_units_of_the_series():
    """Of logarithms, too, and over the same windows for naive forecasts; by hand, from every held-out step."""
    y = np.exp(np.arange(60) / 6) * np.random.RandomState(0).uniform(0.9, 1.1, 60)
    recipe = parameters.recipe(RecurrentForecaster(**{**QUICK, "num_steps": 200}))
    material = Material(y[:, None], np.empty((62, 0)), 0, 2, recipe)
    choice = selection.choose(material, [Transform("difference", 4, log=True)], False, 1, 0.25, 0)
    assert (str(choice.combination), choice.cut) == ("log, difference", 45)
    naive = np.mean(np.abs(np.diff(y[:45])))
    forecasts = np.exp(material.held_out(choice.ensemble, 45)[0][..., 0])
    ours, theirs = ([abs(y[t + h] - given(t, h)) for t in range(44, 60) for h in (1, 2) if t + h < 60]
                    for given in (lambda t, h: forecasts[t - 44, h - 1], lambda t, h: y[t]))  # fmt: skip
    assert choice.errors["log, difference"] == pytest.approx(np.mean(ours) / naive)
    assert choice.errors["persistence"] == pytest.approx(np.mean(theirs) / naive)


def test_logarithms_need_positive_values():
    with pytest.raises(DataError, match=r"the series has the value -1, which has no logarithm.*log=False"):
        RecurrentForecaster(**{**QUICK, "log": True}).fit(np.append(np.arange(1.0, 60), -1))


def test_the_transform_is_chosen_on_the_held_out_part():
    forecaster = RecurrentForecaster(**SMALL).fit(MONTHLY, fh=[1, 2, 3])
    errors = forecaster.validation_
    kinds = ["window", "difference", "seasonal", "window, difference and seasonal"]
    assert list(errors)[:4] == kinds
    assert list(errors)[5:] == ["persistence", "seasonal naive"]
    logarithmic = list(errors)[4]
    assert logarithmic == "log, " + min(kinds, key=errors.__getitem__)
    assert str(forecaster.ensemble_.combination) == min(list(errors)[:5], key=errors.__getitem__)


def test_a_long_context_is_compared_where_a_shorter_held_out_part_has_room_for_it():
    forecaster = RecurrentForecaster(**{**SMALL, "num_steps": 4, "log": False}, season=12, window=4)
    assert "seasonal" in forecaster.fit(MONTHLY.to_numpy()[:30], fh=[1]).validation_


def test_a_context_without_room_before_the_held_out_part_is_not_compared():
    forecaster = RecurrentForecaster(**{**SMALL, "num_steps": 4, "log": False}, season=12, window=4)
    compared = forecaster.fit(MONTHLY.to_numpy()[:20], fh=[1]).validation_
    assert list(compared)[:3] == ["window", "difference", "window and difference"]


def test_the_held_out_part_has_errors_for_the_farthest_step():
    forecaster = RecurrentForecaster(**{**QUICK, "num_steps": 4}, window=4, holdout=0.1)
    forecaster.fit(MONTHLY.to_numpy()[:60], fh=range(1, 13))
    assert forecaster.scores_.counts().min() >= 9


def test_networks_of_all_seeds_are_held_out_and_kept(monkeypatch):
    given, fit = [], networks.fit

    def noted(X, y, recipe, seed):
        given.append((len(X), seed))
        return fit(X, y, recipe, seed)

    monkeypatch.setattr(networks, "fit", noted)
    RecurrentForecaster(**{**QUICK, "num_networks": 3, "num_steps": 4}, window=4).fit(MONTHLY, fh=[1])
    before, whole = ([seed for count, seed in given if count == size] for size in sorted({n for n, _ in given}))
    assert len(set(before)) == 3
    assert before == whole


# Intervals.


def test_the_width_is_a_conformal_quantile():
    errors = np.random.RandomState(0).permutation(np.arange(1.0, 20))  # 19 of them: 90 % is the 18th
    assert intervals.quantiles(errors, [0.9, 0.5]).tolist() == [18, 10]
    assert intervals.quantiles(np.arange(1.0, 10), [0.9]) == 9
    assert intervals.quantiles(np.arange(1.0, 9), [0.9]) == np.inf
    gaps = np.stack([np.append(np.arange(1.0, 10), np.nan), np.append(np.arange(1.0, 9), [np.nan, np.nan])], 1)
    assert intervals.quantiles(gaps, [0.9]).tolist() == [[9, np.inf]]  # NaN are no errors


def test_errors_are_known_when_their_step_is():
    values = np.array([[1.0], [2.0], [4.0], [8.0]])
    scores = Scores.none(2, 1).extended(np.zeros((2, 2, 1)), np.full((2, 1, 1), 2.0), values[:3])
    np.testing.assert_array_equal(scores.errors[..., 0], [[2.0, np.nan], [np.nan, np.nan]])
    later = scores.extended(np.zeros((1, 2, 1)), np.full((1, 1, 1), 2.0), values)
    np.testing.assert_array_equal(later.errors[..., 0], [[2, 4], [4, np.nan], [np.nan, np.nan]])
    assert later.counts().tolist() == [2, 1]


def scores_of(errors):
    """Scores with these absolute errors, (N, H)."""
    errors = np.asarray(errors, float)[..., None]
    return Scores(np.zeros(errors.shape), np.ones((len(errors), 1, 1)), errors)


def hits(errors, coverage=0.9, adaptive=True, skipped=100):
    """Whether the intervals of every origin, made of what was known there, contain the values; (N, H)."""
    widths = scores_of(errors).widths(coverage, adaptive, times=len(errors))[..., 0]
    return (errors <= widths)[skipped:]


def test_exchangeable_errors_are_covered():
    """Of 2,000 samples of 39 errors and one more, the last is below the width in 90 %."""
    samples = np.abs(np.random.RandomState(3).standard_t(3, (2000, 40)))
    found = intervals.quantiles(samples[:, :-1].T, [0.9])
    assert abs(np.mean(samples[:, -1] <= found) - 0.9) < 3 * math.sqrt(0.09 / 2000)


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95])
def test_adaptive_intervals_keep_the_coverage_of_exchangeable_errors(coverage):
    """They need not adapt to these, and pay for it with some width."""
    errors = np.abs(np.random.RandomState(3).normal(size=(4000, 3)))
    assert abs(hits(errors, coverage).mean() - coverage) < 0.02
    plain, adapted = (scores_of(errors).widths(coverage, each, times=3000).mean() for each in (False, True))
    assert plain < adapted < 1.15 * plain


def test_adaptive_intervals_keep_their_coverage_where_errors_grow():
    growing = (np.abs(np.random.RandomState(4).normal(size=500)) * np.linspace(1, 6, 500))[:, None]
    assert hits(growing, adaptive=False).mean() < 0.86
    assert abs(hits(growing).mean() - 0.9) < 0.02


def test_adaptive_intervals_recover_after_a_level_shift():
    """Errors become three times as large at once: the adaptive intervals follow, and cover what comes after."""
    random = np.random.RandomState(5)
    errors = np.abs(random.normal(size=(300, 4))) * np.where(np.arange(300) < 200, 1, 3)[:, None]
    after = slice(100, None)  # of the hits, which begin at step 100
    assert hits(errors, adaptive=False)[after].mean() < 0.75
    assert abs(hits(errors)[after].mean() - 0.9) < 0.03
    rising = np.append(random.uniform(size=60), np.full(12, 3.0))[:, None]
    widths = scores_of(rising).widths(0.9, True, times=72)[60:, 0, 0]
    assert widths.max() > 3  # the largest error so far


def factors_of(news, delays, coverage=0.9):
    """The factors of all times, (length, H), from the errors that became known at each."""
    factors = intervals.tracked(np.asarray(news, float)[..., None], np.array(delays), len(news))[2]
    return factors[intervals.TRACKED.index(coverage), :, :, 0]


def test_the_rate_falls_with_every_time_that_had_news_and_steps_that_had_none_do_not_count():
    """Of two steps ahead only the first is ever known: it moves by itself, as if there were no other."""
    one = np.tile([1.0] * 9 + [0.0], 20)[:, None]
    one[119] = 100
    both = np.concatenate([one, np.full_like(one, np.nan)], 1)
    factors = factors_of(both, [1, 5])
    np.testing.assert_array_equal(factors[:, 0], factors_of(one, [1])[:, 0])
    assert np.log(factors[119, 0] / factors[118, 0]) == pytest.approx(0.9 * intervals.RATE / 2)
    assert (factors[:, 1] == 1).all()


def test_errors_are_known_when_the_covariates_of_their_horizon_are():
    """With `behind` an error one step ahead is known later than its step: 12 of 12 now, 11 a step before."""
    scores = scores_of(np.arange(1.0, 13)[:, None])
    assert scores.widths(0.9, False, behind=3, times=3)[:, 0, 0].tolist() == [10, 11, 12]
    assert scores.widths(0.9, False, times=3)[:, 0, 0].tolist() == [9, 10, 11]
    assert scores_of(np.arange(1.0, 13)[:, None].repeat(2, 1)).widths(0.9, False, 1)[0, :, 0].tolist() == [12, 11]


@pytest.mark.parametrize("delay", [1, 4])
def test_the_factor_follows_what_was_missed(delay):
    """The first nine errors give the first width; later ones are judged by the width of their own origin."""
    news = np.concatenate([np.ones(9), np.zeros(15), [100, 100, 0]])[:, None]
    factors = np.log(factors_of(news, [delay]))[:, 0]
    hit, miss = -0.1 * intervals.RATE, 0.9 * intervals.RATE
    assert factors[: 8 + delay].tolist() == [0] * (8 + delay)
    assert factors[23] == pytest.approx((16 - delay) * hit)
    assert np.diff(factors[23:]) == pytest.approx([miss, miss, hit])
    always = factors_of(np.exp(np.arange(60.0))[:, None], [delay])
    never = factors_of(np.exp(-np.arange(60.0))[:, None], [delay])
    assert always.max() == always[-1] == pytest.approx(intervals.HIGHEST)
    assert never.min() == never[-1] == pytest.approx(intervals.LOWEST)


def test_the_factor_moves_less_the_more_errors_are_known():
    news = np.tile([1.0] * 9 + [0.0], 40)[:, None]
    news[[29, 119, 349]] = 100
    steps = np.diff(np.log(factors_of(news, [1]))[:, 0])[[28, 118, 348]]
    assert steps == pytest.approx(0.9 * np.array([intervals.RATE, intervals.RATE / 2, intervals.SLOWEST]))


def test_adaptive_intervals_do_not_overshoot_where_misses_are_known_late(monkeypatch):
    """Errors of a random walk, up to 24 steps ahead: neighbouring origins miss together, a day before it is known."""
    walk = np.random.RandomState(7).normal(size=2525).cumsum()
    errors = np.stack([np.abs(walk[h : h + 2500] - walk[:2500]) / math.sqrt(h) for h in range(1, 25)], 1)
    assert abs(hits(errors).mean() - 0.9) < 0.01
    monkeypatch.setattr(intervals, "FAST", 10**9)  # steps that stay as large as they are at first
    assert hits(errors).mean() < 0.88


def test_steps_ahead_share_what_they_missed():
    """Only the first of two steps is missed: the second factor rises, too, but less."""
    news = np.concatenate([np.ones((9, 2)), np.zeros((11, 2))])
    news[15, 0] = 9
    factors = np.log(factors_of(news, [1, 2]))
    first, second = factors[15] - factors[14]
    assert first > second > 0
    assert first + second == pytest.approx(intervals.RATE * (0.9 - 0.1))  # as without sharing


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("behind", [0, 3])
def test_intervals_are_made_of_what_was_known(adaptive, behind):
    """Those of all times are those of every time by itself; what came later does not change them."""
    values = np.random.RandomState(6).normal(size=(60, 1)).cumsum(0)
    forecasts, scales = np.zeros((60 - behind, 3, 1)), np.ones((60 - behind, 1, 1))
    everything = Scores.none(3, 1).extended(forecasts, scales, values, behind)
    at_once = everything.widths(0.8, adaptive, behind, times=60)
    scores = Scores.none(3, 1)
    for now in range(60):
        count = int(now >= behind)  # the first origins are judged when the first values have come
        scores = scores.extended(forecasts[:count], scales[:count], values[: now + 1], behind)
        np.testing.assert_array_equal(scores.widths(0.8, adaptive, behind)[0], at_once[now])
    later = values.copy()
    later[40:] += 100
    changed = Scores.none(3, 1).extended(forecasts, scales, later, behind).widths(0.8, adaptive, behind, times=60)
    np.testing.assert_array_equal(changed[:40], at_once[:40])
    assert (changed[-1] > at_once[-1]).all()


@pytest.mark.parametrize("kind", ["heavy", "growing", "shrinking", "shift", "few", "zero"])
def test_narrow_intervals_are_inside_of_wide_ones(kind):
    """Whatever came: the factors of neighbouring coverages go their own ways, and are held apart."""
    errors = np.abs(np.random.RandomState(7).standard_t(2, (300, 2)))
    errors *= {"growing": np.linspace(1, 20, 300), "shrinking": np.linspace(20, 1, 300),
               "shift": np.where(np.arange(300) < 200, 1, 9)}.get(kind, np.ones(300))[:, None]  # fmt: skip
    errors = errors[:25] if kind == "few" else errors * (errors > 1) if kind == "zero" else errors
    coverages = [0.1, 0.3, 0.49, 0.5, 0.51, 0.65, 0.79, 0.8, 0.81, 0.85, 0.9, 0.91, 0.94, 0.95, 0.96, 0.98, 0.99, 0.995]
    widths = [scores_of(errors).widths(coverage, True, times=len(errors)) for coverage in coverages]
    assert all((wider >= narrower).all() for narrower, wider in itertools.pairwise(widths))


def test_the_rank_of_an_error_that_bounds_the_next_one():
    """By simulation: the next of exchangeable errors is below the one of this rank as often as was asked for."""
    assert [conformal_rank(errors, 0.9) for errors in (8, 9, 19, 99)] == [None, 9, 18, 90]
    random = np.random.RandomState(0)
    for errors, level in ((9, 0.8), (19, 0.95), (99, 0.5)):
        held, following = np.sort(random.exponential(size=(20_000, errors)), 1), random.exponential(size=20_000)
        assert (following <= held[:, conformal_rank(errors, level) - 1]).mean() == pytest.approx(level, abs=0.02)


def test_usual_coverages_have_factors_of_their_own():
    """Errors whose shape changes: the middle ones grow, the largest do not. No factor fits all coverages."""
    random = np.random.RandomState(8)
    errors = random.uniform(0.9, 1, size=(1500, 1))
    errors[:, 0] = np.where(
        random.uniform(size=1500) < 0.12, 10 * errors[:, 0], errors[:, 0] * np.linspace(0.2, 6, 1500)
    )
    for coverage in (0.5, 0.8, 0.9, 0.95):
        assert abs(hits(errors, coverage).mean() - coverage) < 0.01


def test_the_interval_of_90_percent_depends_on_no_other(monkeypatch):
    errors = np.abs(np.random.RandomState(7).standard_t(2, (200, 2)))
    widths = scores_of(errors).widths(0.9, True, times=200)
    monkeypatch.setattr(intervals, "TRACKED", (0.9,))
    monkeypatch.setattr(intervals, "FREE", 0)
    np.testing.assert_array_equal(scores_of(errors).widths(0.9, True, times=200), widths)


def test_other_coverages_are_scaled_as_the_next_one_below_and_end_at_the_next_one_above():
    """One time, one step, one series; quantiles, widths and factors of 50, 80, 90 and 95 %."""
    widths, ordinary = np.array([1.0, 4.0, 6.0, 9.0]), np.array([2.0, 4.0, 5.0, 6.0])
    given = [each[:, None, None, None] for each in (widths, ordinary, widths / ordinary)]
    for coverage, quantile, width in ((0.3, 1.0, 0.5), (0.5, 2.0, 1.0), (0.6, 3.0, 1.5), (0.9, 5.0, 6.0),
                                      (0.92, 5.5, 6.6), (0.94, 8.0, 9.0), (0.99, 8.0, 12.0)):  # fmt: skip
        assert intervals._scaled(np.full((1, 1, 1), quantile), coverage, *given).item() == pytest.approx(width)
    ordinary[2:], widths[2:] = [0.0, np.inf], [0.0, np.inf]
    given = [each[:, None, None, None] for each in (widths, ordinary, np.array([1, 1, 0.7, 1]))]
    assert intervals._scaled(np.full((1, 1, 1), 2.0), 0.92, *given).item() == pytest.approx(1.4)


def test_wide_intervals_are_made_of_twice_the_errors_that_they_need():
    errors = np.ones((400, 1))
    assert scores_of(errors).widths(0.99, True).max() < 50
    errors[-150] = 100
    assert scores_of(errors).widths(0.99, True).min() > 50


def test_too_few_windows_give_infinite_intervals():
    forecaster = RecurrentForecaster(**QUICK, window=4).fit(MONTHLY.iloc[:18], fh=[1, 2])
    assert np.isinf(forecaster.predict_interval()).all(axis=None)
    assert np.isfinite(forecaster.predict_interval(coverage=0.5)).all(axis=None)
    assert "fewer than 9, so that those of 90% are infinite from step 1" in forecaster.summary()
    shortest = RecurrentForecaster(**QUICK, window=4).fit(MONTHLY.iloc[:13], fh=[1])
    assert np.isinf(shortest.predict_interval(coverage=0.1)).all(axis=None)
    assert "too short to hold windows out" in shortest.summary()


# Bounds.


def test_forecasts_and_intervals_are_cut_off_at_the_bounds():
    """Points, intervals, quantiles and the backtest are those without bounds, cut off; the choice is the same."""
    counts = np.random.RandomState(0).poisson(0.6, 72).clip(0, 2)
    options = {**SMALL, "num_steps": 4, "window": 4}
    free = RecurrentForecaster(**options).fit(counts, fh=[1, 2])
    bounded = RecurrentForecaster(**options, lower=0, upper=np.int64(2)).fit(counts, fh=[1, 2])
    assert bounded.validation_ == free.validation_
    within = free.predict_interval(coverage=[0.8, 0.9]).clip(0, 2)
    assert (free.predict_interval() < 0).any(axis=None)
    assert (free.predict_interval() > 2).any(axis=None)
    pd.testing.assert_frame_equal(bounded.predict_interval(coverage=[0.8, 0.9]), within, check_exact=True)
    quantiles = free.predict_quantiles(alpha=[0.05, 0.5, 0.95]).clip(0, 2)
    pd.testing.assert_frame_equal(bounded.predict_quantiles(alpha=[0.05, 0.5, 0.95]), quantiles, check_exact=True)
    zeros = [RecurrentForecaster(**options, upper=upper).fit(np.zeros(40), fh=[1, 2]).predict() for upper in (None, 0)]
    assert zeros[1].tolist() == np.minimum(zeros[0], 0).tolist() != zeros[0].tolist()
    here, there = (
        RecurrentForecaster(**options, lower=lower).backtest(counts, fh=[1], ets=False) for lower in (None, 0)
    )
    assert (here.lower < 0).any()
    for name in ("lower", "plain_lower", "upper"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name).clip(0))


def test_infinite_intervals_end_at_the_bounds():
    forecaster = RecurrentForecaster(**QUICK, window=4, lower=0).fit(MONTHLY.iloc[:18], fh=[1])
    assert forecaster.predict_interval().to_numpy().tolist() == [[0, np.inf]]


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"lower": "0"}, r"lower is '0': expected a number that the series cannot go beyond"),
        ({"upper": math.nan}, "upper is nan: expected a number"),
        ({"lower": True}, "lower is True: expected a number"),
        ({"lower": 3, "upper": 3}, "lower is 3 and upper 3: expected a lower bound that is below"),
        ({"lower": 1}, r"lower is 1, and the series has the value 0 \(2 such values\): expected a bound that no value"),
        ({"upper": 5.5}, r"upper is 5.5, and the series has the value 6 \(1 such value\)"),
    ],
)
def test_wrong_bounds_are_refused_in_words(bounds, message):
    with pytest.raises(GatelabError, match=message):
        RecurrentForecaster(**QUICK, **bounds).fit([0.0, *range(7), *[3.0] * 30])


def test_a_bound_is_suggested_where_a_series_has_never_been_negative(tmp_path):
    counts, options = np.random.RandomState(0).poisson(0.6, 72).astype(float), {**QUICK, "num_steps": 4, "window": 4}
    free = RecurrentForecaster(**options).fit(counts, fh=[1])
    advice = "intervals go below 0, where the series has never been: lower=0 cuts them off there"
    assert advice in free.summary()
    free.save(tmp_path / "kept")
    assert advice in RecurrentForecaster.load(tmp_path / "kept").summary()
    assert "forecasts and intervals are cut off from 0 up" in free.set_params(lower=0).summary()
    with pytest.raises(DataError, match="lower is 0, and the series has the value -1"):
        free.update([2.0, -1.0])
    free.set_params(lower=None).update([2.0, -1.0]).update(np.ones(20))
    assert (free.history_.values == 1).all()  # the kept steps no longer have it
    free.update(np.ones(20))
    assert "never been" not in free.summary()
    assert "never been" not in RecurrentForecaster(**options).fit(counts - 1, fh=[1]).summary()
    assert "never been" not in RecurrentForecaster(**options).fit(counts + 50, fh=[1]).summary()
    assert "cut off up to 99" in RecurrentForecaster(**options, upper=99).fit(counts, fh=[1]).summary()
    assert "cut off from 0 to 99" in RecurrentForecaster(**options, lower=0, upper=99).fit(counts, fh=[1]).summary()


# Updates.


def test_an_update_continues_the_series():
    forecaster = RecurrentForecaster(**QUICK).fit(MONTHLY.iloc[:84], fh=[1, 2])
    before = forecaster.scores_.counts()
    forecaster.update(MONTHLY.iloc[84:90]).update(MONTHLY.iloc[90:92])
    assert forecaster.predict().index.tolist() == list(MONTHLY.index[92:94])
    assert (forecaster.scores_.counts() - before).tolist() == [8, 8]
    at_once = RecurrentForecaster(**QUICK).fit(MONTHLY.iloc[:84], fh=[1, 2]).update(MONTHLY.iloc[84:92])
    np.testing.assert_allclose(at_once.predict_interval(), forecaster.predict_interval(), rtol=1e-5)
    with pytest.raises(DataError, match="y begins at 2022-08-01, and the series is known up to 2022-08-01"):
        forecaster.update(MONTHLY.iloc[91:])
    with pytest.raises(DataError, match="the step 2022-09-01 is missing"):
        forecaster.update(MONTHLY.iloc[94:])
    with pytest.raises(DataError, match="an index of positions, and that of fit had periods"):
        forecaster.update(np.ones(3))


# Covariates.


def test_covariates_are_read_ahead():
    """The next value is that of the covariate; the past of the series says nothing about it."""
    random = np.random.RandomState(5)
    known = pd.DataFrame({"price": random.normal(size=264)}, pd.date_range("2022-01-01", periods=264, freq="D"))
    y = (known["price"] + 0.01 * random.normal(size=264)).rename("y")
    forecaster = RecurrentForecaster(
        **{**QUICK, "transform": "window", "num_steps": 320, "learning_rate": 0.02}, window=8
    )
    forecaster.fit(y.iloc[:260], X=known.iloc[:260], fh=[1, 2, 3, 4])
    ahead = known.iloc[260:]
    np.testing.assert_allclose(forecaster.predict(X=known), ahead["price"], atol=0.3)
    np.testing.assert_allclose(forecaster.predict(X=-ahead), -ahead["price"], atol=0.3)
    forecaster.update(y.iloc[260:262], X=known.iloc[260:262])
    assert forecaster.predict(2, X=known).index[0] == known.index[263]
    with pytest.raises(DataError, match="fitted with the covariates price: pass X"):
        forecaster.predict()
    with pytest.raises(DataError, match=r"X has no row for 2022-09-20.*expected the times of the forecast"):
        forecaster.predict(X=known.iloc[:262])
    with pytest.raises(DataError, match="X has the columns cost: expected price"):
        forecaster.predict(X=known.rename(columns={"price": "cost"}))


def test_covariates_that_do_not_fit_are_refused(fitted):
    with pytest.raises(DataError, match="X was given, and the forecaster was fitted without it"):
        fitted.predict(X=np.ones((4, 1)))
    with pytest.raises(DataError, match="X has 3 rows and y 96"):
        RecurrentForecaster(**QUICK).fit(MONTHLY, X=np.ones((3, 1)))
    twice = pd.DataFrame({"price": np.arange(97.0)}, MONTHLY.index.append(MONTHLY.index[:1]))
    with pytest.raises(DataError, match="X has different rows for 2015-01-01 00:00:00, 0 and 96: expected one row per"):
        RecurrentForecaster(**QUICK).fit(MONTHLY, X=twice)
    with pytest.raises(DataError, match="X has a missing value in row 0"):
        RecurrentForecaster(**QUICK).fit(MONTHLY, X=np.full((96, 1), np.nan))


def test_the_first_rows_of_covariates_without_times_are_the_steps_ahead():
    rows = np.arange(6.0)[:, None]
    np.testing.assert_array_equal(covariates.future(rows, read(np.ones(9)), (0,), 4), rows[:4])


def test_covariates_go_by_their_names():
    given = pd.DataFrame({"c": [3.0], "a": [1.0], "b": [2.0]})
    assert covariates.future(given, read(np.ones(9)), ("a", "b", "c"), 1).tolist() == [[1, 2, 3]]


# Backtests.


@pytest.fixture(scope="module")
def tested():
    return RecurrentForecaster(**QUICK).backtest(MONTHLY, fh=[1, 2, 14], test=0.25)


def test_naive_errors_and_mase_are_those_computed_by_hand(tested):
    y, table = MONTHLY.to_numpy(), tested.table()
    scale = np.mean([abs(y[t] - y[t - 12]) for t in range(12, 72)])
    for step in (1, 2, 14):
        errors = [y[t + step] - y[t] for t in range(71, 96 - step)]
        row = table.loc[("persistence", step)]
        assert row["MAE"] == pytest.approx(np.mean(np.abs(errors)))
        assert row["RMSE"] == pytest.approx(np.sqrt(np.mean(np.square(errors))))
        assert row["MASE"] == pytest.approx(np.mean(np.abs(errors)) / scale)
        before = 12 if step <= 12 else 24
        errors = [y[t + step] - y[t + step - before] for t in range(71, 96 - step)]
        assert table.loc[("seasonal naive", step), "MAE"] == pytest.approx(np.mean(np.abs(errors)))
    assert table["coverage"].notna().groupby("method").any().to_dict() == {
        name: name == "RecurrentForecaster" for name in tested.forecasts
    }


def test_a_backtest_is_predict_and_update_step_by_step(tested):
    forecaster = RecurrentForecaster(**QUICK).fit(MONTHLY.iloc[:72], fh=[1, 2, 14])
    for origin in range(4):
        interval = forecaster.predict_interval()["sales", 0.9]
        np.testing.assert_allclose(
            forecaster.predict(), tested.forecasts["RecurrentForecaster"][origin, :, 0], rtol=1e-5
        )
        np.testing.assert_allclose(interval["lower"], tested.lower[origin, :, 0], rtol=1e-4)
        np.testing.assert_allclose(interval["upper"], tested.upper[origin, :, 0], rtol=1e-4)
        forecaster.update(MONTHLY.iloc[72 + origin : 73 + origin])


def test_later_values_do_not_change_intervals_issued_before(tested):
    later = MONTHLY.copy()
    later.iloc[-6:] += 5
    changed = RecurrentForecaster(**QUICK).backtest(later, fh=[1, 2, 14], test=0.25)
    before = len(tested.lower) - 6 + 1  # origins before the first changed value
    for name in ("lower", "upper", "plain_lower", "plain_upper"):
        np.testing.assert_allclose(getattr(changed, name)[:before], getattr(tested, name)[:before], rtol=1e-6)
    assert (changed.upper[-1, :2] - changed.lower[-1, :2] > tested.upper[-1, :2] - tested.lower[-1, :2]).all()


def test_widths_and_scores_are_relative_to_plain_intervals(tested):
    outcome = replace(
        tested,
        observed=np.array([[[1.0]], [[5.0]], [[np.nan]]]),
        lower=np.array([[[0.0]], [[1.0]], [[0.0]]]),
        upper=np.array([[[3.0]], [[4.0]], [[9.0]]]),
        plain_lower=np.array([[[0.0]], [[2.0]], [[0.0]]]),
        plain_upper=np.array([[[2.0]], [[4.0]], [[9.0]]]),
        coverage=0.8,
    )
    assert outcome.relative_width() == 6 / 4
    assert outcome.relative_score() == pytest.approx((6 + 10) / (4 + 10))
    endless = replace(outcome, upper=np.full((3, 1, 1), np.inf))
    assert np.isnan(endless.relative_width())
    assert "times as wide as without adapting" in tested.summary()


def test_the_coverage_of_a_step_is_that_of_the_origins_whose_value_is_known(tested):
    outcome = replace(
        tested,
        steps=np.array([1, 2]),
        observed=np.array([[[1.0], [1.0]], [[5.0], [np.nan]], [[1.0], [np.nan]], [[5.0], [np.nan]]]),
        forecasts={"RecurrentForecaster": np.zeros((4, 2, 1)), "persistence": np.ones((4, 2, 1))},
        lower=np.zeros((4, 2, 1)),
        upper=np.full((4, 2, 1), 2.0),
        plain_lower=np.zeros((4, 2, 1)),
        plain_upper=np.full((4, 2, 1), 2.0),
    )
    assert "cover 60.0 %, by step ahead 50, 100 %" in outcome.summary()


def test_errors_of_several_series_are_means_over_series(tested):
    """RMSE is a mean of roots: errors of 1 in one series, 3 and 5 in the other."""
    forecast = np.array([[[1.0, 3.0]], [[-1.0, 5.0]]])
    none = np.zeros((2, 1, 2))
    outcome = replace(
        tested, names=("a", "b"), steps=np.array([1]), observed=none, forecasts={"persistence": forecast},
        lower=none, upper=none, scale=np.array([2.0, 8.0]),
    )  # fmt: skip
    row = outcome.table().loc[("persistence", 1)]
    assert row[["MAE", "RMSE", "MASE"]].tolist() == pytest.approx([2.5, (1 + np.sqrt(17)) / 2, (1 / 2 + 4 / 8) / 2])


def test_exponential_smoothing_is_beside_it(tested):
    pytest.importorskip("statsmodels")
    assert "ETS" in tested.forecasts
    assert tested.mase("ETS") < tested.mase("persistence")
    assert "ETS" in tested.summary()


def test_exponential_smoothing_reads_all_that_is_known_and_nothing_later():
    pytest.importorskip("statsmodels")
    values, origins = MONTHLY.to_numpy()[:, None], np.array([79])
    found = baselines.exponential_smoothing(values, origins, 2, 1, 72)
    for changed, is_read in ((78, True), (79, True), (80, False)):
        other = np.where(np.arange(96)[:, None] == changed, 99.0, values)
        again = baselines.exponential_smoothing(other, origins, 2, 1, 72)
        assert (np.abs(again - found).max() > 1) == is_read


def test_linear_autoregression_is_beside_it(tested):
    assert "linear         " in tested.summary()
    assert tested.mase(baselines.LINEAR) < tested.mase("persistence")


@pytest.mark.parametrize("covariates", [0, 1])
def test_linear_autoregression_is_a_regression_for_each_step_ahead(covariates):
    """It knows the coefficients of a series without noise; windows and their targets end before the test part."""
    random = np.random.RandomState(0)
    known, values = random.normal(size=(120, covariates)), np.zeros((120, 2))
    values[:2] = [[5, -3], [6, -2]]
    for t in range(2, 120):
        values[t] = 1 + 1.6 * values[t - 1] - 0.9 * values[t - 2] + 3 * known[t].sum()
    origins = np.array([79, 90, 116])
    found = baselines.linear_autoregression(values, known, origins, 3, 4, 80)
    expected = values[origins[:, None] + np.arange(1, 4)]
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    spoilt = np.where(np.arange(120)[:, None] >= 80, random.normal(size=(120, 2)), values)
    again = baselines.linear_autoregression(spoilt, known, origins[:1], 3, 4, 80)
    np.testing.assert_allclose(again, found[:1], rtol=1e-12)
    early = np.where(np.arange(120)[:, None] < 1, 99.0, values)  # the first window is read
    assert np.abs(baselines.linear_autoregression(early, known, origins, 3, 4, 80) - found).max() > 1e-3
    late = np.where(np.arange(120)[:, None] == 79, 99.0, values)  # and the last target
    assert np.abs(baselines.linear_autoregression(late, known, origins[1:], 3, 4, 80) - found[1:]).max() > 1e-3


def test_linear_autoregression_takes_seconds_or_is_left_out(monkeypatch):
    values, none, origins = np.arange(40.0)[:, None], np.empty((40, 0)), np.array([30])

    def fit(train):
        return baselines.linear_autoregression(values, none, origins, 2, 5, train)

    assert fit(14) is not None  # eight windows
    assert fit(13) is None
    monkeypatch.setattr(baselines, "MOST_NUMBERS", 5 * 8)
    values[:20] = 0  # but only the last windows are fitted on
    np.testing.assert_allclose(fit(34), [[[31], [32]]], atol=1e-6)
    monkeypatch.setattr(baselines, "MOST_FEATURES", 4)
    assert fit(30) is None


def test_a_better_naive_forecast_is_named():
    """Nothing is better than persistence for a random walk, and the summary says so."""
    walk = np.cumsum(np.random.RandomState(6).normal(size=120))
    outcome = RecurrentForecaster(**{**QUICK, "transform": "window"}, holdout=0.3).backtest(walk, fh=[1, 2])
    ours, naive = outcome.mase("RecurrentForecaster"), outcome.mase("persistence")
    assert naive < ours
    share = f"{100 * (ours / naive - 1):.0f} %"
    assert f"persistence is better: MASE {naive:.3g}, ours is {share} higher" in outcome.summary()
    assert "a naive forecast is better at 1 (persistence, by " in outcome.summary()


def test_backtests_with_covariates_and_wrong_parts():
    known = np.random.RandomState(7).normal(size=(96, 1))
    outcome = RecurrentForecaster(**QUICK).backtest(MONTHLY.to_numpy(), X=known, fh=[1, 3])
    assert outcome.observed.shape == (96 - 72 + 1 - 3, 2, 1)
    assert not np.isnan(outcome.observed).any()
    with pytest.raises(GatelabError, match="test is 2: expected the fraction"):
        RecurrentForecaster(**QUICK).backtest(MONTHLY, test=2)


# Keeping.


def test_pickles_and_saved_forecasters_are_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "kept")
    for again in (pickle.loads(pickle.dumps(fitted)), RecurrentForecaster.load(tmp_path / "kept")):
        pd.testing.assert_series_equal(again.predict(), fitted.predict(), check_exact=True)
        pd.testing.assert_frame_equal(again.predict_interval(), fitted.predict_interval(), check_exact=True)
        assert again.get_params() == fitted.get_params()
        assert again.summary() == fitted.summary()
        again.update(pd.Series([14.0], pd.PeriodIndex(["2023-01"], freq="M")))
        assert str(again.predict().index[0]) == "2023-02"
    with pytest.raises(GatelabError, match="kept exists and is not empty: choose a new directory"):
        again.save(tmp_path / "kept")


def test_a_forecaster_that_was_updated_and_saved_goes_on_as_the_one_in_memory(tmp_path):
    y, X = MONTHLY.to_numpy(), np.random.RandomState(0).normal(size=(96, 1))
    forecaster = RecurrentForecaster(**{**QUICK, "num_steps": 4}).fit(y[:80], X=X[:80], fh=range(1, 5))
    forecaster.update(y[80:86], X=X[80:86]).save(tmp_path / "kept")
    loaded = RecurrentForecaster.load(tmp_path / "kept")
    for each in (forecaster, loaded):
        each.update(y[86:90], X=X[86:90])
    np.testing.assert_array_equal(loaded.scores_.errors, forecaster.scores_.errors)


def test_a_cell_of_ones_own_is_kept(tmp_path):
    @gatelab.cell
    def leaky(x, h, W, U, b):
        z = gatelab.sigmoid(W.z(x) + U.z(h) + b.z)
        return (1 - z) * h + z * gatelab.tanh(W.n(x) + U.n(h) + b.n)

    forecaster = clone(RecurrentForecaster(leaky, **QUICK)).fit(MONTHLY, fh=[1, 2])
    assert "leaky" in forecaster.summary()
    forecaster.save(tmp_path / "kept")
    again = RecurrentForecaster.load(tmp_path / "kept")
    pd.testing.assert_series_equal(again.predict(), forecaster.predict(), check_exact=True)
    assert again.cell.text() == leaky.text()


def test_damaged_files_are_refused(fitted, tmp_path):
    with pytest.raises(DataError, match="holds no forecaster: expected a folder"):
        RecurrentForecaster.load(tmp_path)
    fitted.save(tmp_path / "kept")
    record = tmp_path / "kept" / "forecaster.json"
    content = json.loads(record.read_text())
    record.write_text(json.dumps({**content, "horizon": 9}))
    with pytest.raises(DataError, match="checksum does not match"):
        RecurrentForecaster.load(tmp_path / "kept")


@pytest.fixture(scope="module")
def saved(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "kept"
    fitted.save(path)
    assert all(finding.good for _, found in verify_forecaster(path) for finding in found)
    return path


def forge(kept, change):
    """Change what a forecaster was saved with, and give it the checksums that belong to that."""
    record, arrays = sealed.read_json(kept / "forecaster.json"), sealed.read_arrays(kept / "forecaster.npz")
    change(record, arrays)
    sealed.write_json(kept / "forecaster.json", record)
    sealed.write_arrays(kept / "forecaster.npz", arrays)


def values(where, **changes):
    return lambda record, arrays: {"record": record, "stamps": record["stamps"], "arrays": arrays,
                                   "parameters": record["parameters"]}[where].update(changes)  # fmt: skip


def first(name, value):
    def change(record, arrays):
        arrays[name][(0,) * arrays[name].ndim] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (values("stamps", freq="<script>"), "its times do not continue: .*<script>"),
        (values("stamps", freq="9" * 30 + "D"), "its times do not continue: "),
        (values("stamps", freq="99999999M"), "its times do not continue: "),
        (values("stamps", freq="-1M"), "its times do not continue: Frequency must be positive"),
        (values("stamps", kind="dates", freq="-1MS"), "with the frequency '-1MS' they do not increase"),
        (values("stamps", kind="dates", zone="Atlantis", freq="MS"), "its times do not continue: .*Atlantis"),
        (values("stamps", kind="dates", freq=None, unit="weeks"), "unit: Input should be 's', 'ms', 'us' or 'ns'"),
        (values("stamps", kind="numbers", freq=None), "cycles are year, and the steps have no regular dates"),
        (values("stamps", kind="positions", freq=None), "expected no times"),
        (values("stamps", steps=3), "expected 25 to 3 steps, and it has 33"),
        (values("record", cycles=["zz"]), "cycles.0: Input should be 'minute', 'hour', 'day', 'week' or 'year'"),
        (values("record", cycles=["year", "day"]), "a network reads 3 numbers and answers 1: expected 5 and 1"),
        (values("record", fh=[0]), "fh.0: Input should be greater than or equal to 1"),
        (values("record", fh=[]), "fh: .* should have at least 1 item"),
        (values("record", horizon=10**9), "horizon: Input should be less than or equal to 10000"),
        (values("record", names=[]), "names: .* should have at least 1 item"),
        (values("record", season=0), "season: Input should be greater than or equal to 1"),
        (values("parameters", lower="low"), "lower is 'low': expected a number"),
        (values("parameters", adaptive="yes"), "adaptive is 'yes': expected true or false"),
        (values("arrays", times=np.full(33, np.nan, np.float16)), "expected 33 times, integers or finite numbers that"),
        (values("arrays", times=np.zeros(33, np.int64)), "expected 33 times, .* that increase"),
        (values("arrays", times=np.zeros((33, 2), np.int64)), "expected 33 times"),
        (first("values", np.nan), "expected finite values, and scales above 0"),
        (first("scales", 0), "expected finite values, and scales above 0"),
        (first("errors", -1), "expected errors from 0 up, of finite forecasts"),
        (first("forecasts", np.inf), "expected errors from 0 up, of finite forecasts"),
    ],
)
def test_forged_files_are_refused_in_words_and_seen_by_verify(change, message, saved, tmp_path):
    shutil.copytree(saved, tmp_path / "kept")
    forge(tmp_path / "kept", change)
    with pytest.raises(DataError, match=message):
        RecurrentForecaster.load(tmp_path / "kept")
    (_, [found]), *_ = verify_forecaster(tmp_path / "kept")
    assert not found.good
    assert re.search(message, found.message)


def test_the_values_of_a_forged_logarithm_are_refused(tmp_path):
    forecaster = RecurrentForecaster(**{**QUICK, "log": True}).fit(MONTHLY, fh=[1])
    forecaster.save(tmp_path / "kept")
    forge(tmp_path / "kept", first("values", -1))
    with pytest.raises(DataError, match="expected positive values, which have logarithms"):
        RecurrentForecaster.load(tmp_path / "kept")


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2024-03-01", periods=40, freq="h", tz="Europe/Berlin"),
        pd.date_range("2024-03-01", periods=40, freq="D", tz="UTC"),
        pd.date_range("2024-03-01", periods=40, freq="D", tz="+02:00"),
        pd.date_range("2024-03-01", periods=40, freq="D", unit="s"),
        pd.date_range("2024-03-01", periods=40, freq="W-TUE"),
        pd.DatetimeIndex(pd.date_range("2024-03-01", periods=80, freq="D")[np.arange(40) ** 2 // 20]),
        pd.period_range("2024", periods=40, freq="Q"),
        pd.RangeIndex(3, 83, 2),
        pd.Index(np.arange(40) / 4),
        pd.Index(np.cumsum(1 + np.arange(40) % 3)),
    ],
    ids=range(10),
)
def test_every_index_is_kept(index, tmp_path):
    """What is refused in a forged file is none of what `save` writes."""
    y = pd.Series(np.sin(np.arange(40.0)), index)
    y = y[~y.index.duplicated()]
    forecaster = RecurrentForecaster(**{**QUICK, "num_steps": 1}, window=4).fit(y, fh=[1, 2])
    forecaster.save(tmp_path / "kept")
    again = RecurrentForecaster.load(tmp_path / "kept")
    pd.testing.assert_index_equal(again.predict_interval().index, forecaster.predict_interval().index)


def test_the_summary_says_what_was_chosen(fitted):
    text = fitted.summary()
    assert "season         12 steps" in text
    assert "phase of the year" in text
    assert "transform      difference" in text
    naive = {name: fitted.validation_[name] for name in ("persistence", "seasonal naive")}
    ours = fitted.validation_["difference"]
    assert ("is better: MASE" in text) == (min(naive.values()) < ours)


def test_combinations_average():
    assert str(Combination((Transform("window", 4), Transform("difference", 4)))) == "window and difference"
