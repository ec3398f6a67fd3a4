#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the results of `espalier-accuracy --json` into two pages, and appends one line of history.

  docs/accuracy.md          for users: errors by kind of model, engine and device; plots
  lab/accuracy-report.md    for developers: both protocols by source, acceptance, coefficients, worst records

usage: accuracy.py --rows ROWS.jsonl --files RUNS.jsonl … [--doc docs/accuracy.md] [--report lab/accuracy-report.md]
                   [--history data/accuracy-history.ndjson]

Text outside the markers of a page is kept; the results are written between `<!-- begin:NAME -->` and
`<!-- end:NAME -->`. Both pages must have all their markers.
"""
import argparse
import collections
import datetime
import hashlib
import html
import json
import math
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLAYBOOK = "HF Ultra-Scale Playbook"
GOLDEN = "Megatron-LM functional-test golden values"
TOGETHER = ("InternEvo", "OneFlow", "IBM fms-fsdp", "NVIDIA NeMo docs", "NVIDIA JAX-Toolbox", "NVIDIA NeMo AutoModel")
PROTOCOLS = (("S", "source_out"), ("G", "grouped"))


# ---- statistics -----------------------------------------------------------------------------------------------------

def errors(rows, key):
    return [(r[key] - r["measured_s"]) / r["measured_s"] for r in rows if key in r]


def p90(values):
    ordered = sorted(values)
    return ordered[(9 * len(ordered) + 9) // 10 - 1]


def regret(rows, key):
    """Returns 1 - best/chosen per group of at least two runs. Repeated runs of one configuration count as one,
    with their median."""
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for r in rows:
        if key in r:
            groups[r["ranking_group"]][r["label"]].append(r)
    lost = []
    for labels in groups.values():
        if len(labels) < 2:
            continue
        runs = [(statistics.median(x[key] for x in same), statistics.median(x["measured_s"] for x in same))
                for _, same in sorted(labels.items())]
        lost.append(1 - min(t for _, t in runs) / min(runs)[1])
    return lost


def coverage(rows, prefix):
    inside = [r[prefix + "_low_s"] <= r["measured_s"] <= r[prefix + "_high_s"] for r in rows if prefix + "_low_s" in r]
    return sum(inside) / len(inside) if inside else None


def summary(rows, prefix):
    e = errors(rows, prefix + "_s")
    if not e:
        return None
    ape = [abs(x) for x in e]
    lost = regret(rows, prefix + "_s")
    return {"n": len(e), "accuracy": statistics.mean(max(0.0, 1 - x) for x in ape), "median": statistics.median(ape), "p90": p90(ape),
            "bias": statistics.mean(e), "coverage": coverage(rows, prefix), "groups": len(lost),
            "regret": statistics.mean(lost) if lost else None, "max_regret": max(lost) if lost else None}


def memory_errors(rows, key="predicted_bytes"):
    return [(r[key] - r["measured_bytes"]) / r["measured_bytes"] for r in rows if "measured_bytes" in r and key in r]


# ---- text -----------------------------------------------------------------------------------------------------------

def percent(x, digits=1):
    return "–" if x is None else f"{100 * x:.{digits}f} %"


def table(header, rows):
    line = lambda cells: "| " + " | ".join(str(c) for c in cells) + " |"
    return "\n".join([line(header), line(["---"] * len(header))] + [line(r) for r in rows])


def verdict(value, floor, goal, above):
    if value is None:
        return "not measured"
    reaches = (lambda limit: value >= limit - 1e-12) if above else (lambda limit: value <= limit + 1e-12)
    if goal is not None and reaches(goal):
        return "goal"
    return "floor" if reaches(floor) else "**below floor**"


def contradictions(files, rows, apart=0.02):
    """Returns ids of runs whose measured peaks differ by more than `apart` although command line, device, GPU count
    and software are equal. At most one of them can be the true need of these arguments. Predictions are not used."""
    judged = {r["id"]: r["measured_bytes"] for r in rows if "measured_bytes" in r}
    groups = collections.defaultdict(list)
    for path in files:
        for line in open(path):
            r = json.loads(line) if line.strip() else {}
            args = (r.get("extra") or {}).get("args")
            if args and r["id"] in judged:
                groups[(json.dumps(args, sort_keys=True), r["gpu"].get("type"), r["gpu"].get("count"), r.get("framework"))].append(r["id"])
    return {i for ids in groups.values() for i in ids
            if max(judged[j] for j in ids) > (1 + apart) * min(judged[j] for j in ids)}


def acceptance(rows, contradictory):
    """Returns the lines of the acceptance table: name, value function, floors and goals of both protocols, whether
    more is better."""
    of = lambda name: [r for r in rows if r["family"].startswith(name)]
    together = [r for r in rows if r["family"].startswith(TOGETHER)]
    small = [r for r in of(PLAYBOOK) if r["devices"] <= 128 and re.search(r"\b[13]B\b|1\.\d+B|3\.\d+B", r["group"].split("|")[0])]
    accuracy = lambda chosen: lambda p: (summary(chosen, p) or {}).get("accuracy")
    multi_node = [r for r in of("vTrain") if r["devices"] > 8]
    single_node = [r for r in of("vTrain") if r["devices"] <= 8]
    bridge = lambda routed: [r for r in of("NVIDIA Megatron-Bridge") if ("Qwen3" in r["group"]) == routed]
    far = [r for r in of(PLAYBOOK) if r["devices"] > 128]
    simumax = of("SimuMax")
    lines = [
        ("Korthikanti Table 5, mean accuracy", of("Korthikanti"), accuracy(of("Korthikanti")), (.95, .98), (.97, .985), True),
        ("vtrain_single_node, mean accuracy", single_node, accuracy(single_node), (.85, .92), (.92, .95), True),
        ("vtrain_single_node, mean top-1 regret", single_node, lambda p: (summary(single_node, p) or {}).get("regret"), (.06, .03), (.03, .015), False),
        ("mosaicml_llm_foundry, mean accuracy", of("MosaicML"), accuracy(of("MosaicML")), (.86, .93), (.945, .97), True),
        ("internevo, oneflow, fms_fsdp, nemo_docs, jax_toolbox, automodel together, mean accuracy", together, accuracy(together), (.82, .90), (.88, .94), True),
        ("playbook 1B/3B, ≤ 128 GPUs, median error", small, lambda p: (summary(small, p) or {}).get("median"), (.15, .10), (.08, .06), False),
        ("playbook 1B/3B, ≤ 128 GPUs, mean top-1 regret", small, lambda p: (summary(small, p) or {}).get("regret"), (.15, .05), (.08, .03), False),
        ("peak memory MAPE, golden values", [r for r in of(GOLDEN) if "measured_bytes" in r],
         lambda p: mean_abs(memory_errors(of(GOLDEN), p + "_bytes")), (.04, .02), (.03, .01), False),
        ("the same without contradictory rows (below)", [r for r in of(GOLDEN) if "measured_bytes" in r and r["id"] not in contradictory],
         lambda p: mean_abs(memory_errors([r for r in of(GOLDEN) if r["id"] not in contradictory], p + "_bytes")), (.04, .02), (.03, .01), False),
        ("peak memory MAPE, playbook", [r for r in of(PLAYBOOK) if "measured_bytes" in r],
         lambda p: mean_abs(memory_errors(of(PLAYBOOK), p + "_bytes")), (.10, .07), (.08, .05), False),
        ("megatron_bridge, dense, mean accuracy", bridge(False), accuracy(bridge(False)), (.88, .95), (.95, .98), True),
        ("megatron_bridge, routed, mean accuracy", bridge(True), accuracy(bridge(True)), (.78, .90), (.90, .94), True),
        ("nemo_docs, mean accuracy", of("NVIDIA NeMo docs"), accuracy(of("NVIDIA NeMo docs")), (.93, .96), (.95, .98), True),
        ("torchtitan on H100 at 500 W, mean accuracy", of("torchtitan"), accuracy(of("torchtitan")), (.88, .94), (.92, .96), True),
        ("zero bubble, mean accuracy", of("Zero Bubble"), accuracy(of("Zero Bubble")), (.94, .97), (.96, .98), True),
        ("vocabulary baseline, mean accuracy", of("Vocabulary"), accuracy(of("Vocabulary")), (.92, .96), (.95, .98), True),
        ("SC'21, mean accuracy", of("Narayanan"), accuracy(of("Narayanan")), (.95, .98), (.97, .99), True),
        ("simumax on B200, mean accuracy", simumax, accuracy(simumax), (.92, .96), (.96, .98), True),
        ("vtrain_multi_node, mean accuracy", multi_node, accuracy(multi_node), (.92, .95), (.95, .97), True),
        ("bigscience on one node, mean accuracy", of("BigScience"), accuracy(of("BigScience")), (.80, .85), (.90, .95), True),
        ("playbook, > 128 GPUs, mean accuracy", far, accuracy(far), (.60, .72), (.75, .80), True),
        ("peak memory MAPE, simumax", [r for r in simumax if "measured_bytes" in r], lambda p: mean_abs(memory_errors(simumax, p + "_bytes")), (.025, .01), (.015, .005), False),
        ("coverage of the 80 % interval", [r for r in rows if "measured_s" in r], lambda p: coverage(rows, p), None, None, None),
    ]
    out = []
    for name, chosen, value, s, g, above in lines:
        n = sum(1 for r in chosen if ("measured_bytes" if "memory" in name or "contradictory" in name else "measured_s") in r)
        cells = [name, n]
        for (label, prefix), limits in zip(PROTOCOLS, (s, g)):
            v = value(prefix)
            if limits is None:
                floor, goal = ((.68, .90), (.77, .83)) if label == "S" else ((.72, .88), (.78, .82))
                word = "not measured" if v is None else "goal" if goal[0] <= v <= goal[1] else "floor" if floor[0] <= v <= floor[1] else "**outside**"
                cells += [percent(v), f"{100 * floor[0]:g}–{100 * floor[1]:g} %", word]
            else:
                cells += [percent(v), percent(limits[0]) + " / " + percent(limits[1]), verdict(v, limits[0], limits[1], above)]
        out.append(cells)
    out.append(coverage_by_source(rows))
    return table(["", "n", "S", "floor / goal", "", "G", "floor / goal", ""], out)


def coverage_by_source(rows):
    """Counts the sources of at least 20 runs that each reach the required coverage."""
    large = [f for f, n in collections.Counter(r["family"] for r in rows if "measured_s" in r).items() if n >= 20]
    cells = ["sources of 20 and more runs whose coverage is within", len(large)]
    for prefix, low, high in (("source_out", .65, .92), ("grouped", .72, .88)):
        inside = [coverage([r for r in rows if r["family"] == f], prefix) for f in large]
        inside = [c for c in inside if c is not None]
        within = sum(low <= c <= high for c in inside)
        cells += [f"{within} of {len(inside)}", f"{100 * low:g}–{100 * high:g} %, each", "floor" if within == len(inside) else "**below floor**"]
    return cells


def mean_abs(values):
    return statistics.mean(abs(v) for v in values) if values else None


def feasibility(rows):
    """Tabulates the recall of rows that ran, and the share of crashed rows that are predicted not to fit. For the
    latter also over rows whose states alone need at least 60 % of the memory."""
    out = []
    for family in sorted({r["family"] for r in rows}):
        judged = [r for r in rows if r["family"] == family and "measured_fits" in r]
        ran = [r for r in judged if r["measured_fits"]]
        crashed = [r for r in judged if not r["measured_fits"]]
        large = [r for r in crashed if r["static_bytes"] >= 0.6 * r["limit_bytes"]]
        if not judged:
            continue
        share = lambda part, whole: percent(part / whole) if whole else "–"
        out.append([family, len(ran), share(sum(r["predicted_fits"] for r in ran), len(ran)), len(crashed),
                    share(sum(not r["predicted_fits"] for r in crashed), len(crashed)), len(large),
                    share(sum(not r["predicted_fits"] for r in large), len(large))])
    return table(["source", "ran", "of them predicted to fit", "crashed", "of them predicted over",
                  "crashed with static memory ≥ 60 %", "of them predicted over"], out)


def time_table(rows):
    out = []
    for family in sorted({r["family"] for r in rows if "measured_s" in r}):
        chosen = [r for r in rows if r["family"] == family]
        for label, prefix in (("fit", "shipped"),) + PROTOCOLS:
            s = summary(chosen, prefix)
            if s:
                out.append([family if label == "fit" else "", label, s["n"], percent(s["accuracy"]), percent(s["median"]), percent(s["p90"]),
                            percent(s["bias"]), f"{s['groups']}", percent(s["regret"]), percent(s["coverage"])])
    for label, prefix in (("fit", "shipped"),) + PROTOCOLS:
        s = summary(rows, prefix)
        out.append(["all" if label == "fit" else "", label, s["n"], percent(s["accuracy"]), percent(s["median"]), percent(s["p90"]),
                    percent(s["bias"]), s["groups"], percent(s["regret"]), percent(s["coverage"])])
    return table(["source", "", "n", "mean accuracy", "median error", "p90", "bias", "groups", "mean top-1 regret", "in 80 % interval"], out)


def memory_table(rows):
    out = []
    for family in sorted({r["family"] for r in rows if "measured_bytes" in r}):
        chosen = [r for r in rows if r["family"] == family]
        for label, key in (("fit", "predicted_bytes"), ("S", "source_out_bytes"), ("G", "grouped_bytes")):
            e = memory_errors(chosen, key)
            if e:
                ape = [abs(x) for x in e]
                out.append([family if label == "fit" else "", label, len(e), percent(statistics.mean(ape)), percent(statistics.median(ape)),
                            percent(p90(ape)), percent(statistics.mean(e))])
    return table(["source", "", "n", "MAPE", "median", "p90", "bias"], out)


def worst_table(rows, count=20):
    timed = [r for r in rows if "source_out_s" in r and r["family"] not in (PLAYBOOK,)]
    timed.sort(key=lambda r: -abs(math.log(r["source_out_s"] / r["measured_s"])))
    per_family, out = collections.Counter(), []
    for r in timed:
        per_family[r["family"]] += 1
        if per_family[r["family"]] <= 2 and len(out) < count:
            out.append([r["id"], r["group"].replace("|", ", ") + " GPUs", r["label"], f"{r['measured_s']:.3g} s", f"{r['source_out_s']:.3g} s"])
    return table(["record", "model", "configuration", "measured", "predicted (S)"], out)


# ---- the page for users ---------------------------------------------------------------------------------------------

FEWEST = 6  # runs of a row


def base_engine(row):
    return row["engine"].split("+")[0]  # options of an engine do not change its name


def model_kinds(files):
    """Returns id of a run -> kind of its model, for all that are not dense decoders."""
    kinds = {}
    for path in files:
        for line in open(path):
            r = json.loads(line) if line.strip() else {}
            model = r.get("model") or {}
            if (model.get("experts") or 0) > 1:
                kinds[r["id"]] = "mixture of experts"
            elif re.search(r"bert|\bt5\b|encoder", model.get("name", ""), re.I):
                kinds[r["id"]] = "encoder (BERT)"
    return kinds


def kind_of(row, kinds):
    """Returns the row of the table by model that a run belongs to."""
    if row["family"] == GOLDEN:
        return "functional tests of Megatron-LM: tiny models, bound by the host"
    if kind := kinds.get(row["id"]):
        return kind
    size = "up to 8 GPUs" if row["devices"] <= 8 else "9 to 128 GPUs" if row["devices"] <= 128 else "more than 128 GPUs"
    return f"dense decoder, {size}"


KINDS = ("dense decoder, up to 8 GPUs", "dense decoder, 9 to 128 GPUs", "dense decoder, more than 128 GPUs", "mixture of experts", "encoder (BERT)",
         "functional tests of Megatron-LM: tiny models, bound by the host")
ERRORS = ["median error, new cluster", "90 % below", "median error, known cluster", "90 % below"]


def both_errors(rows):
    """Returns the median and the ninth decile of the absolute error, for an unseen source and an unseen group."""
    cells = []
    for _, prefix in PROTOCOLS:
        s = summary(rows, prefix)
        cells += [percent(s["median"], 0), percent(s["p90"], 0)] if s else ["–", "–"]
    return cells


def kind_table(rows, kinds):
    timed = [r for r in rows if "source_out_s" in r]
    out = []
    for kind in KINDS:
        chosen = [r for r in timed if kind_of(r, kinds) == kind]
        if chosen:
            out.append([kind, *errors_and_coverage(chosen)])
    out.append(["**all**", *errors_and_coverage(timed)])
    return table(["model", "runs", *ERRORS, "inside the interval, new cluster", "known cluster"], out)


def errors_and_coverage(rows):
    return [f"{len(rows):,}", *both_errors(rows), *(percent(coverage(rows, prefix), 0) for _, prefix in PROTOCOLS)]


def shipped_intervals():
    """Returns (engine, device) -> the interval that an answer prints, as factors, and the number of its runs. An empty
    name stands for any other."""
    found = {}
    for line in re.findall(r"- \{(.*)\}", (ROOT / "data/calibration/intervals.yaml").read_text()):
        f = dict(re.findall(r'(\w+): "?([^",]*)"?', line))
        found[f.get("engine", ""), f.get("device", "")] = (f"×{float(f['low']):.2f} … ×{float(f['high']):.2f}", f.get("runs", "0"))
    return found


def fitted_engines():
    """Returns engine -> the engine whose coefficients and intervals it shares."""
    entries = re.split(r"^  - name: ", (ROOT / "data/engines.yaml").read_text(), flags=re.M)[1:]
    return {e.split()[0]: found[1] for e in entries if (found := re.search(r"^    fitted_as: (\S+)", e, re.M))}


def pair_table(rows):
    """Tabulates errors by engine and device. Functional tests are left out: no coefficient is fitted to their times."""
    intervals, fitted = shipped_intervals(), fitted_engines()
    timed = [r for r in rows if "source_out_s" in r and r["family"] != GOLDEN]
    pairs = collections.Counter((base_engine(r), r["device"]) for r in timed)
    out = []
    for (engine, device), n in sorted(pairs.items()):
        if n >= FEWEST:
            chosen = [r for r in timed if (base_engine(r), r["device"]) == (engine, device)]
            interval = intervals.get((fitted.get(engine, engine), device), ("–",))
            out.append([f"`{engine}`", f"`{device}`", f"{n:,}", *both_errors(chosen), interval[0]])
    return table(["engine", "device", "runs", *ERRORS, "80 % interval of an answer"], out)


def peak_table(rows):
    """Tabulates errors of peak memory by engine, each source held out."""
    measured = [r for r in rows if "measured_bytes" in r and "source_out_bytes" in r]
    out = []
    for engine, n in sorted(collections.Counter(base_engine(r) for r in measured).items()):
        ape = [abs(e) for e in memory_errors([r for r in measured if base_engine(r) == engine], "source_out_bytes")]
        if n >= FEWEST:
            out.append([f"`{engine}`", f"{n:,}", percent(statistics.median(ape)), percent(statistics.mean(ape)), percent(p90(ape))])
    return table(["engine", "peaks", "median error", "mean error", "90 % below"], out)


def ranking_sentence(rows):
    groups, new, known = (len(regret(rows, "source_out_s")), *(statistics.mean(regret(rows, p + "_s")) for _, p in PROTOCOLS))
    return (f"In {groups} groups of comparable runs, the configuration with the shortest prediction reached {percent(new)} less throughput\n"
            f"than the best one on a new cluster, and {percent(known)} less on a known one (means).")


def fit_sentence(rows):
    judged = [r for r in rows if "measured_fits" in r]
    ran, crashed = [r for r in judged if r["measured_fits"]], [r for r in judged if not r["measured_fits"]]
    return (f"{percent(sum(r['predicted_fits'] for r in ran) / len(ran))} of the {len(ran):,} runs that trained are predicted to fit.\n"
            f"{percent(sum(not r['predicted_fits'] for r in crashed) / len(crashed))} of the {len(crashed):,} runs that crashed are predicted to exceed the memory.\n"
            "The source does not separate crashes for lack of memory from others.")


# ---- plots ----------------------------------------------------------------------------------------------------------

def plot(rows, path, title):
    """Plots predicted over measured against measured seconds, log-log, one dot a run; the band is ±10 %."""
    size, left, top = 360, 56, 30
    xs = [math.log10(r["measured_s"]) for r in rows]
    low, high = math.floor(min(xs)), math.ceil(max(xs)) or 1
    high = max(high, low + 1)
    x = lambda v: left + (v - low) / (high - low) * size
    y = lambda ratio: top + size / 2 - max(-1.0, min(1.0, math.log2(ratio))) * size / 2
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{size + left + 16}" height="{size + top + 44}" font-family="sans-serif" font-size="11">',
             f'<rect width="100%" height="100%" fill="white"/><text x="{left}" y="18" font-size="12">{html.escape(title)}</text>',
             f'<rect x="{left}" y="{y(1.1):.1f}" width="{size}" height="{y(1 / 1.1) - y(1.1):.1f}" fill="#e8f1e8"/>']
    for ratio, word in ((2, "2×"), (1.41421, "1.4×"), (1, "1×"), (0.70711, "0.7×"), (0.5, "0.5×")):
        parts.append(f'<line x1="{left}" x2="{left + size}" y1="{y(ratio):.1f}" y2="{y(ratio):.1f}" stroke="#ccc"/>'
                     f'<text x="{left - 6}" y="{y(ratio) + 4:.1f}" text-anchor="end">{word}</text>')
    for decade in range(low, high + 1):
        parts.append(f'<line x1="{x(decade):.1f}" x2="{x(decade):.1f}" y1="{top}" y2="{top + size}" stroke="#ccc"/>'
                     f'<text x="{x(decade):.1f}" y="{top + size + 16}" text-anchor="middle">{10 ** decade:g} s</text>')
    for r in rows:
        ratio = r["source_out_s"] / r["measured_s"]
        parts.append(f'<circle cx="{x(math.log10(r["measured_s"])):.1f}" cy="{y(ratio):.1f}" r="1.8" fill="#2f6db3" fill-opacity="0.45"/>')
    parts.append(f'<text x="{left + size / 2}" y="{top + size + 34}" text-anchor="middle">measured step; vertical: predicted over measured, protocol S '
                 f'(beyond 2× at the edge)</text></svg>')
    path.write_text("\n".join(parts) + "\n")


def plots(rows, folder):
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for family in sorted({r["family"] for r in rows if "source_out_s" in r}):
        chosen = [r for r in rows if r["family"] == family and "source_out_s" in r]
        if len(chosen) < 8 or family == PLAYBOOK:  # its rows do not ship, not even as dots
            continue
        name = "accuracy-" + re.sub(r"[^a-z0-9]+", "-", family.lower()).strip("-")[:40] + ".svg"
        plot(chosen, folder / name, f"{family[:48]} (n = {len(chosen)})")
        lines.append(f"![predicted over measured: {family}](images/{name})")
    return "\n".join(lines)


# ---- document -------------------------------------------------------------------------------------------------------

def replace(text, name, content):
    begin, end = f"<!-- begin:{name} -->", f"<!-- end:{name} -->"
    if begin not in text or end not in text:
        raise SystemExit(f"no markers for {name}")
    return text[:text.index(begin) + len(begin)] + "\n" + content + "\n" + text[text.index(end):]


def write(page, contents):
    """Writes each text between its markers of a page."""
    text = page.read_text()
    for name, content in contents.items():
        text = replace(text, name, content)
    page.write_text(text)


def coefficient_table():
    text = (ROOT / "data/calibration/frameworks.yaml").read_text()
    out = []
    for engine, basis, values in re.findall(r'- engine: (\S+)\n\s+basis: "([^"]*)"\n\s+coefficients: \{([^}]*)\}', text):
        out.append([f"`{engine}`", basis, values.replace(", ", "<br>")])
    return table(["engine", "basis", "coefficients"], out) if out else "Nothing is fitted yet."


def operator_table():
    """Tabulates residuals of the operator and fabric fits from data/calibration: |log(predicted/measured)| of rows
    that were not fitted."""
    out, device = [], ""
    for line in (ROOT / "data/calibration/devices.yaml").read_text().splitlines():
        if named := re.match(r"\s+- device: (\S+)", line):
            device = named[1]
        if row := re.search(r'table: (\S+), operator: "([^"]*)", fitted: (\d+), held_out: (\d+), median: ([\d.]+), p90: ([\d.]+), training_median: ([\d.]+), training_p90: ([\d.]+)', line):
            out.append([f"`{device}`", row[2], row[1], row[3], row[4], f"{100 * float(row[5]):.1f} / {100 * float(row[6]):.1f} %", f"{100 * float(row[7]):.1f} / {100 * float(row[8]):.1f} %"])
    name = "overlap"
    for line in (ROOT / "data/calibration/fabrics.yaml").read_text().splitlines():
        if named := re.match(r"\s+- (?:kind|fabric): (\S+)", line):
            name = named[1]
        if row := re.search(r"residuals: \{rows: (\d+), median: [\d.]+, p90: [\d.]+, held_rows: (\d+), held_median: ([\d.]+), held_p90: ([\d.]+)", line):
            out.append([f"`{name}`", "collectives" if name != "overlap" else "GEMM overlapped with an all-gather", "", row[1], row[2], f"{100 * float(row[3]):.1f} / {100 * float(row[4]):.1f} %", ""])
    return table(["device or fabric", "what", "table", "rows fitted", "held out", "median / p90, all shapes held out", "the same, shapes of training"], out)


def interval_table():
    out = [[engine or "any other", device or "any other", *interval] for (engine, device), interval in shipped_intervals().items()]
    return table(["engine", "device", "80 % interval", "runs of the pair"], out)


MEMORY_LEVEL, MEMORY_GENERAL_RUNS, MEMORY_MOST_RUNS = 0.8, 20, 60
MEMORY_UNUSED = ("InternEvo",)  # its table does not state the sequence length of that run


def weighted_quantile(pairs, q):
    pairs, below = sorted(pairs), 0.0
    total = sum(weight for _, weight in pairs)
    for value, weight in pairs:
        below += weight
        if below >= q * total * (1 - 1e-12):
            return value
    return 0.0


def memory_yaml(rows, contradictory):
    """Returns data/calibration/memory.yaml: half-widths of the 80 % error of peak memory. The equation
    is in src/planner/memory_margin.h."""
    used = [r for r in rows if "measured_bytes" in r and r["id"] not in contradictory and not r["family"].startswith(MEMORY_UNUSED)]
    of_family = collections.Counter(r["family"] for r in used)
    error = lambda r: abs(r["measured_bytes"] / r["source_out_bytes"] - 1)
    weight = lambda r: min(1.0, MEMORY_MOST_RUNS / of_family[r["family"]])
    general = [(error(r), MEMORY_GENERAL_RUNS / len(of_family) / of_family[r["family"]]) for r in used]
    base = lambda r: r["engine"].split("+")[0]  # a plan does not include the future states of runs of its engine
    keys = {("", "")} | {(base(r), r["device"]) for r in used} | {(base(r), "") for r in used}
    out = ["# Half-width of the 80 % error of predicted peak memory, as a share; equation: src/planner/memory_margin.h. Written by `./dev accuracy`.",
           "schema: espalier.memory-errors/1", "errors:"]
    for engine, device in sorted(keys):
        own = [r for r in used if base(r) == engine]
        mixed = general + [(error(r), weight(r) * (2 if r["device"] == device else 1)) for r in own]
        runs = sum(1 for r in (own if engine else used) if r["device"] in (device, device or r["device"]))
        half = weighted_quantile(mixed, MEMORY_LEVEL)
        out.append(f'  - {{engine: "{engine}", device: "{device}", half_width: {half:.4f}, runs: {runs}}}')
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", required=True)
    parser.add_argument("--files", nargs="+", required=True)
    parser.add_argument("--doc", default=str(ROOT / "docs/accuracy.md"))
    parser.add_argument("--report", default=str(ROOT / "lab/accuracy-report.md"))
    parser.add_argument("--memory", default=str(ROOT / "data/calibration/memory.yaml"))
    parser.add_argument("--history", default=str(ROOT / "data/accuracy-history.ndjson"))
    a = parser.parse_args()
    records = [json.loads(line) for line in open(a.rows)]
    rows, skipped = [r for r in records if "skipped" not in r], [r for r in records if "skipped" in r]
    contradictory = contradictions(a.files, rows)
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    date = datetime.date.today().isoformat()
    stamp = f"Computed {date} at commit {commit} (or the change that follows it)."
    files = [[pathlib.Path(f).name, sum(1 for line in open(f) if line.strip()), hashlib.sha256(open(f, "rb").read()).hexdigest()[:16]] for f in a.files]
    reasons = collections.Counter((r["family"], r["skipped"]) for r in skipped)
    doc = pathlib.Path(a.doc)
    write(doc, {"stamp": stamp, "models": kind_table(rows, model_kinds(a.files)), "pairs": pair_table(rows), "peaks": peak_table(rows),
                "ranking": ranking_sentence(rows), "fits": fit_sentence(rows), "plots": plots(rows, doc.parent / "images")})
    write(pathlib.Path(a.report), {
        "stamp": stamp, "files": table(["file", "records", "sha256"], files), "acceptance": acceptance(rows, contradictory),
        "time": time_table(rows), "memory": memory_table(rows), "feasibility": feasibility(rows),
        "skipped": table(["source", "reason", "records"], [[f, w, n] for (f, w), n in sorted(reasons.items())]),
        "worst": worst_table(rows), "coefficients": coefficient_table(), "intervals": interval_table(), "operators": operator_table()})
    pathlib.Path(a.memory).write_text(memory_yaml(rows, contradictory))
    line = {"date": date, "commit": commit, "files": {f[0]: f[2] for f in files}, "sources": {}}
    for family in sorted({r["family"] for r in rows}):
        chosen = [r for r in rows if r["family"] == family]
        line["sources"][family] = {label: {k: round(v, 5) if isinstance(v, float) else v for k, v in s.items()}
                                   for label, prefix in PROTOCOLS if (s := summary(chosen, prefix))}
        if mem := memory_errors(chosen):
            line["sources"][family]["memory_mape"] = round(mean_abs(mem), 5)
    with open(a.history, "a") as history:
        history.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(acceptance(rows, contradictory))


if __name__ == "__main__":
    main()
