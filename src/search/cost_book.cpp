// SPDX-License-Identifier: Apache-2.0
#include "search/cost_book.h"

#include <algorithm>

#include "base/invariant.h"
#include "cost/state_memory.h"
#include "plan/engine.h"

namespace espalier::search {

CostBook::CostBook(const Problem& p)
    : context_(*p.model, *p.cluster, p.training, *p.engine),
      memory_limit_(p.cluster->usable_memory().count()),
      splits_(p.model->layers.size() + 1),
      kind_counts_(p.model->kinds.size(), 0) {
  for (const std::int32_t kind : p.model->layers) ++kind_counts_[static_cast<std::size_t>(kind)];
}

void CostBook::prepare(std::int32_t stages) {
  ESPALIER_CHECK(stages >= 1);
  for (std::size_t chunks = static_cast<std::size_t>(stages); chunks < splits_.size(); chunks += static_cast<std::size_t>(stages))
    if (!splits_[chunks])
      splits_[chunks] = std::make_unique<cost::SplitTable>(cost::split_for(*context_.workload.model, context_.workload.training,
                                                                           *context_.engine, static_cast<std::int32_t>(chunks)));
}

void price_layers(const CostBook& book, const Configuration& c, Workspace& w) {
  w.prices.price(book.context(), c.strategy, c.schedule.stages, c.schedule.micro_batch, w.layers);
  ESPALIER_CHECK(w.layers.size() == book.kind_counts().size());  // every kind has its price
}

void assemble(const CostBook& book, const Configuration& c, Workspace& w) {
  const cost::SplitTable& split = book.split(c.schedule);
  cost::structure_for(*book.context().workload.model, c.strategy, c.schedule, split, w.structure);
  cost::price(book.context(), w.structure, c.strategy, split, w.layers, w.scratch, w.costs);
  ESPALIER_CHECK(w.costs.fits(w.structure));
}

std::int64_t layer_group_bound_ns(const CostBook& book, const Configuration& c, const Workspace& w) {
  // For one micro-batch, `work` occupies its stages and `pass` is the warm-up and drain. Split weight gradients are
  // not on that path.
  std::int64_t work = 0, pass = 0;
  for (std::size_t k = 0; k < w.layers.size(); ++k) {
    const auto& l = w.layers[k];
    const std::int64_t n = book.kind_counts()[k], input = l.backward_input.duration_ns();
    const std::int64_t backward = std::min(l.backward.duration_ns(), input + l.backward_weight.duration_ns());
    work += n * (l.forward.duration_ns() + backward);
    pass += n * (l.forward.duration_ns() + (c.schedule.stages > 1 ? std::min(l.backward.duration_ns(), input) : backward));
  }
  return std::max(pass, work * c.schedule.microbatches / c.schedule.stages);
}

std::int64_t layer_group_least_bytes(const CostBook& book, const Configuration& c, const Workspace& w) {
  cost::ParameterElements all;
  std::int64_t saved = 0;
  for (std::size_t k = 0; k < w.layers.size(); ++k) {
    const std::int64_t n = book.kind_counts()[k];
    all += w.layers[k].elements().times(n);
    const cost::SavedBytes &s = w.layers[k].saved, &h = w.layers[k].hosted;
    saved += n * std::min({s.none - h.none, s.selective - h.selective, s.full - h.full});
  }
  const std::int64_t p = c.schedule.stages;
  all = {all.dense / p, all.expert / p, all.frozen_dense / p, all.frozen_expert / p};
  Strategy leanest = c.strategy;
  if (leanest.data_ranks() > 1) {
    leanest.zero = ZeroStage::parameters;
    leanest.shard = static_cast<std::int32_t>(leanest.data_ranks());
  }
  const auto states = states_of(*book.context().engine, book.context().workload.training);
  return cost::state_memory(all, states, leanest).total() + saved / p;
}

namespace {

std::int64_t bound_ns(const CostBook& book, const Strategy& s, const Schedule& schedule, Workspace& w, cost::DataStream stream) {
  // Partitioned blocks reduce gradients inside their group with every micro-batch under ZeRO 2 and 3, otherwise once
  // per step. The schedule choice has another ZeRO stage, so its layers must be priced again.
  if (!s.partition.empty()) price_layers(book, {s, schedule}, w);
  return w.bound.ns(book.context(), s, schedule, book.split(schedule), w.layers, stream);
}

/// Removes the offload of activations. With it, more recomputation may be faster, since fewer activations are saved.
Offload without_activations(Offload o) {
  if (offloads_parameters(o)) return Offload::parameters;
  return offloads_optimizer(o) ? Offload::optimizer : Offload::none;
}

}  // namespace

std::int64_t schedule_group_bound_ns(const CostBook& book, const Configuration& c, Workspace& w) {
  Strategy cheapest = c.strategy;
  cheapest.offload = without_activations(cheapest.offload);
  cheapest.overlap.p2p = true;
  // ZeRO-1 over all ranks has no communication inside chunks and the smallest optimizer.
  if (cheapest.data_ranks() > 1) {
    cheapest.zero = ZeroStage::optimizer;
    cheapest.shard = static_cast<std::int32_t>(cheapest.data_ranks());
  }
  return bound_ns(book, cheapest, c.schedule, w, cost::DataStream::free);
}

std::int64_t shard_group_bound_ns(const CostBook& book, const Configuration& c, Workspace& w) {
  Strategy cheapest = c.strategy;
  cheapest.offload = without_activations(cheapest.offload);
  cheapest.overlap.p2p = cheapest.overlap.grad_reduce = cheapest.overlap.param_gather = true;
  return bound_ns(book, cheapest, c.schedule, w, cost::DataStream::free);
}

std::int64_t configuration_bound_ns(const CostBook& book, const Configuration& c, Workspace& w) {
  return bound_ns(book, c.strategy, c.schedule, w, cost::DataStream::counted);
}

std::int64_t peak_bound_bytes(const Workspace& w) {
  ESPALIER_CHECK(w.costs.fits(w.structure));
  std::int64_t most = 0;
  for (std::int32_t i = 0; i < w.structure.schedule.stages; ++i) {
    const std::int64_t activations = cost::activations_lower_bound_bytes(w.costs, w.structure, i);
    most = std::max(most, cost::peak_bytes(w.costs.stages[StageId(static_cast<std::int32_t>(i))].memory.total(), activations,
                                           w.costs.allocator_reserve));
  }
  return most;
}

}  // namespace espalier::search
