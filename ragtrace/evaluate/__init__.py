"""The built-in evaluators. `ragtrace.plugins` holds the table of their names."""
