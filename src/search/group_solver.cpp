// SPDX-License-Identifier: Apache-2.0
#include "search/group_solver.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/infinity.h"
#include "plan/engine.h"
#include "plan/program.h"
#include "search/budgets.h"
#include "search/layered_candidate.h"
#include "search/layered_rules.h"

namespace espalier::search {
namespace {

using base::kInfinity;
constexpr double kRoundedDown = 1 - 1e-9;  // margin for rounding of floating-point sums
constexpr double kNearIncumbent = 1.02;    // times the incumbent: chunks whose boundaries are worth moving
constexpr std::int64_t kMoves = 4;         // plans tried per boundary
constexpr double kPrecious = 1e6;          // nanoseconds per byte: the leanest is the best

/// Removes transitions. Chunks are joined by a message, which a bound leaves out.
solve::LayerProblem without_transitions(solve::LayerProblem p) {
  for (auto& row : p.transition) std::fill(row.begin(), row.end(), 0.0);
  return p;
}

/// Returns C_k of chunk_bound.h.
double least_coefficient(const std::vector<ChunkOrders::Coefficients>& coefficients, const OptionTable::ForwardShare& share) {
  double least = kInfinity;
  for (const ChunkOrders::Coefficients& c : coefficients)
    for (const double r : {share.least, share.most}) least = std::min(least, r * c.forward + (1 - r) * c.backward);
  return std::max(0.0, least);
}

/// Returns the host bytes of a layer kind under a strategy of the table: its states and the activations of one
/// micro-batch.
double host_bytes(const GroupTools& tools, std::int32_t strategy, std::int32_t kind) {
  const Strategy& s = tools.table.strategy(strategy);
  const cost::LayerCost& l = tools.table.costs(strategy)[static_cast<std::size_t>(kind)];
  const StatePolicy states = states_of(*tools.book.context().engine, tools.book.context().workload.training);
  return static_cast<double>(cost::state_memory(l.elements(), states, s).host + l.hosted.under(s.recompute.kind));
}

}  // namespace

bool GroupSolver::admits(ScheduleKind kind) const {
  const auto& engine = *tools().problem.engine;
  return tools().problem.space.admits(Dimension::schedule, kind) &&
         std::find(engine.runs.schedules.begin(), engine.runs.schedules.end(), kind) != engine.runs.schedules.end();
}

GroupProgram GroupSolver::program_of(ScheduleKind kind) const {
  return {*tools().problem.model, tools().book, tools().table, tools().group, kind};
}

GroupResult GroupSolver::run() {
  GroupResult& result = judge_.result();
  result.priced = tools().table.before_reduction();
  result.kept = tools().table.after_reduction();
  for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1, ScheduleKind::zb_h2, ScheduleKind::gpipe}) {
    if (!admits(kind) || !tools().problem.space.admits(Dimension::vpp, 1) || judge_.over()) continue;
    if (kind != ScheduleKind::one_f_one_b && tools().group.stages == 1) continue;
    if (kind == ScheduleKind::gpipe && admits(ScheduleKind::one_f_one_b)) continue;
    result.bound_ns = std::min(result.bound_ns, solve_plain(kind));
  }
  for (const ScheduleKind kind : {ScheduleKind::interleaved, ScheduleKind::zb_v})
    if (admits(kind) && tools().group.stages > 1) solve_chunked(kind);
  if (judge_.hosts_lacked() && judge_.best_ns() == kInfinity) solve_for_hosts();
  if (judge_.over()) result.bound_ns = tools().group.bound_ns;
  return std::move(result);
}

void GroupSolver::solve_for_hosts() {
  const Model& model = *tools().problem.model;
  const OptionTable& table = tools().table;
  Schedule schedule;
  schedule.kind = admits(ScheduleKind::one_f_one_b) ? ScheduleKind::one_f_one_b : ScheduleKind::gpipe;
  if (!admits(schedule.kind) || !tools().problem.space.admits(Dimension::vpp, 1)) return;
  schedule.stages = tools().group.stages;
  schedule.microbatches = tools().group.microbatches;
  const std::vector<Overlap> overlaps = judge_.overlaps();
  const auto try_it = [&](const Assignment& a) {
    judge_.judge(schedule, a, {overlaps.front()});  // host memory is the same for all of them
    if (judge_.last_ns() < kInfinity) judge_.judge(schedule, a, overlaps);
  };
  Assignment a;
  for (std::int32_t i = 0; i < table.strategies() && !overlaps.empty() && !judge_.over(); ++i) {
    const std::int32_t plain = table.find(table.strategy(i), {}).value_or(i);
    a.options.clear();
    std::vector<double> bytes;
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
      const bool block = model.layer(l).role == LayerRole::block;
      a.options.push_back(block ? i : plain);
      bytes.push_back(host_bytes(tools(), i, model.layers[l]));
    }
    a.first = balanced_split(split_weights(model, tools().problem.training.sequence), schedule.stages);
    try_it(a);
    a.first = balanced_split(bytes, schedule.stages);
    try_it(a);
  }
}

/// Returns a lower bound of the group's plans of one chunk per stage.
double GroupSolver::solve_plain(ScheduleKind kind) {
  GroupProgram program = program_of(kind);
  double bound = 0;
  for (const Mode& mode : kModes) {
    if (mode.way && (tools().group.stages == 1 || splits_backward(kind))) continue;  // zero-bubble schedules drain faster
    const double value = solve_plain(program, kind, mode);
    if (mode.proven) bound = std::max(bound, value);
    if (bound >= judge_.best_ns() || judge_.over()) break;
  }
  return bound;
}

/// Wraps the oracle until the judge stops. After that nothing fits, and the caller must ignore the result.
solve::StageOracle GroupSolver::watched(solve::StageOracle oracle) {
  return [this, oracle = std::move(oracle)](std::int32_t i, std::int32_t first,
                                            std::int32_t end) -> std::optional<solve::StageValue> {
    return judge_.over() ? std::nullopt : oracle(i, first, end);
  };
}

/// Returns the least value (a lower bound if the mode is proven); plans that fit and are faster than all before
/// become candidates. If embedding and head share a table, the value allows each its own layout, which bounds all
/// plans. Candidates have the layout that is best for both at the memory prices found there.
double GroupSolver::solve_plain(GroupProgram& program, ScheduleKind kind, const Mode& mode) {
  double bound = kInfinity;
  program.forget_margins();
  program.hold_table(kAnyTable);
  const double constant = program.constant_ns(mode);
  const std::int32_t stages = tools().group.stages;
  const bool tied = tools().table.tied();
  const auto least = [&] {
    return solve::best_partition(program.balance(mode), watched(program.bounds(mode)), judge_.best_ns() - constant);
  };
  if (tied) {
    const auto relaxed = least();
    bound = relaxed ? std::min((relaxed->time + constant) * kRoundedDown, judge_.best_ns()) : judge_.best_ns();
    if (bound >= judge_.best_ns() || judge_.over()) return bound;
    program.hold_table(program.best_table(relaxed->first, mode, 0.0));
    if (!least()) {  // nothing fits, or nothing is faster: the leanest layout
      program.hold_table(kAnyTable);
      program.hold_table(program.best_table(relaxed->first, mode, kPrecious));
    }
  }
  for (int round = 0; round < kMemoryRounds && !judge_.over(); ++round) {
    const double best = judge_.best_ns();
    const auto found = least();
    const double value = found ? (found->time + constant) * kRoundedDown : kInfinity;
    if (round == 0 && !tied) bound = std::min(value, best);  // nothing below `best` was found, so none exists
    if (value >= best) return bound;
    Schedule schedule;
    schedule.kind = kind;
    schedule.stages = stages;
    schedule.microbatches = tools().group.microbatches;
    bool fits = true;
    for (std::int32_t i = 0; i < stages && fits && !judge_.over(); ++i) {
      const std::int32_t end = i + 1 < stages ? found->first[static_cast<std::size_t>(i) + 1]
                                              : static_cast<std::int32_t>(tools().problem.model->layers.size());
      fits = program.stage(i, found->first[static_cast<std::size_t>(i)], end, mode).fits;
      // The hulls allowed more than any whole choice achieves.
      if (!fits) program.widen(i, program.capacity() / 64);
    }
    if (!fits || judge_.over()) continue;
    const std::vector<std::int64_t> excess = judge_.judge(schedule, program.assignment(found->first, mode));
    if (*std::max_element(excess.begin(), excess.end()) <= 0) return bound;
    for (std::size_t i = 0; i < excess.size(); ++i)
      program.widen(static_cast<std::int32_t>(i), std::max<std::int64_t>(0, excess[i]));
  }
  return bound;
}

/// Solves every number of chunks that the job admits, up to kMostLayerwiseChunks; only uniform plans have more
/// (layered_rules.h).
void GroupSolver::solve_chunked(ScheduleKind kind) {
  const GroupChoices& group = tools().group;
  if (kind == ScheduleKind::interleaved && group.microbatches % group.stages != 0) return;
  const auto layers = static_cast<std::int32_t>(tools().problem.model->layers.size());
  const std::int32_t most = kind == ScheduleKind::zb_v ? 2 : kMostLayerwiseChunks;
  GroupProgram program = program_of(kind);
  double& bound = judge_.result().bound_ns;
  for (std::int32_t v = 2; v <= most && v * group.stages <= layers && !judge_.over(); ++v) {
    if (!tools().problem.space.admits(Dimension::vpp, v)) continue;
    const Schedule schedule{kind, group.stages, v, group.microbatches, 1};
    const ChunkOrders orders(schedule);
    bound = std::min(bound, bound_of_every_split(program, schedule, orders));
    solve_chunked(VirtualProgram(tools().problem, tools().table, program, schedule, orders));
  }
}

/// Treats a shared table as solve_plain does.
void GroupSolver::solve_chunked(VirtualProgram stages) {
  const double worth = stages.bound();
  const OptionTable& table = tools().table;
  if (table.tied() && worth < judge_.best_ns()) stages.hold_table(stages.best_table(0.0));
  std::int64_t margin = 0;
  for (int round = 0; round < kMemoryRounds && worth < judge_.best_ns() && !judge_.over(); ++round) {
    Assignment a = stages.assignment(margin);
    if (a.empty() && table.tied() && round == 0) {
      stages.hold_table(kAnyTable);
      stages.hold_table(stages.best_table(kPrecious));
      a = stages.assignment(margin);
    }
    if (a.empty()) return;
    const std::vector<std::int64_t> excess = judge_.judge(stages.schedule(), a);
    const std::int64_t most = *std::max_element(excess.begin(), excess.end());
    if (most <= 0) return balance(stages.schedule(), a);
    margin += most;
  }
}

/// Moves boundaries between the chunks of the plan judged last, where it came near the best.
void GroupSolver::balance(const Schedule& schedule, const Assignment& a) {
  const double best = judge_.best_ns(), here = judge_.last_ns();
  if (!(here <= best * kNearIncumbent) || judge_.over()) return;
  judge_.set_best(here);
  LayerRefinement(judge_, schedule, a, judge_.last_overlap())
      .run(LayerRefinement::Depth::boundaries, kMoves * static_cast<std::int64_t>(a.first.size()));
  judge_.set_best(std::min(best, judge_.best_ns()));
}

/// Returns a bound for stages that hold different numbers of passes. It is a weighted mean of the stages' work.
/// Stages with few passes have the weight x and count no memory. The others have the weight y and the passes that
/// each of them holds: Σ_l min(x·work of l at its fastest, y·work of l + λ·bytes) − λ·capacity.
double GroupSolver::bound_by_stage_memory(const GroupProgram& program, const Schedule& s, const ChunkOrders& orders) const {
  const OptionTable& table = tools().table;
  const bool two_parts = splits_backward(s.kind);
  std::vector<std::int32_t> held;
  for (std::int32_t i = 0; i < s.stages; ++i) held.push_back(orders.held_together(i));
  std::sort(held.begin(), held.end());
  const double m = s.microbatches, constant = program.constant_ns(m);
  double bound = 0;
  std::int32_t before = 0;
  for (const std::int32_t quarter : {1, 2, 3}) {
    const std::int32_t light = std::max(1, s.stages * quarter / 4), heavy = s.stages - light;
    if (heavy < 1 || light == before || held[static_cast<std::size_t>(light)] == held.front()) continue;
    before = light;
    const solve::LayerProblem all = without_transitions(without_transients(table.program(
        tools().problem.model->layers, held[static_cast<std::size_t>(light)], kTotal.lambda, two_parts, kAnyTable)));
    for (const double more : {1.05, 1.15, 1.3, 1.6}) {
      const double x = more / s.stages, y = (1 - light * x) / heavy;
      if (y <= 0) continue;
      solve::LayerProblem mixed = all;
      for (auto& options : mixed.options) {
        double fastest = kInfinity;
        for (solve::LayerOption& o : options) {
          fastest = std::min(fastest, x * (m * o.steady + o.sync));
          o.steady = y * (m * o.steady + o.sync);
        }
        if (std::isfinite(fastest)) options.push_back({fastest, 0, 0, 0, 0, options.front().layout});
      }
      bound = std::max(bound, solve::layers_lower_bound(mixed, {1, 0}, program.capacity() * heavy) + constant);
    }
  }
  return bound;
}

/// See chunk_bound.h.
double GroupSolver::bound_of_every_split(const GroupProgram& program, const Schedule& s, const ChunkOrders& orders) const {
  const bool two_parts = splits_backward(s.kind);
  const OptionTable& table = tools().table;
  const solve::LayerProblem all = without_transitions(
      without_transients(table.program(tools().problem.model->layers, orders.least_held(), kTotal.lambda, two_parts, kAnyTable)));
  const double m = s.microbatches, p = s.stages;
  const std::int64_t capacity = program.capacity() * s.stages;
  double bound = solve::layers_lower_bound(all, {m / p, 1 / p}, capacity) + program.constant_ns(m);
  bound = std::max(bound, bound_by_stage_memory(program, s, orders));
  // One stage computes the slowest layer.
  for (const std::int32_t kind : std::set<std::int32_t>(all.layers.begin(), all.layers.end())) {
    solve::LayerProblem one = all;
    one.layers = {kind};
    bound = std::max(bound, solve::layers_lower_bound(one, {m, 1}, program.capacity()) + program.constant_ns(m));
  }
  if (!std::isfinite(bound)) return bound * kRoundedDown;
  const double constant = program.constant_ns(std::max(0.0, m - static_cast<double>(orders.most_skipped())));
  for (const bool ends : {false, true}) {
    if (ends && two_parts) continue;
    const std::vector<ChunkOrders::Coefficients> coefficients = orders.coefficients(ends);
    double tail = 1;
    for (const ChunkOrders::Coefficients& c : coefficients) tail = std::min(tail, c.tail);
    solve::LayerProblem weighed = all;
    for (std::size_t k = 0; k < weighed.options.size(); ++k)
      for (solve::LayerOption& o : weighed.options[k])
        if (std::isfinite(o.steady)) o.steady *= least_coefficient(coefficients, table.forward_share(k, two_parts));
    bound = std::max(bound, solve::layers_lower_bound(weighed, {1, tail}, capacity) + constant);
  }
  return bound * kRoundedDown;
}

GroupResult GroupSolver::refine(const LayeredCandidate& start, LayerRefinement::Depth depth, std::int64_t budget,
                                Refinement& done) {
  Assignment from;
  for (const auto& ranges : start.configuration.chunks) from.first.push_back(ranges.front().first);
  from.options = start.options;
  judge_.set_best(static_cast<double>(start.iteration_ns));
  done =
      LayerRefinement(judge_, start.configuration.schedule, std::move(from), overlap_of(start.configuration)).run(depth, budget);
  return std::move(judge_.result());
}

}  // namespace espalier::search
