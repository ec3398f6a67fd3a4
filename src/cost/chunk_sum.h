// SPDX-License-Identifier: Apache-2.0
// What plan_timing and layered_timing share: what a strategy costs everywhere (Assembly), and layers summed into a chunk (ChunkSum).
// Internal to cost/.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cost/layer_cost.h"
#include "cost/plan_timing.h"
#include "cost/state_memory.h"
#include "cost/timing.h"
#include "cost/zero_steps.h"
#include "plan/program.h"

namespace espalier::cost {

inline constexpr std::size_t kMaxKinds = 64;

inline std::int64_t ns(double seconds) { return std::llround(seconds * 1e9); }

inline PhaseTime times(const PhaseTime& t, std::int64_t n) {
  return {t.compute_ns * n, t.exposed_ns * n, t.other_ns * n, t.hidden_ns * n};
}

/// What one strategy costs everywhere: its layers, its data-parallel groups, its ZeRO communication.
struct Assembly {
  const CostContext& c;
  const Strategy& s;
  const std::vector<LayerCost>& layers;
  StatePolicy states;
  DataGroups groups;
  std::array<ZeroTime, kMaxKinds> zero;
  std::int32_t kinds;
};

Assembly assembly_of(const CostContext& c, const Strategy& s, std::int32_t stages, const std::vector<LayerCost>& layers,
                     ChunkEdges edges);

/// Framework overhead of one pass of one micro-batch through a chunk.
inline std::int64_t pass_ns(const CostContext& c) {
  return ns(kPassLaunches * c.rates.launch + c.engine->coefficients.micro_batch_s / 2);
}

/// Sums layers into a chunk, in the order of the forward pass. Memory: while a layer runs, forward or backward, what the layers
/// before it and itself keep is there, and its own transients; what later layers keep is not there yet, or no longer:
/// peak = max_i (Σ_{k≤i} saved_k + transient_i)   (Galvatron-BMW, §5.2).
class ChunkSum {
 public:
  explicit ChunkSum(ChunkTiming& t) : t_(t) { t = ChunkTiming{}; }

  /// `n` consecutive layers of kind k; `how` they are recomputed (blocks only).
  void add(const Assembly& x, std::int32_t k, std::int64_t n, RecomputeKind how) {
    const LayerCost& l = x.layers[static_cast<std::size_t>(k)];
    const ZeroTime& z = x.zero[static_cast<std::size_t>(k)];
    const bool again = how == RecomputeKind::full;
    t_.forward += times(l.forward, n), t_.forward += times(z.forward, n);
    t_.backward += times(l.backward, n), t_.backward += times(again ? z.backward_again : z.backward, n);
    t_.backward_input += times(l.backward_input, n);
    t_.backward_weight += times(l.backward_weight, n);
    std::int64_t saved = l.saved.none;
    if (how != RecomputeKind::none) {
      const PhaseTime& more = again ? l.forward : l.recompute_selective;
      saved = again ? l.saved.full : l.saved.selective;
      t_.backward += times(more, n), t_.backward_input += times(more, n);
    }
    t_.saved_bytes += saved * n;
    forward_peak_ = std::max(forward_peak_, t_.saved_bytes + l.transient.forward);
    backward_peak_ = std::max(backward_peak_, t_.saved_bytes + l.transient.backward + (l.saved.none - saved));
    t_.gradient_sync_ns += l.gradient_sync_ns * n;
    t_.dense_parameters += l.dense_parameters * n, t_.expert_parameters += l.expert_parameters * n;
  }
  /// Of a copy of the token table (`elements` on this rank) its ZeRO communication beside the layer that uses it; `leads`: that layer is the
  /// first of its chunk.
  void add_table(std::int64_t elements, const ZeroTime& z, bool leads) {
    t_.dense_parameters += elements;
    t_.forward += z.forward, t_.backward += z.backward;
    if (leads) t_.forward.exposed_ns += z.gather_ns, t_.backward.exposed_ns += z.reduce_ns;
  }
  /// Communication before a layer that takes the activation in another layout.
  void redistribute(std::int64_t forward_ns, std::int64_t backward_ns) {
    t_.forward.exposed_ns += forward_ns;
    t_.backward.exposed_ns += backward_ns, t_.backward_input.exposed_ns += backward_ns;
  }
  /// `x`, `first`: strategy and kind of the first layer, whose gather nothing hides, and whose reduction comes last.
  void finish(const Assembly& x, std::int32_t first) {
    t_.forward_transient_bytes = forward_peak_ - t_.saved_bytes, t_.backward_transient_bytes = backward_peak_ - t_.saved_bytes;
    t_.saved_after_input_bytes =
        t_.saved_bytes;  // weight gradients need inputs and output gradients: nothing is freed in between
    t_.forward.exposed_ns += x.zero[static_cast<std::size_t>(first)].gather_ns;
    t_.backward.exposed_ns += x.zero[static_cast<std::size_t>(first)].reduce_ns;
    const std::int64_t pass = pass_ns(x.c);
    t_.forward.other_ns += pass, t_.backward.other_ns += pass, t_.backward_input.other_ns += pass;
  }

  /// Saved and transient at the fullest moment, forward or backward.
  [[nodiscard]] std::int64_t peak_bytes() const { return std::max(forward_peak_, backward_peak_); }

 private:
  ChunkTiming& t_;
  std::int64_t forward_peak_ = 0, backward_peak_ = 0;
};

/// ZeRO communication of a copy of the token table, beside the layer of cost `user` that uses it. `x`: under the strategy of the embedding.
ZeroTime table_zero_time(const Assembly& x, const LayerCost& user, std::int64_t elements, ChunkEdges edges);

/// Seconds of one exchange of the table's gradient between the stages that hold a copy: two of them send each other what they have, both
/// ways at once; three all-reduce it over the slowest link among them. 0 for one.
double table_exchange_s(const Assembly& x, const Lowering& lowering);

/// Seconds of what a tensor group sums once a step for the layers of a chunk, as one message a group (TensorSync).
double tensor_sync_s(const Assembly& x, const TensorSync& sync);

/// One piece of the step-end communication of `dense` and `expert` elements that is cut into `pieces`.
double reduce_piece_s(const Assembly& x, double dense, double expert, double pieces);
double gather_piece_s(const Assembly& x, double dense, double expert, double pieces);

/// The message that enters chunk i from another stage, as the last layer before it (of `kind`, under `sender`) leaves it.
void fill_message(const Assembly& sender, std::int32_t kind, const Schedule& schedule, std::int32_t i, PlanTiming& out);

/// Bytes that the update of `e` moves, and the time of an update that moves `bytes`.
double update_bytes(const CostContext& c, const StatePolicy& p, const ParameterElements& e, const Strategy& s);
double optimizer_s(const CostContext& c, double bytes);
/// The end of the step of a stage whose update moves `bytes`, with its parts that are not the update; communication is added by
/// expose_reduction and add_gradient_sync.
void fill_optimizer(const CostContext& c, double bytes, StageTiming& stage);

/// Of a reduction beside the backward pass `exposed_share` is waited for at the end of the step, before the update; and where output and
/// embedding share a table (of `table_elements` on a rank), its part: that gradient is complete with the last operator of the backward
/// pass only.
void expose_reduction(const CostContext& c, std::int64_t table_elements, const Lowering& lowering, PlanTiming& out);

/// Reductions inside tensor groups, after the backward passes of a stage and before its update.
void add_gradient_sync(const Lowering& lowering, PlanTiming& out);

/// Largest message that enters any chunk: one receive and one send of it are in flight.
std::int64_t message_bytes(const PlanTiming& timing);

/// Logit gradients that wait on the last stage for their weight gradient; `layers` under the strategy of the head.
std::int64_t deferred_bytes(const CostContext& c, const Schedule& schedule, const std::vector<LayerCost>& layers);

}  // namespace espalier::cost
