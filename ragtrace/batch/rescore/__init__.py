"""Evaluates stored logs and files of spans again: with other evaluators, or with new versions of the same."""
