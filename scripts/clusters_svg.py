#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/clusters.md from the program's output: a plan on unlike devices with its timeline, and a
trace with the decisions on it.

usage: clusters_svg.py BINARY [ROOT]     writes docs/images/mixed-plan.svg and docs/images/trace-decisions.svg
"""
import csv
import html
import json
import pathlib
import subprocess
import sys
import tempfile

COLOURS = ["#1971c2", "#e8590c", "#2f9e44", "#9c36b5", "#c2255c", "#5f3dc4"]
LIGHT = ["#a5d8ff", "#ffd8a8", "#b2f2bb", "#eebefa", "#fcc2d7", "#d0bfff"]
STYLE = ("<style>text{fill:#212529}.n{font-size:12px}.s{font-size:11px;fill:#6c757d}.a{font-size:11px;text-anchor:middle;fill:#6c757d}"
         ".e{font-size:12px;text-anchor:end}.h{font-size:14px;font-weight:600}</style>")
HOUR = 3600


def page(width, height, title, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" role="img" '
            f'aria-labelledby="t"><title id="t">{html.escape(title)}</title>{STYLE}<rect width="{width}" height="{height}" fill="#fff"/>\n'
            f'<text x="16" y="26" class="h">{html.escape(title)}</text>\n' + "\n".join(body) + "\n</svg>\n")


def box(x, y, width, height, colour):
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.3):.2f}" height="{height:.2f}" fill="{colour}"/>'


def words(x, y, text, kind="n"):
    return f'<text x="{x:.2f}" y="{y:.2f}" class="{kind}">{html.escape(text)}</text>'


def answered(binary, *arguments):
    run = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"espalier {' '.join(map(str, arguments))}: {run.stderr}")
    return json.loads(run.stdout) if "--json" in arguments else None


def degrees(strategy):
    parts = [f"{name.upper()}{strategy[name]}" for name in ("tp", "cp", "dp") if strategy[name] > 1]
    return "·".join(parts) or "one replica"


def first_device(stage):
    return int(str(stage["devices"][0]).split("-")[0].split(":")[0])


def device_count(stage):
    spans = [str(item).split(":")[0].split("-") for item in stage["devices"]]
    return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)


def stage_rows(result, groups):
    """Returns (pipeline, stage, group, label) of every stage, in order."""
    edges = []
    for group in groups:
        edges.append((edges[-1] if edges else 0) + group["nodes"] * group["devices_per_node"])
    for p, pipeline in enumerate(result["plan"]["pipelines"]):
        for stage in pipeline["stages"]:
            group = next(g for g, edge in enumerate(edges) if first_device(stage) < edge)
            layers = sum(r["last"] - r["first"] + 1 for r in stage["layers"])
            label = f"{device_count(stage)} {groups[group]['name']} · {degrees(stage['layers'][0]['strategy'])} · {layers} layers"
            yield p, group, label, layers


def mixed_plan(binary, job, groups, batch, title):
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace.json"
        result = answered(binary, "plan", job, "--set", f"training.global_batch={batch}", "--json", "-q", "-o", folder)
        answered(binary, "simulate", pathlib.Path(folder) / "plan.json", "--trace", trace, "-q")
        events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    end = max(e["ts"] + e["dur"] for e in events)
    left, right, top, row = 330, 1090, 64, 22
    at = lambda t: left + (right - left) * t / end
    body = []
    rows = list(stage_rows(result, groups))
    most = max(layers for _, _, _, layers in rows)
    for i, (_, group, label, layers) in enumerate(rows):
        y = top + row * i
        body += [words(16, y + 13, f"{i}"), words(34, y + 13, label), box(240, y + 2, 76 * layers / most, row - 6, COLOURS[group])]
        for e in events:
            name = e["name"]
            if not name.startswith(("F ", "B ", "W ")) or e["args"]["stage"] != i:
                continue
            body.append(box(at(e["ts"]), y + 2, at(e["ts"] + e["dur"]) - at(e["ts"]) - 0.4, row - 6,
                            LIGHT[group] if name.startswith("F ") else COLOURS[group]))
    schedule = result["plan"]["pipelines"][0]["schedule"]
    samples = batch // schedule["microbatches"]
    bottom = top + row * len(rows)
    body.append(words(34, top - 10, "stage: devices, degrees, layers", "s"))
    body.append(words(left, top - 10, f"forward (light) and backward of {schedule['microbatches']} micro-batches of {samples} samples", "s"))
    for part in range(5):
        body.append(words(at(end * part / 4), bottom + 16, f"{end * part / 4e6:.2f} s", "a"))
    return page(1120, bottom + 30, title, body)


def presence(path, nodes, length):
    """Returns (time, nodes) of an events file that lists leaving and joining nodes."""
    there, out = nodes, [(0.0, nodes)]
    with open(path, encoding="utf-8") as file:
        for event in csv.DictReader(line for line in file if not line.startswith("#")):
            there += {"leave": -1, "join": 1}[event["event"]]
            out.append((float(event["time_s"]), there))
    return [*out, (length, there)]


def step_line(points, at, up):
    path = f"M{at(points[0][0]):.1f} {up(points[0][1]):.1f}"
    for (_, before), (time, now) in zip(points, points[1:]):
        path += f"H{at(time):.1f}V{up(now):.1f}" if now != before else f"H{at(time):.1f}"
    return path


def lanes(found, at, top):
    length, body = found["length_s"], []
    for i, run in enumerate(r for r in found["runs"] if r["name"] != "static, worst case"):
        y = top + 34 * i
        body.append(words(128, y + 10, {"static": "never changed", "online": "policy", "clairvoyant": "clairvoyant"}[run["name"]], "e"))
        body.append(words(128, y + 22, f"{run['samples_per_s']:.1f} samples/s", "e"))
        ends = [d["at_s"] for d in run["decisions"][1:]] + [length]
        for decision, end in zip(run["decisions"], ends):
            body.append(box(at(decision["at_s"]), y, at(end) - at(decision["at_s"]), 24, COLOURS[decision["plan"]]))
    return body


def trace_decisions(binary, job, events, nodes, title):
    found = answered(binary, "plan", job, "--json", "-q")
    length, top, height = found["length_s"], 62, 170
    at = lambda t: 140 + 950 * min(t, length) / length
    up = lambda n: top + height - height * n / nodes
    body = []
    for n in range(0, nodes + 1, 8):
        body += [f'<path d="M140 {up(n):.1f}H1090" stroke="#dee2e6"/>', words(128, up(n) + 4, f"{n} nodes" if n else "0", "e")]
    there = presence(events, nodes, length)
    body.append(f'<path d="{step_line(there, at, up)}" fill="none" stroke="#212529" stroke-width="1.4"/>')
    policy = next(r for r in found["runs"] if r["name"] == "online")
    taken = [(d["at_s"], plan_nodes(found["plans"][d["plan"]])) for d in policy["decisions"]]
    body.append(f'<path d="{step_line([*taken, (length, taken[-1][1])], at, up)}" fill="none" stroke="#e03131" stroke-width="1.4"/>')
    body.append(words(140, top - 12, "nodes that are there (black), nodes of the plan that the policy has chosen (red); below, which plan is chosen when", "s"))
    body += lanes(found, at, top + height + 16)
    legend = top + height + 16 + 34 * 3 + 34
    for hour in range(0, int(length // HOUR) + 1):
        body.append(words(at(hour * HOUR), legend - 20, f"{hour} h", "a"))
    for i, plan in enumerate(found["plans"]):
        body += [box(140 + 158 * i, legend - 4, 12, 12, COLOURS[i]), words(158 + 158 * i, legend + 6, f"plan {i}: {plan_nodes(plan)} nodes")]
    return page(1120, legend + 22, title, body)


def plan_nodes(plan):
    return sum(plan["nodes_by_group"])


def main():
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    root = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).parent.parent).resolve()
    here, images = root / "examples/clusters/scenarios", root / "docs/images"
    groups = [{"name": "H100", "nodes": 1, "devices_per_node": 4}, {"name": "A100", "nodes": 2, "devices_per_node": 8}]
    (images / "mixed-plan.svg").write_text(
        mixed_plan(binary, here / "07-h100-and-a100.yaml", groups, 32, "Llama 2 13B on 4 H100 and 16 A100 of 40 GB, 32 samples a step (simulated)"),
        encoding="utf-8")
    (images / "trace-decisions.svg").write_text(
        trace_decisions(binary, here / "10-a-spot-trace.yaml", here / "10-spot-events.csv", 32, "GPT-2 1.5B on spot instances: 11.4 hours of a public trace"),
        encoding="utf-8")
    print("clusters_svg: wrote docs/images/mixed-plan.svg and docs/images/trace-decisions.svg")


if __name__ == "__main__":
    main()
