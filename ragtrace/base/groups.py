"""Groups of a sequence that have room."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def groups_of(items: Iterable[T], size: Callable[[T], int], room: int, most: float = math.inf) -> Iterator[list[T]]:
    """The items in groups, in their order: each of at most `most` items and `room` by `size`; an item that is larger is
    a group alone."""
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
