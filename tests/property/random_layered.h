// SPDX-License-Identifier: Apache-2.0
// Generates random plans whose layers have their own strategies. Draws a toy model on a toy cluster, a pipeline, a
// number of samples and a random contiguous partition. Every layer gets any legal strategy (often that of the layer
// before). Overlap and schedule are any that the engine has.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cost/price.h"
#include "plan/engine.h"
#include "plan/program.h"
#include "plan/shared_table.h"
#include "plan/structure.h"
#include "random.h"
#include "random_parts.h"
#include "search/layered_candidate.h"
#include "search/search.h"
#include "search/space.h"
#include "toy_clusters.h"
#include "toy_models.h"

namespace espalier::property {

/// Holds a plan of the layer-wise space.
struct LayeredPlan {
  Plan document;
  std::vector<Strategy> priced;       ///< by layer, as a search prices it with every possible overlap on
  std::vector<std::int32_t> base_of;  ///< by layer: index into LayeredProblem::bases
};

/// Holds one (pp, samples) of a job.
struct LayeredProblem {
  std::uint64_t seed = 0;
  Model model;
  Cluster cluster;
  Training training;
  const EngineModel* engine = nullptr;
  SearchSpace space;
  std::vector<search::Configuration> bases;         ///< choices of the layer group with this pp and these samples
  std::vector<std::vector<Strategy>> sharded;       ///< by base: every ZeRO stage and shard group
  std::vector<std::vector<cost::LayerCost>> costs;  ///< by base
  [[nodiscard]] search::Problem view() const { return {&model, &cluster, training, engine, space}; }
  [[nodiscard]] const Schedule& schedule() const { return bases.front().schedule; }
  [[nodiscard]] std::int64_t samples() const { return std::int64_t{schedule().micro_batch} * bases.front().strategy.dp; }
};

class LayeredMaker {
 public:
  explicit LayeredMaker(std::uint64_t seed) : random_(seed), parts_(seed + 1'000'003) { p_.seed = seed; }

  /// Returns false if the seed leaves nothing legal.
  bool problem(LayeredProblem& out) {
    choose_job();
    const search::Space space(p_.model, p_.cluster, p_.training, *p_.engine, p_.space);
    std::map<std::pair<std::int32_t, std::int64_t>, std::vector<search::Configuration>> groups;
    space.layer_group([&](const search::Configuration& c) {
      if (c.strategy.order == RankOrder::tp_cp_pp_dp || c.schedule.microbatches > 16) return;
      if (c.schedule.stages > static_cast<std::int32_t>(p_.model.layers.size())) return;
      groups[{c.schedule.stages, std::int64_t{c.schedule.micro_batch} * c.strategy.dp}].push_back(c);
    });
    if (groups.empty()) return false;
    auto chosen = groups.begin();
    std::advance(chosen, random_.below(static_cast<std::int64_t>(groups.size())));
    p_.bases = chosen->second;
    const cost::CostContext context(p_.model, p_.cluster, p_.training, *p_.engine);
    for (const search::Configuration& base : p_.bases) {
      std::vector<Strategy> all;
      space.shard_group(base, [&](const search::Configuration& shard) {
        Strategy last;
        space.overlap_group(shard, [&](const search::Configuration& c) { last = c.strategy; });
        all.push_back(last);
      });
      p_.sharded.push_back(all);
      p_.costs.emplace_back();
      cost::layer_costs(context, base.strategy, base.schedule.stages, base.schedule.micro_batch, p_.costs.back());
    }
    out = p_;
    return true;
  }

  LayeredPlan plan(const LayeredProblem& p) {
    LayeredPlan x;
    const bool beside = p.space.allowed.count(Dimension::overlap_tp) > 0 && random_.one_in(2);  // overlap.tp
    choose_strategies(p, beside, x);
    const bool sharded = std::any_of(x.priced.begin(), x.priced.end(), [](const Strategy& s) { return s.shards_gradients(); });
    Schedule schedule = choose_schedule(p, sharded);
    const Overlap drawn{random_.one_in(2), random_.one_in(2), schedule.stages > 1 && random_.one_in(2), beside};
    const Overlap on = allowed(drawn, x.priced, has_experts(p.model));
    std::vector<Strategy> strategies;
    for (const Strategy& s : x.priced) strategies.push_back(search::with_overlap(s, on, has_experts(p.model)));
    schedule.micro_batch = static_cast<std::int32_t>(p.samples() / strategies.front().dp);
    x.document =
        make_uniform_plan(p.model, p.cluster, p.training, p.engine->name, strategies.front(), schedule, SplitPolicy::balanced);
    const auto layers = static_cast<std::int32_t>(p.model.layers.size());
    const std::vector<std::int32_t> first = partition(layers, schedule.chunks());
    for (std::size_t c = 0; c < first.size(); ++c) {
      const ChunkPlace place = place_of_chunk(schedule, static_cast<std::int32_t>(c));
      const std::int32_t end = c + 1 < first.size() ? first[c + 1] : layers;
      x.document.only_pipeline()
          .stages[static_cast<std::size_t>(place.stage)]
          .chunks[static_cast<std::size_t>(place.local_chunk)]
          .ranges = ranges(p.model, first[c], end, strategies);
    }
    return x;
  }

  Random& random() { return random_; }

 private:
  void choose_job() {
    ToyModel toy = toy_model(random_, random_.one_in(3));
    p_.model = std::move(toy.model);
    p_.training.sequence = toy.sequence;
    const std::int64_t devices = random_.of<std::int64_t>({1, 2, 4, 4, 6, 8, 8, 8, 12, 16, 16});
    p_.cluster = toy_cluster(random_, devices);
    p_.training.precision = random_.one_in(6) ? Precision::fp32 : Precision::bf16;
    p_.training.optimizer = random_.one_in(8) ? Optimizer::sgd : Optimizer::adam;
    if (random_.one_in(4)) p_.training.moe_imbalance = 1.0 + static_cast<double>(random_.below(100)) / 100.0;
    p_.training.global_batch = random_.of<std::int64_t>({1, 2, 4, 6, 8, 12, 16, 16, 16, 24, 32});
    p_.engine = random_.one_in(2) ? find_engine("generic") : &random_.of(engine_catalogue());
    if (random_.one_in(4)) p_.space.allow(Dimension::overlap_tp, {0, 1});
    if (parts_.one_in(4)) choose_trained_parts(parts_, *p_.engine, p_.model, p_.training);
    if (parts_.one_in(5)) choose_lengths(parts_, *p_.engine, p_.training);
  }

  /// Returns the drawn overlap without any that the engine forbids for some layer. A priced strategy has every
  /// overlap on that it may have.
  static Overlap allowed(Overlap on, const std::vector<Strategy>& priced, bool experts) {
    const Overlap drawn = on;
    for (const Strategy& s : priced) {
      const Overlap wanted = search::with_overlap(s, drawn, experts).overlap;
      on.grad_reduce = on.grad_reduce && (s.overlap.grad_reduce || !wanted.grad_reduce);
      on.param_gather = on.param_gather && (s.overlap.param_gather || !wanted.param_gather);
      on.p2p = on.p2p && (s.overlap.p2p || !wanted.p2p);
    }
    return on;
  }

  void choose_strategies(const LayeredProblem& p, bool beside, LayeredPlan& x) {
    const std::int64_t change = random_.of<std::int64_t>({1, 2, 2, 4});  // one in this many layers gets a new strategy
    for (std::size_t l = 0; l < p.model.layers.size(); ++l) {
      if (l > 0 && !random_.one_in(change)) {
        x.priced.push_back(x.priced.back());
        x.base_of.push_back(x.base_of.back());
        continue;
      }
      std::int64_t b = random_.below(static_cast<std::int64_t>(p.bases.size()));
      const auto fits = [&] {
        const Strategy& s = p.bases[static_cast<std::size_t>(b)].strategy;
        return s.overlap.tp == (beside && s.sp == SequenceParallel::megatron) && !p.sharded[static_cast<std::size_t>(b)].empty();
      };
      while (!fits()) b = (b + 1) % static_cast<std::int64_t>(p.bases.size());
      Strategy s = random_.of(p.sharded[static_cast<std::size_t>(b)]);
      s.recompute.kind =
          random_.of<RecomputeKind>({RecomputeKind::none, RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full});
      s.recompute.layers = s.recompute.kind == RecomputeKind::full ? 1 : 0;
      x.priced.push_back(s);
      x.base_of.push_back(static_cast<std::int32_t>(b));
    }
    if (tied_table(p.model)) {
      x.priced.back() = x.priced.front();
      x.base_of.back() = x.base_of.front();
    }  // rule tied-table
  }

  Schedule choose_schedule(const LayeredProblem& p, bool sharded) {
    Schedule s;
    s.stages = p.schedule().stages;
    s.microbatches = p.schedule().microbatches;
    if (s.stages == 1) return s;
    const auto layers = static_cast<std::int32_t>(p.model.layers.size());
    const bool two = 2 * s.stages <= layers;
    switch (random_.below(8)) {
      case 0: s.kind = ScheduleKind::gpipe; break;
      case 1:
        if (two && s.microbatches % s.stages == 0) {
          s.kind = ScheduleKind::interleaved;
          s.virtual_stages = 2;
        }
        if (s.virtual_stages > 1 && 3 * s.stages <= layers && random_.one_in(2)) s.virtual_stages = 3;
        break;
      case 2:
        if (!sharded) s.kind = random_.of(one_chunk_kinds(splits_backward));
        break;
      case 3:
        if (!sharded && two) {
          s.kind = ScheduleKind::zb_v;
          s.virtual_stages = 2;
        }
        break;
      default: break;
    }
    return s;
  }

  std::vector<std::int32_t> partition(std::int32_t layers, std::int32_t chunks) {
    std::vector<std::int32_t> inside;
    for (std::int32_t l = 1; l < layers; ++l) inside.push_back(l);
    random_.shuffle(inside);
    std::vector<std::int32_t> first(inside.begin(), inside.begin() + (chunks - 1));
    first.push_back(0);
    std::sort(first.begin(), first.end());
    return first;
  }

  /// Returns runs of layers with equal strategies, sometimes cut where nothing changes.
  std::vector<LayerRange> ranges(const Model& model, std::int32_t begin, std::int32_t end,
                                 const std::vector<Strategy>& strategies) {
    std::vector<LayerRange> out;
    for (std::int32_t l = begin; l < end; ++l) {
      const bool block = model.layer(static_cast<std::size_t>(l)).role == LayerRole::block;
      Strategy s = strategies[static_cast<std::size_t>(l)];
      if (!block) s.recompute = Recompute{};
      s.recompute.layers = 0;
      Strategy open;
      if (!out.empty()) {
        open = out.back().strategy;
        open.recompute.layers = 0;
      }
      if (out.empty() || open != s || random_.one_in(8)) out.push_back({l, l, s});
      out.back().last = l;
      Recompute& r = out.back().strategy.recompute;
      if (r.kind == RecomputeKind::full) ++r.layers;
    }
    return out;
  }

  Random random_;
  Random parts_;  ///< draws trained parts and lengths
  LayeredProblem p_;
};

/// Visits `plans` plans of each of `problems` problems.
template <class Visit>
void each_layered_plan(std::uint64_t seed, int problems, int plans, const Visit& visit) {
  for (int i = 0; i < problems; ++i) {
    LayeredProblem p;
    for (++seed; !LayeredMaker(seed).problem(p);) ++seed;
    LayeredMaker maker(seed * 7919);
    for (int k = 0; k < plans; ++k)
      if (!visit(p, maker.plan(p))) return;
  }
}

inline std::string describe(const LayeredProblem& p, const LayeredPlan& x) {
  return "seed " + std::to_string(p.seed) + ": " + p.model.family + " of " + std::to_string(p.model.layers.size()) +
         " layers, engine " + p.engine->name + ", batch " + std::to_string(p.training.global_batch) + "\n" +
         x.document.canonical_text();
}

}  // namespace espalier::property
