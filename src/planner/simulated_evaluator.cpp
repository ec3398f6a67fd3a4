// SPDX-License-Identifier: Apache-2.0
#include "planner/simulated_evaluator.h"

#include <algorithm>

#include "base/invariant.h"
#include "cost/offload.h"
#include "planner/flow_prediction.h"
#include "planner/prediction.h"

namespace espalier::planner {
namespace {

constexpr std::size_t kStructures = 8;              // programs kept by a worker
constexpr std::size_t kKeptInstructions = 500'000;  // instructions of all kept programs together; 32 bytes each

}  // namespace

const Program& SimulatedEvaluator::program_of(const ProgramStructure& structure, Worker& w) {
  const std::int64_t now = ++w.uses;
  std::size_t kept = 0;
  for (Structure& s : w.structures) {
    kept += s.program.instructions.size();
    if (!(s.structure == structure)) continue;
    s.used = now;
    return s.program;
  }
  while (w.structures.size() >= kStructures || (kept > kKeptInstructions && !w.structures.empty())) {
    const auto oldest = std::min_element(w.structures.begin(), w.structures.end(),
                                         [](const Structure& a, const Structure& b) { return a.used < b.used; });
    kept -= oldest->program.instructions.size();
    w.structures.erase(oldest);
  }
  w.structures.push_back({structure, lower(structure), now});
  return w.structures.back().program;
}

std::int64_t SimulatedEvaluator::peak_bytes(const ProgramStructure& structure, const cost::Costs& costs, int worker) {
  return workers_[static_cast<std::size_t>(worker)].memory.fullest_bytes(costs, structure);
}

std::int64_t SimulatedEvaluator::iteration_ns(const ProgramStructure& structure, const cost::Costs& costs,
                                              const search::CandidatePlan& plan, int worker) {
  if (network_ == NetworkKind::closed) return iteration_ns(structure, costs, worker);
  const search::Problem& p = plan.problem;
  const cost::ClusterCosts costs_of(*p.model, *p.cluster, p.training, *p.engine);
  const Plan candidate = plan_of(plan);
  Program program;
  const cost::Costs priced = cost::price(costs_of, candidate, program);
  const auto flow = simulate_flow(costs_of, candidate, program, priced, false);
  ESPALIER_CHECK(flow.ok());  // lowered programs cannot deadlock, and the links of a cluster have capacity
  const std::lock_guard lock(mutex_);
  ++flows_;
  return flow->simulation.iteration_ns;
}

std::int64_t SimulatedEvaluator::iteration_ns(const ProgramStructure& structure, const cost::Costs& costs, int worker) {
  const TimingPrint print = print_of(structure, costs);
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = times_.find(print); known != times_.end()) return known->second;
  }
  Worker& w = workers_[static_cast<std::size_t>(worker)];
  const std::int64_t ns = w.simulator.iteration_ns(program_of(structure, w), costs);
  ESPALIER_CHECK(ns >= 0);  // lowered programs cannot deadlock
  const std::lock_guard lock(mutex_);
  times_.emplace(print, ns);
  return ns;
}

const std::vector<std::int64_t>* SimulatedEvaluator::pass_ends(const ProgramStructure& structure, const cost::Costs& costs,
                                                               int worker) {
  const TimingPrint print = print_of(structure, costs);
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = pass_ends_.find(print); known != pass_ends_.end()) return &known->second;
  }
  Worker& w = workers_[static_cast<std::size_t>(worker)];
  std::vector<std::int64_t> ends;
  ESPALIER_CHECK(w.simulator.compute_ends(program_of(structure, w), costs, ends));
  const std::lock_guard lock(mutex_);
  return &pass_ends_.emplace(print, std::move(ends)).first->second;
}

std::optional<search::PlanEvaluation> SimulatedEvaluator::evaluate(const search::Problem& problem,
                                                                   const cost::ClusterCosts& costs, const Plan& plan) {
  Program program;
  std::vector<cost::KindCosts> kinds;
  const cost::Costs priced = cost::price(costs, plan, program, &kinds);
  sim::Simulator simulator;
  search::PlanEvaluation out;
  out.iteration_ns = simulator.iteration_ns(program, priced);
  ESPALIER_CHECK(out.iteration_ns >= 0);
  if (network_ == NetworkKind::flow) {
    const auto flow = simulate_flow(costs, plan, program, priced, false);
    if (!flow) return std::nullopt;
    out.iteration_ns = flow->simulation.iteration_ns;
  }
  std::vector<std::int64_t> peaks;
  out.fits = true;
  for (const cost::KindCosts& kind : kinds) {
    simulator.peak_bytes(program, kind.costs, peaks);
    std::int64_t over = INT64_MIN;
    for (std::size_t r = 0; r < peaks.size(); ++r) {
      const std::size_t group = kind.group[program.stage_row(program.ranks[r]).index()];
      const std::int64_t own = peaks[r] - problem.cluster->usable_memory(group).count();
      over = std::max(over, own);
      out.lacking_bytes += std::max<std::int64_t>(0, own);
    }
    out.fits &= over <= 0;
    out.over.push_back(over);
  }
  if (kinds.empty()) simulator.peak_bytes(program, priced, peaks);
  for (std::size_t r = 0; kinds.empty() && r < peaks.size(); ++r) {
    const std::size_t group = problem.cluster->group_of(program.ranks[r].device());
    out.lacking_bytes += std::max<std::int64_t>(0, peaks[r] - problem.cluster->usable_memory(group).count());
  }
  if (kinds.empty()) out.fits = out.lacking_bytes == 0;
  out.fits &= cost::host_fits(*problem.cluster, priced);
  const std::lock_guard lock(mutex_);
  ++flows_;
  return out;
}

std::int64_t SimulatedEvaluator::lowered() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(times_.size() + pass_ends_.size()) + flows_;
}

}  // namespace espalier::planner
