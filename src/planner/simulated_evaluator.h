// SPDX-License-Identifier: Apache-2.0
// The judge that planner/ hands to the search: lowers a candidate and simulates it. One simulator a worker; the program of the last
// structure is kept, since neighbouring candidates share it.
#pragma once

#include <vector>

#include "plan/program.h"
#include "search/evaluator.h"
#include "sim/simulator.h"

namespace espalier {

class SimulatedEvaluator final : public search::Evaluator {
 public:
  explicit SimulatedEvaluator(int workers) : workers_(static_cast<std::size_t>(workers)) {}
  std::int64_t peak_bytes(const ProgramStructure& structure, const cost::Costs& costs, int worker) override;
  std::int64_t iteration_ns(const ProgramStructure& structure, const cost::Costs& costs, int worker) override;

 private:
  struct Worker {
    sim::Simulator simulator;
    ProgramStructure structure;
    Program program;
    bool filled = false;
    std::vector<std::int64_t> peaks;
  };
  const Program& program_of(const ProgramStructure& structure, Worker& w);
  std::vector<Worker> workers_;
};

}  // namespace espalier
