// SPDX-License-Identifier: Apache-2.0
// The page, from top to bottom.
import "./style.css";
import { setPrinting } from "./colors";
import { readReport, type Report } from "./data";
import { el, section } from "./dom";
import { grouped } from "./format";
import { MemoryView } from "./memory";
import { unpack } from "./packed";
import { SearchedView } from "./searched";
import { derivation, figure, table } from "./tables";
import { TimelineView } from "./timeline";
import { View } from "./view";

function tables(report: Report, ...ids: string[]): HTMLElement[] {
  return ids.flatMap((id) => report.tables.filter((t) => t.id === id)).map((t) => table(t));
}

function first(report: Report): HTMLElement {
  const figures = el("dl", { class: "figures" }, ...report.figures.map(figure));
  const proof = el("p", { class: "certificate" }, el("strong", {}, "Proof "), report.certificate);
  const limits = el("div", { class: "block" }, el("h3", {}, "What limits it"), el("ul", {}, ...report.bottlenecks.map((s) => el("li", {}, s))));
  return el("section", { id: "plan", "aria-label": "the plan" },
    el("h1", {}, report.label), el("p", { class: "job" }, report.job), figures, proof,
    el("div", { class: "columns" }, ...tables(report, "time", "memory-parts")), limits, ...tables(report, "why-not"),
    report.notes.length > 0 ? el("p", { class: "note" }, report.notes.join(" \u00b7 ")) : null);
}

function timelineNote(report: Report): string {
  const t = report.timeline;
  const parts = ["one row a stream of the first of equal ranks"];
  if (t.microbatches_shown < t.microbatches)
    parts.push(`of ${grouped(t.microbatches)} micro-batches the first ${grouped(t.microbatches_shown)} are shown, the others would make the page too large`);
  if (!t.all_steps) parts.push("operators and their collectives of the first micro-batch");
  if (report.measured) parts.push("measured below predicted");
  return parts.join("; ");
}

const sections: [string, string][] = [["plan", "Plan"], ["timeline", "Timeline"], ["memory", "Memory"], ["searched", "Searched"], ["layers", "Layers"],
  ["cluster", "Cluster"], ["what-if", "What if"], ["numbers", "Numbers"]];

async function show(report: Report, page: HTMLElement) {
  document.title = `${report.label} \u2014 Espalier`;
  const links = el("nav", { "aria-label": "sections" }, el("span", { class: "mark" }, "Espalier"), ...sections.map(([id, name]) => el("a", { href: `#${id}` }, name)));
  const holder = { timeline: el("div"), memory: el("div") };
  const searched = new SearchedView(report);
  page.append(links, first(report),
    section("timeline", "Timeline", el("p", { class: "note" }, timelineNote(report)), holder.timeline, ...tables(report, "measured")),
    section("memory", "Memory over the step", el("p", { class: "note" }, "over the same part of the step as the timeline; without the reserve of the allocator"), holder.memory),
    section("searched", "What was searched", el("p", { class: "note" },
      `${grouped(report.searched.simulated)} configurations were simulated; the others are proven slower, or do not fit. The line is the front: no other is both faster and leaner.`),
      searched.root, ...tables(report, "pruning")),
    section("layers", "Stages and layers", ...tables(report, "stages", "layers")),
    section("cluster", "Cluster", ...tables(report, "devices", "fabric", "links")),
    section("what-if", "What if", ...tables(report, "what-if", "sweep")),
    section("numbers", "Where each number comes from", ...report.figures.map(derivation)),
    el("footer", {}, `espalier ${report.result.made_by.version}, figures that ship ${report.result.made_by.calibration}, engine ${report.result.engine}`));
  const predicted = await unpack(report.timeline, false);
  const measured = report.measured ? await unpack(report.measured, true) : null;
  const view = new View(Math.max(report.timeline.iteration_ns, report.measured?.iteration_ns ?? 0));
  const timeline = new TimelineView(predicted, measured, view);
  const memory = new MemoryView(predicted.memory, report.memory_limit_bytes, view);
  holder.timeline.replaceWith(timeline.root);
  holder.memory.replaceWith(memory.root);
  const repaint = () => {
    view.now();
    searched.draw();
  };
  const printing = (on: boolean) => () => {
    setPrinting(on);
    repaint();
  };
  addEventListener("beforeprint", printing(true));
  addEventListener("afterprint", printing(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  addEventListener("resize", () => view.redraw());
  view.now();
  document.documentElement.dataset.ready = "yes";
}

const page = document.getElementById("page") as HTMLElement;
show(readReport(), page).catch((error: unknown) => {
  page.append(el("p", { class: "failed" }, `This page cannot be shown here: ${String(error)}`));
  throw error;
});
