// SPDX-License-Identifier: Apache-2.0
#include "search/layered_rules.h"

#include "plan/engine.h"
#include "plan/shared_table.h"
#include "plan/structure.h"
#include "search/budgets.h"
#include "search/layered_candidate.h"

namespace espalier::search {
namespace {

bool contiguous(const Model& model, const LayeredConfiguration& c) {
  if (c.chunks.size() != static_cast<std::size_t>(c.schedule.stages) * static_cast<std::size_t>(c.schedule.virtual_stages))
    return false;
  std::int32_t next = 0;
  for (const auto& ranges : c.chunks) {
    if (ranges.empty()) return false;
    for (const LayerRange& r : ranges) {
      if (r.first != next || r.last < r.first) return false;
      next = r.last + 1;
    }
  }
  return next == static_cast<std::int32_t>(model.layers.size());
}

std::int32_t blocks_of(const Model& model, const LayerRange& r) {
  std::int32_t blocks = 0;
  for (std::int32_t l = r.first; l <= r.last; ++l) blocks += model.layer(static_cast<std::size_t>(l)).role == LayerRole::block;
  return blocks;
}

/// Returns whether the job's space has the strategy of a range. The range decides how many blocks are recomputed.
/// Without blocks nothing is recomputed, whatever the job allows.
bool admitted(const Space& space, Configuration own, std::int32_t blocks) {
  const Recompute mine = own.strategy.recompute;
  for (const Recompute& how : space.layer_recomputes()) {
    if (blocks > 0 && (how.kind != mine.kind || how.modules != mine.modules)) continue;
    own.strategy.recompute = how;
    if (space.contains(own)) return true;
  }
  return false;
}

std::string fault_of(const Model& model, const Space& space, const LayerRange& r, const Schedule& schedule,
                     std::int64_t samples) {
  Configuration own{r.strategy, schedule};
  if (samples % own.strategy.dp != 0) return "dp must divide the samples of a micro-batch";
  own.schedule.micro_batch = static_cast<std::int32_t>(samples / own.strategy.dp);
  if (schedule.stages > 1 && own.strategy.order == RankOrder::tp_cp_pp_dp) return "pp must be outermost in the rank order";
  const Recompute& recompute = r.strategy.recompute;
  const std::int32_t blocks = blocks_of(model, r);
  const bool counted =
      recompute.kind == RecomputeKind::full ? recompute.layers >= 1 && recompute.layers <= blocks : recompute.layers == 0;
  if (!counted) return "recomputation must count blocks of its range";
  return admitted(space, own, blocks) ? "" : "every strategy must be in the job's space";
}

}  // namespace

std::string layered_fault(const Model& model, const Space& space, const LayeredConfiguration& c) {
  if (!contiguous(model, c)) return "chunks must be contiguous and non-empty, and hold all layers";
  if (c.schedule.virtual_stages > kMostLayerwiseChunks) return "at most 8 chunks per stage";
  const std::int64_t samples = std::int64_t{c.schedule.micro_batch} * c.chunks.front().front().strategy.dp;
  const Overlap on = overlap_of(c);
  const bool experts = has_experts(model);
  if (tied_table(model) && table_layout(c.chunks.front().front().strategy) != table_layout(c.chunks.back().back().strategy))
    return "embedding and head that share a table must use the same layout";
  for (const auto& ranges : c.chunks) {
    for (const LayerRange& r : ranges) {
      if (with_overlap(r.strategy, on, experts) != r.strategy) return "overlap must be the same in the whole plan";
      if (std::string fault = fault_of(model, space, r, c.schedule, samples); !fault.empty()) return fault;
    }
  }
  const std::vector<std::string> engine = layer_faults(space.engine().layers, model, c.schedule, c.chunks);
  return engine.empty() ? "" : engine.front();
}

}  // namespace espalier::search
