"""The user's data: tables, sequences, series and times in one form each, whatever file or object they come from."""
