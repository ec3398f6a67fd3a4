# SPDX-License-Identifier: Apache-2.0
"""Draws results with matplotlib, which is optional: pip install "espalier[plot]"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from espalier.errors import UsageError
from espalier.timeline import KINDS, STREAMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from espalier.planning import Result

GIB = 2**30
# Okabe and Ito's colours, which people with any colour vision tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")


def axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Returns the axes, or those of a new figure of this size in inches."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise UsageError("plot", "no matplotlib", "matplotlib", 'pip install "espalier[plot]"') from None
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def timeline(result: Result, ax: Axes | None, ranks: int) -> Axes:
    """Draws a row for each rank class and stream, with a colour for each kind of instruction."""
    spans = result.timeline()
    shown = np.unique(spans.rank)[:ranks]
    rows = [(int(rank), int(stream)) for rank in shown for stream in np.unique(spans.stream[spans.rank == rank])]
    drawn = axes(ax, 10, 1.2 + 0.28 * len(rows))
    kinds = np.unique(spans.kind)
    colours = {int(kind): COLOURS[number % len(COLOURS)] for number, kind in enumerate(kinds)}
    labels: dict[int, Any] = {}
    for row, (rank, stream) in enumerate(rows):
        for kind in kinds:
            of_row = (spans.rank == rank) & (spans.stream == stream) & (spans.kind == kind) & (spans.duration_ns > 0)
            if of_row.any():
                bars = list(zip((spans.start_ns[of_row] * 1e-6).tolist(), (spans.duration_ns[of_row] * 1e-6).tolist()))
                labels.setdefault(
                    int(kind),
                    drawn.broken_barh(
                        bars, (row - 0.4, 0.8), facecolors=colours[int(kind)], edgecolors="face", linewidth=0.5
                    ),
                )
    drawn.set_yticks(range(len(rows)), [f"rank {rank} {STREAMS[stream]}" for rank, stream in rows], fontsize="small")
    drawn.invert_yaxis()
    drawn.set_xlim(0, spans.iteration_ns * 1e-6)
    drawn.set_xlabel("time (ms)")
    drawn.set_title(result.plan.label, fontsize="medium")
    drawn.legend(
        labels.values(),
        [KINDS[kind].replace("_", " ") for kind in labels],
        fontsize="small",
        loc="upper left",
        bbox_to_anchor=(1, 1),
    )
    return drawn


def memory(result: Result, ax: Axes | None) -> Axes:
    """Draws the memory of the first rank class of each stage, and the limit."""
    drawn = axes(ax, 8, 3.5)
    samples = result.timeline().memory()
    for stage in np.unique(samples["stage"]):
        first = samples["rank"][samples["stage"] == stage].min()
        of_rank = samples["rank"] == first
        drawn.step(
            samples["at_ns"][of_rank] * 1e-6,
            samples["bytes"][of_rank] / GIB,
            where="post",
            label=f"stage {stage}",
            color=COLOURS[int(stage) % len(COLOURS)],
        )
    drawn.axhline(result.prediction.memory_limit_bytes / GIB, color="black", linestyle="--", linewidth=1, label="limit")
    drawn.set_ylim(bottom=0)
    drawn.set_xlabel("time (ms)")
    drawn.set_ylabel("memory (GiB)")
    drawn.set_title(result.plan.label, fontsize="medium")
    drawn.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return drawn


def space(result: Result, ax: Axes | None) -> Axes:
    """Draws step time and memory of the plans that the search simulated, the answer, and the bound."""
    drawn = axes(ax, 8, 4)
    plans = result.searched_table()
    drawn.scatter(
        plans["iteration_s"],
        np.array(plans["peak_memory_bytes"]) / GIB,
        s=14,
        color=COLOURS[0],
        alpha=0.6,
        label="simulated plans",
    )
    others = [other for other in result.alternatives if other.baseline and other.iteration_s]
    drawn.scatter(
        [other.iteration_s or 0 for other in others],
        [(other.peak_memory_bytes or 0) / GIB for other in others],
        s=30,
        marker="s",
        color=COLOURS[1],
        label="baselines",
    )
    for other in others:
        drawn.annotate(
            other.label,
            (other.iteration_s or 0, (other.peak_memory_bytes or 0) / GIB),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize="x-small",
        )
    drawn.scatter(
        [result.prediction.iteration_s],
        [result.prediction.peak_memory_bytes / GIB],
        s=120,
        marker="*",
        color=COLOURS[5],
        label="answer",
        zorder=3,
    )
    if result.bound is not None:
        drawn.axvline(result.bound, color=COLOURS[7], linewidth=1, label="lower bound")
    drawn.axhline(
        result.prediction.memory_limit_bytes / GIB, color="black", linestyle="--", linewidth=1, label="memory limit"
    )
    drawn.set_xlabel("step time (s)")
    drawn.set_ylabel("memory (GiB)")
    drawn.set_title(f"{result.plan.label}: {result.status}", fontsize="medium")
    drawn.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    return drawn
