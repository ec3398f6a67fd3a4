#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the frameworks' own readers on the output of `espalier export`, on a machine without GPUs; that of Megatron-LM
is megatron_arguments.py. Every line of stdin is a JSON object. It gives one line of JSON on stdout: what was read, or
{"refused": why}. Each runs in its own process.

usage: readers.py torchtitan      {"flags": […], "world": N} or {"recipe": FILE, "base": "MODULE:FUNCTION", "world": N}
       readers.py schedule-csv    {"csv": FILE, "ranks": N, "stages": N, "microbatches": N, "kind": "single" | "loop" | "v"}
       readers.py galvatron       {"json": FILE, "layers": N, "world": N}
       readers.py bridge          {"recipe": FILE}
       readers.py accelerate      {"yaml": FILE}
       readers.py deepspeed       {"json": FILE, "world": N}

needs torchtitan 0.3, torch, hetu_galvatron 2.4.0 unpacked (ESPALIER_GALVATRON), megatron-bridge 0.6
"""
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import sys
import types

os.environ.setdefault("RANK", "0")


# ---- torchtitan: its command line, its recipes, its checks of degrees, and its cut of the layers --------------------

def titan_config(case):
    from torchtitan.config import ConfigManager
    if "flags" in case:
        return ConfigManager().parse_args(case["flags"])
    os.environ["BASE"] = case["base"]
    folder, name = os.path.split(case["recipe"])
    sys.path.insert(0, folder)
    return ConfigManager().parse_args(["--module", name.removesuffix(".py"), "--config", "planned"])


def titan(case):
    from torchtitan.distributed import pipeline_parallel
    from torchtitan.distributed.parallel_dims import ParallelDims
    config = titan_config(case)
    p = config.parallelism
    dims = ParallelDims.from_config(p, case["world"])
    config._validate_cuda_graphs()
    if p.expert_parallel_degree > 1:
        assert dims.dp_shard * dims.cp * dims.tp % dims.ep == 0, "ep"
    parts = None
    if p.pipeline_parallel_degree > 1:
        parts = p.module_fqns_per_model_part
        if parts is None:
            stages, layers, first, last = pipeline_parallel._get_pipeline_metadata(dims, p, config.model_spec.model)
            parts = pipeline_parallel._generate_llm_fqn_per_model_part(stages, layers, first, last)
        local = config.training.local_batch_size
        assert local % p.pipeline_parallel_microbatch_size == 0, "micro-batches"
    groups = dims.dp_replicate * dims.dp_shard
    assert config.training.global_batch_size % (config.training.local_batch_size * groups) == 0, "global batch"
    return {"dp_replicate": dims.dp_replicate, "dp_shard": dims.dp_shard, "cp": dims.cp, "tp": dims.tp, "pp": dims.pp, "ep": dims.ep,
            "schedule": p.pipeline_parallel_schedule, "seq_len": config.training.seq_len, "global_batch": config.training.global_batch_size,
            "local_batch": config.training.local_batch_size, "reshard": p.fsdp_reshard_after_forward,
            "checkpointing": type(config.activation_checkpoint).__qualname__ if config.activation_checkpoint is not None else "none",
            "blocks": None if parts is None else [sum(name.startswith("layers.") for name in part) for part in parts]}


# ---- PyTorch: the loader of pipeline schedules, and its lowering to sends and receives -----------------------------

def schedule_csv(case):
    from torch.distributed.pipelining import schedules
    ranks, stages = case["ranks"], case["stages"]
    runtime = schedules._PipelineScheduleRuntime.__new__(schedules._PipelineScheduleRuntime)
    own = [types.SimpleNamespace(stage_index=s, stage_index_to_group_rank=None, has_backward=True) for s in range(0, stages, ranks)]
    runtime.__dict__.update(pipeline_order={}, pp_group_size=ranks, _num_stages=stages, _n_microbatches=case["microbatches"], _stages=own, rank=0,
                            _unshard_lookahead="full", _max_active_stages=3, _defer_reduce_grad_wait=False, _max_outstanding_sends=None, _defer_pp_recv=False, _has_backward=True, stage_index_to_group_rank={})
    with open(case["csv"], encoding="utf-8") as file:
        assert "" not in file.read().split("\n")[:-1], "an empty row"
    runtime._load_csv(case["csv"])
    mapping = {int(k): v for k, v in runtime.stage_index_to_group_rank.items()}
    wanted = {s: (min(s, 2 * ranks - 1 - s) if case["kind"] == "v" else s % ranks) for s in range(stages)}
    assert mapping == wanted, f"stages lie on {mapping}"
    return {"stages": len(mapping), "actions": sum(len(row) for row in runtime.pipeline_order_with_comms.values())}


# ---- Galvatron: its reader of strategy files and the checks of that reader ------------------------------------------

def galvatron(case):
    root = os.environ["ESPALIER_GALVATRON"]
    for name in ("galvatron", "galvatron.utils"):  # without the other imports of its package: CUDA extensions
        package = types.ModuleType(name)
        package.__path__ = [os.path.join(root, *name.split("."))]
        sys.modules[name] = package
    utils = importlib.import_module("galvatron.utils.config_utils")
    for word in ("config2strategy", "read_json_config", "str2array"):
        setattr(sys.modules["galvatron.utils"], word, getattr(utils, word))
    import torch
    torch.distributed.get_world_size = lambda *a, **k: case["world"]
    spec = importlib.util.spec_from_file_location("reader", os.path.join(root, "galvatron/core/runtime/hybrid_parallel_config.py"))
    reader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    args = types.SimpleNamespace(local_rank=1, galvatron_config_path=case["json"], pipeline_type="gpipe", default_dp_type="ddp", embed_sdp=0, chunks=-1,
                                 global_train_batch_size=-1, distributed_checkpoint=None, vocab_tp=1, vocab_sp=0, pp_deg=1, load=None)
    info = lambda config, args: types.SimpleNamespace(layernums=lambda: [case["layers"]])  # noqa: E731
    read = reader.get_hybrid_parallel_configs_api(None, args, info)
    lists = ("tp_sizes_enc", "tp_consecutive_flags", "dp_types_enc", "checkpoint_flags_enc", "use_sp", "pp_ranks_enc")
    for name in lists:
        assert len(read[name]) == case["layers"], f"{name} has {len(read[name])} entries"
    assert sum(read["pp_division"]) == case["layers"] and len(read["pp_division"]) == read["pp_deg"], "pp_division"
    for tp in read["tp_sizes_enc"]:
        assert case["world"] // read["pp_deg"] % tp == 0, f"tp {tp}"
    assert read["default_dp_type"] in ("ddp", "zero2", "zero3") and args.pipeline_type in ("gpipe", "pipedream_flush"), "a type"
    return {"pp": read["pp_deg"], "tp": read["tp_sizes_enc"], "global_batch": read["global_train_batch_size"], "chunks": args.chunks}


# ---- Megatron-Bridge: a ConfigContainer of its own classes, with stand-ins for modules whose import needs a GPU -----

STAND_INS = ("transformer_engine", "transformer_engine_torch", "nvidia_resiliency_ext", "modelopt", "megatron.energon", "qwen_vl_utils", "mamba_ssm",
             "causal_conv1d", "flash_attn", "multi_storage_client", "timm", "open_clip", "comet_ml", "mlflow", "wandb", "omegaconf", "hydra", "onnx", "lightning",
             "webdataset", "av", "soundfile", "librosa", "decord")


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if any(name == known or name.startswith(known + ".") for known in STAND_INS):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        import torch
        from unittest.mock import MagicMock

        class Module(types.ModuleType):
            def __getattr__(self, word):
                if word.startswith("__"):
                    raise AttributeError(word)
                made = type(word, (torch.nn.Module,), {}) if word[:1].isupper() else MagicMock()
                setattr(self, word, made)
                return made

        module = Module(spec.name)
        module.__version__, module.__path__ = "2.13.0", []
        return module

    def exec_module(self, module):
        pass


def stand_in():
    import importlib.metadata
    known = importlib.metadata.version
    importlib.metadata.version = lambda name: "2.13.0" if name.startswith("transformer") and "engine" in name else known(name)
    sys.meta_path.append(StandIns())


def bridge(case):
    from megatron.bridge.models.gpt_provider import GPTModelProvider
    from megatron.bridge.training import comm_overlap, config
    spec = importlib.util.spec_from_file_location("planned", case["recipe"])
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)
    fields = {"model": GPTModelProvider, "train": config.TrainingConfig, "ddp": config.DistributedDataParallelConfig, "optimizer": config.OptimizerConfig,
              "dataset": config.GPTDatasetConfig}

    class Strict:
        """Accepts the fields of the class; anything else has no effect in the framework and is rejected here."""

        def __init__(self, of):
            self.__dict__.update(of=of, given={})

        def __setattr__(self, name, value):
            if not any(name in getattr(c, "__dataclass_fields__", {}) for c in self.of.__mro__):
                raise AttributeError(f"{self.of.__name__} has no field {name}")
            self.given[name] = value

    container = types.SimpleNamespace(**{name: Strict(of) for name, of in fields.items()})
    recipe.planned(container)
    assert isinstance(container.comm_overlap, comm_overlap.CommOverlapConfig)
    m = container.model.given
    from megatron.core.transformer.transformer_config import TransformerConfig
    names = [n for n in m if n in TransformerConfig.__dataclass_fields__ and n not in ("seq_length",)]
    kinds = {"num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32}
    made = TransformerConfig(**kinds, bf16=True, **{n: m[n] for n in names})
    return {"tp": made.tensor_model_parallel_size, "pp": made.pipeline_model_parallel_size, "cp": made.context_parallel_size,
            "sp": made.sequence_parallel, "zero": container.ddp.given["use_distributed_optimizer"], "micro_batch": container.train.given["micro_batch_size"],
            "global_batch": container.train.given["global_batch_size"]}


def accelerate(case):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.parallelism_config import ParallelismConfig
    from accelerate.utils import PrecisionType
    config = load_config_from_file(case["yaml"])
    sizes = {name.removeprefix("parallelism_config_"): value for name, value in config.parallelism_config.items()}
    sizes.pop("cp_comm_strategy", None)
    parallel = ParallelismConfig(**sizes)
    # Repeats a check of Accelerator, which needs the ranks to run.
    parallel._validate_accelerator(types.SimpleNamespace(multi_device=True, is_fsdp2=True, num_processes=config.num_processes, distributed_type=config.distributed_type))
    PrecisionType(config.mixed_precision)
    return {"size": parallel.total_size, "processes": config.num_processes}


def deepspeed(case):
    from deepspeed.runtime import config
    # DeepSpeed asks its communication module for the number of ranks.
    config.dist.get_rank = lambda *a, **k: 0
    config.dist.get_world_size = lambda *a, **k: case["world"]
    config.dist.is_initialized = lambda *a, **k: True
    read = config.DeepSpeedConfig(case["json"])
    return {"batch": read.train_batch_size, "micro_batch": read.train_micro_batch_size_per_gpu, "accumulation": read.gradient_accumulation_steps,
            "zero": read.zero_optimization_stage}


READERS = {"accelerate": accelerate, "deepspeed": deepspeed, "torchtitan": titan, "schedule-csv": schedule_csv, "galvatron": galvatron, "bridge": bridge}
# Modules that take long to import are imported once for all cases.
MODULES = {"accelerate": ("accelerate.commands.config.config_args", "accelerate.parallelism_config"), "deepspeed": ("deepspeed.runtime.config",), "torchtitan": ("torchtitan.config", "torchtitan.distributed.pipeline_parallel", "torchtitan.models.llama3.config_registry"),
           "schedule-csv": ("torch.distributed.pipelining.schedules",), "galvatron": ("torch", "scipy.optimize"),
           "bridge": ("megatron.bridge.models.gpt_provider", "megatron.bridge.training.comm_overlap", "megatron.bridge.training.config")}


def answer(read, case):
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            return read(case)
    except (Exception, SystemExit) as why:
        return {"refused": f"{type(why).__name__}: {str(why)[:400]} {said.getvalue()[-300:]}"}


def main():
    read = READERS[sys.argv[1]]
    with contextlib.redirect_stdout(io.StringIO()):
        if read is bridge:
            stand_in()
        for name in MODULES[sys.argv[1]]:
            importlib.import_module(name)
    for line in sys.stdin:
        sys.stdout.flush()
        if os.fork() == 0:
            sys.stdout.write(json.dumps(answer(read, json.loads(line))) + "\n")
            sys.stdout.flush()
            os._exit(0)
        os.wait()


if __name__ == "__main__":
    main()
