// What a dashboard of ours may hold, in the words of @grafana/schema: its types, with the options and the fields' own
// settings of each kind of panel, which the schema leaves open, put in their places. grafana/check.py writes each
// dashboard as a literal of the type Page beside this file and lets the compiler look at it.

import type * as schema from "@grafana/schema";
import type * as heatmap from "@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen";
import type * as stat from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as table from "@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen";
import type * as timeseries from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

/** JSON holds an enumeration's values, not its names. */
type Plain<T> = unknown extends T
  ? unknown
  : T extends string
    ? `${T}`
    : T extends number | boolean | null | undefined
      ? T
      : T extends readonly (infer U)[]
        ? Plain<U>[]
        : { [K in keyof T]: Plain<T[K]> };

type Without<T, K extends keyof T> = { [P in keyof T as P extends K ? never : P]: T[P] };

/** Prometheus's query; the schema has only what all queries share. */
interface Query extends schema.DataQuery {
  datasource: schema.DataSourceRef;
  expr: string;
  exemplar?: boolean;
  format?: "time_series" | "table" | "heatmap";
  instant?: boolean;
  interval?: string;
  legendFormat?: string;
  range?: boolean;
}

interface Fields<Custom> extends Without<schema.FieldConfig, "custom" | "links"> {
  custom?: Custom;
  links?: schema.DashboardLink[];
}

interface Panel<Type extends string, Options, Custom>
  extends Without<schema.Panel, "type" | "options" | "fieldConfig" | "targets"> {
  type: Type;
  id: number;
  title: string;
  description: string;
  gridPos: schema.GridPos;
  options: Options;
  fieldConfig: { defaults: Fields<Custom>; overrides: schema.FieldConfigSource["overrides"] };
  targets: Query[];
}

// What the SDK that writes the dashboards, which is older, says otherwise; Grafana reads both.

interface TableOptions extends table.Options {
  footer?: { countRows: boolean; reducer: string[]; show: boolean };
}

interface TableFields extends Without<table.FieldConfig, "cellOptions"> {
  cellOptions?: table.FieldConfig["cellOptions"];
}

interface Variable extends schema.VariableModel {
  auto?: boolean;
  auto_count?: number;
  auto_min?: string;
}

type Shown =
  | Panel<"heatmap", heatmap.Options, heatmap.FieldConfig>
  | Panel<"stat", stat.Options, Record<string, never>>
  | Panel<"table", TableOptions, TableFields>
  | Panel<"timeseries", timeseries.Options, timeseries.FieldConfig>;

interface Row extends Without<schema.RowPanel, "panels"> {
  panels: Shown[];
}

interface Annotation extends schema.AnnotationQuery {
  expr?: string;
  textFormat?: string;
  titleFormat?: string;
}

interface Dashboard extends Without<schema.Dashboard, "annotations" | "panels" | "templating"> {
  uid: string;
  title: string;
  annotations: { list: Annotation[] };
  templating: { list: Variable[] };
  panels: (Shown | Row)[];
  /** For the import form of grafana.com. */
  __requires: { type: string; id: string; name: string; version: string }[];
}

export type Page = Plain<Dashboard>;
