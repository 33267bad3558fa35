"""Work that the console does regularly, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ragtrace.errors import MissingExtraError

_log = logging.getLogger(__name__)


class Regular:
    """Calls a function again and again: `with Regular("the review queue was not filled", fill): …`."""

    def __init__(self, failure: str, work: Callable[[], object], *, every: float = 60.0) -> None:
        """`failure` says in the log that the work failed; `every` is in seconds: a minute or an hour. A package that is
        missing ends it."""
        self._failure, self._call, self._every = failure, work, every
        self.stop = threading.Event()
        """Is set when the work is to end."""
        self._thread = threading.Thread(target=self._work, name="ragtrace-regular", daemon=True)

    def _work(self) -> None:
        is_logged = False
        while True:
            try:
                self._call()
                is_logged = False
            except MissingExtraError as error:
                _log.info("ragtrace: %s: %s", self._failure, error)
                return
            except Exception as error:  # noqa: BLE001 the database may answer again in a minute
                if not is_logged:
                    kind = type(error).__name__
                    often = "minute" if self._every <= 60 else "hour"
                    _log.warning("ragtrace: %s (%s). It is tried every %s.", self._failure, kind, often)
                is_logged = True
            if self.stop.wait(self._every):
                return

    def __enter__(self) -> Regular:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join(5.0)
