"""Selects the evaluators that suit a data set."""

import importlib.util
from collections.abc import Sequence

from ragtrace import plugins
from ragtrace.base.rows import Row
from ragtrace.errors import SettingError
from ragtrace.plugins import DEFAULT_SUITE
from ragtrace.records import INPUTS, has_input

REFERENCE_EVALUATORS = (
    "answer_correctness", "answer_similarity", "context_precision", "context_recall", "noise_sensitivity", "rouge_l",
    "bleu_4",
)  # fmt: skip
"""Evaluators that compare with a reference answer, and need neither a judge nor a language model."""
_OTHERS = ("tokens_presence", "looping_tool_calls")
_LABEL = 40
"""A reference of at most so many characters may be a label."""


def parse_names(text: str) -> list[str]:
    """The evaluators of a comma-separated list, in its order and each once. `default` means the default suite, `local`
    all evaluators that need neither a judge nor a language model. Raises SettingError for an empty list."""
    names: list[str] = []
    for name in (part.strip() for part in text.split(",")):
        if name == "default":
            names.extend(DEFAULT_SUITE)
        elif name == "local":
            local = (each for each in plugins.builtin_names() if each not in plugins.LANGUAGE_MODEL)
            names.extend(each for each in local if not plugins.load(each).asks_judge)
        elif name:
            names.append(name)
    if not names:
        raise SettingError("the list of evaluators is empty: use names, `default`, `local` or `auto`")
    return list(dict.fromkeys(names))


def suitable(rows: Sequence[Row]) -> list[str]:
    """The local evaluators that suit these rows: the default suite, and those that their references, constraints and
    steps allow. If all references are short, they may be labels: then `classification` is included."""
    inputs = {name for name in INPUTS for row in rows if has_input(row.trace, name)}
    names = [name for name in (*DEFAULT_SUITE, *REFERENCE_EVALUATORS, *_OTHERS) if plugins.load(name).needs <= inputs]
    if "reference" in inputs and all(len(row.trace.reference or "") <= _LABEL for row in rows):
        names.append("classification")
    if importlib.util.find_spec("nltk") is None:
        names = [name for name in names if not name.startswith(("bleu", "rouge"))]
    return names
