# SPDX-License-Identifier: Apache-2.0
"""Renders results in a notebook."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Iterable

if TYPE_CHECKING:
    from espalier.planning import Plan, Result

GIB = 2**30


def row(name: str, value: str) -> str:
    left = "style='text-align:left'"
    return f"<tr><th {left}>{html.escape(name)}</th><td {left}>{html.escape(value)}</td></tr>"


def table(caption: str, rows: Iterable[tuple[str, str]]) -> str:
    body = "".join(row(name, value) for name, value in rows)
    title = f"<caption style='text-align:left;font-weight:bold'>{html.escape(caption)}</caption>"
    return f"<table>{title}<tbody>{body}</tbody></table>"


def stages(plan: Plan) -> Iterable[tuple[str, str]]:
    most = 16
    for pipeline in plan.document.pipelines or []:
        for number, stage in enumerate(pipeline.stages):
            if number == most:
                yield "…", f"{len(pipeline.stages) - most} other stages"
                return
            layers = ", ".join(f"{r.first}–{r.last}" for r in stage.layers)
            yield f"stage {number}", f"devices {', '.join(map(str, stage.devices))} · layers {layers}"


def of_plan(plan: Plan) -> str:
    return table(plan.label, stages(plan))


def of_result(result: Result) -> str:
    p = result.prediction
    low, high = p.confidence.iteration_s_low, p.confidence.iteration_s_high
    interval = f"{100 * p.confidence.level:.0f} % interval {low:.3f}–{high:.3f} s"
    rows = [
        ("step", f"{p.iteration_s:.4f} s ({interval})"),
        ("throughput", f"{p.tokens_per_s_per_gpu or 0:,.0f} tokens/s/GPU · MFU {100 * (p.mfu or 0):.1f} %"),
        (
            "fullest rank",
            f"{p.peak_memory_bytes / GIB:.1f} GiB of {p.memory_limit_bytes / GIB:.1f} GiB"
            + ("" if p.fits else ": does not fit"),
        ),
        (
            "where the time goes",
            " · ".join(
                f"{name.replace('_', ' ')} {100 * part / p.iteration_s:.1f} %"
                for name, part in p.breakdown_s.to_dict().items()
            ),
        ),
    ]
    if result.search and result.search.optimal:
        rows.append(("status", f"optimal: no faster configuration exists among {result.search.space_size:,.0f}"))
    elif result.bound is not None:
        rows.append(
            (
                "status",
                f"{result.status}: no plan is faster than {result.bound:.4f} s, gap {100 * (result.gap or 0):.1f} %",
            )
        )
    return (
        table(result.plan.label, [*rows, *stages(result.plan)])
        + "<p><code>result.report()</code> shows the whole report.</p>"
    )


def of_page(page: str) -> str:
    style = "width:100%;height:900px;border:0"
    return f'<iframe srcdoc="{html.escape(page)}" style="{style}" title="Espalier report"></iframe>'
