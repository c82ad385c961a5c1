"""The user's own data: files, arrays in memory, and task classes."""
