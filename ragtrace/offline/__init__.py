"""Evaluation of data sets: files in, scores and a report out."""

from ragtrace.offline.rows import COLUMNS, Row, read
from ragtrace.offline.run import Line, Plan, as_dict, evaluate, to_run
from ragtrace.offline.selection import chosen_for, names_of, needs_judge

__all__ = [
    "COLUMNS",
    "Line",
    "Plan",
    "Row",
    "as_dict",
    "chosen_for",
    "evaluate",
    "names_of",
    "needs_judge",
    "read",
    "to_run",
]
