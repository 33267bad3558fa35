"""The recording rules and alerts, written by one program: python grafana/source/rules.py [--check]"""

from __future__ import annotations

import sys

import quality
import yaml
from output import write
from rule import BY, DECIDED, LEAST, SAMPLES, Rule, alert, recorded, share


def safety() -> list[Rule]:
    """Returns the alerts on safety: each secret pages; personal data and toxicity page by their rate."""

    def rate_of(evaluator: str, window: str, offset: str = "") -> str:
        select = f'evaluator="{evaluator}"'
        return share(
            f'rate(ragtrace_evaluation_weight_total{{{select},verdict="fail"}}[{window}]{offset})',
            f"rate(ragtrace_evaluation_weight_total{{{select},{DECIDED}}}[{window}]{offset})",
            BY,
        )

    leaked = 'ragtrace_evaluations_total{evaluator="sensitive_data_leakage",verdict="fail"}'
    rules = [
        alert(
            "RagtraceSecretLeaked",
            # `increase` misses the first failure of a new model or prompt version, because its series is new.
            f"sum by ({BY}) (increase({leaked}[15m])) > 0\n"
            f"or sum by ({BY}) ({leaked} unless last_over_time({leaked}[1d] offset 15m)) > 0",
            "page",
            "{{ $labels.app }}: answers of the last 15 minutes that hold a secret: {{ $value | humanize }}",
            slo="safety",
        )
    ]
    for name, evaluator, page, ticket in (
        ("RagtracePersonalDataLeaked", "pii_leakage", 0.20, 0.02),
        ("RagtraceToxicitySpike", "toxicity", 0.10, 0.02),
    ):
        what = "hold personal data" if evaluator == "pii_leakage" else "are toxic"
        for severity, limit, window, wait in (("page", page, "30m", "5m"), ("ticket", ticket, "6h", "15m")):
            rules.append(
                alert(
                    name,
                    f"({rate_of(evaluator, window)}) > {limit}\n"
                    f"and ({rate_of(evaluator, window)}) > 3 * ({rate_of(evaluator, '1d', f' offset {window}')} or "
                    f"0 * ({rate_of(evaluator, window)}))\n"
                    f'and {SAMPLES}{window}{{evaluator="{evaluator}"}} >= {LEAST}',
                    severity,
                    f"{{{{ $labels.app }}}}: {{{{ $value | humanizePercentage }}}} of the answers of {window} {what}, more "
                    "than three times the share of the day before",
                    wait=wait,
                    keep="30m",
                    slo="safety",
                )
            )
    return rules


PRESENCE = "app:ragtrace_build_info:seen"
LEAST_RUNS = 10
"""The least number of an evaluator's runs in half an hour that say whether it works."""


def silence() -> list[Rule]:
    """Returns the alerts on blindness: failures of the monitoring itself."""
    return [*_absence(), *_evaluators(), *_judge_and_exports()]


def _absence() -> list[Rule]:
    """No scrape and no evaluation."""
    sampled = 'sum by (app, env) (increase(ragtrace_sampling_decisions_total{decision="sampled"}[30m]))'
    evaluated = 'sum by (app, env) (increase(ragtrace_evaluations_total{verdict!="error"}[30m]))'
    return [
        recorded(PRESENCE, "group by (app, env) (ragtrace_build_info)"),
        alert(
            "RagtraceTelemetryAbsent",
            "absent(ragtrace_build_info)",
            "page",
            "No application reports to this Prometheus: nothing is watched",
            wait="10m",
        ),
        alert(
            "RagtraceApplicationGone",
            f"last_over_time({PRESENCE}[7d]) unless on (app, env) {PRESENCE}",
            "ticket",
            "{{ $labels.app }}: reported in the last seven days and no longer does",
            wait="15m",
        ),
        alert(
            "RagtraceEvaluationsStalled",
            f"{sampled} > 0\nunless on (app, env) {evaluated} > 0",
            "page",
            "{{ $labels.app }}: {{ $value | humanize }} requests of 30 minutes were to be evaluated, none was",
            wait="15m",
        ),
    ]


def _evaluators() -> list[Rule]:
    """Evaluators that fail, say nothing or come late; requests that are dropped."""
    errors = share(
        'rate(ragtrace_evaluations_total{verdict="error"}[30m])', "rate(ragtrace_evaluations_total[30m])", BY
    )
    runs = f"sum by ({BY}) (increase(ragtrace_evaluations_total[30m]))"
    return [
        alert(
            "RagtraceEvaluatorBlind",
            f"({errors}) > 0.5\nand {runs} >= {LEAST_RUNS}",
            "page",
            "{{ $labels.app }}: {{ $labels.evaluator }} fails in {{ $value | humanizePercentage }} of its runs: nobody "
            "would see the answers become worse",
            wait="15m",
            keep="15m",
        ),
        alert(
            "RagtraceEvaluatorErrors",
            f"({errors}) > 0.1",
            "ticket",
            "{{ $labels.app }}: {{ $labels.evaluator }} fails to give a score for {{ $value | humanizePercentage }} of "
            "requests",
            wait="15m",
            keep="15m",
        ),
        alert(
            "RagtraceEvaluatorSilent",
            f"sum by ({BY}) (increase(ragtrace_evaluation_eligible_total[2h])) > {LEAST}\n"
            f'unless sum by ({BY}) (increase(ragtrace_evaluations_total{{verdict=~"pass|fail|none"}}[2h])) > 0',
            "ticket",
            "{{ $labels.app }}: {{ $labels.evaluator }} gave no value for {{ $value | humanize }} requests of 2 hours",
            wait="15m",
        ),
        alert(
            "RagtraceEvaluationLag",
            "histogram_quantile(0.95, sum by (app, env, le) (rate(ragtrace_evaluation_lag_seconds_bucket[15m]))) > 300",
            "ticket",
            "{{ $labels.app }}: scores come {{ $value | humanizeDuration }} after the requests (p95)",
            wait="15m",
            keep="15m",
        ),
        alert(
            "RagtraceEvaluationsDropped",
            share(
                "rate(ragtrace_pipeline_dropped_total[30m])",
                'rate(ragtrace_sampling_decisions_total{decision="sampled"}[30m])',
            )
            + " > 0.1",
            "ticket",
            "{{ $labels.app }}: {{ $value | humanizePercentage }} of the sampled requests are dropped before they are "
            "evaluated",
            wait="15m",
            keep="15m",
        ),
    ]


def _judge_and_exports() -> list[Rule]:
    """A judge without a budget or unreadable; failed exports."""
    lost = "sum by (app, env, sink) (rate(ragtrace_export_failures_total[15m]))"
    sent = "sum by (app, env, sink) (rate(ragtrace_export_items_total[15m]))"
    return [
        alert(
            "RagtraceJudgeBudgetGone",
            f'sum by ({BY}) (increase(ragtrace_evaluator_errors_total{{reason="judge_budget"}}[15m])) > 0',
            "ticket",
            "{{ $labels.app }}: {{ $labels.evaluator }} went unanswered {{ $value | humanize }} times: the judge's budget "
            "is used up",
            wait="5m",
            keep="15m",
        ),
        alert(
            "RagtraceJudgeUnreadable",
            share(
                'rate(ragtrace_evaluator_errors_total{reason="parse_failure"}[1h])',
                "rate(ragtrace_evaluations_total[1h]) and on (app, env, evaluator) ragtrace_judge_cost_usd_total",
                BY,
            )
            + " > 0.1",
            "ticket",
            "{{ $labels.app }}: {{ $value | humanizePercentage }} of the judge's answers to {{ $labels.evaluator }} cannot "
            "be read",
            wait="15m",
            keep="15m",
        ),
        alert(
            "RagtraceExportFailing",
            f"{lost} / (({sent} or 0 * {lost}) + {lost} > 0) > 0.01",
            "ticket",
            "{{ $labels.app }}: {{ $value | humanizePercentage }} of the {{ $labels.sink }} could not be exported",
            wait="10m",
            keep="15m",
        ),
    ]


def service() -> list[Rule]:
    """Returns the alerts on the service: errors and retrieval."""
    empty = share("rate(ragtrace_retrieval_empty_total[30m])", "rate(ragtrace_retrieved_documents_count[30m])")
    before = share(
        "rate(ragtrace_retrieval_empty_total[1d] offset 30m)", "rate(ragtrace_retrieved_documents_count[1d] offset 30m)"
    )
    errors = share('rate(ragtrace_requests_total{status="error"}[15m])', "rate(ragtrace_requests_total[15m])")
    enough = "sum by (app, env) (increase(ragtrace_retrieved_documents_count[30m])) >= 30"
    return [
        alert(
            "RagtraceRetrievalEmpty",
            f"({empty}) > 0.05\nand ({empty}) > 3 * ({before} or 0 * ({empty}))\nand {enough}",
            "ticket",
            "{{ $labels.app }}: {{ $value | humanizePercentage }} of the retrievals find nothing, more than three times "
            "the share of the day before",
            wait="10m",
            keep="30m",
            slo="retrieval",
        ),
        alert(
            "RagtraceRetrievalDown",
            f"({empty}) > 0.5\nand {enough}",
            "page",
            "{{ $labels.app }}: {{ $value | humanizePercentage }} of the retrievals find nothing",
            wait="5m",
            keep="15m",
            slo="retrieval",
        ),
        alert(
            "RagtraceRequestErrors",
            f"({errors}) > 0.1\nand sum by (app, env) (increase(ragtrace_requests_total[15m])) >= 30",
            "page",
            "{{ $labels.app }}: {{ $value | humanizePercentage }} of the requests end in an error",
            wait="5m",
            keep="15m",
            slo="availability",
        ),
    ]


def files() -> dict[str, str]:
    """Returns the text of each file, by its path below grafana/."""
    groups = {
        "rates": quality.rates(),
        "comparisons": [*quality.objectives(), *quality.bounds(), *quality.comparisons()],
        "quality": [*quality.burns(), *quality.drops(), *quality.unknown()],
        "safety": safety(),
        "blindness": silence(),
        "service": service(),
    }
    objectives = [
        recorded("ragtrace_objective", f"vector({v})", evaluator=name) for name, v in quality.OBJECTIVES.items()
    ]
    head = "# Written by grafana/source/rules.py; change that, and run it.\n"
    own = (
        "# Share of answers that shall pass, by evaluator. For one application's own, add a rule with its name:\n"
        "#   - {record: ragtrace_objective, expr: vector(0.95), labels: {evaluator: faithfulness, app: my-app}}\n"
    )
    texts = {f"rules/ragtrace-{name}.yml": head + _yaml(name, rules) for name, rules in groups.items()}
    return texts | {"rules/objectives.yml": own + _yaml("objectives", objectives)}


class _Dumper(yaml.SafeDumper):
    pass


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _yaml(name: str, rules: list[Rule]) -> str:
    groups = [{"name": f"ragtrace-{name}", "interval": "1m", "rules": rules}]
    return str(yaml.dump({"groups": groups}, Dumper=_Dumper, sort_keys=False, width=1_000, allow_unicode=True))


if __name__ == "__main__":
    sys.exit(write("rules", files()))
