// SPDX-License-Identifier: Apache-2.0
#include "exchange/accelerate.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "exchange/format_rules.h"
#include "exchange/launch_script.h"

namespace espalier::exchange {
namespace {

using base::cat;

constexpr const char* kName = "accelerate-fsdp";
constexpr const char* kEngine = "fsdp2";  // as jobs and rules call what it launches
constexpr const char* kPrefix = "ACC";

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

std::string stages(const Job&, const Plan& plan) {
  const std::int32_t stages = plan.only_pipeline().schedule.stages;
  return stages == 1 ? "" : cat(stages, " pipeline stages");
}
std::string whole_gradients(const Job&, const Plan& plan) {
  const ZeroStage zero = plan.strategy().zero;
  return shards_gradients(zero) ? "" : cat("ZeRO-", number_of(zero));
}
std::string experts(const Job&, const Plan& plan) { return plan.strategy().ep == 1 ? "" : cat("ep ", plan.strategy().ep); }
std::string ulysses(const Job&, const Plan& plan) { return plan.strategy().sp == SequenceParallel::ulysses ? "Ulysses" : ""; }
std::string selective(const Job&, const Plan& plan) {
  return plan.strategy().recompute.kind == RecomputeKind::selective ? "selective recomputation" : "";
}
std::string partial(const Job& job, const Plan& plan) {
  const Recompute& r = plan.strategy().recompute;
  if (r.kind != RecomputeKind::full || r.layers >= job.model.blocks()) return "";
  return cat("recomputation of ", r.layers, " of ", job.model.blocks(), " blocks");
}
std::string cp_all_to_all(const Job&, const Plan& plan) {
  const Strategy& s = plan.strategy();
  return s.cp > 1 && s.cp_kind != ContextParallelKind::ring ? "context parallelism by all-to-all" : "";
}
std::string offloaded(const Job&, const Plan& plan) {
  const Offload o = plan.strategy().offload;
  return o == Offload::none || o == Offload::parameters ? "" : cat("offload ", to_string(o));
}
std::string unknown_block(const Job& job, const Plan&) {
  return block_class(job.model.family).empty() ? cat("a model of family ", job.model.family) : "";
}
std::string fp8(const Job&, const Plan& plan) { return plan.training.precision == Precision::fp8 ? "fp8" : ""; }

constexpr std::array kRows = {
    FormatRow{"PIPELINE", "no pipeline", stages, "1: Accelerate has no pipelines"},
    FormatRow{"SHARDS", "gradients are sharded", whole_gradients,
              "ZeRO-2 or ZeRO-3: FSDP shards parameters, gradients and states"},
    FormatRow{"EXPERTS", "no expert parallelism", experts, "none"},
    FormatRow{"ULYSSES", "no Ulysses", ulysses, "no sequence parallelism, or that of its tensor parallelism"},
    FormatRow{"SELECTIVE", "no selective recomputation", selective, "none or full"},
    FormatRow{"RECOMP-ALL", "all blocks are recomputed or none", partial, "of all of them"},
    FormatRow{"CP-KIND", "context parallelism by a ring or all-gathers", cp_all_to_all, "a ring or all-gathers"},
    FormatRow{"OFFLOAD", "states stay on the device, or go to the host with the parameters", offloaded,
              "none, or parameters: fsdp_offload_params takes them and their states along"},
    FormatRow{"FAMILY", "the class of its blocks is known", unknown_block,
              "one whose block class is known here: llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, gpt2, gemma2, gpt_neox, "
              "phi3"},
    FormatRow{"FP8", "no fp8", fp8, "bf16, fp16 or fp32"},
};

std::vector<FormatRule> rules() { return rules_of(kPrefix, kRows); }
std::optional<FormatFault> fault(const Job& job, const Plan& plan) { return fault_of(kPrefix, kRows, job, plan); }

std::string configuration(const ExportRequest& request) {
  const Job& job = request.job;
  const Plan& plan = request.plan;
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
             " of them make a step.\n", lost_lines(request, "#"),
             "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: '",
             mixed ? std::string(to_string(plan.training.precision)) : "no", "'\n",
             "num_machines: ", devices / job.cluster.groups.front().devices_per_node, "\nnum_processes: ", devices,
             "\nmachine_rank: 0\nmain_process_ip: 127.0.0.1\nmain_process_port: 29500\n",
             "rdzv_backend: c10d\nmain_training_function: main\nfsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: "
             "TRANSFORMER_BASED_WRAP\n",
             "  fsdp_transformer_layer_cls_to_wrap: ", block_class(job.model.family),
             "\n  fsdp_reshard_after_forward: ", yes(shards_parameters(s.zero)),
             "\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n  fsdp_activation_checkpointing: ",
             yes(s.recompute.kind == RecomputeKind::full),
             "\n  fsdp_cpu_ram_efficient_loading: true\n  fsdp_offload_params: ", yes(offloads_parameters(s.offload)), "\n",
             "parallelism_config:\n  parallelism_config_dp_replicate_size: ", replicas,
             "\n  parallelism_config_dp_shard_size: ", shard, "\n  parallelism_config_tp_size: ", s.tp,
             "\n  parallelism_config_cp_size: ", s.cp, s.cp > 1 ? "\n  parallelism_config_cp_comm_strategy: alltoall" : "", "\n");
}

Result<std::string> write(const ExportRequest& request) {
  if (const auto broken = fault(request.job, request.plan)) return to_error(*broken, accelerate_fsdp());
  std::string text = configuration(request);
  if (!request.launcher) return text;
  return to_text(LaunchFile{"Accelerate 1.15", "accelerate.yaml", std::move(text),
                            "accelerate launch --config_file FILE --machine_rank RANK --main_process_ip ADDRESS "
                            "--main_process_port \"${MASTER_PORT:-29500}\"",
                            ""},
                 request);
}

}  // namespace

Exporter accelerate_fsdp() {
  return {kName,
          "a configuration file of Hugging Face Accelerate (1.15, FSDP2)",
          "accelerate.yaml",
          write,
          kEngine,
          all_launchers(),
          rules,
          fault};
}

}  // namespace espalier::exchange
