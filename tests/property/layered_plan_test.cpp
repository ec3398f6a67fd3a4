// SPDX-License-Identifier: Apache-2.0
// Tests random layered plans. The sum of a search over layers is never above the simulated time, the memory is that
// of a replay of layers, and the check derives the planner's claims.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "check/check.h"
#include "cost/bound.h"
#include "cost/by_chunk.h"
#include "cost/plan_testing.h"
#include "plan/engine.h"
#include "plan/engine_rules.h"
#include "plan/layer_freedom.h"
#include "planner/plan_claims.h"
#include "random_layered.h"
#include "sim/simulator.h"

namespace espalier::property::layered_plan_test {
namespace {

const int kProblems = cases(150, 3000);
constexpr int kPlans = 20;

struct TimedLayers {
  ProgramStructure structure;
  Program program;
  cost::Costs costs;
  cost::test::ByChunk timing;
};

TimedLayers timed(const cost::CostContext& context, const Plan& plan) {
  TimedLayers t;
  t.structure = structure_of(plan.only_pipeline(), *context.workload.model);
  t.program = lower(plan, *context.workload.model, true);
  t.costs = cost::price(context, plan, t.program);
  t.timing = cost::test::rows_of(t.costs, t.structure);
  return t;
}

/// Returns the layers of each pipeline chunk.
std::vector<std::pair<std::int32_t, std::int32_t>> chunks_of(const Plan& plan) {
  std::vector<std::pair<std::int32_t, std::int32_t>> out;
  for (std::int32_t c = 0; c < plan.only_pipeline().schedule.chunks(); ++c) {
    const ChunkPlace at = place_of_chunk(plan.only_pipeline().schedule, c);
    const Chunk& chunk =
        plan.only_pipeline().stages[static_cast<std::size_t>(at.stage)].chunks[static_cast<std::size_t>(at.local_chunk)];
    out.emplace_back(chunk.first(), chunk.last());
  }
  return out;
}

/// Holds the shares of every layer, and the redistributions between neighbours, as the search prices them.
struct Shares {
  std::vector<cost::LayerShare> layers;
  std::vector<double> transition;  ///< before each layer
};

Shares shares_of(const cost::CostContext& context, const LayeredProblem& p, const LayeredPlan& x) {
  Shares s;
  double least = 0;  // smallest output of any kind of layer
  const cost::ActivationLayout any = cost::layout_of(p.bases.front().strategy);
  for (const cost::LayerCost& l : p.costs.front()) {
    const double whole = static_cast<double>(l.boundary_bytes) * any.dp * any.cp * any.sequence_parts;
    if (whole > 0) least = least > 0 ? std::min(least, whole) : whole;
  }
  std::vector<cost::LayerShare> kinds;
  for (std::size_t l = 0; l < x.priced.size(); ++l) {
    cost::layer_shares(context, x.priced[l], p.schedule().stages, p.costs[static_cast<std::size_t>(x.base_of[l])], kinds);
    s.layers.push_back(kinds[static_cast<std::size_t>(p.model.layers[l])]);
    s.transition.push_back(0.0);
    if (l == 0) continue;
    const cost::ActivationLayout a = cost::layout_of(x.priced[l - 1]), b = cost::layout_of(x.priced[l]);
    const double there = cost::redistribution_s(context.fabric, cost::redistribution(a, b), least);
    const double back = cost::redistribution_s(context.fabric, cost::redistribution(b, a), least);
    s.transition.back() = std::max(0.0, (there + back) * 1e9 - 2);
  }
  return s;
}

/// Holds sums over the layers of one stage, as in search/layerwise.h.
struct StageSum {
  double steady = 0, hidden = 0, reduce = 0, update = 0;
  double down = 0;  ///< forward of the first chunk alone
  std::int64_t states = 0, saved = 0, fullest = 0, last_transient = 0;
};

std::vector<StageSum> stage_sums(const cost::CostContext& context, const Plan& plan, const Shares& shares) {
  std::vector<StageSum> stages(static_cast<std::size_t>(plan.only_pipeline().schedule.stages));
  const auto chunks = chunks_of(plan);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    StageSum& s =
        stages[static_cast<std::size_t>(place_of_chunk(plan.only_pipeline().schedule, static_cast<std::int32_t>(c)).stage)];
    for (std::int32_t l = chunks[c].first; l <= chunks[c].second; ++l) {
      const cost::LayerShare& x = shares.layers[static_cast<std::size_t>(l)];
      s.steady += static_cast<double>(
          x.forward_ns + (splits_backward(plan.only_pipeline().schedule.kind) ? x.split_backward_ns : x.backward_ns));
      if (l > chunks[c].first) s.steady += shares.transition[static_cast<std::size_t>(l)];
      if (c < stages.size()) s.down += static_cast<double>(x.forward_ns);  // chunk c < p is the first of stage c
      s.hidden += static_cast<double>(x.hidden_ns + (plan.only_pipeline().schedule.stages == 1 ? x.gather_ns : 0));
      s.reduce += static_cast<double>(x.reduce_ns);
      s.update += cost::update_s(context.device, x.update_bytes) * 1e9;
      s.states += x.state_bytes;
      s.saved += x.saved_bytes;
      s.fullest = std::max(s.fullest, s.saved + x.transient_bytes);
      s.last_transient = x.transient_bytes;
    }
  }
  return stages;
}

// ---- time ---------------------------------------------------------------------------------------------------------

struct Bounds {
  double by_stage[3] = {0, 0, 0};  ///< largest objective of a stage for λ = 1, ½, 0, with the way down
  double way = 0;                  ///< with the way down and up to the stage
};

Bounds bounds_of(const cost::CostContext& context, const Plan& plan, const Shares& shares) {
  const double m = plan.only_pipeline().schedule.microbatches;
  const double update = std::floor(cost::update_constant_s(context.device, *context.engine) * 1e9),
               pass = std::floor(cost::pass_constant_s(context.device, *context.engine) * 1e9);
  Bounds b;
  double before = 0, down = 0;
  for (const StageSum& s : stage_sums(context, plan, shares)) {
    for (int k = 0; k < 3; ++k) {
      const double lambda = 1 - 0.5 * k, weight = m - 1 + lambda;
      const double value = weight * s.steady + lambda * s.hidden + (1 - lambda) * s.reduce + s.update;
      b.by_stage[k] = std::max(b.by_stage[k], down + value + update + weight * pass);
    }
    b.way = std::max(b.way, before + m * s.steady + update + m * pass);
    before += s.steady;
    down += s.down;
  }
  return b;
}

/// Keeps the largest excess for a message.
struct Worst {
  double excess = 0;
  int count = 0;
  std::string text;
  void see(double bound, std::int64_t time, const std::string& what) {
    const double more = std::floor(bound) - static_cast<double>(time);
    if (more <= 0) return;
    ++count;
    if (more > excess) {
      excess = more;
      text = what + ": bound " + std::to_string(bound) + " > time " + std::to_string(time);
    }
  }
};

TEST(LayeredPlan, ObjectivesNeverExceedTheSimulatedTime) {
  sim::Simulator simulator;
  Worst worst;
  int plans = 0, pipelines = 0, mixed = 0;
  double closest[4] = {0, 0, 0, 0};
  std::set<int> overlaps;
  each_layered_plan(1, kProblems, kPlans, [&](const LayeredProblem& p, const LayeredPlan& x) {
    const cost::CostContext context(p.model, p.cluster, p.training, *p.engine);
    const TimedLayers t = timed(context, x.document);
    const std::int64_t time = simulator.iteration_ns(t.program, t.costs);
    const Bounds b = bounds_of(context, x.document, shares_of(context, p, x));
    // Stages of several chunks reduce one while others still compute. There, only the bound of all work holds.
    // Zero-bubble schedules have a shorter way up.
    const Schedule& schedule = x.document.only_pipeline().schedule;
    const std::size_t proven = schedule.virtual_stages > 1 ? 1 : splits_backward(schedule.kind) ? 3 : 4;
    const double values[] = {b.by_stage[0], b.by_stage[1], b.by_stage[2], b.way};
    const char* names[] = {"λ 1 ", "λ 1/2 ", "λ 0 ", "way "};
    for (std::size_t k = 0; k < proven; ++k) {
      worst.see(values[k], time, names[k] + describe(p, x));
      closest[k] = std::max(closest[k], values[k] / static_cast<double>(time));
    }
    ++plans;
    pipelines += x.document.only_pipeline().schedule.stages > 1;
    mixed += !x.document.uniform();
    const ProgramStructure& l = t.structure;
    overlaps.insert(l.overlap_reduce + 2 * l.overlap_gather + 4 * l.overlap_p2p);
    return true;
  });
  EXPECT_EQ(worst.count, 0) << worst.text;
  EXPECT_GE(plans, cases(2000, 2000));
  EXPECT_GT(pipelines, plans / 4);
  EXPECT_GT(mixed, plans / 2);
  EXPECT_EQ(overlaps.size(), 8U);
  for (const double ratio : closest) EXPECT_GT(ratio, 0.9);  // a bound far from any time would be too weak to test
}

// Where nothing overlaps and nothing is left out, the work of one device is all there is. The sum is then the time,
// up to rounding.
TEST(LayeredPlan, SharesNeverExceedTheChunk) {
  std::string broken;
  each_layered_plan(100'000, kProblems / 2, kPlans, [&](const LayeredProblem& p, const LayeredPlan& x) {
    const cost::CostContext context(p.model, p.cluster, p.training, *p.engine);
    const TimedLayers t = timed(context, x.document);
    const Shares shares = shares_of(context, p, x);
    const auto chunks = chunks_of(x.document);
    std::vector<std::int64_t> reduce(t.timing.stages.size()), reduced(t.timing.stages.size());
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      std::int64_t forward = 0, backward = 0, saved = 0;
      double moved = 0;
      const auto stage =
          static_cast<std::size_t>(place_of_chunk(x.document.only_pipeline().schedule, static_cast<std::int32_t>(c)).stage);
      for (std::int32_t l = chunks[c].first; l <= chunks[c].second; ++l) {
        const cost::LayerShare& s = shares.layers[static_cast<std::size_t>(l)];
        forward += s.forward_ns;
        backward += splits_backward(x.document.only_pipeline().schedule.kind) ? s.split_backward_ns : s.backward_ns;
        saved += s.saved_bytes;
        if (l > chunks[c].first) moved += shares.transition[static_cast<std::size_t>(l)];
        reduce[stage] += s.reduce_ns;
      }
      const cost::test::ChunkRow& chunk = t.timing.chunks[c];
      const std::int64_t whole =  // joint, or its two halves
          chunk.backward.duration_ns() + chunk.backward_input.duration_ns() + chunk.backward_weight.duration_ns();
      reduced[stage] += chunk.grad_reduce_ns * t.structure.buckets[ChunkId(static_cast<std::int32_t>(c))];
      if (forward > chunk.forward.duration_ns()) broken += "forward ";
      if (backward > whole) broken += "backward ";
      if (static_cast<double>(forward + backward) + moved > static_cast<double>(chunk.forward.duration_ns() + whole))
        broken += "redistribution " + std::to_string(forward) + "+" + std::to_string(backward) + "+" + std::to_string(moved) +
                  " > " + std::to_string(chunk.forward.duration_ns()) + "+" + std::to_string(whole) + " ";
      if (saved != chunk.saved_bytes) broken += "saved " + std::to_string(saved) + " " + std::to_string(chunk.saved_bytes) + " ";
    }
    const std::vector<StageSum> sums = stage_sums(context, x.document, shares);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const cost::test::StageRow& stage = t.timing.stages[i];
      const double end =
          static_cast<double>(reduce[i]) + sums[i].update + cost::update_constant_s(context.device, *context.engine) * 1e9;
      if (std::floor(end) > static_cast<double>(reduced[i] + stage.optimizer_ns)) broken += "end of step ";
      const std::int64_t states = stage.memory.parameters + stage.memory.gradients + stage.memory.optimizer;
      if (sums[i].states > states) broken += "states " + std::to_string(sums[i].states) + " > " + std::to_string(states) + " ";
    }
    if (!broken.empty()) broken += describe(p, x);
    return broken.empty();
  });
  EXPECT_TRUE(broken.empty()) << broken;
}

// The helpers below serve the test that the way down to a stage takes at least the table's sum over its layers,
// whatever options the table left out.
/// Returns the strategies of one base that a layer may have under the engine: each way to recompute that
/// the space admits.
std::vector<Strategy> of_layers(const LayeredProblem& p, const search::Space& space, std::size_t base) {
  std::vector<Strategy> out;
  for (Strategy s : p.sharded[base]) {
    for (const RecomputeKind kind : {RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full}) {
      if (!p.space.admits(Dimension::recompute, kind)) continue;
      s.recompute = {kind, kind == RecomputeKind::full ? 1 : 0};
      if (engine_allows(*p.engine, space.facts(), s, p.bases[base].schedule)) out.push_back(s);
    }
  }
  return out;
}

/// Returns the values that plans of the problem may share; one class where the engine restricts nothing.
std::set<LayerClass> classes_of(const LayeredProblem& p, const search::Space& space) {
  if (is_unrestricted(p.engine->layers)) return {LayerClass{}};
  std::set<LayerClass> out;
  for (std::size_t b = 0; b < p.bases.size(); ++b) {
    for (const Strategy& s : of_layers(p, space, b)) {
      for (const LayerClass& shared : classes_of(p.engine->layers, s)) out.insert(shared);
    }
  }
  return out;
}

/// Returns the least forward time of each kind, over the strategies that a plan of the class may give it. The value
/// is INT64_MAX where there is none.
std::vector<std::int64_t> least_forward_of(const LayeredProblem& p, const search::CostBook& book, const search::Space& space,
                                           const LayerClass& shared) {
  std::vector<std::int64_t> least(p.model.kinds.size(), INT64_MAX);
  std::vector<cost::LayerShare> shares;
  for (std::size_t b = 0; b < p.bases.size(); ++b) {
    for (const Strategy& s : of_layers(p, space, b)) {
      cost::layer_shares(book.context(), s, p.schedule().stages, p.costs[b], shares);
      for (std::size_t k = 0; k < least.size(); ++k) {
        const bool block = p.model.kinds[k].role == LayerRole::block;
        const bool free = is_unrestricted(p.engine->layers);
        if (free || admits(p.engine->layers, shared, s, block)) least[k] = std::min(least[k], shares[k].forward_ns);
      }
    }
  }
  return least;
}

TEST(LayeredPlan, LeastForwardTimeOfEveryOption) {
  int kinds = 0;
  for (std::uint64_t seed = 400'000; kinds < 10 * kProblems / 3 && !::testing::Test::HasFailure();) {
    LayeredProblem p;
    for (++seed; !LayeredMaker(seed).problem(p);) ++seed;
    const search::CostBook book(p.view());
    const search::Space space(p.model, p.cluster, p.training, *p.engine, p.space);
    for (const LayerClass& shared : classes_of(p, space)) {
      const search::OptionTable table(p.view(), space, book, p.bases, shared);
      const std::vector<std::int64_t> least = least_forward_of(p, book, space, shared);
      for (std::size_t k = 0; k < least.size(); ++k, ++kinds) {
        if (table.of_kind(static_cast<std::int32_t>(k)).empty()) continue;
        EXPECT_EQ(table.least_forward(static_cast<std::int32_t>(k)), static_cast<double>(least[k])) << "seed " << p.seed;
      }
    }
  }
}

// ---- memory -------------------------------------------------------------------------------------------------------

/// Holds the memory that one layer saves for a micro-batch, and its transient memory in forward and backward.
struct LayerMemory {
  std::int64_t kept = 0, forward = 0, backward = 0;
};

/// Returns the memory of every layer of the plan, read from its document.
std::vector<LayerMemory> layer_memory(const cost::CostContext& context, const Plan& plan) {
  std::vector<LayerMemory> out(context.workload.model->layers.size());
  std::vector<cost::LayerCost> costs;
  for (const Stage& stage : plan.only_pipeline().stages) {
    for (const Chunk& chunk : stage.chunks) {
      for (const LayerRange& range : chunk.ranges) {
        const Strategy& s = range.strategy;
        cost::layer_costs(context, s, plan.only_pipeline().schedule.stages,
                          static_cast<std::int32_t>(plan.samples_per_microbatch() / s.dp), costs);
        std::int32_t again = s.recompute.layers;
        for (std::int32_t l = range.first; l <= range.last; ++l) {
          const auto layer = static_cast<std::size_t>(l);
          const cost::LayerCost& x = costs[static_cast<std::size_t>(context.workload.model->layers[layer])];
          const bool block = context.workload.model->layer(layer).role == LayerRole::block;
          const bool full = block && s.recompute.kind == RecomputeKind::full && again-- > 0;
          const bool selective = block && s.recompute.kind == RecomputeKind::selective;
          const std::int64_t kept = full ? x.saved.full : selective ? x.saved.selective : x.saved.none;
          out[layer] = {kept, x.transient.forward, x.transient.backward + x.saved.none - kept};
        }
      }
    }
  }
  return out;
}

/// Returns the fullest moment of a rank: its passes in the order of the program, each a layer at a time.
std::int64_t replayed(const TimedLayers& t, const RankClass& rank, const Plan& plan, const std::vector<LayerMemory>& layers) {
  const auto chunks = chunks_of(plan);
  std::int64_t held = 0, peak = 0;
  for (std::int32_t i = rank.begin; i < rank.end; ++i) {
    const Instruction& pass = t.program.instructions[static_cast<std::size_t>(i)];
    const bool forward = pass.kind == InstructionKind::forward, backward = pass.kind == InstructionKind::backward;
    if ((!forward && !backward) || (forward ? pass.bucket > 0 : pass.bucket + 1 < pass.buckets)) continue;
    const auto [first, last] = chunks[t.program.chunk_of(pass).index()];
    for (std::int32_t n = 0; n <= last - first; ++n) {
      const LayerMemory& x = layers[static_cast<std::size_t>(forward ? first + n : last - n)];
      held += forward ? x.kept : 0;
      peak = std::max(peak, held + (forward ? x.forward : x.backward));
      held -= forward ? 0 : x.kept;
    }
  }
  EXPECT_EQ(held, 0);
  return peak;
}

TEST(LayeredPlan, PeakIsThatOfAReplayOfLayers) {
  sim::Simulator simulator;
  int stages = 0;
  std::vector<std::int64_t> peaks;
  each_layered_plan(200'000, kProblems / 2, kPlans, [&](const LayeredProblem& p, const LayeredPlan& x) {
    const cost::CostContext context(p.model, p.cluster, p.training, *p.engine);
    const TimedLayers t = timed(context, x.document);
    const Schedule& schedule = x.document.only_pipeline().schedule;
    simulator.peak_bytes(t.program, t.costs, peaks);
    const std::vector<LayerMemory> layers = layer_memory(context, x.document);
    const std::vector<StageSum> sums = stage_sums(context, x.document, shares_of(context, p, x));
    for (std::size_t i = 0; i < peaks.size(); ++i) {
      const std::int64_t fixed = t.timing.stages[i].memory.total();
      if (!splits_backward(schedule.kind)) {
        const std::int64_t activations = replayed(t, t.program.ranks[i], x.document, layers);
        EXPECT_EQ(peaks[i], cost::peak_bytes(fixed, activations, t.timing.allocator_reserve)) << describe(p, x);
      }
      if (const std::int32_t v = schedule.virtual_stages; v > 1) {
        // While the last layer runs, every chunk holds as many passes as all do when the fewest are held.
        const std::int32_t passes = splits_backward(schedule.kind) ? 0 : max_in_flight(schedule, static_cast<std::int32_t>(i));
        const std::int64_t held = std::max(1, passes / (schedule.stages * v) * schedule.stages);
        const std::int64_t summed = cost::peak_bytes(sums[i].states + context.device.workspace_bytes,
                                                     held * sums[i].saved + sums[i].last_transient, t.timing.allocator_reserve);
        EXPECT_LE(summed, peaks[i]) << describe(p, x);
        continue;
      }
      // This is the stage peak of a search over layers. It is never above the replay. It equals the replay once the
      // memory that a stage holds once is added.
      const std::int64_t in_flight = std::max(1, max_in_flight(schedule, static_cast<std::int32_t>(i)));
      const std::int64_t activations = (in_flight - 1) * sums[i].saved + sums[i].fullest;
      const std::int64_t summed =
          cost::peak_bytes(sums[i].states + context.device.workspace_bytes, activations, t.timing.allocator_reserve);
      EXPECT_LE(summed, peaks[i]) << describe(p, x);
      EXPECT_EQ(cost::peak_bytes(fixed, activations, t.timing.allocator_reserve), peaks[i]) << describe(p, x);
      ++stages;
    }
    return !::testing::Test::HasFailure();
  });
  // 1,000 for the usual 75 problems, and in proportion for other numbers
  EXPECT_GT(stages, 1000 * (kProblems / 2) / 75);
}

// ---- the check ----------------------------------------------------------------------------------------------------

// The check derives the planner's claims about a layered plan from the raw inputs.
TEST(LayeredPlan, TheCheckDerivesWhatThePlannerClaims) {
  int plans = 0;
  each_layered_plan(300'000, kProblems / 2, kPlans / 2, [&](const LayeredProblem& p, const LayeredPlan& x) {
    Job job;
    job.model = p.model;
    job.cluster = p.cluster;
    job.training = p.training;
    job.engine = p.engine->name;
    job.search = p.space;
    const Status valid = validate(x.document);
    EXPECT_TRUE(valid.ok()) << valid.error().message() << "\n" << describe(p, x);
    const auto claims = planner::claims_of(job, x.document);
    EXPECT_TRUE(claims.ok()) << describe(p, x);
    if (!claims) return false;
    const CheckReport report = check::check_plan(x.document, p.model, p.cluster, lower(x.document, p.model, true), &*claims);
    // the maker does not consult the engine's rules about layers
    const bool runnable = layer_faults(p.engine->layers, p.model, x.document).empty();
    for (const Finding& finding : report.findings)
      EXPECT_EQ(finding.ok, runnable || finding.name != "engine-layers") << finding.name << ": " << finding.text << "\n"
                                                                         << describe(p, x);
    plans += x.document.uniform() ? 0 : 1;
    return !::testing::Test::HasFailure();
  });
  EXPECT_GT(plans, kProblems);
}

}  // namespace
}  // namespace espalier::property::layered_plan_test
