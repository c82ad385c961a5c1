"""Forecasts of series with intervals, in sktime's manner."""
