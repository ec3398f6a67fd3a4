// SPDX-License-Identifier: Apache-2.0
// Traffic of layers, counted by hand on round devices (test_problem.h): 1000 FLOP or 1000 bytes of memory take a
// nanosecond, as does a byte on a link.
#include "cost/layer_steps.h"

#include <gtest/gtest.h>

#include "cost/test_problem.h"

namespace espalier::cost::layer_steps_test {
namespace {

using namespace test;

constexpr double kBoundary = 2.0 * 1000 * 64;  // bytes: the activation between up and down, whole

LayerSteps steps_of(const LayerKind& kind, const Strategy& s, const Cluster& cluster, const char* engine = "generic") {
  const Model model = model_of(kind);
  const CostContext context(model, cluster, tokens(1000), plain_engine(engine));
  return layer_steps(context, s, 1, 1, 0);
}

/// Returns the steps as a short list: "up", "all_gather tensor 128000 before up".
std::vector<std::string> words(const PhaseSteps& phase) {
  std::vector<std::string> out;
  for (const Step& step : phase.steps) {
    std::string text = step.name;
    if (step.part == StepPart::input_gradient) text += " dX";
    if (step.part == StepPart::weight_gradient) text += " dW";
    if (step.moves()) {
      text = std::string(to_string(step.traffic.kind)) + " " + std::string(to_string(step.traffic.group)) + " " +
             std::to_string(std::llround(step.traffic.bytes));
      if (step.traffic.times > 1) text += " x" + std::to_string(step.traffic.times);
      text += " " + std::string(to_string(step.placement));
      text += " " + (step.beside() ? phase.steps[static_cast<std::size_t>(step.first)].name : step.name);
    }
    out.push_back(text);
  }
  return out;
}
using Words = std::vector<std::string>;

Strategy tp2(SequenceParallel sp) {
  Strategy s;
  s.tp = 2;
  s.sp = sp;
  return s;
}

// On one device, forward has two products. Backward runs the last operator first, and the gradient of its input
// before that of its weights.
TEST(LayerSteps, SmallestExample) {
  const LayerSteps steps = steps_of(mlp(), {}, round_cluster(1));
  EXPECT_EQ(words(steps.forward), (Words{"up", "down"}));
  EXPECT_EQ(words(steps.backward), (Words{"down dX", "down dW", "up dX", "up dW"}));
  EXPECT_EQ(words(steps.backward_input), (Words{"down dX", "up dX"}));
  EXPECT_EQ(words(steps.backward_weight), (Words{"down dW", "up dW"}));
  EXPECT_EQ(bytes_of(steps.forward), 0);
  EXPECT_DOUBLE_EQ(steps.forward.costs[0].compute_s, 32768e-9);  // 2 · 1000 · 64 · 256 FLOP
}

// TP without sequence parallelism has one all-reduce of 1000 tokens · 64 features · 2 bytes each way. Backward it
// overlaps the weight gradient of `up`; where the backward is split, its input half waits for it.
TEST(LayerSteps, TensorParallel) {
  const LayerSteps steps = steps_of(mlp(), tp2(SequenceParallel::none), round_cluster(2));
  EXPECT_EQ(words(steps.forward), (Words{"up", "down", "all_reduce tensor 128000 after down"}));
  EXPECT_EQ(words(steps.backward), (Words{"down dX", "down dW", "up dX", "all_reduce tensor 128000 beside up", "up dW"}));
  EXPECT_EQ(words(steps.backward_input), (Words{"down dX", "up dX", "all_reduce tensor 128000 after up"}));
  EXPECT_EQ(bytes_of(steps.backward_weight), 0);
}

// A Megatron block with sequence parallelism gathers the input and scatters the output forward, 2 · 128,000 bytes.
// Backward, dY is gathered in the open, X again under dX of `up`, and dX is scattered under dW: 3 · 128,000. Split,
// the input half moves dY and dX, the weight half X.
TEST(LayerSteps, MegatronBlockWithSequenceParallelism) {
  const LayerSteps steps = steps_of(mlp(), tp2(SequenceParallel::megatron), round_cluster(2));
  EXPECT_EQ(words(steps.forward),
            (Words{"all_gather tensor 128000 before up", "up", "down", "reduce_scatter tensor 128000 after down"}));
  EXPECT_EQ(words(steps.backward),
            (Words{"all_gather tensor 128000 before down", "down dX", "down dW", "all_gather tensor 128000 beside up", "up dX",
                   "reduce_scatter tensor 128000 beside up", "up dW"}));
  EXPECT_EQ(bytes_of(steps.forward), 2 * kBoundary);
  EXPECT_EQ(bytes_of(steps.backward), 3 * kBoundary);
  EXPECT_EQ(bytes_of(steps.backward_input), 2 * kBoundary);
  EXPECT_EQ(bytes_of(steps.backward_weight), kBoundary);
}

// With overlap.tp each collective overlaps the product that it feeds or drains.
TEST(LayerSteps, OverlappedTensorParallel) {
  Strategy s = tp2(SequenceParallel::megatron);
  s.overlap.tp = true;
  const LayerSteps steps = steps_of(mlp(), s, round_cluster(2));
  EXPECT_EQ(words(steps.forward),
            (Words{"all_gather tensor 128000 beside up", "up", "reduce_scatter tensor 128000 beside down", "down"}));
  EXPECT_EQ(words(steps.backward_input),
            (Words{"all_gather tensor 128000 beside down", "down dX", "reduce_scatter tensor 128000 beside up", "up dX"}));
}

// Two column linears take one gathered input. It is gathered once, under both, though an operator stands between
// them.
TEST(LayerSteps, ColumnLinearsOfARegionShareTheirInput) {
  Operator norm;
  norm.kind = OperatorKind::norm;
  norm.name = "norm";
  norm.in = norm.out = 64;
  Strategy s = tp2(SequenceParallel::megatron);
  s.overlap.tp = true;
  const LayerKind kind = block({linear("gate", 64, 256, TpSplit::column), norm, linear("up", 64, 256, TpSplit::column),
                                linear("down", 256, 64, TpSplit::row)},
                               64);
  const LayerSteps steps = steps_of(kind, s, round_cluster(2));
  EXPECT_EQ(words(steps.forward), (Words{"norm", "all_gather tensor 128000 beside gate", "gate", "up",
                                         "reduce_scatter tensor 128000 beside down", "down"}));
  EXPECT_EQ(steps.forward.steps[1].last, 3);
  EXPECT_DOUBLE_EQ(steps.forward.costs[1].beside_s, 2 * 16384e-9);  // two products of half the width
}

// Ring attention over 4 ranks: 250 tokens of K and V of 4 heads · 32 features · 2 bytes = 64,000 bytes pass on three
// times, under ¾ of the attention. Backward passes their gradients as well.
TEST(LayerSteps, ContextParallelBlock) {
  Strategy s;
  s.cp = 4;
  const LayerSteps steps = steps_of(block({attention(4, 16, false)}, 64), s, round_cluster(4));
  EXPECT_EQ(words(steps.forward), (Words{"ring_shift context 64000 x3 beside attn.core", "attn.core"}));
  EXPECT_EQ(words(steps.backward), (Words{"ring_shift context 128000 x3 beside attn.core", "attn.core dX"}));
  EXPECT_EQ(bytes_of(steps.forward), 3 * 64000);
  EXPECT_DOUBLE_EQ(steps.forward.costs[0].beside_s, 0.75 * steps.forward.costs[1].compute_s);
}

// Ulysses over 2 ranks moves q, k, v and the output of 1000 tokens · 2 heads · 32 · 2 tensors · 2 bytes = 256,000
// bytes in four exchanges.
TEST(LayerSteps, Ulysses) {
  const LayerSteps steps = steps_of(block({attention(4, 16, false)}, 64), tp2(SequenceParallel::ulysses), round_cluster(2));
  EXPECT_EQ(words(steps.forward), (Words{"all_to_all tensor 64000 x4 before attn.core", "attn.core"}));
}

/// Returns routed experts between a dispatch and a combine.
LayerKind experts() {
  Operator dispatch, combine, up, down;
  dispatch.kind = OperatorKind::dispatch;
  dispatch.name = "dispatch";
  dispatch.in = 64;
  combine.kind = OperatorKind::combine;
  combine.name = "combine";
  combine.in = 64;
  up.kind = down.kind = OperatorKind::expert_linear;
  up.name = "moe.up";
  up.in = 64;
  up.out = 256;
  up.split = TpSplit::column;
  down.name = "moe.down";
  down.in = 256;
  down.out = 64;
  down.split = TpSplit::row;
  std::vector<Operator> all = {dispatch, up, down, combine};
  for (Operator& op : all) {
    op.experts = 4;
    op.top_k = 2;
  }
  return block(all, 64);
}

// Every token goes to two experts: 1000 · 2 · 64 · 2 bytes = 256,000 go out and back, forward and backward. The
// exchanges lie next to the experts.
TEST(LayerSteps, MixtureOfExperts) {
  Strategy s;
  s.ep = 2;
  s.dp = 2;
  const LayerSteps steps = steps_of(experts(), s, round_cluster(2));
  EXPECT_EQ(words(steps.forward), (Words{"dispatch", "all_to_all expert 256000 after dispatch", "moe.up", "moe.down",
                                         "all_to_all expert 256000 before combine", "combine"}));
  EXPECT_EQ(words(steps.backward_input), (Words{"combine dX", "all_to_all expert 256000 after combine", "moe.down dX",
                                                "moe.up dX", "all_to_all expert 256000 before dispatch", "dispatch dX"}));
  EXPECT_EQ(bytes_of(steps.forward), 2 * 256000);
  EXPECT_EQ(bytes_of(steps.backward), 2 * 256000);
  EXPECT_EQ(bytes_of(steps.backward_weight), 0);
}

// Experts split over two ranks that hold the same tokens: partial sums of 256,000 bytes are reduced after them,
// gradients before them.
TEST(LayerSteps, ExpertTensorParallel) {
  Strategy s;
  s.tp = 2;
  s.etp = 2;
  s.ep = 2;
  s.dp = 2;
  const LayerSteps steps = steps_of(experts(), s, round_cluster(4));
  EXPECT_EQ(words(steps.forward).back(), "combine");
  EXPECT_EQ(words(steps.forward)[5], "all_reduce expert_tensor 256000 before combine");
  EXPECT_EQ(bytes_of(steps.forward), 3 * 256000);
  EXPECT_EQ(bytes_of(steps.backward), 3 * 256000);
}

// A layer that recomputes its normalisation selectively runs it again before the backward pass.
TEST(LayerSteps, SelectiveRecomputation) {
  Operator norm;
  norm.kind = OperatorKind::norm;
  norm.name = "norm";
  norm.in = norm.out = 64;
  const LayerSteps steps = steps_of(block({norm, linear("up", 64, 256, TpSplit::column)}, 64), {}, round_cluster(1));
  ASSERT_EQ(steps.recompute_selective.steps.size(), 1u);
  EXPECT_EQ(steps.recompute_selective.steps[0].name, "norm");
  EXPECT_EQ(steps.recompute_selective.steps[0].part, StepPart::recomputation);
  EXPECT_EQ(phase_time(steps.recompute_selective).compute_ns, 256);  // 2 · 1000 · 64 bytes read, as many written
}

Strategy recomputing(Strategy s, RecomputeModules modules) {
  s.recompute = {RecomputeKind::selective, 0, modules};
  return s;
}

// A whole MLP runs again with its gathers and scatters; its activation alone moves nothing.
TEST(LayerSteps, AWholeMlpRunsAgain) {
  const LayerSteps steps =
      steps_of(mlp(), recomputing(tp2(SequenceParallel::megatron), {RecomputeModule::mlp}), round_cluster(2));
  EXPECT_EQ(words(steps.recompute_selective), words(steps.forward));
  EXPECT_EQ(bytes_of(steps.recompute_selective), 2 * kBoundary);
  EXPECT_EQ(phase_time(steps.recompute_selective).compute_ns, phase_time(steps.forward).compute_ns);
  EXPECT_EQ(phase_time(steps.recompute_selective).exposed_ns, phase_time(steps.forward).exposed_ns);
  Strategy beside = recomputing(tp2(SequenceParallel::megatron), {RecomputeModule::mlp});
  beside.overlap.tp = true;
  const LayerSteps hidden = steps_of(mlp(), beside, round_cluster(2));
  EXPECT_EQ(words(hidden.recompute_selective), words(hidden.forward));
}

// Every second product runs again: 0.39 of 2 · 32,768 ns.
TEST(LayerSteps, EverySecondProductRunsAgain) {
  const LayerSteps steps = steps_of(mlp(), recomputing({}, {RecomputeModule::every_second_mm}), round_cluster(1));
  EXPECT_EQ(phase_time(steps.recompute_selective).compute_ns, std::llround(0.39 * 2 * 32768));
}

}  // namespace
}  // namespace espalier::cost::layer_steps_test
