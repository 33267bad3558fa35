"""Failures inside ragtrace while it records. The application never sees them; metrics and `flush` tell of them."""

from ragtrace.base.background import after_fork


class RecordingFailures:
    """Counts the failures of all recorders of this process."""

    def __init__(self) -> None:
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        self.count = 0


failures = RecordingFailures()
