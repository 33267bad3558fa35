"""Adds up the metrics of several processes. Sums are exact and rounded once: however the processes are grouped, in
whatever order they come, a total never falls because a process ended. Prometheus would take that for a restart of its
counter, and add the whole total again."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest

from prometheus_client.samples import Exemplar

from ragtrace_prometheus.families import Family

Snapshot = Sequence[Family]
"""The metrics of one process, or of several that ended."""


def merge(snapshots: Iterable[Snapshot]) -> list[Family]:
    """One family of each name, in the order in which they come. A family that another release wrote, of another type or
    with other labels, is left out."""
    groups: dict[str, list[Family]] = {}
    for family in chain.from_iterable(snapshots):
        group = groups.setdefault(family.name, [])
        if not group or (group[0].type, group[0].labels) == (family.type, family.labels):
            group.append(family)
    return [_total(group) for group in groups.values()]


def compact(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """As few snapshots as have exactly the same sum. The first has every series with its rounded sum; the others have
    the digits that one float does not hold."""
    summands: list[Snapshot] = list(snapshots)
    total, totals = merge(summands), list[Snapshot]()
    while total or not totals:
        totals.append(total)
        summands.append([family.replaced(family.keys, [-value for value in family.values]) for family in total])
        rests = [(family, list(map(_finite, family.values))) for family in merge(summands) if family.merge == "sum"]
        total = [family.replaced(family.keys, values) for family, values in rests if any(values)]
    return totals


def _finite(value: float) -> float:
    """The rest of a sum; infinity and NaN have none."""
    return value if math.isfinite(value) else 0.0


def _total(group: Sequence[Family]) -> Family:
    first, width = group[0], len(group[0].lines)
    same = all(family.keys == first.keys for family in group)  # the usual case, which needs no search
    keys = first.keys if same else list(dict.fromkeys(key for family in group for key in family.keys))
    places = {} if same else {key: i * width for i, key in enumerate(keys)}
    exemplars: dict[int, Exemplar] = {}
    rows: list[Sequence[float]] = []
    for family in (each if each.bounds == first.bounds else _rebucketed(each, first) for each in group):
        row = family.values
        if not same:
            row = [0.0] * (len(keys) * width)
            for i, key in enumerate(family.keys):
                row[places[key] : places[key] + width] = family.values[i * width : (i + 1) * width]
        rows.append(row)
        for place, exemplar in family.exemplars.items():
            target = place if same else places[family.keys[place // width]] + place % width
            if target not in exemplars or exemplars[target].timestamp < exemplar.timestamp:  # type: ignore[operator]
                exemplars[target] = exemplar
    add = _sum if first.merge == "sum" else max
    return first.replaced(keys, [add(column) for column in zip_longest(*rows, fillvalue=0.0)], exemplars)


def _rebucketed(family: Family, target: Family) -> Family:
    """The histogram under the bounds of another threshold: a count moves to the next bound above."""
    places = [bisect_right(family.bounds, bound) - 1 for bound in target.bounds]
    width, has_sum = len(family.lines), len(family.lines) > len(family.bounds) + 1
    values: list[float] = []
    for first in range(0, len(family.values), width):
        counts = [family.values[first + place] if place >= 0 else 0.0 for place in places]
        total = family.values[first + width - 1] if has_sum else 0.0
        values += [*counts, counts[-1], total][: len(target.lines)]
    exemplars = {
        place // width * len(target.lines) + bisect_left(target.bounds, family.bounds[place % width]): exemplar
        for place, exemplar in family.exemplars.items()
    }
    return target.replaced(family.keys, values, exemplars)


def _sum(values: Iterable[float]) -> float:
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # beyond what a float holds; infinity less infinity
        return math.inf
