"""Evaluates sampled traces in the background: queue, workers, child process, counts, journal."""
