// SPDX-License-Identifier: Apache-2.0
#include "search/memory_table.h"

#include <algorithm>

#include "base/invariant.h"
#include "cost/bound.h"
#include "cost/price.h"
#include "plan/engine.h"
#include "search/cost_book.h"
#include "search/space.h"

namespace espalier::search {
namespace {

constexpr std::size_t kMostTables = 16'384;  // a kilobyte each

/// Returns the static bytes of each stage that may be decisive.
std::vector<std::int64_t> static_bytes_of(const CostBook& book, const MemoryTable& t, const Strategy& s, const Workspace& w) {
  std::vector<std::int64_t> bytes;
  cost::static_bytes(book.context(), s, w.layers, t.parts, bytes);
  return bytes;
}

/// Returns the least bytes of each stage over all shardings: over all ranks, with the best ZeRO stage. The last ZeRO
/// stage is not always the best. Where a stage holds few layers, the buffers of gathered layers or of gradients
/// outweigh the sharded states. Buffers are fewest without overlap.
std::vector<std::int64_t> least_static_bytes(const CostBook& book, const MemoryTable& t, Strategy s, const Workspace& w) {
  if (s.data_ranks() == 1) return static_bytes_of(book, t, s, w);
  s.overlap.grad_reduce = false;
  s.zero = ZeroStage::none;
  s.shard = 1;
  std::vector<std::int64_t> least = static_bytes_of(book, t, s, w);
  s.shard = static_cast<std::int32_t>(s.data_ranks());
  for (const ZeroStage zero : {ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters}) {
    s.zero = zero;
    const std::vector<std::int64_t> other = static_bytes_of(book, t, s, w);
    for (std::size_t i = 0; i < least.size(); ++i) least[i] = std::min(least[i], other[i]);
  }
  return least;
}

std::vector<char> fitting_beside(const CostBook& book, const MemoryTable& t, const std::vector<std::int64_t>& fixed) {
  ESPALIER_CHECK(fixed.size() * t.choices.size() == t.activations.size());
  std::vector<char> fits(t.choices.size(), 1);
  const double reserve = book.context().engine->memory.allocator_reserve;
  const auto may_fit = [&](std::size_t choice) {
    for (std::size_t i = 0; i < fixed.size(); ++i)
      if (cost::peak_bytes(fixed[i], t.activations[choice * fixed.size() + i], reserve) > book.memory_limit()) return false;
    return true;
  };
  for (std::size_t i = 0; i < (t.falling ? t.first_full : fits.size()); ++i) fits[i] = may_fit(i);
  if (!t.falling) return fits;
  std::size_t low = t.first_full, high = t.choices.size();  // the first full choice that fits lies in [low, high]
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (may_fit(middle))
      high = middle;
    else
      low = middle + 1;
  }
  std::fill(fits.begin() + static_cast<std::ptrdiff_t>(t.first_full), fits.begin() + static_cast<std::ptrdiff_t>(low), 0);
  return fits;
}

StageId stage_at(std::size_t i) { return StageId(static_cast<std::int32_t>(i)); }

/// Holds all stages, before those that are never decisive are dropped.
struct Whole {
  std::vector<std::int64_t> activations;  ///< choice-major, by stage
  std::size_t stages = 1;
  const cost::Costs& costs;

  /// Returns whether stage a needs no more than stage b under every choice.
  [[nodiscard]] bool no_more(std::size_t a, std::size_t b) const {
    const cost::StageCost &x = costs.stages[stage_at(a)], &y = costs.stages[stage_at(b)];
    if (x.dense_parameters > y.dense_parameters || x.expert_parameters > y.expert_parameters) return false;
    if (x.frozen_dense_bytes > y.frozen_dense_bytes || x.frozen_expert_bytes > y.frozen_expert_bytes) return false;
    if (x.memory.framework > y.memory.framework) return false;
    for (std::size_t c = 0; c < activations.size(); c += stages)
      if (activations[c + a] > activations[c + b]) return false;
    return true;
  }
  [[nodiscard]] std::vector<std::size_t> deciding() const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < stages; ++i) {
      if (std::any_of(out.begin(), out.end(), [&](std::size_t kept) { return no_more(i, kept); })) continue;
      std::erase_if(out, [&](std::size_t kept) { return no_more(kept, i); });
      out.push_back(i);
    }
    return out;
  }
};

}  // namespace

MemoryTable memory_table(const CostBook& book, const Space& space, const Configuration& choice, Workspace& w) {
  MemoryTable t;
  Whole whole{{}, static_cast<std::size_t>(choice.schedule.stages), w.costs};
  t.choices = space.recomputes(choice);
  if (t.choices.empty()) return t;  // no recomputation is legal here
  const auto full =
      std::find_if(t.choices.begin(), t.choices.end(), [](const Recompute& r) { return r.kind == RecomputeKind::full; });
  t.first_full = static_cast<std::size_t>(full - t.choices.begin());
  cost::fill_stages(book.context(), choice.strategy, choice.schedule, book.split(choice.schedule), w.layers, w.costs);
  for (const Recompute& recompute : t.choices) {
    w.bytes.fill(*book.context().workload.model, book.split(choice.schedule), w.layers, recompute);
    for (std::int32_t i = 0; i < choice.schedule.stages; ++i)
      whole.activations.push_back(w.bytes.least_activations(choice.schedule, i));
  }
  for (std::size_t i = (t.first_full + 1) * whole.stages; i < whole.activations.size(); ++i)
    t.falling = t.falling && whole.activations[i] <= whole.activations[i - whole.stages];
  const std::vector<std::size_t> stages = whole.deciding();
  for (const std::size_t i : stages) t.parts.stages.add(w.costs.stages[stage_at(i)]);
  for (std::size_t c = 0; c < whole.activations.size(); c += whole.stages)
    for (const std::size_t i : stages) t.activations.push_back(whole.activations[c + i]);
  ESPALIER_CHECK(!stages.empty());  // some stage is the fullest under every choice
  ESPALIER_CHECK(t.activations.size() == t.choices.size() * stages.size() && t.first_full <= t.choices.size());
  t.parts.message = w.costs.message;
  t.best_case = fitting_beside(book, t, least_static_bytes(book, t, choice.strategy, w));
  return t;
}

std::vector<char> fitting(const CostBook& book, const MemoryTable& table, const Strategy& s, const Workspace& w) {
  return fitting_beside(book, table, static_bytes_of(book, table, s, w));
}

const MemoryTable& MemoryTables::of(const CostBook& book, const Space& space, const Configuration& choice, Workspace& w) {
  const Strategy& s = choice.strategy;
  const Schedule& c = choice.schedule;
  if (!s.partition.empty()) {
    price_layers(book, choice, w);
    last_ = memory_table(book, space, choice, w);
    return last_;
  }
  if (known_.size() >= kMostTables) known_.clear();
  const Key key{s.tp,
                static_cast<std::int32_t>(s.sp),
                s.cp,
                s.ep,
                s.etp,
                s.dp,
                static_cast<std::int32_t>(s.offload),
                s.recompute.modules.bits(),
                c.micro_batch,
                c.microbatches,
                static_cast<std::int32_t>(c.kind),
                c.stages,
                c.virtual_stages};
  const auto [at, is_new] = known_.try_emplace(key);
  if (is_new) {
    price_layers(book, choice, w);
    at->second = memory_table(book, space, choice, w);
  }
  return at->second;
}

}  // namespace espalier::search
