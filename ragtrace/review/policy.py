"""Which logs people look at: the shares of the daily quota, and why each log was picked."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragtrace.errors import SettingError

RANDOM = "random"
"""Drawn: every stored trace of its time had the same chance."""
CERTAIN = ("alert", "feedback", "disagreement", "threshold", "worst")
"""Picked by rules that look at nothing but the traces, their scores and what users said; never at what was drawn."""
TOPIC, IMPORTED, REQUESTED = "topic", "imported", "requested"
REASONS = ("alert", "feedback", RANDOM, "disagreement", "threshold", "worst", TOPIC, REQUESTED, IMPORTED)
"""Why a log waits for review: an alert named its evaluator · a user was not content · drawn · one evaluator fails what
a related one passes · near an evaluator's threshold · worst · unlike what was reviewed · somebody asked · labelled
elsewhere."""

RELATED: tuple[frozenset[str], ...] = (
    frozenset(
        f"{name}{form}"
        for name in ("faithfulness", "groundedness", "hallucination", "context_contradiction")
        for form in ("", "_judge", "_cascade", "_cosine", "_cross_encoder")
    ),
    frozenset({"answer_relevance", "answer_relevancy_questions", "answer_relevancy_statements"}),
    frozenset({"context_relevancy", "context_relevancy_recall", "context_relevancy_cascade"}),
    frozenset({"answer_correctness", "answer_correctness_judge", "answer_correctness_cascade", "answer_similarity"}),
    frozenset({"fairness_bias", "fairness_bias_judge", "fairness_bias_cascade", "sexism", "stereotypes"}),
    frozenset({"language_mismatch", "language_mismatch_judge"}),
    frozenset({"toxicity", "critic_toxic", "critic_hateful"}),
)
"""Evaluators that ask the same question: one that fails what another one passes is in doubt."""

_RULES = ("worst", "threshold", "disagreement", "topics", "feedback")


@dataclass(frozen=True, slots=True)
class Policy:
    """How many logs come to review, and which. Shares are parts of the quota; what they leave of it stays free."""

    quota: int = 50
    """Logs that are new in the queue each day (UTC). Second reviews and alerts come on top."""
    random: float = 0.2
    """Drawn uniformly from all that is stored: what agreement is estimated from. It may take more than its part of the
    quota on the first day, and after a day with much less traffic."""
    worst: float = 0.25
    threshold: float = 0.15
    """Near an evaluator's threshold, where verdicts tell most about it."""
    disagreement: float = 0.15
    topics: float = 0.15
    """Questions unlike those that were reviewed."""
    feedback: float = 0.1
    """Of which a user said that they were bad."""
    double: float = 0.1
    """Share of all logs in the queue that two people review, for agreement between reviewers."""
    days: float = 7.0
    """Rules look at what was stored that long ago at most."""
    band: float = 0.1
    """How far from its threshold a value is near it, as a part of the evaluator's usual span of 1."""
    window: float = 3600.0
    """Seconds of traffic that are drawn from together, at least."""
    evaluators: tuple[str, ...] = ()
    """Those whose scores pick logs; empty for all."""
    related: tuple[frozenset[str], ...] = RELATED

    def __post_init__(self) -> None:
        """Raises SettingError for what cannot be."""
        if isinstance(self.quota, bool) or not isinstance(self.quota, int) or not 0 <= self.quota <= 1_000_000:
            raise SettingError(f"review quota is {self.quota!r}; give a whole number of logs a day, up to 1000000")
        for name in (RANDOM, *_RULES, "double", "band"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
                raise SettingError(f"review share {name} is {value!r}; give a number from 0 to 1")
        total = self.random + sum(getattr(self, name) for name in _RULES)
        if total > 1.0 + 1e-9:
            raise SettingError(f"the review shares add up to {total:.4g}; together they may be 1 at most")
        for name, least in (("days", 1e-6), ("window", 0.0)):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and least <= value < math.inf):
                raise SettingError(f"review {name} is {value!r}; give a number of at least {least:g}")

    def allowed(self, now: float) -> Mapping[str, int]:
        """How many logs each rule may have picked today by `now`: half at once, the rest as the day goes on, so that
        what happens in the afternoon has its place."""
        part = 0.5 + 0.5 * (now % 86_400 / 86_400)
        shares = {"topic" if name == "topics" else name: getattr(self, name) for name in _RULES}
        return {reason: math.ceil(self.quota * share * part - 1e-9) for reason, share in shares.items()}


_NUMBERS = ("quota", RANDOM, *_RULES, "double", "days", "band", "window")


def in_force(environ: Mapping[str, str] | None = None) -> Policy:
    """The policy that the environment says: RAGTRACE_CONSOLE_REVIEW_<NAME> for each number of `Policy`, e.g.
    RAGTRACE_CONSOLE_REVIEW_QUOTA=100. Raises SettingError as `Policy` does, and for what is no number."""
    given = os.environ if environ is None else environ
    found: dict[str, Any] = {}
    for name in _NUMBERS:
        key = f"RAGTRACE_CONSOLE_REVIEW_{name.upper()}"
        if given.get(key):
            try:
                found[name] = int(given[key]) if name == "quota" else float(given[key])
            except ValueError:
                raise SettingError(f"{key} is {given[key]!r}; give a number") from None
    return Policy(**found)


def draw(trace_id: str, purpose: str) -> float:
    """A number in [0, 1) that belongs to a trace for good ("permanent random number"): uniform over traces, independent
    between purposes, and of the bits by which the trace was sampled."""
    digest = hashlib.blake2b(trace_id.encode(), digest_size=8, person=purpose.encode()[:16]).digest()
    return int.from_bytes(digest, "big") / 2**64
