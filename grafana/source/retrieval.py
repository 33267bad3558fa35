"""What is found, and what comes of it."""

from panels import (
    AN_HOUR,
    APP,
    BAD,
    BAD_HIGH,
    CHUNKS,
    GREEN,
    RED,
    YELLOW,
    M,
    Page,
    S,
    T,
    quantile,
    runbook,
    to_answers,
)
from rule import share


def retrieval() -> Page:
    page = Page("ragtrace-retrieval", "ragtrace · Retrieval", "Does it find the right chunks?")
    _numbers(page)
    _relevance(page)
    _scores_and_causes(page)
    return page


def worst(expr: str) -> str:
    return f"topk(1, {expr})"


def _numbers(page: Page) -> None:
    """The figures of the time that is shown."""
    page.number(
        "Empty retrievals, worst application",
        "Share of the retrievals that found nothing. Metric: `ragtrace_retrieval_empty_total`",
        worst(share(f"increase(ragtrace_retrieval_empty_total{{{S}}}[$__range])", f"increase(ragtrace_retrieved_documents_count{{{S}}}[$__range])")),
        "percentunit", BAD_HIGH, w=6, legend=APP, links=[runbook("RagtraceRetrievalEmpty")],
    )  # fmt: skip
    page.number(
        "Documents a request", "Mean number of chunks that the model saw. Metric: `ragtrace_retrieved_documents`",
        share(f"increase(ragtrace_retrieved_documents_sum{{{S}}}[$__range])", f"increase(ragtrace_retrieved_documents_count{{{S}}}[$__range])", by=""),
        CHUNKS, w=6, decimals=1,
    )  # fmt: skip
    page.number(
        "Failures that retrieval caused, worst application",
        "Of the bad answers whose cause is known, the share that had nothing retrieved or irrelevant chunks, weighted by 1/p. Metric: `ragtrace_failure_cause_weight_total`",
        worst(share(f'increase(ragtrace_failure_cause_weight_total{{{M},cause=~"answered_without_context|nothing_retrieved|irrelevant_context"}}[$__range])', f"increase(ragtrace_failure_cause_weight_total{{{M},{BAD}}}[$__range])")),
        "percentunit", w=6, legend=APP,
    )  # fmt: skip
    page.number(
        "Retrieval p95", "95th percentile of the time for retrieval. Metric: `ragtrace_stage_duration_seconds`",
        quantile(0.95, "ragtrace_stage_duration_seconds", S + ',stage="retrieval"', window="$__range"), "s",
        ((None, GREEN), (1, YELLOW), (3, RED)), w=6,
    )  # fmt: skip


def _relevance(page: Page) -> None:
    """How relevant the chunks are, and how often there are no chunks."""
    context = M + ',evaluator="context_relevancy_recall"'
    page.lines(
        "Relevance of the chunks",
        "Weighted mean of the scores of `context_relevancy_recall`. Metric: `ragtrace_evaluation_weighted_score_total`",
        [(share(f"rate(ragtrace_evaluation_weighted_score_total{{{context}}}[30m])", f'rate(ragtrace_evaluation_weight_total{{{context},verdict=~"pass|fail|none"}}[30m])'), APP)],
        "percentunit", high=1, data_links=to_answers(evaluator="context_relevancy_recall"),
    )  # fmt: skip
    page.lines(
        "Empty retrievals",
        "Share of the retrievals that found nothing, in half an hour. Metric: `ragtrace_retrieval_empty_total`",
        [(share(f"rate(ragtrace_retrieval_empty_total{{{S}}}[30m])", f"rate(ragtrace_retrieved_documents_count{{{S}}}[30m])"), APP)],
        "percentunit", ((None, "transparent"), (0.05, RED)), line=True,
        links=[runbook("RagtraceRetrievalEmpty"), runbook("RagtraceRetrievalDown")],
    )  # fmt: skip


def _scores_and_causes(page: Page) -> None:
    """The retriever's own scores, and which failures retrieval causes."""
    page.heat(
        "The retriever's best score",
        "How many retrievals had which best score, on the retriever's own scale. A shift down: the index or the questions "
        "changed. Metric: `ragtrace_retrieval_top_score`",
        f"sum by (le) (increase(ragtrace_retrieval_top_score_bucket{{{S}}}[$__rate_interval]))",
    )
    page.heat(
        "Chunks a request",
        "How many requests had how many chunks. Metric: `ragtrace_retrieved_documents`",
        f"sum by (le) (increase(ragtrace_retrieved_documents_bucket{{{S}}}[$__rate_interval]))",
    )
    page.lines(
        "Causes of bad answers",
        "Bad answers an hour by cause, weighted by 1/p. `answered_without_context`, `irrelevant_context` and `nothing_retrieved` are retrieval's. Metric: `ragtrace_failure_cause_weight_total`",
        [(f"sum by (cause) (rate(ragtrace_failure_cause_weight_total{{{M},{BAD}}}[30m])) * 3600", "{{cause}}")], AN_HOUR,
        stacked=True, aside=True,
    )  # fmt: skip
    page.lines(
        "Retrieval failed, generation failed",
        "Failed evaluations an hour, not weighted: where the context itself failed, and where the answer did though the context did not. Metric: `ragtrace_evaluation_failures_total`",
        [(f'sum by (app, env, evaluator, kind) (rate(ragtrace_evaluation_failures_total{{{T},kind=~"retrieval|generation"}}[30m])) * 3600', f"{APP} {{{{evaluator}}}} {{{{kind}}}}")],
        AN_HOUR, dashed=" generation$",
    )  # fmt: skip
