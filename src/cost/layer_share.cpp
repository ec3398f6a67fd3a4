// SPDX-License-Identifier: Apache-2.0
#include "cost/layer_share.h"

#include <algorithm>

#include "cost/chunk_sum.h"
#include "cost/zero_buffers.h"
#include "plan/engine.h"
#include "plan/expert_shard.h"
#include "plan/structure.h"

namespace espalier::cost {
namespace {

/// Leaves out what a stage may share with other layers of the same shard, so that a sum of layers never exceeds their
/// stage.
ParameterElements whole_shards(const ParameterElements& e, const Strategy& s) {
  if (!s.shards_optimizer()) return e;
  const std::int64_t expert_shard = expert_shard_of(s);
  return {e.dense - e.dense % s.shard, e.expert - e.expert % expert_shard, e.frozen_dense - e.frozen_dense % s.shard,
          e.frozen_expert - e.frozen_expert % expert_shard};
}

}  // namespace

void layer_shares(const CostContext& c, const Strategy& s, std::int32_t stages, const std::vector<LayerCost>& layers,
                  std::vector<LayerShare>& out) {
  const StrategyCost x = strategy_cost_of(c, s, stages, layers, ChunkEdges::free);
  const bool reduces = reduces_gradients(c.workload.experts, s), gathers = gathers_parameters(s);
  out.resize(layers.size());
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const LayerCost& l = layers[k];
    const bool block = c.workload.model->kinds[k].role == LayerRole::block;
    ChunkTotal t;
    ChunkSum sum(t);
    sum.add(x, static_cast<std::int32_t>(k), 1, block ? s.recompute.kind : RecomputeKind::none);
    const ParameterElements e = l.elements();
    LayerShare& share = out[k];
    share = LayerShare{};
    share.forward_ns = t.forward.duration_ns();
    share.backward_ns = t.backward.duration_ns();
    share.split_backward_ns = t.backward_input.duration_ns() + t.backward_weight.duration_ns();
    // A thousand such layers are priced at once, which leaves out the latency that buckets share.
    constexpr double kMany = 1024;
    const double dense = kMany * static_cast<double>(e.dense), expert = kMany * static_cast<double>(e.expert);
    const double reduce = reduces ? reduce_bucket_s(x, dense, expert, 1, Cut::any) / kMany : 0.0;
    const double gather = gathers ? gather_bucket_s(x, dense, expert, 1, Cut::any) / kMany : 0.0;
    // This is the share of their time that concurrent compute loses. Shorter messages draw less of the memory
    // bandwidth and lose more of their time (overlap.h).
    const auto lost = [&](double bytes, double seconds) {
      const MutualSlowdown slow = c.device.interference().of(bytes / kMany, seconds);
      return slow.in_turn() ? 1.0 : std::min(1.0, slow.communication * (1 - 1 / slow.compute));
    };
    const double reduce_lost = reduces ? lost(reduce_bucket_bytes(x, dense, expert, 1), reduce) : 0.0;
    const double gather_lost = gathers ? lost(gather_bucket_bytes(x, dense, expert, 1), gather) : 0.0;
    // Subtracts what rounding takes from a bucket; there are no more buckets than layers.
    const auto less = [](double seconds, double rounding) {
      return static_cast<std::int64_t>(std::max(0.0, seconds * 1e9 - rounding));
    };
    // The sums inside tensor groups take one message per chunk, so only their bytes count.
    constexpr std::int64_t kEndless = std::int64_t{1} << 20;
    const double summed = tensor_sync_s(x, l.tensor_sync.times(kEndless), Cut::any) / static_cast<double>(kEndless);
    const std::int64_t sync = l.gradient_sync_ns + less(summed, 0.5);
    share.reduce_ns = less(reduce, 0.5) + sync;
    const double late = c.engine->coefficients.exposed_share;  // share of an overlapped reduction that is waited for
    share.hidden_ns = less(reduce_lost * (1 - late) * reduce + late * reduce, 1.0) + sync;
    share.gather_ns = less(gather_lost * gather, 1.0);
    share.update_bytes = update_bytes(*c.engine, x.states, e, s);
    share.state_bytes = state_memory(whole_shards(e, s), x.states, s).total();
    share.saved_bytes = sum.bytes().saved;
    share.transient_bytes = sum.peak_bytes() - sum.bytes().saved;
    share.buffer_bytes = least_zero_buffers(c.engine->memory.zero, x.states, s, e);
    share.boundary_bytes = l.boundary_bytes;
  }
}

double update_s(const DeviceCost& device, double bytes) { return bytes / device.rates.memory; }

double update_constant_s(const DeviceCost& device, const EngineModel& engine) { return optimizer_s(device, engine, 0.0); }

double pass_constant_s(const DeviceCost& device, const EngineModel& engine) {
  return 2 * static_cast<double>(pass_ns(device, engine, 1)) * 1e-9;
}

}  // namespace espalier::cost
