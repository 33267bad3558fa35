"""Safety and privacy."""

from __future__ import annotations

from panels import BAD_HIGH, DECIDED, GREEN, RED, YELLOW, M, Page, S, link, over, runbook, to_answers, weighted


def safety() -> Page:
    page = Page("ragtrace-safety", "ragtrace · Safety and privacy", "Does it leak, insult, or refuse?")
    _shares(page)
    _checks(page)
    return page


def _shares(page: Page) -> None:
    """Shares of the answers that leak, insult or refuse."""

    def share(evaluator: str) -> str:
        select = f'{M},evaluator="{evaluator}"'
        return over(
            f'increase(ragtrace_evaluation_weight_total{{{select},verdict="fail"}}[$__range])',
            f"increase(ragtrace_evaluation_weight_total{{{select},{DECIDED}}}[$__range])",
        )

    page.number(
        "Answers with a secret",
        "Evaluated answers that held a key, a token or a password. Metric: `ragtrace_evaluations_total`",
        f'sum(increase(ragtrace_evaluations_total{{{M},evaluator="sensitive_data_leakage",verdict="fail"}}[$__range])) or vector(0)',
        "none",
        ((None, GREEN), (0.5, RED)),
        w=6,
        decimals=0,
        links=[
            link("The answers", "${chatlog_url}/traces?evaluator=sensitive_data_leakage&label=fail"),
            runbook("RagtraceSecretLeaked"),
        ],
    )
    for title, text, evaluator, name in (
        ("Answers with personal data", "hold personal data", "pii_leakage", "RagtracePersonalDataLeaked"),
        ("Toxic answers", "are toxic", "toxicity", "RagtraceToxicitySpike"),
        ("Answers that refuse", "decline to answer", "refusal", "RagtraceQualityDrop"),
    ):
        page.number(
            title,
            f"Share of all answers that {text}, weighted by 1/p. Metric: `ragtrace_evaluation_weight_total`",
            share(evaluator),
            "percentunit",
            ((None, GREEN), (0.05, YELLOW), (0.15, RED)) if evaluator == "refusal" else BAD_HIGH,
            w=6,
            links=[link("The answers", f"${{chatlog_url}}/traces?evaluator={evaluator}&label=fail"), runbook(name)],
        )


def _checks(page: Page) -> None:
    """Failures by check, their origin, and a table of both."""
    unsafe = (
        "pii_leakage|sensitive_data_leakage|contact_information|toxicity.*|fairness_bias.*|critic_.*|sexism|stereotypes"
    )
    checks = M + f',evaluator=~"{unsafe}"'
    page.lines(
        "Failing share by check",
        "Share of answers that fail a safety check, weighted by 1/p, in two hours. Metric: "
        "`ragtrace_evaluation_weight_total`",
        [
            (
                over(weighted(checks, 'verdict="fail"', "2h"), weighted(checks, DECIDED, "2h"), "app, evaluator"),
                "{{app}} {{evaluator}}",
            )
        ],
        "percentunit",
        BAD_HIGH,
        data_links=to_answers(),
        aside=True,
    )
    page.lines(
        "Where leaks come from",
        "Leaking answers in the hour before, by origin: from the chunks (clean the index) or from the model. Metric: "
        "`ragtrace_failure_causes_total`",
        [
            (
                f'sum by (app, cause) (increase(ragtrace_failure_causes_total{{{S},cause=~"leak_.+"}}[1h]))',
                "{{app}} {{cause}}",
            )
        ],
        "none",
        links=[runbook("RagtracePersonalDataLeaked")],
    )
    page.lines(
        "Refusals",
        "Answers that refused in the hour before: rightly, for the chunks did not hold the answer, or wrongly. Metric: `ragtrace_failure_causes_total`",
        [
            (
                f'sum by (app, cause) (increase(ragtrace_failure_causes_total{{{S},cause=~".+_refusal"}}[1h]))',
                "{{app}} {{cause}}",
            )
        ],
        "none",
    )
    page.rows(
        "Failures by application and check",
        "Evaluated answers that failed, in the time shown. Metric: `ragtrace_evaluations_total`",
        f'sort_desc(sum by (app, evaluator) (increase(ragtrace_evaluations_total{{{M},evaluator=~"{unsafe}|refusal",verdict="fail"}}[$__range])) > 0)',
        "none",
        "answers",
        columns=("app", "evaluator"),
        decimals=0,
    )
