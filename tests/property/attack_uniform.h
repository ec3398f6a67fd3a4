// SPDX-License-Identifier: Apache-2.0
// Attacks the certificate of a uniform search with only the search's own evaluator. It tries random legal
// configurations of the job's space. It also walks from the optimum over all configurations that differ from
// the current one in one dimension (with those that must change along). None that fits may be faster than
// the certified optimum.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cost/offload.h"
#include "plan/dimension.h"
#include "planner/simulated_evaluator.h"
#include "random.h"
#include "search/cost_book.h"
#include "search/space.h"

namespace espalier::property {

struct AttackTally {
  std::int64_t tried = 0, fit = 0;
  std::int64_t faster = 0;   ///< violations
  std::int64_t best_ns = 0;  ///< the fastest of all that fit; 0: none
  std::string worst;         ///< the fastest violation, in words
};

class UniformAttack {
 public:
  UniformAttack(const search::Problem& problem, std::int64_t claimed_ns, std::uint64_t seed)
      : problem_(problem),
        claimed_ns_(claimed_ns),
        random_(seed),
        space_(*problem.model, *problem.cluster, problem.training, *problem.engine, problem.space, problem.partitions),
        book_(problem),
        evaluator_(1) {
    space_.layer_group([&](const search::Configuration& c) { nodes_.push_back(c); });
  }

  /// Tests `count` random legal configurations, evenly over the choices of the layer group.
  void random_configurations(std::int64_t count) {
    // Some choices of the layer group have no legal configuration below them.
    for (std::int64_t misses = 0; count > 0 && !nodes_.empty() && misses < 20 * count + 1000;) {
      search::Configuration c = random_.of(nodes_);
      if (!pick(c)) {
        ++misses;
        continue;
      }
      judge(c);
      --count;
    }
  }

  /// Walks `steps` steps, each to one of the fastest few neighbours.
  void walk(const search::Configuration& from, int steps) {
    search::Configuration here = from;
    std::set<std::string> seen;
    for (int step = 0; step < steps; ++step) {
      std::vector<std::pair<std::int64_t, search::Configuration>> fast;
      for (const search::Configuration& c : neighbours(here)) {
        const std::int64_t ns = judge(c);
        if (ns > 0 && seen.insert(canonical_text(c.strategy, c.schedule)).second) fast.emplace_back(ns, c);
      }
      if (fast.empty()) return;
      std::sort(fast.begin(), fast.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      here =
          fast[static_cast<std::size_t>(random_.below(std::min<std::int64_t>(8, static_cast<std::int64_t>(fast.size()))))].second;
    }
  }

  [[nodiscard]] const AttackTally& tally() const { return tally_; }

 private:
  using Visit = search::Space::Visit;
  template <class Enumerate>
  bool choose(search::Configuration& c, const Enumerate& enumerate) {
    std::vector<search::Configuration> all;
    enumerate([&](const search::Configuration& x) { all.push_back(x); });
    if (all.empty()) return false;
    c = random_.of(all);
    return true;
  }
  /// Picks a random leaf below a choice of the layer group.
  bool pick(search::Configuration& c) {
    return choose(c, [&](const Visit& v) { space_.schedule_group(c, v); }) &&
           choose(c, [&](const Visit& v) { space_.shard_group(c, v); }) &&
           choose(c, [&](const Visit& v) { space_.overlap_group(c, v); }) &&
           choose(c, [&](const Visit& v) { space_.recompute_group(c, v); });
  }

  /// Returns simulated nanoseconds; 0 if it does not fit.
  std::int64_t judge(const search::Configuration& c) {
    ++tally_.tried;
    book_.prepare(c.schedule.stages);
    cost::layer_costs(book_.context(), c.strategy, c.schedule.stages, c.schedule.micro_batch, w_.layers);
    assemble(book_, c, w_);
    if (evaluator_.peak_bytes(w_.structure, w_.costs, 0) > book_.memory_limit() || !cost::host_fits(*problem_.cluster, w_.costs))
      return 0;
    const std::int64_t ns = evaluator_.iteration_ns(w_.structure, w_.costs, 0);
    ++tally_.fit;
    if (ns < claimed_ns_) {
      ++tally_.faster;
      if (tally_.best_ns == 0 || ns < tally_.best_ns)
        tally_.worst =
            canonical_text(c.strategy, c.schedule) + " in " + std::to_string(ns) + " ns, claimed " + std::to_string(claimed_ns_);
    }
    if (tally_.best_ns == 0 || ns < tally_.best_ns) tally_.best_ns = ns;
    return ns;
  }

  static std::vector<std::int64_t> divisors(std::int64_t n) {
    std::vector<std::int64_t> out;
    for (std::int64_t d = 1; d <= n; ++d)
      if (n % d == 0) out.push_back(d);
    return out;
  }
  [[nodiscard]] std::vector<std::int64_t> values(Dimension d, const search::Configuration& c) const {
    std::vector<std::int64_t> out;
    if (enum_size(d) > 0) {
      for (std::int64_t v = 0; v < enum_size(d); ++v) out.push_back(v);
      return out;
    }
    const std::int64_t world = space_.facts().devices;
    if (d == Dimension::tp || d == Dimension::cp || d == Dimension::pp) return divisors(world);
    if (d == Dimension::micro_batch) return divisors(space_.facts().global_batch);
    if (d == Dimension::shard) return divisors(c.strategy.data_ranks());
    const std::int64_t most = d == Dimension::zero  ? 3
                              : d == Dimension::ep  ? 1024
                              : d == Dimension::etp ? world
                                                    : space_.facts().layers;
    for (std::int64_t v = d == Dimension::zero || d == Dimension::recompute_layers ? 0 : 1; v <= most; ++v) out.push_back(v);
    return out;
  }

  /// Returns the neighbours of a configuration. Some dimensions change together: dp with the other degrees, and
  /// micro-batches with everything. ZeRO changes with its shard group, a schedule with its number of chunks, and
  /// recomputation with its number of layers.
  std::vector<search::Configuration> neighbours(const search::Configuration& from) {
    std::vector<search::Configuration> out;
    const auto add = [&](search::Configuration c) {
      const std::int64_t rest = std::int64_t{c.strategy.tp} * c.strategy.cp * c.schedule.stages;
      if (space_.facts().devices % rest != 0) return;
      c.strategy.dp = static_cast<std::int32_t>(space_.facts().devices / rest);
      c.schedule.microbatches = static_cast<std::int32_t>(microbatches_of(space_.facts(), c.strategy, c.schedule));
      if (!(c == from) && c.schedule.microbatches > 0 && space_.contains(c)) out.push_back(c);
    };
    for (int k = 0; k < kDimensions; ++k) {
      const auto d = static_cast<Dimension>(k);
      if (d == Dimension::dp) continue;
      for (const std::int64_t v : values(d, from)) {
        search::Configuration c = from;
        set(d, v, c.strategy, c.schedule);
        add(c);
        const Dimension along = d == Dimension::zero        ? Dimension::shard
                                : d == Dimension::schedule  ? Dimension::vpp
                                : d == Dimension::recompute ? Dimension::recompute_layers
                                                            : Dimension::dp;
        if (along == Dimension::dp) continue;
        for (const std::int64_t more : values(along, c)) {
          search::Configuration both = c;
          set(along, more, both.strategy, both.schedule);
          add(both);
        }
      }
    }
    // These degrees change the whole shard group along: ZeRO is over all data ranks, before and after.
    const bool whole = from.strategy.shards_optimizer() && from.strategy.shard == from.strategy.data_ranks();
    for (const Dimension d : {Dimension::tp, Dimension::cp, Dimension::pp}) {
      for (const std::int64_t v : values(d, from)) {
        search::Configuration c = from;
        set(d, v, c.strategy, c.schedule);
        const std::int64_t rest = std::int64_t{c.strategy.tp} * c.strategy.cp * c.schedule.stages;
        if (!whole || space_.facts().devices % rest != 0) continue;
        c.strategy.dp = static_cast<std::int32_t>(space_.facts().devices / rest);
        c.strategy.shard = static_cast<std::int32_t>(c.strategy.data_ranks());
        if (c.strategy.shard == 1) c.strategy.zero = ZeroStage::none;
        add(c);
      }
    }
    return out;
  }

  const search::Problem& problem_;
  std::int64_t claimed_ns_;
  Random random_;
  search::Space space_;
  search::CostBook book_;
  planner::SimulatedEvaluator evaluator_;
  search::Workspace w_;
  std::vector<search::Configuration> nodes_;
  AttackTally tally_;
};

}  // namespace espalier::property
