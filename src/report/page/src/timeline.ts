// SPDX-License-Identifier: Apache-2.0
// Ranks and their streams over time, on a canvas that shows what is in view. Bars narrower than a pixel are summed per pixel column: the column has
// the colour of what fills most of it, and its height says how much of it is filled. So no frame draws more than a few objects a column and row.
import { categories, categoryIndex, theme, type Theme } from "./colors";
import { el, sharp } from "./dom";
import { bytes, grouped, mark, roundStep, seconds } from "./format";
import type { Row, Unpacked } from "./packed";
import type { View } from "./view";

const gutter = 148, axis = 22, wide = 15, narrow = 8, gap = 2, groupGap = 7, labelWidth = 34;

interface Lane {
  row: Row;
  top: number;
  height: number;
}

/** Bars narrower than a pixel, column by column: the categories of a column lie on each other, each as high as the share of the column that it
 * fills; the three largest. Columns that look alike become one object. */
class Columns {
  private readonly sums = new Float64Array(categories.length);
  private column = -1;
  private runs: { category: number; bottom: number; height: number }[] = [];
  private from = 0;
  private to = 0;
  constructor(private readonly height: number, private readonly rects: number[][]) {}

  add(column: number, category: number, width: number) {
    if (column !== this.column) this.end();
    this.column = column;
    this.sums[category] += Math.max(width, 0.02);
  }
  private end() {
    if (this.column < 0) return;
    const largest = [...this.sums.keys()].filter((c) => this.sums[c] > 0).sort((a, b) => this.sums[b] - this.sums[a]).slice(0, 3).sort((a, b) => a - b);
    const pieces = [];
    let bottom = 0;
    for (const category of largest) {
      const tall = Math.max(1, Math.min(this.height - bottom, Math.round(this.height * Math.min(1, this.sums[category]))));
      if (bottom + tall > this.height) break;
      pieces.push({ category, bottom, height: tall });
      bottom += tall;
    }
    const alike = this.to === this.column && pieces.length === this.runs.length &&
      pieces.every((p, i) => p.category === this.runs[i].category && p.height === this.runs[i].height);
    if (!alike) {
      this.write();
      this.runs = pieces;
      this.from = this.column;
    }
    this.to = this.column + 1;
    this.sums.fill(0);
    this.column = -1;
  }
  private write() {
    for (const run of this.runs) this.rects[run.category].push(this.from, run.bottom, this.to - this.from, run.height);
    this.runs = [];
  }
  flush() {
    this.end();
    this.write();
  }
}

interface Kind {
  name: string;
  category: number;
}

export class TimelineView {
  readonly root: HTMLElement;
  private readonly canvas = el("canvas", { tabindex: "0", role: "img", "aria-describedby": "timeline-keys timeline-said" });
  private readonly scroller = el("div", { class: "scroller" });
  private readonly spacer = el("div");
  private readonly tip = el("div", { class: "tip", hidden: "" });
  private readonly said = el("p", { id: "timeline-said", class: "said", "aria-live": "polite" });
  private readonly table = el("div");
  private readonly kinds: Kind[][] = [];
  private lanes: Lane[] = [];
  private groups: { label: string; detail: string; top: number }[] = [];
  private height = 0;
  private width = 900;
  private dimmed = -1;
  private picked: { lane: Lane; bar: number } | null = null;
  private hovered: { lane: Lane; bar: number } | null = null;
  private showSteps = true;
  private showStreams = true;
  private readonly rows: Row[];
  private readonly tableBox = el("details", {}, el("summary", {}, "The bars in view as a table"), this.table);

  constructor(predicted: Unpacked, measured: Unpacked | null, private readonly view: View) {
    this.rows = interleaved(predicted.rows, measured ? measured.rows : []);
    for (const names of [predicted.names, measured ? measured.names : []])
      this.kinds.push(names.map((n) => ({ name: n.name, category: categoryIndex.get(n.category) ?? categories.length - 1 })));
    const ranks = new Set(this.rows.map((r) => r.rank)).size;
    if (ranks > 12) this.showSteps = false;
    this.scroller.append(this.spacer);
    this.spacer.append(this.canvas, this.tip);
    this.root = el("div", { class: "timeline" }, this.tools(), this.legend(), this.scroller, this.said, this.tableBox);
    this.layOut();
    this.listen();
    view.listen(() => this.draw());
    new ResizeObserver(() => view.redraw()).observe(this.root);
  }

  private kind(row: Row, bar: number): Kind {
    return this.kinds[row.measured ? 1 : 0][row.name[bar]];
  }

  // ---- what stands around the canvas ---------------------------------------------------------------------------------------

  private tools(): HTMLElement {
    const button = (text: string, title: string, act: () => void) => {
      const b = el("button", { type: "button", title }, text);
      b.addEventListener("click", act);
      return b;
    };
    const box = (text: string, on: boolean, act: (on: boolean) => void) => {
      const input = el("input", { type: "checkbox" });
      input.checked = on;
      input.addEventListener("change", () => {
        act(input.checked);
        this.layOut();
        this.view.redraw();
      });
      return el("label", {}, input, text);
    };
    const hasSteps = this.rows.some((r) => isStep(r));
    const middle = () => (this.view.from + this.view.to) / 2;
    return el("div", { class: "tools" },
      button("+", "zoom in (W)", () => this.view.zoom(0.5, middle())),
      button("\u2212", "zoom out (S)", () => this.view.zoom(2, middle())),
      button("\u2190", "earlier (A)", () => this.view.pan(-0.4)),
      button("\u2192", "later (D)", () => this.view.pan(0.4)),
      button("whole step", "(0)", () => this.view.fit()),
      box("streams", this.showStreams, (on) => (this.showStreams = on)),
      hasSteps ? box("operators and their collectives", this.showSteps, (on) => (this.showSteps = on)) : null,
      el("span", { id: "timeline-keys", class: "keys" }, "drag or A D to move, Ctrl+wheel or W S to zoom, arrows from bar to bar, 0 the whole step"));
  }

  private legend(): HTMLElement {
    const used = new Set<number>();
    for (const row of this.rows) for (let i = 0; i < row.count; ++i) used.add(this.kind(row, i).category);
    const list = el("div", { class: "legend", role: "group", "aria-label": "what is highlighted" });
    categories.forEach((category, i) => {
      if (!used.has(i)) return;
      const b = el("button", { type: "button", "aria-pressed": "false", "data-category": category.id }, el("i", { class: `c-${category.id}` }), category.name);
      b.addEventListener("click", () => {
        this.dimmed = this.dimmed === i ? -1 : i;
        for (const other of list.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === b && this.dimmed === i));
        this.view.redraw();
      });
      list.append(b);
    });
    return list;
  }

  // ---- where rows lie ------------------------------------------------------------------------------------------------------

  private layOut() {
    this.lanes = [];
    this.groups = [];
    let top = axis + 4;
    let key = "";
    for (const row of this.rows) {
      if (isStep(row) ? !this.showSteps : row.stream !== "compute" && !this.showStreams) continue;
      const own = `${row.rank.device}/${row.measured}`;
      if (own !== key) {
        if (key) top += groupGap;
        const pipeline = this.rows.some((r) => r.rank.pipeline > 0) ? `pipeline ${row.rank.pipeline}, ` : "";
        this.groups.push({
          label: `rank ${row.rank.device}`, top,
          detail: row.measured ? "measured" : `${pipeline}stage ${row.rank.stage}${row.rank.represents > 1 ? `, \u00d7${row.rank.represents}` : ""}`,
        });
        key = own;
      }
      const height = row.stream === "compute" ? wide : narrow;
      this.lanes.push({ row, top, height });
      top += height + gap;
    }
    this.height = top + 6;
    this.spacer.style.height = `${this.height}px`;
  }

  private x(ns: number): number {
    return gutter + ((ns - this.view.from) / (this.view.to - this.view.from)) * (this.width - gutter);
  }
  private time(x: number): number {
    return this.view.from + ((x - gutter) / (this.width - gutter)) * (this.view.to - this.view.from);
  }

  // ---- a frame -------------------------------------------------------------------------------------------------------------

  draw() {
    const began = performance.now();
    this.width = Math.max(320, this.scroller.clientWidth);
    const shown = Math.min(this.height, this.scroller.clientHeight || this.height);
    const context = sharp(this.canvas, this.width, shown);
    const colors = theme();
    const scrolled = this.scroller.scrollTop;
    context.fillStyle = colors.paper;
    context.fillRect(0, 0, this.width, shown);
    context.save();
    context.translate(0, -scrolled);
    this.drawGroups(context, colors);
    let objects = 0, rows = 0;
    for (const lane of this.lanes) {
      if (lane.top + lane.height < scrolled + axis || lane.top > scrolled + shown) continue;
      objects += this.drawLane(context, colors, lane);
      ++rows;
    }
    this.drawPicked(context, colors);
    context.restore();
    this.drawAxis(context, colors);
    if (this.tableBox.open) this.fillTable();
    const data = this.canvas.dataset;
    data.objects = String(objects);
    data.rows = String(rows);
    data.columns = String(Math.ceil(this.width - gutter));
    data.drawMs = (performance.now() - began).toFixed(1);
    data.frame = String(Number(data.frame ?? 0) + 1);
    data.from = String(this.view.from);
    data.to = String(this.view.to);
    this.canvas.setAttribute("aria-label", `timeline from ${seconds(this.view.from)} to ${seconds(this.view.to)}`);
  }

  private drawGroups(context: CanvasRenderingContext2D, colors: Theme) {
    context.textBaseline = "top";
    this.groups.forEach((group, i) => {
      const bottom = i + 1 < this.groups.length ? this.groups[i + 1].top - groupGap / 2 : this.height;
      if (i % 2 === 0) {
        context.fillStyle = colors.band;
        context.fillRect(0, group.top - groupGap / 2, this.width, bottom - group.top + groupGap / 2);
      }
      context.fillStyle = colors.ink;
      context.font = "600 11px ui-sans-serif, system-ui, sans-serif";
      context.fillText(group.label, 8, group.top + 2);
      const wideLabel = context.measureText(group.label).width;
      context.fillStyle = colors.faint;
      context.font = "11px ui-sans-serif, system-ui, sans-serif";
      context.fillText(group.detail, 14 + wideLabel, group.top + 2, gutter - 20 - wideLabel);
    });
    context.font = "9px ui-sans-serif, system-ui, sans-serif";
    context.fillStyle = colors.faint;
    for (const lane of this.lanes) {
      if (lane.row.stream === "compute") continue;
      context.fillText(lane.row.stream, 22, lane.top - 1);
    }
  }

  private drawAxis(context: CanvasRenderingContext2D, colors: Theme) {
    context.fillStyle = colors.paper;
    context.fillRect(0, 0, this.width, axis);
    context.fillStyle = colors.rule;
    context.fillRect(0, axis - 1, this.width, 1);
    context.font = "10.5px ui-sans-serif, system-ui, sans-serif";
    context.textBaseline = "middle";
    const step = roundStep(this.view.to - this.view.from, (this.width - gutter) / 110);
    for (let t = Math.ceil(this.view.from / step) * step; t <= this.view.to; t += step) {
      const x = this.x(t);
      context.fillStyle = colors.faint;
      context.fillRect(x, axis - 5, 1, 5);
      if (x < this.width - 40) context.fillText(mark(t, step), x + 4, axis / 2 - 1);
    }
  }

  /** Returns how many objects it drew. */
  private drawLane(context: CanvasRenderingContext2D, colors: Theme, lane: Lane): number {
    const { row, top, height } = lane;
    const left = gutter, right = this.width;
    const scale = (right - left) / (this.view.to - this.view.from);
    const rects: number[][] = categories.map(() => []); // left, bottom, width, height
    const labels: [number, number, number, string][] = [];
    const columns = new Columns(height, rects);
    for (let i = firstReaching(row, this.view.from); i < row.count && row.start[i] < this.view.to; ++i) {
      const x0 = left + (row.start[i] - this.view.from) * scale, x1 = left + (row.end[i] - this.view.from) * scale;
      if (x1 < left) continue;
      const kind = this.kind(row, i);
      if (x1 - x0 < 1) {
        columns.add(Math.floor(Math.max(left, x0)), kind.category, x1 - x0);
        continue;
      }
      const from = Math.max(left, x0), to = Math.min(right, x1);
      const room = to - from;
      rects[kind.category].push(from, 0, room > 3 ? room - 0.75 : room, height);
      if (room > labelWidth && height >= wide) labels.push([kind.category, from, room, labelOf(row, i, kind, room)]);
    }
    columns.flush();
    let objects = labels.length;
    rects.forEach((list, category) => {
      if (list.length === 0) return;
      context.globalAlpha = this.dimmed >= 0 && this.dimmed !== category ? 0.16 : 1;
      context.fillStyle = colors.fills[category];
      for (let i = 0; i < list.length; i += 4) context.fillRect(list[i], top + height - list[i + 1] - list[i + 3], list[i + 2], list[i + 3]);
      objects += list.length / 4;
    });
    context.globalAlpha = 1;
    context.font = "10px ui-sans-serif, system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const [category, from, room, text] of labels) {
      if (this.dimmed >= 0 && this.dimmed !== category) continue;
      context.fillStyle = colors.labels[category];
      context.fillText(text, from + 4, top + height / 2 + 0.5, room - 7);
    }
    return objects;
  }

  private drawPicked(context: CanvasRenderingContext2D, colors: Theme) {
    for (const at of [this.hovered, this.picked]) {
      if (!at) continue;
      const x0 = Math.max(gutter, this.x(at.lane.row.start[at.bar])), x1 = Math.max(x0 + 1, Math.min(this.width, this.x(at.lane.row.end[at.bar])));
      context.strokeStyle = colors.ink;
      context.lineWidth = 1.5;
      context.strokeRect(x0 - 0.5, at.lane.top - 1, x1 - x0 + 1, at.lane.height + 2);
    }
  }

  // ---- what a bar says -----------------------------------------------------------------------------------------------------

  private facts(lane: Lane, bar: number): [string, string][] {
    const row = lane.row;
    const out: [string, string][] = [
      ["rank", `${row.rank.device}, stage ${row.rank.stage}${row.measured ? ", measured" : ""}`],
      ["stream", row.stream],
      ["time", `${seconds(row.end[bar] - row.start[bar])} from ${seconds(row.start[bar])}`],
    ];
    if (row.microbatch1[bar] > 0) out.push(["micro-batch", String(row.microbatch1[bar] - 1)]);
    if (row.layer1[bar] > 0) out.push(["layer", String(row.layer1[bar] - 1)]);
    else {
      const chunk = row.rank.chunks.find((c) => c[0] === row.chunk1[bar] - 1);
      if (chunk) out.push(["layers", `${chunk[1]}\u2013${chunk[2]}`]);
    }
    if (row.bytes[bar] > 0) out.push(["moves", bytes(row.bytes[bar])]);
    if (row.members[bar] > 0) out.push(["group", `${grouped(row.members[bar])} ranks`]);
    if (row.peer1[bar] > 0) out.push(["with", `rank ${row.peer1[bar] - 1}`]);
    return out;
  }

  private say(lane: Lane, bar: number) {
    this.said.textContent = [this.kind(lane.row, bar).name, ...this.facts(lane, bar).map(([name, text]) => `${name} ${text}`)].join(" \u00b7 ");
  }

  private fillTable() {
    const lanes = this.picked ? [this.picked.lane] : this.lanes;
    const body = el("tbody");
    let shown = 0;
    for (const lane of lanes) {
      const row = lane.row;
      for (let i = firstReaching(row, this.view.from); i < row.count && row.start[i] < this.view.to && shown < 200; ++i, ++shown)
        body.append(el("tr", {},
          el("th", { scope: "row" }, `rank ${row.rank.device}${row.measured ? ", measured" : ""}`), el("td", { class: "words" }, row.stream),
          el("td", { class: "words" }, this.kind(row, i).name), el("td", {}, row.microbatch1[i] > 0 ? String(row.microbatch1[i] - 1) : "\u2013"),
          el("td", {}, seconds(row.start[i])), el("td", {}, seconds(row.end[i] - row.start[i])), el("td", {}, row.bytes[i] > 0 ? bytes(row.bytes[i]) : "\u2013")));
    }
    const head = el("tr", {});
    for (const name of ["rank", "stream", "what", "micro-batch", "start", "length", "moves"]) head.append(el("th", { scope: "col" }, name));
    this.table.replaceChildren(el("div", { class: "wide" }, el("table", {}, el("thead", {}, head), body)), el("p", { class: "note" }, "the first 200 of what is in view"));
  }

  // ---- mouse and keyboard --------------------------------------------------------------------------------------------------

  private find(x: number, y: number): { lane: Lane; bar: number } | null {
    const lane = this.lanes.find((l) => y >= l.top - 1 && y <= l.top + l.height + 1);
    if (!lane || x < gutter) return null;
    const slack = (2 * (this.view.to - this.view.from)) / (this.width - gutter);
    const at = this.time(x);
    let best = -1, distance = slack;
    for (let i = firstReaching(lane.row, at - slack); i < lane.row.count && lane.row.start[i] <= at + slack; ++i) {
      const away = Math.max(lane.row.start[i] - at, at - lane.row.end[i], 0);
      if (away < distance || (away === 0 && distance === 0)) {
        best = i;
        distance = away;
      }
    }
    return best < 0 ? null : { lane, bar: best };
  }

  private hover(event: PointerEvent) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top + this.scroller.scrollTop;
    const found = this.find(x, y);
    if (found?.bar !== this.hovered?.bar || found?.lane !== this.hovered?.lane) {
      this.hovered = found;
      this.view.redraw();
    }
    this.tip.hidden = !found;
    this.canvas.style.cursor = found ? "pointer" : "default";
    if (!found) return;
    const kind = this.kind(found.lane.row, found.bar);
    const list = el("dl", {});
    for (const [name, text] of this.facts(found.lane, found.bar)) list.append(el("dt", {}, name), el("dd", {}, text));
    this.tip.replaceChildren(el("strong", {}, el("i", { class: `c-${categories[kind.category].id}` }), kind.name), list);
    const left = Math.min(x + 14, this.width - 250);
    const below = event.clientY - box.top < box.height - 170;
    this.tip.style.left = `${Math.max(0, left)}px`;
    this.tip.style.top = `${below ? y + 16 : y - 12 - this.tip.offsetHeight}px`;
  }

  private step(by: number, rows: number) {
    const at = this.picked ?? (this.lanes.length > 0 ? { lane: this.lanes[0], bar: firstReaching(this.lanes[0].row, this.view.from) - by } : null);
    if (!at) return;
    let lane = at.lane;
    let bar = at.bar;
    if (rows !== 0) {
      const next = this.lanes[this.lanes.indexOf(lane) + rows];
      if (!next) return;
      bar = Math.min(next.row.count - 1, firstReaching(next.row, lane.row.start[bar]));
      lane = next;
    } else bar = Math.min(lane.row.count - 1, Math.max(0, bar + by));
    this.picked = { lane, bar };
    const start = lane.row.start[bar], end = lane.row.end[bar];
    if (start < this.view.from || end > this.view.to) {
      const span = Math.max(this.view.to - this.view.from, end - start);
      this.view.set((start + end - span) / 2, (start + end + span) / 2);
    }
    if (lane.top < this.scroller.scrollTop + axis) this.scroller.scrollTop = lane.top - axis - 4;
    if (lane.top + lane.height > this.scroller.scrollTop + this.scroller.clientHeight) this.scroller.scrollTop = lane.top + lane.height - this.scroller.clientHeight + 6;
    this.say(lane, bar);
    this.view.redraw();
  }

  private key(event: KeyboardEvent) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const middle = (this.view.from + this.view.to) / 2;
    const acts: Record<string, () => void> = {
      w: () => this.view.zoom(0.6, middle), "+": () => this.view.zoom(0.6, middle), s: () => this.view.zoom(1 / 0.6, middle), "-": () => this.view.zoom(1 / 0.6, middle),
      a: () => this.view.pan(-0.2), d: () => this.view.pan(0.2), "0": () => this.view.fit(), Home: () => this.view.fit(),
      ArrowRight: () => this.step(1, 0), ArrowLeft: () => this.step(-1, 0), ArrowDown: () => this.step(0, 1), ArrowUp: () => this.step(0, -1),
      Escape: () => { this.picked = null; this.said.textContent = ""; this.view.redraw(); },
    };
    const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  private listen() {
    let grabbed: { x: number; from: number; to: number } | null = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.focus({ preventScroll: true });
      grabbed = { x: event.clientX, from: this.view.from, to: this.view.to };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (grabbed && Math.abs(event.clientX - grabbed.x) > 2) {
        const by = ((grabbed.x - event.clientX) / (this.width - gutter)) * (grabbed.to - grabbed.from);
        this.tip.hidden = true;
        this.view.set(grabbed.from + by, grabbed.to + by);
        return;
      }
      this.hover(event);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (grabbed && Math.abs(event.clientX - grabbed.x) <= 2 && this.hovered) {
        this.picked = this.hovered;
        this.say(this.picked.lane, this.picked.bar);
        this.view.redraw();
      }
      grabbed = null;
    });
    this.canvas.addEventListener("pointerleave", () => {
      this.tip.hidden = true;
      this.hovered = null;
      this.view.redraw();
    });
    this.canvas.addEventListener("dblclick", (event) => this.view.zoom(0.4, this.time(event.clientX - this.canvas.getBoundingClientRect().left)));
    this.canvas.addEventListener("wheel", (event) => {
      const around = this.time(event.clientX - this.canvas.getBoundingClientRect().left);
      if (event.ctrlKey || event.metaKey) this.view.zoom(Math.exp(event.deltaY * 0.0022), around);
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.view.pan((event.deltaX || event.deltaY) * 0.001);
      else return; // the page scrolls
      event.preventDefault();
    }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.scroller.addEventListener("scroll", () => this.view.redraw());
    this.tableBox.addEventListener("toggle", () => this.view.redraw());
  }
}

const isStep = (row: Row) => row.stream === "operators" || row.stream === "collectives" || row.stream === "ZeRO";

/** Rows of a rank as measured below those as predicted. */
function interleaved(predicted: Row[], measured: Row[]): Row[] {
  const out: Row[] = [];
  predicted.forEach((row, i) => {
    out.push(row);
    const last = i + 1 === predicted.length || predicted[i + 1].rank !== row.rank;
    if (last) out.push(...measured.filter((m) => m.rank.device === row.rank.device));
  });
  return out;
}

/** The first bar that ends behind a moment: bars of a row may overlap where they were measured. */
function firstReaching(row: Row, ns: number): number {
  let low = 0, high = row.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.reach[middle] <= ns) low = middle + 1;
    else high = middle;
  }
  return low;
}

function labelOf(row: Row, bar: number, kind: Kind, room: number): string {
  const microbatch = row.microbatch1[bar] > 0 ? String(row.microbatch1[bar] - 1) : "";
  if (isStep(row) || !microbatch) return kind.name;
  const letter = kind.name === "forward" ? "F" : kind.name.endsWith("weight gradients") ? "W" : "B";
  return room > 110 ? `${kind.name} ${microbatch}` : `${letter}${microbatch}`;
}
