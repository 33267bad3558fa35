"""The state of a list of traces as its address holds it: what is searched, filtered, and in which order."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import select

from ragtrace.console.chatlogs.schema import traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Filter

TEXTS = (
    "app", "env", "model", "prompt_version", "tenant", "session_id", "user_id", "cause", "topic", "evaluator",
    "version", "label",
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
_RARE = frozenset((
    "topic", "thumbs", "reviewed", "errors", "env", "version", "low", "high", "tenant", "session_id", "user_id",
    "since", "until",
))  # fmt: skip
_ABOUT = frozenset({"label", "version", "low", "high"})
_WORDS = {("thumbs", "1"): "helpful", ("thumbs", "0"): "neutral", ("thumbs", "-1"): "not helpful"}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What an address asks for. What makes no sense in it is left out, so that any address shows a page."""

    values: Mapping[str, str]
    """By name, as they are in the address; without paging."""
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

    def chips(self, topics: Mapping[str, str]) -> list[tuple[str, str, str]]:
        """(name, value, the query without it) of every filter that is set. `topics` are names by id."""
        names = {"range": dict(RANGE_NAMES), "topic": topics}
        result = []
        for name, value in self.values.items():
            if name == "order":
                continue
            text = _WORDS.get((name, value), names.get(name, {}).get(value, value))
            rest = urlencode({k: v for k, v in self.values.items() if k != name})
            result.append((_NAMES.get(name, name), text, rest))
        return result


def chosen(query: Mapping[str, str], now: float, evaluator: str = "") -> Chosen:
    """Read an address's query at a Unix time; `evaluator` is meant where one is needed and none is named."""
    parameters = {name: value.strip()[:_LONGEST] for name, value in query.items() if value.strip()}
    if "evaluator" not in parameters and (parameters.get("order") == "worst" or not _ABOUT.isdisjoint(parameters)):
        parameters["evaluator"] = evaluator
    values: dict[str, str] = {}
    fields: dict[str, Any] = {}
    for name, read in _READERS.items():
        if (text := parameters.get(name)) and (value := read(text)) is not None:
            values[name], fields[_FIELDS.get(name, name)] = text, now - value if name == "range" else value
    if parameters.get("order") == "worst" and "evaluator" in fields:
        values["order"] = "worst"
    return Chosen(values, Filter(**fields), values.get("order", "newest"), parameters.get("after"))


def _time(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def range_or_default(name: str, store: Store, now: float) -> str:
    """The name of a range, if it is one; else that of the shortest range with every stored log, 7 days at most."""
    if name in RANGES:
        return name
    first = store.scalar(select(traces.c.started).order_by(traces.c.id).limit(1))
    return next((short for short in ("1h", "24h") if first is not None and now - first <= RANGES[short]), "7d")


def finite_number(text: str) -> float | None:
    """The number that a person typed; None if the text is not a finite number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


_FIELDS = {"q": "text", "range": "since"}
"""Names whose field of `Filter` has another one."""
_READERS: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("q", *TEXTS), str), "range": RANGES.get, **dict.fromkeys(("since", "until"), _time),
    **dict.fromkeys(("low", "high"), finite_number), "thumbs": {"1": 1, "0": 0, "-1": -1}.get,
    **dict.fromkeys(("reviewed", "errors"), {"yes": True, "no": False}.get),
}  # fmt: skip
"""How a text is read, None where it makes no sense. A start has precedence over a range."""
