"""Evaluates data sets: reads rows from files, runs evaluators on them, and writes their scores.

Imports nothing by itself: `rows` (which the chat logs use) loads neither evaluators nor the pipeline."""
