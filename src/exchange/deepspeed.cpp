// SPDX-License-Identifier: Apache-2.0
#include "exchange/deepspeed.h"

#include <algorithm>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "exchange/format_rules.h"
#include "exchange/launch_script.h"
#include "plan/engine.h"

namespace espalier::exchange {
namespace {

constexpr const char* kDeepspeed = "deepspeed";
constexpr const char* kDeepspeedPrefix = "DS";

constexpr FormatRows kDeepspeedRows = {kDeepspeed, kDeepspeed, kDeepspeedPrefix};

std::vector<FormatRule> deepspeed_rules() { return rules_of(kDeepspeedRows); }
std::optional<FormatFault> deepspeed_fault(const Job& job, const Plan& plan) { return fault_of(kDeepspeedRows, job, plan); }

bool states_in_bf16(const Plan& plan) { return has_engine_option(plan, "bf16-states"); }

void write_bf16(base::JsonWriter& json, const Plan& plan) {
  json.key("bf16").begin_object().key("enabled").value(true);
  if (states_in_bf16(plan)) json.key("bf16_master_weights_and_grads").value(true).key("bf16_optimizer_states").value(true);
  json.end_object();
}

/// Writes the sizes in which the plan's engine differs from DeepSpeed's defaults.
void write_sizes(base::JsonWriter& json, const Plan& plan, int stage) {
  ESPALIER_CHECK(stage >= 0 && stage <= 3);
  const ZeroPolicy &usual = find_engine(kDeepspeed)->memory.zero, own = find_engine(plan.engine)->memory.zero;
  const auto size = [&](const char* key, std::int64_t value, std::int64_t standard) {
    if (value != standard) json.key(key).value(value);
  };
  size("reduce_bucket_size", own.bucket, usual.bucket);
  if (stage < 3) return;
  size("sub_group_size", own.update_elements, usual.update_elements);
  size("stage3_max_live_parameters", own.live, usual.live);
  size("stage3_max_reuse_distance", own.reuse, usual.reuse);
}

void write_zero(base::JsonWriter& json, const Plan& plan, const Strategy& s) {
  const bool bf16_states = states_in_bf16(plan);
  // With one data rank, stage 0 would keep states on the device, and bf16 has none.
  const int least = offloads_parameters(s.offload) ? 3 : offloads_optimizer(s.offload) || bf16_states ? 1 : 0;
  const int stage = std::max(least, static_cast<int>(s.zero));
  json.key("zero_optimization").begin_object().key("stage").value(stage);
  json.key("overlap_comm").value(s.overlap.grad_reduce || s.overlap.param_gather);
  json.key("contiguous_gradients").value(true).key("reduce_scatter").value(true);
  write_sizes(json, plan, stage);
  const auto to_host = [&json](const char* key) {
    json.key(key).begin_object().key("device").value("cpu").key("pin_memory").value(true).end_object();
  };
  if (offloads_optimizer(s.offload)) to_host("offload_optimizer");
  if (offloads_parameters(s.offload)) to_host("offload_param");
  json.end_object();
}

std::string deepspeed_settings(const WrittenPlan& w) {
  const Plan& plan = w.plan();
  const Strategy& s = w.strategy();
  const Schedule& schedule = w.schedule();
  // The samples of a step are those of all ranks that hold different ones; ranks of a Ulysses group share theirs.
  ESPALIER_CHECK(std::int64_t{schedule.micro_batch} * schedule.microbatches * s.dp == plan.training.global_batch);
  base::JsonWriter json;
  json.begin_object().key("espalier").begin_object().key("plan").value(content_hash(plan)).key("label").value(plan.label());
  json.key("gradient_checkpointing").value(s.recompute.kind == RecomputeKind::full);
  if (plan.training.precision == Precision::fp8) json.key("precision").value("fp8");
  if (const auto left = left_to_script(plan); !left.empty()) {
    json.key("from_the_script").begin_array();
    for (const std::string& what : left) json.value(what);
    json.end_array();
  }
  if (!w.request.lost.empty()) {
    json.key("not_as_planned").begin_array();
    for (const std::string& lost : w.request.lost) json.value(lost);
    json.end_array();
  }
  json.end_object();
  // Under AutoTP, DeepSpeed counts every rank of a tensor group as one with separate samples (runtime/config.py:471,
  // :602).
  if (s.tp == 1 || s.sp == SequenceParallel::ulysses) json.key("train_batch_size").value(plan.training.global_batch);
  json.key("train_micro_batch_size_per_gpu").value(schedule.micro_batch);
  json.key("gradient_accumulation_steps").value(schedule.microbatches);
  if (plan.training.precision == Precision::bf16 || plan.training.precision == Precision::fp8) write_bf16(json, plan);
  if (plan.training.precision == Precision::fp16) json.key("fp16").begin_object().key("enabled").value(true).end_object();
  if (has_engine_option(plan, "fp32-gradients"))
    json.key("data_types").begin_object().key("grad_accum_dtype").value("fp32").end_object();
  write_zero(json, plan, s);
  if (offloads_activations(s.offload))  // offloads inputs of recomputed blocks
    json.key("activation_checkpointing").begin_object().key("cpu_checkpointing").value(true).end_object();
  if (s.sp == SequenceParallel::ulysses)
    json.key("sequence_parallel_size").value(s.tp);
  else if (s.tp > 1)
    json.key("tensor_parallel").begin_object().key("autotp_size").value(s.tp).end_object();
  json.end_object();
  return json.text() + "\n";
}

Result<std::string> deepspeed_file(const WrittenPlan& w) {
  std::string text = deepspeed_settings(w);
  if (!w.request.launcher) return text;
  return to_text(LaunchFile{"DeepSpeed 0.19; your script must call deepspeed.add_config_arguments", "ds_config.json",
                            std::move(text), torchrun_starter(w.job()), "--deepspeed --deepspeed_config FILE"},
                 w.request);
}

Result<std::string> write_deepspeed(const ExportRequest& request) { return written(deepspeed_json(), request, deepspeed_file); }

}  // namespace

Exporter deepspeed_json() {
  return {kDeepspeed,       "DeepSpeed's JSON (0.19), for plans without a pipeline",
          "ds_config.json", write_deepspeed,
          kDeepspeed,       all_launchers(),
          deepspeed_rules,  deepspeed_fault};
}

}  // namespace espalier::exchange
