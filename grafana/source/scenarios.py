"""What happens to applications, and which alerts must fire: the cases by which the rules are judged.

Each case is an application of its own. `scenario_tests.py` writes them as unit tests, exact to the request;
`benchmarks/alerts/noisy_scenarios.py` lets chance decide over each request.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

DROP, CREEP, MISSING, UNSAFE = (
    "RagtraceQualityDrop",
    "RagtraceQualityCreep",
    "RagtraceMissing?",
    "RagtraceUnsafeAnswers?",
)
PAGE, TICKET = "page", "ticket"
DAY, WEEK = 24.0, 168.0
ABSENT = None
RESTART, GAP = -1.0, math.nan
"""Instead of evaluations a minute: the counter begins again; nobody scrapes."""
Alert = tuple[str, str]
"""Name and severity."""


@dataclass(frozen=True)
class Evaluations:
    """Evaluations that pass or fail; a phase is hours, evaluations a minute, and the share that fails."""

    phases: Sequence[tuple[float, float, float]]
    evaluator: str = "faithfulness"
    labels: dict[str, str] = field(default_factory=dict)
    weight: float = 20.0


@dataclass(frozen=True)
class Events:
    """A counter; a phase is hours and events a minute, or ABSENT."""

    metric: str
    phases: Sequence[tuple[float, float | None]]
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Value:
    """A gauge; a phase is hours and the value, or ABSENT."""

    metric: str
    phases: Sequence[tuple[float, float | None]]
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """From the one hour to the other exactly these alerts fire at some time; those of severity info are not counted."""

    since: float
    until: float
    alerts: frozenset[Alert] = frozenset()


@dataclass(frozen=True)
class Scenario:
    """An application, what it counts, and the alerts."""

    app: str
    text: str
    series: Sequence[Evaluations | Events | Value]
    checks: Sequence[Check]
    env: str = "prod"

    @property
    def hours(self) -> float:
        """When the last check ends."""
        return max(check.until for check in self.checks)


def fires(since: float, until: float, *names: str) -> Check:
    """Expects exactly these alerts; a name with a question mark at its end is a ticket."""
    return Check(since, until, frozenset((n.rstrip("?"), TICKET if n.endswith("?") else PAGE) for n in names))


def _info(version: str, *phases: tuple[float, float | None], evaluator: str = "faithfulness") -> Value:
    return Value("ragtrace_evaluator_info", phases, {"evaluator": evaluator, "version": version})


def days() -> list[Scenario]:
    """Returns the cases that take less than four days."""
    return [
        *_falls(), *_lasting(), *_rulers(), *_calm(), *_blindness(), *_chance(), *_absence(), *_small(), *_service(),
    ]  # fmt: skip


def _tenant(name: str, fails: float) -> list[Events]:
    """One evaluation a minute of a tenant, 8 % of which fail, and after 30 hours this share."""
    return [
        Events(
            f"ragtrace_tenant_evaluation_{metric}_total",
            [(h, times * (s if verdict == "fail" else 1 - s)) for h, s in ((30, 0.08), (5, fails))],
            {"evaluator": "faithfulness", "verdict": verdict, "tenant": name},
        )
        for verdict in ("pass", "fail")
        for metric, times in (("weight", 20.0), ("weight_squared", 400.0))
    ]


def _falls() -> list[Scenario]:
    """Falls of an application or a part of it, at 200 requests a minute and 5 %."""
    calm, worse = (30, 10, 0.08), (5, 10, 0.25)
    silent, page = fires(0, 30), fires(30, 34, DROP)
    return [
        Scenario("two-a", "one of two applications falls from 92 to 75 %", [Evaluations([calm, worse])], [silent, fires(30, 30.5, DROP), page]),
        Scenario("two-b", "the other one", [Evaluations([calm, (5, 10, 0.08)])], [fires(0, 34)]),
        Scenario(
            "version", "a new prompt version for all, 8 to 16 %",
            [
                Evaluations([(30, 10, 0.08), (5, 0, 0)], labels={"prompt_version": "v7", "model": "m"}),
                Evaluations([(30, 0, 0), (5, 10, 0.16)], labels={"prompt_version": "v8", "model": "m"}),
            ],
            [silent, fires(30, 32, DROP), page],
        ),
        Scenario(
            "canary", "a canary of a fifth of the traffic fails 40 %",
            [
                Evaluations([(30, 10, 0.08), (5, 8, 0.08)], labels={"prompt_version": "v7", "model": "m"}),
                Evaluations([(30, 0, 0), (5, 2, 0.40)], labels={"prompt_version": "v8", "model": "m"}),
            ],
            [silent, fires(30, 31, DROP), page],
        ),
        Scenario(
            "model", "one of two models falls to 30 %",
            [
                Evaluations([(35, 5, 0.08)], labels={"prompt_version": "v7", "model": "large"}),
                Evaluations([(30, 5, 0.08), (5, 5, 0.30)], labels={"prompt_version": "v7", "model": "small"}),
            ],
            [silent, fires(30, 31, DROP), page],
        ),
        Scenario(
            "tenant", "one of ten tenants falls from 92 to 50 %",
            [Evaluations([(30, 10, 0.08), (5, 10, 0.122)]), *_tenant("t1", 0.08), *_tenant("t2", 0.50)],
            [silent, fires(30, 31, DROP), page],
        ),
        Scenario("staging", "another environment falls; its page is routed to the tickets", [Evaluations([calm, worse])], [silent, page], env="staging"),
        Scenario(
            "budget", "an application with an objective falls: one page, whatever windows and budgets say",
            [Evaluations([(30, 10, 0.02), (5, 10, 0.95)]), Value("ragtrace_objective", [(35, 0.9)], {"evaluator": "faithfulness"})],
            [silent, fires(30, 30.75, DROP), page],
        ),
    ]  # fmt: skip


def _lasting() -> list[Scenario]:
    """Falls that last longer than the past that they are compared with."""
    return [
        Scenario(
            "lasting", "a fall that lasts for three days is one incident for three days",
            [Evaluations([(30, 10, 0.08), (60, 10, 0.25)])],
            [fires(0, 30), fires(30, 31, DROP), fires(54, 60, DROP), fires(84, 86, DROP)],
        ),
        Scenario(
            "recovered", "a fall of two hours is over three hours later",
            [Evaluations([(30, 10, 0.08), (2, 10, 0.25), (10, 10, 0.08)])],
            [fires(30, 32, DROP), fires(36, 42)],
        ),
    ]  # fmt: skip


def _rulers() -> list[Scenario]:
    """Evaluators that change."""
    changed = [_info("2", (30, 1), (60, ABSENT)), _info("2+c1", (30, ABSENT), (60, 1))]
    return [
        Scenario(
            "ruler", "a new version of the evaluator fails three times as many answers",
            [Evaluations([(30, 10, 0.08), (40, 10, 0.22)]), *changed],
            [fires(0, 70)],
        ),
        Scenario(
            "ruler-fall", "a new version of the evaluator, and two hours later a real fall",
            [Evaluations([(30, 10, 0.08), (2.25, 10, 0.22), (8, 10, 0.44)]), *changed],
            [fires(0, 32.25), fires(32.25, 33, DROP), fires(34, 40, DROP)],
        ),
        Scenario(
            "ruler-lasting", "a new version of the evaluator, and six hours later a fall that lasts for two days",
            [Evaluations([(30, 10, 0.10), (6, 10, 0.2), (50, 10, 0.4)]), _info("2", (30, 1), (56, ABSENT)), _info("3", (30, ABSENT), (56, 1))],
            [fires(0, 36), fires(36, 37, DROP), fires(60, 62, DROP), fires(84, 86, DROP)],
        ),
    ]  # fmt: skip


def _calm() -> list[Scenario]:
    """What is no fall."""
    return [
        Scenario("healthy", "a healthy application whose evaluator shows 22 %", [Evaluations([(86, 10, 0.22)])], [fires(0, 86)]),
        Scenario(
            "sampling", "sampling rises from 5 to 50 %, then the traffic halves",
            [
                Evaluations([(30, 10, 0.08), (20, 0, 0)]),
                Evaluations([(30, 0, 0), (10, 100, 0.08), (10, 50, 0.08)], labels={"instance": "b"}, weight=2.0),
            ],
            [fires(0, 50)],
        ),
        Scenario(
            "replicas", "a replica is added, one restarts, one comes back under another name",
            [
                Evaluations([(60, 5, 0.08)], labels={"instance": "a"}),
                Evaluations([(30, 5, 0.08)], labels={"instance": "b"}),
                Evaluations([(31, 0, 0), (30, 5, 0.08)], labels={"instance": "c"}),
            ],
            [fires(0, 60)],
        ),
        Scenario(
            "restart", "a restart, and later two hours that nobody scraped",
            [Evaluations([(30, 10, 0.08), (0, RESTART, 0), (10, 10, 0.08), (2, GAP, 0), (10, 10, 0.08)])],
            [fires(0, 52)],
        ),
        Scenario(
            "few", "five failures of forty answers, where one of a hundred fails",
            [Evaluations([(30, 40 / 15, 0.01), (0.25, 40 / 15, 0.125), (10, 40 / 15, 0.01)])],
            [fires(0, 40)],
        ),
        Scenario(
            "young", "39 minutes of an application with an objective, half of which fail",
            [
                Evaluations([(0.65, 10, 0.5), (0.1, 0, 0.5)]),
                Value("ragtrace_objective", [(2, 0.9)], {"evaluator": "faithfulness"}),
            ],
            [fires(0, 2)],
        ),
        Scenario("lucky", "a new application whose first hour is good by chance", [Evaluations([(1, 10, 0.02), (45, 10, 0.125)])], [fires(0, 45)]),
        Scenario(
            "short", "an evaluator that does not apply to short questions",
            [
                Events("ragtrace_evaluation_eligible_total", [(20, 1)], {"evaluator": "language_mismatch"}),
                Events("ragtrace_evaluation_outcomes_total", [(20, 1)], {"evaluator": "language_mismatch", "outcome": "scored"}),
                Events("ragtrace_evaluations_total", [(20, 1)], {"evaluator": "language_mismatch", "verdict": "not_applicable"}),
            ],
            [fires(0, 20)],
        ),
    ]  # fmt: skip


def _failing(evaluator: str, *phases: tuple[float, float], reason: str = "timeout") -> list[Events]:
    """Runs that fail."""
    return [
        Events("ragtrace_evaluations_total", phases, {"evaluator": evaluator, "verdict": "error"}),
        Events("ragtrace_evaluator_errors_total", phases, {"evaluator": evaluator, "reason": reason}),
    ]


def _blindness() -> list[Scenario]:
    """Who is blind, and who only seems so."""
    judges = ("sexism", "stereotypes", "fairness_bias")
    sampled = Events("ragtrace_sampling_decisions_total", [(40, 10)], {"decision": "sampled", "stratum": "ratio"})
    return [
        Scenario(
            "broke", "the judge's budget is gone: one ticket for its three evaluators",
            [
                *(Evaluations([(30, 2, 0.01), (3, 0, 0)], evaluator=j) for j in judges),
                *(e for j in judges for e in _failing(j, (30, 0), (3, 2), reason="judge_budget")),
                *(Events("ragtrace_evaluation_outcomes_total", [(33, 2)], {"evaluator": j, "outcome": "scored"}) for j in judges),
            ],
            [fires(0, 30), fires(30, 33, "RagtraceJudgeBudgetGone?")],
        ),
        Scenario(
            "failing", "every run of the evaluator fails while the answers fall",
            [Evaluations([(30, 10, 0.08), (10, 0, 0)]), *_failing("faithfulness", (30, 0), (10, 10)), sampled],
            [fires(0, 30), fires(30, 31, "RagtraceEvaluatorBlind"), fires(32, 39, "RagtraceEvaluatorBlind")],
        ),
        Scenario(
            "hidden", "every run fails, a few for want of budget",
            [
                Evaluations([(30, 10, 0.08), (10, 0, 0)]), sampled,
                *_failing("faithfulness", (30, 0), (10, 10)), _failing("faithfulness", (30, 0), (10, 0.5), reason="judge_budget")[1],
            ],
            [fires(0, 30), fires(32, 39, "RagtraceEvaluatorBlind", "RagtraceJudgeBudgetGone?")],
        ),
        Scenario(
            "partly", "13 % of the runs fail, and the answers fall",
            [Evaluations([(30, 10, 0.08), (5, 8.7, 0.25)]), *_failing("faithfulness", (30, 0), (5, 1.3)), sampled],
            [fires(0, 30), fires(30, 31.5, DROP, "RagtraceEvaluatorErrors?"), fires(33, 34, DROP, "RagtraceEvaluatorErrors?")],
        ),
        Scenario(
            "dead", "an application is dead for good",
            [Value("ragtrace_build_info", [(30, 1), (60, ABSENT)], {"version": "1"})],
            [fires(0, 30), fires(30, 31, MISSING), fires(84, 86, MISSING)],
        ),
        Scenario("alive", "another application reports", [Value("ragtrace_build_info", [(86, 1)], {"version": "1"})], [fires(0, 86)]),
    ]  # fmt: skip


def _chance() -> list[Scenario]:
    """Few events of few requests, as chance brings them in every month."""
    rare = [(60, 0.3, 0.01), (6, 0.3, 0.11), (20, 0.3, 0.01)]
    return [
        Scenario(
            "quiet", "one request a minute: for half an hour 10 % instead of 1 % of the retrievals find nothing",
            [
                Events("ragtrace_retrieved_documents_count", [(50, 1)]),
                Events("ragtrace_retrieval_empty_total", [(30, 0.01), (0.5, 0.1), (19, 0.01)]),
            ],
            [fires(0, 49)],
        ),
        Scenario("leaks", "one of nine answers of six quiet hours holds personal data, where one of a hundred does", [Evaluations(rare, "pii_leakage", weight=10)], [fires(0, 60), fires(60, 86, UNSAFE)]),
        Scenario("toxic", "one of nine answers of six quiet hours is toxic, where one of a hundred is", [Evaluations(rare, "toxicity", weight=10)], [fires(0, 60), fires(60, 86, UNSAFE)]),
        Scenario(
            "errors", "7 % of the requests are errors, and for a quarter of an hour 17 % of 30",
            [
                Events("ragtrace_requests_total", [(50, 2)], {"status": "ok"}),
                Events("ragtrace_requests_total", [(30, 0.15), (0.25, 0.4), (19, 0.15)], {"status": "error"}),
            ],
            [fires(0, 49)],
        ),
    ]  # fmt: skip


def _traffic(*phases: tuple[float, float | None], documents: float = 1.0) -> list[Events]:
    """Requests that end well, and their retrievals."""
    retrievals = [(hours, None if n is None else n * documents) for hours, n in phases]
    return [
        Events("ragtrace_requests_total", phases, {"status": "ok"}),
        Events("ragtrace_retrieved_documents_count", retrievals),
    ]


def _absence() -> list[Scenario]:
    """What ran at this hour and does not run any more, while the application lives."""
    alive = Value("ragtrace_build_info", [(40, 1)], {"version": "1"})
    empty = Events("ragtrace_retrieval_empty_total", [(30, 0.1), (6, 9)])
    refusing = [
        Events("ragtrace_evaluations_total", phases, {"evaluator": "refusal", "verdict": verdict})
        for verdict, phases in (("pass", [(30, 9.5), (6, 1)]), ("fail", [(30, 0.5), (6, 9)]))
    ]
    return [
        Scenario(
            "removed", "a deployment takes the evaluator that pages out of the settings",
            [alive, *_traffic((40, 20)), Evaluations([(30, 10, 0.08)]), Evaluations([(40, 10, 0.02)], "toxicity")],
            [fires(0, 30), fires(30, 32, "RagtraceMissing")],
        ),
        Scenario(
            "contexts", "contexts are not captured any more: the evaluator applies to nothing",
            [alive, *_traffic((40, 20)), Evaluations([(30, 10, 0.08), (8, 0, 0)]),
             Events("ragtrace_evaluations_total", [(30, 0), (8, 10)], {"evaluator": "faithfulness", "verdict": "not_applicable"})],
            [fires(0, 30), fires(30, 32, "RagtraceMissing")],
        ),
        Scenario(
            "unhooked", "an upgrade unhooks the tracing: the application is alive and counts nothing",
            [alive, *_traffic((30, 20), (6, 0)), Evaluations([(30, 10, 0.08), (6, 0, 0)])],
            [fires(0, 30), Check(30, 33, frozenset({("RagtraceMissing", TICKET), ("RagtraceMissing", PAGE)}))],
        ),
        Scenario(
            "evenings", "traffic that stops every evening at ten",
            [Value("ragtrace_build_info", [(120, 1)], {"version": "1"}), *_traffic(*[(14, 10), (10, 0)] * 5), Evaluations([(14, 5, 0.08), (10, 0, 0)] * 5)],
            [fires(0, 96)],
        ),
        Scenario("store", "the vector store is lost", [alive, *_traffic((36, 10)), empty], [fires(0, 30), fires(30, 31, "RagtraceRetrievalDown")]),
        Scenario("declines", "nine of ten answers become refusals", [alive, *_traffic((36, 10)), *refusing], [fires(0, 30), fires(30, 32, "RagtraceRefusals")]),
    ]  # fmt: skip


def _small() -> list[Scenario]:
    """Small and new applications, rare events, small shares."""
    info = [_info("2", (32, 1), (30, ABSENT)), _info("3", (32, ABSENT), (30, 1))]
    closed = Value("ragtrace_closed", [(33, ABSENT), (1, 1), (20, ABSENT)], {"evaluator": "faithfulness"})
    preview = [
        Value("ragtrace_build_info", [(30, 1), (8, ABSENT)], {"version": "1"}),
        Value("ragtrace_expected", [(38, 0)]),
    ]
    return [
        Scenario(
            "closed", "people call an incident over while its rate stays",
            [Evaluations([(30, 10, 0.08), (24, 10, 0.3)]), closed],
            [fires(0, 30), fires(30, 33, DROP), fires(34, 53)],
        ),
        Scenario("preview", "an application that objectives.yml says need not run goes", preview, [fires(0, 37)]),
        Scenario("tiny", "20 requests a day, of which 90 % fail", [Evaluations([(70, 20 / 1440, 0.9)], weight=1)], [fires(30, 60, "RagtraceQualityLow")]),
        Scenario("newborn", "a new application fails 60 % from its first minute", [Evaluations([(6, 10, 0.6)])], [fires(0, 2, "RagtraceQualityLow")]),
        Scenario(
            "leak", "one leak an hour, where there was none",
            [Evaluations([(48, 10, 0), (8, 10, 1 / 600)], "pii_leakage")],
            [fires(0, 48), fires(48, 55, UNSAFE)],
        ),
        Scenario("rare", "2 % of the answers fail, then 8 %, at 40 evaluations a minute", [Evaluations([(30, 40, 0.02), (3, 40, 0.08)])], [fires(0, 30), fires(30, 30.35, DROP)]),
        Scenario(
            "survives", "an incident goes on when the evaluator is upgraded, and ends when its answers are good again",
            [Evaluations([(30, 10, 0.08), (8, 10, 0.3), (24, 10, 0.08)]), *info],
            [fires(0, 30), fires(30, 32, DROP), fires(34, 38, DROP), fires(43, 61)],
        ),
    ]  # fmt: skip


def _service() -> list[Scenario]:
    """What else is watched: errors, retrieval, lateness, losses, objectives, secrets."""
    lags = [Events("ragtrace_evaluation_lag_seconds_bucket", [(30, 10 * share), (2, 10 * late)], {"le": le})
            for le, share, late in (("300", 1, 0.5), ("600", 1, 1), ("+Inf", 1, 1))]  # fmt: skip
    eligible = Events("ragtrace_evaluation_eligible_total", [(32, 10)], {"evaluator": "refusal"})
    return [
        Scenario(
            "broken", "30 % of the requests end in an error",
            [Events("ragtrace_requests_total", [(32, 20)], {"status": "ok"}), Events("ragtrace_requests_total", [(30, 0.2), (2, 8)], {"status": "error"})],
            [fires(0, 30), fires(30, 31, "RagtraceRequestErrors")],
        ),
        Scenario(
            "down", "all of 100 requests an hour end in an error",
            [Events("ragtrace_requests_total", [(30, 1.67), (2, 0)], {"status": "ok"}), Events("ragtrace_requests_total", [(30, 0), (2, 1.67)], {"status": "error"})],
            [fires(0, 30), fires(30, 31, "RagtraceRequestErrors")],
        ),
        Scenario(
            "stuck", "a backend of scores does not answer",
            [Events("ragtrace_export_items_total", [(30, 20), (2, 0)], {"sink": "phoenix"}), Value("ragtrace_export_waiting", [(30, 0), (2, 40)], {"sink": "phoenix"})],
            [fires(0, 30), fires(30, 31, "RagtraceExportFailing?")],
        ),
        Scenario(
            "emptier", "15 % of the retrievals find nothing, where 2 % did",
            [Events("ragtrace_retrieved_documents_count", [(32, 20)]), Events("ragtrace_retrieval_empty_total", [(30, 0.4), (2, 3)])],
            [fires(0, 30), fires(30, 31, "RagtraceRetrievalEmpty?")],
        ),
        Scenario("late", "half of the scores come five minutes late", lags, [fires(0, 30), fires(30, 31, "RagtraceEvaluationLag?")]),
        Scenario(
            "dropped", "a fifth of the sampled requests is dropped",
            [eligible, Events("ragtrace_pipeline_dropped_total", [(30, 0), (2, 2)], {"reason": "queue_full"}),
             Events("ragtrace_evaluations_total", [(32, 8)], {"evaluator": "refusal", "verdict": "pass"})],
            [fires(0, 30), fires(30, 31, "RagtraceEvaluationsDropped?")],
        ),
        Scenario(
            "unsent", "5 % of the spans are lost on their way",
            [Events("ragtrace_export_items_total", [(32, 20)], {"sink": "spans"}), Events("ragtrace_export_failures_total", [(30, 0), (2, 1)], {"sink": "spans", "reason": "unavailable"})],
            [fires(0, 30), fires(30, 31, "RagtraceExportFailing?")],
        ),
        Scenario(
            "refused", "the endpoint behind a worker refuses 5 % of the spans",
            [Events("ragtrace_worker_received_spans_total", [(32, 20)]), Events("ragtrace_worker_dropped_spans_total", [(30, 0), (2, 1)], {"reason": "rejected"})],
            [fires(0, 30), fires(30, 31, "RagtraceExportFailing?")],
        ),
        Scenario("secret", "one answer holds a secret", [Evaluations([(30, 1, 0), (0.1, 1, 0.4), (3, 1, 0)], "sensitive_data_leakage")], [fires(0, 30), Check(30, 31, frozenset({("RagtraceSecretLeaked", PAGE)}))]),
        Scenario("unsafe", "two of five answers hold personal data", [Evaluations([(30, 5, 0.02), (3, 5, 0.4)], "pii_leakage")], [fires(0, 30), fires(30, 32, UNSAFE, "RagtraceUnsafeAnswers")]),
        Scenario(
            "objective", "an application fails 45 % of the time, with an objective of 90 %",
            [Evaluations([(90, 10, 0.45)]), Value("ragtrace_objective", [(90, 0.9)], {"evaluator": "faithfulness"})],
            [fires(0, 4), fires(80, 89, "RagtraceQualityBudgetBurn", "RagtraceQualityBudgetBurn?")],
        ),
        Scenario("clusters", "one of two clusters of one name falls", [Evaluations([(36, 10, 0.08)], labels={"cluster": "eu"}), Evaluations([(30, 10, 0.08), (6, 10, 0.25)], labels={"cluster": "us"})], [fires(0, 30), fires(30, 31, DROP)]),
    ]  # fmt: skip


def weeks() -> list[Scenario]:
    """Returns the cases that take weeks."""
    weekday, weekend = (5 * DAY, 30, 0.08), (2 * DAY, 10, 0.14)
    fall, between = (4, 10, 0.25), (WEEK - 4, 10, 0.08)
    again = [(WEEK + DAY, 10, 0.08), fall, between, fall, between, fall, (20, 10, 0.08)]
    second = WEEK + DAY
    decay = [(8 * DAY, 10, 0.06), *((4, 10, 0.06 + 0.14 * i / 51) for i in range(52)), (8 * DAY, 10, 0.2)]
    return [
        Scenario(
            "weekend", "weekends at a third of the traffic fail 14 instead of 8 %: silent from the second one on",
            [Evaluations([weekday, weekend] * 3)],
            [fires(0, 5 * DAY), fires(8 * DAY, 3 * WEEK - 1)],
        ),
        Scenario(
            "again", "an incident of four hours pages, and pages a week later; the third time it is a rhythm",
            [Evaluations(again)],
            [fires(0, second), fires(second, second + 2, DROP), fires(second + WEEK, second + WEEK + 2, DROP), fires(second + 2 * WEEK - 24, second + 2 * WEEK + 24)],
        ),
        Scenario(
            "nightly", "nights that are worse from the first day on are known on the second one",
            [Evaluations([(2, 10, 0.05), *[(4, 10, 0.20), (20, 10, 0.05)] * 5])],
            [fires(DAY, 5 * DAY)],
        ),
        # Evaluated every half hour instead of every hour, RagtraceQualityCreep opens a ticket for the worse days, too.
        Scenario(
            "later", "nights that become worse after eight good days page twice, then they are known",
            [Evaluations([(8 * DAY, 10, 0.05), *[(1, 10, 0.05), (4, 10, 0.22), (19, 10, 0.05)] * 5])],
            [fires(0, 8 * DAY), fires(8 * DAY, 8 * DAY + 12, DROP), fires(9 * DAY, 9 * DAY + 12, DROP), fires(10 * DAY, 13 * DAY)],
        ),
        Scenario("decay", "a decay from 6 to 20 % in 8.5 days is a ticket within three days", [Evaluations(decay)], [fires(0, 8 * DAY), Check(8 * DAY, 11 * DAY, frozenset({(CREEP, TICKET)}))]),
    ]  # fmt: skip


def named(scenario: Scenario, suffix: str) -> Scenario:
    """Returns the case for an application of another name."""
    return replace(scenario, app=f"{scenario.app}{suffix}")
