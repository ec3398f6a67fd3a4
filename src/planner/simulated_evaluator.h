// SPDX-License-Identifier: Apache-2.0
// The judge that planner/ hands to the search. Memory comes from the passes that the schedule holds, without a program (cost/peak_memory.h);
// for its time a candidate is lowered and simulated. One simulator a worker; the program of the last structure is kept, since neighbouring
// candidates share it.
#pragma once

#include <vector>

#include "cost/peak_memory.h"
#include "plan/program.h"
#include "search/evaluator.h"
#include "sim/simulator.h"

namespace espalier {

class SimulatedEvaluator final : public search::Evaluator {
 public:
  explicit SimulatedEvaluator(int workers) : workers_(static_cast<std::size_t>(workers)) {}
  std::int64_t peak_bytes(const Lowering& lowering, const cost::PlanTiming& timing, int worker) override;
  std::int64_t iteration_ns(const Lowering& lowering, const cost::PlanTiming& timing, int worker) override;

 private:
  struct Worker {
    sim::Simulator simulator;
    Lowering lowering;
    Program program;
    bool filled = false;
    cost::PeakMemory memory;
  };
  const Program& program_of(const Lowering& lowering, Worker& w);
  std::vector<Worker> workers_;
};

}  // namespace espalier
