// SPDX-License-Identifier: Apache-2.0
#include "exchange/fsdp2_recipe.h"

#include <algorithm>

#include "base/format.h"
#include "base/invariant.h"
#include "exchange/format_rules.h"
#include "exchange/launch_script.h"
#include "exchange/python_recipe.h"

namespace espalier::exchange {
namespace {

constexpr FormatRows kFsdp2Rows = {"fsdp2-recipe", "fsdp2", "FSDP"};

/// Blocks may differ (engine rule FSDP-LAYERS lists how), so that no row requires one strategy.
std::vector<FormatRule> fsdp2_rules() { return {}; }
std::optional<FormatFault> fsdp2_fault(const Job& job, const Plan& plan) { return engine_fault_of(kFsdp2Rows, job, plan); }

/// Describes how one layer is wrapped in the module.
struct WrappedLayer {
  bool block = false, frees = false;
  const char* recompute = "none";
};

std::vector<WrappedLayer> layers_of(const Job& job, const Pipeline& pipeline) {
  std::vector<WrappedLayer> out;
  for (const LayerRange& range : pipeline.stages.front().chunks.front().ranges) {
    const Recompute& r = range.strategy.recompute;
    std::int32_t left = r.kind == RecomputeKind::full ? r.layers : 0;  // the first blocks of the range
    for (std::int32_t l = range.first; l <= range.last; ++l) {
      WrappedLayer layer{job.model.layer(static_cast<std::size_t>(l)).role == LayerRole::block,
                         range.strategy.shards_parameters()};
      if (layer.block && r.kind == RecomputeKind::selective) layer.recompute = "selective";
      if (layer.block && left-- > 0) layer.recompute = "full";
      out.push_back(layer);
    }
  }
  return out;
}

/// Writes a list with repeats: "['full'] * 3 + ['none'] * 5".
std::string repeated(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size();) {
    std::size_t end = i;
    while (end < words.size() && words[end] == words[i]) ++end;
    out += cat(out.empty() ? "" : " + ", "[", words[i], "] * ", end - i);
    i = end;
  }
  return out.empty() ? "[]" : out;
}

std::string settings(const WrittenPlan& w) {
  const Strategy& s = w.strategy();
  const Schedule& schedule = w.schedule();
  const bool sharded = s.shards_gradients();
  const std::int64_t shard = sharded ? std::max<std::int64_t>(1, s.shard / s.cp) : 1;
  ESPALIER_CHECK(s.dp % shard == 0);
  std::vector<std::string> frees, recompute;
  const std::vector<WrappedLayer> layers = layers_of(w.job(), w.pipeline);
  for (const WrappedLayer& layer : layers) {
    if (!layer.block) continue;
    frees.push_back(python_bool(layer.frees));
    recompute.push_back(python_text(layer.recompute));
  }
  return cat(
      "REPLICATE, SHARD, CP, TP = ", s.dp / shard, ", ", shard, ", ", s.cp, ", ", s.tp, "\nSHARDED = ", python_bool(sharded),
      "  # False: replicas are not sharded\nSEQUENCE_PARALLEL = ", python_bool(s.sp == SequenceParallel::megatron),
      "  # of the tensor-parallel plan\nMICRO_BATCH, MICRO_BATCHES, SEQUENCE = ", schedule.micro_batch, ", ",
      schedule.microbatches, ", ", w.plan().training.sequence.main,
      "\nPRECISION = ", python_text(std::string(to_string(w.plan().training.precision))),
      "\nHOST = ", python_bool(offloads_parameters(s.offload)),
      "  # parameters, gradients and states\nRESHARD_ROOT = ", python_bool(layers.front().frees), "\nRESHARD = ", repeated(frees),
      "  # block by block: free parameters after the forward pass\nRECOMPUTE = ", repeated(recompute), "\n\n\n");
}

constexpr const char* kBody = R"(def mesh():
    sizes = {'replicate': REPLICATE, 'shard': SHARD, 'cp': CP, 'tp': TP}
    return init_device_mesh('cuda', tuple(sizes.values()), mesh_dim_names=tuple(sizes))

def kept(context, op, *args, **kwargs):
    matmuls = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    attention = 'scaled_dot_product' in str(op)
    return CheckpointPolicy.MUST_SAVE if attention or op in matmuls else CheckpointPolicy.PREFER_RECOMPUTE

def planned(model, blocks, device_mesh):
    """blocks: the ModuleList of the model, after tensor and context parallelism over device_mesh['tp'] and device_mesh['cp']."""
    for i, how in enumerate(RECOMPUTE):
        if how == 'selective':
            blocks[i] = checkpoint_wrapper(blocks[i], context_fn=partial(create_selective_checkpoint_contexts, kept))
        elif how == 'full':
            blocks[i] = checkpoint_wrapper(blocks[i])
    if not SHARDED:
        return replicate(model, device_mesh=device_mesh['replicate', 'cp']._flatten('replicas') if CP > 1 else device_mesh['replicate'])
    half = {'bf16': torch.bfloat16, 'fp16': torch.float16}.get(PRECISION)
    shared = device_mesh['shard', 'cp']._flatten('shard_cp') if CP > 1 else device_mesh['shard']
    options = {
        'mesh': device_mesh['replicate', shared.mesh_dim_names[0]] if REPLICATE > 1 else shared,
        'mp_policy': MixedPrecisionPolicy(param_dtype=half, reduce_dtype=torch.float32),
        'offload_policy': CPUOffloadPolicy() if HOST else OffloadPolicy(),
    }
    for block, frees in zip(blocks, RESHARD):
        fully_shard(block, reshard_after_forward=frees, **options)
    return fully_shard(model, reshard_after_forward=RESHARD_ROOT, **options)
)";

constexpr const char* kImports =
    "from functools import partial\n\nimport torch\nfrom torch.distributed._composable.replicate import replicate\n"
    "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper\n"
    "from torch.distributed.device_mesh import init_device_mesh\n"
    "from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard\n"
    "from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts\n\n";

Result<std::string> fsdp2_file(const WrittenPlan& w) {
  std::string text = cat(head_lines(w.request, "PyTorch 2.11",
                                    "planned(model, blocks, mesh()) shards a model whose blocks are a ModuleList; the training "
                                    "script takes micro-batches and precision from here."),
                         kImports, settings(w), kBody);
  if (!w.request.launcher) return text;
  return to_text(LaunchFile{"PyTorch 2.11; your script imports planned_fsdp", "planned_fsdp.py", std::move(text),
                            cat("env PYTHONPATH=\"$(dirname FILE)${PYTHONPATH:+:$PYTHONPATH}\" ", torchrun_starter(w.job())), ""},
                 w.request);
}

Result<std::string> write_fsdp2(const ExportRequest& request) { return written(fsdp2_recipe(), request, fsdp2_file); }

}  // namespace

Exporter fsdp2_recipe() {
  return {"fsdp2-recipe",    "a Python module for PyTorch's fully_shard: mesh, sharding and recomputation of every block",
          "planned_fsdp.py", write_fsdp2,
          "fsdp2",           all_launchers(),
          fsdp2_rules,       fsdp2_fault};
}

}  // namespace espalier::exchange
