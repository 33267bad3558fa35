"""The engine: reads the rules of `data/*.toml` and tries each on the parts of a text that can hold its item.

A rule has the form that gitleaks uses. Its fields:

- `id`, `description`, and `matches` and `misses`: texts in which it finds an item and texts in which it finds nothing.
- `kind`: the name that is reported (default: the id). `placeholder`: the text that replaces the item (`[kind]`).
- `keywords`: words in small letters; the rule is tried only in a text that has one of them. A keyword begins a word;
  with a star it may be inside of one: `*wort` is in `kennwort`. `near`: two numbers; only so many characters before and
  behind each keyword are searched. `digits`: only where these characters have a digit.
- `within`: without `near`, a property of `SearchText`: the parts that are searched (default: the whole text).
- `pattern`: its group `value` is the item, or else the whole match. Or `search`: a function that finds items.
- `entropy` (least bits a character), `check` and `context` (functions of `checks`, of the item and of the match): what
  an item must also satisfy.
- `report`: false for a wide form that is only masked. `mask`: how an item is masked: `item`, as it is reported;
  `checked`, whatever its context; `form`, whatever its check and context, for a mask hides rather too much.
- `contact`: whether a person can be reached by it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.resources import files
from typing import Any, Literal, TypeVar

T = TypeVar("T")
Span = tuple[int, int]
"""The characters from the first offset to the second, end exclusive."""
Group = Literal["personal", "secret"]
_FRAGMENT = re.compile(r"\{\{(\w+)\}\}")
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
# What one number may have between its digits; "x", "e" and "t" come from "x" and "ext" before an extension.
_DIGIT_CLUSTER = re.compile(r"\d(?:[ ().\-/+xet]{0,16}\d){3,}")
_DIGITS = re.compile(r"\d+")
_LONG_WORD = 14
_NO_LETTER = r"^a-z\u00aa-\u1fff"
"""What may be before a word in small letters, for a class of a pattern: ranges are tested faster than `\\W`. Scripts
that put no blanks between words are no letters here."""


@cache
def data(name: str) -> Mapping[str, Any]:
    """A file of rules or words, read once."""
    file = files("ragtrace.text.privacy").joinpath("data", f"{name}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


@cache
def _fragments() -> Mapping[str, str]:
    return {n: "".join(v) for name in ("words", "secrets", "personal") for n, v in data(name)["fragments"].items()}


def filled(parts: str | Sequence[str]) -> str:
    """A pattern of a file: its parts joined, each `{{name}}` replaced by the fragment of this name."""
    text = "".join(parts)
    while "{{" in text:
        text = _FRAGMENT.sub(lambda match: _fragments()[match[1]], text)
    return text


def pattern(name: str) -> re.Pattern[str]:
    """A pattern of `data/words.toml`."""
    return re.compile(filled(data("words")["patterns"][name]))


def words(name: str) -> frozenset[str]:
    """A list of words of `data/words.toml`."""
    return frozenset(data("words")["words"][name].split())


class SearchText:
    """A text and its parts that are worth a search: to try each pattern on the whole text would take ten times as
    long."""

    def __init__(self, text: str, regions: Sequence[str] = ()) -> None:
        self.text = text
        self.regions = regions
        """Regions (ISO 3166, e.g. "DE") whose national phone numbers are searched for."""
        self._results: dict[Any, Any] = {}

    def once(self, search: Callable[[SearchText], T]) -> T:
        """The result of a search that several rules share, which is done once."""
        if search not in self._results:
            self._results[search] = search(self)
        result: T = self._results[search]
        return result

    @cached_property
    def lower(self) -> str:
        """The text in lower case, with the same offsets."""
        lower = self.text.lower()
        return lower if len(lower) == len(self.text) else self.text.translate(_ASCII_LOWER)  # "İ" would become two

    @cached_property
    def whole(self) -> list[Span]:
        """The whole text."""
        return [(0, len(self.text))]

    @cached_property
    def long_words(self) -> list[Span]:
        """The runs of 14 characters and more without white space: no shorter one is a key."""
        spans: list[Span] = []
        end = 0
        for word in self.text.split():
            if len(word) >= _LONG_WORD:
                start = self.text.index(word, end)
                end = start + len(word)
                spans.append((start, end))
        return spans

    @cached_property
    def numbers(self) -> list[Span]:
        """The neighbourhoods of many digits that are close together."""
        clusters = (match for match in _DIGIT_CLUSTER.finditer(self.text))
        # Less is a year or a price: neither a phone number nor an IP address.
        return _joined(c.span() for c in clusters if c.group().count(".") >= 3 or count_digits(c.group()) >= 7)

    @cached_property
    def values(self) -> list[Span]:
        """The neighbourhoods of all digits."""
        return _joined(self.digits)

    @cached_property
    def digits(self) -> list[Span]:
        """All runs of digits."""
        return [match.span() for match in _DIGITS.finditer(self.text)]

    @cached_property
    def addresses(self) -> list[Span]:
        """The neighbourhoods of each @."""
        return _joined((match.start(), match.start() + 400) for match in re.finditer("@", self.text))

    @cached_property
    def accounts(self) -> list[Span]:
        """The neighbourhoods of two capital letters before two digits."""
        text = self.text
        starts = (at for at, end in self.digits if end - at > 1 and text[max(0, at - 2) : at].isupper())
        return _joined((at - 2, at + 50) for at in starts)

    @cached_property
    def keywords(self) -> dict[str, list[int]]:
        """The offsets of the keywords of all rules that are in the text."""
        places: dict[str, list[int]] = {}
        beginnings, pattern, inside = _keyword_search()
        for match in pattern.finditer(" " + self.lower):  # the first word has a mark before it, too
            for keyword in beginnings[match[1]]:
                places.setdefault(keyword, []).append(match.start())
        for keyword, word in inside:
            if word in self.lower:
                places[keyword] = [match.start() for match in re.finditer(re.escape(word), self.lower)]
        return places

    def around(self, keywords: Sequence[str], near: Sequence[int]) -> list[Span]:
        """The neighbourhoods of these keywords of rules, in order."""
        before, behind = near
        places = sorted(at for keyword in keywords for at in self.keywords.get(keyword, ()))
        return _joined(((at, at + behind) for at in places), before)


def _joined(spans: Iterable[Span], before: int = 72) -> list[Span]:
    """The spans with a margin on both sides, in order; those that overlap become one."""
    parts: list[Span] = []
    for start, end in spans:
        begin = max(0, start - before)
        if parts and begin <= parts[-1][1]:
            begin, _ = parts.pop()
        parts.append((begin, end + 24))
    return parts


def count_digits(text: str) -> int:
    """The number of digits in a text."""
    return sum(map(str.isdigit, text))


@dataclass(frozen=True, slots=True)
class Rule:
    """How one form of personal data or of a secret is recognised, and what replaces it; the module explains the
    fields."""

    id: str
    kind: str
    group: Group
    placeholder: str
    keywords: tuple[str, ...] = ()
    near: tuple[int, ...] = ()
    digits: bool = False
    within: str = "whole"
    pattern: re.Pattern[str] | None = None
    check: Callable[[str], bool] | None = None
    context: Callable[[re.Match[str]], bool] | None = None
    search: Callable[[Rule, SearchText, bool], Iterator[Span]] | None = None
    report: bool = True
    mask: Literal["item", "checked", "form"] = "item"
    contact: bool = False

    def find(self, text: SearchText, masks: bool = False) -> Iterator[Span]:
        """The places of all items in a text; with `masks`, of what is masked."""
        if self.search is not None:
            yield from self.search(self, text, masks)
        check = None if masks and self.mask == "form" else self.check
        context = None if masks and self.mask != "item" else self.context
        for match in self.matches(text):
            item = "value" if "value" in match.re.groupindex else 0
            if (check is None or check(match[item])) and (context is None or context(match)):
                yield match.span(item)

    def matches(self, text: SearchText) -> Iterator[re.Match[str]]:
        """The matches of the pattern, unchecked."""
        if self.pattern is None:
            return
        parts: list[Span] = text.around(self.keywords, self.near) if self.near else getattr(text, self.within)
        for start, end in parts:
            if not self.digits or _DIGITS.search(text.text, start, end):
                yield from self.pattern.finditer(text.text, start, end)


def load(functions: Mapping[str, Any]) -> tuple[Rule, ...]:
    """All rules, in order of their rank. `functions` are those that the rules name. Raises KeyError for a name that
    does not exist, TypeError for an unknown field, and re.error for a pattern that cannot be read."""
    rules: list[Rule] = []
    for group in ("secret", "personal"):
        for row in data("secrets" if group == "secret" else "personal")["rules"]:
            fields = {name: value for name, value in row.items() if name not in ("description", "matches", "misses")}
            entropy, check = fields.pop("entropy", None), fields.get("check", "")
            if check.startswith("stdnum "):
                fields["check"] = partial(functions["is_stdnum"], modules=check.removeprefix("stdnum "))
            elif check or entropy:
                function = functions[check or "is_random"]
                fields["check"] = partial(function, bits=entropy) if entropy else function
            if "pattern" in fields:
                fields["pattern"] = re.compile(filled(fields["pattern"]))
            for name in ("context", "search"):
                if name in fields:
                    fields[name] = functions[fields[name]]
            for name in ("keywords", "near"):
                fields[name] = tuple(fields.get(name, ()))
            kind = fields.pop("kind", row["id"])
            rules.append(Rule(**{"kind": kind, "group": group, "placeholder": f"[{kind}]", **fields}))
    return tuple(rules)


@cache
def _keyword_search() -> tuple[dict[str, list[str]], re.Pattern[str], list[tuple[str, str]]]:
    """Returns three things. For each keyword that begins a word: the keywords that are a prefix of it. The pattern that
    finds the longest such keyword at each word. The other keywords, each with the text that `in` looks for.

    The alternatives of the pattern share their prefixes, as in a trie: one search is faster than one for each keyword.
    """
    rows = [*data("secrets")["rules"], *data("personal")["rules"]]
    keywords = sorted({keyword for row in rows for keyword in row.get("keywords", ())})
    first = [keyword for keyword in keywords if keyword[0].isalpha()]
    root: dict[str, Any] = {}
    for keyword in first:
        node = root
        for character in keyword:
            node = node.setdefault(character, {})
        node[""] = {}
    beginnings = {keyword: [k for k in first if keyword.startswith(k)] for keyword in first}
    inside = [(keyword, keyword.removeprefix("*")) for keyword in keywords if not keyword[0].isalpha()]
    return beginnings, re.compile(rf"[{_NO_LETTER}](?=({_alternatives(root)}))"), inside


def _alternatives(node: Mapping[str, Any]) -> str:
    rests = [re.escape(character) + _alternatives(node[character]) for character in sorted(node) if character]
    if not rests:
        return ""
    joined = rests[0] if len(rests) == 1 and "" not in node else f"(?:{'|'.join(rests)})"
    return f"{joined}?" if "" in node else joined
