"""The state of a list of traces as its address holds it: what is searched, filtered, and in which order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from ragtrace.chatlogs.records import Filter

TEXTS = (
    "app", "env", "model", "prompt_version", "session_id", "user_id", "cause", "evaluator", "version", "label",
)  # fmt: skip
RANGES = {"1h": 3_600.0, "24h": 86_400.0, "7d": 7 * 86_400.0, "30d": 30 * 86_400.0, "90d": 90 * 86_400.0}
RANGE_NAMES = (
    ("1h", "last hour"), ("24h", "last 24 hours"), ("7d", "last 7 days"), ("30d", "last 30 days"),
    ("90d", "last 90 days"),
)  # fmt: skip
_LONGEST = 500
_NAMES = {
    "q": "text", "prompt_version": "prompt", "session_id": "session", "user_id": "user", "low": "score ≥",
    "high": "score ≤", "range": "time", "since": "from", "until": "to", "thumbs": "feedback",
}  # fmt: skip
_RARE = frozenset(
    {"thumbs", "reviewed", "errors", "env", "version", "low", "high", "session_id", "user_id", "since", "until"}
)
_ABOUT = frozenset({"label", "version", "low", "high"})
_THUMBS = {"1": 1, "0": 0, "-1": -1}
_YES = {"yes": True, "no": False}
_TOLD = {("thumbs", "1"): "helpful", ("thumbs", "0"): "neutral", ("thumbs", "-1"): "not helpful"}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What an address asks for. What makes no sense in it is left out, so that any address shows a page."""

    values: Mapping[str, str]
    """By name, as they stand in the address; without paging."""
    filter: Filter
    order: str
    after: str | None

    @property
    def query(self) -> str:
        """The address's query, as a saved view keeps it."""
        return urlencode(self.values)

    @property
    def rare(self) -> bool:
        """Whether one of the filters is set that are folded away."""
        return not _RARE.isdisjoint(self.values)

    def next(self, after: str) -> str:
        """The query of the next page."""
        return urlencode({**self.values, "after": after})

    def chips(self) -> list[tuple[str, str, str]]:
        """(name, value, the query without it) of every filter that is set."""
        ranges = dict(RANGE_NAMES)
        found = []
        for name, value in self.values.items():
            if name == "order":
                continue
            told = _TOLD.get((name, value), ranges.get(value, value))
            rest = urlencode({k: v for k, v in self.values.items() if k != name})
            found.append((_NAMES.get(name, name), told, rest))
        return found


def chosen(query: Mapping[str, str], now: float, evaluator: str = "") -> Chosen:
    """Read an address's query at a Unix time; `evaluator` is meant where one is needed and none is named."""
    given = {name: value.strip()[:_LONGEST] for name, value in query.items() if value.strip()}
    if "evaluator" not in given and (given.get("order") == "worst" or not _ABOUT.isdisjoint(given)):
        given["evaluator"] = evaluator
    values: dict[str, str] = {}
    asked = Filter()
    if text := given.get("q"):
        values["q"], asked = text, replace(asked, text=text)
    for name in TEXTS:
        if value := given.get(name):
            changed: dict[str, Any] = {name: value}
            values[name], asked = value, replace(asked, **changed)
    if (length := RANGES.get(given.get("range", ""))) is not None:
        values["range"], asked = given["range"], replace(asked, since=now - length)
    asked = _bounds(asked, given, values)
    if given.get("order") == "worst" and asked.evaluator:
        values["order"] = "worst"
    return Chosen(values, asked, values.get("order", "newest"), given.get("after"))


def _bounds(asked: Filter, given: Mapping[str, str], values: dict[str, str]) -> Filter:
    found: dict[str, Any] = {}
    for name in ("since", "until"):
        if (time := _time(given.get(name, ""))) is not None:
            found[name] = time
    for name in ("low", "high"):
        if (number := _number(given.get(name, ""))) is not None:
            found[name] = number
    for name, known in (("thumbs", _THUMBS), ("reviewed", _YES), ("errors", _YES)):
        if given.get(name, "") in known:
            found[name] = known[given[name]]
    values.update({name: given[name] for name in found})
    return replace(asked, **found)


def _time(text: str) -> float | None:
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
