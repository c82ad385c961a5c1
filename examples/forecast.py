# %% [markdown]
# # Forecast a series
#
# Carbon dioxide in the air over Mauna Loa, weekly until 2001 (it comes with statsmodels), as monthly means. The cells
# of this file are separated by `# %%`: VS Code, PyCharm, Spyder and Jupytext run them one by one, and `python
# examples/forecast.py` runs all of them in half a minute. Pictures are saved beside you as PNG files.

# %%
import matplotlib.pyplot as plt
import numpy as np
from statsmodels.datasets import co2

from gatelab.sklearn import RecurrentForecaster

series = co2.load_pandas().data["co2"].resample("MS").mean()["1962":]
print(f"{len(series)} months, {series.isna().sum()} of them missing")

# %% [markdown]
# ## Fit and forecast
#
# Missing months are an error unless we say what to do with them: `fill="interpolate"`. The summary says what was
# assumed and chosen: the season is that of monthly data, and level and season are handled by whatever was best on the
# last quarter.

# %%
known, future = series[:-36], series[-36:]
quick = {"num_networks": 1, "num_steps": 100}  # half of the default; leave these out for your own series
forecaster = RecurrentForecaster(fill="interpolate", random_state=0, **quick).fit(known, fh=np.arange(1, 37))
print(forecaster.summary())
forecast = forecaster.predict()
interval = forecaster.predict_interval(coverage=[0.5, 0.9])

# %% [markdown]
# Intervals come from errors that were made on held-out data (conformal prediction), one for each number of months
# ahead.

# %%
figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
axes.plot(known.index[-60:], known[-60:], color="black", linewidth=1, label="known")
axes.plot(future.index, future, color="black", linewidth=1, linestyle="dotted", label="what came")
for coverage, shade in ((0.9, 0.2), (0.5, 0.35)):
    bounds = interval["co2", coverage]
    band = {"color": "tab:blue", "linewidth": 0, "alpha": shade, "label": f"interval of {coverage:.0%}"}
    axes.fill_between(forecast.index, bounds["lower"], bounds["upper"], **band)
axes.plot(forecast.index, forecast, color="tab:blue", label="forecast")
axes.set(ylabel="CO₂, parts per million", title="Three years ahead")
axes.legend(ncols=2, loc="lower right", frameon=False)
figure.savefig("forecast-co2.png", dpi=150)
bounds = interval["co2", 0.9]
inside = ((future >= bounds["lower"]) & (future <= bounds["upper"])).mean()
print(f"{inside:.0%} of these 36 months are inside the intervals of 90 %")

# %% [markdown]
# ## Was it worth it?
#
# One forecast proves little. `backtest` forecasts a whole stretch from every month of it, beside what costs nothing.

# %%
outcome = forecaster.backtest(series, fh=np.arange(1, 13), test=0.25)
print(outcome.summary())
table = outcome.table()
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for method in table.index.get_level_values(0).unique():
    errors = table.loc[method]
    errors = errors[[isinstance(step, int) for step in errors.index]]
    axes.plot(errors.index, errors["MASE"], marker="o", markersize=3, label=method)
axes.set(
    xlabel="months ahead",
    ylabel="MASE (less is better)",
    title="Errors on the last quarter of the series",
    ylim=(0, None),
)
axes.legend(frameon=False)
figure.savefig("forecast-backtest.png", dpi=150)

# %% [markdown]
# ## New values
#
# `update` takes what has come since; forecasts begin after it, and the intervals learn from the errors that it made.
# The directory that `save` writes has the networks as runs and the rest as JSON: nothing executable.

# %%
forecaster.update(future)
print(forecaster.predict().head(3))
forecaster.save("co2-model")
assert RecurrentForecaster.load("co2-model").predict().equals(forecaster.predict())
