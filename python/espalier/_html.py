# SPDX-License-Identifier: Apache-2.0
"""Renders results in a notebook."""
from __future__ import annotations

import html
from typing import TYPE_CHECKING, Iterable

if TYPE_CHECKING:
    from espalier.planning import Plan, Result

GIB = 2**30


def row(name: str, value: str) -> str:
    return f"<tr><th style='text-align:left'>{html.escape(name)}</th><td style='text-align:left'>{html.escape(value)}</td></tr>"


def table(caption: str, rows: Iterable[tuple[str, str]]) -> str:
    body = "".join(row(name, value) for name, value in rows)
    return f"<table><caption style='text-align:left;font-weight:bold'>{html.escape(caption)}</caption><tbody>{body}</tbody></table>"


def stages(plan: Plan) -> Iterable[tuple[str, str]]:
    most = 16
    for pipeline in plan.document.pipelines or []:
        for number, stage in enumerate(pipeline.stages):
            if number == most:
                yield "…", f"{len(pipeline.stages) - most} stages more"
                return
            layers = ", ".join(f"{r.first}–{r.last}" for r in stage.layers)
            yield f"stage {number}", f"devices {', '.join(map(str, stage.devices))} · layers {layers}"


def of_plan(plan: Plan) -> str:
    return table(plan.label, stages(plan))


def of_result(result: Result) -> str:
    p = result.prediction
    interval = f"{p.confidence.iteration_s_low:.3f}–{p.confidence.iteration_s_high:.3f} s with {100 * p.confidence.level:.0f} %"
    rows = [("step", f"{p.iteration_s:.4f} s ({interval})"), ("throughput", f"{p.tokens_per_s_per_gpu or 0:,.0f} tokens/s/GPU · MFU {100 * (p.mfu or 0):.1f} %"),
            ("fullest rank", f"{p.peak_memory_bytes / GIB:.1f} GiB of {p.memory_limit_bytes / GIB:.1f} GiB" + ("" if p.fits else ": does not fit")),
            ("where the time goes", " · ".join(f"{name.replace('_', ' ')} {100 * part / p.iteration_s:.1f} %" for name, part in p.breakdown_s.to_dict().items()))]
    if result.search and result.search.optimal:
        rows.append(("certificate", f"optimal: none of {result.search.space_size:,.0f} configurations is faster"))
    return table(result.plan.label, [*rows, *stages(result.plan)]) + "<p><code>result.report()</code> shows the whole report.</p>"


def of_page(page: str) -> str:
    return f'<iframe srcdoc="{html.escape(page)}" style="width:100%;height:900px;border:0" title="Espalier report"></iframe>'
