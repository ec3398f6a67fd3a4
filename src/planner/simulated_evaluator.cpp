// SPDX-License-Identifier: Apache-2.0
#include "planner/simulated_evaluator.h"

#include <algorithm>

#include "base/check.h"

namespace espalier {

const Program& SimulatedEvaluator::program_of(const ProgramStructure& structure, Worker& w) {
  if (!w.filled || !(w.structure == structure)) {
    w.program = lower(structure);
    w.structure = structure;
    w.filled = true;
  }
  return w.program;
}

std::int64_t SimulatedEvaluator::peak_bytes(const ProgramStructure& structure, const cost::Costs& costs, int worker) {
  Worker& w = workers_[static_cast<std::size_t>(worker)];
  w.simulator.peak_bytes(program_of(structure, w), costs, w.peaks);
  return *std::max_element(w.peaks.begin(), w.peaks.end());
}

std::int64_t SimulatedEvaluator::iteration_ns(const ProgramStructure& structure, const cost::Costs& costs, int worker) {
  Worker& w = workers_[static_cast<std::size_t>(worker)];
  const std::int64_t ns = w.simulator.iteration_ns(program_of(structure, w), costs);
  ESPALIER_CHECK(ns >= 0);  // lowered programs cannot deadlock
  return ns;
}

}  // namespace espalier
