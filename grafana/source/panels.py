"""Builds panels, variables and links; all dashboards use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common as c
from grafana_foundation_sdk.models import dashboard as d

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
"""Colours of series whose name is a good or a bad outcome."""


def thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    levels = [d.Threshold(value=value, color=color) for value, color in steps]
    return dashboard.ThresholdsConfig().mode(d.ThresholdsMode.ABSOLUTE).steps(levels)


def query(
    expr: str, legend: str = "", *, ref: str = "A", instant: bool = False, form: str = ""
) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(expr).ref_id(ref).datasource(SOURCE).legend_format(legend or "__auto")
    target = target.instant() if instant else target.range()
    return target.format(form) if form else target  # type: ignore[arg-type]


def to_answers(verdict: str = "fail", evaluator: str = "${__field.labels.evaluator}") -> list[dashboard.DashboardLink]:
    """Returns a link from a series to its answers in the console."""
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
    """Builds one dashboard: places panels from left to right and numbers them."""

    def __init__(self, uid: str, title: str, text: str) -> None:
        self.uid = uid
        self.builder = (
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
            self.builder = self.builder.with_variable(variable)
        self.builder = self.builder.link(
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
        """Adds a heading above the next panels."""
        self._break()
        self._id += 1
        row = dashboard.Row(title).id(self._id).grid_pos(d.GridPos(h=1, w=WIDTH, x=0, y=self._y))
        self.builder = self.builder.with_row(row)
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
        self.builder = self.builder.with_panel(panel)
        return panel

    def number(
        self, title: str, text: str, expr: str, unit: str, steps: Steps = PLAIN, *, w: int = 4, links: Sequence[Any] = (),
        none: str = "no data", decimals: float | None = None,
    ) -> None:  # fmt: skip
        """Adds a panel with one figure for the time that is shown."""
        panel = (
            stat.Panel().title(title).description(text).unit(unit).thresholds(thresholds(steps)).no_value(none)
            .color_mode(c.BigValueColorMode.VALUE).graph_mode(c.BigValueGraphMode.NONE)
            .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
            .color_scheme(dashboard.FieldColor().mode(d.FieldColorModeId.THRESHOLDS))
            .with_target(query(expr, instant=True)).links(list(links))
        )  # fmt: skip
        self._place(panel if decimals is None else panel.decimals(decimals), w, 4)

    def lines(
        self, title: str, text: str, queries: Sequence[tuple[str, str]], unit: str, steps: Steps = PLAIN, *, w: int = 12,
        h: int = 8, links: Sequence[Any] = (), data_links: Sequence[Any] = (), low: float | None = 0, high: float | None = None,
        axis_limit: float | None = None, stacked: bool = False, line: bool = False, aside: bool = False, dots: int = 0, bounds: str = "",
    ) -> None:  # fmt: skip
        """Adds a panel of curves over time.

        `line` draws the thresholds; `aside` puts the legend to the right; the axis reaches at least `axis_limit`;
        `dots` is the number of the query with exemplars; series that match `bounds` are thin and without a legend."""
        panel = (
            timeseries.Panel().title(title).description(text).unit(unit).thresholds(thresholds(steps))
            .legend(common.VizLegendOptions().display_mode(c.LegendDisplayMode.LIST).show_legend(True)
                    .placement(c.LegendPlacement.RIGHT if aside else c.LegendPlacement.BOTTOM))
            .color_scheme(dashboard.FieldColor().mode(d.FieldColorModeId.PALETTE_CLASSIC))
            .tooltip(common.VizTooltipOptions().mode(c.TooltipDisplayMode.MULTI).sort(c.SortOrder.DESCENDING))
            .line_width(2).fill_opacity(30 if stacked else 0).show_points(c.VisibilityMode.NEVER).span_nulls(False)
            .links(list(links)).data_links(list(data_links))
        )  # fmt: skip
        if low is not None:
            panel = panel.min(low)
        if high is not None:
            panel = panel.max(high)
        if stacked:
            panel = panel.stacking(common.StackingConfig().mode(c.StackingMode.NORMAL).group("A"))
        if line:
            panel = panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(c.GraphThresholdsStyleMode.DASHED))
        if axis_limit is not None:
            panel = panel.axis_soft_min(axis_limit) if low is None else panel.axis_soft_max(axis_limit)
        if bounds:
            thin = {"lineWidth": 1, "lineStyle": {"fill": "dash", "dash": [4, 6]}, "hideFrom": HIDDEN}
            overrides = [d.DynamicConfigValue(f"custom.{key}", value) for key, value in thin.items()]
            gray = d.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": "gray"})
            panel = panel.override_by_regexp(f"/{bounds}/", [*overrides, gray])
        if any(legend in ("{{status}}", "{{outcome}}") for _, legend in queries):
            for name, color in COLORS.items():
                fixed = d.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": color})
                panel = panel.override_by_name(name, [fixed])
        for i, (expr, legend) in enumerate(queries):
            panel = panel.with_target(query(expr, legend, ref=chr(65 + i)).exemplar(i == dots))
        self._place(panel, w, h)

    def heat(self, title: str, text: str, expr: str, *, w: int = 12, h: int = 8, links: Sequence[Any] = ()) -> None:
        """Adds a histogram over time."""
        panel = (
            heatmap.Panel().title(title).description(text).calculate(False).links(list(links))
            .with_target(query(expr, "{{le}}", form="heatmap").exemplar(True))
        )  # fmt: skip
        self._place(panel, w, h)

    def rows(
        self, title: str, text: str, expr: str, unit: str, value: str, *, w: int = 12, h: int = 8, decimals: float | None = None,
        columns: Sequence[str], links: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        """Adds a table of the latest values: a column for each label, and one named `value` unless that is empty."""
        order = {name: i for i, name in enumerate((*columns, "Value"))}
        names = {name: name.replace("_", " ") for name in columns} | {"app": "application", "Value": value}
        hidden = {"Time": True} | ({} if value else {"Value": True})
        shaped = {"excludeByName": hidden, "indexByName": order, "renameByName": names}
        panel = (
            table.Panel().title(title).description(text).unit(unit).thresholds(thresholds(PLAIN)).links(list(links))
            .with_target(query(expr, instant=True, form="table"))
            .with_transformation(d.DataTransformerConfig("organize", options=shaped))
        )  # fmt: skip
        self._place(panel if decimals is None else panel.decimals(decimals), w, h)


def variables() -> list[Any]:
    def of(name: str, label: str, expr: str, *, all_value: str = ".*", current: str = "") -> Any:
        variable = (
            dashboard.QueryVariable(name).label(label).datasource(SOURCE).query(expr)
            .refresh(d.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(d.VariableSort.ALPHABETICAL_ASC)
            .multi(True).include_all(True).all_value(all_value)
        )  # fmt: skip
        default = d.VariableOption(text=current or "All", value=current or "$__all")
        return variable.current(default)

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
    """Returns the query of a share, sum / sum; it has no value when the denominator is 0."""
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} ({top}) / (sum{grouped} ({bottom}) > 0)"


def quantile(q: float, metric: str, select: str, by: str = "le", window: str = "$__rate_interval") -> str:
    return f"histogram_quantile({q}, sum by ({by}) (rate({metric}_bucket{{{select}}}[{window}])))"


def weighted(select: str, verdict: str, window: str) -> str:
    return f"rate(ragtrace_evaluation_weight_total{{{select},{verdict}}}[{window}])"


F = M + ',evaluator="faithfulness"'
BAD = 'cause!~"none|right_refusal"'
