// SPDX-License-Identifier: Apache-2.0
// Attacks the answer of a layer-wise or full search with only the search's own evaluator. The answer's layers,
// boundaries, overlap switches and schedule are perturbed, a few at once and at random. No plan of the space that
// fits may be faster than the bound that the search certified. Every single change of a boundary or of a layer's
// strategy is also judged, including strategies that the search did not keep. None may beat the answer by more than
// the search's grain.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "attack_uniform.h"
#include "espalier/planner.h"
#include "random_parts.h"
#include "search/layered_candidate.h"
#include "search/layered_rules.h"

namespace espalier::property {

/// Holds one strategy per layer, and the chunks of the layers.
struct Layers {
  Schedule schedule;
  std::vector<std::int32_t> first;  ///< by pipeline chunk
  std::vector<Strategy> strategies;
  Overlap on;
};

/// Converts a plan document.
inline Layers layers_of(const Plan& plan, const Model& model) {
  Layers x;
  x.schedule = plan.only_pipeline().schedule;
  x.strategies.resize(model.layers.size());
  for (std::int32_t c = 0; c < plan.only_pipeline().schedule.chunks(); ++c) {
    const ChunkPlace place = place_of_chunk(plan.only_pipeline().schedule, c);
    const Chunk& chunk =
        plan.only_pipeline().stages[static_cast<std::size_t>(place.stage)].chunks[static_cast<std::size_t>(place.local_chunk)];
    x.first.push_back(chunk.first());
    for (const LayerRange& r : chunk.ranges) {
      std::int32_t again = r.strategy.recompute.layers;
      for (std::int32_t l = r.first; l <= r.last; ++l) {
        Strategy s = r.strategy;
        const bool block = model.layer(static_cast<std::size_t>(l)).role == LayerRole::block;
        if (s.recompute.kind == RecomputeKind::full)
          s.recompute = block && again-- > 0 ? Recompute{RecomputeKind::full, 1} : Recompute{};
        const Overlap& o = s.overlap;
        x.on.grad_reduce |= o.grad_reduce;
        x.on.param_gather |= o.param_gather;
        x.on.p2p |= o.p2p;
        x.on.tp |= o.tp;
        x.strategies[static_cast<std::size_t>(l)] = s;
      }
    }
  }
  return x;
}

class LayeredAttack {
 public:
  LayeredAttack(const search::Problem& problem, const Plan& answer, std::int64_t answer_ns, std::int64_t bound_ns,
                std::uint64_t seed)
      : problem_(problem),
        answer_ns_(answer_ns),
        bound_ns_(bound_ns),
        random_(seed),
        space_(*problem.model, *problem.cluster, problem.training, *problem.engine, problem.space, problem.partitions),
        context_(*problem.model, *problem.cluster, problem.training, *problem.engine),
        evaluator_(1),
        start_(layers_of(answer, *problem.model)),
        samples_(answer.samples_per_microbatch()) {
    collect();
  }

  /// Returns true if the space holds the answer itself, with the time that it claims.
  [[nodiscard]] bool holds_answer() {
    if (!legal(start_)) return false;
    return judge(start_) == answer_ns_;
  }

  void perturb(std::int64_t count) {
    Layers now = start_;
    for (std::int64_t misses = 0; count > 0 && misses < 100'000;) {
      // Starts mostly from the answer itself, sometimes from the end of the last walk.
      if (!random_.one_in(4)) now = start_;
      for (std::int64_t changes = random_.of<std::int64_t>({1, 2, 2, 3, 4, 6, 10}); changes > 0; --changes) change(now);
      if (!legal(now)) {
        ++misses;
        now = start_;
        continue;
      }
      judge(now);
      --count;
    }
  }

  /// Judges every single change of a boundary and of a layer's strategy; of the latter at most `most`, evenly spread.
  void singles(std::int64_t most) {
    for (std::size_t c = 1; c < start_.first.size(); ++c) {
      for (const std::int32_t by : {-1, 1}) {
        Layers x = start_;
        x.first[c] += by;
        single(x);
        const auto moved = static_cast<std::size_t>(by < 0 ? start_.first[c] - 1 : start_.first[c]);
        if (moved >= x.strategies.size() || (by < 0 && moved + 1 >= x.strategies.size()) || (by > 0 && moved == 0)) continue;
        x.strategies[moved] = x.strategies[by < 0 ? moved + 1 : moved - 1];
        single(x);
      }
    }
    const auto all = static_cast<std::int64_t>(start_.strategies.size() * pool_.size());
    const std::int64_t step = std::max<std::int64_t>(1, all / std::max<std::int64_t>(1, most));
    for (std::int64_t i = random_.below(step); i < all; i += step) {
      Layers x = start_;
      x.strategies[static_cast<std::size_t>(i) / pool_.size()] = pool_[static_cast<std::size_t>(i) % pool_.size()];
      single(x);
    }
    single_changes_ = all;
  }

  [[nodiscard]] const AttackTally& tally() const { return tally_; }  ///< `faster`: below the bound
  [[nodiscard]] std::int64_t singles_tried() const { return singles_tried_; }
  [[nodiscard]] std::int64_t single_changes() const { return single_changes_; }
  /// Returns by how much the best single change beats the answer; ≤ 0 if none does.
  [[nodiscard]] double best_single() const { return best_single_; }
  [[nodiscard]] const std::string& best_single_text() const { return best_single_text_; }
  /// Returns by how much the fastest of all judged plans beats the answer.
  [[nodiscard]] double best_of_all() const {
    return tally_.best_ns == 0 ? 0 : 1 - static_cast<double>(tally_.best_ns) / static_cast<double>(answer_ns_);
  }

 private:
  /// Collects every strategy with the pipeline and samples of the answer.
  void collect() {
    space_.layer_group([&](const search::Configuration& c) {
      if (c.schedule.stages != start_.schedule.stages || std::int64_t{c.schedule.micro_batch} * c.strategy.dp != samples_) return;
      if (c.strategy.order == RankOrder::tp_cp_pp_dp && c.schedule.stages > 1) return;
      space_.shard_group(c, [&](const search::Configuration& s) {
        for (const RecomputeKind kind : {RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full}) {
          if (!problem_.space.admits(Dimension::recompute, kind)) continue;
          if (kind == RecomputeKind::selective && !s.strategy.partition.empty()) continue;
          Strategy x = s.strategy;
          x.recompute = {kind, kind == RecomputeKind::full ? 1 : 0};
          pool_.push_back(x);
        }
      });
    });
  }

  void change(Layers& x) {
    const auto layers = static_cast<std::int64_t>(x.strategies.size());
    const auto layer = static_cast<std::size_t>(random_.below(layers));
    switch (random_.below(8)) {
      case 0:
      case 1: x.strategies[layer] = random_.of(pool_); break;
      case 2: x.strategies[layer] = x.strategies[static_cast<std::size_t>(random_.below(layers))]; break;
      case 3: {  // a run of layers
        const Strategy s = random_.one_in(2) ? random_.of(pool_) : x.strategies[static_cast<std::size_t>(random_.below(layers))];
        const auto end = std::min<std::size_t>(x.strategies.size(), layer + static_cast<std::size_t>(random_.between(1, 8)));
        std::fill(x.strategies.begin() + static_cast<std::ptrdiff_t>(layer),
                  x.strategies.begin() + static_cast<std::ptrdiff_t>(end), s);
        break;
      }
      case 4: {  // other recomputation
        const auto kind = static_cast<RecomputeKind>(random_.below(3));
        x.strategies[layer].recompute = {kind, kind == RecomputeKind::full ? 1 : 0};
        break;
      }
      case 5:
        if (x.first.size() > 1)
          x.first[static_cast<std::size_t>(random_.between(1, static_cast<std::int64_t>(x.first.size()) - 1))] +=
              random_.one_in(2) ? -1 : 1;
        break;
      case 6: {
        bool* const flags[] = {&x.on.grad_reduce, &x.on.param_gather, &x.on.p2p, &x.on.tp};
        bool& flag = *flags[random_.below(4)];
        flag = !flag;
        break;
      }
      default:  // another schedule of as many chunks
        if (x.schedule.stages > 1 && x.schedule.virtual_stages == 1)
          x.schedule.kind = random_.of(one_chunk_kinds([](ScheduleKind) { return true; }));
        if (x.schedule.virtual_stages == 2) x.schedule.kind = random_.one_in(2) ? ScheduleKind::interleaved : ScheduleKind::zb_v;
    }
  }

  bool legal(const Layers& x) {
    const auto layers = static_cast<std::int32_t>(x.strategies.size());
    for (std::size_t c = 0; c < x.first.size(); ++c)
      if (x.first[c] >= layers || (c == 0 ? x.first[c] != 0 : x.first[c] <= x.first[c - 1])) return false;
    configuration_ = search::layered_configuration(*problem_.model, x.schedule, samples_, x.first, x.strategies, x.on);
    return search::layered_fault(*problem_.model, space_, configuration_).empty();
  }

  /// Judges the configuration that was last found legal. Returns 0 if it does not fit.
  std::int64_t judge(const Layers& x) {
    ++tally_.tried;
    search::assemble(context_, configuration_, samples_, structure_, costs_);
    if (evaluator_.peak_bytes(structure_, costs_, 0) > problem_.cluster->usable_memory().count() ||
        !cost::host_fits(*problem_.cluster, costs_))
      return 0;
    const std::int64_t ns = evaluator_.iteration_ns(structure_, costs_, 0);
    ++tally_.fit;
    if (tally_.best_ns == 0 || ns < tally_.best_ns) {
      tally_.best_ns = ns;
      if (ns < bound_ns_)
        tally_.worst =
            std::string(to_string(x.schedule.kind)) + " in " + std::to_string(ns) + " ns, bound " + std::to_string(bound_ns_);
    }
    if (ns < bound_ns_) ++tally_.faster;
    return ns;
  }

  void single(const Layers& x) {
    if (!legal(x)) return;
    ++singles_tried_;
    const std::int64_t ns = judge(x);
    if (ns == 0) return;
    const double gain = 1 - static_cast<double>(ns) / static_cast<double>(answer_ns_);
    if (gain <= best_single_) return;
    best_single_ = gain;
    best_single_text_ = describe(x);
  }

  [[nodiscard]] std::string describe(const Layers& x) const {
    for (std::size_t c = 0; c < x.first.size(); ++c)
      if (x.first[c] != start_.first[c])
        return "chunk " + std::to_string(c) + " from layer " + std::to_string(x.first[c]) + ", not " +
               std::to_string(start_.first[c]);
    for (std::size_t l = 0; l < x.strategies.size(); ++l)
      if (!(x.strategies[l] == start_.strategies[l]))
        return "layer " + std::to_string(l) + ": " + label(x.strategies[l]) + ", not " + label(start_.strategies[l]);
    return "";
  }

  const search::Problem& problem_;
  std::int64_t answer_ns_, bound_ns_;
  Random random_;
  search::Space space_;
  cost::CostContext context_;
  planner::SimulatedEvaluator evaluator_;
  Layers start_;
  std::int64_t samples_;
  std::vector<Strategy> pool_;
  search::LayeredConfiguration configuration_;
  ProgramStructure structure_;
  cost::Costs costs_;
  AttackTally tally_;
  std::int64_t singles_tried_ = 0, single_changes_ = 0;
  double best_single_ = 0;
  std::string best_single_text_;
};

}  // namespace espalier::property
