// SPDX-License-Identifier: Apache-2.0
// Plans on groups of unlike devices: the phase against every chain of stages that its options can make, and what must be true of any answer.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/format.h"
#include "espalier/cluster.h"
#include "espalier/model.h"
#include "planner/simulated_evaluator.h"
#include "search/each_group.h"

namespace espalier {
namespace {

using base::cat;

Model small_model(int blocks) {
  return load_model(cat(R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 8,
    "num_key_value_heads": 8, "num_hidden_layers": )",
                        blocks, R"(, "vocab_size": 8192, "max_position_embeddings": 2048})"),
                    "test")
      .value();
}

/// A device of its own: peak in TFLOP/s, memory in GiB.
std::string device(const std::string& name, double tflops, int gib) {
  return cat("{name: ", name, ", peak_tflops: {bf16: ", std::to_string(tflops), "}, memory: ", gib,
             "GiB, memory_bandwidth: 1TB/s}");
}

struct Case {
  Model model;
  Cluster cluster;
  search::Problem problem;
  Case(int blocks, const std::string& cluster_text, std::int64_t batch) : model(small_model(blocks)) {
    auto loaded = load_cluster(cluster_text, "test");
    EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message());
    cluster = loaded.value();
    problem.model = &model;
    problem.cluster = &cluster;
    problem.training.sequence.main = 512;
    problem.training.global_batch = batch;
    problem.engine = find_engine("generic");
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;
};

std::string group(std::int64_t nodes, std::int64_t devices, const std::string& kind) {
  return cat(
      "{nodes: ", nodes, ", devices_per_node: ", devices, ", device: ", kind,
      ", intra_node: {bandwidth: 100GB/s, latency: 2us}, inter_node: {bandwidth: 100Gb/s, nics_per_node: 1, latency: 5us}}");
}

search::DeviceGroupsOutcome found(const Case& c) {
  planner::SimulatedEvaluator evaluator(1);
  return search::device_groups(c.problem, evaluator, {});
}

/// Simulates every chain of stages.
class Exhaustive {
 public:
  explicit Exhaustive(const Case& c)
      : case_(c), costs_(c.model, c.cluster, c.problem.training, *c.problem.engine), units_(search::unit_devices(c.cluster)) {}
  std::int64_t best() {
    const std::int64_t batch = case_.problem.training.global_batch;
    for (std::int64_t samples = 1; samples <= batch; ++samples) {
      if (batch % samples != 0) continue;
      options_ = search::stage_options(case_.problem, costs_, samples);
      samples_ = samples;
      std::vector<std::int64_t> left;
      for (std::size_t g = 0; g < units_.size(); ++g)
        left.push_back(case_.cluster.groups[g].nodes * case_.cluster.groups[g].devices_per_node / units_[g]);
      stages_.clear();
      extend(0, left);
    }
    return best_;
  }

 private:
  void extend(std::int32_t first, const std::vector<std::int64_t>& left) {
    const auto layers = static_cast<std::int32_t>(case_.model.layers.size());
    if (first == layers) return judge();
    for (std::size_t o = 0; o < options_.options.size(); ++o) {
      const solve::StageOption& option = options_.options[o];
      if (left[static_cast<std::size_t>(option.kind)] < option.units) continue;
      std::vector<std::int64_t> rest = left;
      rest[static_cast<std::size_t>(option.kind)] -= option.units;
      for (std::int32_t last = first; last < layers; ++last) {
        stages_.push_back({static_cast<std::int32_t>(o), first, last});
        extend(last + 1, rest);
        stages_.pop_back();
      }
    }
  }
  void judge() {
    Plan plan;
    plan.training = case_.problem.training;
    plan.engine = "generic";
    plan.pipelines = {search::pipeline_of(case_.problem, options_, stages_, samples_)};
    const auto result = evaluator_.evaluate(case_.problem, costs_, plan);
    if (result->fits) best_ = std::min(best_, result->iteration_ns);
  }

  const Case& case_;
  const cost::ClusterCosts costs_;
  const std::vector<std::int64_t> units_;
  planner::SimulatedEvaluator evaluator_{1};
  search::StageOptions options_;
  std::int64_t samples_ = 1;
  std::vector<solve::GroupedStage> stages_;
  std::int64_t best_ = INT64_MAX;
};

/// The lower bound is one, and the answer is no further from the best of all plans than the certificate says.
TEST(DeviceGroups, TheCertificateHoldsAgainstEveryChain) {
  std::mt19937 random(7);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int equal = 0, cases = 0;
  double worst = 1;
  for (int n = 0; n < 30; ++n) {
    const std::string text = cat("{groups: [", group(1, pick(1, 2) * 2, device("fast", pick(100, 300), pick(2, 8))), ", ",
                                 group(pick(1, 2), pick(1, 2), device("slow", pick(20, 100), pick(2, 8))),
                                 "], inter_group: {bandwidth: ", pick(1, 100), "Gb/s, latency: ", pick(5, 200), "us}}");
    Case c(pick(2, 3), text, 4 * pick(1, 2));
    c.problem.space.allow["zero"] = {pick(0, 1)};
    c.problem.space.allow["sp"] = {0};
    c.problem.space.allow["recompute"] = {pick(0, 1) * 2};
    const search::DeviceGroupsOutcome outcome = found(c);
    const std::int64_t best = Exhaustive(c).best();
    ASSERT_EQ(outcome.best.has_value(), best < INT64_MAX) << text;
    if (!outcome.best) continue;
    ++cases;
    equal += outcome.best->iteration_ns == best ? 1 : 0;
    worst = std::max(worst, static_cast<double>(outcome.best->iteration_ns) / static_cast<double>(best));
    EXPECT_LE(outcome.lower_bound_ns, best) << text;
    EXPECT_GE(outcome.best->iteration_ns, best) << text;
    EXPECT_LE(outcome.lower_bound_ns, outcome.best->iteration_ns) << text;
  }
  EXPECT_GE(cases, 20);
  RecordProperty("equal", equal);
  EXPECT_LE(worst, 1.1);
  EXPECT_GE(equal * 10, cases * 8) << equal << " of " << cases;
}

/// The best uniform plan of each group, put on its devices in the cluster, takes what it takes when the group is all there is; with a device at half
/// its speed the group takes twice as long for its compute.
TEST(EachGroup, AloneInTheClusterAsOnItsOwn) {
  const std::string fast = group(1, 4, device("fast", 200, 16));
  std::string slow = group(2, 2, device("slow", 80, 32));
  slow.insert(slow.size() - 1, ", speed: {\"rank:5\": 0.5}");
  const Case mixed(8, cat("{groups: [", fast, ", ", slow, "], inter_group: {bandwidth: 50Gb/s, latency: 10us}}"), 16);
  planner::SimulatedEvaluator evaluator(1);
  const search::EachGroupOutcome found = search::each_group(mixed.problem, evaluator, {});
  ASSERT_EQ(found.groups.size(), 2U);
  ASSERT_TRUE(found.best && found.groups[0].best && found.groups[1].best);
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(found.lower_bound_ns, found.best->iteration_ns);
  Case alone(8, cat("{groups: [", fast, "]}"), 16);
  alone.problem.space = search::space_alone(alone.problem.space);
  const search::Outcome own = search::branch_and_bound(alone.problem, evaluator, {});
  ASSERT_TRUE(own.best);
  EXPECT_EQ(found.groups[0].best->iteration_ns, own.best->iteration_ns);
  EXPECT_GT(found.groups[1].best->iteration_ns,
            2 * found.groups[0].best->iteration_ns);  // 80 at half speed against 200, beside the host
}

/// 1:2 in speed: the layers of two stages divide 1:2, within one.
TEST(DeviceGroups, LayersFollowSpeed) {
  Case c(24,
         cat("{groups: [", group(1, 1, device("fast", 200, 64)), ", ", group(1, 1, device("slow", 100, 64)),
             "], inter_group: {bandwidth: 400Gb/s, latency: 1us}}"),
         32);
  c.problem.space.allow["recompute"] = {0};
  const search::DeviceGroupsOutcome outcome = found(c);
  ASSERT_TRUE(outcome.best);
  const std::vector<Stage>& stages = outcome.best->pipelines.front().stages;
  ASSERT_EQ(stages.size(), 2U);
  for (const Stage& stage : stages) {
    const int layers = stage.chunks.front().last() - stage.chunks.front().first() + 1;
    EXPECT_NEAR(layers, stage.devices.front().first == 0 ? 17.3 : 8.7, 1.5);
  }
}

/// A device a thousand times slower gets nothing.
TEST(DeviceGroups, AHopelessDeviceIsLeftOut) {
  Case c(8,
         cat("{groups: [", group(1, 2, device("fast", 200, 32)), ", ", group(1, 2, device("hopeless", 0.2, 32)),
             "], inter_group: {bandwidth: 100Gb/s, latency: 5us}}"),
         16);
  const search::DeviceGroupsOutcome outcome = found(c);
  ASSERT_TRUE(outcome.best);
  for (const Stage& stage : outcome.best->pipelines.front().stages) EXPECT_LT(stage.devices.front().first, 2);
}

/// The same devices in another order of groups: the same time.
TEST(DeviceGroups, TheOrderOfGroupsDoesNotMatter) {
  const std::string fast = group(1, 4, device("fast", 200, 16)), slow = group(2, 2, device("slow", 80, 32));
  const std::string join = "], inter_group: {bandwidth: 50Gb/s, latency: 10us}}";
  const Case a(8, cat("{groups: [", fast, ", ", slow, join), 16), b(8, cat("{groups: [", slow, ", ", fast, join), 16);
  const auto x = found(a), y = found(b);
  ASSERT_TRUE(x.best && y.best);
  EXPECT_EQ(x.best->iteration_ns, y.best->iteration_ns);
  EXPECT_EQ(x.lower_bound_ns, y.lower_bound_ns);
}

}  // namespace
}  // namespace espalier
