"""Checks on the entities that a text names: people and addresses (by a model), numbers, dates and proper names."""

import re

from ragtrace.evaluate.models.language_id import foreign_language
from ragtrace.evaluation import evaluator
from ragtrace.records import Score, Trace

_NUMBER = re.compile(r"(?<![\w.])[$€£]?\d[\d.,:/-]*\d%?|(?<![\w.])[$€£]?\d%?")
_PROPER = re.compile(
    r"(?<![.!?]\s)(?<!^)(?<!\n)\b[A-Z][\w'&-]*(?:[ \t]+(?:(?:of|the|de|van|von)[ \t]+)*[A-Z][\w'&-]*)*"
)
_BETWEEN = re.compile(r"(?<=\d)[, \u202f'](?=\d{3}\b)|['\u2019]s\b|[$€£]")
_ACRONYM = re.compile(r"\b[A-Z][A-Z0-9&-]{1,}\b")
_MAX_CHARS = 20_000


def entities(text: str) -> list[str]:
    """The distinct entities of a text's first 20,000 characters, in order: numbers and dates, acronyms, capitalised
    names inside sentences (not in German, where each noun is), and people and addresses that the embedded model
    finds."""
    from ragtrace.evaluate.models.person_names import names

    text = text[:_MAX_CHARS]
    patterns = [_NUMBER, _ACRONYM, *([] if foreign_language(text) == "de" else [_PROPER])]
    spans = [m.span() for pattern in patterns for m in pattern.finditer(text)]
    spans += [(n.start, n.end) for n in names(text)]
    kept_spans: list[tuple[int, int]] = []
    for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
        if not kept_spans or start >= kept_spans[-1][1]:
            kept_spans.append((start, end))
    return list(dict.fromkeys(text[a:b].strip(" .,:") for a, b in kept_spans if text[a:b].strip(" .,:")))


def _plain(text: str) -> str:
    """Without case, more than one blank, currencies, possessives, and signs between thousands."""
    return " ".join(_BETWEEN.sub("", text).lower().split())


@evaluator(
    needs={"documents", "reference"},
    threshold=0.75,
    method="model",
    version="3",
    source="Ejento evaluation metrics, 2.2; RAGAS context entity recall, entities by the embedded model and by form",
)
def context_entities_recall(trace: Trace) -> Score | None:
    """Entities of the reference that are in the retrieved context / entities of the reference."""
    names = entities(trace.reference or "")
    if not names:
        return None
    context = _plain("\n".join(d.content for d in trace.documents))
    missing = [e for e in names if re.search(rf"(?<!\w){re.escape(_plain(e))}(?!\w)", context) is None]
    explanation = f"not in the context: {', '.join(missing[:10])}" if missing else None
    return Score("context_entities_recall", value=1 - len(missing) / len(names), explanation=explanation)
