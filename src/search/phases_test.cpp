// SPDX-License-Identifier: Apache-2.0
// Tests the combined result of the phases: which plan is the answer, and what the certificate may claim.
#include "search/phases.h"

#include <gtest/gtest.h>

#include "espalier/cluster.h"
#include "espalier/model.h"
#include "plan/engine.h"

namespace espalier::search {
namespace {

Outcome uniform_of(std::int64_t best_ns, std::int64_t bound_ns, bool complete) {
  Outcome out;
  Candidate c;
  c.iteration_ns = best_ns;
  if (best_ns > 0) out.best = c;
  out.lower_bound_ns = bound_ns;
  out.complete = complete;
  return out;
}

LayerwiseOutcome layered_of(std::int64_t best_ns, std::int64_t bound_ns) {
  LayerwiseOutcome out;
  LayeredCandidate c;
  c.iteration_ns = best_ns;
  c.configuration.chunks = {{LayerRange{}}};
  if (best_ns > 0) out.best = c;
  out.lower_bound_ns = bound_ns;
  return out;
}

PhaseSummary begun(std::string_view name) {
  PhaseSummary phase{std::string(name), false, true};
  phase.counters[SearchCounter::bounded] = 0;
  return phase;
}

SearchResult found_of(const Outcome& uniform, const LayerwiseOutcome& layered) {
  SearchResult all;
  all.uniform = uniform;
  all.layered = layered;
  all.phases = {begun(kUniformPhase), begun(kLayersPhase)};
  return all;
}

// The uniform plan takes 1,000,000 ns; a layer-wise plan counts if it takes at least 500 ns less (0.05 %).
TEST(Phases, ALayerWisePlanMustBeWorthItsLayers) {
  const SearchResult little = found_of(uniform_of(1'000'000, 1'000'000, true), layered_of(999'500, 900'000));
  EXPECT_EQ(little.best_ns(), 1'000'000);
  EXPECT_TRUE(little.best()->chunks.empty());
  const SearchResult more = found_of(uniform_of(1'000'000, 1'000'000, true), layered_of(999'499, 900'000));
  EXPECT_EQ(more.best_ns(), 999'499);
  EXPECT_EQ(more.best()->chunks.size(), 1U);
}

// The certificate is the least of the bounds; for a complete uniform search this is the answer itself.
TEST(Phases, OneCertificate) {
  EXPECT_EQ(found_of(uniform_of(1'000'000, 1'000'000, true), layered_of(0, 980'000)).lower_bound_ns(), 980'000);
  EXPECT_EQ(found_of(uniform_of(1'000'000, 700'000, false), layered_of(0, 980'000)).lower_bound_ns(), 700'000);
  EXPECT_TRUE(found_of(uniform_of(1, 1, true), layered_of(0, 1)).complete());
  EXPECT_FALSE(found_of(uniform_of(1, 1, false), layered_of(0, 1)).complete());
}

TEST(Phases, NothingIsKnownOfAPhaseThatDidNotBegin) {
  SearchResult all;
  all.uniform = uniform_of(1'000'000, 1'000'000, true);
  all.phases = {begun(kUniformPhase), {std::string(kLayersPhase), true}};
  EXPECT_EQ(all.lower_bound_ns(), 0);
  EXPECT_FALSE(all.complete());
  EXPECT_TRUE(all.left_out());
}

TEST(Phases, NothingFits) {
  SearchResult all;
  all.uniform = uniform_of(0, 0, true);
  EXPECT_FALSE(all.best());
  EXPECT_EQ(all.best_ns(), 0);
}

/// Evaluates plans by the id of their pipeline alone: 7 takes 5 ns, 8 takes 4 and does not fit, 9 takes 6; all others
/// take very long.
class ById final : public Evaluator {
 public:
  std::int64_t peak_bytes(const ProgramStructure&, const cost::Costs&, int) override { return 0; }
  std::int64_t iteration_ns(const ProgramStructure&, const cost::Costs&, const CandidatePlan&, int) override { return 1; }
  std::optional<PlanEvaluation> evaluate(const Problem&, const cost::ClusterCosts&, const Plan& plan) override {
    const std::int32_t id = plan.only_pipeline().id;
    if (id == 7 || id == 9) return PlanEvaluation{id == 7 ? 5 : 6, true};
    if (id == 8) return PlanEvaluation{4, false};
    return PlanEvaluation{INT64_MAX / 4, true};
  }
};

/// Holds two blocks on one A100 and one H100.
struct OneOfEach {
  const Model model =
      load_model(R"({"model_type": "gpt2", "n_embd": 256, "n_layer": 2, "n_head": 4, "n_positions": 512, "vocab_size": 1000})",
                 "test")
          .value();
  const Cluster cluster =
      load_cluster(
          "{groups: [{nodes: 1, devices_per_node: 1, device: a100-sxm-40gb}, {nodes: 1, devices_per_node: 1, device: "
          "h100-sxm-80gb}], inter_group: {bandwidth: 100Gb/s, latency: 5us}}",
          "test")
          .value();
  Problem problem;
  OneOfEach() {
    problem.model = &model;
    problem.cluster = &cluster;
    problem.training.sequence.main = 128;
    problem.training.global_batch = 4;
    problem.training.precision = Precision::fp16;
    problem.engine = find_engine("generic");
  }
  OneOfEach(const OneOfEach&) = delete;
  OneOfEach& operator=(const OneOfEach&) = delete;
};

// The fastest start that fits is the answer where the phase finds nothing faster. Starts are counted among its
// candidates.
TEST(Phases, DeviceGroupsBeginWithWhatIsHandedIn) {
  const OneOfEach f;
  PhaseOptions options;
  options.any_devices = true;
  options.left_out = {"each group", "unlike pipelines", "unequal replicas"};
  for (const std::int32_t id : {9, 7, 8}) {
    options.starts.emplace_back();
    options.starts.back().id = id;
  }
  ById evaluator;
  const SearchResult found = search(f.problem, evaluator, options);
  EXPECT_EQ(found.best_ns(), 5);
  ASSERT_EQ(found.best()->pipelines.size(), 1U);
  EXPECT_EQ(found.best()->pipelines.front().id, 7);
  EXPECT_GE(found.grouped->simulations, 3);
  EXPECT_GE(found.grouped->candidates + found.grouped->refined, found.grouped->simulations);
  EXPECT_EQ(found.grouped->out_of_memory, 1);
  EXPECT_LE(found.lower_bound_ns(), 5);
}

// Where every device must have work, a start on one of two devices does not count, though it is faster.
TEST(Phases, StartsThatLeaveADeviceOutAreNoneWhereAllMustHaveWork) {
  OneOfEach f;
  f.problem.space.devices = DeviceChoice::all;
  PhaseOptions options;
  options.any_devices = true;
  options.left_out = {"each group", "unlike pipelines", "unequal replicas"};
  for (const std::int32_t id : {7, 9}) {
    options.starts.emplace_back();
    options.starts.back().id = id;
    options.starts.back().stages.resize(1);
    options.starts.back().stages.front().devices = {{0, id == 7 ? 1 : 2, 1}};
  }
  ById evaluator;
  EXPECT_EQ(search(f.problem, evaluator, options).best()->pipelines.front().id, 9);
}

TEST(Phases, Names) {
  EXPECT_EQ(phase_names(), (std::vector<std::string>{"uniform", "layer-wise", "operators", "operators by layer", "each group",
                                                     "device groups", "whole cluster", "unlike pipelines", "unequal replicas"}));
}

}  // namespace
}  // namespace espalier::search
