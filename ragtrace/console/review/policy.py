"""The review policy: the shares of the daily quota, and the reasons for which a log is picked."""

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragtrace.errors import SettingError
from ragtrace.settings.section import Section

RANDOM = "random"
"""Drawn at random, each trace with a known probability; see `ragtrace.console.review.fill_queue`."""
CERTAIN = ("alert", "feedback", "disagreement", "threshold", "worst")
"""Picked by rules that depend on traces, scores and user feedback only, never on the random draw."""
TOPIC, IMPORTED, REQUESTED, CONFLICT = "topic", "imported", "requested", "conflict"
REASONS = ("alert", "feedback", RANDOM, "disagreement", "threshold", "worst", TOPIC, REQUESTED, IMPORTED, CONFLICT)
"""Why a log is in the review queue: an alert named its evaluator · a user rejected the answer · random draw · an
evaluator fails what a related one passes · near an evaluator's threshold · worst scores · unlike all reviewed questions
· somebody requested it · labelled elsewhere · two
reviewers contradict each other."""

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
"""Evaluators that ask the same question: if one fails what another passes, the log is worth a review."""

SHARES: Mapping[str, float] = {
    RANDOM: 0.4, "worst": 0.15, "threshold": 0.1, "disagreement": 0.1, TOPIC: 0.15, "feedback": 0.1,
}  # fmt: skip
"""The default of `Policy.shares`."""
DAYS = 7.0
"""Rules pick from what was stored in these last days."""
BAND = 0.1
"""Largest distance from the threshold that counts as near, for an evaluator with values from 0 to 1."""
WINDOW = 3_600.0
"""Shortest period in seconds whose traces are drawn from together."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How many logs come to review, and which."""

    quota: int = 50
    """New logs in the queue each day (UTC). Second reviews and alerts are not included."""
    shares: Mapping[str, float] = field(default_factory=lambda: dict(SHARES))
    """Parts of the quota by reason, one of `SHARES`; a reason that is missing picks nothing, an unused part stays
    unused. `random` is drawn from all stored traces, the basis of estimates for the whole traffic. It may exceed its
    part on the first day, and after a day with much less traffic."""
    double: float = 0.1
    """Share of all logs in the queue that two people review, to measure agreement between reviewers."""
    evaluators: tuple[str, ...] = ()
    """Evaluators whose scores pick logs; empty for all."""

    def __post_init__(self) -> None:
        """Raises SettingError for invalid values."""
        if isinstance(self.quota, bool) or not isinstance(self.quota, int) or not 0 <= self.quota <= 1_000_000:
            raise SettingError(f"review quota is {self.quota!r}; give a whole number of logs a day, 0 to 1000000")
        for name, value in (*self.shares.items(), ("double", self.double)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
                raise SettingError(f"review share {name} is {value!r}; give a number from 0 to 1")
        for name in set(self.shares).difference(SHARES):
            raise SettingError(f"review shares has {name!r}; give {', '.join(SHARES)}")
        total = sum(self.shares.values())
        if total > 1.0 + 1e-9:
            raise SettingError(f"the review shares add up to {total:.4g}; their sum may be at most 1")

    def allowed(self, now: float) -> Mapping[str, int]:
        """How many logs each rule may have picked today by `now`: half of its share at once, the rest evenly over the
        day, so that logs of the afternoon have their part."""
        part = 0.5 + 0.5 * (now % 86_400 / 86_400)
        rules = {reason: share for reason, share in self.shares.items() if reason != RANDOM}
        return {reason: math.ceil(self.quota * share * part - 1e-9) for reason, share in rules.items()}


_SECTION = Section(Policy, table="review", prefix="RAGTRACE_CONSOLE_REVIEW_")


def load_policy(
    arguments: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    file: str | os.PathLike[str] | None = None,
) -> Policy:
    """Loads the policy from arguments, from the environment (RAGTRACE_CONSOLE_REVIEW_<NAME>, e.g.
    RAGTRACE_CONSOLE_REVIEW_QUOTA=100) and from the table [review] of ragtrace.toml. Raises SettingError as `Policy` and
    `Section.load` do."""
    return _SECTION.load(arguments, environ, file)


def draw(trace_id: str, purpose: str) -> float:
    """Returns the permanent random number of a trace, in [0, 1): uniform over traces, independent between purposes, and
    independent of the bits by which the trace was sampled."""
    digest = hashlib.blake2b(trace_id.encode(), digest_size=8, person=purpose.encode()[:16]).digest()
    return int.from_bytes(digest, "big") / 2**64
