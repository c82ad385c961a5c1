"""What a terminal shows while something runs: a live display, plain lines in a pipe, or nothing."""
