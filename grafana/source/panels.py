"""Builds panels, variables and links; all dashboards use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common as c
from grafana_foundation_sdk.models import dashboard as d
from rule import RUNBOOKS

SOURCE = d.DataSourceRef(type_val="prometheus", uid="${datasource}")
S = 'env=~"$env",app=~"$app"'
T = S + ',evaluator=~"$evaluator"'
M = S + ',model=~"$model",prompt_version=~"$prompt_version"'
E = M + ',evaluator=~"$evaluator"'
BAD = 'cause!~"none|right_refusal"'
A_SECOND, AN_HOUR = "suffix: tokens/s", "suffix:/h"
REQUESTS, ANSWERS, EVALUATIONS, LOGS, CHUNKS, SIGMA, TIMES, WINDOWS_UNIT = (
    f"suffix: {unit}" for unit in ("requests", "answers", "evaluations", "logs", "chunks", "s.e.", "times", "windows")
)
"""Units that Grafana has no name for."""
GREEN, YELLOW, RED, BLUE = "green", "#EAB839", "red", "blue"
HIDDEN = {"legend": True, "tooltip": False, "viz": False}
Steps = Sequence[tuple[float | None, str]]
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
APP = "{{app}}/{{env}}"
"""The legend of an application's series; its colour depends on it."""
APP_COLORS = (
    "#5794F2", "#B877D9", "#33C7DE", "#C8A765", "#E0A5E8", "#8FA8BF", "#3274D9", "#A16BFE", "#2CC7A7", "#D9C9A3",
)  # fmt: skip
"""Colours of applications, without red, yellow and green, which say how good something is."""
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
WHOLE = " The variables Model and Prompt version do not act here."


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
        "${chatlog_url}/traces?app=${__field.labels.app}&env=${__field.labels.env}&evaluator="
        + evaluator
        + f"&label={verdict}{TIME}"
    )
    return [link("The answers behind it", url)]


TIME = "&since=${__from:date:iso}&until=${__to:date:iso}"


def app_colors() -> dict[str, str]:
    """Returns the colour of an application's series by a pattern of their names.

    A colour depends on the last letter of the application's name, so that it is the same in every panel."""
    patterns = {}
    for i, color in enumerate(APP_COLORS):
        letters = _LETTERS[i :: len(APP_COLORS)]
        patterns[f"^[^/]*[{letters}{letters.upper()}]/"] = color
    patterns["^[^/]*[^0-9A-Za-z/]/"] = APP_COLORS[0]
    return {pattern.replace("/", r"\/"): color for pattern, color in patterns.items()}


def explained(text: str, exprs: Sequence[str]) -> str:
    """Returns the description of a panel; it says where the variables Model and Prompt version do not act."""
    if any("$model" in expr for expr in exprs):
        return text
    before, name, metric = text.partition(" Metric: ")
    return before + WHOLE + name + metric


def link(title: str, url: str) -> Any:
    return dashboard.DashboardLink(title).url(url).type(d.DashboardLinkType.LINK).target_blank(True)


def runbook(alert: str) -> Any:
    return link(f"Runbook: {alert}", f"{RUNBOOKS}/{alert}.md")


class Page:
    """Builds one dashboard: places panels from left to right and numbers them."""

    def __init__(self, uid: str, title: str, text: str, evaluator: str = "faithfulness") -> None:
        """`evaluator` is the one that is shown first; empty for all."""
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
        for variable in variables(evaluator):
            self.builder = self.builder.with_variable(variable)
        self.builder = self.builder.link(
            dashboard.DashboardLink("ragtrace").type(d.DashboardLinkType.DASHBOARDS).tags(["ragtrace"])
            .as_dropdown(False).include_vars(True).keep_time(True)
        )  # fmt: skip
        for annotation in annotations():
            self.builder = self.builder.annotation(annotation)

    def row(self, title: str, repeat: str = "") -> None:
        """Adds a heading above the next panels; Grafana repeats it and them for each value of the variable `repeat`."""
        self._break()
        self._id += 1
        row = dashboard.Row(title).id(self._id).grid_pos(d.GridPos(h=1, w=WIDTH, x=0, y=self._y))
        self.builder = self.builder.with_row(row.repeat(repeat) if repeat else row)
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
        none: str = "no data", decimals: float | None = None, h: int = 4, legend: str = "", data_links: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        """Adds a panel with one figure for the time that is shown; with a `legend` it has the name below the figure."""
        panel = (
            stat.Panel().title(title).description(explained(text, [expr])).unit(unit).thresholds(thresholds(steps)).no_value(none)
            .color_mode(c.BigValueColorMode.VALUE).graph_mode(c.BigValueGraphMode.NONE)
            .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
            .color_scheme(dashboard.FieldColor().mode(d.FieldColorModeId.THRESHOLDS))
            .with_target(query(expr, legend, instant=True)).links(list(links)).data_links(list(data_links))
            .text_mode(c.BigValueTextMode.VALUE_AND_NAME if legend else c.BigValueTextMode.AUTO)
        )  # fmt: skip
        self._place(panel if decimals is None else panel.decimals(decimals), w, h)

    def verdict(
        self, title: str, text: str, bad: str, good: str, aim: str, *, absent: str, w: int, h: int,
        data_links: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        """Adds a panel with one share and its sparkline, red if the query `bad` has an answer, or if
        `absent` has since there are no evaluations, and green if `good` has; beside it the share that it should have."""
        panel = (
            stat.Panel().title(title).description(explained(text, [bad])).unit("percentunit").decimals(1)
            .color_mode(c.BigValueColorMode.BACKGROUND).graph_mode(c.BigValueGraphMode.AREA)
            .text_mode(c.BigValueTextMode.VALUE_AND_NAME)
            .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
            .thresholds(thresholds(PLAIN)).data_links(list(data_links))
        )  # fmt: skip
        name = f"{APP} {{{{evaluator}}}}"
        for ref, expr, color, legend in (
            ("A", bad, RED, name), ("B", good, GREEN, name), ("C", aim, "gray", "should be at least"), ("D", absent, RED, "no evaluations")
        ):  # fmt: skip
            fixed = d.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": color})
            panel = panel.override_by_query(ref, [fixed]).with_target(query(expr, legend, ref=ref))
        self._place(panel, w, h)

    def lines(
        self, title: str, text: str, queries: Sequence[tuple[str, str]], unit: str, steps: Steps = PLAIN, *, w: int = 12,
        h: int = 8, links: Sequence[Any] = (), data_links: Sequence[Any] = (), low: float | None = 0, high: float | None = None,
        axis_limit: float | None = None, stacked: bool = False, line: bool = False, aside: bool = False, dots: int = 0, bounds: str = "", dashed: str = "",
    ) -> None:  # fmt: skip
        """Adds a panel of curves over time.

        `line` draws the thresholds; `aside` puts the legend to the right; the axis reaches at least `axis_limit`;
        `dots` is the number of the query with exemplars; series that match `bounds` are thin and without a legend,
        those that match `dashed` are dashed."""
        panel = (
            timeseries.Panel().title(title).description(explained(text, [expr for expr, _ in queries])).unit(unit).thresholds(thresholds(steps))
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
            panel = panel.override_by_regexp(f"/{bounds}/", overrides)
        if dashed:
            dash = d.DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [10, 6]})
            panel = panel.override_by_regexp(f"/{dashed}/", [dash])
        if any(legend.startswith(APP) for _, legend in queries):
            for pattern, color in app_colors().items():
                fixed = d.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": color})
                panel = panel.override_by_regexp(f"/{pattern}/", [fixed])
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
            heatmap.Panel().title(title).description(explained(text, [expr])).calculate(False).links(list(links))
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
            table.Panel().title(title).description(explained(text, [expr])).unit(unit).thresholds(thresholds(PLAIN)).links(list(links))
            .with_target(query(expr, instant=True, form="table"))
            .with_transformation(d.DataTransformerConfig("organize", options=shaped))
        )  # fmt: skip
        self._place(panel if decimals is None else panel.decimals(decimals), w, h)

    def columns(
        self, title: str, text: str, labels: Mapping[str, str], values: Sequence[Column], *, w: int, h: int,
        sort: str, data_links: Sequence[Any] = (), none: str = "no data",
    ) -> None:  # fmt: skip
        """Adds a table whose values are queries: a row for each set of labels. `labels` names the columns of labels by
        label, `sort` the column by which the rows are sorted, the largest first."""
        refs = [chr(65 + i) for i in range(len(values))]
        names = {**labels, **{f"Value #{ref}": value.name for ref, value in zip(refs, values, strict=True)}}
        if len(values) == 1:
            names["Value"] = names.pop("Value #A")
        shaped = {
            "excludeByName": {"Time": True}, "indexByName": {name: i for i, name in enumerate(names)}, "renameByName": names
        }  # fmt: skip
        panel = (
            table.Panel().title(title).description(explained(text, [value.expr for value in values])).no_value(none)
            .unit("percentunit").decimals(1).thresholds(thresholds(PLAIN))
            .with_transformation(d.DataTransformerConfig("merge", options={}))
            .with_transformation(d.DataTransformerConfig("organize", options=shaped))
            .sort_by([common.TableSortByFieldState().display_name(sort).desc(True)])
        )  # fmt: skip
        for ref, value in zip(refs, values, strict=True):
            panel = panel.with_target(query(value.expr, ref=ref, instant=True, form="table"))
            if value.settings:
                panel = panel.override_by_name(
                    value.name, [d.DynamicConfigValue(k, v) for k, v in value.settings.items()]
                )
        if data_links:
            links = [
                {"title": one.title, "url": one.url, "targetBlank": True}
                for one in [link.build() for link in data_links]
            ]
            panel = panel.override_by_name(next(iter(labels.values())), [d.DynamicConfigValue("links", links)])
        self._place(panel, w, h)


@dataclass(frozen=True)
class Column:
    """A column of values in a table."""

    name: str
    expr: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Grafana's settings of the field: `unit`, `decimals`, `mappings`, `custom.cellOptions`."""


COUNT = {"unit": "none", "decimals": 0}
SINCE = {"unit": "dateTimeFromNow"}


def states(texts: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Returns the settings of a column whose values 0, 1, … are shown as a coloured word: (word, colour) of each."""
    options = {str(i): {"text": word, "color": color, "index": i} for i, (word, color) in enumerate(texts)}
    return {
        "unit": "none",
        "mappings": [{"type": "value", "options": options}],
        "custom.cellOptions": {"type": "color-background", "mode": "basic"},
    }


def annotations() -> list[Any]:
    """Returns what is marked in every panel: alerts that page, and what was deployed."""

    def marks(name: str, color: str, expr: str, title: str, text: str) -> Any:
        return (
            dashboard.AnnotationQuery().name(name).datasource(SOURCE).enable(True).icon_color(color).expr(expr)
            .title_format(title).text_format(text)
        )  # fmt: skip

    def deployed(metric: str, label: str) -> str:
        select = f'{S},{label}!=""'
        return (
            f"group by (app, env, {label}) ({metric}{{{select}}}) unless on (app, env, {label}) "
            f"last_over_time({metric}{{{select}}}[1d] offset 5m) and on (app, env) ragtrace_build_info{{{S}}} offset 5m"
        )

    pages = f'alertname=~"Ragtrace.*",alertstate="firing",severity="page",{S}'
    firing = f"group by (alertname, app, env, evaluator) (ALERTS{{{pages}}})"
    requests, info = "ragtrace_requests_total", "ragtrace_evaluator_info"
    versions = deployed(info, "version").replace("env, version", "env, evaluator, version, threshold")
    return [
        marks("Pages", RED, firing, "{{alertname}}", "{{app}}/{{env}} {{evaluator}}"),
        marks("New prompt versions", BLUE, deployed(requests, "prompt_version"), "prompt {{prompt_version}}", APP),
        marks("New models", "#B877D9", deployed(requests, "model"), "model {{model}}", APP),
        marks("Changed evaluators", YELLOW, versions, "{{evaluator}} version {{version}}", f"{APP} threshold {{{{threshold}}}}"),
    ]  # fmt: skip


def variables(evaluator: str) -> list[Any]:
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
        of("evaluator", "Evaluator", f"label_values(ragtrace_evaluator_info{{{S}}}, evaluator)", current=evaluator),
        dashboard.TextBoxVariable("chatlog_url").label("Console").default_value("http://localhost:8400"),
        dashboard.TextBoxVariable("trace_url").label("Traces").default_value("http://localhost:6006/redirects/traces"),
    ]  # fmt: skip


def quantile(q: float, metric: str, select: str, by: str = "le", window: str = "$__rate_interval") -> str:
    return f"histogram_quantile({q}, sum by ({by}) (rate({metric}_bucket{{{select}}}[{window}])))"


def weighted(select: str, verdict: str, window: str) -> str:
    return f"rate(ragtrace_evaluation_weight_total{{{select},{verdict}}}[{window}])"
