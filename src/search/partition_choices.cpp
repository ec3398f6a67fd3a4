// SPDX-License-Identifier: Apache-2.0
#include "search/partition_choices.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>

#include "base/parallel.h"
#include "cluster/operand_format.h"
#include "cost/partitioned_block.h"
#include "cost/state_memory.h"
#include "plan/engine.h"
#include "plan/operator_partition.h"
#include "search/budgets.h"
#include "search/cost_book.h"
#include "search/operator_space.h"

namespace espalier::search {
namespace {

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

/// Holds one (tp, samples in a group), and the bases where it occurs.
struct PartitionCase {
  std::int32_t tp = 1, micro_batch = 1;
  std::vector<Configuration> bases;
  PartitionOffer offer;
  std::int64_t bound_ns = kUnbounded;
};

class Chooser {
 public:
  Chooser(const Problem& problem, const PartitionOptions& options) : problem_(problem), options_(options), book_(problem) {
    std::int64_t most = 0;
    for (std::size_t k = 0; k < problem.model->kinds.size(); ++k)
      if (problem.model->kinds[k].role == LayerRole::block && book_.kind_counts()[k] > most) {
        most = book_.kind_counts()[k];
        common_ = k;
      }
  }

  PartitionChoices run() {
    std::vector<PartitionCase> pairs = all_pairs();
    std::atomic<std::int64_t> done{0};
    base::parallel_for(pairs.size(), std::max(1, options_.threads), 1, [&](std::size_t i, int) {
      if (!stopped()) fill(pairs[i]);
      ++done;
      if (options_.progress)
        options_.progress(
            {"operators", done, static_cast<std::int64_t>(pairs.size()), "tensor groups and samples", options_.incumbent_ns, 0});
    });
    PartitionChoices out;
    if (stopped()) {  // partitions that were not searched are unknown
      out.lower_bound_ns = out.layered_lower_bound_ns = 0;
      return out;
    }
    out.layered_lower_bound_ns = layered_bound(pairs);
    for (PartitionCase& p : pairs) {
      out.lower_bound_ns = std::min(out.lower_bound_ns, p.bound_ns);
      out.solved += p.offer.solved;
      out.inexact += p.offer.inexact;
      out.offers[{p.tp, p.micro_batch}] = std::move(p.offer);
    }
    return out;
  }

 private:
  [[nodiscard]] bool stopped() const { return options_.interrupted && options_.interrupted(); }
  [[nodiscard]] std::vector<PartitionCase> all_pairs() const {
    const Space space(*problem_.model, *problem_.cluster, problem_.training, *problem_.engine, problem_.space);
    std::map<std::pair<std::int32_t, std::int32_t>, PartitionCase> all;
    space.layer_group([&](const Configuration& c) {
      if (!takes_partition(c.strategy)) return;
      PartitionCase& p = all[{c.strategy.tp, c.schedule.micro_batch}];
      p.tp = c.strategy.tp;
      p.micro_batch = c.schedule.micro_batch;
      p.bases.push_back(c);
    });
    std::vector<PartitionCase> pairs;
    for (auto& [key, p] : all) pairs.push_back(std::move(p));
    return pairs;
  }

  [[nodiscard]] Result<std::unique_ptr<BlockSpace>> space_of(const PartitionCase& p, std::size_t kind, double sync) const {
    PartitionWeights weights;
    weights.sync = sync;
    const StatePolicy states = states_of(*problem_.engine, problem_.training);
    weights.state_bytes = states.parameter + states.gradient + states.master + states.optimizer;
    return BlockSpace::make(book_.context(), problem_.model->kinds[kind], p.micro_batch, bits(p), {false, true}, weights);
  }
  static int bits(const PartitionCase& p) { return std::bit_width(static_cast<std::uint32_t>(p.tp)) - 1; }

  void fill(PartitionCase& p) const {
    const auto& kinds = problem_.model->kinds;
    p.offer.least_block_ns.assign(kinds.size(), 0);
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      if (kinds[k].role != LayerRole::block) continue;
      const auto space = space_of(p, k, 0.0);
      if (!space) return;  // no such partitions exist
      solve::OperatorRequest request;
      request.budget = kPartitionStates;
      request.stop = options_.interrupted;
      const solve::OperatorAnswer answer = solve::best_operators((*space)->problem(), request);
      // Every node and edge is rounded separately, here and in the cost of a block.
      const auto rounding =
          static_cast<std::int64_t>(2 * (*space)->problem().nodes.size() + 2 * (*space)->problem().edges.size());
      p.offer.least_block_ns[k] = std::max<std::int64_t>(0, answer.lower_bound - rounding);
      ++p.offer.solved;
      if (!answer.certified) ++p.offer.inexact;
    }
    for (const Configuration& c : p.bases) p.bound_ns = std::min(p.bound_ns, bound(c, p.offer));
    if (options_.incumbent_ns > 0 && p.bound_ns >= options_.incumbent_ns) return;
    offer(p);
  }

  static std::int64_t one_pass(const cost::LayerCost& l) {
    return l.forward.duration_ns() +
           std::min(l.backward.duration_ns(), l.backward_input.duration_ns() + l.backward_weight.duration_ns());
  }
  static std::int64_t of_step(std::int64_t work, const Schedule& s) { return work * s.microbatches / s.stages; }

  /// Returns a bound in which every layer is as fast as under any strategy, partitioned or not, with the same stages
  /// and samples.
  [[nodiscard]] std::int64_t layered_bound(const std::vector<PartitionCase>& pairs) const {
    std::map<std::pair<std::int32_t, std::int64_t>, std::pair<Schedule, std::vector<std::int64_t>>> least;
    const auto take = [&](const Configuration& c, std::size_t kind, std::int64_t ns) {
      auto& [schedule, of_kind] = least[{c.schedule.stages, std::int64_t{c.schedule.micro_batch} * c.strategy.dp}];
      schedule = c.schedule;
      of_kind.resize(problem_.model->kinds.size(), kUnbounded);
      of_kind[kind] = std::min(of_kind[kind], ns);
    };
    const Space space(*problem_.model, *problem_.cluster, problem_.training, *problem_.engine, problem_.space);
    std::vector<cost::LayerCost> layers;
    space.layer_group([&](const Configuration& c) {
      cost::layer_costs(book_.context(), c.strategy, c.schedule.stages, c.schedule.micro_batch, layers);
      for (std::size_t k = 0; k < layers.size(); ++k) take(c, k, one_pass(layers[k]));
    });
    for (const PartitionCase& p : pairs)
      for (const Configuration& c : p.bases)
        for (std::size_t k = 0; k < layers.size(); ++k)
          if (p.offer.least_block_ns[k] > 0) take(c, k, p.offer.least_block_ns[k]);
    std::int64_t bound = kUnbounded;
    for (const auto& [key, group] : least) {
      std::int64_t work = 0;
      for (std::size_t k = 0; k < group.second.size(); ++k) work += book_.kind_counts()[k] * group.second[k];
      bound = std::min(bound, of_step(work, group.first));
    }
    return bound;
  }

  /// Returns layer_group_bound_ns with the least time of a block; other layers keep their cost under tensor
  /// parallelism.
  [[nodiscard]] std::int64_t bound(const Configuration& c, const PartitionOffer& offer) const {
    std::vector<cost::LayerCost> layers;
    cost::layer_costs(book_.context(), c.strategy, c.schedule.stages, c.schedule.micro_batch, layers);
    std::int64_t work = 0;
    for (std::size_t k = 0; k < layers.size(); ++k) {
      const bool block = problem_.model->kinds[k].role == LayerRole::block;
      work += book_.kind_counts()[k] * (block ? offer.least_block_ns[k] : one_pass(layers[k]));
    }
    return of_step(work, c.schedule);
  }

  void offer(PartitionCase& p) const {
    std::int64_t least = kUnbounded;
    for (const Configuration& c : p.bases) least = std::min<std::int64_t>(least, c.schedule.microbatches);
    const auto space = space_of(p, common_, 1.0 / static_cast<double>(std::max<std::int64_t>(1, least)));
    if (!space) return;
    solve::OperatorRequest request;
    request.best = options_.best;
    request.budget = kPartitionStates;
    request.stop = options_.interrupted;
    ++p.offer.solved;
    std::vector<solve::OperatorPlan> plans = solve::best_operators((*space)->problem(), request).plans;
    request.best = 1;
    request.budget = kFrontierStates;
    for (solve::OperatorPlan& plan : solve::operator_frontier((*space)->problem(), request, options_.frontier))
      plans.push_back(std::move(plan));
    if (const auto megatron = (*space)->megatron(0)) plans.push_back(*megatron);
    for (const solve::OperatorPlan& plan : plans) {
      BlockPartition partition((*space)->text(plan));
      auto& offered = p.offer.partitions;
      if (std::find(offered.begin(), offered.end(), partition) != offered.end()) continue;
      Strategy s = p.bases.front().strategy;
      s.partition = partition;
      if (partition_fault(s).empty() && cost::partition_fits(book_.context(), s, p.micro_batch).ok())
        offered.push_back(std::move(partition));
    }
  }

  const Problem& problem_;
  const PartitionOptions& options_;
  CostBook book_;
  std::size_t common_ = 0;
};

}  // namespace

bool partitions_apply(const Problem& problem) {
  if (!problem.engine->runs.operator_partitions || freezes_weights(problem.training) || problem.training.lengths.any())
    return false;
  if (cluster::operand_format(problem.training.precision).cast) return false;
  return std::any_of(problem.model->kinds.begin(), problem.model->kinds.end(),
                     [](const LayerKind& kind) { return kind.role == LayerRole::block; });
}

PartitionChoices partition_choices(const Problem& problem, const PartitionOptions& options) {
  if (!partitions_apply(problem)) return {};
  return Chooser(problem, options).run();
}

}  // namespace espalier::search
