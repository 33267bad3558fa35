"""The simulated applications, their requests and their evaluators: what simulate.py loads into a Prometheus."""

import dataclasses
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from simulated_series import Array, History

APPS = ("helpdesk", "shop")
SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 3, 4, 5, 7, 10, 15, 20, 30, 60)
STAGE_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
FIRST_SECONDS = (0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 30)
EVALUATOR_SECONDS = (0.001, 0.01, 0.1, 0.5, 2.5, 10)
LAG = (1, 5, 15, 30, 60, 300, 900, 3600)
DOCUMENTS = (0, 1, 2, 3, 5, 8, 10, 15, 20)
TENTHS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclasses.dataclass(frozen=True)
class Check:
    """An evaluator: its share of failures, normally and in the incident, and its cost."""

    name: str
    fails: float
    incident: float
    seconds: float
    threshold: float = 0.5
    errors: float = 0.002
    refuses: float = 0.0
    judge: str = ""


CHECKS = (
    Check("faithfulness", 0.07, 0.25, 0.12, refuses=0.02),
    Check("groundedness", 0.08, 0.27, 0.05, refuses=0.02),
    Check("context_relevancy_recall", 0.10, 0.42, 0.03, threshold=0.3),
    Check("pii_leakage", 0.004, 0.004, 0.02, threshold=1.0),
    Check("sensitive_data_leakage", 0.0001, 0.0001, 0.01, threshold=1.0),
    Check("toxicity", 0.002, 0.002, 0.08),
    Check("refusal", 0.02, 0.06, 0.001, threshold=1.0),
    Check("answer_relevancy_statements", 0.06, 0.12, 2.0, errors=0.02, judge="gpt-4o-mini"),
)


TENANTS = (0.6, 0.3, 0.1)
"""Shares of the requests that the tenants of an application have."""
Models = Sequence[tuple[str, str, float]]
MODELS: Sequence[Models] = (
    (("gpt-4o-mini", "v7", 0.8), ("gpt-4o-mini", "v8", 0.2)),
    (("mistral-small", "2026-02", 0.7), ("mistral-small", "2026-03", 0.3)),
)
"""(model, prompt version, share of the requests): of the first application, and of the others."""


class Traffic:
    """The requests of one application, and their results."""

    def __init__(
        self, history: History, random: np.random.Generator, *, app: str, rate: float, sampled: float, bad: Array
    ) -> None:
        self.history, self.random, self.p, self.bad = history, random, sampled, bad
        self.base = {"app": app, "env": "prod"}
        self.size = len(history.times)
        step = float(history.times[1] - history.times[0])
        hour = (history.times % 86_400) / 3_600
        rhythm = 1 + 0.6 * np.sin((hour - 8) / 24 * 2 * np.pi)
        self.requests = random.poisson(rate * step / 60 * rhythm)
        self.step = step
        self.evaluated = np.zeros(self.size, dtype=np.int64)

    def share(self, events: Array, usual: float, incident: float | None = None) -> Array:
        """Draws a part of the events, with the normal or the incident's probability."""
        return self.random.binomial(events, np.where(self.bad, usual if incident is None else incident, usual))

    def spread(
        self, name: str, bounds: Sequence[float], events: Array, middle: float, *, worse: float = 1.0,
        sigma: float = 0.6, **labels: str,
    ) -> None:  # fmt: skip
        """Adds a histogram of log-normal values around `middle`."""
        values = [self._shares(bounds, middle * factor, sigma) for factor in (1.0, worse)]
        hits = self._draw(events, *values)
        # A bucket's value is the middle between its upper bound and the one below.
        edges = (0.0, *bounds, bounds[-1] * 1.5)
        mids = np.array([(a + b) / 2 for a, b in itertools.pairwise(edges)])
        self.history.histogram(name, bounds, hits, mids, **self.base, **labels)

    def _shares(self, bounds: Sequence[float], middle: float, sigma: float) -> Array:
        samples = middle * np.exp(sigma * np.random.default_rng(7).standard_normal(20_000))
        return np.bincount(np.searchsorted(bounds, samples), minlength=len(bounds) + 1) / len(samples)

    def _draw(self, events: Array, usual: Array, incident: Array) -> Array:
        hits = self.random.multinomial(events, usual / usual.sum())
        if self.bad.any():
            hits[self.bad] = self.random.multinomial(events[self.bad], incident / incident.sum())
        return hits

    def add(self, name: str, events: Array, **labels: str) -> None:
        self.history.counter(name, events, **self.base, **labels)

    def serve(self, models: Models) -> None:
        """Adds the metrics of the requests."""
        errors = self.share(self.requests, 0.004)
        cancelled = self.share(self.requests - errors, 0.006)
        fine = self.requests - errors - cancelled
        for status, events in (("ok", fine), ("error", errors), ("cancelled", cancelled)):
            for labels, counted in self._split(events, models):
                self.add("ragtrace_requests_total", counted, status=status, **labels)
        model = models[0][0]
        self.spread("ragtrace_request_duration_seconds", SECONDS, self.requests, 2.4, worse=1.15, sigma=0.5)
        self.spread("ragtrace_time_to_first_chunk_seconds", FIRST_SECONDS, fine, 0.6, worse=1.1, sigma=0.4)
        for stage, middle in (("embeddings", 0.03), ("retrieval", 0.18), ("rerank", 0.12), ("generation", 1.8)):
            self.spread("ragtrace_stage_duration_seconds", STAGE_SECONDS, self.requests, middle, sigma=0.5, stage=stage)
        self.spread("ragtrace_retrieved_documents", DOCUMENTS, self.requests, 5.0, worse=0.7, sigma=0.35)
        usual, incident = (0, 0, 0, 1, 2, 5, 12, 25, 32, 18, 5, 0), (0, 1, 3, 9, 20, 26, 20, 12, 6, 2, 1, 0)
        empty = self.share(self.requests, 0.03, 0.20)
        hits = self._draw(self.requests - empty, np.array(usual), np.array(incident))
        mids = np.array([0.0, *(b - 0.05 for b in TENTHS[1:]), 1.0])
        self.history.histogram("ragtrace_retrieval_top_score", TENTHS, hits, mids, **self.base)
        self.add("ragtrace_retrieval_empty_total", empty)
        for direction, tokens in (("input", 1_900), ("output", 240)):
            used = self.random.poisson(self.requests * tokens)
            self.add("ragtrace_tokens_total", used, direction=direction, model=model)
        spent = self.requests * (1_900 * 0.15e-6 + 240 * 0.6e-6)
        self.add("ragtrace_cost_usd_total", spent, component="generation", model=model)
        for value, part, worse in (("up", 0.02, 0.015), ("down", 0.004, 0.012), ("other", 0.001, 0.001)):
            self.add("ragtrace_feedback_total", self.share(fine, part, worse), value=value)
        self.add("ragtrace_feedback_categories_total", self.share(fine, 0.002, 0.008), category="wrong")
        scored = self.share(fine, 0.01)
        ratings = self._draw(scored, np.array([1] * 12), np.array([3] * 6 + [1] * 6))
        self.history.histogram("ragtrace_feedback_score", TENTHS, ratings, mids, **self.base)
        # All failed requests are evaluated, and a share of the others.
        self.evaluated = self.random.binomial(fine, self.p)
        for decision, stratum, events in (
            ("sampled", "ratio", self.evaluated),
            ("sampled_out", "ratio", fine - self.evaluated),
            ("sampled", "error", errors + cancelled),
        ):
            self.add("ragtrace_sampling_decisions_total", events, decision=decision, stratum=stratum)

    def _split(self, events: Array, models: Models) -> Iterator[tuple[dict[str, str], Array]]:
        shares = np.array([[part] * self.size for *_, part in models])
        for i, (_, version, _) in enumerate(models):
            shares[i, self.history.times < self.history.begin(version)] = 0.0
        parts = self.random.multinomial(events, (shares / shares.sum(axis=0)).T)
        for i, (model, version, _) in enumerate(models):
            yield {"model": model, "prompt_version": version}, parts[:, i]

    def evaluate(self, models: Models) -> None:
        """Adds scores, verdicts and causes of the sampled requests."""
        failed = {check.name: self._check(check, models) for check in CHECKS}
        self._causes(failed, models)
        self.spread("ragtrace_evaluation_lag_seconds", LAG, self.evaluated, 2.5, sigma=0.8)
        some = np.where(self.evaluated > 0, self.history.times - 3.2, np.nan)
        last_times = np.maximum.accumulate(np.nan_to_num(some, nan=self.history.times[0] - 30.0))
        self.history.gauge("ragtrace_last_evaluation_timestamp_seconds", np.round(last_times, 3), **self.base)

    def _check(self, check: Check, models: Models) -> Array:
        errors = self.share(self.evaluated, check.errors)
        refused = self.share(self.evaluated - errors, check.refuses, check.refuses * 2)
        usual, incident = _scores(check, check.fails), _scores(check, check.incident)
        hits = self._draw(self.evaluated - errors - refused, usual, incident)
        below = sum(bound < check.threshold for bound in TENTHS)
        fails, scored = hits[:, :below].sum(axis=1), hits.sum(axis=1)
        mids = np.array([0.0, *(b - 0.05 for b in TENTHS[1:-1]), 1.0, 1.0])
        own = {"evaluator": check.name}
        self.history.histogram("ragtrace_evaluation_score", TENTHS, hits, mids, **self.base, **own)
        weight = 1 / self.p
        verdicts = {"pass": scored - fails, "fail": fails, "error": errors}
        if check.refuses:
            verdicts["refusal"] = refused
        for verdict, events in verdicts.items():
            for origin, counted in self._split(events, models):
                labels = {**own, "verdict": verdict, **origin}
                self.add("ragtrace_evaluations_total", counted, **labels)
                self.add("ragtrace_evaluation_weight_total", counted * weight, **labels)
                self.add("ragtrace_evaluation_weight_squared_total", counted * weight**2, **labels)
        for verdict, events in (("pass", scored - fails), ("fail", fails)):
            for i, counted in enumerate(self.random.multinomial(events, TENANTS).T):
                labels = {**own, "verdict": verdict, "tenant": f"t{i + 1}"}
                self.add("ragtrace_tenant_evaluation_weight_total", counted * weight, **labels)
                self.add("ragtrace_tenant_evaluation_weight_squared_total", counted * weight**2, **labels)
        mean = np.divide(hits @ mids, scored, out=np.zeros(self.size), where=scored > 0)
        for origin, counted in self._split(scored, models):
            score = np.round(counted * mean * weight, 4)
            self.add("ragtrace_evaluation_weighted_score_total", score, **own, **origin)
        self.add("ragtrace_evaluation_weight_clipped_total", np.zeros(self.size), **own)
        retrieval = self.share(fails, 0.3, 0.75) if check.fails > 0.01 else np.zeros(self.size, dtype=np.int64)
        for kind, events in (("retrieval", retrieval), ("generation", fails - retrieval)):
            self.add("ragtrace_evaluation_failures_total", events, kind=kind, **own)
        self._running(check, errors, scored)
        return fails

    def _running(self, check: Check, errors: Array, scored: Array) -> None:
        own = {"evaluator": check.name}
        evaluated = self.evaluated
        self.add("ragtrace_evaluation_eligible_total", self.requests, **own)
        for outcome, events in (
            ("scored", evaluated - errors),
            ("failed", errors),
            ("dropped", np.zeros(self.size)),
            ("sampled_out", self.requests - evaluated),
        ):
            self.add("ragtrace_evaluation_outcomes_total", events, outcome=outcome, **own)
        self.spread("ragtrace_evaluator_duration_seconds", EVALUATOR_SECONDS, evaluated, check.seconds, **own)
        self.add("ragtrace_evaluator_busy_seconds_total", np.round(evaluated * check.seconds * 1.1, 4), **own)
        unreadable = self.random.binomial(errors, 0.8) if check.judge else np.zeros(self.size, dtype=np.int64)
        for reason, events in (("parse_failure", unreadable), ("timeout", errors - unreadable)):
            self.add("ragtrace_evaluator_errors_total", events, reason=reason, **own)
        version = {"version": "1", "threshold": f"{check.threshold:g}", "judge_model": check.judge}
        self.history.gauge("ragtrace_evaluator_info", 1, **self.base, **own, **version)
        if check.judge:
            self.add("ragtrace_evaluation_failures_total", unreadable, kind="parse", **own)
            for direction, tokens in (("input", 1_400), ("output", 120)):
                self.add("ragtrace_judge_tokens_total", scored * tokens, direction=direction, **own)
            cost = np.round(scored * (1_400 * 0.15e-6 + 120 * 0.6e-6), 8)
            self.add("ragtrace_judge_cost_usd_total", cost, **own)
            self.add("ragtrace_cost_usd_total", cost, component="judge", model=check.judge)
            for window, dollars in (("hour", 1.0), ("day", 10.0)):
                self.history.gauge("ragtrace_judge_budget_usd", dollars, **self.base, window=window)

    def _causes(self, failed: Mapping[str, Array], models: Models) -> None:
        bad = np.minimum(failed["faithfulness"], self.evaluated)
        retrieval = self.share(bad, 0.3, 0.75)
        nothing = self.random.binomial(retrieval, 0.4)
        contradicts = self.random.binomial(bad - retrieval, 0.3)
        refusals = np.minimum(failed["refusal"], self.evaluated - bad)
        wrong = self.random.binomial(refusals, 0.3)
        leaks = np.minimum(failed["pii_leakage"] + failed["sensitive_data_leakage"], self.evaluated - bad - refusals)
        chunks = self.random.binomial(leaks, 0.8)
        rest = self.evaluated - bad - refusals - leaks
        truncated = self.random.binomial(rest, 0.003)
        for cause, events in {
            "nothing_retrieved": nothing,
            "irrelevant_context": retrieval - nothing,
            "contradicts_context": contradicts,
            "unsupported": bad - retrieval - contradicts,
            "wrong_refusal": wrong,
            "right_refusal": refusals - wrong,
            "truncated": truncated,
            "leak_from_context": chunks,
            "leak_by_model": leaks - chunks,
            "none": rest - truncated,
        }.items():
            self.add("ragtrace_failure_causes_total", events, cause=cause)
            for labels, counted in self._split(events, models):
                self.add("ragtrace_failure_cause_weight_total", counted / self.p, cause=cause, **labels)

    def operate(self) -> None:
        """The pipeline and the exporters."""
        nothing = np.zeros(self.size)
        waiting = self.random.poisson(self.requests / self.step * 1.5)
        dropped = self.random.binomial(self.evaluated, 0.0005)
        self.history.gauge("ragtrace_evaluation_queue_items", waiting, **self.base)
        self.history.gauge("ragtrace_evaluation_queue_bytes", waiting * 9_000, **self.base)
        age = np.where(waiting > 0, np.round(self.random.exponential(1.2, self.size), 3), 0.0)
        self.history.gauge("ragtrace_evaluation_queue_oldest_age_seconds", age, **self.base)
        for reason in ("queue_full", "queue_bytes", "shutdown", "internal"):
            events = dropped if reason == "queue_full" else nothing
            self.add("ragtrace_pipeline_dropped_total", events, reason=reason)
            self.add("ragtrace_evaluations_dropped_total", events, reason=reason)
        self.add("ragtrace_internal_errors_total", nothing)
        self.history.gauge("ragtrace_span_source_open_traces", nothing, **self.base)
        self.add("ragtrace_span_source_lost_total", nothing, reason="expired")
        for reason in ("timeout", "error"):
            self.add("ragtrace_redaction_failures_total", nothing, reason=reason)
        self.add("ragtrace_label_overflow_total", nothing)
        self.history.gauge("ragtrace_build_info", 1, **self.base, version="0.2.0")
        ago = self.history.times[-1] - self.history.times
        outage = (ago > 3.9 * 3_600) & (ago < 4 * 3_600)
        for sink, each in (("spans", 6), ("events", 1)):
            failed = self.random.binomial(self.requests * each, np.where(outage, 0.05, 0.0))
            self.add("ragtrace_export_items_total", self.requests * each - failed, sink=sink)
            self.add("ragtrace_export_failures_total", failed, sink=sink, reason="timeout")
        self.history.gauge("ragtrace_export_waiting", nothing, **self.base, sink="phoenix")
        self.add("ragtrace_spans_dropped_total", nothing)
        self.history.gauge("ragtrace_held_spans", waiting, **self.base)
        self.add("ragtrace_hold_expired_total", self.random.binomial(self.evaluated, 0.001))


def review(history: History, random: np.random.Generator) -> None:
    """What the console says of people's verdicts: precise evaluators and one that nobody should trust, a queue that is
    worked off in office hours."""
    hour = (history.times % 86_400) / 3_600
    office = (hour > 9) & (hour < 17)
    for evaluator, kappa, precision, recall in (
        ("faithfulness", 0.71, 0.83, 0.74), ("answer_relevance", 0.34, 0.52, 0.61), ("toxicity", 0.62, 0.70, 0.66),
    ):  # fmt: skip
        drift = np.round(np.cumsum(random.standard_normal(len(history.times))) * 0.0004, 4)
        for figure, value in (("kappa", kappa), ("precision", precision), ("recall", recall), ("f1", recall)):
            for bound, off in (("estimate", 0.0), ("lower", -0.08), ("upper", 0.07)):
                labels = {"evaluator": evaluator, "figure": figure, "bound": bound}
                agreement = np.clip(value + drift + off, -1.0, 1.0)
                history.gauge("ragtrace_review_agreement", agreement, **labels)
        history.gauge("ragtrace_review_logs", 240, evaluator=evaluator)
        for app in APPS:
            for bound, share in (("estimate", 0.12), ("lower", 0.09), ("upper", 0.16)):
                history.gauge("ragtrace_true_failure_ratio", share, app=app, evaluator=evaluator, bound=bound)
            history.gauge("ragtrace_true_failure_verdicts", 214, app=app, evaluator=evaluator)
        history.gauge("ragtrace_reviewer_alpha", 0.68, evaluator=evaluator)
        history.gauge("ragtrace_anchors", 60, evaluator=evaluator)
        history.gauge("ragtrace_anchor_run_timestamp_seconds", history.times - 40_000.0, evaluator=evaluator)
        history.gauge("ragtrace_anchor_log_e", -3.2, evaluator=evaluator, against="unchanged")
        history.gauge("ragtrace_anchor_log_e", 4.6, evaluator=evaluator, against="moved")
    left = np.where(office, np.maximum(0.0, 17 - hour) / 8, 1.0)
    for reason, count in (("random", 10), ("worst", 12), ("threshold", 8), ("feedback", 4)):
        history.gauge("ragtrace_review_items", np.round(count * left), state="open", reason=reason)
        history.gauge("ragtrace_review_items", 90, state="done", reason=reason)
    history.gauge("ragtrace_review_oldest_open_seconds", np.where(office, 3_600.0, 50_000.0))
    history.gauge("ragtrace_reviews", 700)
    history.gauge("ragtrace_last_review_timestamp_seconds", history.times - 400.0)


def topics(history: History, random: np.random.Generator) -> None:
    """What the console says of topics: one fails more and more, the documents do not answer another one."""
    rise = np.clip((history.times - history.times[0]) / 86_400, 0.0, 1.0)
    for topic, requests, share, gaps in (
        ("refund, card, arrived", 4_200, 0.09 + 0.25 * rise, 0.02), ("parcel, delivery, late", 6_100, 0.08, 0.01),
        ("password, reset, login", 2_900, 0.03, 0.0), ("warranty, repair, broken", 1_300, 0.16, 0.12),
        ("other", 2_400, 0.12, 0.05),
    ):  # fmt: skip
        drift = np.cumsum(random.standard_normal(len(history.times))) * 0.0002
        history.gauge("ragtrace_topic_requests", np.round(requests * (1 + drift)), topic=topic)
        history.gauge("ragtrace_topic_gaps", np.round(requests * gaps * (1 + drift)), topic=topic)
        for bound, off in (("estimate", 0.0), ("lower", -0.02), ("upper", 0.03)):
            ratio = np.clip(share + drift + off, 0.0, 1.0)
            history.gauge("ragtrace_topic_failure_ratio", ratio, topic=topic, evaluator="faithfulness", bound=bound)


def _scores(check: Check, fails: float) -> Array:
    """Returns the share of each bucket when the share `fails` is below the threshold."""
    below = sum(bound < check.threshold for bound in TENTHS)
    spread = np.zeros(len(TENTHS) + 1)
    if check.threshold >= 1.0:
        spread[0], spread[len(TENTHS) - 1] = fails, 1 - fails
        return spread
    low = np.linspace(1.0, 2.0, below)
    high = np.linspace(0.6, 3.0, len(TENTHS) - below) ** 2
    spread[:below] = fails * low / low.sum()
    spread[below : len(TENTHS)] = (1 - fails) * high / high.sum()
    return spread


def history(
    *, hours: float = 26, step: int = 60, apps: Sequence[str] = APPS, incident: float = 2, seed: int = 1,
    end: float | None = None,
) -> History:  # fmt: skip
    """Returns the series until `end` (Unix seconds; default: now), with the incident in the first application."""
    last = int((time.time() if end is None else end) // step * step)
    times = np.arange(last - int(hours * 3_600), last + 1, step, dtype=np.int64)
    series = History(times)
    for i, app in enumerate(apps):
        random = np.random.default_rng([seed, i])
        bad = (times > last - incident * 3_600) & (i == 0)
        models = MODELS[min(i, 1)]
        traffic = Traffic(series, random, app=app, rate=60 / (1 + i), sampled=0.25 * min(1 + i, 4), bad=bad)
        traffic.serve(models)
        traffic.evaluate(models)
        traffic.operate()
    review(series, np.random.default_rng([seed, len(apps)]))
    topics(series, np.random.default_rng([seed, len(apps), 1]))
    return series
