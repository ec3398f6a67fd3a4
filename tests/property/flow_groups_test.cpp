// SPDX-License-Identifier: Apache-2.0
// Tests plans on random clusters of several node groups under the flow-level network. Stages have unlike numbers of
// devices, of one group or across them; there are one or two pipelines. Groups are joined by a level or by links of
// all kinds of sharing. Plans are never faster than the closed form, and equal to the nanosecond where one thing
// happens at a time.
#include <gtest/gtest.h>

#include <string>

#include "base/format.h"
#include "cluster/topology_builders.h"
#include "cost/rank_contexts.h"
#include "espalier/cluster.h"
#include "espalier/model.h"
#include "plan/engine.h"
#include "plan/process_groups.h"
#include "random.h"
#include "sim/clock.h"
#include "sim/flow_executor.h"
#include "sim/program_traffic.h"
#include "sim/topology_network.h"
#include "toy_clusters.h"

namespace espalier::property::flow_groups_test {
namespace {

const int kProblems = cases(400, 4000);
constexpr std::int64_t kSamples = 4;  // samples of a micro-batch

Model model_of(const std::string& tied) {
  return load_model(cat(R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 704, "num_attention_heads": 4,
    "num_key_value_heads": 4, "num_hidden_layers": 6, "vocab_size": 1024, "max_position_embeddings": 256, "tie_word_embeddings": )",
                        tied, "}"),
                    "test")
      .value();
}

/// Returns models with and without the gradient of the table shared between first and last stage.
const Model& tied() {
  static const Model made = model_of("true");
  return made;
}
const Model& untied() {
  static const Model made = model_of("false");
  return made;
}

std::string join_of(Random& random, int groups) {
  const std::string gbits = cat(random.of(std::vector<int>{1, 10, 100}), "Gb/s");
  const std::string delay = random.of(std::vector<std::string>{"5us", "100us", "20ms"});
  if (random.one_in(2)) return cat("inter_group: {bandwidth: ", gbits, ", latency: ", delay, ", nics_per_node: 1}");
  std::string links;
  for (int a = 0; a < groups; ++a)
    for (int b = a + 1; b < groups; ++b)
      links += cat(links.empty() ? "" : ", ", "{from: g", a, ", to: g", b, ", bandwidth: ", gbits, ", latency: ", delay,
                   ", sharing: ", random.of(std::vector<std::string>{"line", "node", "node_pair"}), ", both: true}");
  return cat("links: [", links, "]");
}

Cluster any_cluster(Random& random) {
  const int groups = static_cast<int>(random.between(2, 3));
  std::string text;
  std::int64_t first_node = 0;
  for (int g = 0; g < groups; ++g) {
    const std::int64_t nodes = random.between(1, 2);
    text +=
        cat(g == 0 ? "" : ", ", "{name: g", g, ", nodes: ", nodes, ", devices_per_node: ", random.of(std::vector<int>{1, 2, 4}),
            ", device: ", random.of(std::vector<std::string>{"a100-sxm-40gb", "v100-sxm-16gb", "h100-sxm-80gb"}),
            random.one_in(3) ? cat(", speed: {\"node:", first_node, "\": 0.5}") : "",
            ", inter_node: {bandwidth: 25Gb/s, nics_per_node: 1, latency: 20us}}");
    first_node += nodes;
  }
  auto cluster = load_cluster(cat("{groups: [", text, "], ", join_of(random, groups), "}"), "test");
  EXPECT_TRUE(cluster.ok()) << (cluster.ok() ? "" : cluster.error().message());
  return cluster.value();
}

/// Takes devices one after the other; a stage is in one group, or (spread) on any devices in any order.
class PlanMaker {
 public:
  PlanMaker(const Cluster& cluster, Random& random) : cluster_(cluster), random_(random) {
    for (std::int64_t d = 0; d < cluster.devices(); ++d) free_.push_back(d);
  }

  Plan make(bool alone) {
    Plan plan;
    plan.engine = "generic";
    plan.training.sequence.main = 256;
    plan.training.precision = Precision::fp16;
    plan.pipelines.clear();
    const std::int64_t pipelines = alone ? 1 : random_.between(1, 2);
    spread_ = !alone && random_.one_in(3);
    for (std::int64_t k = 0; k < pipelines; ++k)
      if (auto pipeline = make_pipeline(static_cast<std::int32_t>(k), alone); !pipeline.stages.empty()) {
        plan.training.global_batch += pipeline.samples;
        plan.pipelines.push_back(std::move(pipeline));
      }
    return plan;
  }

 private:
  Pipeline make_pipeline(std::int32_t id, bool alone) {
    Pipeline out;
    out.id = id;
    std::vector<Strategy> strategies;
    const std::int64_t wanted = random_.between(1, 3);
    while (static_cast<std::int64_t>(out.stages.size()) < wanted &&
           take(alone ? 1 : random_.of(std::vector<std::int64_t>{1, 2, 4}), out))
      strategies.push_back(any_strategy(devices_of(out.stages.back().devices).size(), alone));
    if (out.stages.empty()) return out;
    const auto stages = static_cast<std::int32_t>(out.stages.size());
    const std::int32_t layers = static_cast<std::int32_t>(tied().layers.size());
    for (std::int32_t i = 0; i < stages; ++i)
      if (strategies[static_cast<std::size_t>(i)].dp == 2 && random_.one_in(4))
        out.stages[static_cast<std::size_t>(i)].samples_per_replica = {kSamples - 1, 1};
    for (std::int32_t i = 0; i < stages; ++i)
      out.stages[static_cast<std::size_t>(i)].chunks = {
          Chunk{{LayerRange{i * layers / stages, (i + 1) * layers / stages - 1, strategies[static_cast<std::size_t>(i)]}}}};
    out.schedule.stages = stages;
    out.schedule.microbatches = alone ? 1 : static_cast<std::int32_t>(random_.between(1, 4));
    out.schedule.micro_batch = static_cast<std::int32_t>(kSamples / strategies.front().dp);
    out.samples = kSamples * out.schedule.microbatches;
    return out;
  }

  Strategy any_strategy(std::size_t devices, bool alone) {
    Strategy s;
    s.tp =
        static_cast<std::int32_t>(random_.of(devices % 2 == 0 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{1}));
    s.dp = static_cast<std::int32_t>(devices) / s.tp;
    s.zero = s.dp > 1 && !alone ? random_.of(std::vector<ZeroStage>{ZeroStage::none, ZeroStage::optimizer, ZeroStage::parameters})
                                : ZeroStage::none;
    s.shard = s.shards_optimizer() ? s.dp : 1;
    s.overlap.p2p = random_.one_in(2);
    return s;
  }

  bool take(std::int64_t count, Pipeline& out) {
    if (spread_) {
      if (static_cast<std::int64_t>(free_.size()) < count) return false;
      Stage stage;
      for (std::int64_t n = 0; n < count; ++n) {
        const auto at = static_cast<std::ptrdiff_t>(random_.below(free_.size()));
        stage.devices.push_back({free_[static_cast<std::size_t>(at)], 1, 1});
        free_.erase(free_.begin() + at);
      }
      out.stages.push_back(stage);
      return true;
    }
    for (std::size_t n = 0; n + static_cast<std::size_t>(count) <= free_.size(); ++n) {
      const std::int64_t first = free_[n], last = free_[n + static_cast<std::size_t>(count) - 1];
      if (last - first != count - 1 || cluster_.group_of(first) != cluster_.group_of(last)) continue;
      out.stages.push_back(Stage{{{first, count, 1}}, {}});
      free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(n), free_.begin() + static_cast<std::ptrdiff_t>(n) + count);
      return true;
    }
    return false;
  }

  const Cluster& cluster_;
  Random& random_;
  std::vector<std::int64_t> free_;
  bool spread_ = false;
};

struct Both {
  std::int64_t closed_ns = 0, flow_ns = 0;
};

Both run_both(const Model& model, const Cluster& cluster, const Plan& plan) {
  const cost::ClusterCosts c(model, cluster, plan.training, *find_engine("generic"));
  Program program;
  const cost::Costs costs = cost::price(c, plan, program);
  const auto topology = cluster::topology_of(cluster);
  EXPECT_TRUE(topology.ok());
  const cost::RankContexts contexts = cost::rank_contexts(c, plan, program);
  sim::FlowExecutor flow(sim::flow_network(*topology), sim::traffic_of(contexts, plan, program, costs, *topology));
  sim::Engine closed;
  EXPECT_TRUE(closed.run(program, costs, false));
  EXPECT_TRUE(flow.run(program, costs, true));
  return {closed.iteration_ns(), flow.iteration_ns()};
}

TEST(FlowGroups, AreNeverFasterThanTheClosedForm) {
  int ran = 0, several = 0, later = 0;
  for (int i = 0; i < kProblems; ++i) {
    Random random(static_cast<std::uint64_t>(i));
    const Cluster cluster = any_cluster(random);
    const Plan plan = PlanMaker(cluster, random).make(false);
    if (plan.pipelines.empty()) continue;
    const Both both = run_both(tied(), cluster, plan);
    EXPECT_GE(both.flow_ns, both.closed_ns) << i;
    ++ran;
    several += plan.pipelines.size() > 1 ? 1 : 0;
    later += both.flow_ns > both.closed_ns ? 1 : 0;
  }
  EXPECT_GT(ran, kProblems / 2);
  EXPECT_GT(several, kProblems / 10);
  EXPECT_GT(later, kProblems / 10);
}

// One micro-batch goes through one pipeline of single devices, so no two transfers are in flight at once.
TEST(FlowGroups, EqualTheClosedFormWhereOneThingHappensAtATime) {
  for (int i = 0; i < kProblems; ++i) {
    Random random(static_cast<std::uint64_t>(i));
    const Cluster cluster = any_cluster(random);
    const Plan plan = PlanMaker(cluster, random).make(true);
    const Both both = run_both(untied(), cluster, plan);
    EXPECT_EQ(both.flow_ns, both.closed_ns) << i;
  }
}

}  // namespace
}  // namespace espalier::property::flow_groups_test
