#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that the timeline for Perfetto shows where time goes. `simulate --trace FILE --detail` has the layers inside
chunks, operator by operator. It also has the collectives of tensor, context, expert and ZeRO groups with their bytes.
Without --detail it has neither. Collectives are inside the step, layers inside their chunks.

usage: timeline.py BINARY SOURCE_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
failures = []
# example, flags of estimate, required collectives: group and kind
CASES = [
    ("mixtral-8x7b-on-32xa100", "--tp 2 --sp megatron --cp 2 --ep 4 --pp 2 --zero 1 --overlap grad,param",
     {("tensor", "all_gather"), ("tensor", "reduce_scatter"), ("context", "ring_shift"), ("expert", "all_to_all")}),
    ("llama3-8b-on-8xh100", "--set engine=generic --dp 8 --zero 3 --micro-batch 1", {("data_shard", "all_gather"), ("data_shard", "reduce_scatter")}),
    ("llama3-8b-on-8xh100", "--tp 4 --dp 2", {("tensor", "all_reduce")}),
]


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def trace(folder, example, flags, *detail):
    ran = subprocess.run([BINARY, "estimate", SOURCE / "examples" / f"{example}.yaml", *flags.split(), "-q", "-o", folder], capture_output=True, text=True)
    expect(ran.returncode in (0, 4), f"{example} {flags}: {ran.stderr}")
    file = folder / "trace.json"
    ran = subprocess.run([BINARY, "simulate", folder / "plan.json", "--trace", file, *detail, "-q"], capture_output=True, text=True)
    expect(ran.returncode in (0, 5), f"{example} {flags}: {ran.stderr}")
    return json.loads(file.read_text())["traceEvents"]


def slices(events, track):
    """Returns the slices of a track of the first rank."""
    first = min(e["pid"] for e in events)
    ids = {e["tid"] for e in events if e["ph"] == "M" and e["name"] == "thread_name" and e["pid"] == first and e["args"]["name"] == track}
    return [e for e in events if e["ph"] == "X" and e["pid"] == first and e["tid"] in ids]


def spans(chunks):
    """Returns start and end of each pass of a chunk; a pass that hands its gradients on piece by piece has parts."""
    out = {}
    for c in chunks:
        key = c["name"].split(" part ")[0]
        start, end = out.get(key, (c["ts"], 0))
        out[key] = (min(start, c["ts"]), max(end, c["ts"] + c["dur"]))
    return out.values()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for example, flags, wanted in CASES:
            events = trace(folder, example, flags, "--detail")
            what = f"{example} {flags}"
            moved = [e for e in events if e["ph"] == "X" and "collective" in e.get("args", {}) and "layer" in e["args"]]
            seen = {(e["args"]["group"], e["args"]["collective"]) for e in moved}
            expect(wanted <= seen, f"{what}: no {wanted - seen} among {seen}")
            expect(all(e["args"]["bytes"] > 0 for e in moved), f"{what}: a collective moves nothing")
            steps, chunks = slices(events, "steps"), slices(events, "compute")
            layers = sorted({e["args"]["layer"] for e in steps if e["args"]["layer"] >= 0})
            expect(len(layers) > 10 and layers == list(range(layers[0], layers[-1] + 1)), f"{what}: layers {layers}")
            expect({"attn.core", "attn.qkv"} <= {e["name"] for e in steps}, f"{what}: operators of a layer")
            inside = [any(start <= s["ts"] + 1e-3 and s["ts"] + s["dur"] <= end + 1e-3 for start, end in spans(chunks)) for s in steps[:200]]
            expect(all(inside), f"{what}: {inside.count(False)} of {len(inside)} steps lie outside their chunks")
        plain = trace(folder, *CASES[0][:2])
        expect(not any("layer" in e.get("args", {}) and "collective" in e["args"] for e in plain) and not slices(plain, "steps"), "without --detail there are no steps")
    print("timeline:", f"{len(failures)} failures" if failures else "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
