/** Queries of a dashboard, asked of a Prometheus, as Grafana's data frames. */
import { type DataFrame, type Field, FieldType } from "@grafana/data";

export interface Target {
  expr: string;
  instant?: boolean;
  format?: string;
  legendFormat?: string;
  refId: string;
}

export interface Range {
  from: number;
  to: number;
  step: number;
}

interface Series {
  metric: Record<string, string>;
  value?: [number, string];
  values?: [number, string][];
}

export type Variables = Record<string, string>;

/** A text with the dashboard's variables filled in. */
export function filled(text: string, variables: Variables, range: Range): string {
  return text
    .replaceAll("$__range_s", `${Math.round((range.to - range.from) / 1000)}`)
    .replaceAll("$__range", `${Math.round((range.to - range.from) / 1000)}s`)
    .replaceAll("$__rate_interval", `${Math.max(4 * 60, range.step)}s`)
    .replace(/\$\{?(\w+)\}?/g, (whole, name: string) => variables[name] ?? whole);
}

export async function ask(base: string, target: Target, variables: Variables, range: Range): Promise<Series[]> {
  const query = filled(target.expr, variables, range);
  const when: Record<string, string> = target.instant
    ? { time: String(range.to / 1000) }
    : { start: String(range.from / 1000), end: String(range.to / 1000), step: String(range.step) };
  const answer = await fetch(`${base}/api/v1/${target.instant ? "query" : "query_range"}`, {
    method: "POST",
    body: new URLSearchParams({ query, ...when }),
  });
  const told = await answer.json();
  if (told.status !== "success") {
    throw new Error(`${target.refId}: ${told.error}`);
  }
  return told.data.result;
}

/** A legend as Grafana's Prometheus data source writes it. */
function legend(metric: Record<string, string>, format: string | undefined): string {
  if (format && format !== "__auto") {
    return format.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label: string) => metric[label] ?? "");
  }
  const { __name__: name = "", ...labels } = metric;
  const text = Object.entries(labels)
    .map(([key, value]) => `${key}="${value}"`)
    .join(", ");
  return name + (text ? `{${text}}` : "") || "Value";
}

/** One frame for each series, with holes where Prometheus has none. */
export function frames(series: Series[], target: Target, range: Range): DataFrame[] {
  return series.map((one) => {
    const points = one.values ?? (one.value ? [one.value] : []);
    const known = new Map(points.map(([at, value]) => [Math.round(at * 1000), Number(value)]));
    const times: number[] = [];
    if (target.instant) {
      times.push(...known.keys());
    } else {
      for (let at = range.from; at <= range.to; at += range.step * 1000) {
        times.push(at);
      }
    }
    const value: Field = {
      name: "Value",
      type: FieldType.number,
      labels: one.metric,
      config: { displayNameFromDS: legend(one.metric, target.legendFormat) },
      values: times.map((at) => known.get(at) ?? null),
    };
    const time: Field = { name: "Time", type: FieldType.time, config: {}, values: times };
    return { refId: target.refId, length: times.length, fields: [time, value] };
  });
}
