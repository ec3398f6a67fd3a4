// SPDX-License-Identifier: Apache-2.0
// Builds the uniform plan: every layer has one strategy, chunks follow the split policy, devices the rank order.
//
// Rank orders are innermost first. With coordinates t < tp, c < cp, d < dp, p < pp the device of a rank is
//   tp_cp_dp_pp   t + tp·(c + cp·(d + dp·p))    stage p: one run of tp·cp·dp devices
//   tp_cp_pp_dp   t + tp·(c + cp·(p + pp·d))    stage p: dp runs of tp·cp devices, pp·tp·cp apart
//   tp_dp_cp_pp   t + tp·(d + dp·(c + cp·p))    stage p: one run of tp·cp·dp devices.
//
// A stage lists its devices by ascending id, which is the order of its ranks without the stage coordinate.
#include "plan/uniform.h"

#include <cstdio>
#include <utility>

#include "base/format.h"
#include "base/invariant.h"
#include "plan/split.h"

namespace espalier {
namespace {

std::vector<DeviceRange> stage_devices(const Strategy& s, const Schedule& schedule, std::int32_t stage) {
  const std::int64_t inner = std::int64_t{s.tp} * s.cp;
  const std::int64_t size = inner * s.dp;
  if (s.order != RankOrder::tp_cp_pp_dp || s.dp == 1 || schedule.stages == 1) return {{size * stage, size, 1}};
  const std::int64_t apart = inner * schedule.stages;
  if (inner == 1) return {{stage, s.dp, apart}};
  std::vector<DeviceRange> ranges;
  ranges.reserve(static_cast<std::size_t>(s.dp));
  for (std::int64_t d = 0; d < s.dp; ++d) ranges.push_back({inner * stage + apart * d, inner, 1});
  return ranges;
}

/// Formats a count for people: "8.03 B", "124 M", three significant digits.
std::string short_count(std::int64_t n) {
  char text[32];
  const auto x = static_cast<double>(n);
  if (x >= 1e12) {
    std::snprintf(text, sizeof text, "%.3g T", x / 1e12);
  } else if (x >= 1e9) {
    std::snprintf(text, sizeof text, x >= 1e11 ? "%.0f B" : "%.3g B", x / 1e9);
  } else {
    std::snprintf(text, sizeof text, x >= 1e8 ? "%.0f M" : "%.3g M", x / 1e6);
  }
  return text;
}

std::string summary_of(const Model& model) {
  return cat(model.family, ", ", model.blocks(), " blocks, ", short_count(parameter_count(model)), " parameters");
}

std::string summary_of(const Cluster& cluster) {
  std::string out;
  for (const NodeGroup& group : cluster.groups) {
    out += cat(out.empty() ? "" : " + ", group.nodes, " × ", group.devices_per_node, " ", group.device.name);
    if (group.segment > 0 && group.segment < group.nodes) out += cat(", ", group.segment, " nodes per domain");
  }
  return out;
}

}  // namespace

Pipeline uniform_pipeline(const Model& model, const Training& training, const Strategy& strategy, const Schedule& schedule,
                          SplitPolicy policy) {
  const std::int32_t chunks = schedule.chunks();
  const auto layers = static_cast<std::int32_t>(model.layers.size());
  ESPALIER_CHECK(chunks >= 1 && chunks <= layers);
  Pipeline pipeline;
  pipeline.schedule = schedule;
  pipeline.samples = training.global_batch;
  std::vector<std::int32_t> bounds = split_layers(model, training.sequence, policy, chunks);
  bounds.push_back(layers);
  for (std::int32_t i = 0; i < schedule.stages; ++i) {
    Stage stage;
    stage.devices = stage_devices(strategy, schedule, i);
    for (std::int32_t k = 0; k < schedule.virtual_stages; ++k) {
      const auto chunk = static_cast<std::size_t>(pipeline_chunk(schedule, i, k));
      stage.chunks.push_back({{{bounds[chunk], bounds[chunk + 1] - 1, strategy}}});
    }
    pipeline.stages.push_back(std::move(stage));
  }
  return pipeline;
}

Plan plan_of_pipeline(const Model& model, const Cluster& cluster, const Training& training, const std::string& engine,
                      Pipeline pipeline) {
  Plan plan;
  plan.model_name = model.name;
  plan.cluster_name = cluster.name;
  plan.model_summary = summary_of(model);
  plan.cluster_summary = summary_of(cluster);
  plan.engine = engine;
  plan.training = training;
  plan.pipelines = {std::move(pipeline)};
  return plan;
}

Plan make_uniform_plan(const Model& model, const Cluster& cluster, const Training& training, const std::string& engine,
                       const Strategy& strategy, const Schedule& schedule, SplitPolicy policy) {
  return plan_of_pipeline(model, cluster, training, engine, uniform_pipeline(model, training, strategy, schedule, policy));
}

}  // namespace espalier
