// SPDX-License-Identifier: Apache-2.0
// Implements the evaluator that planner/ passes to the search. Memory follows from the passes that the schedule holds,
// without a program (cost/peak_memory.h). For its time a candidate is lowered and simulated, unless one with equal
// timing was simulated before (planner/timing_print.h). Each worker has one simulator. It keeps the programs of a few
// structures, since neighbouring candidates share them and differ only in durations. Under the flow-level network the
// time depends on more than structure and costs. So every candidate is lowered, and its traffic uses the links.
#pragma once

#include <mutex>
#include <unordered_map>
#include <vector>

#include "cost/peak_memory.h"
#include "espalier/job.h"
#include "plan/program.h"
#include "planner/timing_print.h"
#include "search/evaluator.h"
#include "sim/simulator.h"

namespace espalier::planner {

class SimulatedEvaluator final : public search::Evaluator {
 public:
  explicit SimulatedEvaluator(int workers, NetworkKind network = NetworkKind::closed)
      : network_(network), workers_(static_cast<std::size_t>(workers)) {}
  std::int64_t peak_bytes(const ProgramStructure& structure, const cost::Costs& costs, int worker) override;
  std::int64_t iteration_ns(const ProgramStructure& structure, const cost::Costs& costs, const search::CandidatePlan& plan,
                            int worker) override;
  /// Returns the time in the closed form, which needs no plan.
  std::int64_t iteration_ns(const ProgramStructure& structure, const cost::Costs& costs, int worker);
  const std::vector<std::int64_t>* pass_ends(const ProgramStructure& structure, const cost::Costs& costs, int worker) override;
  std::optional<search::PlanEvaluation> evaluate(const search::Problem& problem, const cost::ClusterCosts& costs,
                                                 const Plan& plan) override;
  [[nodiscard]] std::int64_t lowered() const override;

 private:
  struct Structure {
    ProgramStructure structure;
    Program program;
    std::int64_t used = 0;  ///< the worker's `uses` at the last use
  };
  struct Worker {
    sim::Simulator simulator;
    cost::PeakMemory memory;
    std::vector<Structure> structures;
    std::int64_t uses = 0;
  };
  static const Program& program_of(const ProgramStructure& structure, Worker& w);

  NetworkKind network_;
  std::vector<Worker> workers_;
  mutable std::mutex mutex_;  ///< guards times_, pass_ends_ and flows_
  std::unordered_map<TimingPrint, std::int64_t, TimingPrintHash> times_;
  std::unordered_map<TimingPrint, std::vector<std::int64_t>, TimingPrintHash> pass_ends_;
  /// Counts programs timed under the flow-level network, and programs of plans on heterogeneous devices.
  std::int64_t flows_ = 0;
};

}  // namespace espalier::planner
