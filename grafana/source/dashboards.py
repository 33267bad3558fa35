"""The dashboards, written by one program: python grafana/source/dashboards.py [--check]

Four questions: is it answering well, does it find the right chunks, is it safe, and can the first three be trusted. Each
panel says what it shows, by which metric, and leads on: to the answers behind it, to their traces, to what to do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as c
from grafana_foundation_sdk.models import dashboard as d

HERE = Path(__file__).resolve().parents[1]
RUNBOOKS = "https://github.com/ragtrace/ragtrace/blob/main/docs/runbooks"
SOURCE = d.DataSourceRef(type_val="prometheus", uid="${datasource}")
S = 'env=~"$env",app=~"$app"'
M = S + ',model=~"$model",prompt_version=~"$prompt_version"'
E = M + ',evaluator=~"$evaluator"'
DECIDED = 'verdict=~"pass|fail"'
GREEN, YELLOW, RED, BLUE = "green", "#EAB839", "red", "blue"
HIDDEN = {"legend": True, "tooltip": False, "viz": False}
Steps = Sequence[tuple[float | None, str]]
GOOD_HIGH: Steps = ((None, RED), (0.8, YELLOW), (0.9, GREEN))
BAD_HIGH: Steps = ((None, GREEN), (0.02, YELLOW), (0.1, RED))
PLAIN: Steps = ((None, BLUE),)
WIDTH = 24
COLORS = {
    "ok": GREEN,
    "scored": GREEN,
    "error": RED,
    "failed": RED,
    "cancelled": YELLOW,
    "dropped": "orange",
    "sampled_out": "gray",
}
"""Of series whose names say how good they are."""


def thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    made = [d.Threshold(value=value, color=color) for value, color in steps]
    return dashboard.ThresholdsConfig().mode(d.ThresholdsMode.ABSOLUTE).steps(made)


def query(
    expr: str, legend: str = "", *, ref: str = "A", instant: bool = False, form: str = ""
) -> prometheus.Dataquery:
    made = prometheus.Dataquery().expr(expr).ref_id(ref).datasource(SOURCE).legend_format(legend or "__auto")
    made = made.instant() if instant else made.range()
    return made.format(form) if form else made  # type: ignore[arg-type]


def to_answers(verdict: str = "fail", evaluator: str = "${__field.labels.evaluator}") -> list[dashboard.DashboardLink]:
    """From a series to the answers behind it, in the console."""
    url = (
        "${chatlog_url}/traces?app=${__field.labels.app}&evaluator=" + evaluator + f"&label={verdict}"
        "&since=${__from:date:iso}&until=${__to:date:iso}"
    )
    return [link("The answers behind it", url)]


def link(title: str, url: str) -> Any:
    return dashboard.DashboardLink(title).url(url).type(d.DashboardLinkType.LINK).target_blank(True)


def runbook(alert: str) -> Any:
    return link(f"Runbook: {alert}", f"{RUNBOOKS}/{alert}.md")


class Page:
    """A dashboard under construction: panels flow from left to right, and know their ids."""

    def __init__(self, uid: str, title: str, text: str) -> None:
        self.uid = uid
        self.made = (
            dashboard.Dashboard(title)
            .uid(uid)
            .description(text)
            .tags(["ragtrace"])
            .readonly()
            .time("now-6h", "now")
            .refresh("1m")
            .tooltip(d.DashboardCursorSync.CROSSHAIR)
            .timezone("browser")
        )
        self._x = self._y = self._row = self._id = 0
        for variable in variables():
            self.made = self.made.with_variable(variable)
        self.made = self.made.link(
            dashboard.DashboardLink("ragtrace").type(d.DashboardLinkType.DASHBOARDS).tags(["ragtrace"])
            .as_dropdown(False).include_vars(True).keep_time(True)
        ).annotation(
            dashboard.AnnotationQuery()
            .name("Alerts")
            .datasource(SOURCE)
            .enable(True)
            .icon_color(RED)
            .expr(f'ALERTS{{alertname=~"Ragtrace.*",alertstate="firing",{S}}}')
        )  # fmt: skip

    def row(self, title: str) -> None:
        """A heading over what follows."""
        self._break()
        self._id += 1
        made = dashboard.Row(title).id(self._id).grid_pos(d.GridPos(h=1, w=WIDTH, x=0, y=self._y))
        self.made = self.made.with_row(made)
        self._y += 1

    def _break(self) -> None:
        if self._x:
            self._y += self._row
            self._x = self._row = 0

    def _place(self, panel: Any, w: int, h: int) -> Any:
        if self._x + w > WIDTH:
            self._break()
        self._id += 1
        panel = panel.id(self._id).grid_pos(d.GridPos(h=h, w=w, x=self._x, y=self._y)).datasource(SOURCE)
        self._x += w
        self._row = max(self._row, h)
        self.made = self.made.with_panel(panel)
        return panel

    def number(
        self, title: str, text: str, expr: str, unit: str, steps: Steps = PLAIN, *, w: int = 4, links: Sequence[Any] = (),
        none: str = "no data", decimals: float | None = None,
    ) -> None:  # fmt: skip
        """One figure for the time that is shown."""
        made = (
            stat.Panel().title(title).description(text).unit(unit).thresholds(thresholds(steps)).no_value(none)
            .color_mode(c.BigValueColorMode.VALUE).graph_mode(c.BigValueGraphMode.NONE)
            .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
            .color_scheme(dashboard.FieldColor().mode(d.FieldColorModeId.THRESHOLDS))
            .with_target(query(expr, instant=True)).links(list(links))
        )  # fmt: skip
        self._place(made if decimals is None else made.decimals(decimals), w, 4)

    def lines(
        self, title: str, text: str, queries: Sequence[tuple[str, str]], unit: str, steps: Steps = PLAIN, *, w: int = 12,
        h: int = 8, links: Sequence[Any] = (), data_links: Sequence[Any] = (), low: float | None = 0, high: float | None = None,
        shown: float | None = None, stacked: bool = False, line: bool = False, aside: bool = False, dots: int = 0, bounds: str = "",
    ) -> None:  # fmt: skip
        """Curves over time. With `line` the thresholds are drawn; `aside` puts a legend of many names to the right; the
        axis reaches `shown` at least; `dots` is the query with exemplars; what matches `bounds` is thin and unnamed."""
        made = (
            timeseries.Panel().title(title).description(text).unit(unit).thresholds(thresholds(steps))
            .legend(common.VizLegendOptions().display_mode(c.LegendDisplayMode.LIST).show_legend(True)
                    .placement(c.LegendPlacement.RIGHT if aside else c.LegendPlacement.BOTTOM))
            .color_scheme(dashboard.FieldColor().mode(d.FieldColorModeId.PALETTE_CLASSIC))
            .tooltip(common.VizTooltipOptions().mode(c.TooltipDisplayMode.MULTI).sort(c.SortOrder.DESCENDING))
            .line_width(2).fill_opacity(30 if stacked else 0).show_points(c.VisibilityMode.NEVER).span_nulls(False)
            .links(list(links)).data_links(list(data_links))
        )  # fmt: skip
        if low is not None:
            made = made.min(low)
        if high is not None:
            made = made.max(high)
        if stacked:
            made = made.stacking(common.StackingConfig().mode(c.StackingMode.NORMAL).group("A"))
        if line:
            made = made.thresholds_style(common.GraphThresholdsStyleConfig().mode(c.GraphThresholdsStyleMode.DASHED))
        if shown is not None:
            made = made.axis_soft_min(shown) if low is None else made.axis_soft_max(shown)
        if bounds:
            thin = {"lineWidth": 1, "lineStyle": {"fill": "dash", "dash": [4, 6]}, "hideFrom": HIDDEN}
            found = [d.DynamicConfigValue(f"custom.{key}", value) for key, value in thin.items()]
            gray = d.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": "gray"})
            made = made.override_by_regexp(f"/{bounds}/", [*found, gray])
        if any(legend in ("{{status}}", "{{outcome}}") for _, legend in queries):
            for name, color in COLORS.items():
                fixed = d.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": color})
                made = made.override_by_name(name, [fixed])
        for i, (expr, legend) in enumerate(queries):
            made = made.with_target(query(expr, legend, ref=chr(65 + i)).exemplar(i == dots))
        self._place(made, w, h)

    def heat(self, title: str, text: str, expr: str, *, w: int = 12, h: int = 8, links: Sequence[Any] = ()) -> None:
        """A histogram over time."""
        made = (
            heatmap.Panel().title(title).description(text).calculate(False).links(list(links))
            .with_target(query(expr, "{{le}}", form="heatmap").exemplar(True))
        )  # fmt: skip
        self._place(made, w, h)

    def rows(
        self, title: str, text: str, expr: str, unit: str, value: str, *, w: int = 12, h: int = 8, decimals: float | None = None,
        columns: Sequence[str], links: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        """A table of the latest values: a column for each label, and the value under that name, or none."""
        order = {name: i for i, name in enumerate((*columns, "Value"))}
        names = {name: name.replace("_", " ") for name in columns} | {"app": "application", "Value": value}
        hidden = {"Time": True} | ({} if value else {"Value": True})
        shaped = {"excludeByName": hidden, "indexByName": order, "renameByName": names}
        made = (
            table.Panel().title(title).description(text).unit(unit).thresholds(thresholds(PLAIN)).links(list(links))
            .with_target(query(expr, instant=True, form="table"))
            .with_transformation(d.DataTransformerConfig("organize", options=shaped))
        )  # fmt: skip
        self._place(made if decimals is None else made.decimals(decimals), w, h)


def variables() -> list[Any]:
    def of(name: str, label: str, expr: str, *, all_value: str = ".*", current: str = "") -> Any:
        made = (
            dashboard.QueryVariable(name).label(label).datasource(SOURCE).query(expr)
            .refresh(d.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(d.VariableSort.ALPHABETICAL_ASC)
            .multi(True).include_all(True).all_value(all_value)
        )  # fmt: skip
        shown = d.VariableOption(text=current or "All", value=current or "$__all")
        return made.current(shown)

    return [
        dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"),
        of("env", "Environment", "label_values(ragtrace_build_info, env)"),
        of("app", "Application", 'label_values(ragtrace_build_info{env=~"$env"}, app)'),
        of("model", "Model", f"label_values(ragtrace_requests_total{{{S}}}, model)"),
        of("prompt_version", "Prompt version", f"label_values(ragtrace_requests_total{{{S}}}, prompt_version)"),
        of("evaluator", "Evaluator", f"label_values(ragtrace_evaluator_info{{{S}}}, evaluator)", current="faithfulness"),
        dashboard.ConstantVariable("chatlog_url").label("Console").value("http://localhost:8400"),
        dashboard.ConstantVariable("trace_url").label("Traces").value("http://localhost:6006/redirects/traces"),
    ]  # fmt: skip


def over(top: str, bottom: str, by: str = "") -> str:
    """A share: both summed, and nothing where there is nothing below."""
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} ({top}) / (sum{grouped} ({bottom}) > 0)"


def quantile(q: float, metric: str, select: str, by: str = "le", window: str = "$__rate_interval") -> str:
    return f"histogram_quantile({q}, sum by ({by}) (rate({metric}_bucket{{{select}}}[{window}])))"


def weighted(select: str, verdict: str, window: str) -> str:
    return f"rate(ragtrace_evaluation_weight_total{{{select},{verdict}}}[{window}])"


F = M + ',evaluator="faithfulness"'
BAD = 'cause!~"none|right_refusal"'


def overview() -> Page:
    page = Page(
        "ragtrace-overview", "ragtrace · Assistant overview", "Is it answering well, and who must look at what?"
    )
    page.number(
        "Faithful answers",
        "Share of all answers that are faithful, weighted by 1/p. Metric: `ragtrace_evaluation_weight_total`",
        over(
            f'increase(ragtrace_evaluation_weight_total{{{F},verdict="pass"}}[$__range])',
            f"increase(ragtrace_evaluation_weight_total{{{F},{DECIDED}}}[$__range])",
        ),
        "percentunit",
        GOOD_HIGH,
        links=[
            link("What failed", "${chatlog_url}/traces?evaluator=faithfulness&label=fail"),
            runbook("RagtraceQualityDrop"),
        ],
    )
    page.number(
        "Faithful, surely at least",
        "Lower bound (95 %) of the worst application's share of faithful answers over 6 hours. Metric: "
        "`app_evaluator:ragtrace_evaluation_fail:wilson_upper6h`",
        f'1 - max(app_evaluator:ragtrace_evaluation_fail:wilson_upper6h{{{S},evaluator="faithfulness"}})',
        "percentunit",
        GOOD_HIGH,
    )
    page.number(
        "Error budget left, 7 days",
        "1 - failures of a week / failures that the objective allows, of the worst application. Below 0 the objective is "
        "missed. Metric: `app_evaluator:ragtrace_evaluation_fail:ratio_ipw_rate7d`",
        f'1 - max(app_evaluator:ragtrace_evaluation_fail:ratio_ipw_rate7d{{{S},evaluator="faithfulness"}}'
        " / on (app, env, evaluator) app_evaluator:ragtrace_evaluation_fail:allowed)",
        "percentunit",
        ((None, RED), (0, YELLOW), (0.25, GREEN)),
        links=[runbook("RagtraceQualityBudgetBurn")],
    )
    page.number(
        "Requests",
        "Requests a second. Metric: `ragtrace_requests_total`",
        f"sum(rate(ragtrace_requests_total{{{M}}}[$__range]))",
        "reqps",
    )
    page.number(
        "Errors",
        "Share of the requests that ended in an error. Metric: `ragtrace_requests_total`",
        over(
            f'rate(ragtrace_requests_total{{{M},status="error"}}[$__range])',
            f"rate(ragtrace_requests_total{{{M}}}[$__range])",
        ),
        "percentunit",
        BAD_HIGH,
        links=[runbook("RagtraceRequestErrors")],
    )
    page.number(
        "Latency p95",
        "95th percentile of the requests' durations. Metric: `ragtrace_request_duration_seconds`",
        quantile(0.95, "ragtrace_request_duration_seconds", S, window="$__range"),
        "s",
        ((None, GREEN), (5, YELLOW), (15, RED)),
    )
    page.row("Quality")
    page.lines(
        "Pass rate",
        "Share of answers that pass, weighted by 1/p, in half an hour. Metric: `ragtrace_evaluation_weight_total`",
        [(
            over(weighted(E, 'verdict="pass"', "30m"), weighted(E, DECIDED, "30m"), "app, evaluator"),
            "{{app}} {{evaluator}}",
        )],
        "percentunit",
        ((None, RED), (0.9, GREEN)),
        low=None,
        high=1,
        shown=0.5,
        line=True,
        data_links=to_answers(),
        links=[runbook("RagtraceQualityDrop")],
    )  # fmt: skip
    page.lines(
        "Failing share with its bounds, 6 hours",
        "Estimate and, dashed, its 95 % bounds (Wilson on Kish's effective samples). Wide bounds: few evaluations. Metric: "
        "`app_evaluator:ragtrace_evaluation_fail:wilson_upper6h`",
        [
            (
                f'app_evaluator:ragtrace_evaluation_fail:{name}6h{{{S},evaluator=~"$evaluator"}}',
                "{{app}} {{evaluator}}" + word,
            )
            for name, word in (("ratio_ipw_rate", ""), ("wilson_upper", " at most"), ("wilson_lower", " at least"))
        ],
        "percentunit",
        shown=0.2,
        bounds=" at (most|least)$",
        data_links=to_answers(),
    )
    page.lines(
        "Burn of the error budget",
        "How many times faster than the objective allows. 1: just used up at the week's end. Metric: "
        "`app_evaluator:ragtrace_evaluation_fail:allowed`",
        [
            (
                f'app_evaluator:ragtrace_evaluation_fail:ratio_ipw_rate{w}{{{S},evaluator=~"$evaluator"}}'
                " / on (app, env, evaluator) app_evaluator:ragtrace_evaluation_fail:allowed",
                "{{app}} {{evaluator}} " + w,
            )
            for w in ("1h", "6h")
        ],
        "none",
        ((None, GREEN), (1, YELLOW), (2.8, RED)),
        line=True,
        links=[runbook("RagtraceQualityBudgetBurn")],
    )
    page.lines(
        "Drop detector",
        "Failing share of an hour beside the day before, in standard errors. Above 4 it pages. Metric: "
        "`app_evaluator:ragtrace_evaluation_fail:zscore1h`",
        [(f'app_evaluator:ragtrace_evaluation_fail:zscore1h{{{S},evaluator=~"$evaluator"}}', "{{app}} {{evaluator}}")],
        "none",
        ((None, GREEN), (3, YELLOW), (4, RED)),
        low=None,
        line=True,
        links=[runbook("RagtraceQualityDrop")],
    )
    page.heat(
        "Faithfulness scores",
        "How many answers had which score, of those that were evaluated (not weighted). Metric: `ragtrace_evaluation_score`",
        f'sum by (le) (increase(ragtrace_evaluation_score_bucket{{{S},evaluator="faithfulness"}}[$__rate_interval]))',
    )
    page.rows(
        "Worst models and prompt versions",
        "Failing share by application, model and prompt version, worst first. Metric: `ragtrace_evaluation_weight_total`",
        "topk(20, "
        + over(
            f'increase(ragtrace_evaluation_weight_total{{{E},verdict="fail"}}[$__range])',
            f"increase(ragtrace_evaluation_weight_total{{{E},{DECIDED}}}[$__range])",
            "app, evaluator, model, prompt_version",
        )
        + ")",
        "percentunit",
        "failing share",
        columns=("app", "evaluator", "model", "prompt_version"),
        decimals=1,
    )
    page.row("Service")
    page.lines(
        "Requests by outcome",
        "Requests a second. Metric: `ragtrace_requests_total`",
        [(f"sum by (status) (rate(ragtrace_requests_total{{{M}}}[$__rate_interval]))", "{{status}}")],
        "reqps",
        stacked=True,
        w=8,
    )
    page.lines(
        "Latency",
        "Percentiles of the requests' durations; a dot is one request. Metric: `ragtrace_request_duration_seconds`",
        [(quantile(q, "ragtrace_request_duration_seconds", S), f"p{int(q * 100)}") for q in (0.5, 0.95)],
        "s",
        w=8,
        dots=1,
        data_links=[link("Trace", "${trace_url}/${__data.fields.trace_id}")],
    )
    page.lines(
        "Time to first token",
        "Percentiles over streamed requests. Metric: `ragtrace_time_to_first_chunk_seconds`",
        [(quantile(q, "ragtrace_time_to_first_chunk_seconds", S), f"p{int(q * 100)}") for q in (0.5, 0.95)],
        "s",
        w=8,
        dots=1,
    )
    page.lines(
        "Time by stage, p95",
        "95th percentile of what each stage of a request takes. Metric: `ragtrace_stage_duration_seconds`",
        [(quantile(0.95, "ragtrace_stage_duration_seconds", S, "le, stage"), "{{stage}}")],
        "s",
        w=8,
    )
    page.lines(
        "Cost an hour",
        "US dollars an hour, of answers (where prices are set) and of the judge. Metric: `ragtrace_cost_usd_total`",
        [(f"sum by (component) (rate(ragtrace_cost_usd_total{{{S}}}[1h])) * 3600", "{{component}}")],
        "currencyUSD",
        stacked=True,
        w=8,
    )
    page.lines(
        "Tokens a second",
        "Tokens by direction. Metric: `ragtrace_tokens_total`",
        [(f"sum by (direction) (rate(ragtrace_tokens_total{{{S}}}[$__rate_interval]))", "{{direction}}")],
        "none",
        stacked=True,
        w=8,
    )
    return page


def retrieval() -> Page:
    page = Page("ragtrace-retrieval", "ragtrace · Retrieval", "Does it find the right chunks?")
    context = M + ',evaluator=~"context_.+"'
    page.number(
        "Empty retrievals",
        "Share of the retrievals that found nothing. Metric: `ragtrace_retrieval_empty_total`",
        over(
            f"increase(ragtrace_retrieval_empty_total{{{S}}}[$__range])",
            f"increase(ragtrace_retrieved_documents_count{{{S}}}[$__range])",
        ),
        "percentunit",
        BAD_HIGH,
        w=6,
        links=[runbook("RagtraceRetrievalEmpty")],
    )
    page.number(
        "Documents a request",
        "Mean number of chunks that the model saw. Metric: `ragtrace_retrieved_documents`",
        over(
            f"increase(ragtrace_retrieved_documents_sum{{{S}}}[$__range])",
            f"increase(ragtrace_retrieved_documents_count{{{S}}}[$__range])",
        ),
        "none",
        w=6,
        decimals=1,
    )
    page.number(
        "Failures that retrieval caused",
        "Of the bad answers whose cause is known, the share that had nothing retrieved or irrelevant chunks. Metric: "
        "`ragtrace_failure_causes_total`",
        over(
            f'increase(ragtrace_failure_causes_total{{{S},cause=~"nothing_retrieved|irrelevant_context"}}[$__range])',
            f"increase(ragtrace_failure_causes_total{{{S},{BAD}}}[$__range])",
        ),
        "percentunit",
        w=6,
    )
    page.number(
        "Retrieval p95",
        "95th percentile of the time for retrieval. Metric: `ragtrace_stage_duration_seconds`",
        quantile(0.95, "ragtrace_stage_duration_seconds", S + ',stage="retrieval"', window="$__range"),
        "s",
        ((None, GREEN), (1, YELLOW), (3, RED)),
        w=6,
    )
    page.lines(
        "Relevance of the chunks",
        "Weighted mean of the context evaluators' scores. Metric: `ragtrace_evaluation_weighted_score_total`",
        [(
            over(
                f"rate(ragtrace_evaluation_weighted_score_total{{{context}}}[30m])",
                f'rate(ragtrace_evaluation_weight_total{{{context},verdict=~"pass|fail|none"}}[30m])',
                "app, evaluator",
            ),
            "{{app}} {{evaluator}}",
        )],
        "percentunit",
        GOOD_HIGH,
        high=1,
        data_links=to_answers(),
    )  # fmt: skip
    page.lines(
        "Empty retrievals",
        "Share of the retrievals that found nothing, in half an hour. Metric: `ragtrace_retrieval_empty_total`",
        [(
            over(
                f"rate(ragtrace_retrieval_empty_total{{{S}}}[30m])", f"rate(ragtrace_retrieved_documents_count{{{S}}}[30m])", "app"
            ),
            "{{app}}",
        )],
        "percentunit",
        ((None, GREEN), (0.05, RED)),
        line=True,
        links=[runbook("RagtraceRetrievalEmpty"), runbook("RagtraceRetrievalDown")],
    )  # fmt: skip
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
        "Evaluated answers by cause, an hour. `irrelevant_context` and `nothing_retrieved` are retrieval's. Metric: "
        "`ragtrace_failure_causes_total`",
        [(f"sum by (cause) (rate(ragtrace_failure_causes_total{{{S},{BAD}}}[30m])) * 3600", "{{cause}}")],
        "none",
        stacked=True,
        aside=True,
    )
    page.lines(
        "Retrieval failed, generation failed",
        "Failed evaluations an hour: where the context itself failed, and where the answer did though the context did "
        "not. Metric: `ragtrace_evaluation_failures_total`",
        [(
            f'sum by (app, evaluator, kind) (rate(ragtrace_evaluation_failures_total{{{S},evaluator=~"$evaluator",kind=~"retrieval|generation"}}[30m])) * 3600',
            "{{app}} {{evaluator}} {{kind}}",
        )],
        "none",
    )  # fmt: skip
    return page


def safety() -> Page:
    page = Page("ragtrace-safety", "ragtrace · Safety and privacy", "Does it leak, insult, or refuse?")

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
    return page


def health() -> Page:
    page = Page("ragtrace-health", "ragtrace · Evaluation health", "Can the other dashboards be trusted?")
    sampled = f'ragtrace_sampling_decisions_total{{{S},decision="sampled"}}'
    page.number(
        "Evaluated",
        "Share of all requests that are evaluated. Metric: `ragtrace_sampling_decisions_total`",
        over(f"increase({sampled}[$__range])", f"increase(ragtrace_sampling_decisions_total{{{S}}}[$__range])"),
        "percentunit",
    )
    page.number(
        "Weight check",
        "What the evaluated requests stand for / requests. Near 1: the weighted figures can be trusted. Metric: "
        "`ragtrace_evaluation_weight_total`",
        f"max(sum by (evaluator) (increase(ragtrace_evaluation_weight_total{{{S}}}[$__range]))) / (sum(increase(ragtrace_requests_total{{{S}}}[$__range])) > 0)",
        "percentunit",
        ((None, RED), (0.7, YELLOW), (0.85, GREEN), (1.2, YELLOW), (1.5, RED)),
    )
    page.number(
        "Effective samples, 6 hours",
        "Of the worst application: below 30 nothing can be said of its faithfulness. Metric: "
        "`app_evaluator:ragtrace_evaluation_effective_samples:increase6h`",
        f'min(app_evaluator:ragtrace_evaluation_effective_samples:increase6h{{{S},evaluator="faithfulness"}})',
        "none",
        ((None, RED), (30, YELLOW), (200, GREEN)),
        decimals=0,
        links=[runbook("RagtraceQualityUnknown")],
    )
    page.number(
        "Since the last evaluation",
        "Of the application that has waited longest. Metric: `ragtrace_last_evaluation_timestamp_seconds`",
        f"max(time() - (ragtrace_last_evaluation_timestamp_seconds{{{S}}} > 0))",
        "s",
        ((None, GREEN), (600, YELLOW), (1800, RED)),
        links=[runbook("RagtraceEvaluationsStalled")],
    )
    page.number(
        "Evaluator errors",
        "Share of evaluations that gave no score. Metric: `ragtrace_evaluations_total`",
        over(
            f'increase(ragtrace_evaluations_total{{{S},verdict="error"}}[$__range])',
            f"increase(ragtrace_evaluations_total{{{S}}}[$__range])",
        ),
        "percentunit",
        BAD_HIGH,
        links=[runbook("RagtraceEvaluatorErrors")],
    )
    page.number(
        "Judge's budget left",
        "Of the present hour, all applications together. Metric: `ragtrace_judge_budget_usd`",
        f'1 - sum(increase(ragtrace_judge_cost_usd_total{{{S}}}[1h])) / (sum(ragtrace_judge_budget_usd{{{S},window="hour"}}) > 0)',
        "percentunit",
        ((None, RED), (0.1, YELLOW), (0.3, GREEN)),
        none="no judge",
        links=[runbook("RagtraceJudgeBudgetGone")],
    )
    page.lines(
        "What became of the requests",
        "Requests that an evaluator could have scored, by outcome, a second. Metric: `ragtrace_evaluation_outcomes_total`",
        [
            (
                f'sum by (outcome) (rate(ragtrace_evaluation_outcomes_total{{{S},evaluator=~"$evaluator"}}[$__rate_interval]))',
                "{{outcome}}",
            )
        ],
        "reqps",
        stacked=True,
    )
    page.lines(
        "Sampling decisions",
        "Requests by decision and stratum, a second. Metric: `ragtrace_sampling_decisions_total`",
        [
            (
                f"sum by (decision, stratum) (rate(ragtrace_sampling_decisions_total{{{S}}}[$__rate_interval]))",
                "{{decision}} {{stratum}}",
            )
        ],
        "reqps",
        stacked=True,
    )
    page.lines(
        "Errors by reason",
        "Evaluations without a score in the hour before, by evaluator and reason. Metric: `ragtrace_evaluator_errors_total`",
        [
            (
                f"sum by (evaluator, reason) (increase(ragtrace_evaluator_errors_total{{{S}}}[1h])) > 0",
                "{{evaluator}} {{reason}}",
            )
        ],
        "none",
        aside=True,
        links=[runbook("RagtraceEvaluatorErrors"), runbook("RagtraceJudgeUnreadable")],
    )
    page.lines(
        "Drops by reason",
        "Sampled requests of the hour before that were never evaluated. Metric: `ragtrace_pipeline_dropped_total`",
        [
            (
                f"sum by (reason) (increase(ragtrace_pipeline_dropped_total{{{S}}}[1h]))",
                "{{reason}}",
            )
        ],
        "none",
        links=[runbook("RagtraceEvaluationsDropped")],
    )
    page.lines(
        "From request to score",
        "Percentiles of the time from a request's end to its scores. Metric: `ragtrace_evaluation_lag_seconds`",
        [(quantile(q, "ragtrace_evaluation_lag_seconds", S), f"p{int(q * 100)}") for q in (0.5, 0.95)],
        "s",
        w=8,
        dots=1,
        links=[runbook("RagtraceEvaluationLag")],
    )
    page.lines(
        "An evaluator's time, p95",
        "95th percentile of an evaluator's time for a request. Metric: `ragtrace_evaluator_duration_seconds`",
        [
            (
                quantile(0.95, "ragtrace_evaluator_duration_seconds", S + ',evaluator=~"$evaluator"', "le, evaluator"),
                "{{evaluator}}",
            )
        ],
        "s",
        w=8,
    )
    page.lines(
        "Waiting",
        "The most requests that waited for evaluation. Metric: `ragtrace_evaluation_queue_items`",
        [(f"sum by (app) (max_over_time(ragtrace_evaluation_queue_items{{{S}}}[$__rate_interval]))", "{{app}}")],
        "none",
        w=8,
    )
    page.lines(
        "Judge: cost an hour",
        "US dollars an hour, by evaluator. Metric: `ragtrace_judge_cost_usd_total`",
        [(f"sum by (evaluator) (rate(ragtrace_judge_cost_usd_total{{{S}}}[1h])) * 3600", "{{evaluator}}")],
        "currencyUSD",
        stacked=True,
        w=8,
    )
    page.lines(
        "Judge: what cannot be read",
        "Parse failures in the hour before, by evaluator. Metric: `ragtrace_evaluation_failures_total`",
        [
            (
                f'sum by (evaluator) (increase(ragtrace_evaluation_failures_total{{{S},kind="parse"}}[1h])) > 0',
                "{{evaluator}}",
            )
        ],
        "none",
        w=8,
        links=[runbook("RagtraceJudgeUnreadable")],
    )
    page.lines(
        "Exports that failed",
        "Share of spans and events that could not be exported. Metric: `ragtrace_export_failures_total`",
        [(
            f"sum by (sink) (rate(ragtrace_export_failures_total{{{S}}}[30m])) / (sum by (sink) "
            f"(rate(ragtrace_export_items_total{{{S}}}[30m])) + sum by (sink) (rate(ragtrace_export_failures_total{{{S}}}[30m])) > 0)",
            "{{sink}}",
        )],
        "percentunit",
        BAD_HIGH,
        w=8,
        links=[runbook("RagtraceExportFailing")],
    )  # fmt: skip
    agreed = 'ragtrace_review_agreement{evaluator=~"$evaluator",bound="%s",figure="%s"}'
    page.lines(
        "Agreement with reviewers",
        "Cohen's kappa of each evaluator with people, over 30 days, weighted to the whole traffic; the lower bound is "
        "dashed. Below 0.4 its alerts are guesses. Metric: `ragtrace_review_agreement`",
        [
            (f"max by (evaluator) ({agreed % ('estimate', 'kappa')})", "{{evaluator}}"),
            (f"max by (evaluator) ({agreed % ('lower', 'kappa')})", "{{evaluator}} at least"),
        ],
        "none",
        ((None, RED), (0.4, YELLOW), (0.6, GREEN)),
        w=8,
        low=None,
        high=1,
        line=True,
        bounds="at least",
        links=[link("Agreement, in the console", "${chatlog_url}/agreement")],
    )
    page.lines(
        "Failures that people confirm",
        "Precision (of what an evaluator fails, people fail so much) and recall (of what people fail, it finds so much), "
        "over 30 days. Metric: `ragtrace_review_agreement`",
        [
            (f"max by (evaluator) ({agreed % ('estimate', figure)})", "{{evaluator}} " + figure)
            for figure in ("precision", "recall")
        ],
        "percentunit",
        w=8,
        high=1,
        links=[link("Evaluators, in the console", "${chatlog_url}/evaluators")],
    )
    page.lines(
        "Waiting for review",
        "Logs that were picked and that nobody has judged yet, by why they were picked. Metric: `ragtrace_review_items`",
        [('sum by (reason) (ragtrace_review_items{state="open"})', "{{reason}}")],
        "none",
        stacked=True,
        w=8,
        links=[link("Review, in the console", "${chatlog_url}/review")],
    )
    page.rows(
        "Evaluators in force",
        "Name, version, threshold and judge of each evaluator. Metric: `ragtrace_evaluator_info`",
        f"max by (app, evaluator, version, threshold, judge_model) (ragtrace_evaluator_info{{{S}}})",
        "none",
        "",
        columns=("app", "evaluator", "version", "threshold", "judge_model"),
        w=16,
        h=10,
    )
    page.rows(
        "Label values that were too many",
        "Values beyond the bound of a label, shown as `other`. Metric: `ragtrace_label_overflow_total`",
        f"sort_desc(sum by (app) (ragtrace_label_overflow_total{{{S}}}))",
        "none",
        "values",
        columns=("app",),
        decimals=0,
        w=8,
        h=10,
    )
    return page


def files() -> dict[str, str]:
    """Every file's path below grafana/, and its text."""
    found = {}
    for page in (overview(), retrieval(), safety(), health()):
        text = json.dumps(json.loads(JSONEncoder(sort_keys=True).encode(page.made.build())), indent=2, sort_keys=True)
        found[f"dashboards/{page.uid}.json"] = text + "\n"
    return found


def main() -> int:
    """Write the files, or with --check say which differ from what would be written."""
    differing = []
    for name, text in files().items():
        path = HERE / name
        if "--check" in sys.argv:
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                differing.append(name)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in differing:
        print(f"{name} is not what grafana/source/dashboards.py writes: run it", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
