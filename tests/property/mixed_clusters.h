// SPDX-License-Identifier: Apache-2.0
// Provides small clusters of unlike devices, and simulates every chain of stages that can be made on one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "espalier/cluster.h"
#include "espalier/model.h"
#include "plan/engine.h"
#include "plan/rules.h"
#include "plan/stage_schedules.h"
#include "planner/simulated_evaluator.h"
#include "search/device_groups.h"

namespace espalier::property::mixed {

inline Model small_model(int blocks) {
  return load_model(cat(R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 8,
    "num_key_value_heads": 8, "num_hidden_layers": )",
                        blocks, R"(, "vocab_size": 8192, "max_position_embeddings": 2048})"),
                    "test")
      .value();
}

/// Returns a custom device: peak in TFLOP/s, memory in GiB.
inline std::string device(const std::string& name, double tflops, int gib) {
  return cat("{name: ", name, ", peak_tflops: {bf16: ", std::to_string(tflops), "}, memory: ", gib,
             "GiB, memory_bandwidth: 1TB/s}");
}

struct Case {
  Model model;
  Cluster cluster;
  search::Problem problem;
  Case(int blocks, const std::string& cluster_text, std::int64_t batch) : Case(small_model(blocks), cluster_text, batch) {}
  Case(Model of, const std::string& cluster_text, std::int64_t batch) : model(std::move(of)) {
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

inline std::string group(std::int64_t nodes, std::int64_t devices, const std::string& kind) {
  return cat(
      "{nodes: ", nodes, ", devices_per_node: ", devices, ", device: ", kind,
      ", intra_node: {bandwidth: 100GB/s, latency: 2us}, inter_node: {bandwidth: 100Gb/s, nics_per_node: 1, latency: 5us}}");
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
  [[nodiscard]] std::int64_t plans() const { return plans_; }

 private:
  void extend(std::int32_t first, const std::vector<std::int64_t>& left) {
    const auto layers = static_cast<std::int32_t>(case_.model.layers.size());
    const bool all = case_.problem.space.devices == DeviceChoice::all;
    if (first == layers && all && std::any_of(left.begin(), left.end(), [](std::int64_t n) { return n > 0; })) return;
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
    if (!plan_violations(case_.model, plan).empty()) return;
    simulate(plan);
    if (stages_.size() < 2 || !admits_zero_bubble(case_.problem.space)) return;
    plan.only_pipeline().schedule.kind = ScheduleKind::zb_h1;
    if (search::pipeline_admitted(case_.problem, plan.only_pipeline(), samples_)) simulate(plan);
  }
  void simulate(const Plan& plan) {
    ++plans_;
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
  std::int64_t best_ = INT64_MAX, plans_ = 0;
};

}  // namespace espalier::property::mixed
