// SPDX-License-Identifier: Apache-2.0
#include "solve/device_groups.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "base/check.h"
#include "solve/device_group_labels.h"
#include "solve/device_group_limits.h"
#include "solve/device_group_tables.h"

namespace espalier::solve {
namespace {

using device_groups::kNever;
using device_groups::Limits;
using device_groups::PassLimits;
using device_groups::PassResult;
using device_groups::StageCount;
using device_groups::StageTables;
using device_groups::StageTime;
using device_groups::Tail;

constexpr std::int64_t kBracketShare = 128;
constexpr std::int64_t kMergedMillionths = 5'000;  ///< of the limit: what a partial plan that stands for others may be worse
constexpr std::int64_t kGoalPermille = 15;         ///< below the best plan: what is proven first

bool rank_before(const GroupedPipeline& a, const GroupedPipeline& b) {
  const auto stage = [](const GroupedStage& s) { return std::tuple(s.option, s.first, s.last); };
  if (a.bound_ns != b.bound_ns) return a.bound_ns < b.bound_ns;
  if (a.estimate_ns != b.estimate_ns) return a.estimate_ns < b.estimate_ns;
  if (a.stages.size() != b.stages.size()) return a.stages.size() < b.stages.size();
  return std::lexicographical_compare(a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(),
                                      [&](const GroupedStage& x, const GroupedStage& y) { return stage(x) < stage(y); });
}

/// One call: from the bound by the limits alone, by a narrow search for a first plan, to the search of all that is below it.
class Planner {
 public:
  explicit Planner(const DeviceGroupsProblem& problem)
      : problem_(problem), tables_(problem), top_(std::min(problem.cutoff_ns - 1, tables_.worst_bound())) {
    outcome_.counters.options_dropped = tables_.dropped();
  }

  DeviceGroupsOutcome run() {
    if (!bracket()) return nothing();
    find_first();
    if (!outcome_.exact && problem_.prove) prove();
    if (outcome_.candidates.empty()) {
      if (outcome_.exact) return nothing();
    } else if (outcome_.exact) {
      outcome_.lower_bound_ns = outcome_.candidates.front().bound_ns;
    }
    if (outcome_.candidates.size() > problem_.candidates) outcome_.candidates.resize(problem_.candidates);
    return std::move(outcome_);
  }

 private:
  /// No plan is below the cutoff.
  DeviceGroupsOutcome nothing() {
    outcome_.exact = true;
    outcome_.lower_bound_ns = problem_.cutoff_ns;
    return std::move(outcome_);
  }

  /// The least limit that the limits alone do not refuse, to a share of 1/kBracketShare. False: they refuse every one below the cutoff.
  bool bracket() {
    const std::optional<Limits> widest = Limits::make(tables_, all(), top_, prices_, true);
    if (!widest) return false;
    std::int64_t low = tables_.least_end() - 1;  // refused
    std::int64_t high = tables_.least_end() + 1;
    for (const auto& prices : widest->prices()) high = std::max(high, tables_.least_end() + prices.whole());
    while (high < top_ && !Limits::make(tables_, all(), high, prices_, true)) {
      low = high;
      high += high / 2 + 1;
    }
    high = std::min(high, top_);
    while (high - low > 1 + low / kBracketShare) {
      const std::int64_t middle = low + (high - low) / 2;
      (Limits::make(tables_, all(), middle, prices_, true) ? high : low) = middle;
    }
    outcome_.lower_bound_ns = low + 1;
    return true;
  }

  struct Passed {
    bool whole = false;
    std::int64_t none_below = 0;  ///< of a whole one: no plan that is not among the candidates has a smaller bound
  };

  /// One pass below the limit; nothing is below it when the limits refuse it. Keeps the plans, sorted; says whether it was whole.
  Passed pass(StageCount count, std::int64_t limit, PassLimits how) {
    std::optional<Limits> limits = Limits::make(tables_, count, limit, prices_, true);
    if (!limits) return {true, limit + 1};
    limits->look_before();
    how.limit = limit;
    if (how.width > 0) how.states = problem_.states;
    const PassResult found = search_labels(tables_, *limits, how, outcome_.counters);
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
    return {found.complete, found.none_below};
  }

  /// Narrow passes under a rising limit until there is a plan.
  void find_first() {
    for (std::int64_t permille = 5;; permille *= 2) {
      const std::int64_t bound = outcome_.lower_bound_ns;
      const std::int64_t limit = bound > (kNever / permille) ? top_ : std::min(top_, bound + bound * permille / 1000 + 1);
      PassLimits how;
      how.width = problem_.width;
      how.slack = problem_.slack_permille;
      const bool whole = pass(all(), limit, how).whole;
      if (whole && outcome_.candidates.empty()) outcome_.lower_bound_ns = limit + 1;
      if (limit == top_ && whole) outcome_.exact = true;
      if (limit == top_ || !outcome_.candidates.empty()) return;
    }
  }

  /// The best bound known, or the cutoff.
  [[nodiscard]] std::int64_t known() const { return outcome_.candidates.empty() ? top_ : outcome_.candidates.front().bound_ns; }

  /// Up to the slack above the best bound known.
  [[nodiscard]] std::int64_t near() const {
    return known() > kNever / 2000 ? top_ : std::min(top_, known() + known() / 1000 * problem_.slack_permille);
  }

  /// All that is below the best plan: exactly, or, where that takes too many labels, with labels that stand for others: first what is well
  /// below, then the rest if it is likely to come to an end. Where even the first is too much, as far as labels go.
  void prove() {
    PassLimits how;
    how.slack = problem_.slack_permille;
    how.states = problem_.states / 16;
    outcome_.exact = counted(near(), how).whole;
    if (outcome_.exact) return;
    how.merged = kMergedMillionths;
    how.states = (problem_.states - spent_) / 8 * 7;
    const std::int64_t before = spent_;
    const Passed most = counted(known() - known() / 1000 * kGoalPermille, how);
    if (!most.whole) return raise_bound();
    raise(most.none_below);
    how.states = problem_.states - spent_;
    if (how.states < 2 * (spent_ - before)) return;
    const Passed all = counted(near(), how);
    if (all.whole) raise(all.none_below);
  }

  /// A pass whose labels count.
  Passed counted(std::int64_t limit, PassLimits how) {
    how.states = std::max<std::int64_t>(how.states, 1);
    const std::int64_t before = outcome_.counters.states;
    const std::optional<StageCount> count = possible(limit);
    if (!count) return {true, limit + 1};
    const Passed result = pass(*count, limit, how);
    spent_ += outcome_.counters.states - before;
    return result;
  }

  /// Numbers of stages outside of these are refused by the limits.
  std::optional<StageCount> possible(std::int64_t limit) {
    const auto refused = [&](StageCount count) { return !Limits::make(tables_, count, limit, prices_, true); };
    if (refused(all())) return std::nullopt;
    StageCount left = all();
    for (std::int32_t low = left.least, high = left.most; low < high;) {  // the least `most` such that none is above
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

  /// Half-way between the lower bound and the best plan, a few times.
  void raise_bound() {
    constexpr int kRounds = 4;
    std::int64_t high = known();
    for (int round = 0; round < kRounds && high - outcome_.lower_bound_ns > 1; ++round) {
      PassLimits how;
      how.merged = kMergedMillionths;
      how.states = (problem_.states - spent_) / 2;
      const std::int64_t limit = outcome_.lower_bound_ns + (high - outcome_.lower_bound_ns) / 2;
      const Passed merged = counted(limit, how);
      if (!merged.whole)
        high = limit;
      else
        raise(merged.none_below);
    }
  }

  [[nodiscard]] StageCount all() const { return {1, tables_.most_stages()}; }

  const DeviceGroupsProblem& problem_;
  const StageTables tables_;
  std::int64_t top_;
  std::int64_t spent_ = 0;  ///< labels of exact passes
  std::vector<std::int64_t> prices_;
  DeviceGroupsOutcome outcome_;
};

/// Sums over the layers of a stage.
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

}  // namespace

std::optional<GroupedPipeline> evaluate_stages(const DeviceGroupsProblem& problem, const std::vector<GroupedStage>& stages) {
  ESPALIER_CHECK(covers_all(problem, stages));
  if (stages.size() > static_cast<std::size_t>(problem.max_stages)) return std::nullopt;
  std::vector<std::int32_t> free = problem.units;
  const std::int64_t m = problem.microbatches;
  std::int64_t slowest = 0, last_end = 0;
  Tail tail;
  for (std::size_t i = stages.size(); i-- > 0;) {
    const StageOption& option = problem.options[stages[i].option];
    const std::int64_t k = std::min<std::int64_t>(m, static_cast<std::int64_t>(stages.size() - i));
    StageFigures stage = figures_of(problem, stages[i]);
    free[option.kind] -= option.units;
    const std::int64_t held = k * stage.saved_bytes + stage.transient_bytes + (k > 1 ? option.message_bytes : 0);
    if (free[option.kind] < 0 || stage.fixed_bytes + held > option.memory_bytes) return std::nullopt;
    if (i + 1 < stages.size() && !problem.send_ns.empty()) {
      const auto port = [](const StageOption& o) { return o.port < 0 ? o.kind : o.port; };
      const std::int32_t here = port(option), behind = port(problem.options[stages[i + 1].option]);
      stage.time.down = problem.send_ns[here][behind];
      stage.time.up = problem.send_ns[behind][here];
    }
    tail = in_front(stage.time, tail, {m, k});
    slowest = std::max(slowest, stage.time.forward + stage.time.backward);
    last_end = std::max(last_end, stage.time.end);
  }
  return GroupedPipeline{stages, tail.whole, (m - 1) * slowest + tail.work + last_end};
}

DeviceGroupsOutcome plan_device_groups(const DeviceGroupsProblem& problem) { return Planner(problem).run(); }

}  // namespace espalier::solve
