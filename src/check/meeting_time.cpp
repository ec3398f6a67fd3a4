// SPDX-License-Identifier: Apache-2.0
#include "check/meeting_time.h"

#include <algorithm>
#include <cmath>

#include "check/static_memory.h"
#include "plan/engine.h"

namespace espalier::check {
namespace {

/// Returns, per data rank, the elements of token table copies that the piece includes with the layers that use them.
double copied_elements(const View& view, const LayerSpan& layers) {
  const std::vector<std::int32_t> copies = table_copies(view);
  const Strategy& table = view.chunks.front().ranges.front().strategy;
  double elements = 0;
  for (std::size_t c = 0; c < view.chunks.size(); ++c) {
    const std::int32_t user = table_user(view, c);
    const bool copy = std::find(copies.begin(), copies.end(), view.stage_of[c]) != copies.end();
    if (copy && user >= layers.first && user <= layers.last)
      elements += static_cast<double>(table_elements(view_of(view, table))) / static_cast<double>(table.data_ranks());
  }
  return elements;
}

/// Returns the bytes of the piece that one rank of the pipeline exchanges.
double answered_bytes(const View& view, const LayerSpan& layers) {
  double bytes = copied_elements(view, layers);
  for (const Chunk& chunk : view.chunks)
    for (const LayerRange& range : chunk.ranges) {
      const View under = view_of(view, range.strategy);
      for (std::int32_t i = std::max(range.first, layers.first); i <= std::min(range.last, layers.last); ++i) {
        const StageElements held = elements_of_layer(under, view.model->layer(static_cast<std::size_t>(i)));
        bytes += static_cast<double>(held.dense) / static_cast<double>(range.strategy.data_ranks()) +
                 static_cast<double>(held.expert) / static_cast<double>(range.strategy.expert_data_ranks());
      }
    }
  return bytes * bytes_of(view).reduce;
}

/// Returns the stage of a pipeline that holds the piece.
const Stage* holder_of(const Pipeline& pipeline, const LayerSpan& layers) {
  for (const Stage& stage : pipeline.stages)
    for (const Chunk& chunk : stage.chunks)
      if (chunk.first() <= layers.first && layers.first <= chunk.last()) return &stage;
  return nullptr;
}

/// Holds the largest overheads over bytes / bandwidth of all levels that a piece may cross.
struct Slack {
  double small_group = 0, ramp = 0, congestion = 0;
  void take(const std::vector<FabricLevel>& levels) {
    for (const FabricLevel& level : levels) {
      small_group = std::max(small_group, level.small_group);
      ramp = std::max(ramp, level.ramp);
      congestion = std::max(congestion, level.congestion);
    }
  }
  /// Includes the levels between two stages; within a group, also those of its nodes.
  void take(const Cluster& cluster, const Stage& a, const Stage& b) {
    const std::size_t x = group_of_device(cluster, a.devices.front().first),
                      y = group_of_device(cluster, b.devices.front().first);
    take(cluster.inter);
    take(cluster.groups[x].inter);
    take(cluster.groups[y].inter);
    if (x == y) take(cluster.groups[x].intra);
  }
};

}  // namespace

double meeting_s(const Plan& plan, const std::vector<View>& views, const LayerSpan& layers, End end) {
  const View& any = views.front();
  double bytes = 0, carried = 0, latency = 0;
  Slack slack;
  for (const View& view : views) bytes = std::max(bytes, answered_bytes(view, layers));
  for (const Pipeline& a : plan.pipelines)
    for (const Pipeline& b : plan.pipelines) {
      const Stage *from = holder_of(a, layers), *to = holder_of(b, layers);
      if (&a >= &b || from == nullptr || to == nullptr) continue;
      slack.take(*any.cluster, *from, *to);
      const double there = stage_message(any, *from, *to, 0), back = stage_message(any, *to, *from, 0);
      const double out = stage_message(any, *from, *to, bytes) - there, home = stage_message(any, *to, *from, bytes) - back;
      carried = std::max(carried, end == End::least ? std::min(out, home) : std::max(out, home));
      latency = std::max({latency, there, back});
    }
  const auto p = static_cast<double>(views.size());
  const double scale = any.engine.coefficients.data_communication, passes = 2 * (p - 1) / p;
  if (end == End::least) return scale * std::min(passes, 1 / 0.7) * carried;
  const double own = (1 + slack.small_group / (2 * (p - 1))) * (1 + slack.congestion * std::log2(p));
  const double volume = scale * passes * own * carried, waits = scale * 2 * p * latency;
  return volume + waits + slack.ramp * std::sqrt(volume * waits);
}

}  // namespace espalier::check
