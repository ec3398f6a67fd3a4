// SPDX-License-Identifier: Apache-2.0
// The values that a thread caches between configurations (layer prices, memory tables) equal freshly computed ones,
// in any order of queries. Offload, sharding, micro-batches and degrees vary, for models with images, frozen parts,
// adapters and packed samples.
#include <gtest/gtest.h>

#include "plan/engine.h"
#include "search/cost_book.h"
#include "search/space.h"

namespace espalier::search::remembered_test {
namespace {

const char* const kText = R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
  "num_key_value_heads": 4, "num_hidden_layers": 4, "vocab_size": 256})";
const char* const kImages = R"({"model_type": "qwen2_5_vl", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
  "num_key_value_heads": 4, "num_hidden_layers": 3, "vocab_size": 256, "vision_config": {"depth": 3, "hidden_size": 32,
  "intermediate_size": 64, "num_heads": 4, "patch_size": 2, "window_size": 4, "fullatt_block_indexes": [2], "out_hidden_size": 64}})";
const char* const kMixture = R"({"model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
  "num_key_value_heads": 4, "num_hidden_layers": 4, "vocab_size": 256, "num_experts": 4, "num_experts_per_tok": 2,
  "moe_intermediate_size": 32})";

struct Trained {
  Model model;
  Training training;
};

Trained trained(const char* config, Training t = {}) {
  Trained out{load_model(config, "test").value(), std::move(t)};
  Sequence& s = out.training.sequence;
  s.main = 512;
  if (out.model.tower) {
    s.encoder = 256;
    s.images = 2;
  }
  out.training.global_batch = 16;
  EXPECT_TRUE(mark_trained(out.model, out.training, "training").ok());
  return out;
}

std::vector<Trained> variations() {
  Training frozen, tower, adapters, packed;
  frozen.freeze = {"embedding", "layers 0-1"};
  tower.freeze = {"tower"};
  adapters.adapter.rank = 4;
  adapters.adapter.targets = {"all-linear"};
  packed.lengths.histogram = {{64, 0.5}, {200, 0.3}, {512, 0.2}};
  packed.lengths.packing = Packing::packed;
  return {trained(kText),   trained(kText, frozen),  trained(kText, adapters), trained(kText, packed),
          trained(kImages), trained(kImages, tower), trained(kMixture),        trained(kMixture, frozen)};
}

/// Returns every relevant choice of degrees, offload, sharding and micro-batch on eight devices.
std::vector<Configuration> configurations() {
  std::vector<Configuration> out;
  for (const std::int32_t tp : {1, 2})
    for (const std::int32_t stages : {1, 2})
      for (const Offload offload : {Offload::none, Offload::optimizer, Offload::activations, Offload::parameters_activations})
        for (const ZeroStage zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::parameters})
          for (const std::int32_t micro : {1, 2}) {
            Configuration c;
            c.strategy.tp = tp;
            c.strategy.dp = 8 / tp / stages;
            c.strategy.offload = offload;
            c.strategy.zero = zero;
            c.strategy.shard = zero == ZeroStage::none ? 1 : c.strategy.dp;
            c.schedule = {ScheduleKind::one_f_one_b, stages, 1, 16 / (c.strategy.dp * micro), micro};
            out.push_back(c);
          }
  return out;
}

void expect_equal(const std::vector<cost::LayerCost>& a, const std::vector<cost::LayerCost>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t k = 0; k < a.size(); ++k) {
    EXPECT_EQ(a[k].forward, b[k].forward);
    EXPECT_EQ(a[k].backward, b[k].backward);
    EXPECT_EQ(a[k].backward_weight, b[k].backward_weight);
    EXPECT_EQ(a[k].recompute_selective, b[k].recompute_selective);
    EXPECT_EQ(a[k].saved.none, b[k].saved.none);
    EXPECT_EQ(a[k].saved.selective, b[k].saved.selective);
    EXPECT_EQ(a[k].saved.full, b[k].saved.full);
    EXPECT_EQ(a[k].hosted.none, b[k].hosted.none);
    EXPECT_EQ(a[k].transient.backward, b[k].transient.backward);
    EXPECT_EQ(a[k].dense_parameters, b[k].dense_parameters);
    EXPECT_EQ(a[k].frozen_dense_bytes, b[k].frozen_dense_bytes);
    EXPECT_EQ(a[k].expert_parameters, b[k].expert_parameters);
    EXPECT_EQ(a[k].boundary_bytes, b[k].boundary_bytes);
  }
}

void check_variation(const Trained& t) {
  const Cluster cluster = load_cluster("{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}", "test").value();
  const Problem problem{&t.model, &cluster, t.training, find_engine("generic"), {}};
  Space space(t.model, cluster, t.training, *problem.engine, problem.space);
  CostBook book(problem);
  const auto all = configurations();
  for (const Configuration& c : all) {
    book.prepare(c.schedule.stages);
    (void)space.leaves(c);
  }
  Workspace kept;
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Configuration& c = all[round == 0 ? i : all.size() - 1 - i];
      Workspace fresh;
      price_layers(book, c, fresh);
      price_layers(book, c, kept);
      expect_equal(kept.layers, fresh.layers);
      const MemoryTable expected = memory_table(book, space, c, fresh);
      const MemoryTable& found = kept.tables.of(book, space, c, kept);
      EXPECT_EQ(found.activations, expected.activations);
      EXPECT_EQ(found.best_case, expected.best_case);
      if (found.choices.empty()) continue;
      price_layers(book, c, kept);
      EXPECT_EQ(fitting(book, found, c.strategy, kept), fitting(book, expected, c.strategy, fresh));
    }
}

TEST(Remembered, IsWhatWouldBeComputedAfresh) {
  for (const Trained& t : variations()) {
    SCOPED_TRACE(t.model.family + (freezes_weights(t.training) ? ", frozen" : "") + (t.training.lengths.any() ? ", packed" : ""));
    check_variation(t);
  }
}

}  // namespace
}  // namespace espalier::search::remembered_test
