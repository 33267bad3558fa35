/** A dashboard's file drawn with @grafana/ui, over a Prometheus: ?prometheus=URL&dashboard=URL&from=ms&to=ms&theme=dark */
import { createTheme, formattedValueToString, getDisplayProcessor, type DataFrame, dateTime, EventBusSrv, FieldType, ThemeContext, type TimeRange } from "@grafana/data";
import { initPluginTranslations } from "@grafana/i18n";
import { BigValue, GlobalStyles, PanelChrome, PanelContextProvider, TimeSeries } from "@grafana/ui";
import type { VizLegendOptions } from "@grafana/schema";
import { useEffect, useState, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { Heatmap, Rows, type Panel } from "./drawn";
import { ask, filled, frames, type Range, type Variables } from "./prometheus";

const asked = new URLSearchParams(location.search);
const base = asked.get("prometheus") ?? "";
const range: Range = { from: Number(asked.get("from")), to: Number(asked.get("to")), step: Number(asked.get("step") ?? 60) };
const theme = createTheme({ colors: { mode: asked.get("theme") === "light" ? "light" : "dark" } });
const UNIT = 38;
const GAP = 8;
const WIDTH = 1600 - 2 * 16;

declare global {
  interface Window {
    waiting: number;
    troubles: string[];
  }
}
window.waiting = 1;
window.troubles = [];

const times: TimeRange = {
  from: dateTime(range.from),
  to: dateTime(range.to),
  raw: { from: dateTime(range.from), to: dateTime(range.to) },
};

/** The panel's field configuration, and what Grafana makes of it: how a value is written and coloured. */
function configured(panel: Panel, given: DataFrame[]): DataFrame[] {
  let index = 0;
  const applies = ({ id, options }: { id: string; options: string }, name: string, ref: string | undefined): boolean =>
    (id === "byRegexp" && new RegExp(options.replace(/^\/|\/$/g, "")).test(name)) || (id === "byName" && options === name) || (id === "byFrameRefID" && options === ref);
  return given.map((frame) => ({
    ...frame,
    fields: frame.fields.map((field) => {
      if (field.type !== FieldType.number) {
        return { ...field, display: getDisplayProcessor({ field, theme, timeZone: "utc" }) };
      }
      const { custom, ...defaults } = panel.fieldConfig.defaults;
      const name = field.config.displayNameFromDS;
      const made = {
        ...field,
        config: { color: { mode: "palette-classic" }, ...defaults, displayNameFromDS: name, custom: { drawStyle: "line", ...custom } },
        state: { seriesIndex: index++, displayName: name },
      };
      for (const override of panel.fieldConfig.overrides) {
        if (applies(override.matcher, name ?? "", frame.refId)) {
          for (const { id: key, value } of override.properties) {
            if (key.startsWith("custom.")) {
              (made.config.custom as Record<string, unknown>)[key.slice(7)] = value;
            } else {
              (made.config as Record<string, unknown>)[key] = value;
            }
          }
        }
      }
      return { ...made, display: getDisplayProcessor({ field: made, theme, timeZone: "utc" }) };
    }),
  }));
}

/** How a column of a table writes and colours a value. */
function cells(panel: Panel): (column: string, value: number) => { text: string; numeric: number; color?: string } {
  return (column, value) => {
    const config: Record<string, unknown> = { ...panel.fieldConfig.defaults };
    for (const { matcher, properties } of panel.fieldConfig.overrides) {
      if (matcher.id === "byName" && matcher.options === column) {
        properties.forEach(({ id, value: setting }) => (config[id] = setting));
      }
    }
    if (config.unit === "dateTimeFromNow") {
      return { text: `${Math.round((range.to - value) / 60_000)} minutes ago`, numeric: value };
    }
    const shown = getDisplayProcessor({ field: { name: column, type: FieldType.number, config, values: [value] }, theme, timeZone: "utc" })(value);
    return { text: formattedValueToString(shown), numeric: value, color: shown.color };
  };
}

/** Vertical lines where something was deployed or an alert began to fire. */
function marks(builder: any, events: Event[]): ReactNode {
  builder.addHook("draw", (plot: any) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.setLineDash([5, 4]);
    for (const { at, color } of events) {
      const x = plot.valToPos(at, "x", true);
      ctx.strokeStyle = theme.visualization.getColorByName(color);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  });
  return null;
}

function Inside({ panel, given, events, width, height }: { panel: Panel; given: DataFrame[]; events: Event[]; width: number; height: number }): ReactNode {
  const shown = configured(panel, given);
  if (panel.type === "stat" && given.length > 1) {
    return (
      <div style={{ display: "flex", gap: 4 }}>
        {given.map((frame, i) => <Inside key={i} panel={panel} given={[frame]} events={events} width={width / given.length - 2} height={height} />)}
      </div>
    );
  }
  if (panel.type === "stat") {
    const field = shown[0]?.fields[1];
    const last = field?.values.filter((value: number | null) => value !== null).at(-1);
    const value = field?.display?.(last) ?? { text: panel.fieldConfig.defaults.noValue ?? "no data", numeric: NaN };
    const title = panel.options.textMode === "value_and_name" ? (field?.config.displayNameFromDS ?? "") : undefined;
    const { graphMode } = panel.options;
    const numbers = (field?.values ?? []).filter((one: number | null) => one !== null);
    const [min, max] = [Math.min(...numbers), Math.max(...numbers)];
    const sparkline = graphMode === "area" && field ? { y: { ...field, state: { ...field.state, range: { min, max, delta: max - min } } }, x: shown[0].fields[0], xMin: range.from, xMax: range.to, timeline: true } : undefined;
    return <BigValue theme={theme} width={width} height={height} value={{ ...value, title }} textMode={panel.options.textMode} colorMode={panel.options.colorMode} graphMode={graphMode} sparkline={sparkline} />;
  }
  if (panel.type === "heatmap") {
    return <Heatmap shown={shown} width={width} height={height} theme={theme} range={range} unit={panel.options.yAxis?.unit} />;
  }
  if (panel.type === "table") {
    return <Rows panel={panel} shown={shown} theme={theme} height={height} display={cells(panel)} />;
  }
  return (
    <TimeSeries frames={shown} width={width} height={height} timeRange={times} timeZone="utc" legend={panel.options.legend as VizLegendOptions} options={{}}>
      {(builder) => marks(builder, events)}
    </TimeSeries>
  );
}

function Shown({ panel, variables, events }: { panel: Panel; variables: Variables; events: Event[] }): ReactNode {
  const [given, setGiven] = useState<DataFrame[] | null>(null);
  useEffect(() => {
    const answers = panel.targets.map(async (target) => frames(await ask(base, target, variables, range), target, range));
    Promise.all(answers)
      .then((found) => {
        if (!found.flat().length && panel.title !== "Firing alerts") {
          window.troubles.push(`${panel.title}: no data`);
        }
        setGiven(found.flat());
      })
      .catch((error) => {
        window.troubles.push(`${panel.title}: ${error}`);
        setGiven([]);
      })
      .finally(() => setTimeout(() => (window.waiting -= 1), 300));
  }, [panel, variables]);
  const { x, y, w, h } = panel.gridPos;
  const column = (WIDTH + GAP) / 24;
  const place = { left: x * column, top: y * UNIT, width: w * column - GAP, height: h * UNIT - GAP };
  return (
    <div style={{ position: "absolute", ...place }}>
      <PanelChrome title={filled(panel.title, variables, range)} description={panel.description} width={place.width} height={place.height} padding="md">
        {(width, height) => given && (given.length ? <Inside panel={panel} given={given} events={events} width={width} height={height} /> : <div>{panel.fieldConfig.defaults.noValue ?? "no data"}</div>)}
      </PanelChrome>
    </div>
  );
}

interface Page {
  title: string;
  description: string;
  panels: (Panel & { panels?: Panel[] })[];
  annotations: { list: { iconColor: string; expr?: string }[] };
  templating: { list: { name: string; label: string; type: string; query?: unknown; allValue?: string; current?: { value: string | string[] } }[] };
}

interface Event {
  at: number;
  color: string;
}

/** When each series of the annotations begins, with the annotation's colour. */
async function eventsOf(page: Page, variables: Variables): Promise<Event[]> {
  const events: Event[] = [];
  for (const { expr, iconColor: color } of page.annotations.list.filter((one) => one.expr)) {
    const series = await ask(base, { expr: expr ?? "", refId: "Anno" }, variables, range);
    for (const { values = [] } of series) {
      const times = values.map(([at]) => at * 1_000);
      times.filter((at, i) => at > range.from && (i === 0 || at - times[i - 1] > 2_000 * range.step)).forEach((at) => events.push({ at, color }));
    }
  }
  return events;
}

function variablesOf(page: Page): Variables {
  const variables: Variables = {};
  for (const v of page.templating.list) {
    const value = v.current?.value;
    variables[v.name] = v.type === "textbox" ? String(v.query) : !value || value === "$__all" ? (v.allValue ?? ".*") : [value].flat().join("|");
  }
  return variables;
}

function Dashboard({ page, variables, events }: { page: Page; variables: Variables; events: Event[] }): ReactNode {
  const bottom = Math.max(...page.panels.map(({ gridPos: g }) => g.y + g.h));
  return (
    <div style={{ width: 1600, padding: 16, background: theme.colors.background.canvas, color: theme.colors.text.primary }}>
      <h3 style={{ margin: "0 0 12px" }}>{page.title}</h3>
      <div style={{ position: "relative", height: bottom * UNIT }}>
        {page.panels.map((panel) =>
          panel.type === "row" ? (
            <h5 key={panel.id} style={{ position: "absolute", top: panel.gridPos.y * UNIT + 6 }}>{filled(panel.title, variables, range)}</h5>
          ) : (
            <Shown key={panel.id} panel={panel} variables={variables} events={events} />
          ),
        )}
      </div>
    </div>
  );
}

await initPluginTranslations("ragtrace");
const page: Page = await (await fetch(asked.get("dashboard") ?? "")).json();
window.waiting = page.panels.filter((panel) => panel.type !== "row").length;
const variables = variablesOf(page);
const events = await eventsOf(page, variables);
const context = { eventsScope: "ragtrace", eventBus: new EventBusSrv() };
createRoot(document.getElementById("root")!).render(
  <ThemeContext.Provider value={theme}>
    <PanelContextProvider value={context}>
      <GlobalStyles />
      <Dashboard page={page} variables={variables} events={events} />
    </PanelContextProvider>
  </ThemeContext.Provider>,
);
