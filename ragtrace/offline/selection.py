"""Which evaluators a data set can be put through."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence

from ragtrace import plugins
from ragtrace.errors import SettingError
from ragtrace.evaluation import Evaluator
from ragtrace.offline.rows import Row
from ragtrace.plugins import DEFAULT_SUITE
from ragtrace.records import INPUTS

_REFERENCE = (
    "answer_correctness",
    "answer_similarity",
    "context_precision",
    "context_recall",
    "noise_sensitivity",
    "rouge_l",
    "bleu_4",
)
_OTHERS = ("tokens_presence", "looping_tool_calls")
_LABEL = 40


def names_of(given: str) -> list[str]:
    """The evaluators of a list of names, in its order, each once. `default` stands for the default suite, `local` for
    all that need neither a judge nor a language model."""
    found: list[str] = []
    for name in (part.strip() for part in given.split(",")):
        if name == "default":
            found.extend(DEFAULT_SUITE)
        elif name == "local":
            found.extend(_local())
        elif name:
            found.append(name)
    if not found:
        raise SettingError("evaluators names none; give names, `default`, `local` or `auto`")
    return list(dict.fromkeys(found))


def _local() -> Iterable[str]:
    for name in plugins.builtin_names():
        if name not in plugins.LANGUAGE_MODEL and not plugins.load(name).asks_judge:
            yield name


def chosen_for(rows: Sequence[Row]) -> list[str]:
    """Local evaluators that fit what rows have: the default suite, and what reference answers, constraints and steps
    allow; labels instead of texts as references are classified."""
    there = {need for need in INPUTS for row in rows if _applies(need, row)}
    names = [name for name in (*DEFAULT_SUITE, *_REFERENCE, *_OTHERS) if plugins.load(name).needs <= there]
    if "reference" in there and all(len(row.trace.reference or "") <= _LABEL for row in rows):
        names.append("classification")
    if importlib.util.find_spec("nltk") is None:
        names = [name for name in names if not name.startswith(("bleu", "rouge"))]
    return names


def _applies(need: str, row: Row) -> bool:
    return Evaluator(name="x", fn=bool, needs=frozenset({need})).applies(row.trace)


def needs_judge(checks: Sequence[Evaluator]) -> bool:
    """Whether one of them asks the judge."""
    return any(check.asks_judge for check in checks)
