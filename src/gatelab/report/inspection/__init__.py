"""What was seen inside a run, as figures, words and one page."""
