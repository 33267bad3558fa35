"""Which requests are evaluated. Samplers are functions from a trace to a decision; every decision carries the
probability with which a trace like this one is kept, so that whatever we publish can be weighted back by 1/p.

Decisions by trace id follow OpenTelemetry's consistent sampling: R is `ot=rv` in the tracestate, else the low 56 bits
of the trace id, and a trace is kept when R >= (1 - p) * 2**56. All processes agree, and a lower rate's traces are a
subset of a higher one's. https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling/
"""

import hashlib
import math
import re
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragtrace.errors import SettingError
from ragtrace.records import Trace, lookup

_RANGE = 1 << 56
_MASK = _RANGE - 1
_DIGITS = 14
"""Hexadecimal digits of R and of a threshold."""
_HEX = re.compile(r"[0-9a-f]{1,14}")


_TRACE_ID, _SHARE, _RATE = "trace id", "share", "rate"
"""Numbers of a trace, each uniform in [0, 1) and independent of the others, that samplers compare."""
Way = Mapping[Hashable, float]
"""A way to be kept: of each of these numbers the trace's must be in the upper part of this size."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a trace is kept.

    `probability` is that of keeping such a trace, in [0, 1], and is filled in for traces that are not kept, too.
    `consistent` says that the decision compared the trace id's R with that probability, so that two such decisions
    nest (joint probability: the smaller) instead of being independent (joint probability: the product).
    `ways` are all ways to be kept, where a combination has several; one that compares a single number by default.
    """

    keep: bool
    probability: float
    reason: str
    consistent: bool = True
    ways: tuple[Way, ...] | None = field(default=None, compare=False)

    @property
    def all_ways(self) -> tuple[Way, ...]:
        """The ways to be kept; an unknown number is independent of all others."""
        return self.ways or ({_TRACE_ID if self.consistent else object(): self.probability},)


Sampler = Callable[[Trace], Decision]


def _randomness(trace: Trace) -> int:
    """R of a trace, in [0, 2**56)."""
    stated = _stated(trace, "rv") if trace.facts.trace_state else None
    return trace.trace_id & _MASK if stated is None else stated


def _stated(trace: Trace, key: str) -> int | None:
    """What the tracestate says of `rv` (R, all 14 digits) or of `th` (the threshold, without its trailing zeros); None
    where it does not, or says it in another form."""
    prefix = f"{key}:"
    digits = next((m[len(prefix) :] for m in trace.facts.trace_state.split(";") if m.startswith(prefix)), "")
    if not _HEX.fullmatch(digits) or (key == "rv" and len(digits) != _DIGITS):
        return None
    return int(digits.ljust(_DIGITS, "0"), 16)


def _fraction(name: str, value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise SettingError(f"{name} is {value!r}; a sampling ratio lies between 0 and 1")
    return float(value)


def ratio(probability: float) -> Sampler:
    """Keep this share of all traces, by trace id. Raises SettingError outside [0, 1]."""
    p = _fraction("ratio", probability)

    def sample(trace: Trace) -> Decision:
        return Decision(_randomness(trace) >= round((1.0 - p) * _RANGE), p, "ratio")

    return sample


def share(probability: float) -> Sampler:
    """Keep this share, by a hash of the trace id that is independent of `ratio` and of `rate_limit`: the sampler of an
    evaluator that evaluates a share of the sampled requests, however these were chosen. A lower share's traces are a
    subset of a higher one's. Raises SettingError outside [0, 1]."""
    p = _fraction("share", probability)

    def sample(trace: Trace) -> Decision:
        return Decision(_hash(trace, b"ragtrace share") >= round((1.0 - p) * _RANGE), p, "share", False, ({_SHARE: p},))

    return sample


def _hash(trace: Trace, purpose: bytes, span_id: int = 0) -> int:
    """A number in [0, 2**56) from these ids, independent of those of other purposes."""
    digest = hashlib.blake2b((trace.trace_id ^ span_id).to_bytes(16, "big"), digest_size=7, person=purpose).digest()
    return int.from_bytes(digest, "big")


def errors() -> Sampler:
    """Keep every request that ended in an error, and no other."""
    return _when("error", lambda trace: trace.error is not None)


def slow(seconds: float) -> Sampler:
    """Keep every request that took at least `seconds`, and no other."""
    if not seconds >= 0:
        raise SettingError(f"slow is {seconds!r}; give a number of seconds of at least 0")
    return _when("slow", lambda trace: trace.duration >= seconds)


def attribute(key: str, *values: object) -> Sampler:
    """Keep every request in which `key`, a fact or a key of its metadata, has one of `values`; any value where none
    are given."""

    def matches(trace: Trace) -> bool:
        value = lookup(trace, key)
        return value is not None and (not values or value in values)

    return _when(f"attribute:{key}", matches)


def _when(reason: str, matches: Callable[[Trace], bool]) -> Sampler:
    """A certain decision: probability 1 or 0 by what the trace is."""

    def sample(trace: Trace) -> Decision:
        hit = matches(trace)
        return Decision(hit, 1.0 if hit else 0.0, reason)

    return sample


def stratified(key: str, ratios: Mapping[Hashable, float], default: float) -> Sampler:
    """A ratio per value of the attribute `key`, `default` for every other value."""
    samplers = {value: ratio(_fraction(f"stratified ratio of {value!r}", p)) for value, p in ratios.items()}
    other = ratio(_fraction("stratified default", default))

    def sample(trace: Trace) -> Decision:
        value = lookup(trace, key)
        sampler = samplers.get(value, other) if isinstance(value, Hashable) else other
        return replace(sampler(trace), reason=f"stratum:{key}")

    return sample


def any_of(*samplers: Sampler) -> Sampler:
    """Keep what at least one sampler keeps. All of them are asked, so that the probability is that of the union."""
    if not samplers:
        raise SettingError("any_of needs at least one sampler")

    def sample(trace: Trace) -> Decision:
        decisions = [s(trace) for s in samplers]
        positive = next((d for d in decisions if d.keep), None)
        # Of equals the last: `errors()` and `slow()` come first and say 0 of every other request.
        most_likely = max(reversed(decisions), key=lambda d: d.probability)
        reason, possible = (positive or most_likely).reason, [d for d in decisions if d.probability]
        if len(possible) == 1:  # the usual case, in the request's thread
            one = possible[0]
            return Decision(positive is not None, one.probability, reason, one.consistent, one.ways)
        ways = tuple(way for d in possible for way in d.all_ways)
        return Decision(positive is not None, _probability(ways), reason, all(d.consistent for d in possible), ways)

    return sample


def _probability(ways: Sequence[Way]) -> float:
    """The probability that at least one of several ways is open: the mean over one of the numbers, where those whose
    part it is in go on without it."""
    if not all(ways):
        return 1.0  # nothing is compared any more
    if len(ways) == 1:
        return math.prod(ways[0].values())
    number = next((number for way in ways for number in way), None)
    probability = below = 0.0
    for level in sorted({way.get(number, 1.0) for way in ways}):
        rest = [{n: p for n, p in way.items() if n != number} for way in ways if way.get(number, 1.0) >= level]
        probability += (level - below) * _probability(rest)
        below = level
    return probability


def all_of(*samplers: Sampler) -> Sampler:
    """Keep what every sampler keeps. All of them are asked, so that the probability is known; from the first that does
    not keep the trace on, rate limits are not used up."""
    if not samplers:
        raise SettingError("all_of needs at least one sampler")

    def sample(trace: Trace) -> Decision:
        result = samplers[0](trace)
        for s in samplers[1:]:
            result = joint(result, s(trace) if result.keep else _asked(s, trace))
        return result

    return sample


_limits = threading.local()
"""`are_asked`: no rate limit of this thread gives a token away."""


def _asked(sampler: Sampler, trace: Trace) -> Decision:
    before, _limits.are_asked = getattr(_limits, "are_asked", False), True
    try:
        return sampler(trace)
    finally:
        _limits.are_asked = before


def joint(first: Decision, second: Decision) -> Decision:
    """Both decisions together: where they compare the same number the smaller probability applies, the rest multiplies.
    The reason is that of the first one that does not keep the trace, or else the second's."""
    ways = tuple(
        {number: min(one.get(number, 1.0), other.get(number, 1.0)) for number in {**one, **other}}
        for one in first.all_ways for other in second.all_ways
    )  # fmt: skip
    reason = second.reason if first.keep else first.reason
    consistent = first.consistent and second.consistent
    return Decision(first.keep and second.keep, _probability(ways), reason, consistent, ways)


def behind_head(sampler: Sampler, head_sample: float = 1.0, *, publishes: bool = False) -> Sampler:
    """The decisions of `sampler`, with the probability that a request's spans reached ragtrace at all.

    Rates stay absolute. A head sampler that states its threshold (`ot=th` in the tracestate) compared the same R: the
    final probability is the smaller one. Others (`TraceIdRatioBased`) keep the share `head_sample`: the product, with
    an R that is a hash of the trace id, because the bits that they compare may be those of R. Requests that ragtrace
    recorded itself were behind no sampler, unless this process `publishes` their spans instead of evaluating them: what
    the head sampler leaves out has no spans. Raises SettingError for a share outside [0, 1].
    """
    unstated = Decision(True, _fraction("head_sample", head_sample), "head", consistent=False)

    def sample(trace: Trace) -> Decision:
        facts = trace.facts
        if not (facts.from_spans or publishes):
            return sampler(trace)
        threshold = _stated(trace, "th") if facts.trace_state else None
        if threshold is not None and threshold <= _randomness(trace):
            return joint(Decision(True, 1.0 - threshold / _RANGE, "head"), sampler(trace))
        # A sampler that kept this trace did not compare this R.
        if head_sample == 1.0:
            return sampler(trace)
        if _stated(trace, "rv") is None:
            trace = replace(trace, facts=replace(facts, trace_state=f"rv:{_hash(trace, b'ragtrace R'):014x}"))
        return joint(unstated, sampler(trace))

    return sample


def rate_limit(
    per_second: float,
    burst: float | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Sampler:
    """Keep at most `per_second` traces a second on average and never more than `burst` above that.

    A plain token bucket keeps the first traces of a burst with certainty and the rest with none: nothing that is
    computed from it can be weighted back. This one thins out before it is empty: with at least half its tokens it
    keeps everything, below that it keeps a trace with probability exp(-k (1 - 2 tokens / burst)), k = ln(1e6). The
    probability depends only on what came before, so 1/p is an unbiased weight, and the bucket stays a hard bound.

    `burst` defaults to twenty seconds' worth, at least 20. The limit is per process. The number that is compared
    with the probability is a hash of the ids, independent of `ratio`.
    """
    if not (per_second > 0 and math.isfinite(per_second)):
        raise SettingError(f"rate_limit is {per_second!r} a second; give a number above 0")
    capacity = float(burst) if burst is not None else max(20.0, 20.0 * per_second)
    if not capacity >= 1:
        raise SettingError(f"burst is {burst!r}; a bucket holds at least 1 token")
    steepness = math.log(1e6)
    lock = threading.RLock()  # a finalizer may end a request while its thread has the lock
    tokens = capacity
    last = clock()

    def sample(trace: Trace) -> Decision:
        nonlocal tokens, last
        u = _hash(trace, b"ragtrace rate", trace.span_id) / _RANGE
        with lock:
            now = clock()
            # A clock that steps back must not drain the bucket.
            tokens = min(capacity, tokens + max(0.0, now - last) * per_second)
            last = now
            p = min(1.0, math.exp(-steepness * (1.0 - 2.0 * tokens / capacity))) if tokens >= 1.0 else 0.0
            keep = u < p
            if keep and not getattr(_limits, "are_asked", False):
                tokens -= 1.0
        return Decision(keep, p, "rate_limit", False, ({_RATE: p},))

    return sample
