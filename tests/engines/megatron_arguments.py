#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs Megatron-LM's own parsing of flags (parse_args, validate_args and core_transformer_config_from_args) on a
machine without GPUs. Every line of stdin is {"world": N, "flags": [...]}. It gives one line of JSON on stdout: the
parsed flags, or {"refused": why}. Each runs in its own process.

needs megatron-core 0.19 (Python 3.12) and torch
"""
import contextlib
import dataclasses
import io
import json
import os
import sys
import types

import torch

os.environ.update(RANK="0", CUDA_DEVICE_MAX_CONNECTIONS="1")
# validate_args queries the GPU: an H100.
torch.cuda.get_device_capability = lambda *a, **k: (9, 0)
torch.cuda.get_device_properties = lambda *a, **k: types.SimpleNamespace(major=9, minor=0, name="H100", total_memory=80 << 30, multi_processor_count=132)
torch.cuda.current_device = lambda: 0
torch.cuda.device_count = lambda: 8

from megatron.core.optimizer.optimizer_config import OptimizerConfig  # noqa: E402
from megatron.training.arguments import core_transformer_config_from_args, parse_args, validate_args  # noqa: E402

KEYS = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size", "expert_model_parallel_size", "sequence_parallel",
        "micro_batch_size", "global_batch_size", "seq_length", "num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_query_groups",
        "use_distributed_optimizer", "virtual_pipeline_model_parallel_size", "data_parallel_size", "num_experts", "recompute_granularity", "bf16")


def read(case):
    os.environ["WORLD_SIZE"] = str(case["world"])
    sys.argv = ["pretrain_gpt.py", *case["flags"]]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            args = validate_args(parse_args())
            config = core_transformer_config_from_args(args)
            # As in get_megatron_optimizer_config; other optimizers need Transformer Engine.
            if args.optimizer_cpu_offload:
                OptimizerConfig(**{f.name: getattr(args, f.name) for f in dataclasses.fields(OptimizerConfig) if hasattr(args, f.name)})
    except (Exception, SystemExit) as why:  # argparse ends the process, asserts raise
        return {"refused": f"{type(why).__name__}: {why} {said.getvalue()[-200:]}"}
    return {key: getattr(args, key, None) for key in KEYS} | {"config_layers": config.num_layers}


for line in sys.stdin:
    sys.stdout.flush()
    if os.fork() == 0:
        sys.stdout.write(json.dumps(read(json.loads(line))) + "\n")
        sys.stdout.flush()
        os._exit(0)
    os.wait()
