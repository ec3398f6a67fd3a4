// SPDX-License-Identifier: Apache-2.0
// Builds plans of unlike parts: stages of different sizes, replicas of unequal shares, concurrent pipelines. All use
// a small model of six layers (embedding, four blocks, head) unless stated otherwise.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/small_plans.h"

namespace espalier::runtime::testing {

/// Describes a stage: layers up to `last` under a strategy on the next tp · dp devices.
struct StageOf {
  std::int32_t last = 0;
  Strategy strategy;
};

/// Returns a pipeline of stages of one chunk each; `next` is the first device that is free.
inline Pipeline pipeline_of(const std::vector<StageOf>& stages, Schedule schedule, std::int64_t samples, std::int64_t& next,
                            std::int32_t id = 0) {
  Pipeline out;
  out.id = id;
  out.samples = samples;
  std::int32_t first = 0;
  for (const StageOf& stage : stages) {
    const std::int64_t devices = stage.strategy.devices();
    out.stages.push_back({{{next, devices, 1}}, {Chunk{{{first, stage.last, stage.strategy}}}}});
    next += devices;
    first = stage.last + 1;
  }
  schedule.stages = static_cast<std::int32_t>(stages.size());
  schedule.microbatches = static_cast<std::int32_t>(samples / (std::int64_t{schedule.micro_batch} * stages.front().strategy.dp));
  out.schedule = schedule;
  return out;
}

/// Replaces the only pipeline of a plan with one of these stages.
inline void restage(Plan& plan, const std::vector<StageOf>& stages, const Schedule& schedule) {
  std::int64_t next = 0;
  plan.pipelines = {pipeline_of(stages, schedule, kSamples, next)};
}

struct PipelineOf {
  std::int64_t samples = 0;
  Schedule schedule;
  std::vector<StageOf> stages;
};

/// Replaces the pipelines of the plan.
inline void beside(Plan& plan, const std::vector<PipelineOf>& pipelines) {
  std::int64_t next = 0;
  plan.pipelines.clear();
  for (const PipelineOf& p : pipelines)
    plan.pipelines.push_back(
        pipeline_of(p.stages, p.schedule, p.samples, next, static_cast<std::int32_t>(plan.pipelines.size())));
}

/// Sets samples of the replicas, and weights of the states' shards, in all stages; empty: equal.
inline void share_out(Plan& plan, const std::vector<std::int64_t>& samples, const std::vector<std::int64_t>& states) {
  for (Stage& stage : plan.only_pipeline().stages) {
    stage.samples_per_replica = samples;
    stage.state_shares = states;
  }
}

}  // namespace espalier::runtime::testing
