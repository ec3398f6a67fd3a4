// SPDX-License-Identifier: Apache-2.0
#include "search/stage_report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/split.h"
#include "search/group_program.h"
#include "solve/stage_balance.h"

namespace espalier::search {
namespace {

constexpr int kPolishRounds = 8;

class StageReport {
 public:
  StageReport(const GroupTools& tools, const Patience& patience)
      : tools_(tools),
        judge_(tools, std::numeric_limits<double>::infinity(), patience),
        program_(*tools.problem.model, tools.book, tools.table, tools.group, ScheduleKind::one_f_one_b),
        problem_(program_.balance(kModes[0])),
        oracle_(solve::memoised(problem_,
                                [this](std::int32_t i, std::int32_t first, std::int32_t end) -> std::optional<solve::StageValue> {
                                  return judge_.over() ? std::nullopt : plain_(i, first, end);
                                })) {}
  StageReport(const StageReport&) = delete;
  StageReport& operator=(const StageReport&) = delete;

  BalanceReport run(const LayeredCandidate& answer) {
    program_.hold_table(tools_.table.table_of(answer.options.front()));
    add("even", [&] {
      return solve::evaluate_partition(problem_, oracle_, even_blocks_split(*tools_.problem.model, tools_.group.stages));
    });
    add("time-balanced", [&] { return solve::time_balanced(problem_, oracle_); });
    add("memory-balanced", [&] { return solve::memory_balanced(problem_, oracle_); });
    add("bi-objective", [&] { return solve::bi_objective(problem_, oracle_).best; });
    add("exact", [&] { return solve::best_partition(problem_, oracle_); });
    std::vector<std::int32_t> first;
    for (const auto& ranges : answer.configuration.chunks) first.push_back(ranges.front().first);
    if (answer.configuration.schedule.kind == ScheduleKind::one_f_one_b) {
      add("answer", [&] { return solve::evaluate_partition(problem_, oracle_, first); });
      if (!report_.rows.empty() && report_.rows.back().name == "answer") report_.rows.back().iteration_ns = answer.iteration_ns;
    }
    if (const auto better = polished(); !better.empty() && better != first)
      add("polished", [&] { return solve::evaluate_partition(problem_, oracle_, better); });
    return std::move(report_);
  }
  [[nodiscard]] GroupResult& looked() { return judge_.result(); }

 private:
  /// Adds a row if it was finished in time.
  template <class Find>
  void add(const char* name, const Find& find) {
    if (judge_.over()) return;
    const std::optional<solve::Partition> p = find();
    if (!p || judge_.over()) return;
    const std::int64_t ns = simulated(p->first);
    if (!judge_.over()) report_.rows.push_back({name, p->first, p->alpha_t, p->alpha_m, ns});
  }

  /// Moves boundaries by one layer, from the best of the report's partitions, while that makes the simulated step
  /// shorter.
  std::vector<std::int32_t> polished() {
    std::vector<std::int32_t> best;
    std::int64_t best_ns = std::numeric_limits<std::int64_t>::max();
    for (const auto& row : report_.rows)
      if (row.iteration_ns > 0 && row.iteration_ns < best_ns) {
        best = row.first;
        best_ns = row.iteration_ns;
      }
    const auto layers = static_cast<std::int32_t>(tools_.problem.model->layers.size());
    for (int round = 0; round < kPolishRounds && !best.empty() && !judge_.over(); ++round) {
      const std::vector<std::int32_t> from = best;
      for (std::size_t i = 1; i < from.size(); ++i) {
        for (const std::int32_t by : {-1, 1}) {
          std::vector<std::int32_t> first = from;
          first[i] += by;
          const std::int32_t end = i + 1 < first.size() ? first[i + 1] : layers;
          if (first[i] <= first[i - 1] || first[i] >= end) continue;
          const std::int64_t ns = simulated(first);
          if (ns > 0 && ns < best_ns) {
            best = first;
            best_ns = ns;
          }
        }
      }
      if (best == from) break;
    }
    return best;
  }

  /// Returns the least simulated time of a partition with its best strategies; 0 if none fits.
  std::int64_t simulated(const std::vector<std::int32_t>& first) {
    GroupProgram program = program_;
    Schedule schedule;
    schedule.stages = tools_.group.stages;
    schedule.microbatches = tools_.group.microbatches;
    double best = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kMemoryRounds && !judge_.over(); ++round) {
      const Assignment a = program.assignment(first, kModes[0]);
      if (a.empty()) break;
      judge_.set_best(std::numeric_limits<double>::infinity());
      const std::vector<std::int64_t> excess = judge_.judge(schedule, a);
      best = std::min(best, judge_.last_ns());
      if (*std::max_element(excess.begin(), excess.end()) <= 0) break;
      for (std::size_t i = 0; i < excess.size(); ++i) program.widen(static_cast<std::int32_t>(i), excess[i]);
    }
    return std::isfinite(best) ? static_cast<std::int64_t>(best) : 0;
  }

  const GroupTools& tools_;
  GroupJudge judge_;
  GroupProgram program_;
  solve::BalanceProblem problem_;
  solve::StageOracle plain_ = program_.oracle(kModes[0]);
  solve::StageOracle oracle_;
  BalanceReport report_;
};

}  // namespace

BalanceReport stage_report(const GroupTools& tools, const LayeredCandidate& answer, const Patience& patience,
                           GroupResult& looked) {
  StageReport report(tools, patience);
  BalanceReport rows = report.run(answer);
  looked = std::move(report.looked());
  return rows;
}

}  // namespace espalier::search
