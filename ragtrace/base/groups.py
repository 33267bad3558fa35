"""Divides a sequence into groups of a bounded size."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def groups_of(items: Iterable[T], size: Callable[[T], int], room: int, most: float = math.inf) -> Iterator[list[T]]:
    """The items in their order, in groups: none has more than `most` items, and their sizes add up to at most `room`.
    An item that is larger than `room` is a group of its own."""
    group: list[T] = []
    used = 0
    for item in items:
        own = size(item)
        if group and (used + own > room or len(group) >= most):
            yield group
            group, used = [], 0
        group.append(item)
        used += own
    if group:
        yield group
