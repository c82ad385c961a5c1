"""Experiments: runs of several models and seeds, planned, executed and compared."""
