// SPDX-License-Identifier: Apache-2.0
#include "exchange/deepspeed.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/document.h"
#include "base/format.h"
#include "exchange/format_rules.h"
#include "exchange/launch_script.h"

namespace espalier::exchange {
namespace {

using base::cat;

constexpr const char* kName = "deepspeed";
constexpr const char* kPrefix = "DS";

std::string stages(const Job&, const Plan& plan) {
  const std::int32_t stages = plan.only_pipeline().schedule.stages;
  return stages == 1 ? "" : cat(stages, " pipeline stages");
}
std::string context(const Job&, const Plan& plan) { return plan.strategy().cp == 1 ? "" : cat("cp ", plan.strategy().cp); }
std::string megatron_sequence(const Job&, const Plan& plan) {
  return plan.strategy().sp == SequenceParallel::megatron ? "Megatron's sequence parallelism" : "";
}
std::string experts(const Job&, const Plan& plan) { return plan.strategy().ep == 1 ? "" : cat("ep ", plan.strategy().ep); }
std::string shard_groups(const Job&, const Plan& plan) {
  const Strategy& s = plan.strategy();
  if (!shards_optimizer(s.zero) || s.shard == s.data_ranks()) return "";
  return cat("states sharded over ", s.shard, " of ", s.data_ranks(), " ranks under ZeRO-", number_of(s.zero));
}
std::string partial(const Job& job, const Plan& plan) {
  const Recompute& r = plan.strategy().recompute;
  if (r.kind != RecomputeKind::full || r.layers >= job.model.blocks()) return "";
  return cat("recomputation of ", r.layers, " of ", job.model.blocks(), " blocks");
}
std::string selective(const Job&, const Plan& plan) {
  return plan.strategy().recompute.kind == RecomputeKind::selective ? "selective recomputation" : "";
}
std::string fp8(const Job&, const Plan& plan) { return plan.training.precision == Precision::fp8 ? "fp8" : ""; }

// An engine's own search finds what the engine runs, and that is more than its JSON says: the hints name what keeps to the file.
constexpr std::array kRows = {
    FormatRow{"PIPELINE", "no pipeline", stages, "1: DeepSpeed's pipelines are Python, no JSON",
              "plan with search: {fix: {pp: 1}}"},
    FormatRow{"CONTEXT", "no context parallelism", context, "none, or Ulysses", "plan with search: {fix: {cp: 1}}"},
    FormatRow{"SEQUENCE", "no sequence parallelism of Megatron's kind", megatron_sequence, "none, or Ulysses",
              "plan with search: {forbid: {sp: megatron}}"},
    FormatRow{"EXPERTS", "no expert parallelism", experts, "none: experts are spread by the model's own code",
              "plan with search: {fix: {ep: 1}}"},
    FormatRow{"SHARD-GROUPS", "states are sharded over all data ranks", shard_groups, "all ranks: DeepSpeed 0.19.8 has no MiCS",
              "plan with search: {fix: {shard: N}}, N being the data ranks"},
    FormatRow{"RECOMPUTED", "all blocks are recomputed or none", partial, "of all of them",
              "plan with search: {fix: {recompute: none}}, or {fix: {recompute: full, recompute_layers: N}}, N being the blocks"},
    FormatRow{"SELECTIVE", "no selective recomputation", selective, "none or full",
              "plan with search: {fix: {recompute: none}}, or {fix: {recompute: full, recompute_layers: N}}, N being the blocks"},
    FormatRow{"FP8", "no fp8", fp8, "bf16, fp16 or fp32"},
};

std::vector<FormatRule> rules() { return rules_of(kPrefix, kRows); }
std::optional<FormatFault> fault(const Job& job, const Plan& plan) { return fault_of(kPrefix, kRows, job, plan); }

void write_zero(base::JsonWriter& json, const Strategy& s) {
  // One data rank: stage 0 would keep states on the device.
  const int least = offloads_parameters(s.offload) ? 3 : offloads_optimizer(s.offload) ? 1 : 0;
  json.key("zero_optimization").begin_object().key("stage").value(std::max(least, static_cast<int>(s.zero)));
  json.key("overlap_comm").value(s.overlap.grad_reduce || s.overlap.param_gather);
  json.key("contiguous_gradients").value(true).key("reduce_scatter").value(true);
  const auto to_host = [&json](const char* key) {
    json.key(key).begin_object().key("device").value("cpu").key("pin_memory").value(true).end_object();
  };
  if (offloads_optimizer(s.offload)) to_host("offload_optimizer");
  if (offloads_parameters(s.offload)) to_host("offload_param");
  json.end_object();
}

std::string configuration(const ExportRequest& request) {
  const Plan& plan = request.plan;
  const Strategy& s = plan.strategy();
  const Schedule& schedule = plan.only_pipeline().schedule;
  // What a step takes is what all ranks that hold different samples take; ranks of a Ulysses group share theirs.
  ESPALIER_CHECK(std::int64_t{schedule.micro_batch} * schedule.microbatches * s.dp == plan.training.global_batch);
  base::JsonWriter json;
  json.begin_object().key("espalier").begin_object().key("plan").value(content_hash(plan)).key("label").value(plan.label());
  json.key("gradient_checkpointing").value(s.recompute.kind == RecomputeKind::full);
  if (!request.lost.empty()) {
    json.key("not_as_planned").begin_array();
    for (const std::string& lost : request.lost) json.value(lost);
    json.end_array();
  }
  json.end_object();
  json.key("train_batch_size")
      .value(plan.training.global_batch)
      .key("train_micro_batch_size_per_gpu")
      .value(schedule.micro_batch);
  json.key("gradient_accumulation_steps").value(schedule.microbatches);
  if (plan.training.precision == Precision::bf16) json.key("bf16").begin_object().key("enabled").value(true).end_object();
  if (plan.training.precision == Precision::fp16) json.key("fp16").begin_object().key("enabled").value(true).end_object();
  write_zero(json, s);
  if (offloads_activations(s.offload))  // inputs of recomputed blocks
    json.key("activation_checkpointing").begin_object().key("cpu_checkpointing").value(true).end_object();
  if (s.sp == SequenceParallel::ulysses)
    json.key("sequence_parallel_size").value(s.tp);
  else if (s.tp > 1)
    json.key("tensor_parallel").begin_object().key("autotp_size").value(s.tp).end_object();
  json.end_object();
  return json.text() + "\n";
}

Result<std::string> write(const ExportRequest& request) {
  if (const auto broken = fault(request.job, request.plan)) return to_error(*broken, deepspeed_json());
  std::string text = configuration(request);
  if (!request.launcher) return text;
  return to_text(LaunchFile{"DeepSpeed 0.19; your script takes deepspeed.add_config_arguments", "ds_config.json", std::move(text),
                            torchrun_starter(request.job), "--deepspeed --deepspeed_config FILE"},
                 request);
}

}  // namespace

Exporter deepspeed_json() {
  return {kName, "DeepSpeed's JSON (0.19), of plans without a pipeline", "ds_config.json", write, kName, all_launchers(), rules,
          fault};
}

}  // namespace espalier::exchange
