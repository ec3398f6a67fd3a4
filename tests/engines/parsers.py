#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that the frameworks' own parsers read the output of `espalier export` with the meaning of the plan. They
reject exports that are damaged on purpose, so that this harness can fail. Launchers are read by bash, and by a schema
of the fields that Kubeflow's TrainJob must have.

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
# These flags are not part of a plan, or replace Transformer Engine where it is not installed.
REST = ["--transformer-impl", "local", "--no-persist-layer-norm", "--no-masked-softmax-fusion", "--no-rope-fusion", "--no-gradient-accumulation-fusion",
        "--tokenizer-type", "NullTokenizer", "--lr", "1e-4", "--train-iters", "10", "--mock-data"]
# model, cluster, batch, sequence, flags of estimate, engine if another than Megatron-LM
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
    # Uneven: 4 and 3 blocks a chunk.
    ("llama-3-70b", H100, 64, 4096, "--tp 4 --sp megatron --pp 8 --vpp 3 --schedule interleaved --micro-batch 1"),
    ("llama-3-70b", H100, 64, 4096, "--tp 8 --sp megatron --pp 4 --micro-batch 1", "generic"),  # uneven: 20, 21, 20, 19
    ("llama-3-8b", H100, 128, 8192, "--tp 2 --sp megatron --dp 16 --zero 1 --micro-batch 1 --offload optimizer"),
    ("llama-3-8b", H100, 128, 8192, "--tp 2 --sp megatron --dp 16 --zero 1 --micro-batch 1", "megatron-core+cuda-graphs+bf16-gradients+bf16-moments"),
    ("qwen3-30b-a3b", H100, 128, 4096, "--dp 32 --ep 8 --zero 1 --micro-batch 1", "megatron-core+flex-dispatcher+overlap-experts"),
]
# A flag of a good export, and its damaged form.
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
# Each case with the model's own configuration in torchtitan.
TITAN = "torchtitan.models.llama3.config_registry"
TORCHTITAN = [
    ("llama-3-8b", H100, 64, 8192, "--dp 32 --zero 3 --micro-batch 1", "llama3_8b"),
    ("llama-3-8b", H100, 64, 8192, "--dp 32 --zero 3 --shard 8 --micro-batch 1 --recompute selective", "llama3_8b"),
    ("llama-3-8b", H100, 64, 8192, "--dp 32 --zero 2 --micro-batch 1 --recompute full --recompute-layers 32", "llama3_8b"),
    ("llama-3-8b", H100, 64, 8192, "--tp 4 --sp megatron --dp 8 --zero 3 --micro-batch 1 --recompute full --recompute-layers 32", "llama3_8b"),
    ("llama-3-8b", H100, 64, 8192, "--tp 2 --sp megatron --cp 2 --dp 8 --zero 3 --shard 16 --micro-batch 1", "llama3_8b"),
    ("llama-3-8b", H100, 64, 8192, "--tp 4 --sp megatron --pp 2 --dp 4 --zero 0 --micro-batch 1", "llama3_8b"),
    ("llama-3-8b", H100, 64, 8192, "--tp 2 --sp megatron --pp 4 --dp 4 --zero 0 --micro-batch 1", "llama3_8b"),
    ("llama-3-8b", H100, 64, 8192, "--pp 4 --dp 8 --zero 2 --micro-batch 1 --schedule gpipe --recompute full --recompute-layers 9", "llama3_8b"),
    ("llama-3-8b", H100, 64, 8192, "--pp 4 --vpp 2 --dp 8 --zero 2 --micro-batch 1 --schedule interleaved", "llama3_8b"),
    ("llama-3-8b", H100, 64, 8192, "--pp 4 --vpp 2 --dp 8 --zero 0 --micro-batch 1 --schedule zb-v", "llama3_8b"),
    ("llama-3-70b", H100, 64, 8192, "--tp 8 --sp megatron --pp 4 --micro-batch 1", "llama3_70b"),
]
# A flag of a good export of torchtitan, and its damaged form.
TITAN_WRONG = [
    (r"--parallelism.tensor_parallel_degree \d+", "--parallelism.tensor_parallel_degree 3"),
    (r"--parallelism.data_parallel_shard_degree \d+", "--parallelism.data_parallel_shard_degree 0"),
    (r"--parallelism.data_parallel_replicate_degree \d+", "--parallelism.data_parallel_replicate_degree 5"),
    (r"--parallelism.pipeline_parallel_schedule \S+", "--parallelism.pipeline_parallel_schedule 2F2B"),
    (r"--parallelism.pipeline_parallel_degree \d+", "--parallelism.pipeline_parallel_degree four"),
    (r"--parallelism.pipeline_parallel_first_stage_less_layers \d+", "--parallelism.pipeline_parallel_first_stage_less_layers 40"),
    (r"--training.disable_cuda_graphs", ""), (r"--training.seq_len", "--training.sequence_len"),
    (r"--training.global_batch_size \d+", "--training.global_batch_size 63"), (r"activation-checkpoint:\w+", "activation-checkpoint:some"),
]
# Pipelines whose order goes through PyTorch's loader: flags of estimate, stages a rank, their arrangement.
SCHEDULES = [
    ("--pp 4 --dp 8 --micro-batch 1", 1, "single"), ("--pp 8 --dp 4 --micro-batch 1 --schedule gpipe", 1, "single"),
    ("--pp 4 --vpp 2 --dp 8 --micro-batch 1 --schedule interleaved", 2, "loop"), ("--pp 4 --vpp 4 --dp 8 --micro-batch 1 --schedule interleaved", 4, "loop"),
    ("--pp 4 --dp 8 --micro-batch 1 --schedule zb-h1", 1, "single"), ("--pp 4 --vpp 2 --dp 8 --micro-batch 1 --schedule zb-v", 2, "v"),
]
GALVATRON = [
    ("llama-2-7b", A100, 64, 4096, "--dp 16 --zero 3 --micro-batch 1"), ("llama-2-7b", A100, 64, 4096, "--tp 2 --sp megatron --dp 8 --zero 2 --micro-batch 1"),
    ("llama-2-7b", A100, 64, 4096, "--tp 4 --sp ulysses --dp 4 --zero 3 --micro-batch 1 --recompute full --recompute-layers 32"),
    ("llama-2-7b", A100, 64, 4096, "--pp 4 --dp 4 --zero 0 --micro-batch 1"), ("llama-2-7b", A100, 64, 4096, "--tp 2 --sp megatron --pp 2 --dp 4 --zero 2 --micro-batch 1 --schedule gpipe --recompute full"),
]
BRIDGE = [
    ("llama-3-8b", H100, 128, 8192, "--tp 2 --sp megatron --cp 2 --dp 8 --zero 1 --micro-batch 1"),
    ("llama-3-70b", H100, 64, 4096, "--tp 4 --sp megatron --pp 8 --vpp 5 --schedule interleaved --micro-batch 1"),
    ("llama-3-8b", H100, 128, 8192, "--tp 4 --sp megatron --pp 2 --dp 4 --zero 1 --shard 2 --micro-batch 1"),
    ("llama-2-7b", A100, 128, 4096, "--dp 16 --zero 1 --micro-batch 1 --recompute full --recompute-layers 32"),
]
BRIDGE_WRONG = [
    ("tensor_model_parallel_size", "tensor_parallel_size"), (r"recompute_granularity = .*", "recompute_granularity = 'some'"),
    (r"tensor_model_parallel_size = \d+", "tensor_model_parallel_size = 1"), (r"recompute_method = .*", "recompute_method = 'ring'; cfg.model.recompute_granularity = 'full'"),
    (r"tp_comm_overlap=", "tp_overlap="), (r"cfg.ddp.overlap_grad_reduce", "cfg.ddp.overlap_gradients"), (r"cfg.train.micro_batch_size", "cfg.training.micro_batch_size"),
    (r"cfg.optimizer.use_distributed_optimizer", "cfg.optimizer.zero"), (r"return cfg\n\n\nif", "return cfg)\n\n\nif"), (r"cfg.dataset.seq_length", "cfg.dataset.sequence"),
    (r"import CommOverlapConfig", "import CommOverlap"),
]
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def exported(folder, engine, form, case):
    """Returns the export of a configuration and its plan."""
    model, cluster, batch, sequence, flags = case[:5]
    (folder / "job.yaml").write_text(f"model: {SOURCE}/models/{model}/config.json\ncluster: {cluster}\nengine: {engine}\n"
                                     f"training: {{sequence_length: {sequence}, global_batch: {batch}, precision: bf16}}\n")
    ran = subprocess.run([BINARY, "estimate", str(folder / "job.yaml"), "-q", "-o", str(folder / "out"), *flags.split()], capture_output=True, text=True)
    if ran.returncode not in (0, 4):  # 4: a plan that does not fit is still a plan
        return None, ran.stderr
    ran = subprocess.run([BINARY, "export", form, str(folder / "out" / "plan.json")], capture_output=True, text=True)
    return (ran.stdout, json.loads((folder / "out" / "plan.json").read_text())) if ran.returncode == 0 else (None, ran.stderr)


def flags_of(script):
    """Returns the words between the parentheses of the script, without comments."""
    groups = re.findall(r"^[A-Z_]+=\(\n(.*?)^\)", script, re.M | re.S)
    return [word for group in groups for line in group.splitlines() for word in shlex.split(line, comments=True)]


def megatron_reads(cases):
    """Returns the result of Megatron-LM's parser for each (flags, world)."""
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
        script, plan = exported(folder, case[5] if len(case) > 5 else "megatron-core", "megatron-core", case)
        expect(script is not None, f"{case[0]} {case[4]}: {plan}")
        if script is not None:
            world = int(re.search(r"--nnodes (\d+)", script).group(1)) * int(re.search(r"--nproc-per-node (\d+)", script).group(1))
            good.append((f"{case[0]} {case[4]}", plan, flags_of(script), world))
    text = " ".join(good[0][2])
    wrong = [(bad, re.sub(pattern, bad, text)) for pattern, bad in WRONG]
    for bad, changed in wrong:
        expect(changed != text, f"{bad}: nothing of it is in the export")
    offload = next(flags for _, _, flags, _ in good if "--optimizer-cpu-offload" in flags)
    for flag in ("--use-precision-aware-optimizer", "--use-distributed-optimizer"):
        wrong.append((f"offload without {flag}", " ".join(word for word in offload if word != flag)))
    read = megatron_reads([(flags, world) for _, _, flags, world in good] + [(changed.split(), good[0][3]) for _, changed in wrong])
    for (name, plan, _, _), answer in zip(good, read):
        expect("refused" not in answer, f"{name}: {answer}")
        expect("refused" in answer or not same_as_plan(answer, plan), f"{name}: {answer}")
    for (bad, _), answer in zip(wrong, read[len(good):]):
        expect("refused" in answer, f"{bad} was accepted")
    print(f"megatron-core: {sum('refused' not in a for a in read[:len(good)])} of {len(MEGATRON)} exports accepted, "
          f"{sum('refused' in a for a in read[len(good):])} of {len(wrong)} wrong ones refused")


def one_process(what, folder, form, cases, wrong, suffix, world):
    """Reads every export of a format that is a file, and the first one damaged in each way. Returns the reading of
    the good ones, with their plans."""
    files, names, plans, made = [], [], [], []
    for case in cases:
        text, plan = exported(folder, form[0], form[1], case)
        expect(text is not None, f"{case[0]} {case[4]}: {plan}")
        if text is not None:
            made.append((case, text, plan))
    for name, text in [(f"{case[0]} {case[4]}", text) for case, text, _ in made] + [(bad, change(made[0][1])) for bad, change in wrong]:
        file = folder / f"{what}-{len(files)}.{suffix}"
        file.write_text(text)
        files.append({suffix: str(file), "world": world(made[len(files)][0] if len(files) < len(made) else made[0][0])})
        names.append(name)
    for bad, change in wrong:
        expect(change(made[0][1]) != made[0][1], f"{what}: {bad}: nothing of it is in the export")
    read = read_by(what, files)
    accepted = counted(what, len(made), read[:len(made)], names)
    for name, answer in zip(names[len(made):], read[len(made):]):
        expect("refused" in answer, f"{what}: {name} was accepted")
    print(f"{what}: {accepted} of {len(cases)} exports accepted, {sum('refused' in a for a in read[len(made):])} of {len(wrong)} wrong ones refused")
    return [(case, plan, answer) for (case, _, plan), answer in zip(made, read) if "refused" not in answer]


def replaced(pattern, value):
    return pattern, lambda text: re.sub(pattern, value, text, count=1)


# Each is another fault of Accelerate's file.
ACCELERATE_WRONG = [replaced(r"$(?![\s\S])", "no_such_key: 1\n"), replaced(r"parallelism_config_tp_size: \d+", "parallelism_config_tp_size: 0"),
                    replaced(r"parallelism_config_dp_shard_size: \d+", "parallelism_config_dp_shard_size: 0"),
                    replaced(r"parallelism_config_dp_replicate_size: \d+", "parallelism_config_dp_replicate_size: 3"),
                    replaced(r"parallelism_config_cp_size: \d+", "parallelism_config_cp_size: -1"), replaced(r"parallelism_config_tp_size", "parallelism_config_tp_degree"),
                    replaced(r"num_processes: \d+", "num_processes: 31"), replaced(r"distributed_type: FSDP", "distributed_type: FSDP9"),
                    replaced(r"compute_environment: LOCAL_MACHINE", "compute_environment: THE_MOON"), replaced(r"mixed_precision: 'bf16'", "mixed_precision: 'bf17'"),
                    replaced(r"fsdp_config:", "fsdp_config: ["), replaced(r"distributed_type: FSDP\n", "")]
DEEPSPEED_WRONG = [replaced(r'"train_batch_size": \d+', '"train_batch_size": 65'), replaced(r'"stage": \d', '"stage": 7'), replaced(r'"stage": \d', '"stage": "three"'),
                   replaced(r'"gradient_accumulation_steps": \d+', '"gradient_accumulation_steps": 3'),
                   replaced(r'"train_micro_batch_size_per_gpu": \d+', '"train_micro_batch_size_per_gpu": -1'),
                   replaced(r'"train_batch_size": \d+', '"train_batch_size": 0'), replaced(r'"train_batch_size"', '"train_batch_size": 64, "train_batch_size"'),
                   replaced(r'"overlap_comm": true', '"overlap_comm": "maybe"'), replaced(r'"reduce_scatter": true', '"reduce_scatter": [1]'),
                   replaced(r'"bf16": \{', '"fp16": {"enabled": true}, "bf16": {'), replaced(r'"contiguous_gradients": true', '"contiguous_gradient": true'),
                   replaced(r"\}\s*$(?![\s\S])", "")]


def accelerate(folder):
    for case, _, answer in one_process("accelerate", folder, ("fsdp2", "accelerate-fsdp"), ACCELERATE, ACCELERATE_WRONG, "yaml", lambda case: 0):
        expect(answer["size"] == answer["processes"], f"{case[0]} {case[4]}: {answer}")


def deepspeed(folder):
    for case, plan, answer in one_process("deepspeed", folder, ("deepspeed", "deepspeed"), DEEPSPEED, DEEPSPEED_WRONG, "json", lambda case: 32 if case[1] == H100 else 16):
        schedule = plan["pipelines"][0]["schedule"]
        wanted = {"batch": case[2], "micro_batch": schedule["micro_batch"], "accumulation": schedule["microbatches"], "zero": int(re.search(r"--zero (\d)", case[4]).group(1))}
        expect(answer == wanted, f"{case[0]} {case[4]}: {answer} instead of {wanted}")


# ---- torchtitan, PyTorch's schedules, Galvatron, Megatron-Bridge: tests/engines/readers.py --------------------------

def read_by(what, cases):
    """Returns the result of a reader for each of the cases."""
    galvatron_root = next((SOURCE / ".cache" / "engines" / "sdist" / "x").glob("hetu_galvatron-*"), "")
    ran = subprocess.run([PYTHON, str(SOURCE / "tests" / "engines" / "readers.py"), what], input="".join(json.dumps(case) + "\n" for case in cases),
                         capture_output=True, text=True, timeout=900, env={**ENVIRONMENT, "ESPALIER_GALVATRON": str(galvatron_root), "DS_ACCELERATOR": "cpu"})
    read = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    expect(len(read) == len(cases), f"{what}: {len(read)} of {len(cases)} answers: {ran.stderr[-500:]}")
    return read


def counted(what, good, read, names):
    """Counts the exports that were read."""
    for name, answer in zip(names, read):
        expect("refused" not in answer, f"{what} {name}: {answer}")
    return sum("refused" not in answer for answer in read[:good])


def strategy_of(plan):
    first = plan["pipelines"][0]["stages"][0]
    first = first.get("chunks", first.get("layers"))[0]
    return (first["ranges"][0] if "ranges" in first else first)["strategy"]


def world_of(script):
    return int(re.search(r"--nnodes (\d+)", script).group(1)) * int(re.search(r"--nproc-per-node (\d+)", script).group(1))


def titan_words(script):
    """Returns the flags, followed by the subcommand."""
    return [*flags_of(script), re.search(r'"\$@" (activation-checkpoint:\w+)', script).group(1)]


def torchtitan(folder):
    cases, names, plans, scripts = [], [], [], []
    for number, (model, cluster, batch, sequence, flags, base) in enumerate(TORCHTITAN):
        case = (model, cluster, batch, sequence, flags)
        script, plan = exported(folder, "torchtitan", "torchtitan", case)
        recipe, said = exported(folder, "torchtitan", "torchtitan-recipe", case)
        expect(recipe is not None, f"{model} {flags}: {said}")
        # Stages that only Python can express.
        expect(script is not None or "TT-CUT" in plan, f"{model} {flags}: {plan}")
        if recipe is None:
            continue
        file = folder / f"planned_{number}.py"
        file.write_text(recipe)
        cases.append({"recipe": str(file), "base": f"{TITAN}:{base}", "world": 32})
        names.append(f"recipe of {model} {flags}")
        plans.append(said)
        if script is not None:
            expect(world_of(script) == 32, f"{model} {flags}: a world of {world_of(script)}")
            cases.append({"flags": ["--module", "llama3", "--config", base, *titan_words(script)], "world": 32})
            names.append(f"{model} {flags}")
            plans.append(plan)
            scripts.append((script, base, 32))
    script, base, world = next(s for s in scripts if "pipeline_parallel_first_stage_less_layers" in s[0])
    text = " ".join(titan_words(script))
    wrong = [(bad or f"without {pattern}", re.sub(pattern, bad, text)) for pattern, bad in TITAN_WRONG]
    for bad, changed in wrong:
        expect(changed != text, f"{bad}: nothing of it is in the export")
    read = read_by("torchtitan", cases + [{"flags": ["--module", "llama3", "--config", base, *changed.split()], "world": world} for _, changed in wrong])
    accepted = counted("torchtitan", len(cases), read, names)
    for name, plan, answer in zip(names, plans, read):
        if "refused" not in answer:
            s = strategy_of(plan)
            wanted = {"tp": s["tp"], "cp": s["cp"], "ep": s["ep"], "pp": plan["pipelines"][0]["schedule"].get("stages", len(plan["pipelines"][0]["stages"]))}
            differs = {key: (answer[key], value) for key, value in wanted.items() if answer[key] != value}
            expect(not differs and answer["dp_replicate"] * answer["dp_shard"] == s["dp"], f"{name}: {differs} {answer}")
            expect(answer["blocks"] is None or sum(answer["blocks"]) == (80 if "70b" in name else 32), f"{name}: blocks {answer['blocks']}")
    by_name = dict(zip(names, read))
    for name, answer in by_name.items():
        other = by_name.get(f"recipe of {name}")
        expect(other is None or other.get("blocks") == answer.get("blocks"), f"{name}: flags and recipe cut alike")
    for (bad, _), answer in zip(wrong, read[len(cases):]):
        expect("refused" in answer, f"torchtitan: {bad} was accepted")
    print(f"torchtitan: {accepted} of {len(cases)} exports accepted ({len(scripts)} command lines, the others recipes), "
          f"{sum('refused' in a for a in read[len(cases):])} of {len(TITAN_WRONG)} wrong ones refused")


def schedule_csv(folder):
    cases, names = [], []
    for number, (flags, chunks, kind) in enumerate(SCHEDULES):
        text, plan = exported(folder, "generic", "schedule-csv", ("llama-3-8b", H100, 64, 4096, flags))
        expect(text is not None, f"{flags}: {plan}")
        if text is None:
            continue
        ranks, microbatches = int(re.search(r"--pp (\d+)", flags).group(1)), plan["pipelines"][0]["schedule"]["microbatches"]
        for bad, changed in (("", text), ("a cell less", text.replace(",", "\n", 1)), ("a word", text.replace("0F0", "0X0", 1)),
                             ("backward first", text.replace("0F0", "0B0", 1)), ("a row less", "".join(text.splitlines(True)[1:]))):
            file = folder / f"{number}-{len(cases)}.csv"
            file.write_text(changed)
            cases.append({"csv": str(file), "ranks": ranks, "stages": ranks * chunks, "microbatches": microbatches, "kind": kind})
            names.append((flags, bad))
    read = read_by("schedule-csv", cases)
    for (flags, bad), answer in zip(names, read):
        expect(("refused" in answer) == bool(bad), f"schedule {flags} {bad}: {answer}")
    print(f"PyTorch's schedules: {sum('refused' not in a for (_, bad), a in zip(names, read) if not bad)} of {len(SCHEDULES)} accepted, "
          f"{sum('refused' in a for (_, bad), a in zip(names, read) if bad)} of {4 * len(SCHEDULES)} wrong ones refused")


def galvatron(folder):
    cases, names = [], []
    for number, case in enumerate(GALVATRON):
        text, plan = exported(folder, "galvatron", "galvatron", case)
        expect(text is not None, f"{case[4]}: {plan}")
        if text is None:
            continue
        for bad, change in (("", {}), ("31 layers", {"tp_sizes_enc": ",".join(["1"] * 31)}), ("a word", {"dp_types_enc": "zero3"}), ("batch", {"global_bsz": 13}),
                            ("stages", {"pp_division": "3,29"}), ("type", {"default_dp_type": "zero9"})):
            document = json.loads(text) | change
            if bad == "stages" and document["pp_deg"] == 2:
                document["pp_division"] = "3,28"
            file = folder / f"galvatron-{number}-{len(cases)}.json"
            file.write_text(json.dumps(document))
            cases.append({"json": str(file), "layers": 32, "world": 16})
            names.append((case[4], bad, plan))
    read = read_by("galvatron", cases)
    for (flags, bad, plan), answer in zip(names, read):
        expect(("refused" in answer) == bool(bad), f"Galvatron {flags} {bad}: {answer}")
        if not bad and "refused" not in answer:
            expect(set(answer["tp"]) == {strategy_of(plan)["tp"]} and answer["global_batch"] == 64, f"Galvatron {flags}: {answer}")
    print(f"Galvatron: {sum('refused' not in a for (_, bad, _), a in zip(names, read) if not bad)} of {len(GALVATRON)} accepted, "
          f"{sum('refused' in a for (_, bad, _), a in zip(names, read) if bad)} of {5 * len(GALVATRON)} wrong ones refused")


def bridge(folder):
    cases, names, plans = [], [], []
    for number, case in enumerate(BRIDGE):
        text, plan = exported(folder, "megatron-bridge", "megatron-bridge", case)
        expect(text is not None, f"{case[0]} {case[4]}: {plan}")
        if text is None:
            continue
        for bad, changed in [("", text), *((pattern, re.sub(pattern, value, text)) for pattern, value in (BRIDGE_WRONG if number == 0 else BRIDGE_WRONG[:2]))]:
            expect(not bad or changed != text, f"Megatron-Bridge: {bad}: nothing of it is in the export")
            file = folder / f"bridge_{number}_{len(cases)}.py"
            file.write_text(changed)
            cases.append({"recipe": str(file)})
            names.append((f"{case[0]} {case[4]}", bad))
            plans.append(plan)
    read = read_by("bridge", cases)
    for (name, bad), plan, answer in zip(names, plans, read):
        expect(("refused" in answer) == bool(bad), f"Megatron-Bridge {name} {bad}: {answer}")
        if not bad and "refused" not in answer:
            s = strategy_of(plan)
            wanted = {"tp": s["tp"], "cp": s["cp"], "sp": s["sp"] == "megatron", "zero": s["zero"] >= 1, "pp": len(plan["pipelines"][0]["stages"])}
            expect(all(answer[key] == value for key, value in wanted.items()), f"Megatron-Bridge {name}: {answer} not {wanted}")
    print(f"Megatron-Bridge: {sum('refused' not in a for (_, bad), a in zip(names, read) if not bad)} of {len(BRIDGE)} accepted, "
          f"{sum('refused' in a for (_, bad), a in zip(names, read) if bad)} of {sum(bool(bad) for _, bad in names)} wrong ones refused")


# ---- launchers -----------------------------------------------------------------------------------------------------

# Required fields of a TrainJob of trainer.kubeflow.org/v1alpha1, and their types.
TRAIN_JOB = {"apiVersion": str, "kind": str, "metadata": {"name": str}, "spec": {"runtimeRef": {"apiGroup": str, "kind": str, "name": str},
             "trainer": {"image": str, "numNodes": int, "numProcPerNode": int, "resourcesPerNode": {"limits": dict}, "command": list, "args": list}}}
LAUNCHED = [("megatron-core", "megatron-core", MEGATRON[0]), ("megatron-bridge", "megatron-bridge", BRIDGE[0]), ("torchtitan", "torchtitan", TORCHTITAN[0][:5]),
            ("torchtitan", "torchtitan-recipe", TORCHTITAN[5][:5]), ("fsdp2", "accelerate-fsdp", ACCELERATE[0]), ("deepspeed", "deepspeed", DEEPSPEED[0])]


def lacks(document, schema, at="$"):
    """Returns the first place where the document violates the schema; empty if there is none."""
    if isinstance(schema, type):
        return "" if isinstance(document, schema) else f"{at} is {document!r}"
    if not isinstance(document, dict):
        return f"{at} is {document!r}"
    return next((fault for key, inner in schema.items() if (fault := lacks(document.get(key), inner, f"{at}.{key}"))), "")


def fault_of_launcher(launcher, text, folder):
    file = folder / "launched"
    file.write_text(text)
    if launcher != "kubeflow":
        ran = subprocess.run(["bash", "-n", str(file)], capture_output=True, text=True)
        return ran.stderr
    loaded = subprocess.run([PYTHON, "-c", "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))", str(file)], capture_output=True, text=True)
    if loaded.returncode != 0:
        return loaded.stderr[-200:]
    document = json.loads(loaded.stdout)
    words = [w for key in ("command", "args") for w in document["spec"]["trainer"].get(key, [])] if not lacks(document, TRAIN_JOB) else []
    return lacks(document, TRAIN_JOB) or ("" if all(isinstance(w, str) for w in words) else "a word is no text")


def launchers(folder):
    seen = refused = 0
    for engine, form, case in LAUNCHED:
        exported(folder, engine, form, case)  # the plan
        for launcher in ("torchrun", "sbatch", "mpirun", "kubeflow"):
            ran = subprocess.run([BINARY, "export", form, str(folder / "out" / "plan.json"), "--launcher", launcher], capture_output=True, text=True)
            fault = fault_of_launcher(launcher, ran.stdout, folder) if ran.returncode == 0 else ran.stderr
            expect(not fault, f"{form} with {launcher}: {fault}")
            seen += not fault
            broken = ran.stdout.replace("numNodes: ", "numNodes: x") if launcher == "kubeflow" else ran.stdout + "\nif ("
            refused += bool(fault_of_launcher(launcher, broken, folder))
    expect(refused == 4 * len(LAUNCHED), "a broken launcher was accepted")
    print(f"launchers: {seen} of {4 * len(LAUNCHED)} read by bash or as a TrainJob, {refused} of {4 * len(LAUNCHED)} broken ones refused")


def installed(module):
    return pathlib.Path(PYTHON).exists() and subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, env=ENVIRONMENT).returncode == 0


def main():
    found = [(run, module) for run, module in ((megatron, "megatron.core"), (accelerate, "accelerate"), (deepspeed, "deepspeed"),
                                                 (torchtitan, "torchtitan"), (schedule_csv, "torch"), (galvatron, "scipy"), (bridge, "megatron"), (launchers, "yaml"))
             if installed(module) and (run is not galvatron or any((SOURCE / ".cache" / "engines" / "sdist" / "x").glob("hetu_galvatron-*")))
             and (run is not bridge or any(pathlib.Path(PYTHON).parents[1].glob("lib/python3*/site-packages/megatron/bridge")))]
    if not found:
        print("skipped: no frameworks in .cache/engines (./dev parsers installs them)")
        return 77
    with tempfile.TemporaryDirectory() as name:
        only = sys.argv[3:]  # names of parts, to run only these
        for run, _ in found:
            if not only or run.__name__ in only:
                run(pathlib.Path(name))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
