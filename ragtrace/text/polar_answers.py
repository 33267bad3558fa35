"""What a bare "Yes." or "No." claims: the question that it answers, affirmed or denied."""

from __future__ import annotations

import re
from typing import NamedTuple

_READ = 400
"""Characters of a question that are read."""
_QUESTION = re.compile(
    r"\W*(?:is|are|was|were|do|does|did|can|could|may|must|should|will|would|has|have|am)(?: not|n't)? (?P<rest>[^?]+)\?\s*\Z",
    re.I,
)
_BARE = re.compile(r"\W*(?P<word>yes|no)\W*\Z", re.I)
_SPEAKER = re.compile(r"\b(?:i|we)\b", re.I)
_OWN = re.compile(r"\b(?:my|our)\b", re.I)


class PolarClaims(NamedTuple):
    """A question as two sentences of which one is true."""

    affirmed: str
    denied: str


def is_yes(statement: str) -> bool | None:
    """Whether a statement is a bare "Yes." (True) or "No." (False); None for any other."""
    match = _BARE.match(statement)
    return match["word"].lower() == "yes" if match else None


def polar_claims(query: str) -> PolarClaims | None:
    """What "Yes." and "No." claim as an answer to this question; None where it has no such answer."""
    match = _QUESTION.match(query[:_READ])
    if match is None or "\n" in query.strip() or " or " in match["rest"]:
        return None
    rest = _OWN.sub("your", _SPEAKER.sub("you", match["rest"])).strip()
    return PolarClaims(f"Yes, {rest}.", f"It is not the case that {rest}.")
