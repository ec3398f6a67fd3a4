// SPDX-License-Identifier: Apache-2.0
#include "exchange/accelerate.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/format.h"
#include "base/invariant.h"
#include "exchange/format_rules.h"
#include "exchange/launch_script.h"
#include "plan/engine.h"

namespace espalier::exchange {
namespace {

constexpr const char* kAccelerate = "accelerate-fsdp";
constexpr const char* kEngine = "accelerate-fsdp";
constexpr const char* kAcceleratePrefix = "ACC";

/// Returns the class that FSDP wraps, as named in transformers' modelling files.
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

std::string selective(const Job&, const Plan&, const Pipeline& pipeline) {
  return pipeline.strategy().recompute.kind == RecomputeKind::selective ? "selective recomputation" : "";
}
std::string partial(const Job& job, const Plan&, const Pipeline& pipeline) {
  const Recompute& r = pipeline.strategy().recompute;
  if (r.kind != RecomputeKind::full || r.layers >= job.model.blocks()) return "";
  return cat("recomputation of ", r.layers, " of ", job.model.blocks(), " blocks");
}
bool first_version(const Plan& plan) { return base_engine(plan.engine).starts_with("fsdp1"); }
std::string other_groups(const Job& job, const Plan& plan, const Pipeline& pipeline) {
  const Strategy& s = pipeline.strategy();
  if (!first_version(plan) || !s.shards_optimizer() || s.shard == s.data_ranks() || s.shard == devices_a_node(job)) return "";
  return cat("states sharded over ", s.shard, " of ", s.data_ranks(), " ranks");
}

// These rows apply to engines whose plans can exceed this file. Plans of accelerate-fsdp meet all of them by rules of
// the engine.
constexpr std::array kAccelerateOnly = {
    FormatRow{"SELECTIVE", "no selective recomputation", selective, "none or full"},
    FormatRow{"RECOMP-ALL", "all blocks are recomputed or none", partial, "of all of them"},
    FormatRow{"NODE-SHARDS", "FSDP1 shards over all ranks or over those of a node", other_groups,
              "all ranks, or those of a node"},
};
constexpr FormatRows kAccelerateRows = {kAccelerate, kEngine, kAcceleratePrefix, kAccelerateOnly};

std::vector<FormatRule> accelerate_rules() { return rules_of(kAccelerateRows); }
std::optional<FormatFault> accelerate_fault(const Job& job, const Plan& plan) { return fault_of(kAccelerateRows, job, plan); }

/// Writes how FSDP shards, with the keys of its version.
std::string sharding(const WrittenPlan& w) {
  const Strategy& s = w.strategy();
  if (!first_version(w.plan()))
    return cat("  fsdp_version: 2\n  fsdp_reshard_after_forward: ", s.shards_parameters() ? "true" : "false", "\n");
  const bool grouped = s.shards_optimizer() && s.shard < s.data_ranks();
  const char* word = s.zero == ZeroStage::none        ? "NO_SHARD"
                     : s.zero == ZeroStage::gradients ? (grouped ? "HYBRID_SHARD_ZERO2" : "SHARD_GRAD_OP")
                                                      : (grouped ? "HYBRID_SHARD" : "FULL_SHARD");
  return cat("  fsdp_version: 1\n  fsdp_sharding_strategy: ", word, "\n");
}

/// Writes the wrapping policy. For an unknown class, transformers' own list of modules that are not split applies.
std::string wrapping(const Job& job) {
  const std::string known = block_class(job.model.family);
  return cat("  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n",
             known.empty() ? "" : cat("  fsdp_transformer_layer_cls_to_wrap: ", known, "\n"));
}

/// Writes the mesh of version 2.
std::string degrees(const WrittenPlan& w) {
  if (first_version(w.plan())) return "";
  const Strategy& s = w.strategy();
  // FSDP2 shards over dp_shard · cp. The shard size is thus the part of the shard group beyond the ranks that split
  // the sequence.
  const std::int64_t shard = std::max<std::int64_t>(1, s.shard / s.cp),
                     replicas = std::max<std::int64_t>(1, s.data_ranks() / s.shard);
  ESPALIER_CHECK(shard * replicas * s.tp * s.cp == w.job().cluster.devices());  // the mesh covers every process
  return cat("parallelism_config:\n  parallelism_config_dp_replicate_size: ", replicas,
             "\n  parallelism_config_dp_shard_size: ", shard, "\n  parallelism_config_tp_size: ", s.tp,
             "\n  parallelism_config_cp_size: ", s.cp, s.cp > 1 ? "\n  parallelism_config_cp_comm_strategy: alltoall" : "", "\n");
}

std::string accelerate_yaml(const WrittenPlan& w) {
  const Strategy& s = w.strategy();
  const Precision precision = w.plan().training.precision;
  const std::int64_t devices = w.job().cluster.devices();
  const auto yes = [](bool flag) { return flag ? "true" : "false"; };
  return cat(head_lines(w.request, "Accelerate 1.15",
                        cat("The script must use micro-batches of ", w.schedule().micro_batch, " samples per device; ",
                            w.schedule().microbatches, " of them form a step.")),
             "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: '",
             precision != Precision::fp32 ? std::string(to_string(precision)) : "no", "'\n",
             "num_machines: ", devices / devices_a_node(w.job()), "\nnum_processes: ", devices,
             "\nmachine_rank: 0\nmain_process_ip: 127.0.0.1\nmain_process_port: 29500\n",
             precision == Precision::fp8 ? "fp8_config:\n  fp8_backend: AO\n" : "",
             "rdzv_backend: c10d\nmain_training_function: main\nfsdp_config:\n", sharding(w), wrapping(w.job()),
             "  fsdp_state_dict_type: SHARDED_STATE_DICT\n  fsdp_activation_checkpointing: ",
             yes(s.recompute.kind == RecomputeKind::full),
             "\n  fsdp_cpu_ram_efficient_loading: true\n  fsdp_offload_params: ", yes(offloads_parameters(s.offload)), "\n",
             degrees(w));
}

Result<std::string> accelerate_file(const WrittenPlan& w) {
  std::string text = accelerate_yaml(w);
  if (!w.request.launcher) return text;
  return to_text(LaunchFile{"Accelerate 1.15", "accelerate.yaml", std::move(text),
                            "accelerate launch --config_file FILE --machine_rank RANK --main_process_ip ADDRESS "
                            "--main_process_port \"${MASTER_PORT:-29500}\"",
                            ""},
                 w.request);
}

Result<std::string> write_accelerate(const ExportRequest& request) {
  return written(accelerate_fsdp(), request, accelerate_file);
}

}  // namespace

Exporter accelerate_fsdp() {
  return {kAccelerate,       "a configuration file of Hugging Face Accelerate (1.15, FSDP2)",
          "accelerate.yaml", write_accelerate,
          kEngine,           all_launchers(),
          accelerate_rules,  accelerate_fault};
}

}  // namespace espalier::exchange
