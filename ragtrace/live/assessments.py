"""What an application passes on of its answers: its own scores, and what its users said."""

import re

from ragtrace.capture.adapters import number
from ragtrace.live.runtime import current
from ragtrace.records import Feedback, Score, bounded
from ragtrace.text.sanitizer import sendable

_TRACE_ID = re.compile(r"[0-9a-f]{32}\Z")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9_]+")
_NAME = 100
"""Characters of a score's name."""
_THUMBS: dict[object, int] = {"up": 1, "down": -1, 1: 1, 0: 0, -1: -1}


def score(
    trace_id: str | int, name: str, value: float | None, label: str | None = None, explanation: str | None = None
) -> bool:
    """Give a request a score of the application's own; True if it was taken.

    It goes out as an evaluator's score does: on the root span where that has not left, else on a linked span, as an
    event, in the metrics and in the store, whose first score of a name counts. `trace_id` is the request's, as 32
    hexadecimal digits or as a number (`request.trace_id`, or that of the current span). `name` is one of few:
    lower-case letters, digits and underscores; others become underscores. `value` is a finite number, True or False,
    or None with a `label`, e.g. "pass". `explanation` leaves the process only where content may.

    False for an invalid trace id, name or value, without `init`, and where too many wait. Never blocks, never raises.
    """
    try:
        runtime, own, amount = current(), trace_id_of(trace_id), _number(value)
        title = _NOT_IN_NAMES.sub("_", str(name).strip().lower())[:_NAME] if isinstance(name, str) else ""
        word = None if label is None else str(label)
        if runtime is None or not own or not title.strip("_") or (amount is None and not word):
            return False
        if value is not None and amount is None:
            return False
        text = None if explanation is None else str(explanation)
        return runtime.score(int(own, 16), bounded(Score(title, amount, word, text)))
    except Exception:  # noqa: BLE001 the application's thread, and whatever it gives
        return False


def feedback(
    trace_id: str | int,
    *,
    thumbs: int | bool | str | None = None,
    score: float | None = None,
    category: str | None = None,
    comment: str | None = None,
    source: str | None = None,
) -> bool:
    """Tell what a user said of an answer; True if somebody took it.

    `trace_id` is the request's, as 32 hexadecimal digits or as a number; its trace may be stored later. `thumbs` is 1,
    True or "up", -1, False or "down", or 0. `score` is a finite number on a scale of yours, e.g. 1 to 5. `category` is
    one of few words for what was said, e.g. "outdated". `source` says who asked the user, e.g. "widget". Bad thumbs
    bring the log to review. Without a store, thumbs and scores are a score `user_feedback` of the request.

    False for an invalid trace id, for feedback that says nothing, and without `init`. Never blocks and never raises,
    whatever it is given."""
    try:
        runtime, own = current(), trace_id_of(trace_id)
        message = Feedback(
            own, (1 if thumbs else -1) if isinstance(thumbs, bool) else _THUMBS.get(thumbs), _words(comment),
            _words(source), score=_number(score), category=_words(category),
        )  # fmt: skip
        says_something = any(part is not None for part in (message.thumbs, message.score, message.category))
        if runtime is None or not own or not (says_something or message.comment):
            return False
        return runtime.feedback(message)
    except Exception:  # noqa: BLE001 as above
        return False


def trace_id_of(value: object) -> str:
    """A trace id as 32 hexadecimal digits in lower case; empty for one that is invalid."""
    if isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:032x}"
    else:
        text = value.strip().lower() if isinstance(value, str) else ""
    return text if _TRACE_ID.match(text) and text.strip("0") else ""


def _number(value: object) -> float | None:
    amount = number(float(value) if isinstance(value, bool) else value)
    return amount if amount is None or abs(amount) < 1e100 else None  # sums of them must stay finite


def _words(value: object) -> str | None:
    text = "" if value is None else sendable(value).strip()
    return text or None
