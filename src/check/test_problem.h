// SPDX-License-Identifier: Apache-2.0
// Provides small models, a plain cluster, plans on it, and derived claims to falsify, for the tests of this module.
#pragma once

#include <string>
#include <vector>

#include "check/check.h"
#include "check/messages.h"
#include "check/saved_activations.h"
#include "check/stage_peaks.h"
#include "check/static_memory.h"
#include "check/step_time.h"
#include "check/view.h"
#include "plan/program.h"

namespace espalier::check::test {

/// Returns a GPT-like decoder: hidden 64, 4 heads, feed-forward 256, vocabulary 1000, `layers` blocks; LayerNorm,
/// biases, GELU, dropout.
inline DecoderShape gpt(std::int64_t layers) {
  DecoderShape shape;
  shape.layers = layers;
  shape.hidden = 64;
  shape.ffn = 256;
  shape.heads = shape.kv_heads = 4;
  shape.vocabulary = 1000;
  shape.max_positions = 128;
  shape.dropout = true;
  return shape;
}

inline Model model_of(const DecoderShape& shape) { return make_decoder(shape, "test").value(); }

/// Returns a cluster of `nodes` nodes with 4 devices of 1 GiB and 100 TFLOP/s.
inline Cluster cluster_of(std::int64_t nodes) {
  Cluster cluster;
  cluster.name = "test";
  NodeGroup group;
  group.nodes = nodes;
  group.devices_per_node = 4;
  group.device.name = "test-device";
  group.device.peak.fill(TFLOPs(100));
  group.device.memory = GiB(1);
  group.device.memory_bandwidth = GBps(1000);
  FabricLevel level;
  level.name = "link";
  level.span = 4;
  level.bandwidth = level.bandwidth_alone = GBps(100);
  group.intra = {level};
  cluster.groups = {group};
  if (nodes > 1) {
    level.span = 4 * nodes;
    cluster.inter = {level};
  }
  return cluster;
}

struct Case {
  Model model;
  Cluster cluster;
  Plan plan;
  Program program;
  Claims claims;

  [[nodiscard]] CheckReport check() const { return check_plan(plan, model, cluster, program, &claims); }
  void lower_again() { program = lower(plan, model, true); }
};

/// Returns the claims of a truthful planner: everything as derived, the time in the middle of its bounds.
inline Claims truthful_claims(const View& view, const Program& program) {
  Claims claims;
  const StepTimeRange time = step_time(view, program);
  claims.iteration_ns = time.least_ns + (time.most_ns - time.least_ns) / 2;
  claims.static_bytes_per_stage = static_bytes_per_stage(view);
  claims.saved_bytes_per_chunk = saved_bytes_per_chunk(view);
  claims.boundary_bytes_per_chunk = boundary_bytes_per_chunk(view);
  claims.gradient_bytes_per_stage = gradient_bytes_per_stage(view);
  for (const PeakBytes& peak : peak_bytes_per_stage(view, program, claims.static_bytes_per_stage, claims.saved_bytes_per_chunk))
    claims.peak_bytes_per_stage.push_back(peak.least + (peak.most - peak.least) / 2);
  claims.memory_limit_bytes = GiB(1).count();
  return claims;
}

inline Case make_case(const Model& model, const Strategy& strategy, Schedule schedule, const std::string& engine = "generic") {
  Case c;
  c.model = model;
  const std::int64_t devices = std::int64_t{strategy.tp} * strategy.cp * strategy.dp * schedule.stages;
  c.cluster = cluster_of((devices + 3) / 4);
  if (devices < 4) c.cluster.groups.front().devices_per_node = devices;
  Training training;
  training.sequence.main = 128;
  training.global_batch = std::int64_t{schedule.micro_batch} * strategy.dp * schedule.microbatches;
  c.plan = make_uniform_plan(c.model, c.cluster, training, engine, strategy, schedule, SplitPolicy::balanced);
  c.lower_again();
  c.claims = truthful_claims(make_view(c.plan, c.model, c.cluster), c.program);
  return c;
}

/// Makes a plan of ranges: `chunks` in pipeline order. Schedule::micro_batch is that of the first range.
inline Case make_layered_case(const Model& model, const std::vector<std::vector<LayerRange>>& chunks, const Schedule& schedule) {
  Case c = make_case(model, chunks.front().front().strategy, schedule);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const ChunkPlace at = place_of_chunk(schedule, static_cast<std::int32_t>(i));
    c.plan.only_pipeline().stages[static_cast<std::size_t>(at.stage)].chunks[static_cast<std::size_t>(at.local_chunk)].ranges =
        chunks[i];
  }
  c.lower_again();
  c.claims = truthful_claims(make_view(c.plan, c.model, c.cluster), c.program);
  return c;
}

inline Schedule schedule_of(ScheduleKind kind, std::int32_t stages, std::int32_t v, std::int32_t m) {
  return {kind, stages, v, m, 1};
}

inline const Finding* find(const CheckReport& report, const std::string& name) {
  for (const Finding& finding : report.findings) {
    if (finding.name == name) return &finding;
  }
  return nullptr;
}

inline std::string broken(const CheckReport& report) {
  std::string text;
  for (const Finding& finding : report.findings) {
    if (!finding.ok) text += finding.name + ": " + finding.text + "\n";
  }
  return text;
}

}  // namespace espalier::check::test
