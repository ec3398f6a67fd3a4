// SPDX-License-Identifier: Apache-2.0
// Tests concurrent pipelines on random small clusters, in one place or two. The search finds the best of all pairs
// and triples of uniform plans and of all splits of the samples. It states that nothing is faster, and no bound of
// the splits is above the best.
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "mixed_clusters.h"
#include "random_mixed.h"
#include "search/multi_pipeline.h"
#include "search/pipeline_splits.h"

namespace espalier::property::every_pipeline_test {
namespace {

using namespace mixed;  // NOLINT: cases on unlike devices

/// Simulates every choice of uniform plans on two or more groups whose samples add up.
class EverySplit {
 public:
  EverySplit(const Case& c, search::Evaluator& evaluator)
      : case_(c), costs_(c.model, c.cluster, c.problem.training, *c.problem.engine), evaluator_(evaluator) {
    for (std::size_t g = 0; g < c.cluster.groups.size(); ++g) {
      of_.emplace_back();
      for (std::int64_t nodes = 1; nodes <= c.cluster.groups[g].nodes; ++nodes) add_group(g, nodes);
    }
    extend(0, c.problem.training.global_batch);
  }
  std::int64_t best_ns = INT64_MAX;
  std::int64_t plans = 0;
  int shorter = 0;               ///< configurations that took less time with more micro-batches
  std::int64_t below_alone = 0;  ///< plans that took less time than one of their pipelines alone

 private:
  void add_group(std::size_t g, std::int64_t nodes) {
    alone_.push_back(search::group_alone(case_.cluster, g));
    alone_.back().groups.front().nodes = nodes;
    if (nodes == 1) alone_.back().inter.clear();
    search::Problem own = case_.problem;
    own.cluster = &alone_.back();
    own.space = search::space_alone(own.space);
    std::map<std::string, std::int64_t> before;
    for (std::int64_t samples = 1; samples < case_.problem.training.global_batch; ++samples) {
      own.training.global_batch = samples;
      for (const search::Candidate& found : search::exhaustive(own, evaluator_, {}).simulated) {
        of_.back()[samples].push_back(
            {search::in_cluster(own, case_.cluster.first_device(g), found.configuration), found.iteration_ns});
        search::Configuration key = found.configuration;
        key.schedule.microbatches = 1;
        std::int64_t& known = before[canonical_text(key.strategy, key.schedule)];
        shorter += found.iteration_ns < known ? 1 : 0;
        known = found.iteration_ns;
      }
    }
  }
  void extend(std::size_t g, std::int64_t samples) {
    if (g == of_.size()) {
      if (samples == 0 && chosen_.size() > 1) judge();
      return;
    }
    extend(g + 1, samples);
    for (const auto& [own, pipelines] : of_[g]) {
      if (own > samples) break;
      for (const Alone& one : pipelines) {
        chosen_.push_back(one);
        extend(g + 1, samples - own);
        chosen_.pop_back();
      }
    }
  }
  void judge() {
    Plan plan;
    plan.training = case_.problem.training;
    plan.engine = "generic";
    plan.pipelines.clear();
    std::int64_t slowest_ns = 0;
    for (const Alone& one : chosen_) {
      plan.pipelines.push_back(one.pipeline);
      plan.pipelines.back().id = static_cast<std::int32_t>(plan.pipelines.size()) - 1;
      slowest_ns = std::max(slowest_ns, one.ns);
    }
    if (!plan_violations(case_.model, plan).empty()) return;
    ++plans;
    const auto found = evaluator_.evaluate(case_.problem, costs_, plan);
    below_alone += found->iteration_ns < slowest_ns ? 1 : 0;
    if (found->fits) best_ns = std::min(best_ns, found->iteration_ns);
  }

  struct Alone {
    Pipeline pipeline;
    std::int64_t ns = 0;
  };

  const Case& case_;
  const cost::ClusterCosts costs_;
  search::Evaluator& evaluator_;
  std::deque<Cluster> alone_;
  std::vector<std::map<std::int64_t, std::vector<Alone>>> of_;  ///< by samples
  std::vector<Alone> chosen_;
};

/// Returns a case with few enough plans of concurrent pipelines.
std::unique_ptr<Case> case_on(Random& random, const std::string& text) {
  auto c = std::make_unique<Case>(uneven_model(random), text, random.of<std::int64_t>({4, 6, 8}));
  narrow(random, c->problem.space);
  for (const Dimension overlap : {Dimension::overlap_grad, Dimension::overlap_param, Dimension::overlap_p2p})
    c->problem.space.fix(overlap, false);
  return c;
}

TEST(EveryPipeline, TheSearchFindsTheBestSplit) {
  Random random(1717);
  const int clusters = cases(12, 200);
  int with_answer = 0, closed = 0, known = 0;
  long long simulated = 0, plans = 0;
  double share = 0;
  for (int n = 0; n < clusters; ++n) {
    const std::string text = random_cluster(random, false);
    const std::unique_ptr<Case> made = case_on(random, text);
    const Case& c = *made;
    planner::SimulatedEvaluator evaluator(1);
    const search::SingleGroupOutcome alone = search::single_group(c.problem, evaluator, {});
    const search::MultiPipelineOutcome found = search::multi_pipeline(c.problem, evaluator, alone, 0, {});
    const EverySplit all(c, evaluator);
    EXPECT_EQ(all.shorter, 0) << n << ": " << text;
    EXPECT_EQ(all.below_alone, 0) << n << ": " << text;
    if (found.best || found.lower_bound_ns == INT64_MAX) {  // otherwise some plans were not visited
      EXPECT_EQ(found.best.has_value(), all.best_ns < INT64_MAX) << n << ": " << text;
    }
    plans += all.plans;
    simulated += found.simulations;
    if (!found.best) continue;
    ++with_answer;
    EXPECT_LE(found.lower_bound_ns, all.best_ns) << n << ": " << text;
    const std::int64_t bound = search::splits_bound_ns(c.problem, evaluator, found.best->iteration_ns, {});
    EXPECT_LE(bound, all.best_ns) << n << ": " << text;
    known += bound > 0 ? 1 : 0;
    share += static_cast<double>(bound) / static_cast<double>(all.best_ns);
    if (found.lower_bound_ns != found.best->iteration_ns) continue;
    ++closed;
    EXPECT_EQ(found.best->iteration_ns, all.best_ns) << n << ": " << text;
  }
  std::printf(
      "%d clusters, %d with a plan that fits, %d proven best; %lld of %lld plans simulated; %d bounds of splits, %.2f of the "
      "best\n",
      clusters, with_answer, closed, simulated, plans, known, known > 0 ? share / known : 0.0);
  EXPECT_GE(with_answer * 10, clusters * 5);
  EXPECT_GE(closed * 2, with_answer);  // pipelines on fewer nodes are part of the space
  EXPECT_GE(known * 2, with_answer);
}

/// Returns the longest time that a pipeline of the plan takes alone, as a job of its own samples.
std::int64_t slowest_alone_ns(const Case& c, search::Evaluator& evaluator, const std::vector<Pipeline>& pipelines) {
  std::int64_t most = 0;
  for (const Pipeline& pipeline : pipelines) {
    search::Problem own = c.problem;
    own.training.global_batch = pipeline.samples;
    const cost::ClusterCosts costs(c.model, c.cluster, own.training, *own.engine);
    Plan plan;
    plan.training = own.training;
    plan.engine = "generic";
    plan.pipelines = {pipeline};
    most = std::max(most, evaluator.evaluate(own, costs, plan)->iteration_ns);
  }
  return most;
}

// Packed samples of unlike length are less even with fewer micro-batches in a pipeline: its own number counts. No
// statement about splits is made then.
TEST(EveryPipeline, PackedSamplesAreAsUnevenAsEachPipelinesOwn) {
  Random random(1718);
  const int clusters = cases(8, 100);
  int with_answer = 0, closed = 0;
  for (int n = 0; n < clusters; ++n) {
    const std::string text = random_cluster(random, false);
    const std::unique_ptr<Case> made = case_on(random, text);
    Case& c = *made;
    c.problem.training.sequence.main = 4096;
    c.problem.training.lengths = {{{64, 60}, {4096, 2}}, random.of<Packing>({Packing::packed, Packing::balanced})};
    planner::SimulatedEvaluator evaluator(1);
    const search::SingleGroupOutcome alone = search::single_group(c.problem, evaluator, {});
    const search::MultiPipelineOutcome found = search::multi_pipeline(c.problem, evaluator, alone, 0, {});
    if (!found.best) continue;
    ++with_answer;
    const EverySplit all(c, evaluator);
    EXPECT_LE(found.lower_bound_ns, all.best_ns) << n << ": " << text;
    EXPECT_LE(search::splits_bound_ns(c.problem, evaluator, found.best->iteration_ns, {}), all.best_ns);
    EXPECT_GE(found.best->iteration_ns, slowest_alone_ns(c, evaluator, found.best->pipelines)) << n << ": " << text;
    if (found.lower_bound_ns != found.best->iteration_ns) continue;
    ++closed;
    EXPECT_EQ(found.best->iteration_ns, all.best_ns) << n << ": " << text;
  }
  std::printf("%d clusters, %d with a plan that fits, %d proven best\n", clusters, with_answer, closed);
  EXPECT_GE(with_answer * 10, clusters * 4);
  EXPECT_GE(closed * 10, with_answer * 4);
}

}  // namespace
}  // namespace espalier::property::every_pipeline_test
