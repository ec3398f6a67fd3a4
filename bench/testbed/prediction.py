#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicts steps before they run, on hosts of one machine (tools/testbed): the table of
docs/runtime.md, "Predicted, then run".

  prediction.py predict FOLDER   brings up every cluster, profiles it, predicts every configuration and the best plan:
                                 FOLDER/predictions.json
  prediction.py measure FOLDER   runs every configuration of predictions.json: FOLDER/measured.json
  prediction.py table FOLDER     compares, as Markdown
  prediction.py gain FOLDER      measured speed-up of the recommended plan over usual configurations without a planner

`predict` and `measure` take names of clusters after FOLDER: whole names, or parts of names that are not themselves a
whole name. They then process only these clusters and keep the results of the others in FOLDER.

A configuration runs 3 times 1 + 10 steps. Its time is the median of the 30, its repeatability their p90/p10. A
configuration with a repeatability above 1.05 runs again, at most twice, and is kept either way. Hosts emulate a
device (espalier run --pace): an operator lasts as long as in the profile of the device, so that hosts do not compete
for cores. Exit code 3: the testbed cannot be built here.
"""
import itertools
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("ESPALIER", str(ROOT / "build" / "espalier"))
TESTBED = str(ROOT / "tools" / "testbed" / "testbed.py")
PACE = "flops=5e9,bandwidth=5e8,launch=1e-4"
MODEL = {"model_type": "llama", "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8,
         "intermediate_size": 512, "vocab_size": 1024, "tie_word_embeddings": False}
# Priors of TCP before any measurement; the fit starts from them.
PRIOR = {"latency": "100us", "start": "200us", "efficiency": 0.9, "ramp": 0.3, "small_group": 0.3, "congestion": 0.05}
SEQUENCE, BATCH, RUNS, STEPS, REPEATABLE = 128, 8, 3, 10, 1.05

# `rate` and `between` are in Mb/s, `delay` is in milliseconds from host to host; `slow` is a host and its speed.
CLUSTERS = {
    "4 hosts, 400 Mb/s": {"hosts": 4, "rate": 400},
    "8 hosts, 200 Mb/s": {"hosts": 8, "rate": 200},
    "4 hosts, 400 Mb/s, one at half speed": {"hosts": 4, "rate": 400, "slow": {3: 0.5}},
    "two sites of 2 hosts, 400 Mb/s, 80 Mb/s between": {"hosts": 4, "rate": 400, "between": 80},
    "4 hosts, 400 Mb/s, 2 ms apart": {"hosts": 4, "rate": 400, "delay": 2},
}

FOUR = [
    "--dp 4 --micro-batch 1", "--dp 4 --micro-batch 2", "--dp 4 --micro-batch 2 --overlap grad", "--dp 4 --zero 1 --micro-batch 2", "--dp 4 --zero 2 --micro-batch 1",
    "--dp 4 --zero 3 --micro-batch 2", "--dp 4 --micro-batch 2 --recompute full", "--tp 4 --micro-batch 4", "--tp 2 --dp 2 --micro-batch 4",
    "--tp 2 --dp 2 --zero 1 --micro-batch 2", "--tp 2 --sp megatron --dp 2 --micro-batch 4", "--tp 4 --sp megatron --micro-batch 2", "--pp 4 --micro-batch 1",
    "--pp 4 --micro-batch 2 --schedule gpipe", "--pp 2 --dp 2 --micro-batch 1", "--pp 2 --dp 2 --micro-batch 2 --schedule gpipe", "--pp 2 --tp 2 --micro-batch 2",
    "--pp 2 --dp 2 --zero 1 --micro-batch 2", "--pp 2 --dp 2 --micro-batch 1 --recompute full", "--pp 4 --micro-batch 1 --schedule zb-h1",
]
EIGHT = [
    "--dp 8 --micro-batch 1", "--dp 8 --micro-batch 1 --overlap grad", "--dp 8 --zero 1 --micro-batch 1", "--dp 8 --zero 3 --micro-batch 1", "--tp 2 --dp 4 --micro-batch 2",
    "--tp 4 --dp 2 --micro-batch 4", "--tp 8 --micro-batch 8", "--pp 2 --dp 4 --micro-batch 1", "--pp 2 --dp 4 --zero 1 --micro-batch 1",
    "--pp 4 --dp 2 --micro-batch 1", "--pp 2 --tp 2 --dp 2 --micro-batch 2", "--pp 4 --tp 2 --micro-batch 2", "--pp 2 --tp 4 --micro-batch 4",
    "--tp 2 --sp megatron --dp 4 --micro-batch 2", "--pp 4 --dp 2 --micro-batch 2 --schedule gpipe", "--pp 4 --dp 2 --micro-batch 1 --recompute full",
    "--pp 4 --dp 2 --micro-batch 1 --schedule zb-h1", "--dp 8 --micro-batch 1 --recompute full", "--pp 2 --dp 4 --micro-batch 2 --schedule gpipe",
]
SOME = [FOUR[i] for i in (0, 1, 3, 5, 7, 8, 10, 12, 14, 16, 17)]


class Failed(Exception):
    pass


def call(*words, **more):
    ran = subprocess.run(words, capture_output=True, text=True, **more)
    if ran.returncode != 0:
        raise Failed(f"{' '.join(words)}: exit code {ran.returncode}\n{ran.stderr}{ran.stdout}")
    return ran.stdout


def testbed(*words, **more):
    ran = subprocess.run([sys.executable, TESTBED, *words], capture_output=True, text=True, **more)
    if ran.returncode == 3:
        print(ran.stderr.strip(), file=sys.stderr)
        sys.exit(3)
    if ran.returncode != 0:
        raise Failed(f"testbed {' '.join(words)}: {ran.stderr}{ran.stdout}")
    return ran.stdout


def bring_up(cluster):
    testbed("up", str(cluster["hosts"]), str(cluster["rate"]), "--between", str(cluster.get("between", 0)), "--delay", str(cluster.get("delay", 0)))


def pace_of(cluster):
    return PACE + "".join(f",speed:{host}={speed}" for host, speed in cluster.get("slow", {}).items())


def configurations(cluster):
    if cluster["hosts"] == 8:
        return EIGHT
    return FOUR if not {"slow", "between", "delay"} & cluster.keys() else SOME


def job_of(cluster, folder, profile):
    levels = []
    if "between" in cluster:
        half = cluster["hosts"] // 2
        levels.append({"name": "site", "kind": "ethernet", "span": half, **PRIOR, "bandwidth": f"{cluster['rate']}Mb/s"})
        levels.append({"name": "between", "kind": "ethernet", "span": "cluster", **PRIOR, "uplink": f"{cluster['between']}Mb/s"})
    else:
        levels.append({"name": "network", "kind": "ethernet", "span": "cluster", **PRIOR, "bandwidth": f"{cluster['rate']}Mb/s"})
    described = {"nodes": cluster["hosts"], "devices_per_node": 1, "device": "t4", "fabric": levels}
    if "slow" in cluster:
        described["speed"] = {f"rank:{host}": speed for host, speed in cluster["slow"].items()}
    job = {"model": MODEL, "cluster": described, "engine": "espalier",
           "training": {"sequence_length": SEQUENCE, "global_batch": BATCH, "precision": "fp32", "optimizer": "adam"}}
    if profile:
        job["profile"] = str(profile)
    path = folder / "job.yaml"
    path.write_text(json.dumps(job, indent=1))
    return path


def profiled(name, cluster, folder):
    """Returns the job of a cluster under its profile. The network is measured between its hosts; operators are
    measured once for all clusters."""
    network = folder / "collectives.txt"
    if not network.exists():
        bring_up(cluster)
        testbed("run", "--", BINARY, "profile", "--network", "-o", str(network))
    plain = job_of(cluster, folder, None)
    operators, profile = folder.parent / "operators.yaml", folder / "profile.yaml"
    if not operators.exists():
        largest = job_of(max(CLUSTERS.values(), key=lambda c: c["hosts"]), folder.parent, None)
        soon = ["chrt", "-r", "10"] if shutil.which("chrt") else []  # as ranks run on the testbed
        print(call(*soon, BINARY, "profile", str(largest), "-q", "-o", str(operators), "--tp", "1,2,4,8", "--samples", "1,4", "--steps", "4", "--pace", PACE).strip())
    print(name + ":", call(BINARY, "profile", str(plain), "-q", "-o", str(profile), "--from", str(operators), "--collectives", str(network)).strip())
    return job_of(cluster, folder, profile)


def predicted(job, flags, folder):
    call(BINARY, "estimate", str(job), "-q", "-o", str(folder), *flags)
    result = json.loads((folder / "result.json").read_text())
    return result


def row_of(cluster, configuration, out, folder, result):
    p = result["prediction"]
    return {"cluster": cluster, "configuration": configuration, "plan": str((out / "plan.json").relative_to(folder)), "predicted_s": p["iteration_s"],
            "predicted_peak_bytes": p["peak_memory_bytes"]}


def chosen(names):
    def means(word, name):
        return word == name if word in CLUSTERS else word in name
    return {name: cluster for name, cluster in CLUSTERS.items() if not names or any(means(word, name) for word in names)}


def predict(folder, names):
    path = folder / "predictions.json"
    known = json.loads(path.read_text()) if path.exists() else []
    rows = [row for row in known if row["cluster"] not in chosen(names)]
    for name, cluster in chosen(names).items():
        place = folder / re.sub(r"[^0-9a-z]+", "-", name.lower())
        place.mkdir(parents=True, exist_ok=True)
        job = profiled(name, cluster, place)
        call(BINARY, "plan", str(job), "-q", "-o", str(place / "best"))
        best = json.loads((place / "best" / "result.json").read_text())
        rows.append(row_of(name, "recommended", place / "best", folder, best))
        for number, flags in enumerate(configurations(cluster)):
            out = place / f"plan{number}"
            result = predicted(job, flags.split(), out)
            rows.append(row_of(name, flags, out, folder, result))
    rows.sort(key=lambda row: list(CLUSTERS).index(row["cluster"]))
    path.write_text(json.dumps(rows, indent=1) + "\n")
    print(len(rows), "rows in", path)


STEP = re.compile(r"^step (\d+)\b.*?([0-9.]+) s$", re.M)


def steps_of(plan, cluster):
    """Returns the seconds of the steps and the most bytes that the tensors of the fullest rank held."""
    record = plan.with_name("record.json")
    out = testbed("run", "--timeout", "300", "--", BINARY, "run", str(plan), "--steps", str(1 + STEPS), "--pace", pace_of(cluster), "--record", str(record))
    found = [float(s) for n, s in STEP.findall(out) if int(n) > 0]
    if len(found) != STEPS:
        raise Failed(f"{plan}: {len(found)} steps: {out[-500:]}")
    return found, max(json.loads(record.read_text())["peak_bytes"])


def spread(steps):
    cuts = statistics.quantiles(steps, n=10)
    return cuts[8] / cuts[0]


def measure(folder, names):
    rows = json.loads((folder / "predictions.json").read_text())
    path = folder / "measured.json"
    done = json.loads(path.read_text()) if path.exists() else []
    known = {(r["cluster"], r["configuration"]) for r in done}
    for name, group in itertools.groupby(rows, key=lambda r: r["cluster"]):
        group = [r for r in group if name in chosen(names) and (name, r["configuration"]) not in known]
        if not group:
            continue
        bring_up(CLUSTERS[name])
        for row in group:
            for attempt in range(3):
                runs = [steps_of(folder / row["plan"], CLUSTERS[name]) for _ in range(RUNS)]
                steps = [s for found, _ in runs for s in found]
                if spread(steps) <= REPEATABLE:
                    break
            done.append({**row, "measured_s": statistics.median(steps), "p90_p10": spread(steps), "attempts": attempt + 1,
                         "measured_peak_bytes": max(peak for _, peak in runs)})
            path.write_text(json.dumps(done, indent=1) + "\n")
            print(f"{name}: {row['configuration']}: {row['predicted_s']:.4f} s predicted, {done[-1]['measured_s']:.4f} s measured, "
                  f"{row['predicted_s'] / done[-1]['measured_s'] - 1:+.1%}, p90/p10 {spread(steps):.3f}, "
                  f"peak {row.get('predicted_peak_bytes', 0) / done[-1]['measured_peak_bytes'] - 1:+.1%}", flush=True)
    testbed("down")


def kendall(pairs):
    signs = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in itertools.combinations(pairs, 2)]
    return (sum(s > 0 for s in signs) - sum(s < 0 for s in signs)) / max(1, len(signs))


def table(folder):
    rows = json.loads((folder / "measured.json").read_text())
    print("| hosts | configurations | step time: mean accuracy | worst | Kendall τ | recommended against the best measured | p90/p10, median | peak memory: mean error |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")

    def line(name, some):
        errors = [abs(r["predicted_s"] / r["measured_s"] - 1) for r in some]
        taus, regrets = [], []
        for cluster in sorted({r["cluster"] for r in some}):
            own = [r for r in some if r["cluster"] == cluster]
            taus.append(kendall([(r["predicted_s"], r["measured_s"]) for r in own]))
            chosen = next(r for r in own if r["configuration"] == "recommended")
            regrets.append(chosen["measured_s"] / min(r["measured_s"] for r in own) - 1)
        print(f"| {name} | {len(some)} | {1 - statistics.mean(errors):.1%} | {1 - max(errors):.1%} | {statistics.mean(taus):.2f} | {max(regrets):+.1%} | "
              f"{statistics.median(r['p90_p10'] for r in some):.3f} | "
              f"{statistics.mean(abs(r['predicted_peak_bytes'] / r['measured_peak_bytes'] - 1) for r in some):.1%} |")

    for name in CLUSTERS:
        own = [r for r in rows if r["cluster"] == name]
        if own:
            line(name, own)
    line("all", rows)


# Usual choices without a planner: the fastest measured configuration of each kind.
USUAL = {
    "data parallel": lambda f: "--dp" in f and "--tp" not in f and "--pp" not in f and "--zero" not in f and "--recompute" not in f,
    "ZeRO-3": lambda f: "--zero 3" in f,
    "tensor parallel": lambda f: f.startswith("--tp") and "--dp" not in f and "--pp" not in f,
    "pipeline": lambda f: f.startswith("--pp") and "--dp" not in f and "--tp" not in f,
    "pipeline and data parallel": lambda f: f.startswith("--pp") and "--dp" in f and "--tp" not in f,
    "tensor and data parallel": lambda f: f.startswith("--tp") and "--dp" in f,
}


def gain(folder):
    rows = json.loads((folder / "measured.json").read_text())
    print("| hosts | " + " | ".join(USUAL) + " |")
    print("| --- |" + " ---: |" * len(USUAL))
    for name in CLUSTERS:
        own = {r["configuration"]: r["measured_s"] for r in rows if r["cluster"] == name}
        if "recommended" not in own:
            continue
        cells = []
        for kind in USUAL.values():
            found = [s for f, s in own.items() if f != "recommended" and kind(f)]
            cells.append(f"{min(found) / own['recommended']:.2f}" if found else "–")
        print(f"| {name} | " + " | ".join(cells) + " |")


def main():
    with_names, of_all = {"predict": predict, "measure": measure}, {"table": table, "gain": gain}
    if len(sys.argv) < 3 or sys.argv[1] not in {**with_names, **(of_all if len(sys.argv) == 3 else {})}:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if sys.argv[1] in with_names:
            with_names[sys.argv[1]](folder, sys.argv[3:])
        else:
            of_all[sys.argv[1]](folder)
    except Failed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
