// SPDX-License-Identifier: Apache-2.0
// The intervals that ranks own (plan/ownership.h), in bytes, equal what the cost model counts for them
// (state_memory.h).
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "cost/state_memory.h"
#include "espalier/model.h"
#include "plan/engine.h"
#include "plan/ownership.h"

namespace espalier::cost {
namespace {

Model any_model(std::mt19937& random) {
  DecoderShape shape;
  const auto pick = [&](std::initializer_list<std::int64_t> values) { return *(values.begin() + random() % values.size()); };
  shape.layers = pick({2, 3, 5});
  shape.heads = pick({4, 8, 16});
  shape.kv_heads = shape.heads / pick({1, 2, 4});
  shape.hidden = shape.heads * 16;
  shape.ffn = pick({96, 128, 250});
  shape.vocabulary = pick({100, 257, 512});
  shape.gated = random() % 2 == 0;
  shape.tied = false;
  shape.max_positions = 64;
  if (random() % 2 == 0) {
    shape.experts = 8;
    shape.top_k = 2;
  }
  return *make_decoder(shape, "any");
}

Strategy any_strategy(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<std::int32_t> values) { return *(values.begin() + random() % values.size()); };
  Strategy s;
  s.tp = pick({1, 2, 4, 8});
  s.cp = pick({1, 2});
  s.dp = pick({1, 2, 3, 4, 8});
  if (random() % 4 == 0) s.sp = SequenceParallel::ulysses;
  const std::int32_t devices = s.tp * s.cp * s.dp;
  s.ep = pick({1, 2, 4, 8});
  if (devices % s.ep != 0) s.ep = 1;
  s.etp = pick({1, 2});
  if (devices % (s.ep * s.etp) != 0) s.etp = 1;
  s.zero = static_cast<ZeroStage>(random() % 4);
  const auto ranks = static_cast<std::int32_t>(s.data_ranks());
  if (s.shards_optimizer()) s.shard = ranks % 2 == 0 && random() % 2 == 0 ? ranks / 2 : ranks;
  if (s.shard == 1) s.zero = ZeroStage::none;
  return s;
}

TEST(OwnedBytes, AreThoseThatTheCostModelCounts) {
  std::mt19937 random(7);
  const EngineModel& engine = *find_engine("generic");
  Training training;
  const StatePolicy states = states_of(engine, training);
  for (int round = 0; round < 400; ++round) {
    const Model model = any_model(random);
    Holding h;
    h.strategy = any_strategy(random);
    for (std::int64_t r = 0; r < h.strategy.devices(); ++r) h.devices.push_back(r);
    for (const LayerKind& kind : model.kinds) {
      const StaticMemory counted =
          state_memory(parameters_on_rank(model, kind, engine, training, h.strategy), states, h.strategy);
      std::int64_t fullest = 0;
      for (std::size_t r = 0; r < h.devices.size(); ++r) {
        const RankShare share = share_of(h, model, kind, engine, static_cast<std::int64_t>(r));
        std::int64_t bytes = 0;
        for (const StateKind state : {StateKind::parameters, StateKind::gradients, StateKind::optimizer})
          bytes += elements_of(held_of(share, state, h.strategy.zero)) * bytes_of(state, states);
        // Padding rows are sharded with the rest, and add at most their whole number.
        EXPECT_LE(bytes, counted.parameters + counted.gradients + counted.optimizer + 18 * 2 * 12) << "round " << round;
        fullest = std::max(fullest, bytes + 18 * share.padding);
      }
      // Heads, rows, experts and shards are whole numbers, which costs a few elements per operator, of 18 bytes each.
      EXPECT_GE(fullest, counted.parameters + counted.gradients + counted.optimizer - 18 * 4 * 12) << "round " << round;
    }
  }
}

// 100 elements are on each of 4 ranks under ZeRO 1. The fp32 sums of gradients, and the copies that autograd leaves,
// are whole on every rank.
TEST(StateMemory, GradientsOfAutogradAreWhole) {
  Strategy s;
  s.dp = s.shard = 4;
  s.zero = ZeroStage::optimizer;
  StatePolicy states;
  EXPECT_EQ(state_memory({100, 0}, states, s).gradients, 400);
  states.autograd = 2;
  EXPECT_EQ(state_memory({100, 0}, states, s).gradients, 600);
  EXPECT_EQ(state_memory({100, 0}, states, s).optimizer, 12 * 25);
  states.autograd = 4;  // a copy of what the rank updates
  EXPECT_EQ(state_memory({100, 0}, states, s).gradients, 400 + 4 * 25);
  s.offload = Offload::optimizer;  // the host updates its own copy
  EXPECT_EQ(state_memory({100, 0}, states, s).gradients, 400);
  EXPECT_EQ(state_memory({100, 0}, states, s).host, (12 + 4) * 25);
}

// Two of eight ranks hold 800 expert elements with 12 bytes of states each: halves over one shard group of the four
// data ranks, whole in either of two.
TEST(StateMemory, ExpertsOfSeveralInstancesKeepWholeStates) {
  Strategy s;
  s.tp = s.ep = s.etp = 2;
  s.dp = s.shard = 4;
  s.zero = ZeroStage::optimizer;
  EXPECT_EQ(state_memory({0, 800}, StatePolicy{}, s).optimizer, 12 * 400);
  s.shard = 2;
  EXPECT_EQ(state_memory({0, 800}, StatePolicy{}, s).optimizer, 12 * 800);
}

}  // namespace
}  // namespace espalier::cost
