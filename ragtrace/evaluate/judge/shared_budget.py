"""One budget for the processes of many machines: in one key of a Redis server, changed by one script at a time.

The key is a hash with the sum of each window (`hour:START`, `day:START`) and the open reservations (`open:ID`). It is
one key on purpose: a budget in several keys would be several budgets. The server's clock decides which window it is and
which reservation has expired, so that the clocks of the processes may differ."""

import contextlib
import hashlib
import json
import logging
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urlsplit

from ragtrace.errors import SettingError, package
from ragtrace.evaluate.judge.budget import NANO, WINDOWS, BudgetError, Reservation, nano_limits, window_starts

Window = tuple[str, int]
"""The name of a window and its start in Unix time."""

_TIMEOUT = 2.0
"""Seconds for one call of the store. Evaluators wait for it, not the application."""
_RETRY = 5.0
"""Seconds between two tries while the store does not answer."""
_MARGIN = 10.0
"""Seconds that a reservation stays longer than its request may take: the way to the store and back."""
_log = logging.getLogger(__name__)

_SCRIPT = Path(__file__).with_name("shared_budget.lua")


class Unreachable(Exception):  # noqa: N818 it says what the store is
    """The store did not answer, or could not carry out the script."""


class SharedBudget:
    """The spending of all processes that name the same budget of the same server. Safe to use from many threads."""

    def __init__(self, url: str, *, hour: float, day: float, margin: float = _MARGIN, retry: float = _RETRY) -> None:
        """`url` is the address of a Redis server, with the budget's name as its fragment. `hour` and `day` are
        limits in US dollars. While the server does not answer, nothing may be spent. `margin` is the seconds that a
        reservation stays longer than its request may take, `retry` those between two tries while the server does
        not answer. Raises SettingError for another address, MissingExtraError without the package redis."""
        address, name = urldefrag(url)
        self._limits = {"hour": hour, "day": day}
        self._nano = nano_limits(self._limits)
        self._margin, self._retry = margin, retry
        parts = urlsplit(address)
        self._where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"  # without the password
        self._script = _connect(address)
        self._key = f"ragtrace:judge-budget:{name or 'judge'}"
        self._lock = threading.Lock()
        self._unsettled: list[dict[str, Any]] = []
        self._last_sums: dict[Window, int] = {}
        self._closed_until = 0.0
        self._is_away = False

    def reserve(self, nano: int, seconds: float, id: str) -> Reservation:
        """Set money aside for a request that ends within `seconds`; it returns by itself if it is not settled until
        shortly after that. A second reservation with the same id takes the place of the first. Raises BudgetError where
        a window has no room, or the store does not answer."""
        if not nano:
            return Reservation("", 0, ())
        id, owner = id or uuid.uuid4().hex, uuid.uuid4().hex
        entry = {"id": id, "owner": owner, "nano": nano, "seconds": seconds + self._margin}
        try:
            full, is_open, sums = self._ask(entry)
        except Unreachable:
            why = "cannot be asked for: the server of judge_ledger does not answer"
            raise BudgetError("hour", self._limits["hour"], may_pass=False, why=why) from None
        if full:
            limit = self._nano[full]
            raise BudgetError(full, self._limits[full], may_pass=is_open and limit is not None and nano <= limit)
        return Reservation(id, nano, tuple(sums), owner)

    def settle(self, reserved: Reservation, nano: int) -> None:
        """Put what a request really cost in the place of what was set aside for it. Without the store that is done
        with the next request that it answers."""
        if not reserved.id:
            return
        fields = [_field(window) for window in reserved.starts]
        with self._lock:
            self._unsettled.append({"id": reserved.id, "owner": reserved.owner, "cost": nano, "fields": fields})
        with contextlib.suppress(Unreachable):
            self._ask(None)

    def spent(self, window: str) -> float:
        """US dollars spent or set aside in the present `hour` or `day`, as far as this process knows."""
        try:
            _, _, sums = self._ask(None)
        except Unreachable:
            sums = {w: nano for w, nano in self._last_sums.items() if w[1] >= window_starts(time.time())[w[0]]}
        return sum(nano for (kind, _), nano in sums.items() if kind == window) / NANO

    def close(self) -> None:
        """Close the connections."""
        self._script.registered_client.close()

    def _ask(self, entry: Mapping[str, Any] | None) -> tuple[str, bool, dict[Window, int]]:
        """One call of the script, with all that the store does not know yet. Raises Unreachable."""
        if time.monotonic() < self._closed_until:
            raise Unreachable
        with self._lock:
            settlements, self._unsettled = self._unsettled, []
        request: dict[str, Any] = {
            "windows": [
                {"kind": kind, "seconds": length, "limit": -1 if self._nano[kind] is None else self._nano[kind]}
                for kind, length in WINDOWS.items()
            ],
            "seen": {_field(window): nano for window, nano in self._last_sums.items()},
            "settle": settlements,
        }
        if entry is not None:
            request["reserve"] = entry
        try:
            reply = self._call(request)
        except Unreachable:
            with self._lock:
                self._unsettled += settlements
            raise
        full, is_open, *figures = reply
        sums = {(kind, figures[2 * i]): figures[2 * i + 1] for i, kind in enumerate(WINDOWS)}
        self._last_sums = sums
        return full.decode(), is_open > 0, sums

    def _call(self, request: Mapping[str, Any]) -> list[Any]:
        import redis

        try:
            reply: list[Any] = self._script(keys=[self._key], args=[json.dumps(request)])
        except (redis.RedisError, OSError) as error:
            self._closed_until = time.monotonic() + self._retry
            if not self._is_away:
                self._is_away = True
                _log.warning(
                    "ragtrace: the judge's budget in %s cannot be used (%s); until it can, the judge is not asked",
                    self._where,
                    f"{type(error).__name__}: {error}"[:200],
                )
            raise Unreachable from error
        if self._is_away:
            self._is_away = False
            _log.info("ragtrace: the judge's budget in %s can be used again", self._where)
        return reply


def reservation_id(score_key: str, request: str) -> str:
    """The id of the reservation for one request of one score: the same when a worker evaluates a redelivered trace
    again. Empty without the key of a score, for an id that is never used again."""
    return hashlib.sha256(f"{score_key}\n{request}".encode()).hexdigest()[:32] if score_key else ""


def _connect(address: str) -> Any:
    redis = package("redis", "judge", "The setting judge_ledger")
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    try:
        # No retries of redis-py's own: a settlement that was carried out would count twice.
        client = redis.Redis.from_url(
            address, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT, retry=Retry(NoBackoff(), 0)
        )
    except ValueError as error:
        raise SettingError(f"judge_ledger is not an address that the package redis takes: {error}") from None
    return client.register_script(_SCRIPT.read_text("utf-8"))


def _field(window: Window) -> str:
    return f"{window[0]}:{window[1]}"
