/** A dashboard's file drawn with @grafana/ui, over a Prometheus: ?prometheus=URL&dashboard=URL&from=ms&to=ms&theme=dark */
import { createTheme, getDisplayProcessor, type DataFrame, dateTime, EventBusSrv, FieldType, ThemeContext, type TimeRange } from "@grafana/data";
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
        const { id, options } = override.matcher;
        if ((id === "byRegexp" && new RegExp(options.replace(/^\/|\/$/g, "")).test(name ?? "")) || (id === "byName" && options === name)) {
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

function Inside({ panel, given, width, height }: { panel: Panel; given: DataFrame[]; width: number; height: number }): ReactNode {
  const shown = configured(panel, given);
  if (panel.type === "stat") {
    const field = shown[0]?.fields[1];
    const value = field?.display?.(field.values[0]) ?? { text: panel.fieldConfig.defaults.noValue ?? "no data", numeric: NaN };
    return <BigValue theme={theme} width={width} height={height} value={value} colorMode={panel.options.colorMode} graphMode={panel.options.graphMode} />;
  }
  if (panel.type === "heatmap") {
    return <Heatmap shown={shown} width={width} height={height} theme={theme} range={range} unit={panel.options.yAxis?.unit} />;
  }
  if (panel.type === "table") {
    return <Rows panel={panel} shown={shown} theme={theme} height={height} />;
  }
  return (
    <TimeSeries frames={shown} width={width} height={height} timeRange={times} timeZone="utc" legend={panel.options.legend as VizLegendOptions} options={{}} />
  );
}

function Shown({ panel, variables }: { panel: Panel; variables: Variables }): ReactNode {
  const [given, setGiven] = useState<DataFrame[] | null>(null);
  useEffect(() => {
    const answers = panel.targets.map(async (target) => frames(await ask(base, target, variables, range), target, range));
    Promise.all(answers)
      .then((found) => {
        if (!found.flat().length) {
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
        {(width, height) => given && (given.length ? <Inside panel={panel} given={given} width={width} height={height} /> : <div>no data</div>)}
      </PanelChrome>
    </div>
  );
}

interface Page {
  title: string;
  description: string;
  panels: (Panel & { panels?: Panel[] })[];
  templating: { list: { name: string; label: string; type: string; query?: unknown; allValue?: string; current?: { value: string | string[] } }[] };
}

function Dashboard({ page }: { page: Page }): ReactNode {
  const variables: Variables = {};
  for (const v of page.templating.list) {
    const value = v.current?.value;
    variables[v.name] = v.type === "constant" ? String(v.query) : !value || value === "$__all" ? (v.allValue ?? ".*") : [value].flat().join("|");
  }
  const bottom = Math.max(...page.panels.map(({ gridPos: g }) => g.y + g.h));
  return (
    <div style={{ width: 1600, padding: 16, background: theme.colors.background.canvas, color: theme.colors.text.primary }}>
      <h3 style={{ margin: "0 0 12px" }}>{page.title}</h3>
      <div style={{ position: "relative", height: bottom * UNIT }}>
        {page.panels.map((panel) =>
          panel.type === "row" ? (
            <h5 key={panel.id} style={{ position: "absolute", top: panel.gridPos.y * UNIT + 6 }}>{panel.title}</h5>
          ) : (
            <Shown key={panel.id} panel={panel} variables={variables} />
          ),
        )}
      </div>
    </div>
  );
}

await initPluginTranslations("ragtrace");
const page: Page = await (await fetch(asked.get("dashboard") ?? "")).json();
window.waiting = page.panels.filter((panel) => panel.type !== "row").length;
const context = { eventsScope: "ragtrace", eventBus: new EventBusSrv() };
createRoot(document.getElementById("root")!).render(
  <ThemeContext.Provider value={theme}>
    <PanelContextProvider value={context}>
      <GlobalStyles />
      <Dashboard page={page} />
    </PanelContextProvider>
  </ThemeContext.Provider>,
);
