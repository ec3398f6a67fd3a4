// SPDX-License-Identifier: Apache-2.0
// The cost of copies of a shared token table, by hand on round numbers (test_problem.h).
#include "plan/shared_table.h"

#include <gtest/gtest.h>

#include "cost/by_chunk.h"
#include "cost/price.h"
#include "cost/state_memory.h"
#include "cost/test_problem.h"

namespace espalier::cost::shared_table_test {
namespace {

using Chunks = std::vector<std::vector<LayerRange>>;

using namespace test;

/// Returns embedding, encoder, encoder, decoder, decoder, head; the table has 128 · 32 elements.
Model t5(bool tied) {
  auto model = load_model(std::string(R"({"model_type": "t5", "d_model": 32, "d_kv": 16, "num_heads": 4, "d_ff": 96, )") +
                              R"("num_layers": 2, "num_decoder_layers": 2, "vocab_size": 128, "tie_word_embeddings": )" +
                              (tied ? "true}" : "false}"),
                          "toy");
  return *model;
}
constexpr std::int64_t kTable = 128 * 32;

struct Timed {
  std::vector<LayerCost> costs;
  cost::test::ByChunk timing;
  ProgramStructure structure;
};

/// Prices 1F1B stages whose first layers are given, each on tp · dp devices.
Timed timed(const Model& model, const std::vector<std::int32_t>& first, const Strategy& s = {}) {
  Training training;
  training.sequence.encoder = 100;
  training.sequence.decoder = 100;
  training.global_batch = 8;
  Schedule schedule;
  schedule.stages = static_cast<std::int32_t>(first.size());
  schedule.microbatches = 8 / s.dp;
  const Cluster cluster = round_cluster(std::int64_t{schedule.stages} * s.tp * s.dp);
  const CostContext context(model, cluster, training, plain_engine("generic"));
  const SplitTable split(model, first);
  Timed x;
  layer_costs(context, s, schedule.stages, 1, x.costs);
  structure_for(model, s, schedule, split, x.structure);
  Costs costs;
  PriceScratch scratch;
  price(context, x.structure, s, split, x.costs, scratch, costs);
  x.timing = cost::test::rows_of(costs, x.structure);
  return x;
}

/// Returns the elements of the layers [first, end) by themselves.
std::int64_t own(const Model& model, const Timed& x, std::size_t first, std::size_t end) {
  std::int64_t sum = 0;
  for (std::size_t l = first; l < end; ++l) sum += x.costs[static_cast<std::size_t>(model.layers[l])].dense_parameters;
  return sum;
}

// Three stages of two layers: the embedding's, the first decoder block's and the head's hold the table. Its gradient,
// 4 bytes per element, is all-reduced round three ranks at 1 GB/s: 2 · 2/3 of the bytes.
TEST(SharedTableCost, ThreeStagesHoldTheTableOfT5) {
  const Model model = t5(true);
  const Timed x = timed(model, {0, 2, 4});
  // Only the embedding layer counts the table.
  EXPECT_EQ(own(model, x, 3, 4) + own(model, x, 5, 6), x.costs[3].dense_parameters + 32);
  EXPECT_EQ(x.timing.stages[0].dense_parameters, own(model, x, 0, 2));
  EXPECT_EQ(x.timing.stages[1].dense_parameters, own(model, x, 2, 4) + kTable);
  EXPECT_EQ(x.timing.stages[2].dense_parameters, own(model, x, 4, 6) + kTable);
  for (const cost::test::StageRow& s : x.timing.stages) {
    EXPECT_EQ(s.memory.parameters, 2 * s.dense_parameters);
    EXPECT_EQ(s.memory.gradients, 4 * s.dense_parameters);
    EXPECT_EQ(s.memory.optimizer, 12 * s.dense_parameters);
  }
  EXPECT_EQ(x.timing.tied_reduce_ns, std::llround(4.0 * kTable * 4 / 3));
}

// An untied head has a table of its own; encoder and decoder still share theirs, which two ranks send each other.
TEST(SharedTableCost, UntiedHeadsLeaveTwoCopies) {
  const Model model = t5(false);
  const Timed x = timed(model, {0, 2, 4});
  EXPECT_EQ(x.timing.stages[1].dense_parameters, own(model, x, 2, 4) + kTable);
  EXPECT_EQ(x.timing.stages[2].dense_parameters, own(model, x, 4, 6));
  EXPECT_EQ(x.timing.tied_reduce_ns, 4 * kTable);
}

// A stage has one copy: decoder and head together. There is none where all are together.
TEST(SharedTableCost, OneCopyAStage) {
  const Model model = t5(true);
  const Timed two = timed(model, {0, 3});
  EXPECT_EQ(two.timing.stages[1].dense_parameters, own(model, two, 3, 6) + kTable);
  EXPECT_EQ(two.timing.tied_reduce_ns, 4 * kTable);
  const Timed one = timed(model, {0});
  EXPECT_EQ(one.timing.stages[0].dense_parameters, own(model, one, 0, 6));
  EXPECT_EQ(one.timing.tied_reduce_ns, 0);
}

// Under ZeRO-3 the copy is gathered for the layer that uses it, forward and backward, and its gradient scattered with
// every micro-batch. With 2 ranks that is (2 · 2 + 4 bytes) · elements / 2 more than without the table, on links of
// 1 GB/s.
TEST(SharedTableCost, ShardedCopiesAreGatheredWithEveryMicroBatch) {
  const Model model = t5(true);
  Strategy s;
  s.dp = 2;
  s.zero = ZeroStage::parameters;
  s.shard = 2;
  const Timed x = timed(model, {0, 2, 4}, s);
  Strategy plain = s;
  plain.zero = ZeroStage::optimizer;
  const Timed y = timed(model, {0, 2, 4}, plain);
  const auto more = [&](std::size_t c) {
    return x.timing.chunks[c].forward.exposed_ns + x.timing.chunks[c].backward.exposed_ns -
           y.timing.chunks[c].forward.exposed_ns - y.timing.chunks[c].backward.exposed_ns;
  };
  EXPECT_EQ(more(2), (2 + 2 + 4) * x.timing.stages[2].dense_parameters / 2);
  EXPECT_EQ(x.timing.stages[2].dense_parameters, own(model, x, 4, 6) + kTable);
}

// Frozen copies take the two bytes of an element in the compute type, on every stage that uses them; nothing is
// exchanged.
TEST(SharedTableCost, FrozenCopiesAreMemoryAlone) {
  Model model = t5(true);
  Training training;
  training.freeze = {"embedding"};
  ASSERT_TRUE(mark_trained(model, training, "training").ok());
  const Timed x = timed(model, {0, 2, 4});
  EXPECT_TRUE(x.structure.table_chunks.empty());
  EXPECT_EQ(x.timing.tied_reduce_ns, 0);
  const std::size_t layers[] = {0, 2, 4, 6};
  for (std::size_t i = 0; i < 3; ++i) {
    const cost::test::StageRow& s = x.timing.stages[i];
    EXPECT_EQ(s.dense_parameters, own(model, x, layers[i], layers[i + 1])) << i;
    EXPECT_EQ(s.memory.parameters, 2 * s.dense_parameters + 2 * kTable) << i;
    EXPECT_EQ(s.memory.optimizer, 12 * s.dense_parameters) << i;
  }
}

// A layer-wise plan whose layers are all alike has the same nanoseconds and bytes.
TEST(SharedTableCost, LayerWisePlansAgree) {
  const Model model = t5(true);
  for (const std::int32_t zero : {0, 1, 3}) {
    Strategy s;
    s.dp = 2;
    s.zero = ZeroStage{zero};
    s.shard = zero > 0 ? 2 : 1;
    const Timed uniform = timed(model, {0, 2, 4}, s);
    Training training;
    training.sequence.encoder = 100;
    training.sequence.decoder = 100;
    training.global_batch = 8;
    const CostContext context(model, round_cluster(6), training, plain_engine("generic"));
    Costs layered;
    const Chunks chunks = {{{0, 0, s}, {1, 1, s}}, {{2, 3, s}}, {{4, 5, s}}};
    price(context, uniform.structure, ranges_of(context, uniform.structure.schedule.stages, chunks, 2).chunks, layered);
    EXPECT_EQ(cost::test::rows_of(layered, uniform.structure), uniform.timing) << zero;
  }
}

// A copy is laid out as the embedding's strategy says, whatever the layers of its stage have: sharded over two here,
// and not there.
TEST(SharedTableCost, CopiesAreTheEmbeddings) {
  const Model model = t5(false);
  Training training;
  training.sequence.encoder = 100;
  training.sequence.decoder = 100;
  training.global_batch = 8;
  const CostContext context(model, round_cluster(4), training, plain_engine("generic"));
  Strategy sharded, plain;
  sharded.dp = plain.dp = 2;
  sharded.zero = ZeroStage::optimizer;
  sharded.shard = 2;
  const Timed uniform = timed(model, {0, 3}, plain);
  ProgramStructure structure;
  structure_of(model, {&sharded, &plain, &plain}, uniform.structure.schedule, {3, 3}, structure);
  Costs x;
  const Chunks chunks = {{{0, 0, sharded}, {1, 2, plain}}, {{3, 5, plain}}};
  price(context, structure, ranges_of(context, structure.schedule.stages, chunks, 2).chunks, x);
  EXPECT_EQ(x.stages[StageId(1)].memory.optimizer, 12 * (uniform.timing.stages[1].dense_parameters - kTable) + 12 * kTable / 2);
}

}  // namespace
}  // namespace espalier::cost::shared_table_test
