#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the growth of the time of the layer search from the JSON lines of the bench programs.

usage: espalier_bench_layer_search | growth_svg.py > docs/images/layer_search_growth.svg
"""
import json
import math
import sys

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 360, 64, 28, 44
COLOURS = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728"]


def main():
    rows = [json.loads(line) for line in sys.stdin if line.startswith('{"bench": "layer_search"')]
    series = {}
    for r in rows:
        name = f'{r["space"]}, {r["devices"]} devices, depths to {r["depths"]}: {r["options"]} options in {r["layouts"]} layouts'
        series.setdefault(name, []).append((r["layers"], r["mean_us"]))
    if not series:
        sys.exit("growth_svg: no lines of the layer_search bench on stdin")
    xs = sorted({x for points in series.values() for x, _ in points})
    low, high = 10.0, 1000.0

    def px(x):
        return LEFT + (WIDTH - LEFT - 20) * (math.log(x / xs[0]) / math.log(xs[-1] / xs[0]))

    def py(y):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log(y / low) / math.log(high / low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="18">Layer search: mean time of one program (one stage, one memory limit)</text>']
    for y in (10, 30, 100, 300, 1000):
        out.append(f'<line x1="{LEFT}" y1="{py(y):.1f}" x2="{WIDTH - 20}" y2="{py(y):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{py(y) + 4:.1f}" text-anchor="end">{y} µs</text>')
    for x in xs:
        out.append(f'<text x="{px(x):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x}</text>')
    out.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 8}" text-anchor="middle">layers</text>')
    for (name, points), colour in zip(series.items(), COLOURS):
        line = " ".join(f"{px(x):.1f},{py(max(y, low)):.1f}" for x, y in sorted(points))
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
    for i, (name, colour) in enumerate(zip(series, COLOURS)):
        out.append(f'<text x="{LEFT + 10}" y="{TOP + 16 + 16 * i}" fill="{colour}">{name}</text>')
    print("\n".join(out + ["</svg>"]))


if __name__ == "__main__":
    main()
