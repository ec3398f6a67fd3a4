// SPDX-License-Identifier: Apache-2.0
#include "exchange/deepspeed.h"

#include "base/check.h"
#include "base/document.h"
#include "base/format.h"
#include "exchange/uniform_plan.h"

namespace espalier::exchange {
namespace {

using base::cat;

constexpr const char* kName = "deepspeed";

Status unsayable(const Job& job, const Plan& plan) {
  if (Status error = not_uniform(plan, kName)) return error;
  if (Status error = not_on_equal_nodes(job, plan, kName)) return error;
  const Strategy& s = plan.strategy();
  const std::int32_t stages = plan.only_pipeline().schedule.stages;
  if (stages > 1) return cannot_say(kName, cat(stages, " pipeline stages"), "1: DeepSpeed's pipelines are Python, no JSON");
  if (s.cp > 1) return cannot_say(kName, "context parallelism", "none, or Ulysses");
  if (s.sp == SequenceParallel::megatron) return cannot_say(kName, "Megatron's sequence parallelism", "none, or Ulysses");
  if (s.ep > 1) return cannot_say(kName, "expert parallelism", "none: experts are spread by the model's own code");
  if (shards_optimizer(s.zero) && s.shard < s.data_ranks())
    return cannot_say(
        kName, cat("states sharded over ", s.shard, " of ", s.data_ranks(), " ranks under ZeRO-", static_cast<int>(s.zero)),
        "all ranks: DeepSpeed 0.19.8 has no MiCS");
  if (s.recompute.kind == RecomputeKind::full && s.recompute.layers < job.model.blocks())
    return cannot_say(kName, cat("recomputation of ", s.recompute.layers, " of ", job.model.blocks(), " blocks"),
                      "of all of them");
  if (s.recompute.kind == RecomputeKind::selective) return cannot_say(kName, "selective recomputation", "none or full");
  if (plan.training.precision == Precision::fp8) return cannot_say(kName, "fp8", "bf16, fp16 or fp32");
  return {};
}

void write_zero(base::JsonWriter& json, const Strategy& s) {
  json.key("zero_optimization").begin_object().key("stage").value(static_cast<int>(s.zero));
  json.key("overlap_comm").value(s.overlap.grad_reduce || s.overlap.param_gather);
  json.key("contiguous_gradients").value(true).key("reduce_scatter").value(true);
  if (s.offload == Offload::optimizer)
    json.key("offload_optimizer").begin_object().key("device").value("cpu").key("pin_memory").value(true).end_object();
  json.end_object();
}

Result<std::string> write(const Job& job, const Plan& plan) {
  if (Status error = unsayable(job, plan)) return *error;
  const Strategy& s = plan.strategy();
  const Schedule& schedule = plan.only_pipeline().schedule;
  // What a step takes is what all ranks that hold different samples take; ranks of a Ulysses group share theirs.
  ESPALIER_CHECK(std::int64_t{schedule.micro_batch} * schedule.microbatches * s.dp == plan.training.global_batch);
  base::JsonWriter json;
  json.begin_object().key("espalier").begin_object().key("plan").value(content_hash(plan)).key("label").value(plan.label());
  json.key("gradient_checkpointing").value(s.recompute.kind == RecomputeKind::full).end_object();
  json.key("train_batch_size")
      .value(plan.training.global_batch)
      .key("train_micro_batch_size_per_gpu")
      .value(schedule.micro_batch);
  json.key("gradient_accumulation_steps").value(schedule.microbatches);
  if (plan.training.precision == Precision::bf16) json.key("bf16").begin_object().key("enabled").value(true).end_object();
  if (plan.training.precision == Precision::fp16) json.key("fp16").begin_object().key("enabled").value(true).end_object();
  write_zero(json, s);
  if (s.sp == SequenceParallel::ulysses)
    json.key("sequence_parallel_size").value(s.tp);
  else if (s.tp > 1)
    json.key("tensor_parallel").begin_object().key("autotp_size").value(s.tp).end_object();
  json.end_object();
  return json.text() + "\n";
}

}  // namespace

Exporter deepspeed_json() {
  return {kName, "DeepSpeed's JSON (0.19), of plans without a pipeline", "ds_config.json", write, kName};
}

}  // namespace espalier::exchange
