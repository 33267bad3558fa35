"""How one kind of personal data or secret is described: by a pattern and a check, or by a search of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from ragtrace.text.item_checks import is_random
from ragtrace.text.item_search import SearchText, Span

Group = Literal["personal", "secret"]
Parts = Literal["whole", "long_words", "numbers", "values", "addresses", "accounts"]


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of personal data or secret is recognised, and what replaces it."""

    group: Group
    name: str
    placeholder: str
    pattern: re.Pattern[str] | None = None
    """Its group `value` is the item; without one the whole match is."""
    check: Callable[[str], bool] | None = None
    """Whether a text that has the form is of this kind (by its check digit, for example)."""
    context: Callable[[str, int, int], bool] | None = None
    """Whether the text around the place from the second to the third argument allows this kind."""
    search: Callable[[SearchText], Iterator[Span]] | None = None
    """Finds the items where pattern and check cannot."""
    marks: tuple[str, ...] = ()
    """Substrings: a text without any of them has no item, so the pattern is not tried."""
    parts: Parts = "whole"
    """The parts of the text that can hold an item."""
    reported: bool = True
    """False for a wider form that is only masked: a mask hides rather too much than too little."""
    masked: bool = True
    """False where another row masks every item of this one with less work."""
    contact: bool = False
    """Whether a person can be reached by it."""

    def find(self, text: SearchText) -> Iterator[Span]:
        """The places of all items in a text."""
        if self.search is not None:
            yield from self.search(text)
        if self.pattern is None or (self.marks and not any(mark in text.text for mark in self.marks)):
            return
        parts: list[Span] = getattr(text, self.parts)
        for start, end in parts:
            for match in self.pattern.finditer(text.text, start, end):
                group = self.pattern.groupindex.get("value", 0)
                if (self.check is None or self.check(match[group])) and (
                    self.context is None or self.context(text.text, *match.span(group))
                ):
                    yield match.span(group)


def secret(
    name: str,
    pattern: str,
    check: Callable[[str], bool] | float | None = None,
    marks: str = "",
    placeholder: str = "[api_key]",
    **more: Any,
) -> Kind:
    """A secret with a pattern. A number for `check` is the entropy that an item needs, in bits a character; `marks` are
    separated by blanks."""
    checks = partial(is_random, bits=check) if isinstance(check, float) else check
    words = tuple(marks.split(" ")) if marks else ()
    return Kind("secret", name, placeholder, re.compile(pattern), checks, marks=words, **more)


def personal(
    name: str,
    pattern: str,
    check: Callable[[str], bool] | None,
    parts: Parts,
    placeholder: str = "[number]",
    **more: Any,
) -> Kind:
    """A kind of personal data with a pattern."""
    return Kind("personal", name, placeholder, re.compile(pattern), check, parts=parts, **more)
