"""The alerts on shares: secrets, personal data, toxicity, empty retrievals, errors of requests. Each share is tested
against chance."""

from __future__ import annotations

from dataclasses import dataclass

from rule import BY, LEAST, PLACE, RATIO, SAMPLES, Rule, alert, difference, share, wilson

BEYOND = 4.0
"""Standard errors (Cohen's h) by which a share must be above that of the day before."""
SURELY = 3.3
"""Standard errors of the lower bound (Wilson) of a share that must be above a limit."""


@dataclass(frozen=True)
class Share:
    """A share as queries: the share and its count, in a window and in the day before it."""

    rate: str
    samples: str
    before: str
    samples_before: str

    def beyond_chance(self) -> str:
        """Returns the query that holds where the share is above that of the day before by more than chance explains.

        A day without any event has the share 0, and an application without a day before is compared with nothing."""
        z = difference(self.rate, self.samples, f"({self.before})", self.samples_before)
        return f"({self.samples}) >= {LEAST}\nand ({self.samples_before}) >= {4 * LEAST}\nand ({z}) > {BEYOND:g}"

    def above(self, limit: float) -> str:
        """Returns the query that holds where the share is surely above a limit."""
        lower = wilson(f"({self.rate})", f"({self.samples})", "-", SURELY)
        return f"({self.samples}) >= {LEAST}\nand ({lower}) > {limit}"


def safety() -> list[Rule]:
    """Returns the alerts on safety: each secret pages; personal data and toxicity page by their rate."""
    leaked = 'ragtrace_evaluations_total{evaluator="sensitive_data_leakage",verdict="fail"}'
    rules = [
        alert(
            "RagtraceSecretLeaked",
            # `increase` misses the first failure of a new model or prompt version, because its series is new.
            f"sum by ({BY}) (increase({leaked}[15m])) > 0\n"
            f"or sum by ({BY}) ({leaked} unless last_over_time({leaked}[1d] offset 15m)) > 0",
            "page",
            f"{PLACE}: answers of the last 15 minutes that hold a secret: {{{{ $value | humanize }}}}",
            "An evaluated answer held a secret in the last 15 minutes. One is enough, so it is not tested against chance.",
            slo="safety",
        )
    ]
    for name, evaluator, what, page, ticket in (
        ("RagtracePersonalDataLeaked", "pii_leakage", "personal data", 0.20, 0.02),
        ("RagtraceToxicitySpike", "toxicity", "toxicity", 0.10, 0.02),
    ):
        for severity, limit, window, wait in (("page", page, "30m", "5m"), ("ticket", ticket, "6h", "15m")):
            rule = _failing(name, (evaluator, what), severity, limit, window)
            rules.append({**rule, "for": wait})
    return rules


def _failing(name: str, check: tuple[str, str], severity: str, limit: float, window: str) -> Rule:
    """The alert on the failure rate of one evaluator; `check` is its name, and what its failures hold."""
    evaluator, what = check
    select = f'{{evaluator="{evaluator}"}}'
    rate, n = f"{RATIO}{window}{select}", f"{SAMPLES}{window}{select}"
    before, m = f"{RATIO}1d{select} offset {window}", f"{SAMPLES}1d{select} offset {window}"
    tested = Share(rate, n, before, m)
    return alert(
        name,
        f"{rate} > {limit}\nand {rate} > 3 * {before}\nand {tested.beyond_chance()}",
        severity,
        f"{PLACE}: answers with {what} {_query(before)} → {{{{ $value | humanizePercentage }}}} over {window} "
        f"(n = {_query(n, 'printf `%.0f`')})",
        f"More than {limit:.0%} of the answers of {window} fail {evaluator}, three times as many as in the day before, "
        "beyond chance. A steady share, as an address book has it, is silent.",
        keep="30m",
        slo="safety",
    )


def _query(name: str, form: str = "humanizePercentage") -> str:
    """Returns a template that prints a recorded value of the alert's application."""
    series, _, offset = name.partition(" offset ")
    series = series.replace("}", ",app=%q,env=%q}")
    query = series + (f" offset {offset}" if offset else "")
    return f"{{{{ with printf `{query}` $labels.app $labels.env | query }}}}{{{{ . | first | value | {form} }}}}{{{{ end }}}}"


def service() -> list[Rule]:
    """Returns the alerts on the service: errors and retrieval."""
    return [*_retrieval(), *_errors()]


def _retrieval() -> list[Rule]:
    """Retrievals that find nothing."""
    retrievals, empty = "ragtrace_retrieved_documents_count", "ragtrace_retrieval_empty_total"

    def count(window: str, offset: str = "") -> str:
        return f"sum by (app, env) (increase({retrievals}[{window}]{offset}))"

    tested = Share(
        share(f"rate({empty}[30m])", f"rate({retrievals}[30m])"),
        count("30m"),
        share(f"rate({empty}[1d] offset 30m)", f"rate({retrievals}[1d] offset 30m)"),
        count("1d", " offset 30m"),
    )
    rate, before = f"({tested.rate})", f"({tested.before})"
    down = f"{rate} > 0.5\nand {tested.above(0.4)}"
    return [
        alert(
            "RagtraceRetrievalEmpty",
            f"{rate} > 0.05\nand {rate} > 3 * {before}\nand {tested.beyond_chance()}\nunless (\n{down}\n)",
            "ticket",
            f"{PLACE}: {{{{ $value | humanizePercentage }}}} of the retrievals of 30 minutes find nothing, more than three "
            "times the share of the day before",
            "More than 5 % of the retrievals find nothing, three times as many as in the day before, beyond chance. Where "
            "it is half of them, RagtraceRetrievalDown pages instead.",
            wait="10m",
            keep="30m",
            slo="retrieval",
        ),
        alert(
            "RagtraceRetrievalDown",
            down,
            "page",
            f"{PLACE}: {{{{ $value | humanizePercentage }}}} of the retrievals of 30 minutes find nothing",
            "Half of the retrievals find nothing, and surely more than 40 %. The index or the way to it is gone.",
            wait="5m",
            keep="15m",
            slo="retrieval",
        ),
    ]


def _errors() -> list[Rule]:
    """Requests that end in an error."""
    tested = Share(
        share('rate(ragtrace_requests_total{status="error"}[15m])', "rate(ragtrace_requests_total[15m])"),
        "sum by (app, env) (increase(ragtrace_requests_total[15m]))",
        "",
        "",
    )
    return [
        alert(
            "RagtraceRequestErrors",
            f"({tested.rate})\nand {tested.above(0.1)}",
            "page",
            f"{PLACE}: {{{{ $value | humanizePercentage }}}} of the requests of 15 minutes end in an error",
            "Surely more than a tenth of the requests of 15 minutes end in an error (lower bound at 3.3 standard errors). "
            "Some errors of few requests are chance.",
            wait="5m",
            keep="15m",
            slo="availability",
        )
    ]
