"""Experiments: many runs planned, executed and compared."""
