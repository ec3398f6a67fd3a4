// SPDX-License-Identifier: Apache-2.0
// The data block, schema espalier.report/1 (docs/report.md). Written by src/report/report.cpp.

export type Cell = string | [string, number];

export interface Table {
  id: string;
  title: string;
  note: string;
  columns: string[];
  words: number[];
  rows: Cell[][];
}

export interface Figure {
  id: string;
  name: string;
  text: string;
  note: string;
  from: string;
  equation: string;
  share?: number;
  derivation: { name: string; text: string; source: string }[];
}

export interface Point {
  label: string;
  what: "answer" | "baseline" | "searched";
  iteration_ns: number;
  bytes: number;
  fits: boolean;
  front: boolean;
  values: string[];
}

export interface TimelineRank {
  device: number;
  represents: number;
  pipeline: number;
  stage: number;
  static_bytes: number;
  samples: number;
  chunks: [number, number, number][];
}

export interface PackedTimeline {
  iteration_ns: number;
  microbatches: number;
  microbatches_shown: number;
  all_steps: boolean;
  names: { name: string; category: string }[];
  ranks: TimelineRank[];
  rows: { rank: number; stream: string; bars: number }[];
  bars: string;
  memory: string;
}

export interface Report {
  schema: string;
  label: string;
  job: string;
  certificate: string;
  figures: Figure[];
  bottlenecks: string[];
  reasons: string[];
  notes: string[];
  tables: Table[];
  searched: { simulated: number; known: number; dimensions: string[]; points: Point[] };
  memory_limit_bytes: number;
  result: { engine: string; made_by: { version: string; calibration: string } };
  timeline: PackedTimeline;
  measured?: PackedTimeline;
}

export function readReport(): Report {
  const block = document.getElementById("data");
  return JSON.parse(block?.textContent ?? "null") as Report;
}
