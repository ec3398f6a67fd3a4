// SPDX-License-Identifier: Apache-2.0
#include "exchange/torchtitan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "exchange/launch_script.h"
#include "exchange/uniform_plan.h"

namespace espalier::exchange {
namespace {

using base::cat;
using Flags = std::vector<LaunchFlag>;

constexpr const char* kName = "torchtitan";

std::string flag(const char* name) { return cat("--parallelism.", name); }

bool compiles(const Plan& plan) { return plan.engine == "torchtitan-compile"; }

/// Blocks of every chunk, in pipeline order.
std::vector<std::int64_t> blocks_of_chunks(const Job& job, const Plan& plan) {
  const Pipeline& pipeline = plan.only_pipeline();
  std::vector<std::int64_t> out(static_cast<std::size_t>(pipeline.schedule.stages) *
                                static_cast<std::size_t>(pipeline.schedule.virtual_stages));
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i)
    for (std::size_t v = 0; v < pipeline.stages[i].chunks.size(); ++v) {
      const Chunk& chunk = pipeline.stages[i].chunks[v];
      std::int64_t blocks = 0;
      for (std::int32_t l = chunk.first(); l <= chunk.last(); ++l)
        blocks += job.model.layer(static_cast<std::size_t>(l)).role == LayerRole::block ? 1 : 0;
      out[static_cast<std::size_t>(
          pipeline_chunk(pipeline.schedule, static_cast<std::int32_t>(i), static_cast<std::int32_t>(v)))] = blocks;
    }
  return out;
}

/// Schedules with several stages a rank take two unasked.
std::int64_t usual_stages(const Schedule& schedule) {
  const bool several = schedule.kind == ScheduleKind::interleaved || schedule.kind == ScheduleKind::zb_v;
  return std::int64_t{schedule.stages} * (several ? 2 : 1);
}

const char* schedule_name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::gpipe: return "GPipe";
    case ScheduleKind::one_f_one_b: return "1F1B";
    case ScheduleKind::interleaved: return "Interleaved1F1B";
    case ScheduleKind::zb_v: return "ZBVZeroBubble";
    case ScheduleKind::zb_h1: break;
  }
  return nullptr;
}

std::string listed(const std::vector<std::int64_t>& counts) {
  std::vector<std::string> words;
  for (const std::int64_t count : counts) words.push_back(std::to_string(count));
  return base::joined(words);
}

Status unsayable(const Job& job, const Plan& plan) {
  if (Status error = not_uniform(plan, kName)) return error;
  if (Status error = not_on_equal_nodes(job, plan, kName)) return error;
  const Strategy& s = plan.strategy();
  const Schedule& schedule = plan.only_pipeline().schedule;
  const std::vector<std::int64_t> blocks = blocks_of_chunks(job, plan);
  if (s.zero == ZeroStage::optimizer) return cannot_say(kName, "ZeRO-1", "ZeRO-0, ZeRO-2 or ZeRO-3");
  if (s.cp > 1 && s.shard % s.cp != 0)
    return cannot_say(kName, cat("cp ", s.cp, " with shard groups of ", s.shard), "shard groups that hold the ranks of cp");
  if (s.sp == SequenceParallel::ulysses)
    return cannot_say(kName, "Ulysses", "the sequence parallelism of its tensor parallelism");
  if (s.ep > 1 && s.etp > 1) return cannot_say(kName, cat("etp ", s.etp), "experts that are whole");
  if (s.offload != Offload::none) return cannot_say(kName, "states of the optimizer in host memory", "on the device");
  if (s.overlap.tp && !compiles(plan))
    return cannot_say(kName, "overlapped tensor parallelism without compilation", "that of torchtitan-compile");
  if (schedule.stages > 1 && schedule_name(schedule.kind) == nullptr)
    return cannot_say(kName, cat("schedule ", to_string(schedule.kind)), "gpipe, 1f1b, interleaved or zb-v");
  if (s.recompute.kind == RecomputeKind::full && s.recompute.layers < *std::max_element(blocks.begin(), blocks.end()))
    return cannot_say(kName, cat("recomputation of ", s.recompute.layers, " blocks of a stage"), "of all of them");
  if (schedule.stages > 1 && !titan_cut(blocks, usual_stages(schedule)))
    return cannot_say(kName, cat("stages of ", listed(blocks), " blocks"),
                      "stages that differ as the layers which first and last have less, or module_fqns_per_model_part in Python");
  if (plan.training.precision != Precision::bf16 && plan.training.precision != Precision::fp32)
    return cannot_say(kName, std::string(to_string(plan.training.precision)), "bf16 or fp32");
  return {};
}

Flags pipeline(const Job& job, const Plan& plan) {
  const Schedule& schedule = plan.only_pipeline().schedule;
  if (schedule.stages == 1) return {};
  const auto cut = titan_cut(blocks_of_chunks(job, plan), usual_stages(schedule));
  ESPALIER_CHECK(cut);  // unsayable() has asked
  Flags out{{flag("pipeline_parallel_degree"), std::to_string(schedule.stages), ""},
            {flag("pipeline_parallel_schedule"), schedule_name(schedule.kind), ""},
            {flag("pipeline_parallel_microbatch_size"), std::to_string(schedule.micro_batch), ""},
            {flag("pipeline_parallel_first_stage_less_layers"), std::to_string(cut->first), ""},
            {flag("pipeline_parallel_last_stage_less_layers"), std::to_string(cut->last), ""}};
  if (cut->layers_per_stage > 0)
    out.push_back({flag("pipeline_parallel_layers_per_stage"), std::to_string(cut->layers_per_stage),
                   cat(schedule.virtual_stages, " stages a rank")});
  return out;
}

Flags parallelism(const Plan& plan) {
  const Strategy& s = plan.strategy();
  const std::int64_t shard = shards_gradients(s.zero) ? s.shard / s.cp : 1;
  ESPALIER_CHECK(shard > 0 && s.dp % shard == 0);
  Flags out{{flag("data_parallel_replicate_degree"), std::to_string(s.dp / shard), ""},
            {flag("data_parallel_shard_degree"), std::to_string(shard),
             s.cp > 1 ? "states are sharded over the ranks of cp, too" : ""}};
  if (shards_gradients(s.zero))
    out.push_back({flag("fsdp_reshard_after_forward"), shards_parameters(s.zero) ? "always" : "never",
                   shards_parameters(s.zero) ? "ZeRO-3" : "ZeRO-2"});
  out.push_back({flag("tensor_parallel_degree"), std::to_string(s.tp), ""});
  if (s.tp > 1 && s.sp == SequenceParallel::none) out.push_back({flag("no-enable-sequence-parallel"), "", ""});
  if (s.cp > 1) out.push_back({flag("context_parallel_degree"), std::to_string(s.cp), ""});
  if (s.ep > 1) out.push_back({flag("expert_parallel_degree"), std::to_string(s.ep), ""});
  return out;
}

Flags batch(const Plan& plan) {
  const Schedule& schedule = plan.only_pipeline().schedule;
  const std::int64_t passes = schedule.stages > 1 ? schedule.microbatches : 1;
  return {{"--training.local_batch_size", std::to_string(schedule.micro_batch * passes),
           schedule.stages > 1 ? cat(passes, " micro-batches pass the pipeline") : ""},
          {"--training.global_batch_size", std::to_string(plan.training.global_batch), ""},
          {"--training.seq_len", std::to_string(plan.training.sequence.main), ""}};
}

/// Rule TT-CUDA-GRAPHS is kept here, whatever the plan.
Flags kernels(const Plan& plan) {
  Flags out{{"--training.disable_cuda_graphs", "",
             plan.only_pipeline().schedule.stages > 1 ? "they do not support pipelines" : "the prediction launches every kernel"},
            {compiles(plan) ? "--compile.enable" : "--compile.no-enable", "", ""}};
  if (plan.strategy().overlap.tp) out.push_back({"--compile.enable_async_tensor_parallel", "", ""});
  if (plan.training.precision == Precision::fp32) out.push_back({"--training.mixed_precision_param", "float32", ""});
  return out;
}

/// A subcommand of tyro: flags behind it would be its own.
std::string recomputation(const Recompute& r) {
  switch (r.kind) {
    case RecomputeKind::none: return "activation-checkpoint:none";
    case RecomputeKind::selective: return "activation-checkpoint:selective";
    case RecomputeKind::full: break;
  }
  return "activation-checkpoint:full";
}

Result<std::string> launch(const Job& job, const Plan& plan, Launcher launcher) {
  if (Status error = unsayable(job, plan)) return *error;
  LaunchScript script;
  script.engine = "torchtitan 0.3; MODULE and CONFIG name the model, as llama3 and llama3_8b";
  script.program = "-m torchtitan.train --module \"${MODULE:?}\" --config \"${CONFIG:?}\"";
  script.in_image = "-m torchtitan.train --module MODULE --config CONFIG";
  script.groups = {
      {"parallelism", parallelism(plan)}, {"pipeline", pipeline(job, plan)}, {"batch", batch(plan)}, {"kernels", kernels(plan)}};
  script.last = recomputation(plan.strategy().recompute);
  return to_text(script, job, plan, launcher);
}

Result<std::string> write(const Job& job, const Plan& plan) { return launch(job, plan, Launcher::torchrun); }

/// Layers a stage of which ⌈weighted / it⌉ is the number of stages; 0: unsaid; nothing: there is no such number.
std::optional<std::int64_t> layers_a_stage(std::int64_t weighted, std::int64_t stages, std::int64_t usual) {
  if (stages == usual) return 0;
  const std::int64_t each = (weighted + stages - 1) / stages;
  if ((weighted + each - 1) / each != stages) return std::nullopt;
  return each;
}

}  // namespace

std::vector<std::int64_t> titan_blocks(std::int64_t layers, std::int64_t stages, std::int64_t first, std::int64_t last) {
  ESPALIER_CHECK(layers >= 0 && stages > 0 && first >= 0 && last >= 0);
  const std::int64_t each = (layers + first + last) / stages, more = (layers + first + last) % stages;
  if (each == 0 || first > each || last > each || stages > layers + first + last) return {};
  std::vector<std::int64_t> out;
  for (std::int64_t k = 0; k < stages; ++k)
    out.push_back(each + (k < more ? 1 : 0) - (k == 0 ? first : 0) - (k == stages - 1 ? last : 0));
  return *std::min_element(out.begin(), out.end()) < 0 ? std::vector<std::int64_t>() : out;
}

std::optional<TitanCut> titan_cut(const std::vector<std::int64_t>& blocks, std::int64_t usual_stages) {
  const std::int64_t layers = std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
  const auto stages = static_cast<std::int64_t>(blocks.size());
  const auto with = [&](std::int64_t first, std::int64_t last) -> std::optional<TitanCut> {
    if (titan_blocks(layers, stages, first, last) != blocks) return std::nullopt;
    const auto each = layers_a_stage(layers + first + last, stages, usual_stages);
    return each ? std::optional<TitanCut>({first, last, *each}) : std::nullopt;
  };
  if (const auto usual = with(1, 1)) return usual;
  // A weight is at most what a stage has.
  const std::int64_t most = *std::max_element(blocks.begin(), blocks.end()) + 1;
  for (std::int64_t sum = 0; sum <= 2 * most; ++sum)
    for (std::int64_t first = std::max<std::int64_t>(0, sum - most); first <= std::min(sum, most); ++first)
      if (const auto found = with(first, sum - first)) return found;
  return std::nullopt;
}

Exporter torchtitan_flags() {
  return {kName, "a script that launches the plan with torchtitan (0.3)", "launch.sh", write, kName, launch};
}

}  // namespace espalier::exchange
