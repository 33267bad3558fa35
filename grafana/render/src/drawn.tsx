/** What @grafana/ui has no component for: heatmaps as SVG, tables as HTML. */
import type { DataFrame, GrafanaTheme2 } from "@grafana/data";
import type { ReactNode } from "react";
import type { Range, Target } from "./prometheus";

export interface Panel {
  id: number;
  type: string;
  title: string;
  description: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets: Target[];
  // The dashboards' own JSON: each type of panel has options of its own.
  options: Record<string, any>;
  fieldConfig: {
    defaults: { custom?: Record<string, unknown>; noValue?: string; unit?: string; decimals?: number };
    overrides: { matcher: { id: string; options: string }; properties: { id: string; value: unknown }[] }[];
  };
}

/** Buckets over time; Prometheus's are cumulative, so that each is less the one below. */
export function Heatmap({ shown, width, height, theme, range, unit }: { shown: DataFrame[]; width: number; height: number; theme: GrafanaTheme2; range: Range; unit?: string }): ReactNode {
  const bounds = shown
    .map((frame) => ({ le: frame.fields[1].labels?.le ?? "", values: frame.fields[1].values as (number | null)[] }))
    .sort((a, b) => (a.le === "+Inf" ? Infinity : Number(a.le)) - (b.le === "+Inf" ? Infinity : Number(b.le)));
  const columns = Math.max(1, Math.min(120, Math.floor(width / 6)));
  const length = bounds[0]?.values.length ?? 0;
  const cells = bounds.map((row, i) =>
    Array.from({ length: columns }, (_, column) => {
      let sum = 0;
      for (let at = Math.floor((column * length) / columns); at < Math.floor(((column + 1) * length) / columns); at++) {
        sum += Math.max(0, (row.values[at] ?? 0) - (i ? (bounds[i - 1].values[at] ?? 0) : 0));
      }
      return sum;
    }),
  );
  const most = Math.max(1e-9, ...cells.flat());
  const left = 44;
  const bottom = 20;
  const [cellWidth, cellHeight] = [(width - left) / columns, (height - bottom) / bounds.length];
  const text = { fill: theme.colors.text.secondary, fontSize: 12 };
  const hour = 3_600_000;
  const first = Math.ceil(range.from / hour) * hour;
  const hours = Array.from({ length: Math.floor((range.to - first) / hour) + 1 }, (_, i) => first + i * hour);
  return (
    <svg width={width} height={height}>
      {cells.map((row, i) =>
        row.map((value, column) =>
          value > 0 ? (
            <rect key={`${i} ${column}`} x={left + column * cellWidth} y={(bounds.length - 1 - i) * cellHeight} width={cellWidth - 1} height={cellHeight - 1} fill="#ff780a" opacity={Math.sqrt(value / most)} />
          ) : null,
        ),
      )}
      {bounds.map(({ le }, i) => (
        <text key={le} x={left - 6} y={(bounds.length - 0.5 - i) * cellHeight + 4} textAnchor="end" {...text}>
          {le}
          {le !== "+Inf" && unit ? ` ${unit}` : ""}
        </text>
      ))}
      {hours.map((at) => (
        <text key={at} x={left + ((at - range.from) / (range.to - range.from)) * (width - left)} y={height - 4} textAnchor="middle" {...text}>
          {new Date(at).toISOString().slice(11, 16)}
        </text>
      ))}
    </svg>
  );
}

interface Transformation {
  id: string;
  options: { excludeByName?: Record<string, boolean>; indexByName?: Record<string, number>; renameByName?: Record<string, string> };
}

interface Cell {
  text: string;
  numeric: number;
  color?: string;
}

/** A table of the latest values: a column for each label, and one for each query. Rows with the same labels are one. */
export function Rows({ panel, shown, theme, height, display }: {
  panel: Panel & { transformations?: Transformation[] };
  shown: DataFrame[];
  theme: GrafanaTheme2;
  height: number;
  display: (column: string, value: number) => Cell;
}): ReactNode {
  const { excludeByName: hidden = {}, indexByName: order = {}, renameByName: names = {} } =
    panel.transformations?.find(({ id }) => id === "organize")?.options ?? {};
  const several = panel.targets.length > 1;
  const rows = new Map<string, Record<string, string | number>>();
  for (const frame of shown) {
    const { __name__: _, ...labels } = frame.fields[1].labels ?? {};
    const key = JSON.stringify(Object.entries(labels).sort());
    const row: Record<string, string | number> = rows.get(key) ?? { Time: new Date(frame.fields[0].values[0]).toISOString().slice(0, 16), ...labels };
    row[several ? `Value #${frame.refId}` : "Value"] = frame.fields[1].values[0];
    rows.set(key, row);
  }
  const columns = [...new Set([...rows.values()].flatMap((row) => Object.keys(row)))]
    .filter((column) => !hidden[column])
    .sort((a, b) => (order[a] ?? 99) - (order[b] ?? 99));
  const first = panel.options.sortBy?.[0]?.displayName;
  const by = columns.find((column) => (names[column] ?? column) === first);
  const sorted = [...rows.values()];
  if (by) {
    sorted.sort((a, b) => Number(b[by] ?? -Infinity) - Number(a[by] ?? -Infinity));
  }
  const cell = { padding: "4px 8px", textAlign: "left" as const, borderBottom: `1px solid ${theme.colors.border.weak}` };
  const style = (name: string): Record<string, any> =>
    panel.fieldConfig.overrides.find(({ matcher }) => matcher.id === "byName" && matcher.options === name)?.properties.find(({ id }) => id === "custom.cellOptions")?.value as Record<string, any> ?? {};
  const draw = (column: string, value: string | number | undefined): ReactNode => {
    const name = names[column] ?? column;
    if (typeof value !== "number") {
      return <td key={column} style={cell}>{value ?? ""}</td>;
    }
    const { text, color } = display(name, value);
    const { type } = style(name);
    if (type === "color-background") {
      return <td key={column} style={{ ...cell, background: color, color: "#111" }}>{text}</td>;
    }
    if (type === "gauge") {
      return <td key={column} style={cell}><div style={{ display: "flex", gap: 8 }}><div style={{ background: theme.colors.primary.main, height: 14, width: 90 * value }} />{text}</div></td>;
    }
    return <td key={column} style={cell}>{text}</td>;
  };
  return (
    <div style={{ height, overflow: "hidden" }}>
      <table style={{ width: "100%", fontSize: 13 }}>
        <thead>
          <tr>{columns.map((column) => <th key={column} style={{ ...cell, color: theme.colors.text.secondary }}>{names[column] ?? column}</th>)}</tr>
        </thead>
        <tbody>
          {sorted.map((row, i) => <tr key={i}>{columns.map((column) => draw(column, row[column]))}</tr>)}
        </tbody>
      </table>
    </div>
  );
}
