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
    episodes: list[Episode] = []
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
                episodes.append(Episode(firing, at))
                since = firing = over = None
    if firing is not None:
        episodes.append(Episode(firing, times[-1]))
    return episodes


def merged(several: Iterable[Episode]) -> list[Episode]:
    """Episodes that overlap made one: a pager groups the alerts of an application."""
    episodes: list[Episode] = []
    for episode in sorted(several, key=lambda e: e.start):
        if episodes and episode.start <= episodes[-1].end:
            episodes[-1] = Episode(episodes[-1].start, max(episodes[-1].end, episode.end))
        else:
            episodes.append(episode)
    return episodes
