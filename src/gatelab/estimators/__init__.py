"""Estimators in the manner of scikit-learn and sktime, on top of tasks, models and training."""
