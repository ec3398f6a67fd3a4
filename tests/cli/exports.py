#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `espalier export` from outside: rejections by id, --allow-lossy, launchers, `plan --engine` and its price,
and `check --engine` with links. Also tests the way back: an exported plan is imported as the same strategy and
schedule, where the format can carry it. The frameworks' own parsers are tested in tests/engines/parsers.py.
usage: exports.py BINARY SOURCE_DIR
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
RULES = (SOURCE / "docs" / "engine-rules.md").read_text(encoding="utf-8")
H100 = "{nodes: 2, devices_per_node: 8, device: h100-sxm-80gb}"
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def run(*words, code=0):
    ran = subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=300)
    expect(ran.returncode == code, f"{' '.join(map(str, words))}: exit {ran.returncode}, expected {code}: {ran.stderr[-400:]}")
    return ran


def estimated(folder, engine, flags, batch=64):
    (folder / "job.yaml").write_text(f"model: {SOURCE}/models/llama-3-8b/config.json\ncluster: {H100}\nengine: {engine}\n"
                                     f"training: {{sequence_length: 4096, global_batch: {batch}, precision: bf16}}\n")
    ran = subprocess.run([BINARY, "estimate", folder / "job.yaml", "-q", "-o", folder / "plan", *flags.split()], capture_output=True, text=True)
    expect(ran.returncode in (0, 4), f"{engine} {flags}: {ran.stderr}")
    return folder / "plan" / "plan.json"


def heading(rule):
    return f"\n### {rule}\n" in RULES


def refusals(folder):
    plan = estimated(folder, "generic", "--tp 2 --sp megatron --pp 2 --vpp 2 --schedule interleaved --zero 1 --overlap p2p --micro-batch 1")
    for engine in ("torchtitan", "deepspeed", "accelerate-fsdp", "galvatron"):
        ran = run("export", plan, "--engine", engine, code=5)
        ids = re.findall(r"\b(?:TT|DS|ACC|FSDP|GAL)-[A-Z0-9-]+\b", ran.stderr)
        expect(ids and all(heading(rule) for rule in ids) and ran.stdout == "", f"{engine}: ids {ids} of {ran.stderr}")
    said = run("check", plan, "--engine", "deepspeed", "--wide", code=5).stdout
    links = re.findall(r"see docs/engine-rules.md#(\S+)", said)
    expect(links and all(heading(link.upper()) for link in links), f"links {links}")
    expect("schedule 1f1b" in said, f"the nearest legal value: {said[-500:]}")
    named = json.loads(run("check", plan, "--engine", "deepspeed", "--json", code=5).stdout)
    expect(any("#ds-schedule" in f["text"] for f in named["findings"] if not f["ok"]), "the link is in --json")


def lossy(folder):
    plan = estimated(folder, "generic", "--tp 2 --sp megatron --pp 2 --zero 1 --overlap p2p --micro-batch 1")
    ran = run("export", plan, "--engine", "torchtitan", "--allow-lossy")
    expect("# not as planned: TT-ZERO" in ran.stdout and "not as planned: TT-ZERO" in ran.stderr, f"what is lost is listed: {ran.stderr}")
    expect("data_parallel_shard_degree 4" in ran.stdout, "ZeRO-2 in place of ZeRO-1")
    quiet = run("export", plan, "--engine", "torchtitan", "--allow-lossy", "-q")
    expect(quiet.stderr == "" and quiet.stdout == ran.stdout, "-q leaves the notes to the file")
    refused = run("export", plan, "--engine", "deepspeed", "--allow-lossy", code=5)
    expect("DS-NO-PP" in refused.stderr and refused.stdout == "", f"degrees stay: {refused.stderr}")
    whole = estimated(folder, "generic", "--dp 16 --zero 3 --recompute op --overlap grad,param --micro-batch 1")
    document = json.loads(run("export", whole, "--engine", "deepspeed", "--allow-lossy").stdout)
    expect([note.split(":")[0] for note in document["espalier"]["not_as_planned"]] and document["espalier"]["gradient_checkpointing"], document["espalier"])
    sound = run("export", whole, "--engine", "torchtitan").stdout
    expect(run("export", whole, "--engine", "torchtitan", "--allow-lossy").stdout == sound, "a plan that can be said is written as it is")
    layerwise = json.loads(whole.read_text())
    first = layerwise["pipelines"][0]["stages"][0]["layers"][0]
    second = json.loads(json.dumps(first))
    first["last"], second["first"] = 7, 8
    second["strategy"]["recompute"] = {"kind": "none", "layers": 0}
    layerwise["pipelines"][0]["stages"][0]["layers"] = [first, second]
    (folder / "layers.json").write_text(json.dumps(layerwise))
    ran = run("export", folder / "layers.json", "--engine", "torchtitan", "--allow-lossy")
    expect("for all layers" in ran.stderr, f"one strategy for all layers: {ran.stderr}")


def price(folder):
    job = folder / "job.yaml"
    estimated(folder, "generic", "--dp 16 --zero 3 --micro-batch 1")
    said = run("plan", job, "--engine", "megatron-core", "-o", folder / "priced", "--wide").stdout
    result = json.loads((folder / "priced" / "result.json").read_text())
    r = result["restriction"]
    expect(result["engine"] == r["engine"] == "megatron-core" and r["certified"], r)
    expect(abs(result["prediction"]["iteration_s"] / r["iteration_s"] - 1 - r["price"]) < 1e-9 and r["price"] >= 0, f"{r} of {result['prediction']['iteration_s']}")
    expect("the rules of megatron-core cost" in said and all(heading(rule) for rule in r["rules"]), said[:800])
    run("check", folder / "priced" / "result.json", "--search")
    free = run("plan", job, "--engine", "generic", "--json")
    expect("restriction" not in json.loads(free.stdout), "an engine without rules has no price")
    run("plan", job, "--engine", "megatron", code=2)


def launchers(folder):
    whole = estimated(folder, "fsdp2", "--dp 16 --zero 3 --micro-batch 1")
    for form, words in (("accelerate-fsdp", "accelerate launch --config_file"), ("torchtitan", "torchtitan.train"), ("torchtitan-recipe", "--module planned_recipe"),
                        ("deepspeed", "--deepspeed --deepspeed_config")):
        for launcher in ("torchrun", "sbatch", "mpirun", "kubeflow"):
            text = run("export", whole, "--engine", form, "--launcher", launcher, "--allow-lossy", "-q").stdout
            expect(words in text or words in re.sub(r'"\n +- "', " ", text), f"{form} {launcher}: {text[:300]}")
            if launcher != "kubeflow":
                checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
                expect(checked.returncode == 0, f"{form} {launcher}: {checked.stderr}")
    run("export", whole, "--engine", "galvatron", "--launcher", "sbatch", code=2)
    run("export", whole, "--engine", "deepspeed", "--launcher", "ssh", code=2)
    # The script writes the file that it passes to accelerate, byte for byte, followed by the user's arguments.
    plain = run("export", whole, "--engine", "accelerate-fsdp").stdout
    tool = folder / "bin" / "accelerate"
    tool.parent.mkdir()
    tool.write_text('#!/usr/bin/env bash\nwhile [[ $1 != --config_file ]]; do shift; done; cat "$2"; shift 2; printf "%s|" "$@"\n')
    tool.chmod(0o755)
    script = folder / "launch.sh"
    script.write_text(run("export", whole, "--engine", "accelerate-fsdp", "--launcher", "torchrun").stdout)
    ran = subprocess.run(["bash", script, "train.py", "--lr", "1 e"], capture_output=True, text=True, env={"PATH": f"{tool.parent}:/usr/bin:/bin", "NODE_RANK": "1", "MASTER_ADDR": "a"})
    expect(ran.stdout.startswith(plain.rstrip("\n")), f"the configuration arrives: {ran.stdout[:300]} {ran.stderr}")
    expect(ran.stdout.endswith("--machine_rank|1|--main_process_ip|a|--main_process_port|29500|train.py|--lr|1 e|"), ran.stdout[-200:])


# format of import, engine, format of export, flags of estimate, words that the file does not contain
BACK = [
    ("megatron-args", "megatron-core", "megatron-core", "--tp 2 --sp megatron --pp 4 --dp 2 --zero 1 --micro-batch 1 --overlap grad,param", ()),
    ("megatron-args", "megatron-core", "megatron-core", "--tp 4 --sp megatron --pp 2 --vpp 4 --dp 2 --schedule interleaved --micro-batch 1 --overlap p2p,grad", ()),
    ("megatron-args", "megatron-core", "megatron-core", "--tp 2 --sp megatron --cp 2 --dp 4 --zero 1 --micro-batch 2 --recompute full --recompute-layers 32", ()),
    ("megatron-args", "megatron-core", "megatron-core", "--tp 2 --sp megatron --dp 8 --zero 1 --micro-batch 1 --recompute selective", ()),
    ("megatron-args", "megatron-core", "megatron-core", "--tp 2 --sp megatron --dp 8 --zero 1 --micro-batch 1 --recompute core_attn,layernorm", ()),
    ("torchtitan", "torchtitan", "torchtitan", "--tp 2 --sp megatron --dp 8 --zero 3 --shard 4 --micro-batch 1 --overlap grad,param", ("model",)),
    ("torchtitan", "torchtitan", "torchtitan", "--dp 16 --zero 2 --micro-batch 1 --recompute selective --overlap grad,param", ("model",)),
    ("deepspeed", "deepspeed", "deepspeed", "--dp 16 --zero 3 --micro-batch 2 --overlap grad,param", ("model", "sequence")),
    ("deepspeed", "deepspeed", "deepspeed", "--dp 16 --zero 1 --micro-batch 1 --overlap grad", ("model", "sequence")),
    ("accelerate", "fsdp2", "accelerate-fsdp", "--dp 16 --zero 3 --micro-batch 1 --recompute full --recompute-layers 32 --overlap grad,param", ("model", "sequence", "batch")),
    ("accelerate", "fsdp2", "accelerate-fsdp", "--tp 2 --dp 8 --zero 3 --shard 4 --micro-batch 1 --overlap grad,param", ("model", "sequence", "batch")),
]


def words_of(text, form):
    """Returns a script in the form that an import takes: flags as they are; torchtitan's as the command line
    that they make."""
    if form != "torchtitan":
        return text
    groups = re.findall(r"^[A-Z_]+=\(\n(.*?)^\)", text, re.M | re.S)
    flags = [word for group in groups for line in group.splitlines() for word in shlex.split(line, comments=True)]
    return " ".join([*flags, re.search(r"(activation-checkpoint:\w+)", text).group(1)]) + "\n"


def core(plan):
    """Returns the parts of a plan that a format can carry: schedule, batch, stages, strategies."""
    pipeline = plan["pipelines"][0]
    return {"schedule": pipeline["schedule"], "batch": plan["training"]["global_batch"], "sequence": plan["training"]["sequence_length"], "stages": pipeline["stages"]}


def there_and_back(folder):
    (folder / "cluster.yaml").write_text(H100 + "\n")
    for form, engine, export, flags, missing in BACK:
        plan = estimated(folder, engine, flags)
        text = run("export", plan, "--engine", export).stdout
        (folder / "exported").write_text(words_of(text, form))
        words = []
        if "model" in missing:
            words += ["--model", SOURCE / "models" / "llama-3-8b" / "config.json"]
        if "sequence" in missing:
            words += ["--sequence-length", 4096]
        if "batch" in missing:
            words += ["--global-batch", 64, "--micro-batch", 1]
        run("import", "config", "--format", form, folder / "exported", "--cluster", folder / "cluster.yaml", *words, "-q", "-o", folder / "back")
        there, back = core(json.loads(plan.read_text())), core(json.loads((folder / "back" / "plan.json").read_text()))
        differs = {key: (there[key], back[key]) for key in there if there[key] != back[key]}
        expect(not differs, f"{form} {flags}: {json.dumps(differs)[:900]}")


def main():
    with tempfile.TemporaryDirectory() as name:
        for part in (refusals, lossy, price, launchers, there_and_back):
            folder = pathlib.Path(name) / part.__name__
            folder.mkdir()
            part(folder)
    print("exports:", f"{len(failures)} failures" if failures else "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
