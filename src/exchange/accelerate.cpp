// SPDX-License-Identifier: Apache-2.0
#include "exchange/accelerate.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "exchange/uniform_plan.h"

namespace espalier::exchange {
namespace {

using base::cat;

constexpr const char* kName = "accelerate-fsdp";
constexpr const char* kEngine = "fsdp2";  // as jobs and rules call what it launches

/// The class that FSDP wraps: of transformers' modelling files.
std::string block_class(const std::string& family) {
  constexpr std::pair<const char*, const char*> kClasses[] = {
      {"llama", "LlamaDecoderLayer"}, {"mistral", "MistralDecoderLayer"}, {"mixtral", "MixtralDecoderLayer"},
      {"qwen2", "Qwen2DecoderLayer"}, {"qwen3", "Qwen3DecoderLayer"},     {"qwen3_moe", "Qwen3MoeDecoderLayer"},
      {"gpt2", "GPT2Block"},          {"gemma2", "Gemma2DecoderLayer"},   {"gpt_neox", "GPTNeoXLayer"},
      {"phi3", "Phi3DecoderLayer"}};
  const auto at =
      std::find_if(std::begin(kClasses), std::end(kClasses), [&family](const auto& row) { return family == row.first; });
  return at == std::end(kClasses) ? "" : at->second;
}

Status unsayable(const Job& job, const Plan& plan) {
  if (Status error = not_uniform(plan, kEngine)) return error;
  if (Status error = not_on_equal_nodes(job, plan, kEngine)) return error;
  const Strategy& s = plan.strategy();
  const Schedule& schedule = plan.only_pipeline().schedule;
  if (schedule.stages > 1) return cannot_say(kEngine, cat(schedule.stages, " pipeline stages"), "1: Accelerate has no pipelines");
  if (!shards_gradients(s.zero))
    return cannot_say(kEngine, cat("ZeRO-", static_cast<int>(s.zero)),
                      "ZeRO-2 or ZeRO-3: FSDP shards parameters, gradients and states");
  if (s.ep > 1) return cannot_say(kEngine, "expert parallelism", "none");
  if (s.sp == SequenceParallel::ulysses)
    return cannot_say(kEngine, "Ulysses", "no sequence parallelism, or that of its tensor parallelism");
  if (s.recompute.kind == RecomputeKind::selective) return cannot_say(kEngine, "selective recomputation", "none or full");
  if (s.recompute.kind == RecomputeKind::full && s.recompute.layers < job.model.blocks())
    return cannot_say(kEngine, cat("recomputation of ", s.recompute.layers, " of ", job.model.blocks(), " blocks"),
                      "of all of them");
  if (s.cp > 1 && s.cp_kind != ContextParallelKind::ring)
    return cannot_say(kEngine, "context parallelism by all-to-all", "a ring or all-gathers");
  if (block_class(job.model.family).empty())
    return cannot_say(
        kName, cat("a model of family ", job.model.family),
        "one whose block class is known here: llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, gpt2, gemma2, gpt_neox, phi3");
  if (plan.training.precision == Precision::fp8) return cannot_say(kEngine, "fp8", "bf16, fp16 or fp32");
  return {};
}

Result<std::string> write(const Job& job, const Plan& plan) {
  if (Status error = unsayable(job, plan)) return *error;
  const Strategy& s = plan.strategy();
  const Schedule& schedule = plan.only_pipeline().schedule;
  const bool mixed = plan.training.precision == Precision::bf16 || plan.training.precision == Precision::fp16;
  const std::int64_t devices = job.cluster.devices();
  const auto yes = [](bool flag) { return flag ? "true" : "false"; };
  // FSDP2 shards over dp_shard · cp: what a shard group has beyond the ranks that split the sequence.
  const std::int64_t shard = std::max<std::int64_t>(1, s.shard / s.cp),
                     replicas = std::max<std::int64_t>(1, s.data_ranks() / s.shard);
  ESPALIER_CHECK(shard * replicas * s.tp * s.cp == devices);  // every process has a place
  return cat("# ", plan.label(), "\n# ", plan.model_name, " on ", devices, " ", job.cluster.groups.front().device.name,
             "; Accelerate 1.15. Written by espalier export; plan ", content_hash(plan),
             ".\n# The script takes micro-batches of ", schedule.micro_batch, " samples a device; ", schedule.microbatches,
             " of them make a step.\n", "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: '",
             mixed ? std::string(to_string(plan.training.precision)) : "no", "'\n",
             "num_machines: ", devices / job.cluster.groups.front().devices_per_node, "\nnum_processes: ", devices,
             "\nmachine_rank: 0\nmain_process_ip: 127.0.0.1\nmain_process_port: 29500\n",
             "rdzv_backend: c10d\nmain_training_function: main\nfsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: "
             "TRANSFORMER_BASED_WRAP\n",
             "  fsdp_transformer_layer_cls_to_wrap: ", block_class(job.model.family),
             "\n  fsdp_reshard_after_forward: ", yes(shards_parameters(s.zero)),
             "\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n  fsdp_activation_checkpointing: ",
             yes(s.recompute.kind == RecomputeKind::full),
             "\n  fsdp_cpu_ram_efficient_loading: true\n  fsdp_offload_params: false\n",
             "parallelism_config:\n  parallelism_config_dp_replicate_size: ", replicas,
             "\n  parallelism_config_dp_shard_size: ", shard, "\n  parallelism_config_tp_size: ", s.tp,
             "\n  parallelism_config_cp_size: ", s.cp, s.cp > 1 ? "\n  parallelism_config_cp_comm_strategy: alltoall" : "", "\n");
}

}  // namespace

Exporter accelerate_fsdp() {
  return {kName, "a configuration file of Hugging Face Accelerate (1.15, FSDP2)", "accelerate.yaml", write, kEngine};
}

}  // namespace espalier::exchange
