// SPDX-License-Identifier: Apache-2.0
// Tests training steps of small plans, with ranks that are threads: sums over micro-batches, clipping, the order of a
// rank's instructions, and every kind of message between ranks.
#include "runtime/executor.h"

#include <ATen/TensorOperators.h>

#include <cmath>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "espalier/measured_step.h"
#include "runtime/heterogeneous_plans.h"
#include "runtime/partitioned_plans.h"
#include "runtime/step_clock.h"
#include "runtime/test_rank.h"

namespace espalier::runtime::testing::executor_test {
namespace {

using at::Tensor;

constexpr ScheduleKind k1f1b = ScheduleKind::one_f_one_b;

const std::vector<StepResult>& of_one_rank(const char* config) {
  static std::map<std::string, std::vector<StepResult>> known;
  auto at = known.find(config);
  if (at == known.end()) at = known.emplace(config, results_of(plan_of_one(config))).first;
  return at->second;
}

// ---- one rank -----------------------------------------------------------------------------------------------------

// Parameters begin small, so that all 96 logits are nearly equal.
TEST(Executor, TheFirstLossIsThatOfEqualLogits) {
  const auto& results = of_one_rank(kLlama);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_NEAR(results[0].loss, std::log(96.0), 0.05);
  EXPECT_NE(results[1].loss, results[0].loss);
}

TEST(Executor, TheLossFalls) {
  TrainingRecipe recipe;
  recipe.adam.rate = 1e-2;
  const auto results = results_of(plan_of_one(kLlama, 8), 8, recipe);
  EXPECT_LT(results.back().loss, results.front().loss - 0.3);
}

TEST(Executor, MicroBatchesAddUpToTheBatch) {
  for (const std::int32_t micro_batch : {1, 8}) {
    SCOPED_TRACE(micro_batch);
    expect_same_results(results_of(plan_of_one(kLlama, micro_batch)), of_one_rank(kLlama));
  }
}

TEST(Executor, SchedulesOfOneRankTrainAlike) {
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::zb_h1}) {
    SCOPED_TRACE(static_cast<int>(kind));
    expect_same_results(results_of(plan_of(kLlama, strategy(1, 1), schedule(kind, 1, 1, 2))), of_one_rank(kLlama));
  }
}

TEST(Executor, RecomputationChangesNothing) {
  Strategy s = strategy(1, 1);
  s.recompute = {RecomputeKind::full, 4, {}};
  expect_same_results(results_of(plan_of(kLlama, s, schedule(k1f1b, 1, 1, 2))), of_one_rank(kLlama));
}

// The callback sees complete gradients and values that are not updated yet.
TEST(Executor, GradientsAreLookedAtBeforeTheUpdate) {
  Meeting meeting({});
  PlannedRank rank(plan_of_one(kLlama), meeting);
  const TokenSource data = TokenSource::synthetic(96, 1);
  const auto executor = rank.executor(data);
  State* state = rank.parts->states().front();
  const std::vector<double> before = list(state->own_values());
  int calls = 0;
  double squares = 0;
  const StepResult result = executor->step(0, [&](RankModel& model) {
    ++calls;
    EXPECT_EQ(list(state->own_values()), before);
    for (State* of : model.states()) squares += of->squares();
  });
  EXPECT_EQ(calls, 1);
  EXPECT_NEAR(result.gradient, std::sqrt(squares), 1e-9);
  EXPECT_GT(result.gradient, 0.1);
  EXPECT_NE(list(state->own_values()), before);
}

// The first moment is a tenth of the gradient, here clipped to the norm 1/1000.
TEST(Executor, ClippedGradientsHaveTheNormOfTheRecipe) {
  Meeting meeting({});
  PlannedRank rank(plan_of_one(kLlama), meeting);
  const TokenSource data = TokenSource::synthetic(96, 1);
  for (const double clip : {1e-3, 0.0}) {
    TrainingRecipe recipe;
    recipe.clip = clip;
    for (State* state : rank.parts->states()) {
      const std::vector<float> zeros(static_cast<std::size_t>(elements_of(state->own())));
      state->restore_moments(zeros, zeros);
    }
    const StepResult result = rank.executor(data, recipe)->step(0);
    double squares = 0;
    for (const State* state : rank.parts->states())
      squares += state->first_moment().to(at::kDouble).square().sum().item<double>();
    const double norm = clip > 0 ? clip : result.gradient;
    EXPECT_NEAR(std::sqrt(squares) / (0.1 * norm), 1, 1e-4);
  }
}

// Eight samples in micro-batches of two: the head runs four times, over all rows of the vocabulary.
TEST(Executor, LogitsAreWatchedByMicroBatch) {
  Meeting meeting({});
  PlannedRank rank(plan_of_one(kLlama), meeting);
  const TokenSource data = TokenSource::synthetic(96, 1);
  const auto executor = rank.executor(data);
  std::vector<std::int64_t> samples;
  executor->watch_logits([&](std::int64_t first_sample) -> WatchLogits {
    return [&, first_sample](const Tensor& z, std::int64_t first_token, std::int64_t first_row) {
      samples.push_back(first_sample);
      EXPECT_EQ(z.sizes(), (at::IntArrayRef{kTokens, 2, 96}));
      EXPECT_EQ(first_token, 0);
      EXPECT_EQ(first_row, 0);
    };
  });
  executor->step(0);
  EXPECT_EQ(samples, (std::vector<std::int64_t>{0, 2, 4, 6}));
}

TEST(Executor, RequestsAreSummedOverTheRanks) {
  as_ranks(2, [](Meeting& meeting) {
    PlannedRank rank(plan_of(kLlama, strategy(1, 2), schedule(k1f1b, 1)), meeting);
    const TokenSource data = TokenSource::synthetic(96, 1);
    const auto executor = rank.executor(data);
    EXPECT_EQ(executor->step(0).wish, 0);
    if (meeting.rank() == 1) executor->ask(2);
    EXPECT_EQ(executor->step(1).wish, 2);
  });
}

// ---- two ranks train like one -------------------------------------------------------------------------------------

struct Case {
  std::string name;
  const char* config;
  Strategy strategy;
  Schedule schedule;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class TwoRanks : public ::testing::TestWithParam<Case> {};

TEST_P(TwoRanks, TrainLikeOne) {
  const Case& c = GetParam();
  expect_same_results(results_of(plan_of(c.config, c.strategy, c.schedule)), of_one_rank(c.config));
}

std::vector<Case> cases() {
  const Schedule whole = schedule(k1f1b, 1, 1, 2);
  const SequenceParallel megatron = SequenceParallel::megatron, ulysses = SequenceParallel::ulysses;
  return {
      {"data", kLlama, strategy(1, 2), whole},
      {"zero1", kLlama, strategy(1, 2, 1), whole},
      {"zero2", kLlama, strategy(1, 2, 2), whole},
      {"zero3", kLlama, strategy(1, 2, 3), whole},
      {"tensor", kGpt2, strategy(2, 1), whole},
      {"sequence", kGpt2, strategy(2, 1, 0, megatron), whole},
      {"ulysses", kLlama, strategy(2, 1, 0, ulysses), whole},
      {"ring", kLlama, context(strategy(1, 1), 2), whole},
      {"context_exchange", kMistral, context(strategy(1, 1), 2, ContextParallelKind::all_to_all), whole},
      {"shared_heads", kQwen3Moe, strategy(2, 1, 0, megatron), whole},
      {"experts", kMixtral, experts(strategy(1, 2), 2), whole},
      {"split_experts", kMixtral, experts(strategy(2, 1, 0, megatron), 1, 2), whole},
      {"gpipe", kLlama, strategy(1, 1), schedule(ScheduleKind::gpipe, 2, 1, 2)},
      {"one_f_one_b", kLlama, strategy(1, 1), schedule(k1f1b, 2, 1, 2)},
      {"interleaved", kLlama, strategy(1, 1), schedule(ScheduleKind::interleaved, 2, 2, 2)},
      {"zero_bubble", kLlama, strategy(1, 1), schedule(ScheduleKind::zb_h1, 2, 1, 2)},
      {"v_shaped", kLlama, strategy(1, 1), schedule(ScheduleKind::zb_v, 2, 2, 2)},
      {"tied_table", kTiedLlama, strategy(1, 1), schedule(k1f1b, 2, 1, 2)},
  };
}

INSTANTIATE_TEST_SUITE_P(Plans, TwoRanks, ::testing::ValuesIn(cases()), [](const auto& of) { return of.param.name; });

// Layers 2 and 3 have another strategy than the others, so that activations move between layouts in the stage.
TEST(Executor, LayersOfDifferentStrategies) {
  Plan plan = plan_of(kLlama, strategy(2, 1, 0, SequenceParallel::megatron), schedule(k1f1b, 1, 1, 2));
  respread(plan, 2, 3, strategy(1, 2));
  expect_same_results(results_of(plan), of_one_rank(kLlama));
}

// Norms split features, attention heads, and linears outputs or a grid in space and time.
TEST(Executor, BlocksPartitionedByOperator) {
  Strategy two = strategy(2, 1), four = strategy(4, 1);
  two.partition = partition_of(kLlama, 2, {"K", "N", "H", "N", "N"});
  four.partition = partition_of(kLlama, 2, {"P2", "M,N", "M,H", "M,N", "M,N"});
  for (const Strategy& s : {two, four}) {
    SCOPED_TRACE(s.tp);
    expect_same_results(results_of(plan_of(kLlama, s, schedule(k1f1b, 1, 1, 2))), of_one_rank(kLlama));
  }
}

// Stages of one and two devices exchange boxes of samples.
TEST(Executor, StagesOfDifferentSizes) {
  Plan plan = plan_of_one(kLlama);
  restage(plan, {{2, strategy(1, 1)}, {5, strategy(1, 2)}}, schedule(k1f1b, 2, 1, 2));
  expect_same_results(results_of(plan), of_one_rank(kLlama));
}

// Two pipelines of six and two samples sum their gradients.
TEST(Executor, TwoPipelinesOfUnequalBatches) {
  Plan plan = plan_of_one(kLlama);
  beside(plan, {{6, schedule(k1f1b, 1, 1, 2), {{5, strategy(1, 1)}}}, {2, schedule(k1f1b, 1), {{5, strategy(1, 1)}}}});
  expect_same_results(results_of(plan), of_one_rank(kLlama));
}

// ---- the order of instructions ------------------------------------------------------------------------------------

/// Trains two steps under a clock and returns the second as rank 0 writes it.
MeasuredStep timed_step(const Plan& plan) {
  const ScratchFolder folder;
  const std::string path = folder.file("timeline.json");
  as_ranks(ranks_of(plan), [&](Meeting& meeting) {
    const Program program = lower(plan, load_model(plan.model_source, "config.json").value(), false);
    const RankClass& own = rank_class(program, meeting.rank());
    StepClock steps(meeting.rank(), static_cast<std::size_t>(own.end - own.begin));
    OperatorClock clock(Pace(), &steps);
    PlannedRank rank(plan, meeting, true, &clock);
    const TokenSource data = TokenSource::synthetic(rank.model.vocabulary, 1);
    const auto executor = rank.executor(data);
    executor->step(0);
    steps.restart();
    executor->step(1);
    EXPECT_TRUE(steps.write(path, content_hash(plan), rank.world).ok());
  });
  const auto read = read_measured_step(text_of(path), path);
  EXPECT_TRUE(read.ok());
  return read.ok() ? *read : MeasuredStep();
}

/// Checks one rank: computations begin in the order of the list, each after everything that it waits for.
void expect_in_order(const Program& program, const RankClass& list, const MeasuredRank& measured) {
  ASSERT_EQ(measured.instructions.size(), static_cast<std::size_t>(list.end - list.begin));
  std::int64_t last_end = measured.start_ns;
  for (std::int32_t index = list.begin; index < list.end; ++index) {
    const Instruction& i = program.instructions[static_cast<std::size_t>(index)];
    const MeasuredInstruction& own = measured.instructions[static_cast<std::size_t>(index - list.begin)];
    EXPECT_LE(own.start_ns, own.end_ns);
    for (const std::int32_t wait : {i.wait0, i.wait1}) {
      if (wait < 0 || i.stream != Stream::compute) continue;
      EXPECT_LE(measured.instructions[static_cast<std::size_t>(wait - list.begin)].end_ns, own.start_ns) << index;
    }
    if (i.stream != Stream::compute) continue;
    EXPECT_GE(own.start_ns, last_end) << index;
    last_end = own.end_ns;
  }
}

TEST(Executor, ComputationsRunInTheOrderOfTheList) {
  for (const ScheduleKind kind : {ScheduleKind::gpipe, k1f1b, ScheduleKind::zb_h1}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const Plan plan = plan_of(kLlama, strategy(1, 1), schedule(kind, 2, 1, 2));
    const MeasuredStep step = timed_step(plan);
    EXPECT_EQ(step.step, 1);
    ASSERT_EQ(step.ranks.size(), 2u);
    const Program program = lower(plan, load_model(plan.model_source, "config.json").value(), false);
    for (const MeasuredRank& rank : step.ranks) expect_in_order(program, rank_class(program, rank.device), rank);
  }
}

// Four micro-batches on the last of two stages: with 1F1B, F0 B0 F1 B1 …; with GPipe all forwards come first.
TEST(Executor, SchedulesDifferInTheirOrder) {
  for (const ScheduleKind kind : {ScheduleKind::gpipe, k1f1b}) {
    const Plan plan = plan_of(kLlama, strategy(1, 1), schedule(kind, 2, 1, 2));
    const Program program = lower(plan, load_model(plan.model_source, "config.json").value(), false);
    const MeasuredStep step = timed_step(plan);
    ASSERT_EQ(step.ranks.size(), 2u);
    const RankClass& list = rank_class(program, 1);
    std::int64_t first_backward = 0, second_forward = 0;
    for (std::int32_t index = list.begin; index < list.end; ++index) {
      const Instruction& i = program.instructions[static_cast<std::size_t>(index)];
      const std::int64_t start = step.ranks[1].instructions[static_cast<std::size_t>(index - list.begin)].start_ns;
      if (i.kind == InstructionKind::backward && i.microbatch == 0 && first_backward == 0) first_backward = start;
      if (i.kind == InstructionKind::forward && i.microbatch == 1) second_forward = start;
    }
    EXPECT_EQ(first_backward < second_forward, kind == k1f1b);
  }
}

// Every operator of the model ran once forward and, where it has a gradient, once backward per micro-batch.
TEST(Executor, OperatorsAreCountedByMicroBatch) {
  const Plan plan = plan_of_one(kLlama);
  const MeasuredStep step = timed_step(plan);
  ASSERT_EQ(step.ranks.size(), 1u);
  std::int64_t linears = 0;
  const Model model = load_model(plan.model_source, "config.json").value();
  for (const MeasuredOperator& of : step.ranks[0].operators) {
    EXPECT_EQ(of.times, 4) << of.layer << " " << of.number;
    EXPECT_FALSE(of.repeated);
    const Operator& op = model.layer(static_cast<std::size_t>(of.layer)).operators[static_cast<std::size_t>(of.number)];
    if (op.kind == OperatorKind::linear) ++linears;
  }
  EXPECT_EQ(linears, 3 * (4 * 4 + 1));  // three passes of four linears a block, and of the output
}

}  // namespace
}  // namespace espalier::runtime::testing::executor_test
