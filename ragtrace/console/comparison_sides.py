"""Chooses the two sides of stored requests that the console's page and route `compare` pass to
`ragtrace.console.chatlogs.side_by_side`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from ragtrace.console.chatlogs.side_by_side import Side, evaluator_versions, names_in_use
from ragtrace.console.chatlogs.store import Store
from ragtrace.errors import SettingError

Kind = Literal["prompt_version", "model", "evaluator_version", "period"]
KINDS: tuple[tuple[Kind, str], ...] = (
    ("prompt_version", "prompt versions"), ("model", "models"), ("period", "periods"),
    ("evaluator_version", "evaluator versions"),
)  # fmt: skip
FEW = 10
"""Requests of a side below which a comparison says little."""


@dataclass(frozen=True, slots=True)
class SideChoice:
    """What is compared, before names are known to exist."""

    kind: Kind
    a: str
    b: str
    """Names; for periods when each begins, as ISO 8601 or in Unix seconds. Empty for a default."""
    since: float
    until: float
    """The period of both sides; for two periods, B by default, and the length of both."""
    app: str
    evaluator: str


def choices(store: Store, choice: SideChoice) -> dict[str, int]:
    """The names that the sides can have, in the order in which they came, and the number of stored requests of each,
    where it is known (else `FEW`); empty for periods."""
    if choice.kind == "period":
        return {}
    if choice.kind == "evaluator_version":
        return dict.fromkeys(evaluator_versions(store, choice.evaluator), FEW)
    return names_in_use(store, choice.kind, choice.since, choice.until, choice.app)


def with_defaults(choice: SideChoice, names: Mapping[str, int]) -> SideChoice:
    """The last two names, and the period before the last, in the place of what is empty. Names with fewer than `FEW`
    requests come last: a version that was tried once is not what people want to see."""
    if choice.kind == "period":
        length = choice.until - choice.since
        return replace(choice, a=choice.a or str(choice.since - length), b=choice.b or str(choice.since))
    reverse = list(names)[::-1]
    newest = [name for name in reverse if names[name] >= FEW] + [name for name in reverse if names[name] < FEW]
    b = choice.b or next((name for name in newest if name != choice.a), "")
    return replace(choice, b=b, a=choice.a or next((name for name in newest if name != b), ""))


def two_sides(choice: SideChoice) -> tuple[Side, Side]:
    """The sides of a choice without anything empty. Raises SettingError where both are the same, one is empty, or a
    time cannot be read."""
    if not choice.a or not choice.b or choice.a == choice.b:
        raise SettingError(f"the sides are {choice.a[:100]!r} and {choice.b[:100]!r}: name two different ones")
    if not choice.since < choice.until:
        raise SettingError(f"the period ends before it begins: since is {choice.since!r}, until is {choice.until!r}")
    if choice.kind == "period":
        length = choice.until - choice.since
        return _period(choice, parse_start(choice.a), length), _period(choice, parse_start(choice.b), length)
    names = {"prompt_version": "prompt {}", "model": "{}", "evaluator_version": "version {}"}
    sides = [
        Side(names[choice.kind].format(name), choice.since, choice.until, choice.app, **{choice.kind: name})
        for name in (choice.a, choice.b)
    ]
    return sides[0], sides[1]


def _period(choice: SideChoice, start: float, length: float) -> Side:
    first, last = (datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M") for time in (start, start + length))
    return Side(f"{first} to {last}", start, start + length, choice.app)


def parse_start(text: str) -> float:
    """The Unix time of a text: seconds, or ISO 8601 in UTC unless it names a zone. Raises SettingError for others."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            date = datetime.fromisoformat(text)
        except ValueError:
            raise SettingError(
                f"{text[:60]!r} is no time: give a date like 2026-01-31T12:00, or Unix seconds"
            ) from None
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if not 0 <= seconds < 4e9:
        raise SettingError(f"the period begins at {text[:60]!r}: give a time between 1970 and 2096")
    return seconds
