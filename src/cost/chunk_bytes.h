// SPDX-License-Identifier: Apache-2.0
// Bytes that one micro-batch keeps in a chunk, computed from its layers in the order of the forward pass.
//
// While a layer runs, forward or backward, memory holds what it and the layers before it keep, and its own
// transients. The bytes of later layers are not there yet, or no longer:
//     peak = max_i (Σ_{k≤i} saved_k + transient_i)   (Galvatron-BMW, §5.2)
// A recomputed layer holds in its backward what it would have saved without recomputation. Weight gradients need
// inputs and output gradients, so nothing is freed between the input gradient and the weight gradient. Under offload
// of activations saved_k is what stays on the device. While a layer runs, the bytes that go to the host are on the
// device twice: its own, and those of a neighbour on their way down or up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cost/costs.h"
#include "cost/layer_cost.h"
#include "cost/split_table.h"
#include "plan/held_passes.h"

namespace espalier::cost {

class ChunkBytes {
 public:
  /// Adds `n` consecutive layers of cost `l`, recomputed as `how` says.
  void add(const LayerCost& l, std::int64_t n, RecomputeKind how) {
    const std::int64_t saved = l.saved.under(how), hosted = l.hosted.under(how), window = kOnTheirWay * hosted;
    saved_ += (saved - hosted) * n;
    hosted_ += hosted * n;
    forward_peak_ = std::max(forward_peak_, saved_ + l.transient.forward + window);
    backward_peak_ = std::max(backward_peak_, saved_ + l.transient.backward + (l.saved.none - saved) + window);
  }
  /// Returns the bytes of one micro-batch in host memory, between its forward and its backward pass.
  [[nodiscard]] std::int64_t hosted() const { return hosted_; }
  [[nodiscard]] PassBytes bytes() const { return {saved_, saved_, forward_peak_ - saved_, backward_peak_ - saved_}; }
  /// Returns the saved and transient bytes at the fullest moment, forward or backward.
  [[nodiscard]] std::int64_t peak() const { return std::max(forward_peak_, backward_peak_); }

 private:
  static constexpr std::int64_t kOnTheirWay = 2;

  std::int64_t saved_ = 0, hosted_ = 0, forward_peak_ = 0, backward_peak_ = 0;
};

/// Visits the layers of a chunk of one strategy as (kind, consecutive layers, recomputation). Full recomputation
/// takes the first `recompute.layers` blocks; all other kinds take every block.
template <class Visit>
void each_run(const Model& model, const std::vector<SplitTable::Run>& runs, const Recompute& recompute, const Visit& visit) {
  std::int64_t again = recompute.layers;
  for (const SplitTable::Run& run : runs) {
    const bool block = model.kinds[static_cast<std::size_t>(run.kind)].role == LayerRole::block;
    if (!block || recompute.kind != RecomputeKind::full) {
      visit(run.kind, run.layers, block ? recompute.kind : RecomputeKind::none);
      continue;
    }
    const std::int64_t full = std::min<std::int64_t>(again, run.layers);
    if (full > 0) visit(run.kind, full, RecomputeKind::full);
    if (full < run.layers) visit(run.kind, run.layers - full, RecomputeKind::none);
    again -= full;
  }
}

/// Fills in, as price() does, what does not depend on how states are sharded, for every stage under a uniform
/// strategy. This covers parameters on a rank, framework bytes and the largest message. Outputs that a host queues
/// (queued_outputs.h) are left out.
void fill_stages(const CostContext& c, const Strategy& s, const Schedule& schedule, const SplitTable& split,
                 const std::vector<LayerCost>& layers, Costs& out);

/// Holds what uniform strategies keep of one micro-batch, by class of equal chunks. One thread reuses its memory from
/// call to call.
class UniformBytes {
 public:
  /// Fills in the bytes of a strategy; `layers` and `split` are those of its costs.
  void fill(const Model& model, const SplitTable& split, const std::vector<LayerCost>& layers, const Recompute& recompute);
  /// Returns the bytes of a chunk of the split that was last filled in.
  [[nodiscard]] const PassBytes& of(std::int32_t chunk) const { return classes_[static_cast<std::size_t>(split_->twin(chunk))]; }
  /// Returns activations_lower_bound_bytes (bound.h) of costs with these bytes.
  [[nodiscard]] std::int64_t least_activations(const Schedule& schedule, std::int32_t stage) const;

 private:
  const SplitTable* split_ = nullptr;
  std::vector<PassBytes> classes_;  // the first chunk of each class
};

}  // namespace espalier::cost
