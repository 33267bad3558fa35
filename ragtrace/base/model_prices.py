"""What a call of a model costs, by the setting `model_prices` or by litellm's list, where that is installed."""

from __future__ import annotations

import functools
import importlib.util
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

_LIST = "model_prices_and_context_window_backup.json"
_TIER = re.compile(r"input_cost_per_token(_above_(\d+)k_tokens)?")


class Price(NamedTuple):
    """US dollars for a million tokens."""

    input: float
    output: float
    cache_read: float
    cache_write: float


class ModelUsage(NamedTuple):
    """Tokens of the calls of one model; those of the input hold the cached ones. `cost` is in US dollars, None where
    the price of a call is not known."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None

    def plus(self, other: ModelUsage) -> ModelUsage:
        """The usage of both."""
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        read, write = self.cache_read + other.cache_read, self.cache_write + other.cache_write
        return ModelUsage(self.input + other.input, self.output + other.output, read, write, cost)


Tiers = list[tuple[int, Price]]  # each with the tokens of an input above which it counts, the longest first
_prices: Mapping[str, Tiers] = {}


def set_prices(own: Mapping[str, Price]) -> None:
    """Price calls from now on. `own` prices go before litellm's, whose list is read here: that takes 0.1 s."""
    global _prices  # noqa: PLW0603 one list per process, set by `ragtrace.init`
    _prices = _listed() | {name: [(-1, price)] for name, price in own.items()}


def usage_of(models: Iterable[object], input: int, output: int, cache_read: int, cache_write: int) -> ModelUsage:
    """The usage of one call. `models` are the names of its model; the first that has a price says what it costs."""
    tiers = next((_prices[model] for model in models if isinstance(model, str) and model in _prices), None)
    if tiers is None:
        return ModelUsage(input, output, cache_read, cache_write)
    price = next(price for above, price in tiers if input > above)
    fresh = max(0, input - cache_read - cache_write)
    counts = (fresh, output, cache_read, cache_write)
    cost = sum(count * dollars for count, dollars in zip(counts, price, strict=True)) / 1e6
    return ModelUsage(input, output, cache_read, cache_write, cost)


@functools.cache
def _listed() -> dict[str, Tiers]:
    """The prices in litellm's package, by its names of models. The package is not imported: that takes seconds."""
    package = importlib.util.find_spec("litellm")
    try:
        models = json.loads(Path(package.origin).with_name(_LIST).read_bytes())  # type: ignore[union-attr,arg-type]
        return {name: tiers for name, fields in models.items() if (tiers := _tiers(fields))}
    except (OSError, ValueError, AttributeError, TypeError):  # not installed, or a release with another list
        return {}


def _tiers(fields: Mapping[str, object]) -> Tiers:
    """The prices of a model in litellm's list; none for one that is not paid by tokens of text."""
    suffixes = {int(tier[2] or 0) * 1_000 or -1: tier[1] or "" for tier in map(_TIER.fullmatch, fields) if tier}
    prices = {above: _price_in(fields, suffixes[above]) for above in sorted(suffixes, reverse=True)}
    return [(above, price) for above, price in prices.items() if price] if prices.get(-1) else []


def _price_in(fields: Mapping[str, object], tier: str) -> Price | None:
    names = ("input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost")
    values = [fields.get(name + tier, fields.get(name)) for name in (*names, "cache_creation_input_token_cost")]
    numbers = [value * 1e6 if isinstance(value, (int, float)) else None for value in values]
    if numbers[0] is None or numbers[1] is None:
        return None
    return Price(*(numbers[0] if number is None else number for number in numbers))
