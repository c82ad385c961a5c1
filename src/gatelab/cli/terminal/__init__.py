"""Progress of training and experiments: a live display on a terminal, lines in a pipe, or nothing."""
