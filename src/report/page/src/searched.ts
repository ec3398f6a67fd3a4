// SPDX-License-Identifier: Apache-2.0
// Everything that the search simulated: step time against memory, the front of it, and filters by dimension.
import { theme } from "./colors";
import type { Point, Report } from "./data";
import { el, sharp } from "./dom";
import { gib, grouped, mark, roundStep, seconds } from "./format";

const left = 64, bottom = 34, tall = 380;

export class SearchedView {
  readonly root: HTMLElement;
  private readonly canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": "step time and memory of what was searched" });
  private readonly tip = el("div", { class: "tip", hidden: "" });
  private readonly said = el("p", { class: "said", "aria-live": "polite" });
  private readonly rows = el("tbody");
  private readonly filters: HTMLSelectElement[] = [];
  private readonly points: Point[];
  private hovered = -1;
  private width = 900;
  private maxX = 1;
  private minX = 0;
  private minY = 0;
  private maxY = 1;

  constructor(private readonly report: Report) {
    this.points = report.searched.points;
    const answer = this.points[0];
    const times = this.points.filter((p) => p.fits).map((p) => p.iteration_ns);
    this.minX = Math.min(...times, answer.iteration_ns);
    this.maxX = Math.min(Math.max(...times, answer.iteration_ns * 1.05), this.minX * 2.5);
    const margin = (this.maxX - this.minX) * 0.04;
    this.minX -= margin;
    this.maxX += margin;
    const least = Math.min(...this.points.filter((p) => p.fits).map((p) => p.bytes), report.memory_limit_bytes * 0.9);
    this.minY = Math.max(0, least - (report.memory_limit_bytes - least) * 0.3);
    this.maxY = report.memory_limit_bytes + (report.memory_limit_bytes - this.minY) * 0.1;
    const tools = el("div", { class: "tools" });
    report.searched.dimensions.forEach((name, d) => {
      const values = [...new Set(this.points.map((p) => p.values[d]).filter((v) => v !== undefined))].sort((a, b) => Number(a) - Number(b) || a.localeCompare(b));
      const select = el("select", { "data-dimension": name }, el("option", { value: "" }, "any"));
      for (const value of values) select.append(el("option", { value }, value));
      this.filters.push(select);
      select.addEventListener("change", () => this.changed());
      if (values.length > 1) tools.append(el("label", {}, name, " ", select));
    });
    const head = el("tr", {});
    for (const name of ["configuration", "step", "memory", ""]) head.append(el("th", { scope: "col" }, name));
    const plot = el("div", { class: "plot" }, this.canvas, this.tip);
    this.root = el("div", { class: "searched" }, tools, plot, this.said,
      el("details", {}, el("summary", {}, "As a table: the front, then the fastest"), el("div", { class: "wide" }, el("table", {}, el("thead", {}, head), this.rows))));
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.pick(-1));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => {
      this.draw();
      this.place();
    }).observe(plot);
    this.changed();
  }

  private matches(point: Point): boolean {
    return this.filters.every((select, d) => select.value === "" || point.values[d] === select.value);
  }
  private x(point: Point) {
    return left + ((Math.min(point.iteration_ns, this.maxX) - this.minX) / (this.maxX - this.minX)) * (this.width - left - 12);
  }
  private y(bytes: number) {
    return 10 + (1 - (Math.min(bytes, this.maxY) - this.minY) / (this.maxY - this.minY)) * (tall - bottom - 10);
  }

  private changed() {
    const shown = this.points.filter((p) => this.matches(p));
    const listed = [...shown].sort((a, b) => Number(b.front) - Number(a.front) || a.iteration_ns - b.iteration_ns).slice(0, 60);
    this.rows.replaceChildren(...listed.map((p) => el("tr", {}, el("th", { scope: "row" }, p.label), el("td", {}, seconds(p.iteration_ns)),
      el("td", {}, gib(p.bytes)), el("td", { class: "words" }, [p.what === "searched" ? "" : p.what, p.front ? "front" : "", p.fits ? "" : "does not fit"].filter(Boolean).join(", ")))));
    const beyond = shown.filter((p) => p.iteration_ns > this.maxX || p.bytes > this.maxY).length;
    this.said.textContent = `${grouped(shown.length)} of ${grouped(this.points.length)} shown${beyond > 0 ? `, ${beyond} of them beyond the frame, drawn at its edge` : ""}`;
    this.draw();
  }

  draw() {
    this.width = Math.max(320, this.canvas.parentElement?.clientWidth ?? 900);
    const context = sharp(this.canvas, this.width, tall);
    const colors = theme();
    context.fillStyle = colors.paper;
    context.fillRect(0, 0, this.width, tall);
    this.axes(context);
    const shown = this.points.map((p, i) => ({ p, i })).filter(({ p }) => this.matches(p));
    const front = shown.filter(({ p }) => p.front).map(({ p }) => p).sort((a, b) => a.iteration_ns - b.iteration_ns);
    context.strokeStyle = colors.fills[0];
    context.lineWidth = 1.25;
    context.beginPath();
    front.forEach((p, i) => {
      if (i === 0) context.moveTo(this.x(p), this.y(p.bytes));
      else {
        context.lineTo(this.x(p), this.y(front[i - 1].bytes));
        context.lineTo(this.x(p), this.y(p.bytes));
      }
    });
    context.stroke();
    for (const { p, i } of shown.reverse()) this.dot(context, p, i === this.hovered);
  }

  private dot(context: CanvasRenderingContext2D, p: Point, hovered: boolean) {
    const colors = theme();
    const x = this.x(p), y = this.y(p.bytes), size = p.what === "searched" ? 3 : 5;
    context.beginPath();
    if (p.what === "baseline") {
      context.moveTo(x, y - size - 1);
      context.lineTo(x + size, y + size - 1);
      context.lineTo(x - size, y + size - 1);
      context.closePath();
    } else context.arc(x, y, size, 0, 2 * Math.PI);
    const color = p.what === "answer" ? colors.accent : p.what === "baseline" ? colors.fills[3] : p.front ? colors.fills[0] : colors.fills[9];
    context.fillStyle = p.fits ? color : colors.paper;
    context.strokeStyle = hovered ? colors.ink : p.fits ? colors.paper : color;
    context.lineWidth = hovered ? 2 : 1;
    context.fill();
    context.stroke();
  }

  private axes(context: CanvasRenderingContext2D) {
    const colors = theme();
    context.font = "10.5px ui-sans-serif, system-ui, sans-serif";
    context.textBaseline = "middle";
    const gibibyte = 2 ** 30, up = roundStep((this.maxY - this.minY) / gibibyte, 6) * gibibyte;
    context.textAlign = "right";
    for (let mark = Math.ceil(this.minY / up) * up; mark <= this.maxY; mark += up) {
      context.fillStyle = colors.rule;
      context.fillRect(left, Math.round(this.y(mark)), this.width - left, 1);
      context.fillStyle = colors.faint;
      context.fillText(`${Number((mark / gibibyte).toFixed(1))} GiB`, left - 8, this.y(mark));
    }
    context.textAlign = "center";
    const step = roundStep(this.maxX - this.minX, (this.width - left) / 110);
    for (let t = Math.ceil(this.minX / step) * step; t <= this.maxX; t += step) {
      const x = left + ((t - this.minX) / (this.maxX - this.minX)) * (this.width - left - 12);
      if (x < this.width - 24) context.fillText(mark(t, step), x, tall - bottom / 2);
    }
    context.textAlign = "left";
    context.strokeStyle = colors.accent;
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(left, this.y(this.report.memory_limit_bytes));
    context.lineTo(this.width, this.y(this.report.memory_limit_bytes));
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colors.accent;
    context.fillText(`limit ${gib(this.report.memory_limit_bytes)}`, left + 6, this.y(this.report.memory_limit_bytes) + 9);
  }

  private point(event: PointerEvent) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    let best = -1, distance = 18 * 18;
    this.points.forEach((p, i) => {
      if (!this.matches(p)) return;
      const away = (this.x(p) - x) ** 2 + (this.y(p.bytes) - y) ** 2;
      if (away < distance) {
        best = i;
        distance = away;
      }
    });
    this.pick(best);
  }

  private pick(index: number) {
    if (index !== this.hovered) {
      this.hovered = index;
      this.draw();
    }
    this.tip.hidden = index < 0;
    if (index < 0) return;
    const p = this.points[index];
    const list = el("dl", {}, el("dt", {}, "step"), el("dd", {}, seconds(p.iteration_ns)), el("dt", {}, "memory"), el("dd", {}, `${gib(p.bytes)}${p.fits ? "" : ", does not fit"}`));
    this.tip.replaceChildren(el("strong", {}, p.label), list);
    this.place();
  }

  /** The tip beside its point, inside the plot: also after the plot became narrower. */
  private place() {
    if (this.hovered < 0) return;
    const p = this.points[this.hovered];
    this.tip.style.left = `${Math.max(0, Math.min(this.x(p) + 12, this.width - 300))}px`;
    this.tip.style.top = `${Math.min(this.y(p.bytes) + 12, tall - 90)}px`;
  }

  private key(event: KeyboardEvent) {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    const order = this.points.map((_, i) => i).filter((i) => this.matches(this.points[i])).sort((a, b) => this.points[a].iteration_ns - this.points[b].iteration_ns);
    const at = order.indexOf(this.hovered);
    const next = order[Math.min(order.length - 1, Math.max(0, at + by))];
    if (next === undefined) return;
    this.pick(next);
    const p = this.points[next];
    this.said.textContent = `${p.label} \u00b7 ${seconds(p.iteration_ns)} \u00b7 ${gib(p.bytes)}`;
  }
}
