// SPDX-License-Identifier: Apache-2.0
#include "search/group_solver.h"

#include <algorithm>
#include <cmath>

#include "cost/bound.h"
#include "plan/program.h"
#include "plan/split.h"
#include "search/layered_candidate.h"

namespace espalier::search {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kMemoryRounds = 8;        // times a stage that came out too large is solved again with less room
constexpr double kRounding = 1 - 1e-9;  // of sums in floating point
constexpr int kPolishRounds = 8;
constexpr std::int64_t kRefinements = 1500;  // plans tried by refine, at most
constexpr std::int64_t kRefinedInstructions = 40'000'000;
constexpr std::size_t kSmallModel = 12;  // layers, up to which all of them are tried
constexpr double kPrecious = 1e6;        // nanoseconds a byte: the leanest is the best
constexpr std::int32_t kChunks = 8;      // virtual stages tried, at most

bool zero_bubble(ScheduleKind kind) { return kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_v; }

}  // namespace

bool GroupSolver::admits(ScheduleKind kind) const {
  const auto& engine = *problem_.engine;
  return problem_.space.admits("schedule", static_cast<std::int64_t>(kind)) &&
         std::find(engine.schedules.begin(), engine.schedules.end(), kind) != engine.schedules.end();
}

GroupResult GroupSolver::run() {
  result_.priced = table_.before_reduction(), result_.kept = table_.after_reduction();
  for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1}) {
    if (!admits(kind) || !problem_.space.admits("vpp", 1) || (zero_bubble(kind) && group_.stages == 1)) continue;
    result_.bound_ns = std::min(result_.bound_ns, solve_kind(kind));
  }
  const auto layers = static_cast<std::int32_t>(problem_.model->layers.size());
  for (const ScheduleKind kind : {ScheduleKind::interleaved, ScheduleKind::zb_v}) {
    if (!admits(kind) || group_.stages == 1) continue;
    if (kind == ScheduleKind::interleaved && group_.microbatches % group_.stages != 0) continue;
    GroupProgram program(*problem_.model, book_, table_, group_, kind);
    for (std::int32_t v = 2; v <= (kind == ScheduleKind::zb_v ? 2 : kChunks) && v * group_.stages <= layers; ++v) {
      if (interrupted()) break;
      if (!problem_.space.admits("vpp", v)) continue;
      const Schedule schedule{kind, group_.stages, v, group_.microbatches, 1};
      result_.bound_ns = std::min(result_.bound_ns, solve_virtual(VirtualProgram(problem_, table_, program, schedule)));
    }
  }
  // Plans of schedules that nothing above stands for are bounded by their work alone.
  const bool stood_for = admits(ScheduleKind::one_f_one_b) && problem_.space.admits("vpp", 1);
  if (interrupted() || std::isinf(result_.bound_ns) || (admits(ScheduleKind::gpipe) && !stood_for))
    result_.bound_ns = std::min(result_.bound_ns, group_.bound_ns);
  return std::move(result_);
}

/// The bound of a schedule whose partition is chosen with the strategies.
double GroupSolver::solve_kind(ScheduleKind kind) {
  GroupProgram program(*problem_.model, book_, table_, group_, kind);
  double bound = 0;
  for (const Mode& mode : kModes) {
    if (mode.way && (group_.stages == 1 || zero_bubble(kind))) continue;  // the way up of zero-bubble schedules is shorter
    const double value = solve_plain(program, kind, mode);
    if (mode.proven) bound = std::max(bound, value);
    if (bound >= best_ || interrupted()) break;
  }
  return bound;
}

/// The bound of a schedule with virtual stages; with a shared table as in solve_plain.
double GroupSolver::solve_virtual(VirtualProgram stages) {
  const double bound = stages.bound();
  if (table_.tied() && bound < best_) stages.hold_table(stages.best_table(0.0));
  std::int64_t margin = 0;
  for (int round = 0; round < kMemoryRounds && bound < best_; ++round) {
    Assignment a = stages.assignment(margin);
    if (a.empty() && table_.tied() && round == 0) {
      stages.hold_table(kAnyTable);
      stages.hold_table(stages.best_table(kPrecious));
      a = stages.assignment(margin);
    }
    if (a.empty()) break;
    const std::vector<std::int64_t> excess = judge(stages.schedule(), a);
    const std::int64_t most = *std::max_element(excess.begin(), excess.end());
    if (most <= 0) break;
    margin += most;
  }
  return bound;
}

/// The least value (a lower bound if the mode is proven); what fits and is faster than all before becomes a candidate. Where embedding and
/// head share a table the value is that of plans in which each has it as it likes, which bounds all others; candidates have it in the
/// layout that is best for both at the prices of memory found then.
double GroupSolver::solve_plain(GroupProgram& program, ScheduleKind kind, const Mode& mode) {
  double bound = kNever;
  program.forget_margins();
  program.hold_table(kAnyTable);
  const double constant = program.constant_ns(mode);
  const auto best = [&] { return best_partition(program.balance(mode), program.bounds(mode), best_ - constant); };
  if (table_.tied()) {
    const auto relaxed = best();
    bound = relaxed ? std::min((relaxed->time + constant) * kRounding, best_) : best_;
    if (bound >= best_) return bound;
    program.hold_table(program.best_table(relaxed->first, mode, 0.0));
    if (!best()) {  // nothing fits, or nothing is faster: the leanest layout
      program.hold_table(kAnyTable);
      program.hold_table(program.best_table(relaxed->first, mode, kPrecious));
    }
  }
  for (int round = 0; round < kMemoryRounds; ++round) {
    const auto found = best();
    const double value = found ? (found->time + constant) * kRounding : kNever;
    if (round == 0 && !table_.tied()) bound = std::min(value, best_);  // nothing below `best_` was found: none is
    if (value >= best_) return bound;
    Schedule schedule;
    schedule.kind = kind, schedule.stages = group_.stages, schedule.microbatches = group_.microbatches;
    bool fits = true;
    for (std::int32_t i = 0; i < group_.stages && fits; ++i) {
      const std::int32_t end = i + 1 < group_.stages ? found->first[static_cast<std::size_t>(i) + 1]
                                                     : static_cast<std::int32_t>(problem_.model->layers.size());
      fits = program.stage(i, found->first[static_cast<std::size_t>(i)], end, mode).fits;
      if (!fits) program.widen(i, program.capacity() / 64);  // hulls promised what no whole choice keeps
    }
    if (!fits) continue;
    const std::vector<std::int64_t> excess = judge(schedule, program.assignment(found->first, mode));
    if (*std::max_element(excess.begin(), excess.end()) <= 0) return bound;
    for (std::size_t i = 0; i < excess.size(); ++i)
      program.widen(static_cast<std::int32_t>(i), std::max<std::int64_t>(0, excess[i]));
  }
  return bound;
}

/// Which overlaps to try: everything that is allowed, and each of them left out.
std::vector<Overlap> GroupSolver::overlaps() const {
  const auto may = [&](const char* dimension, int value) { return problem_.space.admits(dimension, value); };
  const bool named = problem_.space.allow.count("overlap_tp") > 0 || problem_.space.forbid.count("overlap_tp") > 0;
  std::vector<Overlap> all;
  for (const int tp : {1, 0}) {
    if (named ? !may("overlap_tp", tp) : tp == 1) continue;
    for (const int p2p : {1, 0}) {
      if (group_.stages == 1 ? p2p == 1 : !may("overlap_p2p", p2p)) continue;
      for (const int grad : {1, 0})
        for (const int param : {1, 0})
          if (may("overlap_grad", grad) && may("overlap_param", param)) all.push_back({grad == 1, param == 1, p2p == 1, tp == 1});
    }
  }
  return all;
}

/// Simulates an assignment under each overlap. Returns by how many bytes of tensors each stage exceeds the limit (0: fits).
std::vector<std::int64_t> GroupSolver::judge(const Schedule& schedule, const Assignment& a) {
  return judge(schedule, a, overlaps());
}

std::vector<std::int64_t> GroupSolver::judge(const Schedule& schedule, const Assignment& a,
                                             const std::vector<Overlap>& overlaps) {
  std::vector<std::int64_t> excess(static_cast<std::size_t>(group_.stages), 0);
  Lowering lowering;
  cost::PlanTiming timing;
  if (interrupted()) return excess;  // nothing more is looked at
  for (const Overlap& overlap : overlaps) {
    LayeredCandidate c;
    c.options = a.options;
    c.configuration = layered_configuration(*problem_.model, table_, schedule, group_.samples, a.first, a.options, overlap);
    assemble(book_.context(), c.configuration, group_.samples, lowering, timing);
    const std::vector<std::int64_t> now = excess_bytes(lowering, timing);
    if (*std::max_element(now.begin(), now.end()) > 0) {
      excess = now;
      continue;
    }
    c.peak_bytes = evaluator_.peak_bytes(lowering, timing, worker_);
    c.iteration_ns = evaluator_.iteration_ns(lowering, timing, worker_);
    ++result_.simulations;
    if (static_cast<double>(c.iteration_ns) >= best_) continue;
    best_ = static_cast<double>(c.iteration_ns);
    result_.candidates.push_back(std::move(c));
  }
  return excess;
}

std::vector<std::int64_t> GroupSolver::excess_bytes(const Lowering& lowering, const cost::PlanTiming& timing) {
  const std::int64_t limit = book_.memory_limit();
  const Schedule& s = lowering.schedule;
  const bool exact = s.virtual_stages == 1 && !zero_bubble(s.kind);  // the bound of activations is the peak
  std::int64_t fullest = 0;
  if (!exact) fullest = evaluator_.peak_bytes(lowering, timing, worker_);
  std::vector<std::int64_t> excess;
  for (std::int32_t i = 0; i < s.stages; ++i) {
    const std::int64_t peak = exact
                                  ? cost::peak_bytes(timing.stages[static_cast<std::size_t>(i)].memory.total(),
                                                     cost::activations_lower_bound_bytes(timing, s, i), timing.allocator_reserve)
                                  : fullest;
    const double reserve = 1.0 + timing.allocator_reserve;
    excess.push_back(peak <= limit ? 0 : static_cast<std::int64_t>(static_cast<double>(peak - limit) / reserve) + 2);
  }
  return excess;
}

GroupResult GroupSolver::refine(const LayeredCandidate& start) {
  const Model& model = *problem_.model;
  Assignment now;
  Overlap on;
  for (const auto& ranges : start.configuration.chunks) {
    now.first.push_back(ranges.front().first);
    for (const LayerRange& r : ranges) {
      const Overlap& o = r.strategy.overlap;
      on.grad_reduce |= o.grad_reduce, on.param_gather |= o.param_gather, on.p2p |= o.p2p, on.tp |= o.tp;
    }
  }
  now.options = start.options;
  best_ = static_cast<double>(start.iteration_ns);
  const Schedule& schedule = start.configuration.schedule;
  const std::int64_t instructions = 7 * std::int64_t{schedule.stages} * schedule.virtual_stages * schedule.microbatches;
  std::int64_t tries = std::min(kRefinements, kRefinedInstructions / std::max<std::int64_t>(1, instructions));
  for (bool improved = true; improved && tries > 0 && !interrupted();) {
    improved = false;
    const std::size_t layers = now.options.size();
    for (std::size_t l = 0; l < layers && tries > 0; ++l) {
      const bool edge = l == 0 || l + 1 == layers || now.options[l] != now.options[l - 1] || now.options[l] != now.options[l + 1];
      if (!edge && layers > kSmallModel) continue;
      for (const PricedOption& o : table_.of_kind(model.layers[l])) {
        if (o.strategy == now.options[l] || (zero_bubble(schedule.kind) && table_.strategy(o.strategy).zero > 1)) continue;
        for (Assignment& other : changed(now, l, o)) {
          if (tries-- <= 0) break;
          const double before = best_;
          judge(schedule, other, {on});
          if (best_ < before) now = std::move(other), improved = true;
        }
      }
    }
  }
  return std::move(result_);
}

std::vector<Assignment> GroupSolver::changed(const Assignment& now, std::size_t layer, const PricedOption& option) const {
  Assignment other = now;
  other.options[layer] = option.strategy;
  const std::size_t head = now.options.size() - 1, partner = head - layer;
  if ((layer != 0 && layer != head) || table_.share_layout(option.strategy, now.options[partner])) return {other};
  std::vector<Assignment> all;
  for (const bool alike : {true, false}) {  // of those in the same activation layout, if there are any
    for (const PricedOption& o : table_.of_kind(problem_.model->layers[partner])) {
      if (o.table != option.table || (alike && o.layout != option.layout)) continue;
      other.options[partner] = o.strategy;
      all.push_back(other);
    }
    if (!all.empty()) break;
  }
  return all;
}

BalanceReport GroupSolver::balance(const LayeredCandidate& answer, GroupResult& looked) {
  BalanceReport report;
  const Mode& mode = kModes[0];
  GroupProgram program(*problem_.model, book_, table_, group_, ScheduleKind::one_f_one_b);
  program.hold_table(table_.table_of(answer.options.front()));
  best_ = kNever;
  const BalanceProblem b = program.balance(mode);
  const StageOracle oracle = memoised(b, program.oracle(mode));
  const auto row = [&](const char* name, const std::optional<Partition>& p) {
    if (p) report.rows.push_back({name, p->first, p->alpha_t, p->alpha_m, simulate(program, p->first)});
  };
  const auto& model = *problem_.model;
  row("even", evaluate_partition(b, oracle, even_blocks_split(model, group_.stages)));
  row("time-balanced", time_balanced(b, oracle));
  row("memory-balanced", memory_balanced(b, oracle));
  row("bi-objective", bi_objective(b, oracle).best);
  row("exact", best_partition(b, oracle));
  std::vector<std::int32_t> first;
  for (const auto& ranges : answer.configuration.chunks) first.push_back(ranges.front().first);
  if (answer.configuration.schedule.kind == ScheduleKind::one_f_one_b) {
    row("answer", evaluate_partition(b, oracle, first));
    if (!report.rows.empty() && report.rows.back().name == "answer") report.rows.back().iteration_ns = answer.iteration_ns;
  }
  if (const auto better_first = polish(program, report); !better_first.empty() && better_first != first)
    row("polished", evaluate_partition(b, oracle, better_first));
  looked = std::move(result_);
  return report;
}

/// From the best of the report's partitions, boundaries move by one layer while that makes the simulated step shorter.
std::vector<std::int32_t> GroupSolver::polish(const GroupProgram& program, const BalanceReport& report) {
  std::vector<std::int32_t> best;
  std::int64_t best_ns = std::numeric_limits<std::int64_t>::max();
  for (const auto& row : report.rows)
    if (row.iteration_ns > 0 && row.iteration_ns < best_ns) best = row.first, best_ns = row.iteration_ns;
  const auto layers = static_cast<std::int32_t>(problem_.model->layers.size());
  for (int round = 0; round < kPolishRounds && !best.empty(); ++round) {
    const std::vector<std::int32_t> from = best;
    for (std::size_t i = 1; i < from.size(); ++i) {
      for (const std::int32_t by : {-1, 1}) {
        std::vector<std::int32_t> first = from;
        first[i] += by;
        const std::int32_t end = i + 1 < first.size() ? first[i + 1] : layers;
        if (first[i] <= first[i - 1] || first[i] >= end) continue;
        const std::int64_t ns = simulate(program, first);
        if (ns > 0 && ns < best_ns) best = first, best_ns = ns;
      }
    }
    if (best == from) break;
  }
  return best;
}

/// Least simulated time of a partition with the strategies that are best for it; 0 if none fits.
std::int64_t GroupSolver::simulate(GroupProgram program, const std::vector<std::int32_t>& first) {
  best_ = kNever;
  Schedule schedule;
  schedule.stages = group_.stages, schedule.microbatches = group_.microbatches;
  for (int round = 0; round < kMemoryRounds; ++round) {
    const Assignment a = program.assignment(first, kModes[0]);
    if (a.empty()) break;
    const std::vector<std::int64_t> excess = judge(schedule, a);
    if (*std::max_element(excess.begin(), excess.end()) <= 0) break;
    for (std::size_t i = 0; i < excess.size(); ++i) program.widen(static_cast<std::int32_t>(i), excess[i]);
  }
  return std::isfinite(best_) ? static_cast<std::int64_t>(best_) : 0;
}

}  // namespace espalier::search
