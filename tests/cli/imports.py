#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests imports and improve from outside. Every file of tests/imports is read, or rejected with its line, what was
found and what was expected. An imported file gives a cluster that `inspect` reads, or a plan with the figures of
`estimate` for the same flags.

usage: imports.py ESPALIER_BINARY REPOSITORY
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

binary, root = sys.argv[1], pathlib.Path(sys.argv[2])
files = root / "tests" / "imports"
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)


def run(*words, text=None):
    return subprocess.run([binary, *map(str, words)], input=text, capture_output=True, text=True, check=False)


folder = pathlib.Path(tempfile.mkdtemp())
cluster = folder / "cluster.yaml"
cluster.write_text("{nodes: 2, devices_per_node: 8, device: h100-sxm-80gb}\n")
model = root / "models" / "llama-3-8b" / "config.json"

# ---- clusters: format, file, further words, exit code, pattern of the output or the error
H100 = ("--device", "h100-sxm-80gb")
CLUSTERS = [
    ("nvidia-smi-topo", "topo.txt", (*H100, "--nodes", "4"), 0, r"8 of 9 network interfaces count"),
    ("nvidia-smi-topo", "topo-spaces.txt", (*H100, "--nodes", "4"), 0, r"links are those of a usual node"),
    ("nvidia-smi-topo", "topo-ansi.txt", H100, 0, r"nodes: 1\n"),
    ("nvidia-smi-topo", "topo-pcie.txt", ("--device", "l40s", "--nodes", "2"), 0, r'"PCIe switch", kind: pcie_tree, span: 2'),
    ("nvidia-smi-topo", "topo-dgx1.txt", ("--device", "v100-sxm-16gb"), 0, r"not all devices of a group have a direct NVLink"),
    ("nvidia-smi-topo", "topo-cut.txt", H100, 3, r"topo-cut.txt:6: found no row of GPU5; expected a row for each"),
    ("nvidia-smi-topo", "topo-bad.txt", H100, 3, r'topo-bad.txt:5: found "NVxx" in the row of GPU3; expected X, NV#'),
    ("nvidia-smi-topo", "topo-missing.txt", H100, 3, r"topo-missing.txt:5: found"),
    ("nvidia-smi-topo", "topo-mp.txt", (*H100, "--nodes", "2"), 0, r"`nvidia-smi topo -mp` hides NVLink"),
    ("nvidia-smi-topo", "topo-mp.txt", ("--device", "l40s"), 0, r'"processor", kind: pcie_tree, span: 4'),
    ("rocm-smi-topo", "rocm-smi.txt", ("--device", "mi300x", "--nodes", "2"), 0, r"Infinity Fabric links: 1 between devices(.|\n)*links are those of a usual node of mi300x"),
    ("rocm-smi-topo", "rocm-smi.txt", (), 2, r"--device: found no device"),
    ("rocm-smi-topo", "rocm-smi.txt", H100, 2, r"found h100-sxm-80gb; expected a device of AMD"),
    ("rocm-smi-topo", "topo.txt", ("--device", "mi300x"), 3, r'no table "Link Type between two GPUs"'),
    ("nccl-xml", "rccl.xml", ("--device", "mi300x", "--nodes", "2"), 0, r"Infinity Fabric links: 1 between devices, 64 GB/s"),
    ("nccl-xml", "rccl.xml", ("--device", "mi355x"), 3, r"found GPUs of gfx942; expected GPUs of mi355x; hint: --device: one of mi300x mi325x"),
    ("nccl-xml", "rccl.xml", (), 2, r"gfx942 is one of mi300x mi325x"),
    ("nvidia-smi-topo", "topo.txt", (), 2, r"--device: found no device"),
    ("nccl-xml", "nccl.xml", (*H100, "--nodes", "2"), 0, r"devices_per_node: 2"),
    ("nccl-xml", "nccl.xml", ("--device", "a100-sxm-80gb"), 3, r"found sm 90"),
    ("slurm-topology", "topology.conf", (*H100, "--oversubscription", "2"), 0, r"2 leaf switches of 4 hosts"),
    ("slurm-topology", "topology.conf", (*H100, "--hosts", "tux[2-3]"), 0, r"all hosts are below s0"),
    ("slurm-topology", "topology.conf", (*H100, "--hosts", "tux9"), 3, r'found the host "tux9"'),
    ("slurm-topology", "topology.conf", (*H100, "--oversubscription", "0.5"), 2, r"expected a number from 1 to 1000"),
    ("slurm-topology", "topology.conf", (*H100, "--oversubscription", "nan"), 2, r"expected a number above 0"),
    ("nvidia-smi-topo", "topo.txt", (*H100, "--nodes", "0"), 2, r'found "0"; expected a number above 0'),
    ("nvidia-smi-topo", "topo.txt", (*H100, "--nodes", "2", "--nic-bandwidth", "1e300Gb/s"), 2, r"at most 100 TB/s"),
    ("nvidia-smi-topo", "topo.txt", ("--device", "v100-sxm-32gb"), 3, r"found 18 NVLinks of a device; expected at most 6"),
    ("nccl-tests", "nccl-tests.txt", ("--device", "v100-sxm-32gb"), 3, r"found a test of h100-sxm-80gb; expected one of v100-sxm-32gb"),
    ("nccl-tests", "nccl-tests.txt", (), 0, r"NVSwitch, from nccl-tests: efficiency"),
    ("nvidia-smi-topo", "topo.txt", (*H100, "--nodes", "2", "--nccl-tests", files / "nccl-tests.txt"), 0, r"from nccl-tests: efficiency"),
]
for number, (form, name, words, code, pattern) in enumerate(CLUSTERS):
    out = folder / f"{number}.yaml"
    ran = run("import", "cluster", "--format", form, files / name, *words, "-o", out)
    expect(ran.returncode == code, f"{form} {name} {words}: exit {ran.returncode}, not {code}: {ran.stderr}")
    written = out.read_text() if out.exists() else ""
    expect(re.search(pattern, ran.stderr + written), f"{form} {name}: no {pattern} in {ran.stderr}{written}")
    if code == 0:
        again = run("inspect", "cluster", out)
        expect(again.returncode == 0, f"{form} {name}: inspect refuses it: {again.stderr}")

# Damage of the XML, by line.
xml = (files / "nccl.xml").read_text()
for damage, pattern in (
    (xml.replace(' busid="0000:98:00.0"', ""), r":16: found <pci> without busid"),
    (xml.replace('version="1"', 'version="9"'), r':1: found version "9"; expected version 1, or version 2 from RCCL'),
    (xml.replace('version="1"', 'version="2"'), r"found a topology of RCCL, of AMD's devices"),
    (xml.replace('count="18"', 'count="many"', 1), r':6: found count="many"'),
    (xml.replace('link_speed="32.0 GT/s PCIe"', 'link_speed="fast"', 1), r':3: found link_speed="fast"'),
    (xml[:300], r"found XML that cannot be parsed"),
    ("<system version='1'><gpu dev='0' sm='90'/></system>", r"found <gpu> directly below <system>"),
    ("<topology/>", r"found no <system>"),
):
    ran = run("import", "cluster", "--format", "nccl-xml", "-", *H100, text=damage)
    expect(ran.returncode == 3 and re.search(pattern, ran.stderr), f"nccl-xml: no {pattern}: {ran.returncode} {ran.stderr}")
for hosts, code in (("node[01-16,20],gpu[1-2]-[0-3]", 0), ("SLURM_JOB_NODELIST=n[1-4]\nSLURM_NNODES=4\nSLURM_GPUS_PER_NODE=h100:8\n", 0),
                    ("SLURM_JOB_NODELIST=n[1-4]\nSLURM_NNODES=5\n", 3), ("SLURM_JOB_NODELIST=n[1-4]\nSLURM_NNODES=abc\n", 3), ("n[1-", 3), ("n[4-1]", 3), ("n1,n1", 3)):
    ran = run("import", "cluster", "--format", "slurm-hosts", "-", *H100, text=hosts)
    expect(ran.returncode == code, f"slurm-hosts {hosts!r}: {ran.returncode} {ran.stderr}")
    expect(code == 0 or re.search(r"<stdin>(:\d+)?: found", ran.stderr), f"slurm-hosts {hosts!r}: {ran.stderr}")

tests = (files / "nccl-tests.txt").read_text().replace(" 1048576 ", " -1048576 ")
ran = run("import", "cluster", "--format", "nccl-tests", "-", text=tests)
expect(ran.returncode == 3 and re.search(r":18: found a row with a negative size", ran.stderr), f"nccl-tests: a negative size: {ran.stderr}")

# ---- configurations: the plan of each, compared with estimate for the same flags
TEXT = ("--sequence-length", "8192")
job = folder / "job.yaml"


def estimate(engine, batch, *flags):
    job.write_text(f"model: {model}\ncluster: {cluster}\ntraining: {{sequence_length: 8192, global_batch: {batch}}}\nengine: {engine}\n")
    ran = run("estimate", job, *flags, "--json", "--quiet")
    return json.loads(ran.stdout)["prediction"]["iteration_s"]


CONFIGURATIONS = [
    ("megatron-args", "megatron-args.log", (), ("megatron-core", 128, "--tp", 4, "--sp", "megatron", "--pp", 2, "--vpp", 4, "--zero", 1, "--overlap", "grad,param,p2p")),
    ("torchtitan", "torchtitan.toml", ("--model", model, "--global-batch", 8), ("torchtitan", 8, "--tp", 2, "--recompute", "selective")),
    ("deepspeed", "deepspeed.json", ("--model", model, *TEXT), ("deepspeed", 64, "--zero", 3, "--overlap", "grad,param")),
    ("accelerate", "accelerate.yaml", ("--model", model, *TEXT, "--micro-batch", 1, "--global-batch", 64), ("fsdp2", 64, "--zero", 3, "--recompute", "full")),
]
for form, name, words, same in CONFIGURATIONS:
    out = folder / form
    ran = run("import", "config", "--format", form, files / name, "--cluster", cluster, *words, "--json", "-o", out)
    if ran.returncode != 0:
        failures.append(f"{form}: exit {ran.returncode}: {ran.stderr}")
        continue
    answer = json.loads(ran.stdout)
    kinds = {key["kind"] for key in answer["import"]["keys"]}
    expect("read" in kinds, f"{form}: no key was read")
    if form != "megatron-args":  # its vocabulary is the padded one
        figure = estimate(*same)
        expect(answer["result"]["prediction"]["iteration_s"] == figure, f"{form}: {answer['result']['prediction']['iteration_s']}, estimate {figure}")
    again = run("simulate", out / "plan.json", "--json", "--quiet")
    expect(json.loads(again.stdout)["prediction"]["iteration_s"] == answer["result"]["prediction"]["iteration_s"], f"{form}: plan.json says otherwise")
    expect(run("estimate", out / "job.yaml", *same[2:]).returncode in (0, 4), f"{form}: job.yaml is not read")

# ---- improve: the best plan of the same engine; if the present configuration cannot run, the answer states that
ran = run("improve", "--from", "megatron-args", files / "megatron-launch.txt", "--cluster", cluster, "--json", "-o", folder / "better")
expect(ran.returncode == 0, f"improve: {ran.returncode} {ran.stderr}")
answer = json.loads(ran.stdout)
expect(answer["schema"] == "espalier.improvement/1", "improve: schema")
expect("--some-new-thing" in ran.stderr, "improve: what is not understood is named")
now, best = (answer[key]["result"]["prediction"]["iteration_s"] for key in ("present", "best"))
expect(best < now and abs(answer["gain"] - (1 - best / now)) < 1e-9, f"improve: {now} to {best}, gain {answer['gain']}")
times = [change["iteration_s"] for change in answer["changes"]]
expect(times == sorted(times) and all(best <= time < now for time in times), f"improve: changes {times} between {best} and {now}")
expect(answer["best"]["result"]["engine"] == "megatron-core", "improve: another engine")
for name in ("plan.json", "result.json", "present.json", "job.yaml"):
    expect((folder / "better" / name).exists(), f"improve: no {name}")

# The changes are in the words of the script. The changed script, read again, gives the best plan.
ran = run("improve", "--from", "megatron-args", files / "megatron-launch.txt", "--cluster", cluster, "-o", folder / "better.sh")
expect(ran.returncode == 0 and "Changes in" in ran.stdout and "another plan" not in ran.stdout, f"improve: no changes: {ran.returncode} {ran.stderr} {ran.stdout}")
again = run("import", "config", "--format", "megatron-args", folder / "better.sh", "--cluster", cluster, "--json", "--quiet")
expect(again.returncode == 0 and json.loads(again.stdout)["result"]["prediction"]["iteration_s"] == best, f"improve: better.sh is another plan: {again.stderr}")
expect("# inside the node" in (folder / "better.sh").read_text(), "improve: a comment is lost")

flags = (files / "megatron-launch.txt").read_text()
broken = run("improve", "--from", "megatron-args", "-", "--cluster", cluster, "--json", text=flags.replace("TP=8", "TP=6"))
expect(broken.returncode == 5 and "MEG-WORLD" in broken.stderr, f"improve: what Megatron asserts: {broken.returncode} {broken.stderr}")
too_large = run("improve", "--from", "deepspeed", "-", "--cluster", cluster, "--model", model, *TEXT, "--json",
                text='{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1, "bf16": {"enabled": true}}')
answer = json.loads(too_large.stdout)
expect(too_large.returncode == 0 and not answer["present"]["result"]["prediction"]["fits"], f"improve: one that does not fit: {too_large.stderr}")
expect(answer["best"]["result"]["prediction"]["fits"] and all(change["fits"] for change in answer["changes"]), "improve: what fits")
for text, pattern in ((flags.replace("--bf16", "--bf16 --cpu-offloading-num-layers 2"), r"--cpu-offloading-num-layers"), (flags.replace("--num-layers 32", "--num-layers x"), r'<stdin>:7: found --num-layers = "x"'),
                      ("", r"found"), ("--tensor-model-parallel-size", r"num-layers|micro-batch|found")):
    ran = run("improve", "--from", "megatron-args", "-", "--cluster", cluster, text=text)
    expect(ran.returncode in (3, 5) and re.search(pattern, ran.stderr), f"improve: no {pattern}: {ran.returncode} {ran.stderr}")

# Rivals must leave as much memory free as the present plan, so that it is one of them. Otherwise the usual or the
# requested margin applies.
one_node = folder / "one.yaml"
# The plan below leaves a twentieth of the memory free.
one_node.write_text("{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb, memory_limit: 69GiB}\n")
LLAMA = ("--cluster", one_node, "--model", model, *TEXT, "--micro-batch", 1, "--global-batch", 64)
sharded = '{"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}}'
ran = run("improve", "--from", "deepspeed", "-", *LLAMA, text=sharded)
expect(ran.returncode == 3 and "--set training.precision=bf16" in ran.stderr, f"auto: {ran.returncode} {ran.stderr}")
ran = run("improve", "--format", "deepspeed", "-", *LLAMA, "--set", "training.precision=bf16", "--set", "search.fix.cp=1", "--json", "-o", folder / "margin", text=sharded)
answer = json.loads(ran.stdout)
now = answer["present"]["result"]["prediction"]
left = 1 - now["peak_memory_bytes"] / now["memory_limit_bytes"]
expect(now["fits"] and not now["fits_with_margin"] and answer["margin_of_present"], f"improve: within the margin: {now}")
expect(abs(answer["memory_margin"] - left) < 1e-6 and answer["gain"] >= 0, f"improve: {answer['memory_margin']} free, present {left}, gain {answer['gain']}")
ran = run("improve", "--from", "deepspeed", "-", *LLAMA, "--set", "training.precision=bf16", "--set", "search.memory_margin=0.4", "--json", text=sharded)
answer = json.loads(ran.stdout)
expect(answer["memory_margin"] == 0.4 and not answer["margin_of_present"], f"improve: the margin that is asked for: {ran.stderr}")

# Its job.yaml is the searched job with --set and the margin, so that `plan` finds the same plan.
again = json.loads(run("plan", folder / "margin" / "job.yaml", "--json", "--quiet").stdout)
best = json.loads((folder / "margin" / "result.json").read_text())
expect(again["prediction"]["iteration_s"] == best["prediction"]["iteration_s"], "improve: job.yaml plans another")
expect(json.loads((folder / "margin" / "job.yaml").read_text())["search"]["fix"] == {"cp": 1}, "improve: job.yaml lacks the search part")

# Both spellings and the short form work; keys with an effect that is not predicted are reported.
script = flags.replace("--bf16", "--bf16 --deterministic-mode")
same = [run("import", *words, "-", "--cluster", cluster, text=script)
        for words in (("config", "--format", "megatron-args"), ("config", "--from", "megatron-args"), ("megatron-args",))]
expect(all(ran.returncode == same[0].returncode and ran.stdout == same[0].stdout for ran in same) and same[0].stdout, f"import: spellings: {same[2].stderr}")
expect("--deterministic-mode = True is known but not modelled: slower kernels" in same[0].stderr, f"import: not modelled: {same[0].stderr}")
ran = run("import", "megatron-args", "-", "--cluster", cluster, text=flags.replace("TRAINING_ARGS=", "if [ $FP8 = 1 ]; then\nEXTRA='--fp8-format hybrid'\nfi\nTRAINING_ARGS="))
expect(ran.returncode == 3 and re.search(r'found --fp8-format = "hybrid" under the condition of line \d+', ran.stderr), f"import: a condition: {ran.stderr}")

# All formats reject training options that no framework's file can express.
for training, rule in (("adapter: {kind: lora, rank: 8, targets: [attn.qkv]}", "GAL-ADAPTERS"), ("lengths: {histogram: [[512, 1]], packing: packed}", "GAL-PACKED")):
    job.write_text(f"model: {model}\ncluster: {one_node}\ntraining: {{sequence_length: 4096, global_batch: 16, {training}}}\nengine: generic\n")
    ran = run("estimate", job, "--zero", 3, "-o", folder / rule)
    expect(ran.returncode in (0, 4), f"{rule}: {ran.stderr}")
    ran = run("export", "galvatron", folder / rule / "plan.json")
    expect(ran.returncode == 5 and rule in ran.stderr, f"{rule}: galvatron: {ran.returncode} {ran.stderr}")

# ---- sweeps over several settings, and questions of size
job.write_text(f"model: {root / 'models' / 'gpt2' / 'config.json'}\ncluster: {{nodes: 4, devices_per_node: 2, device: rtx-4090, price_per_device_hour: 0.5}}\n"
               "training: {sequence_length: 1024, global_batch: 32, tokens: 1e9}\n")
table = folder / "sweep.csv"
ran = run("plan", job, "--sweep", "nodes=1,2", "--sweep", "engine=megatron-core,fsdp2", "--csv", table, "--json", "-o", folder / "sweep")
expect(ran.returncode == 0, f"sweep: {ran.stderr}")
points = json.loads(ran.stdout)["points"]
expect([p["values"] for p in points] == [[n, e] for n in ("1", "2") for e in ("megatron-core", "fsdp2")], "sweep: combinations")
rows = [line.split(",") for line in table.read_text().splitlines()]
expect(rows[0][:3] == ["cluster.nodes", "engine", "iteration_s"] and len(rows) == 5, f"sweep: {rows[0]}")
for row, point in zip(rows[1:], points):
    prediction = point["result"]["prediction"]
    expect(float(row[2]) == prediction["iteration_s"] and float(row[3]) <= float(row[2]) <= float(row[4]), f"sweep: {row}")
expect((folder / "sweep" / "sweep.json").exists() and (folder / "sweep" / "sweep.csv").read_text() == table.read_text(), "sweep: files")
devices = json.loads(run("plan", job, "--sweep", "devices=1,2,8", "--json", "-q").stdout)["points"]
expect([p["result"]["plan"]["cluster"]["summary"].split(" ×")[0] for p in devices] == ["1", "1", "4"], "sweep: devices")
expect(run("plan", job, "--sweep", "devices=3").returncode == 2, "sweep: three devices of nodes of two")
expect(run("plan", job, "--csv", table).returncode == 2, "--csv without --sweep")
ran = run("plan", job, "--deadline", "20h", "--json", "-q")
answer = json.loads(ran.stdout)
within = [size for size in answer["sizes"] if size["within"]]
best = answer["sizes"][answer["best"]]
expect(ran.returncode == 0 and answer["minimise"] == "cost" and best["within"], f"deadline: {ran.stderr}")
expect(all(best["cost_per_step"] <= size["cost_per_step"] for size in within), "deadline: the cheapest within")
ran = run("plan", job, "--budget", "1000", "--json", "-q")
answer = json.loads(ran.stdout)
expect(ran.returncode == 0 and answer["minimise"] == "time" and abs(answer["budget_per_step"] - 1000 / (1e9 / 32768)) < 1e-6, f"budget: {ran.stderr}")
expect(run("plan", job, "--set", "training.tokens=", "--deadline", "20h").returncode == 2, "a deadline without tokens")
expect(run("plan", job, "--deadline", "1us").returncode == 4, "a deadline that nothing keeps")
expect(run("plan", job, "--set", "cluster.price_per_device_hour=", "--budget", "5").returncode == 2, "a budget without prices")
expect(run("plan", job, "--set", "cluster.price_per_device_hour=", "--deadline", "20h", "-q").returncode == 0, "a deadline without prices")

for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
