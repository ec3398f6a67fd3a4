// SPDX-License-Identifier: Apache-2.0
#include "solve/stage_balance.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <set>
#include <utility>

#include "base/infinity.h"
#include "base/invariant.h"
#include "solve/partition_search.h"
#include "solve/stage_memo.h"

namespace espalier::solve {
namespace {

using base::kInfinity;
using Firsts = std::vector<std::int32_t>;

void check_problem(const BalanceProblem& problem) {
  ESPALIER_CHECK(problem.layers >= 1 && problem.stages >= 1 && problem.microbatches >= 1);
  ESPALIER_CHECK(problem.message.empty() || problem.message.size() + 1 >= static_cast<std::size_t>(problem.stages));
  ESPALIER_CHECK(problem.layer_floor.empty() || problem.layer_floor.size() == static_cast<std::size_t>(problem.layers));
}

double pipeline_time(const BalanceProblem& problem, const std::vector<StageValue>& stages) {
  const double m = problem.microbatches;
  double before = 0, sum = 0, slowest = 0, tail = 0, bound = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageValue& stage = stages[i];
    bound = std::max(bound, before + m * stage.steady + stage.tail);
    before += stage.steady + (i < problem.message.size() ? problem.message[i] : 0);
    sum += stage.steady;
    slowest = std::max(slowest, stage.steady);
    tail = std::max(tail, stage.tail);
  }
  return problem.time == PipelineTime::bound ? bound : sum + (m - 1) * slowest + tail;
}

double largest_steady(const Partition& partition) {
  double largest = 0;
  for (const StageValue& stage : partition.stages) largest = std::max(largest, stage.steady);
  return largest;
}

std::int64_t largest_peak(const Partition& partition) {
  std::int64_t largest = 0;
  for (const StageValue& stage : partition.stages) largest = std::max(largest, stage.peak);
  return largest;
}

/// Returns 1 − max/Σ; stages that are all zero are balanced.
double balance(double largest, double sum, std::size_t stages) {
  return 1 - (sum > 0 ? largest / sum : 1 / static_cast<double>(stages));
}

std::optional<Partition> evaluate(const BalanceProblem& problem, StageMemo& memo, const Firsts& first) {
  Partition partition;
  partition.first = first;
  double time = 0, memory = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::int32_t end = i + 1 < first.size() ? first[i + 1] : problem.layers;
    const StageValue* value = memo.ask(static_cast<std::int32_t>(i), first[i], end);
    if (value == nullptr) return std::nullopt;
    partition.stages.push_back(*value);
    time += value->steady;
    memory += static_cast<double>(value->peak);
  }
  partition.time = pipeline_time(problem, partition.stages);
  partition.alpha_t = balance(largest_steady(partition), time, first.size());
  partition.alpha_m = balance(static_cast<double>(largest_peak(partition)), memory, first.size());
  return partition;
}

PartitionGoal goal_of(PipelineTime time) { return time == PipelineTime::bound ? PartitionGoal::bound : PartitionGoal::published; }

/// Returns equal numbers of layers: a first answer that gives the exact search a limit.
Firsts even_layers(const BalanceProblem& problem) {
  Firsts first;
  for (std::int64_t i = 0; i < problem.stages; ++i)
    first.push_back(static_cast<std::int32_t>(i * problem.layers / problem.stages));
  return first;
}

/// Returns some partition with the least largest steady time or peak.
std::optional<Partition> least_bottleneck(const BalanceProblem& problem, StageMemo& memo, PartitionGoal goal) {
  if (problem.stages > problem.layers) return std::nullopt;
  PartitionTask task;
  task.goal = goal;
  const std::optional<Partition> even = evaluate(problem, memo, even_layers(problem));
  if (even) task.limit = goal == PartitionGoal::steady ? largest_steady(*even) : static_cast<double>(largest_peak(*even));
  const Firsts first = search_partition(problem, memo, task);
  return first.empty() ? even : evaluate(problem, memo, first);
}

/// Returns the partition with the least T under the task's caps, which `known` meets.
Partition least_time(const BalanceProblem& problem, StageMemo& memo, PartitionTask task, const Partition& known) {
  task.goal = goal_of(problem.time);
  task.limit = known.time;
  const Firsts first = search_partition(problem, memo, task);
  if (first.empty()) return known;  // occurs only where rounding hid it
  Partition found = *evaluate(problem, memo, first);
  return found.time <= known.time ? found : known;
}

std::optional<Partition> balanced(const BalanceProblem& problem, StageMemo& memo, PartitionGoal goal) {
  const std::optional<Partition> end = least_bottleneck(problem, memo, goal);
  if (!end) return std::nullopt;
  PartitionTask task;
  if (goal == PartitionGoal::steady) task.steady_cap = largest_steady(*end);
  if (goal == PartitionGoal::peak) task.peak_cap = largest_peak(*end);
  return least_time(problem, memo, task, *end);
}

/// Returns the partitions that differ by a boundary layer of the slowest stage (among equally slow ones the first).
std::vector<Firsts> moves(const BalanceProblem& problem, const Partition& from) {
  const auto slower = [](const StageValue& a, const StageValue& b) { return a.steady < b.steady; };
  const auto s = static_cast<std::size_t>(std::max_element(from.stages.begin(), from.stages.end(), slower) - from.stages.begin());
  const std::size_t stages = from.stages.size();
  const std::int32_t end = s + 1 < stages ? from.first[s + 1] : problem.layers;
  std::vector<Firsts> result;
  if (end - from.first[s] == 1) return result;  // no stage may become empty
  if (s > 0) {
    result.push_back(from.first);
    ++result.back()[s];
  }
  if (s + 1 < stages) {
    result.push_back(from.first);
    --result.back()[s + 1];
  }
  return result;
}

}  // namespace

StageOracle memoised(const BalanceProblem& problem, StageOracle oracle) {
  check_problem(problem);
  struct Memory {
    Memory(const BalanceProblem& p, StageOracle o) : oracle(std::move(o)), memo(p.stages, p.layers, oracle) {}
    StageOracle oracle;
    StageMemo memo;
  };
  const auto memory = std::make_shared<Memory>(problem, std::move(oracle));
  return [memory](std::int32_t stage, std::int32_t first, std::int32_t end) -> std::optional<StageValue> {
    const StageValue* value = memory->memo.ask(stage, first, end);
    return value == nullptr ? std::nullopt : std::optional<StageValue>(*value);
  };
}

std::optional<Partition> evaluate_partition(const BalanceProblem& problem, const StageOracle& oracle, const Firsts& first) {
  check_problem(problem);
  ESPALIER_CHECK(first.size() == static_cast<std::size_t>(problem.stages) && first.front() == 0 && first.back() < problem.layers);
  ESPALIER_CHECK(std::adjacent_find(first.begin(), first.end(), std::greater_equal<>()) == first.end());
  StageMemo memo(problem.stages, problem.layers, oracle);
  return evaluate(problem, memo, first);
}

std::optional<Partition> time_balanced(const BalanceProblem& problem, const StageOracle& oracle) {
  check_problem(problem);
  StageMemo memo(problem.stages, problem.layers, oracle);
  return balanced(problem, memo, PartitionGoal::steady);
}

std::optional<Partition> memory_balanced(const BalanceProblem& problem, const StageOracle& oracle) {
  check_problem(problem);
  StageMemo memo(problem.stages, problem.layers, oracle);
  return balanced(problem, memo, PartitionGoal::peak);
}

BiObjective bi_objective(const BalanceProblem& problem, const StageOracle& oracle, std::int64_t most) {
  check_problem(problem);
  StageMemo memo(problem.stages, problem.layers, oracle);
  BiObjective result;
  result.best = balanced(problem, memo, PartitionGoal::peak);
  if (!result.best) return result;
  const std::int64_t memory_limit = largest_peak(*balanced(problem, memo, PartitionGoal::steady));
  std::set<Firsts> seen{result.best->first};
  std::deque<Partition> queue{*result.best};
  result.visited = 1;
  while (!queue.empty()) {
    const Partition from = std::move(queue.front());
    queue.pop_front();
    const double slowest = largest_steady(from);
    for (const Firsts& first : moves(problem, from)) {
      if (seen.count(first) != 0) continue;
      std::optional<Partition> next = evaluate(problem, memo, first);
      if (!next || largest_steady(*next) > slowest || largest_peak(*next) > memory_limit) continue;
      if (result.visited == most) {
        result.complete = false;
        return result;
      }
      ++result.visited;
      seen.insert(first);
      if (next->time < result.best->time) result.best = next;
      queue.push_back(std::move(*next));
    }
  }
  return result;
}

std::optional<Partition> best_partition(const BalanceProblem& problem, const StageOracle& oracle, double upper_bound) {
  check_problem(problem);
  StageMemo memo(problem.stages, problem.layers, oracle);
  if (!(upper_bound < kInfinity)) {
    const std::optional<Partition> known = least_bottleneck(problem, memo, PartitionGoal::steady);
    if (!known) return std::nullopt;
    return least_time(problem, memo, {}, *known);
  }
  PartitionTask task;
  task.goal = goal_of(problem.time);
  task.limit = std::nextafter(upper_bound, -kInfinity);
  const Firsts first = search_partition(problem, memo, task);
  if (first.empty()) return std::nullopt;
  std::optional<Partition> best = evaluate(problem, memo, first);
  return best->time < upper_bound ? best : std::nullopt;  // rounding of T
}

}  // namespace espalier::solve
