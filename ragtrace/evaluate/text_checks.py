"""Checks of the answer's text alone: loops, answers that say nothing, and tokens that must be there."""

import re
import zlib
from collections.abc import Sequence
from typing import Any
from unicodedata import normalize

from ragtrace.evaluate.arithmetic import failures
from ragtrace.evaluation import NOT_APPLICABLE, evaluator
from ragtrace.records import Score, Trace
from ragtrace.text.sentences import split
from ragtrace.text.words import is_empty

_SOURCE = "H2O Eval Studio, Looping Detection Evaluator"
_SHORT = 10
_RUN = 12
"""Words that are rarely said twice in one answer: names of laws and products are shorter."""
_PIECE = 3
"""Words by which a repeat is looked for."""
_NEAR = 3
"""Latest places of a piece that are compared with a new one."""
_LOOP = 30
"""Characters of a repeated text that is a loop, and not a phrase."""
_CODE = re.compile(r"```.*?(?:```|\Z)", re.S)
_LAYOUT = re.compile(rf"{_CODE.pattern}|^[ \t]*\|[^\n]*\|[ \t]*$|^[\s\-=_*~#+.]{{3,}}$", re.S | re.M)
"""Code, rows of tables and rules repeat themselves by nature."""
_NUMBERING = re.compile(r"^\s*(?:\(?\d{1,3}[.)]|[-*•])\s+|(?<=[.!?;:]) \(?\d{1,3}[.)] ", re.M)
"""The number of a list's item: a loop that counts its rounds is a loop."""
_LINK = re.compile(r"https?://\S+|(?<!\S)[^\s/]*/[^\s/]+/\S*")
_MARKS = re.compile(r"([^\w\s]{1,3})[ \t]+(?:\1[ \t]+){8,}\1|([!?,;\U0001f300-\U0001faff])\2{19,}")
"""A mark that is written ten times with blanks between, or, where no rule is made of it, twenty times without."""
_LINES = re.compile(r"^(?=[^\n]*\w)([^\n]+)(?:\n\1){5,}$", re.M)
"""A line that is written six times, e.g. the row of a table."""
_MAX_LOOP_CHARS = 200_000
_MAX_CHARS = 8_000
"""Characters of an answer that are searched for repetitions; a loop that starts later is as long as it is dull."""


@evaluator(needs={"answer"}, version="4", threshold=0.88, source=_SOURCE)
def looping_unique_sentences(trace: Trace) -> float | None:
    """Unique sentences of the answer / its sentences, without the numbers of a list's items; those under 10 characters,
    code and tables are left out."""
    answer = _LAYOUT.sub("\n", trace.answer)
    sentences = [answer[s.start : s.end] for s in split(answer)]
    counted = [" ".join(_NUMBERING.sub(" ", s).split()) for s in sentences if len(s) >= _SHORT]
    return len(set(counted)) / len(counted) if counted else None


@evaluator(needs={"answer"}, version="5", threshold=0.02, direction="lower", source="Repetition rate of n-grams")
def looping_repeated_ngrams(trace: Trace) -> float | None:
    """The largest of three shares of the answer: its words in rounds that follow each other, its runs of twelve words
    that were in it before, and its characters in marks that are written ten times, and in lines that are written six
    times, in a row.

    Code blocks, tables, rules and links are left out. It does not mind where a loop starts or how its rounds differ; of
    the looping checks it is the one that tells loops from lists and from names that are written twice best."""
    answer = trace.answer[:_MAX_LOOP_CHARS]
    rows = [*_MARKS.finditer(answer), *_LINES.finditer(_CODE.sub("", answer))]
    marks = min(1.0, sum(row.end() - row.start() for row in rows) / max(1, len(answer)))
    words = _words(_LINK.sub(" link ", _NUMBERING.sub(" ", _LAYOUT.sub(" ", answer))).lower())
    runs = list(zip(*(words[i:] for i in range(_RUN)), strict=False))
    repeated = 1 - len(set(runs)) / len(runs) if runs else 0.0
    return max(marks, repeated, share_in_rounds(words))


def _words(text: str) -> list[str]:
    import regex

    return list(regex.findall(r"[\w\p{M}]+", text))  # vowel signs belong to words


def share_in_rounds(words: Sequence[str]) -> float:
    """The share of the words, in [0, 1], that are in rounds which follow each other: two rounds with at least twelve
    words together, or three with at least eight. It takes linear time: a repeat is followed once, where it begins."""
    places: dict[tuple[str, ...], list[int]] = {}
    in_rounds = bytearray(len(words))
    for i in range(len(words) - _PIECE + 1):
        before = places.setdefault(tuple(words[i : i + _PIECE]), [])
        for j in before[-_NEAR:]:
            if j and words[j - 1] == words[i - 1]:
                continue  # it began earlier
            length, period = 0, i - j
            while i + length < len(words) and words[j + length] == words[i + length]:
                length += 1
            if (length >= period and length + period >= _RUN) or (length >= 2 * period and length + period >= 8):
                in_rounds[j : i + length] = b"\1" * (i + length - j)
        before.append(i)
    return sum(in_rounds) / len(words) if words else 0.0


@evaluator(needs={"answer"}, version="2", threshold=0.07, direction="lower", source=_SOURCE)
def looping_repeated_substring(trace: Trace) -> float:
    """Length x frequency of the longest repeated substring of the answer / the answer's length; 0 where the longest has
    less than 30 characters.

    In an answer of one sentence a word that occurs twice is already a tenth of the text: no loop. Frequency counts
    occurrences that do not overlap, so that the value stays at or below 1. The first 8,000 characters are read."""
    text = trace.answer[:_MAX_CHARS]
    longest = longest_repeated(text)
    return len(longest) * text.count(longest) / len(text) if len(longest) >= _LOOP else 0.0


@evaluator(needs={"answer"}, version="2", threshold=0.46, source=_SOURCE)
def looping_compression_ratio(trace: Trace) -> float:
    """Bytes of the answer compressed by zlib at level 9 / its bytes in UTF-8; at most 1.

    Long answers compress better than short ones, whether they loop or not: of those beyond 1,500 characters one in five
    fails. So it is not in the default suite; `looping_repeated_ngrams` does not depend on the length."""
    raw = trace.answer.encode("utf-8", "replace")
    return min(1.0, len(zlib.compress(raw, 9)) / len(raw))


def longest_repeated(text: str) -> str:
    """The longest substring that occurs at least twice without overlap; the first one if there are several.

    If a length repeats, every shorter one does, so the length is found by halving: n log n set operations."""
    low, high = 0, len(text) // 2
    best = ""
    while low < high:
        length = (low + high + 1) // 2
        substring = _repeated_of(text, length)
        if substring is None:
            high = length - 1
        else:
            low, best = length, substring
    return best


def _repeated_of(text: str, length: int) -> str | None:
    first: dict[int, int] = {}
    # hash() of a slice costs its length; sliced windows of long texts are why the text is cut before.
    for i in range(len(text) - length + 1):
        piece = text[i : i + length]
        earlier = first.setdefault(hash(piece), i)
        if i - earlier >= length and text[earlier : earlier + length] == piece:
            return piece
    return None


@evaluator(threshold=0.5, direction="lower", method="model", source="Answers without content")
def no_answer(trace: Trace) -> Score:
    """1 where the answer says nothing, else 0: it is blank, holds signs only, one word again and again, or letters that
    are words of no language.

    A blank answer counts where a model was called for it; a request that failed or was cancelled, and a row without an
    answer, have no score. The embedded model of languages tells letters from words."""
    was_called = trace.facts.usage or "generation" in trace.facts.stages
    if trace.facts.cancelled or (not trace.answer and (trace.error or not was_called)):
        return Score("no_answer", label=NOT_APPLICABLE, explanation="no model gave an answer")
    reason = is_empty(trace.answer) or ("the words are of no language" if _is_gibberish(trace.answer) else None)
    if reason is None:
        return Score("no_answer", 0.0, method="model")
    return Score("no_answer", 1.0, explanation=reason, cause="no_answer", method="model")


_FEWEST_LETTERS = 1.7
"""Letters for each word piece of the reader's vocabulary under which the words are unknown to it."""
_UNSURE = 0.4
"""Probability of the likeliest language under which a text may be of none."""


def _is_gibberish(answer: str) -> bool:
    from ragtrace.evaluate.models.language_id import identify

    text = _LAYOUT.sub(" ", answer[:_MAX_CHARS])
    every = _words(text)
    words = [word for word in every if not re.search(r"[\d_]", word)]
    if len(words) < 3 or len(words) < len(every) / 2:
        return False
    language = identify(text)
    if language is None or language[1] >= _UNSURE:
        return False
    from ragtrace.evaluate.models.answer_reader import reader

    return sum(map(len, words)) / max(1, len(reader().chunks.encode(" ".join(words)).ids)) < _FEWEST_LETTERS


Constraint = str | Sequence[str]
_PREFIX = "REGEXP:"
_MAX_PATTERN_TEXT = 100_000
_PATTERN_SECONDS = 0.5


@evaluator(
    needs={"answer", "constraints"}, threshold=0.5, version="2", source="H2O Eval Studio, Tokens Presence Evaluator"
)
def tokens_presence(trace: Trace) -> Score:
    """Whether the answer meets every constraint of `trace.constraints`: a text that it holds, `REGEXP:` and a
    pattern that it matches somewhere, or a list of these of which it meets at least one.

    Says also whether the retrieved context would have met them. A pattern that is broken, or takes longer than half a
    second, is an error. Patterns see the first 100,000 characters."""
    constraints = _checked(trace.constraints)
    missing = [c for c in constraints if not _met(c, trace.answer)]
    context = "\n".join(d.content for d in trace.documents)
    absent = [c for c in constraints if trace.documents and not _met(c, context)]
    parts = [_where("answer", missing), _where("retrieval", absent)]
    return Score(
        "tokens_presence", value=0.0 if missing else 1.0, explanation="; ".join(p for p in parts if p) or None,
        failures=failures(bool(missing), bool(absent)),
    )  # fmt: skip


def _where(place: str, constraints: Sequence[Constraint]) -> str:
    return f"{place} misses {', '.join(str(c) for c in constraints)}" if constraints else ""


def _checked(constraints: Any) -> list[Constraint]:
    if isinstance(constraints, str):
        constraints = [constraints]
    if not isinstance(constraints, (list, tuple)):
        raise ValueError("constraints is neither a text nor a list")
    constraints = [str(each) if isinstance(each, (int, float)) else each for each in constraints]
    for constraint in constraints:
        for option in [constraint] if isinstance(constraint, str) else constraint:
            if not isinstance(option, str):
                raise ValueError(f"constraint {option!r} is not a text")
            if option.startswith(_PREFIX):
                re.compile(option.removeprefix(_PREFIX))
    return list(constraints)


def _met(constraint: Constraint, text: str) -> bool:
    if not isinstance(constraint, str):
        return any(_met(option, text) for option in constraint)
    if not constraint.startswith(_PREFIX):
        return normalize("NFC", constraint) in normalize("NFC", text)
    # Python's own engine cannot be stopped, and a pattern is somebody's input. This one is compatible, gives other
    # threads their turn, and raises TimeoutError.
    import regex

    pattern = regex.compile(constraint.removeprefix(_PREFIX), regex.VERSION0)
    return pattern.search(text[:_MAX_PATTERN_TEXT], timeout=_PATTERN_SECONDS, concurrent=True) is not None
