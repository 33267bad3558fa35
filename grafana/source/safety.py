"""Safety and privacy."""

from panels import (
    AN_HOUR,
    ANSWERS,
    APP,
    BAD_HIGH,
    COUNT,
    GREEN,
    RED,
    TIME,
    YELLOW,
    Column,
    M,
    Page,
    link,
    runbook,
    to_answers,
    weighted,
)
from rule import DECIDED, share, wilson

UNSAFE = (
    "pii_leakage|sensitive_data_leakage|contact_information|toxicity.*|fairness_bias.*|critic_.*|sexism|stereotypes"
)
"""The evaluators of safety, as a pattern."""


def safety() -> Page:
    page = Page("ragtrace-safety", "ragtrace · Safety and privacy", "Does it leak, insult, or refuse?")
    _shares(page)
    _checks(page)
    _table(page)
    return page


def _shares(page: Page) -> None:
    """Shares of the answers that leak, insult or refuse."""

    def worst(evaluator: str) -> str:
        select = f'{M},evaluator="{evaluator}"'
        rate = share(
            f'increase(ragtrace_evaluation_weight_total{{{select},verdict="fail"}}[$__range])',
            f"increase(ragtrace_evaluation_weight_total{{{select},{DECIDED}}}[$__range])",
        )
        return f"topk(1, {rate})"

    page.number(
        "Answers with a secret",
        "Evaluated answers that held a key, a token or a password, of the worst application. Metric: `ragtrace_evaluations_total`",
        f'topk(1, sum by (app, env) (increase(ragtrace_evaluations_total{{{M},evaluator="sensitive_data_leakage",verdict="fail"}}[$__range])))',
        ANSWERS, ((None, GREEN), (0.5, RED)), w=6, decimals=0, legend=APP,
        data_links=to_answers(evaluator="sensitive_data_leakage"), links=[runbook("RagtraceSecretLeaked")],
    )  # fmt: skip
    for title, text, evaluator, name in (
        ("Answers with personal data", "hold personal data", "pii_leakage", "RagtraceUnsafeAnswers"),
        ("Toxic answers", "are toxic", "toxicity", "RagtraceUnsafeAnswers"),
        ("Answers that refuse", "decline to answer", "refusal", "RagtraceQualityDrop"),
    ):
        page.number(
            title,
            f"Share of all answers that {text}, weighted by 1/p, of the worst application. Metric: `ragtrace_evaluation_weight_total`",
            worst(evaluator), "percentunit", ((None, GREEN), (0.05, YELLOW), (0.15, RED)) if evaluator == "refusal" else BAD_HIGH,
            w=6, legend=APP, data_links=to_answers(evaluator=evaluator), links=[runbook(name)],
        )  # fmt: skip


def _checks(page: Page) -> None:
    """Failures by check, and their origin."""
    checks = M + f',evaluator=~"{UNSAFE}"'
    page.lines(
        "Failing share by check",
        "Share of answers that fail a safety check, weighted by 1/p, in two hours. Metric: `ragtrace_evaluation_weight_total`",
        [(share(weighted(checks, 'verdict="fail"', "2h"), weighted(checks, DECIDED, "2h"), "app, env, evaluator"), f"{APP} {{{{evaluator}}}}")],
        "percentunit", BAD_HIGH, data_links=to_answers(), aside=True, dashed=" (toxicity|critic|fairness|sexism|stereotypes)",
    )  # fmt: skip
    page.lines(
        "Where leaks come from",
        "Leaking answers in the hour before, weighted by 1/p, by origin: from the chunks (clean the index) or from the model. Metric: `ragtrace_failure_cause_weight_total`",
        [(f'sum by (app, env, cause) (increase(ragtrace_failure_cause_weight_total{{{M},cause=~"leak_.+"}}[1h]))', f"{APP} {{{{cause}}}}")],
        AN_HOUR, dashed=" leak_by_model$", links=[runbook("RagtraceUnsafeAnswers")],
    )  # fmt: skip
    page.lines(
        "Refusals",
        "Answers that refused in the hour before, weighted by 1/p: rightly, for the chunks did not hold the answer, or wrongly. Metric: `ragtrace_failure_cause_weight_total`",
        [(f'sum by (app, env, cause) (increase(ragtrace_failure_cause_weight_total{{{M},cause=~".+_refusal"}}[1h]))', f"{APP} {{{{cause}}}}")],
        AN_HOUR, dashed=" wrong_refusal$",
    )  # fmt: skip


def _table(page: Page) -> None:
    """Failing shares by application and check, with their bounds."""
    failed = f'increase(ragtrace_evaluation_{{}}_total{{{{{M},evaluator=~"{UNSAFE}|refusal",{{}}}}}}[$__range])'
    by = "app, env, evaluator"
    fails = "sum by ({}) ({})".format(by, failed.format("weight", 'verdict="fail"'))
    weight = f"(sum by ({by}) ({failed.format('weight', DECIDED)}) > 0)"
    samples = f"({weight} ^ 2 / (sum by ({by}) ({failed.format('weight_squared', DECIDED)}) > 0))"
    page.columns(
        "Failures by application and check",
        "Share of answers that fail in the time shown, weighted by 1/p, with its 95 % bounds and effective evaluations n. Metric: `ragtrace_evaluation_weight_total`",
        {"app": "application", "env": "environment", "evaluator": "check"},
        [Column("fails", f"({fails} / {weight}) > 0"), Column("at least", f"{wilson(f'({fails} / {weight})', samples, '-')} and {fails} > 0"), Column("at most", f"{wilson(f'({fails} / {weight})', samples, '+')} and {fails} > 0"), Column("n", f"{samples} and {fails} > 0", COUNT)],
        w=12, h=8, sort="fails",
        data_links=[link("The answers", "${chatlog_url}/traces?app=${__data.fields.application}&env=${__data.fields.environment}" f"&evaluator=${{__data.fields.check}}&label=fail{TIME}")],
    )  # fmt: skip
