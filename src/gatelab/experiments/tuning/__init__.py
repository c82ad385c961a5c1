"""A search that gives every model the same number of trials, on validation data, before the final runs."""
