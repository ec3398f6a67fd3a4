// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_chains.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <tuple>

#include "base/invariant.h"
#include "solve/device_group_fronts.h"
#include "solve/device_group_labels.h"
#include "solve/device_group_limits.h"
#include "solve/device_group_tables.h"

namespace espalier::solve {

struct DeviceGroupsTables::Parts {
  explicit Parts(const DeviceGroupsProblem& problem) : tables(problem), fronts(tables) {}
  const device_groups::StageTables tables;
  device_groups::StageFronts fronts;
};

DeviceGroupsTables::DeviceGroupsTables(const DeviceGroupsProblem& problem) : parts_(std::make_unique<Parts>(problem)) {}
DeviceGroupsTables::~DeviceGroupsTables() = default;

namespace {

using device_groups::kNever;
using device_groups::PassLimits;
using device_groups::PassResult;
using device_groups::StageCount;
using device_groups::StageCountLimits;
using device_groups::StageFronts;
using device_groups::StageTables;
using device_groups::StageTime;
using device_groups::Tail;

constexpr std::int64_t kBracketShare = 128;
/// Limits by how much a partial plan may be worse than others that it represents, in millionths of the limit. Coarse
/// labels are few and rule out almost as much.
constexpr std::int64_t kCoarseMillionths = 160'000;
constexpr std::array<std::int64_t, 2> kFinerMillionths = {5'000, 2'500};
constexpr std::int64_t kGoalPermille = 15;  ///< distance below the best plan of the first limit to be proven
/// Gives attempts that may cost much more than they gain 1/48 of all labels.
constexpr std::int64_t kSmallShare = 48;

bool rank_before(const GroupedPipeline& a, const GroupedPipeline& b) {
  const auto stage = [](const GroupedStage& s) { return std::tuple(s.option, s.first, s.last); };
  if (a.bound_ns != b.bound_ns) return a.bound_ns < b.bound_ns;
  if (a.estimate_ns != b.estimate_ns) return a.estimate_ns < b.estimate_ns;
  if (a.stages.size() != b.stages.size()) return a.stages.size() < b.stages.size();
  return std::lexicographical_compare(a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(),
                                      [&](const GroupedStage& x, const GroupedStage& y) { return stage(x) < stage(y); });
}

/// Runs one call. It starts with the bound by the limits alone and a narrow search for a first plan. It ends with the
/// search of everything below that plan.
class Planner {
 public:
  Planner(const DeviceGroupsProblem& problem, DeviceGroupsTables::Parts& parts)
      : problem_(problem),
        tables_(parts.tables),
        fronts_(parts.fronts),
        top_(std::min(problem.cutoff_ns - 1, tables_.worst_bound())) {
    outcome_.counters.options_dropped = tables_.dropped();
  }

  DeviceGroupsOutcome run() {
    if (!tables_.units_can_be_used() || !bracket()) return nothing();
    find_first();
    if (!outcome_.exact && problem_.prove && !stopped()) prove();
    if (outcome_.candidates.empty()) {
      if (outcome_.exact) return nothing();
    } else if (outcome_.exact) {
      outcome_.lower_bound_ns = outcome_.candidates.front().bound_ns;
    }
    if (outcome_.candidates.size() > problem_.candidates) outcome_.candidates.resize(problem_.candidates);
    return std::move(outcome_);
  }

 private:
  /// Returns the outcome when no plan is below the cutoff.
  DeviceGroupsOutcome nothing() {
    outcome_.exact = true;
    outcome_.lower_bound_ns = problem_.cutoff_ns;
    return std::move(outcome_);
  }

  /// Finds the least limit that the limits alone do not rule out, to a relative precision of 1/kBracketShare. Returns
  /// false if they rule out every limit below the cutoff.
  bool bracket() {
    const std::optional<StageCountLimits> widest = StageCountLimits::make(tables_, all(), top_, prices_, true);
    if (!widest) return false;
    outcome_.lower_bound_ns = std::max(problem_.floor_ns, refused_below(*widest));
    return true;
  }

  [[nodiscard]] std::int64_t refused_below(const StageCountLimits& widest) {
    if (problem_.floor_ns > 0) return problem_.floor_ns;
    std::int64_t low = tables_.least_end() - 1;  // ruled out
    std::int64_t high = tables_.least_end() + 1;
    for (const auto& prices : widest.prices()) high = std::max(high, tables_.least_end() + prices.whole());
    while (high < top_ && !StageCountLimits::make(tables_, all(), high, prices_, true)) {
      low = high;
      high += high / 2 + 1;
    }
    high = std::min(high, top_);
    while (high - low > 1 + low / kBracketShare) {
      const std::int64_t middle = low + (high - low) / 2;
      (StageCountLimits::make(tables_, all(), middle, prices_, true) ? high : low) = middle;
    }
    return low + 1;
  }

  struct Passed {
    bool whole = false;
    std::int64_t none_below = 0;  ///< for a whole pass: lower bound of the plans outside the candidates
    std::int64_t limit = 0, states = 0;
    [[nodiscard]] bool refused() const { return whole && none_below > limit; }
  };

  /// Runs one pass below the limit; if the limits rule it out, nothing is below it. Keeps the plans, sorted, and
  /// returns whether the pass was whole.
  Passed pass(StageCount count, std::int64_t limit, PassLimits how) {
    std::optional<StageCountLimits> limits = StageCountLimits::make(tables_, count, limit, prices_, true);
    if (!limits) return {true, limit + 1, limit, 0};
    limits->look_before();
    how.limit = limit;
    how.stop = &problem_.stop;
    if (how.width > 0) how.states = problem_.states;
    const PassResult found = search_labels(tables_, fronts_, *limits, how, outcome_.counters);
    for (const auto& stages : found.plans) {
      const std::optional<GroupedPipeline> plan = evaluate_stages(problem_, stages);
      ESPALIER_CHECK(plan && plan->bound_ns >= outcome_.lower_bound_ns);
      ESPALIER_CHECK(how.merged > 0 || plan->bound_ns <= limit);
      if (plan->bound_ns <= limit) outcome_.candidates.push_back(*plan);
    }
    auto& plans = outcome_.candidates;
    std::sort(plans.begin(), plans.end(), rank_before);
    plans.erase(std::unique(plans.begin(), plans.end(), [](const auto& a, const auto& b) { return a.stages == b.stages; }),
                plans.end());
    return {found.complete, found.none_below, limit, 0};
  }

  /// Runs narrow passes under a rising limit until there is a plan.
  void find_first() {
    for (std::int64_t permille = problem_.floor_ns > 0 ? 40 : 5;; permille *= 2) {
      const std::int64_t bound = outcome_.lower_bound_ns;
      const std::int64_t limit = bound > (kNever / permille) ? top_ : std::min(top_, bound + bound * permille / 1000 + 1);
      PassLimits how;
      how.width = problem_.width;
      how.slack = problem_.slack_permille;
      const bool whole = pass(all(), limit, how).whole;
      if (whole && outcome_.candidates.empty()) outcome_.lower_bound_ns = limit + 1;
      if (limit == top_ && whole) outcome_.exact = true;
      if (limit == top_ || !outcome_.candidates.empty() || stopped()) return;
    }
  }

  /// Returns the best known bound, or the cutoff.
  [[nodiscard]] std::int64_t known() const { return outcome_.candidates.empty() ? top_ : outcome_.candidates.front().bound_ns; }

  /// Returns the limit of plans near the best known bound: that bound plus the slack.
  [[nodiscard]] std::int64_t near() const {
    return known() > kNever / 2000 ? top_ : std::min(top_, known() + known() / 1000 * problem_.slack_permille);
  }

  /// Covers everything near the best plan. First a few coarse labels may show that nothing is there; next an exact
  /// pass is tried. Where that takes too many labels, labels represent others: first well below the best plan, then
  /// for the rest, then with finer labels.
  void prove() {
    const Passed quick = merged(near(), kCoarseMillionths, problem_.states / kSmallShare);
    if (quick.refused()) {
      outcome_.exact = true;
      return;
    }
    if (quick.whole) {
      PassLimits how;
      how.slack = problem_.slack_permille;
      how.states = problem_.states / kSmallShare;
      outcome_.exact = counted(near(), how).whole;
      if (outcome_.exact) return;
    }
    const Passed widest = quick.whole ? quick : widest_coarse();
    if (widest.whole) refine(widest);
  }

  /// Returns the widest of the limits that coarse labels complete.
  Passed widest_coarse() {
    const Passed goal = merged(known() - known() / 1000 * kGoalPermille, kCoarseMillionths, left());
    if (!goal.whole) {
      raise_bound();
      return goal;
    }
    if (goal.limit >= near() || goal.states > 2 * (problem_.states / kSmallShare)) return goal;
    const Passed all = merged(near(), kCoarseMillionths, left());
    return all.whole ? all : goal;
  }

  /// Repeats a pass that left some labels below its limit, with labels that represent fewer others.
  void refine(const Passed& coarse) {
    constexpr std::int64_t kGrowth = 8;
    Passed last = coarse;
    for (const std::int64_t finer : kFinerMillionths) {
      if (last.refused() || last.states * kGrowth > problem_.states / 3) return;
      last = merged(coarse.limit, finer, left());
      if (!last.whole) return;
    }
  }

  [[nodiscard]] std::int64_t left() const { return std::max<std::int64_t>(0, problem_.states - spent_); }

  /// Runs a pass whose labels represent others; raises the bound.
  Passed merged(std::int64_t limit, std::int64_t millionths, std::int64_t states) {
    PassLimits how;
    how.merged = millionths;
    how.slack = problem_.slack_permille;
    how.states = states;
    const Passed result = counted(limit, how);
    if (result.whole) raise(result.none_below);
    return result;
  }

  /// Runs a pass whose labels count against the budget.
  Passed counted(std::int64_t limit, PassLimits how) {
    how.states = std::max<std::int64_t>(how.states, 1);
    const std::int64_t before = outcome_.counters.states;
    if (stopped()) return {};
    const std::optional<StageCount> count = possible(limit);
    if (!count) return {true, limit + 1, limit, 0};
    Passed result = pass(*count, limit, how);
    result.states = outcome_.counters.states - before;
    spent_ += result.states;
    return result;
  }

  /// Returns the numbers of stages that the limits do not rule out. The result for a higher limit is also valid for a
  /// lower one.
  std::optional<StageCount> possible(std::int64_t limit) {
    if (limit > possible_limit_ || !possible_) {
      possible_ = find_possible(limit);
      possible_limit_ = limit;
    }
    return possible_;
  }

  [[nodiscard]] std::optional<StageCount> find_possible(std::int64_t limit) {
    const auto refused = [&](StageCount count) { return !StageCountLimits::make(tables_, count, limit, prices_, true); };
    if (refused(all())) return std::nullopt;
    StageCount left = all();
    // The least `most` such that none is above.
    for (std::int32_t low = left.least, high = left.most; low < high;) {
      const std::int32_t middle = low + (high - low) / 2;
      if (refused({middle + 1, left.most}))
        high = middle;
      else
        low = middle + 1;
      left.most = high;
    }
    for (std::int32_t low = left.least, high = left.most; low < high;) {
      const std::int32_t middle = low + (high - low + 1) / 2;
      if (refused({left.least, middle - 1}))
        low = middle;
      else
        high = middle - 1;
      left.least = low;
    }
    return left;
  }

  void raise(std::int64_t bound) { outcome_.lower_bound_ns = std::max(outcome_.lower_bound_ns, std::min(bound, known())); }

  /// Raises the bound: tries limits half-way between the lower bound and the best plan, a few times, with coarse
  /// labels.
  void raise_bound() {
    constexpr int kRounds = 4;
    std::int64_t high = known();
    for (int round = 0; round < kRounds && high - outcome_.lower_bound_ns > 1; ++round) {
      const std::int64_t limit = outcome_.lower_bound_ns + (high - outcome_.lower_bound_ns) / 2;
      if (!merged(limit, kCoarseMillionths, problem_.states / kSmallShare).whole) high = limit;
    }
  }

  [[nodiscard]] bool stopped() const { return problem_.stop && problem_.stop(); }
  [[nodiscard]] StageCount all() const { return {1, tables_.most_stages()}; }

  const DeviceGroupsProblem& problem_;
  const StageTables& tables_;
  StageFronts& fronts_;
  std::int64_t top_;
  std::int64_t spent_ = 0;  ///< labels, without those of narrow passes
  std::optional<StageCount> possible_;
  std::int64_t possible_limit_ = -1;
  std::vector<std::int64_t> prices_;
  DeviceGroupsOutcome outcome_;
};

/// Holds sums over the layers of a stage.
struct StageFigures {
  StageTime time;
  std::int64_t fixed_bytes = 0, saved_bytes = 0, transient_bytes = 0;
};

StageFigures figures_of(const DeviceGroupsProblem& problem, const GroupedStage& stage) {
  const StageOption& option = problem.options[stage.option];
  StageFigures result;
  result.time.forward = option.pass_forward_ns;
  result.time.backward = option.pass_backward_ns;
  result.time.end = option.end_fixed_ns;
  result.fixed_bytes = option.fixed_bytes;
  std::int64_t gather = 0, reduce = 0;
  for (std::int32_t l = stage.first; l <= stage.last; ++l) {
    const std::int32_t type = problem.layers[l];
    result.time.forward += option.forward_ns[type];
    result.time.backward += option.backward_ns[type];
    result.time.end += option.end_ns[type];
    if (!option.gather_ns.empty()) gather += option.gather_ns[type];
    if (!option.reduce_ns.empty()) reduce += option.reduce_ns[type];
    result.fixed_bytes += option.static_bytes[type];
    result.saved_bytes += option.saved_bytes[type];
    result.transient_bytes -= option.saved_bytes[type];
    if (!option.transient_bytes.empty()) result.transient_bytes = std::max(result.transient_bytes, option.transient_bytes[type]);
    result.transient_bytes = std::max<std::int64_t>(result.transient_bytes, 0);
  }
  add_parts(result.time, gather, reduce, std::min(option.parts, stage.last - stage.first + 1), option.slowdown_millionths);
  return result;
}

bool covers_all(const DeviceGroupsProblem& problem, const std::vector<GroupedStage>& stages) {
  std::int32_t next = 0;
  for (const GroupedStage& stage : stages) {
    if (stage.first != next || stage.last < stage.first || stage.option < 0) return false;
    if (static_cast<std::size_t>(stage.option) >= problem.options.size()) return false;
    next = stage.last + 1;
  }
  return static_cast<std::size_t>(next) == problem.layers.size();
}

/// Returns whether enough stages and units are available, and every unit that must be used is used.
bool units_suffice(const DeviceGroupsProblem& problem, const std::vector<GroupedStage>& stages) {
  if (stages.size() > static_cast<std::size_t>(problem.max_stages)) return false;
  std::vector<std::int32_t> free = problem.units;
  for (const GroupedStage& stage : stages) {
    const StageOption& option = problem.options[stage.option];
    free[option.kind] -= option.units;
    if (free[option.kind] < 0) return false;
  }
  return !problem.all_units || std::all_of(free.begin(), free.end(), [](std::int32_t n) { return n == 0; });
}

/// Adds the sends between a stage and the next: activations go down, gradients up.
void add_sends(const DeviceGroupsProblem& problem, const std::vector<GroupedStage>& stages, std::size_t i, StageTime& time) {
  if (i + 1 >= stages.size() || problem.send_ns.empty()) return;
  const auto port = [](const StageOption& o) { return o.port < 0 ? o.kind : o.port; };
  const std::int32_t here = port(problem.options[stages[i].option]), behind = port(problem.options[stages[i + 1].option]);
  time.down = problem.send_ns[here][behind];
  time.up = problem.send_ns[behind][here];
}

std::int64_t in_flight(const DeviceGroupsProblem& problem, const std::vector<GroupedStage>& stages, std::size_t i) {
  return std::min<std::int64_t>(problem.microbatches, static_cast<std::int64_t>(stages.size() - i));
}

}  // namespace

std::optional<GroupedPipeline> evaluate_stages(const DeviceGroupsProblem& problem, const std::vector<GroupedStage>& stages) {
  ESPALIER_CHECK(covers_all(problem, stages));
  if (!units_suffice(problem, stages)) return std::nullopt;
  const std::int64_t m = problem.microbatches;
  std::int64_t slowest = 0, last_end = 0;
  Tail tail;
  for (std::size_t i = stages.size(); i-- > 0;) {
    const StageOption& option = problem.options[stages[i].option];
    const std::int64_t k = in_flight(problem, stages, i);
    StageFigures stage = figures_of(problem, stages[i]);
    const std::int64_t held = k * stage.saved_bytes + stage.transient_bytes + (k > 1 ? option.message_bytes : 0);
    if (stage.fixed_bytes + held > option.memory_bytes) return std::nullopt;
    add_sends(problem, stages, i, stage.time);
    tail = in_front(stage.time, tail, {m, k});
    slowest = std::max(slowest, stage.time.forward + stage.time.backward);
    last_end = std::max(last_end, stage.time.end);
  }
  return GroupedPipeline{stages, tail.whole, (m - 1) * slowest + tail.work + last_end};
}

std::optional<GroupedPipeline> evaluate_zero_bubble(const DeviceGroupsProblem& problem, const std::vector<GroupedStage>& stages) {
  ESPALIER_CHECK(covers_all(problem, stages));
  if (!units_suffice(problem, stages)) return std::nullopt;
  std::int64_t bound = 0, before = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageOption& option = problem.options[stages[i].option];
    StageFigures stage = figures_of(problem, stages[i]);
    if (stage.fixed_bytes + in_flight(problem, stages, i) * stage.saved_bytes > option.memory_bytes) return std::nullopt;
    add_sends(problem, stages, i, stage.time);
    const std::int64_t rounding = kSplitRoundingNs * (stages[i].last - stages[i].first + 1);
    const std::int64_t work =
        problem.microbatches * std::max<std::int64_t>(0, stage.time.forward + stage.time.backward - rounding);
    std::int64_t update = option.end_fixed_ns;
    for (std::int32_t l = stages[i].first; l <= stages[i].last; ++l) update += option.end_ns[problem.layers[l]];
    bound = std::max(bound, before + work + update);
    before += stage.time.forward + stage.time.down;
  }
  return GroupedPipeline{stages, bound, bound};
}

DeviceGroupsOutcome plan_device_groups(const DeviceGroupsProblem& problem) {
  return plan_device_groups(problem, DeviceGroupsTables(problem));
}

DeviceGroupsOutcome plan_device_groups(const DeviceGroupsProblem& problem, const DeviceGroupsTables& tables) {
  return Planner(problem, tables.parts()).run();
}

}  // namespace espalier::solve
