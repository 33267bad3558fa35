"""Small changes of a row's input that should not change a verdict. The same seed makes the same changes.

Each perturbation keeps the meaning by construction; its docstring says what it keeps and what it does not. If a row has
no place for a change (a single chunk has no other order), the perturbation is left out: otherwise an unchanged row
would count as a verdict that did not flip."""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ragtrace.batch.reporting.paraphrase import paraphrase
from ragtrace.errors import SettingError
from ragtrace.records import Document, Trace

_TYPO_RATE = 0.03
"""Share of the letters that may change; at least one does if there is one."""
_SHORTEST = 4
_OPEN, _CLOSE = "(\"'\u201c\u2018", ")\"'\u201d\u2019.,;:!?"
_WORD = re.compile(rf"(?<!\S)[{_OPEN}]*([^\W\d_]+)[{_CLOSE}]*(?!\S)")
"""A word of letters only between white space, not a number, URL, address, identifier or hyphenated word."""
_TOKEN = re.compile(r"\S+")
_PROTECTED = frozenset(
    {"never", "none", "nobody", "nothing", "neither", "without", "cannot", "except", "least", "most"}
)
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBOURS = {
    letter: row[max(0, i - 1) : i] + row[i + 1 : i + 2] for row in _KEYS for i, letter in enumerate(row)
}  # fmt: skip


def typos(row: Trace, rng: random.Random, others: Sequence[Document] = ()) -> Trace | None:
    """Typing errors in the question: letters that are swapped, missing, or replaced by a neighbouring key, in about 3 %
    of the letters and at most once in a word.

    Keeps numbers, URLs, addresses, words with digits, hyphens or capitals, words of fewer than four letters and words
    of negation as they are. A typing error may make another word ("form" for "from")."""
    candidates = [m for m in _WORD.finditer(row.query) if m[1].islower() and len(m[1]) >= _SHORTEST]
    words = [m for m in candidates if m[1] not in _PROTECTED]
    if not words:
        return None
    letters = sum(len(m.group(1)) for m in words)
    sample = rng.sample(words, min(len(words), max(1, round(_TYPO_RATE * letters))))
    query = row.query
    for match in sorted(sample, key=lambda m: -m.start()):
        start, end = match.span(1)
        query = query[:start] + _misspell(match.group(1), rng) + query[end:]
    return replace(row, query=query)


def _misspell(word: str, rng: random.Random) -> str:
    """The word with one wrong letter; never the first, by which a word is mostly recognised."""
    at = rng.randrange(1, len(word) - 1)
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    dropped = word[:at] + word[at + 1 :]
    beside = _NEIGHBOURS.get(word[at], "")
    options = [dropped] + [word[:at] + key + word[at + 1 :] for key in beside] + [swapped] * (swapped != word)
    return rng.choice(options)


def case(row: Trace, rng: random.Random, others: Sequence[Document] = ()) -> Trace | None:
    """The question in lower or in upper case.

    Keeps words with digits, URLs and addresses, words with capitals after their first letter ("mW", "US") and single
    letters ("plan B") as they are. Loses what only a first capital expresses ("Turkey") and, in upper case, which words
    are acronyms."""
    ways: list[Callable[[str], str]] = [str.lower, str.upper]
    rng.shuffle(ways)
    for way in ways:
        query = _TOKEN.sub(lambda m, way=way: m.group() if _fixed(m.group()) else way(m.group()), row.query)  # type: ignore[misc]
        if query != row.query:
            return replace(row, query=query)
    return None


def _fixed(token: str) -> bool:
    word = token.strip(_OPEN + _CLOSE)
    has_capitals = word[1:] != word[1:].lower() or (len(word) == 1 and word != "I")
    return has_capitals or any(c.isdigit() or c in "/@_\\." for c in word)


def reworded(row: Trace, rng: random.Random, others: Sequence[Document] = ()) -> Trace | None:
    """The question in other words, by rules: see `paraphrase`. Keeps all words with meaning, in their order except the
    verb of a question. English questions only."""
    query = paraphrase(row.query, rng)
    return None if query is None else replace(row, query=query)


def chunk_order(row: Trace, rng: random.Random, others: Sequence[Document] = ()) -> Trace | None:
    """The same chunks in another order: two are exchanged, more are reversed or shuffled.

    Keeps the chunks and changes their ranks, so that metrics which use ranks (context_precision) should change."""
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
    """One more chunk, taken from another row, at a random rank.

    Keeps the chunks of the row and their order. Shares of relevant chunks should fall (context_relevancy); the support
    of the answer's claims should not change. The chunk may be about the question: rows of one data set may share their
    subject."""
    contents = {d.content for d in row.documents}
    # A few attempts find a chunk without reading all rows; if all fail, the rows share their chunks.
    for _ in range(50 if others else 0):
        other = rng.choice(others)
        if other.content not in contents and other.content.strip():
            at = rng.randint(0, len(row.documents))
            inserted = replace(other, id=f"distractor-{other.id}", score=None)
            return replace(row, documents=(*row.documents[:at], inserted, *row.documents[at:]))
    return None


_KINDS: dict[str, Callable[[Trace, random.Random, Sequence[Document]], Trace | None]] = {
    "typos": typos, "case": case, "paraphrase": reworded, "chunk_order": chunk_order, "distractor": distractor,
}  # fmt: skip
KINDS = tuple(_KINDS)
"""The names of all perturbations."""


def perturbed(rows: Iterable[Trace], kinds: Sequence[str] = KINDS, seed: int = 0) -> Iterator[tuple[Trace, str]]:
    """Each row under each kind of perturbation, row by row, with the name of the kind.

    A perturbed row keeps its `trace_id`, which matches it with its original, and its answer: the test is whether the
    verdict on this answer changes. A kind that cannot change a row is left out. The change of a row depends on the seed
    and the row, not on the rows before it (a distractor depends on the set of rows). Reads all rows first. Raises
    SettingError for an unknown kind."""
    if unknown := [kind for kind in kinds if kind not in _KINDS]:
        raise SettingError(f"unknown perturbation {unknown[0]!r}; choose from {', '.join(KINDS)}")
    originals = list(rows)
    others = [document for row in originals for document in row.documents] if "distractor" in kinds else []
    return (
        (changed, kind) for row in originals for kind in kinds
        if (changed := _KINDS[kind](row, random.Random(f"{seed} {kind} {row.trace_id} {row.query}"), others))
    )  # fmt: skip
