"""When an alert fires, by Prometheus's own rules for `for` and `keep_firing_for`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence


@dataclasses.dataclass(frozen=True)
class Episode:
    """From the evaluation at which an alert began to fire to the one at which it was silent again."""

    start: float
    end: float


def episodes(times: Sequence[float], active: Iterable[float], wait: float, keep: float) -> list[Episode]:
    """When an alert fires whose expression holds at `active`, of all the `times` at which it was evaluated."""
    holding = set(active)
    if not holding:
        return []
    found: list[Episode] = []
    since: float | None = None
    firing: float | None = None
    over: float | None = None
    for at in times:
        if at in holding:
            since, over = (at if since is None else since), None
            if firing is None and at - since >= wait:
                firing = at
        elif firing is None:
            since = None
        else:
            over = at if over is None else over
            if at - over >= keep:
                found.append(Episode(firing, at))
                since = firing = over = None
    if firing is not None:
        found.append(Episode(firing, times[-1]))
    return found


def merged(several: Iterable[Episode]) -> list[Episode]:
    """Episodes that overlap made one: a pager groups the alerts of an application."""
    found: list[Episode] = []
    for episode in sorted(several, key=lambda e: e.start):
        if found and episode.start <= found[-1].end:
            found[-1] = Episode(found[-1].start, max(found[-1].end, episode.end))
        else:
            found.append(episode)
    return found
