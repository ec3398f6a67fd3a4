// SPDX-License-Identifier: Apache-2.0
#include "check/held_by_zero.h"

#include <algorithm>

#include "base/invariant.h"
#include "check/arithmetic.h"
#include "check/expert_instances.h"
#include "check/static_memory.h"
#include "plan/engine.h"

namespace espalier::check {
namespace {

std::int64_t trained(const StageElements& e) { return e.dense + e.expert; }

/// Returns the bytes of parameters once all of them are gathered.
std::int64_t whole_bytes(const StatePolicy& bytes, const StageElements& e) {
  return bytes.gather * trained(e) + e.frozen_dense + e.frozen_expert;
}

/// Holds the largest layer in gathered bytes and in trained elements, and the largest table in elements.
struct Extremes {
  std::int64_t parameters = 0, gradient = 0, table = 0;
};

Extremes extremes_of(const View& view) {
  const StatePolicy bytes = bytes_of(view);
  Extremes out;
  for (const LayerKind& kind : view.model->kinds) {
    const StageElements e = elements_of_layer(view, kind);
    out.parameters = std::max(out.parameters, whole_bytes(bytes, e));
    out.gradient = std::max(out.gradient, trained(e));
    if (kind.role != LayerRole::block) out.table = std::max(out.table, e.dense);
  }
  return out;
}

/// Returns the elements at the end of the model that no pass has to gather again.
std::int64_t tail(const ZeroPolicy& zero) { return std::max(zero.live, zero.reuse / 2); }

class StageHeld {
 public:
  StageHeld(const View& view, const StageElements& e)
      : zero_(view.engine.memory.zero), bytes_(bytes_of(view)), s_(view.strategy), e_(e), most_(extremes_of(view)) {
    ESPALIER_CHECK(trained(e_) >= 0 && number_of(s_.zero) <= 3);
    stage_ = static_cast<std::size_t>(number_of(s_.zero));
  }
  [[nodiscard]] std::int64_t bytes() const { return parameters() + gradients() + update(); }

 private:
  [[nodiscard]] std::int64_t parameters() const {
    if (stage_ < 3 && !offloads_parameters(s_.offload)) return 0;
    if (zero_.live < 0) return 2 * most_.parameters;
    return std::clamp(tail(zero_) * bytes_.gather, std::min(most_.parameters, whole_bytes(bytes_, e_)), whole_bytes(bytes_, e_));
  }
  [[nodiscard]] std::int64_t gradients() const {
    if (s_.data_ranks() == 1) return 0;
    std::int64_t full = zero_.bucket, elements = full * zero_.buckets[stage_] + trained(e_) * zero_.whole[stage_] / bytes_.reduce;
    if (s_.overlap.grad_reduce) elements += full * zero_.overlapped_buckets[stage_];
    if (full > trained(e_)) full = trained(e_);
    if (stage_ >= 2 && most_.gradient > full) full = most_.gradient;
    return bytes_.reduce * (elements + zero_.bucket_copies[stage_] * full);
  }
  [[nodiscard]] std::int64_t update() const {
    if (offloads_optimizer(s_.offload)) return 0;
    std::int64_t each = zero_.update[stage_], own = trained(e_), table = most_.table;
    if (bytes_.parameter == 4) each = stage_ == 0 ? 0 : std::min<std::int64_t>(each, 4);
    if (stage_ > 0) own = ceil_div(e_.dense, s_.shard) + ceil_div(e_.expert, expert_shard(s_));
    table = stage_ == 3 ? ceil_div(table, s_.shard) : std::min(table, own);
    const bool tiled = stage_ == 3 && zero_.update_elements > 0 && zero_.update_elements < own;
    return std::max(each * (tiled ? zero_.update_elements : own), zero_.norm[stage_] * table);
  }

  const ZeroPolicy& zero_;
  StatePolicy bytes_;
  const Strategy& s_;
  StageElements e_;
  Extremes most_;
  std::size_t stage_ = 0;
};

}  // namespace

bool states_zero(const View& view) { return view.engine.memory.zero.bucket > 0; }

std::vector<std::int64_t> held_by_zero(const View& view) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(view.stages), 0);
  if (!states_zero(view)) return out;
  const View under = view_of(view, view.chunks.front().ranges.front().strategy);
  const std::vector<StageElements> elements = elements_per_stage(view);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = StageHeld(under, elements[i]).bytes();
  return out;
}

double gathered_twice(const View& view, const Strategy& s) {
  const ZeroPolicy& zero = view.engine.memory.zero;
  if (zero.live < 0 || !s.shards_parameters()) return 1;
  const StatePolicy bytes = bytes_of(view);
  double whole = 0;
  for (const StageElements& e : elements_per_stage(view)) whole += static_cast<double>(whole_bytes(bytes, e));
  const double stays = static_cast<double>(tail(zero) * bytes.gather) * view.stages;
  return whole > stays ? (whole - stays) / whole : 0;
}

}  // namespace espalier::check
