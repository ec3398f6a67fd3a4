// SPDX-License-Identifier: Apache-2.0
// Tests that each bound of the search holds for every configuration below its node: layer choice, schedule, ZeRO
// stage and shard group, and the configuration itself. More recomputed layers never need more memory or less time.
#include <gtest/gtest.h>

#include "plan/engine.h"
#include "random_problem.h"
#include "search/pipeline_floor.h"

namespace espalier::property::group_bounds_test {
namespace {

const int kProblems = cases(120, 2000);

std::string name(const Configuration& c) { return canonical_text(c.strategy, c.schedule); }

/// Walks the tree of one problem and compares every node with every configuration below it.
class Walk {
 public:
  explicit Walk(const RandomProblem& p)
      : problem_(p), space_(p.model, p.cluster, p.training, *p.engine, p.space), book_(p.view()), evaluator_(1) {}

  void run() {
    space_.layer_group([&](const Configuration& c) {
      if (failed()) return;
      book_.prepare(c.schedule.stages);
      cost::layer_costs(book_.context(), c.strategy, c.schedule.stages, c.schedule.micro_batch, w_.layers);
      layer_ns_ = layer_group_bound_ns(book_, c, w_);
      layer_bytes_ = layer_group_least_bytes(book_, c, w_);
      space_.schedule_group(c, [&](const Configuration& b) { schedule(b); });
    });
  }
  [[nodiscard]] std::int64_t configurations() const { return configurations_; }
  [[nodiscard]] std::int64_t tight() const { return tight_; }
  [[nodiscard]] std::int64_t floors_tight() const { return floors_tight_; }

 private:
  static bool failed() { return ::testing::Test::HasFailure(); }

  void schedule(const Configuration& b) {
    schedule_ns_.clear();
    for (const Configuration& r : ladder(b)) schedule_ns_[r.strategy.recompute] = schedule_group_bound_ns(book_, r, w_);
    space_.shard_group(b, [&](const Configuration& s) { shard(s); });
  }

  void shard(const Configuration& s) {
    shard_ns_.clear();
    for (const Configuration& r : ladder(s)) shard_ns_[r.strategy.recompute] = shard_group_bound_ns(book_, r, w_);
    space_.overlap_group(s, [&](const Configuration& o) {
      previous_full_ = nullptr;
      for (const Configuration& r : ladder(o))
        if (!failed()) leaf(r);
    });
  }

  std::vector<Configuration> ladder(const Configuration& c) const {
    std::vector<Configuration> out;
    space_.recompute_group(c, [&](const Configuration& r) { out.push_back(r); });
    return out;
  }

  void leaf(const Configuration& c) {
    ++configurations_;
    assemble(book_, c, w_);
    const std::int64_t time = evaluator_.iteration_ns(w_.structure, w_.costs, 0),
                       peak = evaluator_.peak_bytes(w_.structure, w_.costs, 0);
    const std::int64_t bound = cost::iteration_lower_bound_ns(w_.costs, w_.structure);
    const std::string where = name(c) + "\n" + describe(problem_);
    // Without columns, gradients on their way to a host that the backward pass does not hide are left
    // out (cost/offload.h, least_host_ns).
    const bool hides = c.strategy.offload != Offload::none && problem_.engine->communication.overlaps_offload;
    const std::int64_t alone = configuration_bound_ns(book_, c, w_);
    EXPECT_LE(alone, bound) << "without columns, " << where;
    if (!hides) {
      EXPECT_EQ(alone, bound) << "without columns, " << where;
    }
    EXPECT_LE(bound, time) << where;
    const std::int64_t floor = search::pipeline_floor_ns(evaluator_, w_, 0);
    EXPECT_LE(floor, time) << "pipeline alone, " << where;
    floors_tight_ += floor == time;
    EXPECT_LE(layer_ns_, time) << "layer group, " << where;
    EXPECT_LE(layer_bytes_, peak) << "layer group, " << where;
    EXPECT_LE(peak_bound_bytes(w_), peak) << where;
    tight_ += bound == time;
    EXPECT_LE(largest_below(schedule_ns_, c.strategy.recompute), time) << "schedule group, " << where;
    EXPECT_LE(largest_below(shard_ns_, c.strategy.recompute), time) << "shard group, " << where;
    if (c.strategy.recompute.kind != RecomputeKind::full) return;
    if (previous_full_ != nullptr) {
      EXPECT_LE(peak_bound_bytes(w_), full_.peak_bound) << "more recomputation needs more memory, " << where;
      EXPECT_LE(peak, full_.peak) << "more recomputation needs more memory, " << where;
      if (!offloads_activations(c.strategy.offload)) {  // with it the search tries every recomputation
        EXPECT_GE(alone, full_.bound) << "more recomputation is faster, " << where;
      }
    }
    full_ = {peak_bound_bytes(w_), peak, alone};  // the search uses these to skip more recomputation
    previous_full_ = &full_;
  }

  /// Returns the largest bound that the search may use for configurations with recomputation `r`.
  static std::int64_t largest_below(const std::map<Recompute, std::int64_t>& bounds, const Recompute& r) {
    std::int64_t most = 0;
    for (const auto& [recompute, ns] : bounds)
      if (no_more_work(recompute, r)) most = std::max(most, ns);
    return most;
  }
  /// Returns true if recomputation `a` by definition costs no more time than `b`. The search relies on bounds
  /// in this order.
  static bool no_more_work(const Recompute& a, const Recompute& b) {
    if (a.kind == RecomputeKind::none) return true;
    return a.kind == b.kind && a.layers <= b.layers;
  }

  struct Full {
    std::int64_t peak_bound = 0, peak = 0, bound = 0;
  };
  const RandomProblem& problem_;
  search::Space space_;
  search::CostBook book_;
  planner::SimulatedEvaluator evaluator_;
  search::Workspace w_;
  std::int64_t layer_ns_ = 0, layer_bytes_ = 0, configurations_ = 0, tight_ = 0, floors_tight_ = 0;
  std::map<Recompute, std::int64_t> schedule_ns_, shard_ns_;
  Full full_;
  const Full* previous_full_ = nullptr;
};

TEST(GroupBounds, HoldForEveryConfigurationBelow) {
  std::int64_t configurations = 0, tight = 0, floors_tight = 0;
  for (int i = 0; i < kProblems && !HasFailure(); ++i) {
    const RandomProblem p = random_problem(i);
    Walk walk(p);
    walk.run();
    configurations += walk.configurations();
    tight += walk.tight();
    floors_tight += walk.floors_tight();
  }
  EXPECT_GT(configurations, 100 * kProblems);
  EXPECT_GT(tight, configurations / 10);
  EXPECT_GT(floors_tight, configurations / 10);
}

}  // namespace
}  // namespace espalier::property::group_bounds_test
