// SPDX-License-Identifier: Apache-2.0
// Tests the layer-wise space on random problems. It is never slower than the uniform space, and the independent
// check accepts every answer. The certificate is below every plan that plain enumeration finds, also for smaller
// spaces and memories.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include "cost/offload.h"
#include "espalier/planner.h"
#include "plan/engine.h"
#include "plan/rules.h"
#include "plan/shared_table.h"
#include "plan/structure.h"
#include "random_problem.h"
#include "search/layered_candidate.h"
#include "search/layerwise.h"

namespace espalier::property::layerwise_test {
namespace {

const int kProblems = cases(200, 2000);

Job job_of(const RandomProblem& p, const char* space) {
  Job job;
  job.model = p.model;
  job.cluster = p.cluster;
  job.training = p.training;
  job.search = p.space;
  job.search.kind = space_kind_of(space).value();
  return job;
}

/// Returns a random problem of the engine that restricts nothing.
RandomProblem generic_problem(int index) {
  RandomProblem p = random_problem(index);
  p.engine = find_engine("generic");
  p.space.allowed.erase(Dimension::recompute_layers);
  p.space.forbidden.erase(Dimension::recompute_layers);
  p.space.limits.erase(Dimension::recompute_layers);
  return p;
}

TEST(Layerwise, NeverSlowerThanUniformAndAlwaysSound) {
  int faster = 0, rescued = 0, infeasible = 0, proven = 0;
  double gain = 0, gap = 0;
  for (int i = 0; i < kProblems && !::testing::Test::HasFailure(); ++i) {
    const RandomProblem p = generic_problem(i);
    const auto uniform = plan(job_of(p, "uniform"), {}), layered = plan(job_of(p, "layerwise"), {});
    if (!layered) {
      EXPECT_EQ(layered.error().kind, ErrorKind::infeasible) << layered.error().found << "\n" << describe(p);
      EXPECT_FALSE(uniform.ok()) << describe(p);
      ++infeasible;
      continue;
    }
    const std::int64_t ns = layered->prediction.iteration_ns;
    EXPECT_TRUE(layered->prediction.fits) << describe(p);
    EXPECT_TRUE(plan_violations(p.model, layered->plan).empty()) << layered->plan.label() << describe(p);
    EXPECT_LE(layered->search.lower_bound_ns, ns) << describe(p);
    proven += layered->search.optimal ? 1 : 0;
    gap += layered->search.gap;
    if (!uniform) {
      ++rescued;
      continue;
    }
    EXPECT_LE(ns, uniform->prediction.iteration_ns) << describe(p);
    EXPECT_LE(layered->search.lower_bound_ns, uniform->prediction.iteration_ns) << describe(p);
    if (ns < uniform->prediction.iteration_ns) {
      ++faster;
      gain += static_cast<double>(uniform->prediction.iteration_ns) / static_cast<double>(ns) - 1;
    }
  }
  std::printf(
      "%d problems: %d faster than uniform (mean %.1f %%), %d that no uniform plan fits, %d infeasible; %d proven, gap %.2f %% "
      "in the mean\n",
      kProblems, faster, faster > 0 ? 100 * gain / faster : 0.0, rescued, infeasible, proven, 100 * gap / kProblems);
}

/// Simulates every plan of one-forward-one-backward with these strategies: partitions × strategies of each layer.
class Enumeration {
 public:
  Enumeration(const RandomProblem& p, const search::Problem& view) : p_(p), book_(view), evaluator_(1) {}

  void run(std::int32_t stages, std::int64_t samples, const std::vector<Strategy>& strategies) {
    stages_ = stages;
    samples_ = samples;
    strategies_ = &strategies;
    firsts_ = {0};
    partitions(1);
  }
  [[nodiscard]] std::int64_t best() const { return best_; }
  [[nodiscard]] std::int64_t plans() const { return plans_; }

 private:
  void partitions(std::int32_t next) {
    const auto layers = static_cast<std::int32_t>(p_.model.layers.size());
    if (static_cast<std::int32_t>(firsts_.size()) == stages_) {
      choice_.assign(p_.model.layers.size(), 0);
      choices(0);
      return;
    }
    for (std::int32_t l = next; l < layers; ++l) {
      firsts_.push_back(l);
      partitions(l + 1);
      firsts_.pop_back();
    }
  }
  void choices(std::size_t layer) {
    if (layer == choice_.size()) return judge();
    for (std::size_t s = 0; s < strategies_->size(); ++s) {
      choice_[layer] = s;
      choices(layer + 1);
    }
  }
  void judge() {
    const auto table_of = [&](std::size_t choice) { return table_layout((*strategies_)[choice]); };
    if (tied_table(p_.model) && table_of(choice_.front()) != table_of(choice_.back())) return;  // rule tied-table
    search::LayeredConfiguration c;
    c.schedule.stages = stages_;
    c.schedule.microbatches = static_cast<std::int32_t>(p_.training.global_batch / samples_);
    for (std::size_t i = 0; i < firsts_.size(); ++i) {
      const std::int32_t end = i + 1 < firsts_.size() ? firsts_[i + 1] : static_cast<std::int32_t>(choice_.size());
      c.chunks.emplace_back();
      for (std::int32_t l = firsts_[i]; l < end; ++l)
        c.chunks.back().push_back({l, l, (*strategies_)[choice_[static_cast<std::size_t>(l)]]});
    }
    c.schedule.micro_batch = static_cast<std::int32_t>(samples_ / c.chunks[0][0].strategy.dp);
    search::assemble(book_.context(), c, samples_, structure_, costs_);
    ++plans_;
    if (evaluator_.peak_bytes(structure_, costs_, 0) > p_.cluster.usable_memory().count() || !cost::host_fits(p_.cluster, costs_))
      return;
    const std::int64_t ns = evaluator_.iteration_ns(structure_, costs_, 0);
    if (best_ == 0 || ns < best_) best_ = ns;
  }

  const RandomProblem& p_;
  search::CostBook book_;
  planner::SimulatedEvaluator evaluator_;
  std::int32_t stages_ = 1;
  std::int64_t samples_ = 1, best_ = 0, plans_ = 0;
  const std::vector<Strategy>* strategies_ = nullptr;
  std::vector<std::int32_t> firsts_;
  std::vector<std::size_t> choice_;
  ProgramStructure structure_;
  cost::Costs costs_;
};

/// Returns the strategies of each (pp, samples) of a space with everything overlapped; full recomputation is that
/// of one layer.
std::map<std::pair<std::int32_t, std::int64_t>, std::vector<Strategy>> strategies_of(const RandomProblem& p) {
  const search::Space space(p.model, p.cluster, p.training, *p.engine, p.space);
  std::map<std::pair<std::int32_t, std::int64_t>, std::vector<Strategy>> out;
  space.layer_group([&](const Configuration& c) {
    if (c.strategy.order == RankOrder::tp_cp_pp_dp && c.schedule.stages > 1) return;
    space.shard_group(c, [&](const Configuration& shard) {
      for (const Recompute& how : space.layer_recomputes()) {
        if (how.modules != c.strategy.recompute.modules) continue;
        Strategy s = search::with_overlap(shard.strategy, {true, true, c.schedule.stages > 1, false}, has_experts(p.model));
        s.recompute = how;
        out[{c.schedule.stages, std::int64_t{c.schedule.micro_batch} * c.strategy.dp}].push_back(s);
      }
    });
  });
  return out;
}

/// Compares the layer-wise search with every plan of spaces that are small enough.
struct SmallSpaces {
  int problems = 0, met = 0;
  std::int64_t plans = 0;
  double worst = 0;

  void add(const RandomProblem& p) {
    constexpr double kMost = 3000;
    const auto strategies = strategies_of(p);
    double size = 0;
    for (const auto& [key, all] : strategies)
      size += std::pow(static_cast<double>(all.size()), static_cast<double>(p.model.layers.size())) * key.first;
    if (size > kMost || size < 50) return;
    ++problems;
    const search::Problem view = p.view();
    Enumeration all(p, view);
    for (const auto& [key, options] : strategies) all.run(key.first, key.second, options);
    plans += all.plans();
    planner::SimulatedEvaluator evaluator(1);
    const auto found = search::layerwise(view, evaluator, {});
    if (all.best() == 0) return;
    ASSERT_TRUE(found.best.has_value()) << describe(p);
    EXPECT_LE(found.lower_bound_ns, all.best()) << describe(p);
    const double off = static_cast<double>(found.best->iteration_ns) / static_cast<double>(all.best()) - 1;
    const double gap = static_cast<double>(found.best->iteration_ns) / static_cast<double>(found.lower_bound_ns) - 1;
    EXPECT_LE(off, gap + 1e-9) << describe(p);
    worst = std::max(worst, off);
    met += off <= 0 ? 1 : 0;
  }
  void print() const {
    std::printf("%d problems, %lld plans simulated: the best found is the best of all in %d, at most %.2f %% above it\n",
                problems, static_cast<long long>(plans), met, 100 * worst);
  }
};

/// Returns a problem with one schedule, whose blocks are recomputed in full or not.
RandomProblem narrow_problem(int i) {
  RandomProblem p = generic_problem(i);
  for (const Dimension d : {Dimension::overlap_grad, Dimension::overlap_param, Dimension::overlap_p2p})
    p.space.allow(d, {false, true});
  p.space.allow(Dimension::schedule, {ScheduleKind::one_f_one_b});
  p.space.allow(Dimension::recompute, {0, 2});
  p.space.allowed.erase(Dimension::overlap_tp);
  for (const Dimension d :
       {Dimension::overlap_grad, Dimension::overlap_param, Dimension::overlap_p2p, Dimension::schedule, Dimension::recompute})
    p.space.forbidden.erase(d);
  return p;
}

TEST(Layerwise, CertificateIsBelowEveryPlanOfSmallSpaces) {
  SmallSpaces spaces;
  for (int i = 0; spaces.problems < cases(15, 250) && i < 4000; ++i) spaces.add(narrow_problem(i));
  spaces.print();
}

// Each layer reruns attention, its MLP or both.
TEST(Layerwise, LayersChooseTheirModules) {
  EngineModel engine = *find_engine("generic");
  engine.runs.recompute_modules = {RecomputeModule::core_attn, RecomputeModule::mlp};
  engine.memory.selective = {RecomputeModule::mlp};
  SmallSpaces spaces;
  for (int i = 0; spaces.problems < cases(4, 60) && i < 1000; ++i) {
    RandomProblem p = narrow_problem(i);
    p.engine = &engine;
    p.space.allow(Dimension::recompute, {kModuleSets});
    spaces.add(p);
  }
  spaces.print();
  EXPECT_GT(spaces.problems, 0);
}

// The search is exact in its objective (LayerSearch.MoreMemoryAndMoreChoicesAreNeverSlower). The answer is the
// fastest in the simulator among the plans that it visits, which differ in a larger space. So two things must hold:
// the bound of the larger space is below the times of smaller spaces, and answers are rarely slower.
TEST(Layerwise, BoundOfALargerSpaceIsBelowAnswersOfSmallerOnes) {
  const int pairs = cases(60, 500);
  Random random(7);
  int slower = 0, compared = 0;
  double worst = 0;
  for (int i = 0; i < pairs; ++i) {
    const RandomProblem large = generic_problem(i);
    RandomProblem small = large;
    small.cluster.memory_limit =
        Bytes(large.cluster.usable_memory().count() * static_cast<std::int64_t>(60 + random.below(41)) / 100);
    constexpr std::array kForbid = {Dimension::tp, Dimension::zero, Dimension::recompute,
                                    Dimension::pp, Dimension::sp,   Dimension::micro_batch};
    const Dimension d = kForbid[static_cast<std::size_t>(random.below(6))];
    small.space.forbidden[d].push_back(static_cast<std::int64_t>(1 + random.below(2)));
    const auto t_small = plan(job_of(small, "layerwise"), {});
    if (!t_small) continue;
    const auto t_large = plan(job_of(large, "layerwise"), {});
    ASSERT_TRUE(t_large.ok()) << describe(large);
    ++compared;
    EXPECT_LE(t_large->search.lower_bound_ns, t_small->prediction.iteration_ns) << describe(large);
    const double ratio =
        static_cast<double>(t_large->prediction.iteration_ns) / static_cast<double>(t_small->prediction.iteration_ns);
    if (ratio > 1) {
      ++slower;
      worst = std::max(worst, ratio - 1);
    }
  }
  std::printf("%d pairs of which %d have a plan in the small space: %d slower in the large one, worst %.3f %%\n", pairs, compared,
              slower, 100 * worst);
  EXPECT_LE(slower, std::max(1, compared / 20));  // one in a handful is no more than chance
}

}  // namespace
}  // namespace espalier::property::layerwise_test
