#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `espalier report`. It is one page with everything in it, with the same bytes each time, and no larger than a
megabyte. Names cannot break out of the data. A file that is no plan, and a measured step of another plan, are
rejected. tests/report/browser.py tests the page in a browser.

usage: report.py BINARY SOURCE_DIR
"""
import base64
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
EXAMPLES = SOURCE / "examples"
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def run(*words, code=0, text=None):
    ran = subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=500, input=text)
    expect(ran.returncode == code, f"{' '.join(map(str, words))}: exit {ran.returncode}, expected {code}: {ran.stderr[-300:]}")
    return ran


def data_of(page):
    blocks = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    expect(len(blocks) == 1, f"{len(blocks)} blocks of data")
    return json.loads(blocks[0])


def plan_is_shown(folder):
    out = folder / "out"
    run("plan", EXAMPLES / "llama3-8b-on-8xh100.yaml", "-o", out, "-q")
    said = run("report", out / "plan.json", "-o", folder / "a.html")
    expect(said.stdout == f"wrote {folder / 'a.html'}\n", f"says {said.stdout!r}")
    run("report", out / "result.json", "-o", folder / "b.html", "--threads", 1)
    first, second = (folder / "a.html").read_bytes(), (folder / "b.html").read_bytes()
    expect(first == second, "plan.json and the result.json beside it, any number of threads: the same bytes")
    page = first.decode()
    data = data_of(page)
    expect(data["schema"] == "espalier.report/1", data["schema"])
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    expect(data["result"] == result, "the result in the page is that of result.json")
    expect(data["label"] in re.search(r"<noscript><pre>(.*?)</pre>", page, re.S)[1], "without scripts the page has the terminal answer")
    expect(len(data["searched"]["points"]) > len(result["alternatives"]) + 1, "the points of the search are more than the alternatives")
    expect({t["id"] for t in data["tables"]} >= {"time", "memory-parts", "why-not", "stages", "layers", "pruning", "devices", "fabric", "links", "what-if"},
           "all tables")
    expect(all(len(row) == len(t["columns"]) for t in data["tables"] for row in t["rows"]), "every row has as many cells as the table has columns")
    printed = run("report", out / "plan.json", "--json")
    expect(json.loads(printed.stdout) == data, "--json prints the data")
    same = run("report", "-", "--no-search", "-o", folder / "c.html", "-q", text=(out / "plan.json").read_text(encoding="utf-8"))
    expect(same.stderr == "", f"quiet: {same.stderr!r}")
    return out


def page_loads_nothing(folder):
    page = (folder / "a.html").read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    expect("default-src 'none'" in policy and "unsafe" not in policy, policy)
    script = re.search(r"<script>(.*)</script>\s*</body>", page, re.S)[1]
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    expect(f"'sha256-{hashed}'" in policy, "the policy admits the script of the page")
    expect(not re.search(r"""(src|href)\s*=\s*["']?(https?:|//)""", page), "no address of another place")


def sizes(folder):
    """Tests that large plans leave micro-batches out of the timeline, but not out of the page."""
    run("estimate", EXAMPLES / "llama3-8b-on-8xh100.yaml", "--set", "training.global_batch=8192", "--pp", 8, "-o", folder / "large", "-q")
    run("report", folder / "large" / "plan.json", "--no-search", "-o", folder / "large.html", "-q")
    size = (folder / "large.html").stat().st_size
    timeline = data_of((folder / "large.html").read_text(encoding="utf-8"))["timeline"]
    expect(size <= 1_000_000, f"{size} bytes")
    expect(sum(row["bars"] for row in timeline["rows"]) > 100_000, "more than a hundred thousand bars")
    expect(0 < timeline["microbatches_shown"] <= timeline["microbatches"] == 8192, f"{timeline['microbatches_shown']} of {timeline['microbatches']}")


def names_stay_names(out, folder):
    plan = json.loads((out / "plan.json").read_text(encoding="utf-8"))
    plan["model"]["name"] = name = "</script><script>alert(1)</script><!--<script>"
    (folder / "evil.json").write_text(json.dumps(plan), encoding="utf-8")
    run("report", folder / "evil.json", "--no-search", "-o", folder / "evil.html", "-q")
    page = (folder / "evil.html").read_text(encoding="utf-8")
    harmless = (folder / "c.html").read_text(encoding="utf-8")
    expect(page.count("<script") == harmless.count("<script") and page.count("</script") == harmless.count("</script"), "as many scripts as ever")
    expect(name in data_of(page)["job"], "the name is in the data as it is")


def a_measured_step(folder):
    """Tests a step made from the simulated one, with everything a tenth longer. It has four stages of one device, so
    that each has its own class."""
    out = folder / "four"
    run("estimate", EXAMPLES / "gpt2-on-4xrtx4090.yaml", "--pp", 4, "-o", out, "--trace", folder / "four.json", "-q")
    events = json.loads((folder / "four.json").read_text(encoding="utf-8"))["traceEvents"]
    bars = sorted(((e["pid"], e["args"]["correlation"], e) for e in events if e["ph"] == "X" and "correlation" in e.get("args", {})),
                  key=lambda bar: bar[:2])
    other = run("report", out / "plan.json", "--no-search", "--timeline", step_file(folder, "0" * 16, bars), "-o", folder / "x.html", code=3)
    plan = next(word for word in re.findall(r"\b[0-9a-f]{16}\b", other.stderr) if word != "0" * 16)
    run("report", out / "plan.json", "--no-search", "--timeline", step_file(folder, plan, bars), "-o", folder / "measured.html", "-q")
    data = data_of((folder / "measured.html").read_text(encoding="utf-8"))
    expect(abs(data["measured"]["iteration_ns"] / data["timeline"]["iteration_ns"] - 1.1) < 1e-6, "the measured step is a tenth longer")
    expect(len(data["measured"]["ranks"]) == 4, "four ranks")
    rows = next(t for t in data["tables"] if t["id"] == "measured")["rows"]
    expect({row[0] for row in rows} == {"0", "1", "2", "3"}, "a comparison of each rank")


def step_file(folder, plan, bars):
    ranks = []
    for device in sorted({pid for pid, _, _ in bars}):
        rows, busy = [], 0
        for pid, _, event in bars:
            if pid != device:
                continue
            start = round(event["ts"] * 1000)
            start, end = start * 11 // 10, (start + round(event["dur"] * 1000)) * 11 // 10
            compute = event["tid"] == 1
            rows += [start, end, end - start if compute else 0, 0, max(0, start - busy) if compute else 0]
            busy = end if compute else busy
        ranks.append({"device": device, "start_ns": 0, "end_ns": max(rows[1::5]), "clock_error_ns": 0, "instructions": rows, "operators": []})
    file = folder / f"step-{plan}.json"
    file.write_text(json.dumps({"schema": "espalier.measured-step/1", "plan": plan, "step": 3, "steps": 5, "ranks": ranks}), encoding="utf-8")
    return file


def a_sweep(folder):
    """Tests the page of the sweep point whose devices do the most work each, with all points in a table."""
    said = run("plan", EXAMPLES / "gpt2-on-4xrtx4090.yaml", "--sweep", "batch=8,32,31", "-o", folder / "sweep", "-q")
    expect("report.html" in said.stdout, f"says what it wrote: {said.stdout[-200:]}")
    data = data_of((folder / "sweep" / "report.html").read_text(encoding="utf-8"))
    table = next(t for t in data["tables"] if t["id"] == "sweep")
    points = json.loads((folder / "sweep" / "sweep.json").read_text(encoding="utf-8"))["points"]
    expect(len(table["rows"]) == len(points) == 3, f"a row for each point: {table['rows']}")
    marked = [row for row in table["rows"] if "(this page)" in row[0]]
    expect(len(marked) == 1 and marked[0][-1] == data["label"], f"the point of the page is marked: {marked}")
    shares = [row[3][1] for row in table["rows"] if isinstance(row[3], list)]
    expect(shares and max(shares) == 1.0 and all(0 < share <= 1 for share in shares), f"bars {shares}")


def mistakes(out, folder):
    run("report", code=2)
    run("report", folder / "missing.json", code=3)
    run("report", EXAMPLES / "llama3-8b-on-8xh100.yaml", code=3)
    said = run("report", out / "plan.json", "--timeline", SOURCE / "tests/fuzz/corpus/measured_step/four_ranks.json", "--no-search",
               "-o", folder / "d.html", code=3)
    expect(not (folder / "d.html").exists(), "nothing is written where a measured step is refused")
    expect("a step of plan 83db619fa69f6368" in said.stderr, said.stderr)
    run("report", out / "plan.json", "--no-search", "-o", folder / "no" / "such" / "folder.html", code=2)
    error = json.loads(run("report", folder / "missing.json", "--json", code=3).stdout)
    expect(error["schema"] == "espalier.error/1", error)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        out = plan_is_shown(folder)
        page_loads_nothing(folder)
        sizes(folder)
        names_stay_names(out, folder)
        a_measured_step(folder)
        a_sweep(folder)
        mistakes(out, folder)
    print("report:", f"{len(failures)} failures" if failures else "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
