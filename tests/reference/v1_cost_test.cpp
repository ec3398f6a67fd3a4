// SPDX-License-Identifier: Apache-2.0
#include "reference/v1_cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/v1_fixture.h"

namespace espalier::reference {
namespace {

const V1Profile& bert() { return published_profiles().at("bert-1280@8"); }

// Batch 8 on 8 data-parallel GPUs is one sample each. States are 4·76.98 MB, activations 94.07 MB. Forward takes
// 2.29166666 ms, backward twice that. Gradients: 2·7/8·76.98 = 134.715 MB at 0.21530878·1.3 ms/MB = 37.707 ms slowed.
// This is longer than backward slowed (5.958 ms), which overlaps with 5.958/(0.21530878·1.3) = 21.288 MB. The other
// 113.427 MB take 24.422 ms. Total: 2.292 + 5.958 + 24.422 = 32.672 ms, ×0.0011 s.
TEST(V1Cost, DataParallelByHand) {
  const V1Strategy dp{1, 1, 8};
  EXPECT_DOUBLE_EQ(layer_memory_mb(bert(), bert().layer_types[0], dp, 8), 4 * 76.98 + 94.07);
  EXPECT_NEAR(layer_seconds(bert(), bert().layer_types[0], dp, 8, 32), 0.0359392, 5e-7);
  EXPECT_DOUBLE_EQ(other_memory_mb(bert(), dp, 8)[0], 790 + 300 + 1024);
}

// Sharded states take 307.92·(1/8 + 0.025) MB. The gathers cost half the gradients' message again,
// 67.3575 MB·0.21530878 ms.
TEST(V1Cost, ShardingByHand) {
  const V1Strategy dp{1, 1, 8}, sdp{1, 1, 8, true};
  EXPECT_DOUBLE_EQ(layer_memory_mb(bert(), bert().layer_types[0], sdp, 8), 4 * 76.98 * (0.125 + 0.025) + 94.07);
  const double plain = layer_seconds(bert(), bert().layer_types[0], dp, 8, 32);
  EXPECT_NEAR(layer_seconds(bert(), bert().layer_types[0], sdp, 8, 32) - plain, 67.3575 * 0.21530878 * 0.0011, 1e-12);
}

// From tp 1 to 2 there is a gather: (2 − 1)/2 · 2·8/4 samples · 0.271614583/1000. From sharded to plain of one layout
// there is the bias. Less tp in the same order is free.
TEST(V1Cost, TransitionsByHand) {
  const V1Strategy dp{1, 1, 8}, sdp{1, 1, 8, true}, tp2{1, 2, 4, false, false};
  EXPECT_DOUBLE_EQ(transition_seconds(bert(), dp, tp2, 8), 0.5 * 4 * 0.271614583 * 0.001);
  EXPECT_EQ(transition_seconds(bert(), sdp, dp, 8), 1e-4);
  EXPECT_EQ(transition_seconds(bert(), dp, sdp, 8), 0);
  EXPECT_EQ(transition_seconds(bert(), tp2, dp, 8), 0);
}

TEST(V1Cost, ChunksByFamily) {
  const auto& p = published_profiles();
  EXPECT_EQ(chunks(p.at("bert-1280@8"), {1, 1, 8}, 1), 1);
  EXPECT_EQ(chunks(p.at("bert-1280@8"), {4, 2, 1}, 8), 2);
  EXPECT_EQ(chunks(p.at("bert-1280@8"), {2, 1, 4}, 8), 3);
  EXPECT_EQ(chunks(p.at("vit-1280@8"), {2, 1, 4}, 8), 1);
  EXPECT_EQ(chunks(p.at("t5@8"), {8, 1, 1}, 8), 3);
  EXPECT_EQ(chunks(p.at("swin@8"), {2, 1, 4}, 97), 4);
  EXPECT_EQ(chunks(p.at("t5@16"), {2, 1, 8}, 5), 2);
  EXPECT_EQ(chunks(p.at("vit-1280@16"), {16, 1, 1}, 33), 2);
}

/// Returns the lines of the file of published layer programs, one JSON document each.
std::vector<base::Document> published_programs() {
  const std::string text = source_file("tests/golden/galvatron_v1_layer_dp.jsonl");
  std::vector<base::Document> programs;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) programs.push_back(*base::read_json(std::string_view(text).substr(at, end - at), "program"));
    at = end + 1;
  }
  return programs;
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-12 * std::max(std::abs(a), std::abs(b)); }

/// Returns true if our formulas give the program for these stages: memory, time and transitions of every strategy,
/// type by type.
bool same_costs(const base::Node& program, const V1Stages& stages) {
  const auto &memory = program.find("memory")->items, &time = program.find("time")->items;
  const auto& transition = program.find("transition")->items;
  if (transition.size() != stages.strategies.size()) return false;
  const bool single = program.find("layers")->items.size() == 1;  // nothing precedes its layer: recorded as zeros
  for (std::size_t i = 0; i < transition.size() && !single; ++i) {
    for (std::size_t j = 0; j < transition.size(); ++j) {
      if (!near(transition[i].items[j].real, stages.model.transition[i][j])) return false;
    }
  }
  for (std::size_t type = 0; type < memory.size(); ++type) {
    const auto matches = [&](const std::vector<solve::LayerOption>& options) {
      for (std::size_t s = 0; s < options.size(); ++s) {
        if (memory[type].items[s].integer != options[s].states || !near(time[type].items[s].real, options[s].steady))
          return false;
      }
      return true;
    };
    if (std::none_of(stages.model.options.begin(), stages.model.options.end(), matches)) return false;
  }
  return true;
}

/// Finds batch and stages of the workload that the program belongs to.
bool explained(const base::Node& program, const V1Workload& workload, std::int64_t memory_mb) {
  for (std::int32_t batch = 8; batch <= 320; batch += 8) {
    for (const std::int32_t pp : {1, 2, 4, 8}) {
      const auto stages = v1_stages(workload, memory_mb, batch, pp, V1Capacity::published);
      if (!stages || !same_costs(program, *stages)) continue;
      const auto& capacity = stages->capacity;
      if (std::find(capacity.begin(), capacity.end(), program.find("capacity")->integer) != capacity.end()) return true;
    }
  }
  return false;
}

// The published planner solved 580 layer programs. Their memory, time, transitions and capacity all follow
// from the formulas.
TEST(V1Cost, ExplainsEveryPublishedLayerProgram) {
  const std::map<std::string, std::string> names = {
      {"bert", "BERT-Huge-32"}, {"vit", "ViT-Huge-32"}, {"t5", "T5-Large-32"}, {"swin", "Swin-Huge-32"}};
  const std::vector<base::Document> programs = published_programs();
  EXPECT_EQ(programs.size(), 580u);
  for (const base::Document& program : programs) {
    const std::string run = program.root.find("run")->text;  // "bert@8 12GB"
    const std::size_t at = run.find('@'), space = run.find(' ');
    const V1Workload workload = reference::workload(names.at(run.substr(0, at)), std::stoi(run.substr(at + 1)));
    const std::int64_t memory_mb = std::stoll(run.substr(space + 1)) * 1024;
    EXPECT_TRUE(explained(program.root, workload, memory_mb)) << program.root.find("id")->text << " of " << run;
  }
}

}  // namespace
}  // namespace espalier::reference
