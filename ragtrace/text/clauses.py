"""Clauses of a text, each with its slots: names, amounts, dates, limits, orders in time, duties, quantifiers, colours
and other words that exclude each other.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from ragtrace.text.quantities import Quantity, StatedNumber, same, stated_numbers
from ragtrace.text.sentences import split

_READ = 400
"""Sentences of a text, and numbers and words of a sentence, that are read."""
_CLAUSES = 2_000
_SENTENCE = 2_000
"""Characters of a sentence that are read."""
_STEM = 5
_WORD = re.compile(r"[^\W\d_]+(?:[-'\u2019][^\W\d_]+)*|\d+(?:[.,]\d+)*")
_MONTHS = "january february march april may june july august september october november december".split()
_TITLES = frozenset("mr mrs ms dr prof sir madam".split())
_EMPTY = frozenset(
    re.findall(
        r"\w+",
        "a an the and or but if then than so as at by for from in into of on onto to with without within is are was were be "
        "been being am do does did have has had will would can could may might must shall should it its this that these "
        "those he she they them his her their i we you our your my me us which who whom whose what when where why how not no "
        "nor also there here s t re ve d ll m more most such other some any each both all up out over about",
    )
)
_LIGHT = frozenset(
    re.findall(
        r"\w+",
        "get gets got need needs use used uses take takes make makes give gives given go goes come comes yes well please "
        "total exactly currently eur usd gbp per",
    )
)
"""Words that a clause may have or lack, apart from the empty ones."""
_COSTS = frozenset("cost costs costing price prices priced charge charges charged".split())
_OPENERS = frozenset("since while when if during for after before until although because with without under over".split())
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|except|excludes?|excluded|excluding|unless|unable|"
    r"fails?|only if|forbidden|prohibited)\b|n['\u2019]t\b",
    re.I,
)
_ANSWER = re.compile(r"\A\W*(?:yes|no)\b", re.I)
_CLAUSE = re.compile(r"[;:,]\s+(?:and |but |or )?|\s+(?:and|but|while|whereas|although|then)\s+|\s[\u2013\u2014-]\s|[()|]")
_PRONOUN = re.compile(r"\W*(?:it|its|he|she|his|her|they|their|this|these|the latter)\b", re.I)
_CAPITAL = re.compile(r"(?<=[a-z,0-9] )[A-Z][\w-]*")
_NAME = re.compile(
    r"(?<![\w'])[A-Z][\w-]*(?:(?:(?<=\b[A-Z])\.|(?<=\b[DM][rs])\.|(?<=\bMrs)\.|(?<=\bProf)\.)?[ \u00a0]"
    r"(?:[A-Z][\w-]*|\d+(?:\.\d+)*(?![\d.:%\u20ac$]|,\d)(?=\W|$)(?! ?(?:EUR|USD|GBP|kg|km|GB|MB|%|\u20ac))))*"
)
_NO_NAMES = frozenset("eur usd gbp gb mb kb tb cet am pm i fahrenheit celsius".split())
_DAY_FIRST = re.compile(r"(?:st|nd|rd|th)?(?: of)? ([A-Z][a-z]+)")
_MONTH_FIRST = re.compile(r"\b([A-Z][a-z]+) \Z")
_NUMBER_NEXT = (
    r"(?=(?:\W+\w+){0,2}?\W*(?:\d|(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|half|an?)\b))"
)
_MORE = "more|longer|older|greater|higher|larger|heavier|bigger"
_LESS = "less|fewer|lower|shorter|younger|smaller|lighter"
_MARKER = re.compile(
    rf"\b(?:(?P<lower>(?:no|not) (?:{_LESS}) than{_NUMBER_NEXT}|at least{_NUMBER_NEXT}|minimum(?: \w+)? of{_NUMBER_NEXT}"
    rf"|(?<!no )(?<!not )(?:{_MORE}) than{_NUMBER_NEXT}|(?:over|above){_NUMBER_NEXT}"
    rf"|(?<!not )exceed(?:s|ing)?{_NUMBER_NEXT}|(?<=[\w%] )(?:or|and) (?:{_MORE}|above|over|upwards?)\b)"
    rf"|(?P<upper>(?:no|not) (?:{_MORE}) than{_NUMBER_NEXT}|at (?:the )?most{_NUMBER_NEXT}"
    rf"|maximum(?: \w+)? of{_NUMBER_NEXT}|up to{_NUMBER_NEXT}|(?<!no )(?<!not )(?:{_LESS}) than{_NUMBER_NEXT}"
    rf"|(?:under|below|within){_NUMBER_NEXT}|not exceed(?:ing)?{_NUMBER_NEXT}|(?<=[\w%] )(?:or|and) (?:{_LESS}|below|under)\b)"
    r"|(?P<before>before|prior to)\b|(?P<after>after|following(?= the)|once)\b"
    r"|(?P<must>must|ha(?:s|ve) to|(?:is|are) (?:required|obliged)|mandatory|compulsory|required|obligatory)\b"
    r"|(?P<may>(?:may|can|could|might)(?=\b.*\bif (?:\w+ (?:wish|like|want|prefer)|preferred|desired))|may"
    r"|optional(?:ly)?|voluntary|voluntarily|(?:is|are) (?:advised|encouraged|free) to|recommended)\b"
    r"|(?P<can>can|could|might)\b"
    r"|(?P<all>all|every(?! (?:day|week|month|year|hour|night|two|\d))|always|everyone|everybody)\b"
    r"|(?P<some>some|several|sometimes|occasionally)\b|(?P<most>most(?= \w+s\b)|mostly|usually|the majority of)\b"
    r"|(?P<few>few|rarely|seldom)\b|(?P<only>(?:only|solely|exclusively)\b(?! (?:if|when|after|once|until|\W*\d)))"
    r"|(?P<never>never)\b)",
    re.I,
)
_KIND_OF = {
    **dict.fromkeys(("lower", "upper"), "bound"),
    **dict.fromkeys(("before", "after"), "order"),
    **dict.fromkeys(("must", "may", "can"), "duty"),
    **dict.fromkeys(("all", "some", "most", "few", "only", "never"), "share"),
}
MARKERS = frozenset(_KIND_OF.values())
"""Kinds of slots that say how the rest of their clause holds."""
ANCHORED = frozenset({"bound", "order", "duty"})
"""Those that belong to one amount, event or deed of their clause."""
_PREDICATE = re.compile(r"mandatory|compulsory|required|obligatory|optional(?:ly)?|voluntary|voluntarily|recommended", re.I)
_EXCLUSIVE = """
colour: red green blue yellow white black orange purple grey=gray brown pink
weekday: monday=mondays tuesday=tuesdays wednesday=wednesdays thursday=thursdays friday=fridays saturday=saturdays
 sunday=sundays
month: january february april june july august september october november december
ordinal: first second third fourth fifth sixth last
compass: north=northern south=southern east=eastern west=western
side: left right
season: spring summer autumn winter
times: daily weekly monthly quarterly yearly=annually=annual
daytime: morning=mornings afternoon=afternoons evening=evenings night=nights
level: minimum=lowest maximum=highest
"""
_CLASS_OF: dict[str, tuple[str, str]] = {
    word: (line.split(":")[0], group.split("=")[0])
    for line in _EXCLUSIVE.strip().replace("\n ", " ").splitlines()
    for group in line.split(":")[1].split()
    for word in group.split("=")
}


class Slot(NamedTuple):
    """What a clause says in one of its slots, at text[start:end]."""

    start: int
    end: int
    kind: str
    value: object
    """A name's words, a date, a class's word; of an amount its number."""
    quantity: Quantity | None = None
    """The amount; of a limit, the amount that it limits."""
    anchor: str = ""
    """The word after an order in time or a duty."""
    beside: frozenset[str] = frozenset()
    """Stems of the words next to it."""


class Clause(NamedTuple):
    """A clause: its slots, and what it says beside them."""

    slots: tuple[Slot, ...]
    words: frozenset[str]
    """Stems of its words that are in no slot."""
    lead: frozenset[str]
    """Those before its first slot."""
    shared: frozenset[str]
    """Stems that it has from the start of its sentence, or from the sentence that its pronoun refers to."""
    shared_slots: tuple[Slot, ...]
    """Names that it has from there."""
    negations: int


def is_amount(slot: Slot) -> bool:
    """Whether a slot is a number with or without a unit."""
    return slot.kind.startswith("amount")


def same_slot(a: Slot, b: Slot) -> bool:
    """Whether two slots are of one kind and have the same value."""
    if a.kind != b.kind:
        return False
    if a.kind == "name":
        small, large = sorted((a.value, b.value), key=len)  # type: ignore[arg-type]
        return all(any(_same_name(x, y) for y in large) for x in small)
    if a.quantity is not None and b.quantity is not None:
        return same(a.quantity, b.quantity) and (a.kind != "bound" or a.value == b.value)
    return a.value == b.value and a.anchor == b.anchor


def _same_name(a: str, b: str) -> bool:
    """Whether two words of names are the same, or forms of one, as "Belgium" and "Belgian" are."""
    if a[:1].isdigit() or b[:1].isdigit():
        return a == b
    return a[:4] == b[:4] or (min(len(a), len(b)) > 1 and (a.startswith(b) or b.startswith(a)))


def inner_capitals(texts: Iterable[str]) -> Iterator[str]:
    """Words that begin with a capital letter inside of sentences, in lower case."""
    for text in texts:
        for match in islice(_CAPITAL.finditer(text), 10 * _READ):
            yield match.group().lower()


class ContextClauses(NamedTuple):
    """The clauses of a context, each with its text, and the context's names."""

    clauses: tuple[tuple[str, Clause], ...]
    names: frozenset[str]


@lru_cache(4)
def context_clauses(texts: tuple[str, ...]) -> ContextClauses:
    """The first 2,000 clauses of a context. Two checks of one answer read them: the last contexts are remembered."""
    names = frozenset(inner_capitals(texts))
    read = islice(((text, clause) for text in texts for clause in clauses(text, names)), _CLAUSES)
    return ContextClauses(tuple(read), names)


def clauses(text: str, names: frozenset[str]) -> Iterator[Clause]:
    """The clauses of a text. `names` are words that are names also at the start of a sentence, in lower case. Linear in
    the text's length."""
    last: list[Clause] = []
    for start, end in islice(split(text, _READ), _READ):
        sentence = text[start : min(end, start + _SENTENCE)]
        last = list(_of_sentence(sentence, start, names, last if _PRONOUN.match(sentence) else []))
        yield from last


def _of_sentence(sentence: str, offset: int, names: frozenset[str], before: Sequence[Clause]) -> Iterator[Clause]:
    slots, inside = _slots(sentence, names)
    words = [
        (match.start(), stem)
        for match in islice(_WORD.finditer(sentence), _READ)
        if not inside[match.start()] and (stem := _stem(match.group()))
    ]
    slots = [s._replace(beside=_beside(s, words)) for s in slots]
    carried = frozenset().union(*(c.words | c.shared for c in before))
    names_before = tuple(s for c in before for s in c.slots if s.kind == "name")
    head: frozenset[str] = frozenset()
    subject: tuple[Slot, ...] = ()
    for number, (start, end) in enumerate(_pieces(sentence, inside, words, slots)):
        own = tuple(s for s in slots if start <= s.start < end)
        stems = [(place, stem) for place, stem in words if start <= place < end]
        first = min((s.start for s in own if s.kind not in MARKERS), default=end)
        rest = "".join(" " if inside[i] else sentence[i] for i in range(start, end))
        lead = frozenset(stem for place, stem in stems if place < first)
        own = tuple(s._replace(start=s.start + offset, end=s.end + offset) for s in own)
        yield Clause(
            own,
            frozenset(stem for _, stem in stems),
            lead,
            head | carried,
            tuple(s for s in (*subject, *names_before) if not any(s.kind == o.kind for o in own)),
            len(_NEGATION.findall(rest if number else _ANSWER.sub("", rest))),
        )
        if number == 0:
            head, subject = lead, tuple(s for s in own[:1] if s.kind in ("name", "amount number"))


def _pieces(
    sentence: str, inside: bytearray, words: Sequence[tuple[int, str]], slots: Sequence[Slot]
) -> Iterator[tuple[int, int]]:
    """Where the clauses of a sentence are; each has a word that is in no slot, or two slots."""
    ends = [m.end() for m in islice(_CLAUSE.finditer(sentence), _READ) if not any(inside[m.start() : m.end()])]
    # A word counts as two slots.
    places = sorted([place for place, _ in words] * 2 + [s.start for s in slots if s.kind not in MARKERS])
    start = 0
    for end in ends:
        if bisect_left(places, end) - bisect_left(places, start) > 1:
            yield start, end
            start = end
    yield start, len(sentence)


def _beside(slot: Slot, words: Sequence[tuple[int, str]]) -> frozenset[str]:
    before = [stem for place, stem in words if place < slot.start][-1:]
    return frozenset(before + [stem for place, stem in words if place >= slot.end][:1])


def _stem(word: str) -> str:
    low = word.lower().removesuffix("'s")
    return "" if low in _EMPTY or low in _LIGHT else "cost" if low in _COSTS else low[:_STEM]


def _slots(sentence: str, names: frozenset[str]) -> tuple[list[Slot], bytearray]:
    """The slots of a sentence in their order, and which of its characters belong to one."""
    inside = bytearray(len(sentence))
    slots: list[Slot] = []
    numbers = list(islice(stated_numbers(sentence), _READ))
    for slot in _candidates(sentence, numbers, names):
        if not any(inside[slot.start : slot.end]):
            inside[slot.start : slot.end] = b"\1" * (slot.end - slot.start)
            slots.append(slot)
    return sorted(slots), inside


def _candidates(sentence: str, numbers: Sequence[StatedNumber], names: frozenset[str]) -> Iterator[Slot]:
    """What may be slots, the surer ones first; they may overlap."""
    for number in numbers:
        if (date := _date(sentence, number)) is not None:
            yield date
    for match in islice(_NAME.finditer(sentence), _READ):
        if name := _name(match, names):
            yield Slot(*match.span(), "name", name)
    for match in islice(_MARKER.finditer(sentence), _READ):
        if slot := _marker(sentence, match, numbers):
            yield slot
    for match in islice(_WORD.finditer(sentence), _READ):
        if class_ := _CLASS_OF.get(match.group().lower()):
            yield Slot(*match.span(), *class_)
    for number in numbers:
        is_article = sentence[number.start : number.start + 2].lower() in ("a ", "an")
        if number.quantity == (1.0, "number") or is_article or _is_item(sentence, number):
            continue
        plain = number.quantity.kind == "number"
        if plain and number.value == int(number.value) and 1900 <= number.value <= 2100:
            yield Slot(number.start, number.end, "year", number.value)
        else:
            kind = f"amount {number.quantity.kind}"
            yield Slot(number.start, number.unit_end, kind, number.value, number.quantity)


def _is_item(sentence: str, number: StatedNumber) -> bool:
    return not sentence[: number.start].strip(" -*(") and sentence[number.end : number.end + 1] in (".", ")", ":")


def _marker(sentence: str, match: re.Match[str], numbers: Sequence[StatedNumber]) -> Slot | None:
    value = match.lastgroup or ""
    kind = _KIND_OF[value]
    if kind == "bound":
        is_behind = match.group()[:3].lower() in ("or ", "and")
        near = [n for n in numbers if (0 <= match.start() - n.unit_end <= 12 if is_behind else 0 <= n.start - match.end() <= 12)]
        return Slot(*match.span(), kind, value, near[-1 if is_behind else 0].quantity) if near else None
    anchor = ""
    if kind in ANCHORED and not _PREDICATE.fullmatch(match.group()):
        following = islice(_WORD.finditer(sentence, match.end()), 6)
        anchor = next((low[:_STEM] for word in following if (low := word.group().lower()) not in _EMPTY), "")
    return Slot(*match.span(), kind, value, anchor=anchor)


def _name(match: re.Match[str], names: frozenset[str]) -> frozenset[str]:
    """The words of a name, in lower case; none where it is no name."""
    words = [w.strip(".").lower() for w in match.group().split()]
    has_title = words[0] in _TITLES
    words = [w for w in words if w not in _TITLES]
    is_start = match.string[: match.start()].rstrip()[-1:] in (".", ":", "?", "!", "-", "*", "|", '"', "")
    if is_start and words and not has_title and words[0] not in names:
        if len(words) == 1 or words[0] in _EMPTY or words[1][0].isdigit():
            words = words[1:]
    words = [w for w in words if w not in _EMPTY and w not in _LIGHT and w not in _OPENERS]
    is_none = not words or words[0][0].isdigit() or any(w in _MONTHS or w in _NO_NAMES for w in words)
    return frozenset() if is_none or all(w in _CLASS_OF for w in words) else frozenset(words)


def _date(sentence: str, number: StatedNumber) -> Slot | None:
    if number.quantity.kind != "number" or not 1 <= number.value <= 31:
        return None
    after = _DAY_FIRST.match(sentence, number.end)
    if after and after[1].lower() in _MONTHS:
        return Slot(number.start, after.end(), "date", (after[1].lower(), number.value))
    before = _MONTH_FIRST.search(sentence[max(0, number.start - 12) : number.start])
    if before and before[1].lower() in _MONTHS:
        return Slot(number.start - len(before.group()), number.end, "date", (before[1].lower(), number.value))
    return None
