#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a simulated timeline (the trace of `espalier simulate --trace`) as a small SVG. It has a band per rank, with
compute above data-parallel collectives, micro-batch numbers in the slices, and the memory below.

usage: timeline_svg.py TRACE.json[.gz] OUT.svg [--title TEXT]
"""
import argparse
import collections
import gzip
import html
import json
import math
import pathlib

LEFT, WIDTH, TOP = 88, 1000, 46
COMPUTE, DATA, MEMORY, GAP = 30, 9, 20, 14
FORWARD = ["#4c8ed9", "#9cc4ee", "#2f6db3", "#c5ddf6"]
BACKWARD = ["#43a047", "#93cf96", "#2c7a30", "#c4e5c6"]
WEIGHT = ["#8e63c7", "#c0a6e2", "#6b3fa8", "#ddcdf0"]
GATHER, REDUCE, UPDATE = "#e0a030", "#d9603f", "#555b66"


def read(path):
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def colour(event, chunks):
    name, local = event["name"], chunks.index(event["args"]["chunk"]) % 4 if event["args"].get("chunk", -1) in chunks else 0
    if name.startswith("F "):
        return FORWARD[local]
    if name.startswith("B "):
        return BACKWARD[local]
    if name.startswith("W "):
        return WEIGHT[local]
    if "AllGather" in name:
        return GATHER
    return UPDATE if name == "optimizer" else REDUCE


def nice_step(span):
    """Returns 1, 2 or 5 times a power of ten, which gives about eight marks."""
    power = 10 ** math.floor(math.log10(span / 8))
    return next(power * k for k in (1, 2, 5, 10) if power * k >= span / 8)


class Picture:
    def __init__(self, trace, title):
        self.events = trace["traceEvents"]
        self.span = trace["espalier"]["iteration_ns"] / 1000.0
        self.title = title or trace["espalier"]["plan"]
        self.ranks = sorted({e["pid"] for e in self.events if e["ph"] == "M" and e["name"] == "process_name"})
        self.names = {e["pid"]: e["args"]["name"] for e in self.events if e["ph"] == "M" and e["name"] == "process_name"}
        self.slices = collections.defaultdict(list)
        for e in self.events:
            if e["ph"] == "X" and e.get("cat") == "kernel":
                self.slices[e["pid"], e["tid"]].append(e)
        self.out = []

    def x(self, us):
        return round(LEFT + us / self.span * WIDTH, 2)

    def rect(self, x, y, width, height, fill, title=""):
        tip = f"<title>{html.escape(title)}</title>" if title else ""
        end = f">{tip}</rect>" if tip else "/>"
        self.out.append(f'<rect x="{x:g}" y="{y:g}" width="{max(width, 0.3):.2f}" height="{height}" fill="{fill}"{end}')

    def text(self, x, y, text, kind):
        self.out.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{html.escape(text)}</text>')

    def band(self, rank, y):
        stage = self.names[rank].split(" · ")
        self.text(LEFT - 8, y + 13, stage[1], "n")
        self.text(LEFT - 8, y + 26, stage[2].replace("represents ", "") if len(stage) > 2 else stage[0], "s")
        self.rect(LEFT, y, WIDTH, COMPUTE, "#f1f3f5")
        chunks = sorted({e["args"]["chunk"] for e in self.slices[rank, 1] if e["name"][:2] in ("F ", "B ", "W ")})
        for e in self.slices[rank, 1]:
            x, width = self.x(e["ts"]), e["dur"] / self.span * WIDTH
            self.rect(x, y, width, COMPUTE, colour(e, chunks), e["name"])
            microbatch = e["args"].get("microbatch")
            if microbatch is not None and width > 7 * len(str(microbatch)) and "part" not in e["name"]:
                self.text(round(x + width / 2, 1), y + 19, str(microbatch), "m")
        for e in self.slices[rank, 2]:
            self.rect(self.x(e["ts"]), y + COMPUTE + 1, e["dur"] / self.span * WIDTH, DATA, colour(e, chunks), e["name"])
        self.memory(rank, y + COMPUTE + DATA + 3)

    def memory(self, rank, y):
        points = [(e["ts"], e["args"]["static"] + e["args"]["activations"], e["args"]["static"])
                  for e in self.events if e["ph"] == "C" and e["pid"] == rank]
        scale = MEMORY / self.peak
        path, last = [f"M{LEFT} {y + MEMORY}"], None
        for at, size, _ in sorted(points, key=lambda p: p[0]):
            height = round(y + MEMORY - size * scale, 1)
            if height != last:
                path.append(f"H{self.x(at):g}V{height:g}")
            last = height
        path.append(f"H{LEFT + WIDTH}V{y + MEMORY}Z")
        self.out.append(f'<path d="{"".join(path)}" fill="#cfd4da"/>')
        static = round(points[0][2] * scale, 1)
        self.rect(LEFT, y + MEMORY - static, WIDTH, static, "#adb5bd")
        self.text(LEFT - 8, y + MEMORY - 6, f"{max(p[1] for p in points) / 2**30:.1f} GiB", "s")

    def axis(self, y):
        step = nice_step(self.span)
        unit, scale = ("s", 1e6) if self.span >= 2e6 else ("ms", 1e3)
        at = 0.0
        while at <= self.span:
            self.out.append(f'<path d="M{self.x(at):g} {TOP - 4}V{y}" stroke="#dee2e6" stroke-width="1"/>')
            self.text(self.x(at), y + 14, f"{at / scale:g}" + (f" {unit}" if at == 0 else ""), "a")
            at += step

    def legend(self, y):
        x = LEFT
        entries = [(FORWARD[0], "forward, first chunk"), (FORWARD[1], "second"), (BACKWARD[0], "backward, first chunk"), (BACKWARD[1], "second"),
                   (WEIGHT[0], "weight gradient"), (GATHER, "parameter all-gather"), (REDUCE, "gradient reduction"), (UPDATE, "optimizer"),
                   ("#adb5bd", "memory")]
        used = "".join(self.out)
        for fill, name in entries:
            if f'fill="{fill}"' not in used:
                continue
            self.rect(x, y, 11, 11, fill)
            self.text(x + 15, y + 10, name, "l")
            x += 26 + 6.3 * len(name)

    def draw(self):
        self.peak = max(e["args"]["static"] + e["args"]["activations"] for e in self.events if e["ph"] == "C")
        pitch = COMPUTE + DATA + MEMORY + 3 + GAP
        bottom = TOP + pitch * len(self.ranks)
        self.axis(bottom - 4)
        for i, rank in enumerate(self.ranks):
            self.band(rank, TOP + i * pitch)
        self.legend(bottom + 22)
        height = bottom + 44
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 16} {height}" font-family="system-ui, sans-serif" '
                f'role="img" aria-labelledby="t"><title id="t">{html.escape(self.title)}</title><style>text{{fill:#212529}}'
                ".n{font-size:13px;text-anchor:end}.s{font-size:11px;text-anchor:end;fill:#6c757d}.a{font-size:11px;text-anchor:middle;fill:#6c757d}"
                ".l{font-size:11.5px}.m{font-size:11px;text-anchor:middle;fill:#fff}.h{font-size:14px;font-weight:600}</style>"
                f'<rect width="{LEFT + WIDTH + 16}" height="{height}" fill="#fff"/>')
        heading = f'<text x="{LEFT}" y="26" class="h">{html.escape(self.title)}</text>'
        return "\n".join([head, heading, *self.out, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--title")
    arguments = parser.parse_args()
    arguments.out.write_text(Picture(read(arguments.trace), arguments.title).draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
