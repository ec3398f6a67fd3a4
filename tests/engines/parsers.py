#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `espalier export` writes is read by the frameworks' own parsers, and says there what the plan says; exports that are made wrong are refused by
them, so that this harness can fail.

usage: parsers.py BINARY SOURCE_DIR        exit code 77: the frameworks are not installed (./dev parsers)
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
PYTHON = os.environ.get("ESPALIER_ENGINES_PYTHON", str(SOURCE / ".cache" / "engines" / "venv" / "bin" / "python"))
STAND_INS = pathlib.Path(PYTHON).parents[1] / "stand-ins"
LIBRARIES = [str(STAND_INS), *(str(p) for p in pathlib.Path(PYTHON).parents[1].glob("lib/python3*/site-packages/nvidia/*/lib"))]
ENVIRONMENT = {**os.environ, "LD_LIBRARY_PATH": ":".join(LIBRARIES)}
A100 = "{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb}"
H100 = "{nodes: 4, devices_per_node: 8, device: h100-sxm-80gb}"
# What no plan decides, and what stands in for Transformer Engine where it is not installed.
REST = ["--transformer-impl", "local", "--no-persist-layer-norm", "--no-masked-softmax-fusion", "--no-rope-fusion", "--no-gradient-accumulation-fusion",
        "--tokenizer-type", "NullTokenizer", "--lr", "1e-4", "--train-iters", "10", "--mock-data"]
# model, cluster, batch, sequence, flags of estimate
MEGATRON = [
    ("llama-2-7b", A100, 128, 4096, "--tp 2 --pp 2 --sp megatron --zero 1 --micro-batch 1"),
    ("llama-2-7b", A100, 128, 4096, "--dp 16 --zero 1 --micro-batch 1 --recompute full"),
    ("llama-2-7b", A100, 128, 4096, "--tp 4 --sp megatron --pp 4 --vpp 2 --schedule interleaved --micro-batch 1 --overlap p2p"),
    ("llama-2-13b", A100, 64, 4096, "--tp 8 --sp megatron --pp 2 --micro-batch 2 --recompute selective"),
    ("llama-3-8b", H100, 128, 8192, "--tp 2 --sp megatron --cp 2 --dp 8 --zero 1 --micro-batch 1"),
    ("llama-3-8b", H100, 128, 8192, "--tp 4 --sp megatron --pp 2 --dp 4 --zero 1 --shard 2 --micro-batch 1"),
    ("llama-3-70b", H100, 64, 4096, "--tp 8 --sp megatron --pp 4 --micro-batch 1"),
    ("llama-3-70b", H100, 64, 4096, "--tp 4 --sp megatron --pp 8 --vpp 5 --schedule interleaved --micro-batch 1"),
    ("gpt2", A100, 64, 1024, "--tp 2 --dp 8 --zero 1 --micro-batch 4"),
    ("gpt2-xl", A100, 64, 1024, "--tp 1 --pp 4 --dp 4 --micro-batch 2"),
    ("qwen2.5-7b", A100, 64, 4096, "--tp 4 --sp megatron --pp 2 --dp 2 --zero 1 --micro-batch 1"),
    ("qwen3-8b", A100, 64, 4096, "--tp 2 --sp megatron --pp 4 --dp 2 --micro-batch 1"),
    ("mixtral-8x7b", H100, 128, 4096, "--tp 2 --sp megatron --pp 4 --dp 4 --ep 4 --zero 1 --micro-batch 1"),
    ("mixtral-8x7b", H100, 128, 4096, "--tp 4 --sp megatron --pp 2 --dp 4 --ep 8 --micro-batch 1"),
    ("qwen3-30b-a3b", H100, 128, 4096, "--tp 1 --pp 4 --dp 8 --ep 8 --zero 1 --micro-batch 1"),
    ("mistral-7b", A100, 64, 4096, "--tp 2 --sp megatron --pp 2 --dp 4 --zero 1 --micro-batch 1 --recompute full"),
]
# A flag of a good export, and what makes it wrong.
WRONG = [
    (r"--tensor-model-parallel-size \d+", "--tensor-model-parallel-size 3"), (r"--pipeline-model-parallel-size \d+", "--pipeline-model-parallel-size 5"),
    (r"--num-layers \d+", "--num-layers 31"), (r"--global-batch-size \d+", "--global-batch-size 13"), (r"--seq-length \d+", "--seq-length 8193"),
    (r"--bf16", "--bf17"), (r"--num-attention-heads \d+", "--num-attention-heads 31"), (r"--micro-batch-size \d+", "--micro-batch-size one"),
    (r"--max-position-embeddings \d+", "--max-position-embeddings 12"), (r"--normalization RMSNorm", "--normalization Rms"),
]
ACCELERATE = [
    ("llama-3-8b", H100, 64, 4096, "--dp 32 --zero 3 --micro-batch 1"), ("llama-3-8b", H100, 64, 4096, "--tp 2 --dp 16 --zero 3 --micro-batch 1 --recompute full"),
    ("llama-3-8b", H100, 64, 4096, "--dp 32 --zero 3 --shard 8 --micro-batch 2"), ("qwen2.5-7b", A100, 64, 4096, "--dp 16 --zero 2 --micro-batch 1"),
]
DEEPSPEED = [
    ("llama-3-8b", H100, 64, 4096, "--dp 32 --zero 3 --micro-batch 1"), ("llama-3-8b", H100, 64, 4096, "--dp 32 --zero 3 --micro-batch 2 --recompute full"),
    ("gpt2-xl", A100, 64, 1024, "--dp 16 --zero 1 --micro-batch 4"), ("qwen2.5-7b", A100, 64, 4096, "--dp 16 --zero 2 --micro-batch 1 --recompute full"),
]
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def exported(folder, engine, form, case):
    """The export of a configuration, and its plan."""
    model, cluster, batch, sequence, flags = case
    (folder / "job.yaml").write_text(f"model: {SOURCE}/models/{model}/config.json\ncluster: {cluster}\nengine: {engine}\n"
                                     f"training: {{sequence_length: {sequence}, global_batch: {batch}, precision: bf16}}\n")
    ran = subprocess.run([BINARY, "estimate", str(folder / "job.yaml"), "-q", "-o", str(folder / "out"), *flags.split()], capture_output=True, text=True)
    if ran.returncode != 0:
        return None, ran.stderr
    ran = subprocess.run([BINARY, "export", form, str(folder / "out" / "plan.json")], capture_output=True, text=True)
    return (ran.stdout, json.loads((folder / "out" / "plan.json").read_text())) if ran.returncode == 0 else (None, ran.stderr)


def flags_of(script):
    """Between the parentheses of the script, without comments."""
    groups = re.findall(r"^[A-Z_]+=\(\n(.*?)^\)", script, re.M | re.S)
    return [word for group in groups for line in group.splitlines() for word in shlex.split(line, comments=True)]


def megatron_reads(cases):
    """What Megatron-LM's parser makes of (flags, world), one after the other."""
    lines = "".join(json.dumps({"world": world, "flags": [*flags, *REST]}) + "\n" for flags, world in cases)
    ran = subprocess.run([PYTHON, str(SOURCE / "tests" / "engines" / "megatron_arguments.py")], input=lines, capture_output=True, text=True, timeout=500, env=ENVIRONMENT)
    read = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    expect(len(read) == len(cases), f"{len(read)} of {len(cases)} answers: {ran.stderr[-500:]}")
    return read


def same_as_plan(read, plan):
    strategy = plan["pipelines"][0]["stages"][0]["chunks" if "chunks" in plan["pipelines"][0]["stages"][0] else "layers"]
    strategy = (strategy[0]["ranges"][0] if "ranges" in strategy[0] else strategy[0])["strategy"]
    schedule = plan["pipelines"][0]["schedule"]
    wanted = {"tensor_model_parallel_size": strategy["tp"], "context_parallel_size": strategy["cp"], "expert_model_parallel_size": strategy["ep"],
              "sequence_parallel": strategy["sp"] == "megatron", "use_distributed_optimizer": strategy["zero"] >= 1, "data_parallel_size": strategy["dp"],
              "micro_batch_size": schedule["micro_batch"]}
    return {key: (read[key], value) for key, value in wanted.items() if read[key] != value}


def megatron(folder):
    good = []
    for case in MEGATRON:
        script, plan = exported(folder, "megatron-core", "megatron-core", case)
        expect(script is not None, f"{case[0]} {case[4]}: {plan}")
        if script is not None:
            world = int(re.search(r"--nnodes (\d+)", script).group(1)) * int(re.search(r"--nproc-per-node (\d+)", script).group(1))
            good.append((f"{case[0]} {case[4]}", plan, flags_of(script), world))
    text = " ".join(good[0][2])
    wrong = [(bad, re.sub(pattern, bad, text)) for pattern, bad in WRONG]
    for bad, changed in wrong:
        expect(changed != text, f"{bad}: nothing of it is in the export")
    read = megatron_reads([(flags, world) for _, _, flags, world in good] + [(changed.split(), good[0][3]) for _, changed in wrong])
    for (name, plan, _, _), answer in zip(good, read):
        expect("refused" not in answer, f"{name}: {answer}")
        expect("refused" in answer or not same_as_plan(answer, plan), f"{name}: {answer}")
    for (bad, _), answer in zip(wrong, read[len(good):]):
        expect("refused" in answer, f"{bad} was accepted")
    print(f"megatron-core: {sum('refused' not in a for a in read[:len(good)])} of {len(MEGATRON)} exports accepted, "
          f"{sum('refused' in a for a in read[len(good):])} of {len(WRONG)} wrong ones refused")


def accelerate(folder):
    reader = ("import sys; from accelerate.commands.config.config_args import load_config_from_file; from accelerate.parallelism_config import ParallelismConfig; "
              "c = load_config_from_file(sys.argv[1]); p = c.parallelism_config; "
              "k = {n[len('parallelism_config_'):]: v for n, v in p.items()}; k.pop('cp_comm_strategy', None); q = ParallelismConfig(**k); print('SIZE', q.total_size, c.num_processes)")
    seen = 0
    for case in ACCELERATE:
        text, plan = exported(folder, "fsdp2", "accelerate-fsdp", case)
        name = f"{case[0]} {case[4]}"
        if text is None:
            expect(False, f"{name}: {plan}")
            continue
        (folder / "accelerate.yaml").write_text(text)
        ran = subprocess.run([PYTHON, "-c", reader, str(folder / "accelerate.yaml")], capture_output=True, text=True, timeout=300, env=ENVIRONMENT)
        size = re.search(r"SIZE (\d+) (\d+)", ran.stdout)
        expect(size is not None and size.group(1) == size.group(2), f"{name}: {ran.stdout}{ran.stderr[-400:]}")
        seen += size is not None
        (folder / "accelerate.yaml").write_text(text + "no_such_key: 1\n")
        ran = subprocess.run([PYTHON, "-c", reader, str(folder / "accelerate.yaml")], capture_output=True, text=True, timeout=300, env=ENVIRONMENT)
        expect("SIZE" not in ran.stdout, f"{name}: an unknown key was accepted")
    print(f"accelerate: {seen} of {len(ACCELERATE)} exports accepted")


def deepspeed(folder):
    # DeepSpeed asks its communication how many ranks there are.
    reader = ("import sys, deepspeed.runtime.config as c; c.dist.get_rank = lambda *a, **k: 0; c.dist.get_world_size = lambda *a, **k: int(sys.argv[2]); "
              "c.dist.is_initialized = lambda *a, **k: True; d = c.DeepSpeedConfig(sys.argv[1]); "
              "print('READ', d.train_batch_size, d.train_micro_batch_size_per_gpu, d.gradient_accumulation_steps, d.zero_optimization_stage)")
    seen = 0

    def read(text, world):
        (folder / "ds.json").write_text(text)
        ran = subprocess.run([PYTHON, "-c", reader, str(folder / "ds.json"), str(world)], capture_output=True, text=True, timeout=300,
                             env={**ENVIRONMENT, "DS_ACCELERATOR": "cpu"})
        return re.search(r"READ (\d+) (\d+) (\d+) (\d+)", ran.stdout), ran.stdout + ran.stderr[-600:]

    for case in DEEPSPEED:
        text, plan = exported(folder, "deepspeed", "deepspeed", case)
        name = f"{case[0]} {case[4]}"
        if text is None:
            expect(False, f"{name}: {plan}")
            continue
        world = 32 if case[1] == H100 else 16
        found, said = read(text, world)
        schedule = plan["pipelines"][0]["schedule"]
        wanted = (case[2], schedule["micro_batch"], schedule["microbatches"], int(re.search(r"--zero (\d)", case[4]).group(1)))
        expect(found is not None and tuple(map(int, found.groups())) == wanted, f"{name}: {said} instead of {wanted}")
        seen += found is not None
        for wrong in (text.replace(f'"train_batch_size": {case[2]}', f'"train_batch_size": {case[2] + 1}'), text.replace('"stage": ', '"stage": 7')):
            expect(read(wrong, world)[0] is None, f"{name}: made wrong and accepted")
    print(f"deepspeed: {seen} of {len(DEEPSPEED)} exports accepted")


def installed(module):
    return pathlib.Path(PYTHON).exists() and subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, env=ENVIRONMENT).returncode == 0


def main():
    found = [(run, module) for run, module in ((megatron, "megatron.core"), (accelerate, "accelerate"), (deepspeed, "deepspeed")) if installed(module)]
    if not found:
        print("skipped: no frameworks in .cache/engines (./dev parsers installs them)")
        return 77
    with tempfile.TemporaryDirectory() as name:
        for run, _ in found:
            run(pathlib.Path(name))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
