// SPDX-License-Identifier: Apache-2.0
#include "plan/layer_freedom.h"

#include <gtest/gtest.h>

#include "plan/engine.h"
#include "plan/test_problem.h"

namespace espalier {
namespace {

const LayerFreedom& freedom(const char* engine) { return find_engine(engine)->layers; }

// In fully_shard, only ZeRO stages 2 and 3 may occur together. A layer under ZeRO 0 belongs to no class, since a plan
// of DDP is uniform in its ZeRO stage. One under ZeRO 3 belongs to the class of the only set, whatever is recomputed.
TEST(LayerFreedom, SmallestExample) {
  EXPECT_EQ(to_string(freedom("fsdp2")), "layers may differ in: zero, recompute; stages in: nothing");
  EXPECT_EQ(to_string(freedom("megatron-core")), "layers may differ in: nothing; stages in: layers");
  Strategy s, other;
  s.dp = other.dp = 4;
  EXPECT_TRUE(classes_of(freedom("fsdp2"), s).empty());
  s.zero = ZeroStage::parameters;
  s.shard = 4;
  const auto classes = classes_of(freedom("fsdp2"), s);
  ASSERT_EQ(classes.size(), 1u);
  other = s;
  other.zero = ZeroStage::gradients;
  other.recompute = {RecomputeKind::full, 1};
  EXPECT_TRUE(admits(freedom("fsdp2"), classes[0], other, true));
  other.tp = 2;
  other.dp = 2;
  other.shard = 2;
  EXPECT_FALSE(admits(freedom("fsdp2"), classes[0], other, true));
}

// In Galvatron, layers without ZeRO 3 share one default type, so a layer with ZeRO 3 belongs to plans of either type.
// Layers with tensor groups share one choice of Megatron's sequence parallelism. So there are 2 classes of ZeRO times
// the one class with its sp.
TEST(LayerFreedom, ValuesThatExcludeEachOther) {
  Strategy s;
  s.tp = s.dp = 2;
  s.sp = SequenceParallel::megatron;
  s.zero = ZeroStage::parameters;
  s.shard = 2;
  EXPECT_EQ(classes_of(freedom("galvatron"), s).size(), 2u);
  s.sp = SequenceParallel::ulysses;
  EXPECT_EQ(classes_of(freedom("galvatron"), s).size(), 4u);
  s.zero = ZeroStage::gradients;
  EXPECT_EQ(classes_of(freedom("galvatron"), s).size(), 2u);
}

// The values that the layers of a plan share form a class. The strategies of a plan have a class in common if and
// only if the plan has no fault.
TEST(LayerFreedom, ClassesAreThePlansWithoutFaults) {
  const Model model = plan_test::decoder({});
  const auto last = static_cast<std::int32_t>(model.layers.size()) - 1;
  std::vector<Strategy> all;
  for (const std::int32_t tp : {1, 2})
    for (const std::int32_t zero : {0, 2, 3})
      for (const Recompute& how : {Recompute{}, Recompute{RecomputeKind::selective},
                                   Recompute{RecomputeKind::selective, 0, {RecomputeModule::core_attn}}}) {
        Strategy s;
        s.tp = tp;
        s.dp = 4 / tp;
        s.zero = ZeroStage{zero};
        s.shard = zero > 0 ? s.dp : 1;
        s.sp = tp > 1 ? SequenceParallel::megatron : SequenceParallel::none;
        s.recompute = how;
        all.push_back(s);
      }
  for (const char* engine : {"generic", "fsdp2", "fsdp1", "torchtitan", "deepspeed", "espalier", "galvatron"}) {
    LayerFreedom f = freedom(engine);
    f.embedding_as_head = f.blocks_everywhere = false;  // these concern whole plans, not classes
    for (const Strategy& a : all)
      for (const Strategy& b : all) {
        bool shared = false;
        for (const LayerClass& c : classes_of(f, a)) shared = shared || admits(f, c, b, true);
        const std::vector<std::vector<LayerRange>> chunks{{{0, 3, a}, {4, last, b}}};
        const bool whole = !classes_of(f, a).empty() && !classes_of(f, b).empty();  // else a value that never occurs with others
        if (!whole) continue;
        EXPECT_EQ(layer_faults(f, model, Schedule{}, chunks).empty(), shared) << engine << ' ' << label(a) << ' ' << label(b);
      }
  }
}

}  // namespace
}  // namespace espalier
