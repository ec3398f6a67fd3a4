// SPDX-License-Identifier: Apache-2.0
// Tables and figures as the data has them: their texts are shown as they are.
import type { Cell, Figure, Table } from "./data";
import { el } from "./dom";

function bar(share: number): HTMLElement {
  const size = Math.min(1, Math.abs(share));
  const inner = el("i", { class: share < 0 ? "less" : "" });
  inner.style.width = `${(size * 100).toFixed(2)}%`;
  return el("span", { class: "bar", "aria-hidden": "true" }, inner);
}

/** A number and its unit stay on one line. */
const bound = (text: string) => text.replace(/(\d) (s|ms|us|GiB|%)(?![\w])/g, "$1\u00a0$2");

function cell(content: Cell, column: number, table: Table): HTMLElement {
  const [text, share] = typeof content === "string" ? [content, undefined] : content;
  if (column === 0) return el("th", { scope: "row" }, text);
  const words = table.words.includes(column);
  const td = el("td", words ? { class: "words" } : {}, words ? bound(text) : text);
  if (share !== undefined) {
    td.classList.add("shared");
    td.append(bar(share));
  }
  return td;
}

export function table(data: Table, folded = 40): HTMLElement {
  const head = el("tr", {});
  data.columns.forEach((name, i) => head.append(el("th", { scope: "col", ...(i > 0 && data.words.includes(i) ? { class: "words" } : {}) }, name)));
  const body = el("tbody");
  const row = (cells: Cell[]) => el("tr", {}, ...cells.map((c, i) => cell(c, i, data)));
  for (const cells of data.rows.slice(0, folded)) body.append(row(cells));
  const out = el("div", { class: "block", id: `table-${data.id}` }, el("h3", {}, data.title));
  if (data.note) out.append(el("p", { class: "note" }, data.note));
  if (data.rows.length > 0) out.append(el("div", { class: "wide" }, el("table", {}, el("thead", {}, head), body)));
  const left = data.rows.slice(folded);
  if (left.length > 0) {
    const more = el("button", { type: "button", class: "more" }, `${left.length} more rows`);
    const unfold = () => {
      for (const cells of left) body.append(row(cells));
      more.remove();
    };
    more.addEventListener("click", unfold);
    addEventListener("beforeprint", () => more.isConnected && unfold());
    out.append(more);
  }
  return out;
}

export function figure(data: Figure): HTMLElement {
  const box = el("div", { class: "figure", "data-figure": data.id, "data-from": data.from },
    el("dt", {}, data.name), el("dd", { class: data.from ? "value" : "value none" }, data.text), el("dd", { class: "detail" }, data.note));
  if (data.share !== undefined) box.append(el("dd", { class: "gauge", "aria-hidden": "true" }, bar(data.share)));
  return box;
}

export function derivation(data: Figure): HTMLElement {
  const body = el("tbody");
  for (const line of data.derivation)
    body.append(el("tr", {}, el("th", { scope: "row" }, line.name), el("td", {}, line.text), el("td", { class: "words source" }, line.source)));
  const place = data.from ? el("code", {}, `result.json: ${data.from}`) : null;
  return el("details", { class: "derivation", "data-derivation": data.id },
    el("summary", {}, el("span", {}, data.name), el("span", { class: "value" }, data.text)),
    el("p", { class: "note" }, data.equation, place ? " \u00b7 " : "", place),
    data.derivation.length > 0 ? el("div", { class: "wide" }, el("table", {}, body)) : null);
}
