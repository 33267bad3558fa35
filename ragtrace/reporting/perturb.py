"""Small changes of a row's input that should not change a verdict. The same seed gives the same changes.

Each keeps the meaning by construction, and its docstring says what it does keep and what it does not. A change that a
row offers no place for (one chunk cannot change its order) is left out: a perturbation that changes nothing would count
as a verdict that held.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ragtrace.errors import SettingError
from ragtrace.records import Document, Trace
from ragtrace.reporting.paraphrase import paraphrase

_TYPO_RATE = 0.03
"""Of the letters that may be hit; at least one is, where there is one."""
_SHORTEST = 4
_OPEN, _CLOSE = "(\"'\u201c\u2018", ")\"'\u201d\u2019.,;:!?"
_WORD = re.compile(rf"(?<!\S)[{_OPEN}]*([^\W\d_]+)[{_CLOSE}]*(?!\S)")
"""A word of letters alone between white space: numbers, URLs, addresses, identifiers and hyphenated words never are."""
_TOKEN = re.compile(r"\S+")
_PROTECTED = frozenset(
    {"never", "none", "nobody", "nothing", "neither", "without", "cannot", "except", "least", "most"}
)
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBOURS = {
    letter: row[max(0, i - 1) : i] + row[i + 1 : i + 2] for row in _KEYS for i, letter in enumerate(row)
}  # fmt: skip


def typos(row: Trace, rng: random.Random, others: Sequence[Document] = ()) -> Trace | None:
    """Slips of the keyboard in the question: letters swapped, dropped, or hit one key beside, in about 3 % of the
    letters and at most once in a word.

    Keeps numbers, URLs, addresses, words with digits, hyphens or capitals, words of fewer than four letters and words
    of negation as they are. Does not promise that a slip makes no other word ("form" for "from").
    """
    words = [m for m in _WORD.finditer(row.query) if _may_slip(m.group(1))]
    if not words:
        return None
    letters = sum(len(m.group(1)) for m in words)
    hit = rng.sample(words, min(len(words), max(1, round(_TYPO_RATE * letters))))
    query = row.query
    for match in sorted(hit, key=lambda m: -m.start()):
        start, end = match.span(1)
        query = query[:start] + _slip(match.group(1), rng) + query[end:]
    return replace(row, query=query)


def _may_slip(word: str) -> bool:
    return word.islower() and len(word) >= _SHORTEST and word not in _PROTECTED


def _slip(word: str, rng: random.Random) -> str:
    """The word with one letter wrong, never the first: it carries most of how a word is recognised."""
    at = rng.randrange(1, len(word) - 1)
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    dropped = word[:at] + word[at + 1 :]
    beside = _NEIGHBOURS.get(word[at], "")
    options = [dropped] + [word[:at] + key + word[at + 1 :] for key in beside] + [swapped] * (swapped != word)
    return rng.choice(options)


def case(row: Trace, rng: random.Random, others: Sequence[Document] = ()) -> Trace | None:
    """The question all in lower or all in upper case.

    Keeps words with digits, URLs and addresses, words with capitals behind their first letter ("mW", "US") and single
    letters ("plan B") as they are. Does not keep what only a first capital tells ("Turkey"), and in upper case not
    which words are acronyms.
    """
    ways: list[Callable[[str], str]] = [str.lower, str.upper]
    rng.shuffle(ways)
    for way in ways:
        query = _TOKEN.sub(lambda m, way=way: m.group() if _fixed(m.group()) else way(m.group()), row.query)  # type: ignore[misc]
        if query != row.query:
            return replace(row, query=query)
    return None


def _fixed(token: str) -> bool:
    word = token.strip(_OPEN + _CLOSE)
    named = word[1:] != word[1:].lower() or (len(word) == 1 and word != "I")
    return named or any(c.isdigit() or c in "/@_\\." for c in word)


def reworded(row: Trace, rng: random.Random, others: Sequence[Document] = ()) -> Trace | None:
    """The question in other words, by rule: see `paraphrase`. Keeps every word that carries meaning, in its order but
    for the verb of a question; English questions only."""
    query = paraphrase(row.query, rng)
    return None if query is None else replace(row, query=query)


def chunk_order(row: Trace, rng: random.Random, others: Sequence[Document] = ()) -> Trace | None:
    """The same chunks in another order: two are exchanged, more are reversed or shuffled.

    Keeps what was retrieved. Does not keep ranks, so metrics that read them (context_precision) should change.
    """
    documents = list(row.documents)
    contents = [d.content for d in documents]
    if len(set(contents)) < 2:
        return None
    changed = documents[::-1]
    if rng.random() < 0.5:
        rng.shuffle(changed)
    while [d.content for d in changed] == contents:
        rng.shuffle(changed)
    return replace(row, documents=tuple(changed))


def distractor(row: Trace, rng: random.Random, others: Sequence[Document] = ()) -> Trace | None:
    """One more chunk, from another row, somewhere among the row's own.

    Keeps the row's chunks and their order. Shares of relevant chunks should fall (context_relevancy), what the answer
    claims should stay as supported as it was. Does not promise that the chunk says nothing of the question: rows of one
    data set may share their subject.
    """
    known = {d.content for d in row.documents}
    # A few tries find one without a walk through all rows; where they all fail, the rows share their chunks.
    for _ in range(50 if others else 0):
        chosen = rng.choice(others)
        if chosen.content not in known and chosen.content.strip():
            at = rng.randint(0, len(row.documents))
            inserted = replace(chosen, id=f"distractor-{chosen.id}", score=None)
            return replace(row, documents=(*row.documents[:at], inserted, *row.documents[at:]))
    return None


_KINDS: dict[str, Callable[[Trace, random.Random, Sequence[Document]], Trace | None]] = {
    "typos": typos,
    "case": case,
    "paraphrase": reworded,
    "chunk_order": chunk_order,
    "distractor": distractor,
}
KINDS = tuple(_KINDS)
"""Names of all perturbations."""


def perturbed(rows: Iterable[Trace], kinds: Sequence[str] = KINDS, seed: int = 0) -> Iterator[tuple[Trace, str]]:
    """Each row under each kind of perturbation, row by row, with the kind's name.

    A perturbed row keeps its `trace_id`, by which it is matched with its original, and its answer: what is tested is
    whether a verdict on that answer holds. Kinds that a row offers no place for are left out. What happens to a row
    depends on the seed and on the row, not on the rows before it (a distractor depends on which rows there are). Reads
    all rows first. Raises SettingError for a kind that does not exist.
    """
    if unknown := [kind for kind in kinds if kind not in _KINDS]:
        raise SettingError(f"perturbation {unknown[0]!r}: known ones are {', '.join(KINDS)}")
    given = list(rows)
    others = [document for row in given for document in row.documents] if "distractor" in kinds else []
    return _all(given, kinds, seed, others)


def _all(
    rows: Sequence[Trace], kinds: Sequence[str], seed: int, others: Sequence[Document]
) -> Iterator[tuple[Trace, str]]:
    for row in rows:
        for kind in kinds:
            changed = _KINDS[kind](row, random.Random(f"{seed} {kind} {row.trace_id} {row.query}"), others)
            if changed is not None:
                yield changed, kind
