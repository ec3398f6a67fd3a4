#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists the flags and keys of the installed frameworks, by their own parsers and dataclasses: one line of JSON,
{"megatron": [{"key", "flags", "default"}], "torchtitan": [{"key", "default"}], "deepspeed": [{"key"}], "accelerate": [{"key"}]}.

needs megatron-core 0.19 (Python 3.12), torchtitan, deepspeed, accelerate and torch; no GPU
"""
import argparse
import contextlib
import dataclasses
import importlib
import inspect
import io
import json
import os
import pathlib
import re
import typing

os.environ.update(RANK="0", WORLD_SIZE="1")


def megatron():
    import torch
    torch.cuda.get_device_capability = lambda *a, **k: (9, 0)
    torch.cuda.device_count = lambda: 8
    from megatron.training.arguments import add_megatron_arguments
    parser = add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
    out = {}
    for action in parser._actions:
        if action.dest == "help":
            continue
        default = action.default
        if hasattr(default, "name"):  # an enumeration prints as AttnBackend.auto
            default = default.name
        text = "[" + ", ".join(map(str, default)) + "]" if isinstance(default, list) else str(default)
        row = out.setdefault(action.dest, {"key": action.dest, "flags": [], "default": text})
        row["flags"] += action.option_strings
    return list(out.values())


def torchtitan():
    from torchtitan.trainer import Trainer
    out = {}

    def walk(kind, prefix, seen):
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            hint = hints.get(field.name, field.type)
            key = f"{prefix}{field.name}"
            inner = [a for a in (hint, *typing.get_args(hint)) if inspect.isclass(a) and dataclasses.is_dataclass(a) and a not in seen]
            for each in inner:
                walk(each, key + ".", seen | {each})
            if inner:
                continue
            row = out.setdefault(key, {"key": key})
            if field.default is not dataclasses.MISSING:
                row.setdefault("default", str(field.default))

    walk(Trainer.Config, "", frozenset())
    return list(out.values())


def deepspeed():
    """Returns fields of its pydantic models, and the keys that DeepSpeedConfig reads from its dictionary."""
    import deepspeed
    from deepspeed.runtime import constants
    out = set()

    def fields(module, name, prefix):
        for field, info in getattr(importlib.import_module(module), name).model_fields.items():
            out.add(prefix + (info.alias or field))

    fields("deepspeed.runtime.zero.config", "DeepSpeedZeroConfig", "zero_optimization.")
    fields("deepspeed.runtime.zero.offload_config", "DeepSpeedZeroOffloadOptimizerConfig", "zero_optimization.offload_optimizer.")
    fields("deepspeed.runtime.zero.offload_config", "DeepSpeedZeroOffloadParamConfig", "zero_optimization.offload_param.")
    fields("deepspeed.runtime.zero.leaf_module_config", "DeepSpeedZeroLeafModuleConfig", "zero_optimization.leaf_module.")
    fields("deepspeed.runtime.zenflow.zenflow_config", "ZenFlowConfig", "zero_optimization.zenflow.")
    fields("deepspeed.runtime.precision_config", "DeepSpeedFP16Config", "fp16.")
    fields("deepspeed.runtime.precision_config", "DeepSpeedBF16Config", "bf16.")
    fields("deepspeed.runtime.config", "HybridEngineConfig", "hybrid_engine.")
    fields("deepspeed.comm.config", "CommsLoggerConfig", "comms_logger.")
    fields("deepspeed.compile.config", "CompileConfig", "compile.")
    for name, prefix in (("TensorBoardConfig", "tensorboard."), ("WandbConfig", "wandb."), ("CSVConfig", "csv_monitor."), ("CometConfig", "comet.")):
        fields("deepspeed.monitor.config", name, prefix)
    fields("deepspeed.runtime.tensor_parallel.config", "TPTrainingConfig", "tensor_parallel.")
    source = (pathlib.Path(deepspeed.__file__).parent / "runtime" / "config.py").read_text()
    for name in re.findall(r"get_scalar_param\(param_dict, ([A-Z_0-9]+)", source):
        if isinstance(getattr(constants, name, None), str):
            out.add(getattr(constants, name))
    sections = {"zero_optimization.offload_param", "zero_optimization.offload_optimizer", "zero_optimization.leaf_module", "tensor_parallel.tp"}
    return [{"key": key} for key in sorted(out - sections)]


def accelerate():
    """Returns fields of its cluster file, and the keys that `accelerate config` writes into its sections."""
    import accelerate
    from accelerate.commands.config.config_args import ClusterConfig
    out = {field.name for field in dataclasses.fields(ClusterConfig)}
    sections = {name for name in out if name.endswith("_config")}
    folder = pathlib.Path(accelerate.__file__).parent / "commands"
    source = (folder / "config" / "cluster.py").read_text()
    for section, key in re.findall(r'\b((?:fsdp|deepspeed|mpirun)_config)\["([a-z_0-9]+)"\]', source):
        out.add(f"{section}.{key}")
    for flag in re.findall(r'"--([a-z_0-9]+)"', (folder / "launch.py").read_text()):
        for prefix, section in (("fsdp_", "fsdp_config"), ("parallelism_config_", "parallelism_config"), ("megatron_lm_", "megatron_lm_config"), ("dynamo_", "dynamo_config")):
            if flag.startswith(prefix):
                out.add(f"{section}.{flag}")
    return [{"key": key} for key in sorted(out - sections)]


said = io.StringIO()
with contextlib.redirect_stdout(said):
    lists = {"megatron": megatron(), "torchtitan": torchtitan(), "deepspeed": deepspeed(), "accelerate": accelerate()}
print(json.dumps(lists))
