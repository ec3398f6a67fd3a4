// SPDX-License-Identifier: Apache-2.0
// Columns of integers as src/report/packed.h writes them: base64 of gzip of LEB128.
import type { PackedTimeline, TimelineRank } from "./data";

async function inflate(base64: string): Promise<Uint8Array> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

class Reader {
  private at = 0;
  constructor(private readonly bytes: Uint8Array) {}
  /** Products in place of shifts: nanoseconds do not fit into 32 bits. */
  next(): number {
    let value = 0, scale = 1;
    for (;;) {
      const byte = this.bytes[this.at++];
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  }
  signed(): number {
    const value = this.next();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }
  column(length: number): Float64Array {
    const out = new Float64Array(length);
    for (let i = 0; i < length; ++i) out[i] = this.next();
    return out;
  }
  running(length: number): Float64Array {
    const out = new Float64Array(length);
    let sum = 0;
    for (let i = 0; i < length; ++i) out[i] = sum += this.signed();
    return out;
  }
}

/** One stream of one class of equal ranks, its bars by start. Of "plus one" columns 0 says: none. */
export interface Row {
  rank: TimelineRank;
  stream: string;
  measured: boolean;
  count: number;
  start: Float64Array;
  end: Float64Array;
  /** Largest end up to each bar: where the first bar that reaches into a view is found. */
  reach: Float64Array;
  name: Float64Array;
  microbatch1: Float64Array;
  chunk1: Float64Array;
  layer1: Float64Array;
  bytes: Float64Array;
  members: Float64Array;
  peer1: Float64Array;
}

export interface MemoryCurve {
  rank: TimelineRank;
  measured: boolean;
  at: Float64Array;
  bytes: Float64Array; // with the static ones
}

export interface Unpacked {
  rows: Row[];
  memory: MemoryCurve[];
  names: { name: string; category: string }[];
}

export async function unpack(packed: PackedTimeline, measured: boolean): Promise<Unpacked> {
  const bars = new Reader(await inflate(packed.bars));
  const rows: Row[] = [];
  for (const head of packed.rows) {
    const count = head.bars;
    const start = bars.running(count);
    const end = bars.column(count);
    const reach = new Float64Array(count);
    let most = -Infinity;
    for (let i = 0; i < count; ++i) {
      end[i] += start[i];
      reach[i] = most = Math.max(most, end[i]);
    }
    rows.push({
      rank: packed.ranks[head.rank], stream: head.stream, measured, count, start, end, reach,
      name: bars.column(count), microbatch1: bars.column(count), chunk1: bars.column(count), layer1: bars.column(count),
      bytes: bars.column(count), members: bars.column(count), peer1: bars.column(count),
    });
  }
  const samples = new Reader(await inflate(packed.memory));
  const memory: MemoryCurve[] = [];
  for (const rank of packed.ranks) {
    const at = samples.running(rank.samples);
    const bytes = samples.running(rank.samples);
    for (let i = 0; i < bytes.length; ++i) bytes[i] += rank.static_bytes;
    memory.push({ rank, measured, at, bytes });
  }
  return { rows, memory, names: packed.names };
}
