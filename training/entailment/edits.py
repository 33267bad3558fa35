"""Small changes of a sentence: some turn its meaning, some keep it.

Used to make training pairs. Each function takes a sentence and a source of chance and returns the changed sentence,
or None where there is nothing to change.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from ragtrace.models.claim_words import OPPOSITES

NUMBER = re.compile(r"(?<![\w.])\d[\d,.]*\d(?!\w)|(?<![\w.])\d(?!\w)")
NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]{2,}(?: [A-Z][a-z]+)*")
_AUX = re.compile(
    r"\b(is|are|was|were|can|will|should|has|have|had|could|would|does|did|do|may|must)\b(?! not\b|n't)", re.I
)
_NEGATIONS: tuple[tuple[str, str], ...] = (
    (r"\b(is|are|was|were|should|has|have|had|could|would|may|must|do|does|did|will|can) not\b", r"\1"),
    (r"\b(is|are|was|were|should|has|have|had|could|would|must|do|does|did)n['\u2019]t\b", r"\1"),
    (r"\bwon['\u2019]t\b", "will"),
    (r"\b(?:can['\u2019]t|cannot)\b", "can"),
    (r"\bnever\b", "always"),
    (r"\bno longer\b", "still"),
    (r"\bno (?=[a-z])", "a "),
    (r"\bnone of\b", "all of"),
    (r"\bwithout\b", "with"),
    (r"\bexcept\b", "including"),
    (r"\bunless\b", "if"),
    (r"\bneither\b", "both"),
    (r"\bnobody\b", "everybody"),
    (r"\bnothing\b", "everything"),
    (r"\bnon-(?=[a-z])", ""),
    (r"\bnot (?=[a-z])", ""),
    (r"\bunable to\b", "able to"),
    (r"\bfails? to\b", "manages to"),
    (r"\bunavailable\b", "available"),
    (r"\binvalid\b", "valid"),
    (r"\bimpossible\b", "possible"),
    (r"\bunlikely\b", "likely"),
    (r"\bnon-?refundable\b", "refundable"),
    (r"\bfree of\b", "subject to"),
)
_STRENGTHS: tuple[tuple[str, str], ...] = (
    (r"\bsome\b", "all"),
    (r"\bmost\b", "all"),
    (r"\bmay\b", "must"),
    (r"\bcan\b", "must"),
    (r"\bmight\b", "will"),
    (r"\bat least\b", "at most"),
    (r"\bat most\b", "at least"),
    (r"\bup to\b", "at least"),
    (r"\bmore than\b", "less than"),
    (r"\bless than\b", "more than"),
    (r"\bonly\b", "not only"),
    (r"\busually\b", "always"),
    (r"\boften\b", "never"),
    (r"\bsometimes\b", "always"),
    (r"\bwithin\b", "after"),
    (r"\buntil\b", "from"),
    (r"\bboth\b", "neither"),
    (r"\beither\b", "neither"),
    (r"\bif\b", "even if not"),
    (r"\bbecause\b", "although"),
    (r"\bincluding\b", "except"),
    (r"\bwith\b", "without"),
    (r"\bfrom\b", "to"),
)
_WORD = re.compile(r"[A-Za-z]+")
_NUMBER_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty
"""
_DIGITS = _NUMBER_WORDS.split()
_UNITS: tuple[tuple[str, float, str, str], ...] = (
    ("months", 1 / 12, "year", "years"),
    ("minutes", 1 / 60, "hour", "hours"),
    ("hours", 1 / 24, "day", "days"),
    ("days", 1 / 7, "week", "weeks"),
    ("years", 12, "month", "months"),
    ("hours", 60, "minute", "minutes"),
    ("weeks", 7, "day", "days"),
    ("km", 1000, "metre", "metres"),
    ("kilometres", 1000, "metre", "metres"),
    ("kg", 1000, "gram", "grams"),
    ("seconds", 1 / 60, "minute", "minutes"),
    ("metres", 100, "centimetre", "centimetres"),
    ("GB", 1000, "megabyte", "MB"),
    ("cm", 10, "millimetre", "mm"),
    ("litres", 1000, "millilitre", "ml"),
)
_SYNONYMS: tuple[tuple[str, str], ...] = (
    ("buy", "purchase"),
    ("must", "have to"),
    ("may", "are allowed to"),
    ("cannot", "are not able to"),
    ("begin", "start"),
    ("begins", "starts"),
    ("ends", "finishes"),
    ("within", "no later than"),
    ("costs", "is priced at"),
    ("free", "at no cost"),
    ("requires", "needs"),
    ("require", "need"),
    ("get", "receive"),
    ("about", "roughly"),
    ("help", "assist"),
    ("show", "indicate"),
    ("also", "additionally"),
    ("however", "but"),
    ("people", "persons"),
    ("children", "kids"),
    ("car", "vehicle"),
    ("doctor", "physician"),
    ("big", "large"),
    ("quickly", "fast"),
    ("important", "significant"),
    ("because", "since"),
    ("many", "a lot of"),
    ("use", "utilise"),
    ("can be", "is possible to be"),
    ("before", "prior to"),
    ("percent", "%"),
    ("approximately", "around"),
    ("employees", "staff"),
    ("company", "firm"),
    ("annual", "yearly"),
)
_PREFACES = (
    "According to the document, ",
    "According to the handbook, ",
    "Based on the context, ",
    "As stated in the text, ",
    "Sure! ",
    "Yes, ",
    "The documentation says that ",
    "In short, ",
    "As far as the passages go, ",
    "Certainly. ",
)

Edit = Callable[[str, random.Random], str | None]


def _replaced(sentence: str, match: re.Match[str], new: str) -> str:
    if match.group()[:1].isupper() and new:
        new = new[0].upper() + new[1:]
    return re.sub(r"  +", " ", sentence[: match.start()] + new + sentence[match.end() :])


def _one(matches: Sequence[re.Match[str]], chance: random.Random) -> re.Match[str] | None:
    return chance.choice(matches) if matches else None


def negate(sentence: str, chance: random.Random) -> str | None:
    """Add a negation behind an auxiliary verb."""
    match = _one(list(_AUX.finditer(sentence)), chance)
    if match is None:
        return None
    verb = match.group()
    forms = [f"{verb} not", f"{verb} never" if verb not in ("do", "does", "did") else f"{verb} not"]
    if verb in ("is", "are", "was", "were", "should", "has", "have", "had", "could", "would", "does", "did", "do"):
        forms.append(f"{verb}n't")
    forms += {"can": ["cannot", "can't"], "will": ["won't", "will no longer"]}.get(verb, [])
    return sentence[: match.start()] + chance.choice(forms) + sentence[match.end() :]


def affirm(sentence: str, chance: random.Random) -> str | None:
    """Take one negation out."""
    choices = [(m, new) for pattern, new in _NEGATIONS for m in re.finditer(pattern, sentence, re.I)]
    if not choices:
        return None
    match, new = chance.choice(choices)
    return _replaced(sentence, match, match.expand(new))


def invert(sentence: str, chance: random.Random) -> str | None:
    """Put an opposite in place of a word."""
    match = _one([m for m in _WORD.finditer(sentence) if m.group().lower() in OPPOSITES and len(m.group()) > 3], chance)
    return match and _replaced(sentence, match, OPPOSITES[match.group().lower()])


def strengthen(sentence: str, chance: random.Random) -> str | None:
    """Change a quantifier, a modal verb or a condition."""
    choices = [(m, new) for pattern, new in _STRENGTHS for m in re.finditer(pattern, sentence, re.I)]
    if not choices:
        return None
    match, new = chance.choice(choices)
    return _replaced(sentence, match, new)


def renumber(numbers: Sequence[str]) -> Edit:
    """Put another number in place of one: one of these, or the same with a digit changed."""

    def edit(sentence: str, chance: random.Random) -> str | None:
        words = [m for m in _WORD.finditer(sentence) if m.group().lower() in _DIGITS[2:]]
        match = _one([*NUMBER.finditer(sentence), *words], chance)
        if match is None:
            return None
        old = match.group()
        if not old[0].isdigit():
            return _replaced(sentence, match, chance.choice([d for d in _DIGITS[2:13] if d != old.lower()]))
        others = [n for n in numbers if n != old and n not in sentence]
        if others and chance.random() < 0.55:
            return _replaced(sentence, match, chance.choice(others))
        places = [i for i, c in enumerate(old) if c.isdigit()]
        at = chance.choice(places)
        digit = chance.choice([d for d in "123456789" if d != old[at]])
        return _replaced(sentence, match, old[:at] + digit + old[at + 1 :])

    return edit


def rename(names: Sequence[str]) -> Edit:
    """Put another of these names in place of one."""

    def edit(sentence: str, chance: random.Random) -> str | None:
        match = _one(list(NAME.finditer(sentence)), chance)
        others = [n for n in names if match and n not in sentence and n not in match.group()]
        return _replaced(sentence, match, chance.choice(others)) if match and others else None

    return edit


def exchange(sentence: str, chance: random.Random) -> str | None:
    """Exchange two names, two numbers, or both sides of "from … to …" and "… than …"."""
    choices = []
    for pattern in (NAME, NUMBER):
        matches = list(pattern.finditer(sentence))
        for a, b in pairwise(matches):
            between = sentence[a.end() : b.start()]
            if (
                a.group() != b.group()
                and between.strip() not in ("and", ",", "or", "&", ", and", "to", "-", "\u2013")
                and len(between) > 4
            ):
                choices.append((a.span(), b.span()))
    for m in re.finditer(r"\bfrom ((?:\w+ ){0,2}\w+) to ((?:\w+ ){0,2}\w+)", sentence):
        choices.append((m.span(1), m.span(2)))
    for m in re.finditer(r"\b[Tt]he (\w+) (?:\w+ ){1,5}the (\w+)\b", sentence):
        if m.group(1) != m.group(2):
            choices.append((m.span(1), m.span(2)))
    if not choices:
        return None
    (a, b), (c, d) = chance.choice(choices)
    return sentence[:a] + sentence[c:d] + sentence[b:c] + sentence[a:b] + sentence[d:]


def turn(sentence: str, numbers: Sequence[str], names: Sequence[str], chance: random.Random) -> tuple[str, str] | None:
    """The sentence with one change that turns its meaning, and the change's name; None where nothing can be changed."""
    edits: list[tuple[str, Edit, float]] = [
        ("affirm", affirm, 4),
        ("negate", negate, 1.5),
        ("invert", invert, 1.2),
        ("strengthen", strengthen, 0.8),
        ("renumber", renumber(numbers), 2),
        ("rename", rename(names), 1.5),
        ("exchange", exchange, 1.6),
    ]
    while edits:
        kind, edit, _ = chosen = chance.choices(edits, [w for _, _, w in edits])[0]
        changed = edit(sentence, chance)
        if changed and changed != sentence:
            return changed, kind
        edits.remove(chosen)
    return None


def _number_words(sentence: str, chance: random.Random) -> str | None:
    if match := _one([m for m in re.finditer(r"\b\d{1,2}\b", sentence) if int(m.group()) <= 20], chance):
        return _replaced(sentence, match, _DIGITS[int(match.group())])
    match = _one([m for m in _WORD.finditer(sentence) if m.group().lower() in _DIGITS], chance)
    return match and _replaced(sentence, match, str(_DIGITS.index(match.group().lower())))


def _convert(sentence: str, chance: random.Random) -> str | None:
    choices = []
    for unit, factor, one, several in _UNITS:
        for m in re.finditer(rf"\b(\d+(?:\.\d+)?) ?{unit}\b", sentence):
            value = round(float(m.group(1)) * factor, 6)
            if value == int(value) and 1 <= value < 100_000:
                shown = f"{int(value):,}" if chance.random() < 0.5 else str(int(value))
                if value <= 12 and chance.random() < 0.5:
                    shown = _DIGITS[int(value)]
                choices.append((m, f"{shown} {one if value == 1 else several}"))
    if not choices:
        return None
    match, new = chance.choice(choices)
    return _replaced(sentence, match, new)


def _contract(sentence: str, chance: random.Random) -> str | None:
    if "n't" in sentence and "won't" not in sentence and "can't" not in sentence:
        return sentence.replace("n't", " not", 1)
    for a, b in (
        ("cannot", "can't"),
        ("can't", "cannot"),
        ("will not", "won't"),
        ("won't", "will not"),
        ("is not", "isn't"),
        ("are not", "aren't"),
        ("does not", "doesn't"),
        ("do not", "don't"),
        ("was not", "wasn't"),
    ):
        if a in sentence:
            return sentence.replace(a, b, 1)
    return None


def _synonym(sentence: str, chance: random.Random) -> str | None:
    choices = [(a, b) for a, b in _SYNONYMS if re.search(rf"\b{a}\b", sentence)]
    if not choices:
        return None
    a, b = chance.choice(choices)
    return re.sub(rf"\b{a}\b", b, sentence, count=1)


def _preface(sentence: str, chance: random.Random) -> str | None:
    head = (
        sentence[0].lower() + sentence[1:]
        if sentence[1:2].islower()
        and sentence.split(maxsplit=1)[0].lower() in ("the", "a", "an", "it", "you", "this", "there", "if", "in")
        else sentence
    )
    return chance.choice(_PREFACES) + head


def _cite(sentence: str, chance: random.Random) -> str | None:
    mark = chance.choice([" [1].", " [2].", " (source 1).", " [doc 3]."])
    return sentence.rstrip(".") + mark


def _drop(sentence: str, chance: random.Random) -> str | None:
    """Leave out a leading adverbial."""
    match = re.match(
        r"^(?:However|Additionally|Furthermore|Moreover|Also|Overall|In addition|Therefore|Thus), ([a-z])(.*)",
        sentence,
        re.S,
    )
    return match and match.group(1).upper() + match.group(2)


def keep(sentence: str, chance: random.Random) -> str:
    """The sentence with changes that keep its meaning."""
    for edit, share in (
        (_convert, 0.7),
        (_number_words, 0.5),
        (_contract, 0.5),
        (_synonym, 0.5),
        (_drop, 0.5),
        (_preface, 0.15),
        (_cite, 0.12),
    ):
        if chance.random() < share:
            sentence = edit(sentence, chance) or sentence
    return sentence
