// SPDX-License-Identifier: Apache-2.0
// What each rank holds over the step, against the limit of its device.
import { theme } from "./colors";
import { el, sharp } from "./dom";
import { gib, mark, roundStep, seconds } from "./format";
import type { MemoryCurve } from "./packed";
import type { View } from "./view";

const gutter = 148, axis = 22, tall = 260;

export class MemoryView {
  readonly root: HTMLElement;
  private readonly canvas = el("canvas", { role: "img", "aria-label": "memory of each rank over the step" });
  private readonly read = el("p", { class: "said", "aria-live": "polite" });
  private readonly choice = el("select", { id: "memory-rank" });
  private at: number | null = null;
  private width = 900;

  constructor(private readonly curves: MemoryCurve[], private readonly limit: number, private readonly view: View) {
    this.choice.append(el("option", { value: "-1" }, "every rank"));
    curves.forEach((curve, i) => this.choice.append(el("option", { value: String(i) }, `rank ${curve.rank.device}, stage ${curve.rank.stage}`)));
    this.choice.addEventListener("change", () => view.redraw());
    this.root = el("div", { class: "memory" }, el("div", { class: "tools" }, el("label", {}, "show ", this.choice)), this.canvas, this.read);
    view.listen(() => this.draw());
    this.canvas.addEventListener("pointermove", (event) => this.point(event.clientX - this.canvas.getBoundingClientRect().left));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
  }

  private point(x: number | null) {
    this.at = x === null || x < gutter ? null : this.view.from + ((x - gutter) / (this.width - gutter)) * (this.view.to - this.view.from);
    const at = this.at;
    const held = (curve: MemoryCurve) => `rank ${curve.rank.device} ${gib(curve.bytes[Math.max(0, last(curve, at ?? 0))] ?? curve.rank.static_bytes)}`;
    this.read.textContent = at === null ? "" : [`at ${seconds(at)}`, ...this.shown().slice(0, 12).map(held)].join(" \u00b7 ");
    this.view.redraw();
  }

  private shown(): MemoryCurve[] {
    const one = Number(this.choice.value);
    return one < 0 ? this.curves : [this.curves[one]];
  }

  draw() {
    this.width = Math.max(320, this.root.clientWidth);
    const context = sharp(this.canvas, this.width, tall);
    const colors = theme();
    let most = this.limit;
    for (const curve of this.curves) for (const bytes of curve.bytes) most = Math.max(most, bytes);
    const y = (bytes: number) => tall - axis - (bytes / (most * 1.04)) * (tall - axis - 8);
    const x = (ns: number) => gutter + ((ns - this.view.from) / (this.view.to - this.view.from)) * (this.width - gutter);
    context.fillStyle = colors.paper;
    context.fillRect(0, 0, this.width, tall);
    context.font = "10.5px ui-sans-serif, system-ui, sans-serif";
    context.textBaseline = "middle";
    const gibibyte = 2 ** 30, step = roundStep(most / gibibyte, 5) * gibibyte;
    for (let mark = 0; mark <= most; mark += step) {
      context.fillStyle = colors.rule;
      context.fillRect(gutter, Math.round(y(mark)), this.width - gutter, 1);
      context.fillStyle = colors.faint;
      context.textAlign = "right";
      context.fillText(`${Math.round(mark / gibibyte)} GiB`, gutter - 8, y(mark));
    }
    context.textAlign = "left";
    const every = roundStep(this.view.to - this.view.from, (this.width - gutter) / 110);
    for (let t = Math.ceil(this.view.from / every) * every; t <= this.view.to; t += every)
      if (x(t) < this.width - 40) context.fillText(mark(t, every), x(t), tall - axis / 2);
    context.save();
    context.beginPath();
    context.rect(gutter, 0, this.width - gutter, tall - axis + 1);
    context.clip();
    const shown = this.shown();
    shown.forEach((curve, i) => {
      const shade = shown.length > 1 ? i / (shown.length - 1) : 0;
      this.curve(context, curve, x, y, mix(colors.fills[0], colors.fills[4], shade), shown.length === 1);
    });
    context.strokeStyle = colors.accent;
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(gutter, y(this.limit));
    context.lineTo(this.width, y(this.limit));
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colors.accent;
    context.fillText(`limit ${gib(this.limit)}`, gutter + 6, y(this.limit) + 9);
    if (this.at !== null) {
      context.fillStyle = colors.faint;
      context.fillRect(x(this.at), 0, 1, tall - axis);
    }
    context.restore();
  }

  /** A step line; of several samples in one pixel column the highest. */
  private curve(context: CanvasRenderingContext2D, curve: MemoryCurve, x: (ns: number) => number, y: (bytes: number) => number, color: string, filled: boolean) {
    const first = Math.max(0, last(curve, this.view.from));
    context.beginPath();
    let before = curve.bytes[first] ?? curve.rank.static_bytes;
    context.moveTo(gutter, y(before));
    for (let i = first; i < curve.at.length && curve.at[i] <= this.view.to; ) {
      const at = x(curve.at[i]);
      let high = curve.bytes[i], end = high;
      while (i < curve.at.length && x(curve.at[i]) < at + 1) {
        high = Math.max(high, curve.bytes[i]);
        end = curve.bytes[i++];
      }
      context.lineTo(at, y(before));
      context.lineTo(at, y(high));
      before = end;
      if (end !== high) context.lineTo(at, y(end));
    }
    context.lineTo(this.width, y(before));
    context.strokeStyle = color;
    context.lineWidth = 1.25;
    context.stroke();
    if (!filled) return;
    context.lineTo(this.width, y(0));
    context.lineTo(gutter, y(0));
    context.globalAlpha = 0.14;
    context.fillStyle = color;
    context.fill();
    context.globalAlpha = 1;
  }
}

/** The last sample at or before a moment. */
function last(curve: MemoryCurve, ns: number): number {
  let low = 0, high = curve.at.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (curve.at[middle] <= ns) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function mix(a: string, b: string, share: number): string {
  const part = (i: number) => Math.round(parseInt(a.slice(i, i + 2), 16) * (1 - share) + parseInt(b.slice(i, i + 2), 16) * share);
  return `rgb(${part(1)} ${part(3)} ${part(5)})`;
}
