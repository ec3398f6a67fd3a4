// SPDX-License-Identifier: Apache-2.0
#include "planner/simulated_evaluator.h"

#include "base/check.h"

namespace espalier {

const Program& SimulatedEvaluator::program_of(const Lowering& lowering, Worker& w) {
  if (!w.filled || !(w.lowering == lowering)) {
    w.program = lower(lowering);
    w.lowering = lowering;
    w.filled = true;
  }
  return w.program;
}

std::int64_t SimulatedEvaluator::peak_bytes(const Lowering& lowering, const cost::PlanTiming& timing, int worker) {
  return workers_[static_cast<std::size_t>(worker)].memory.fullest_bytes(timing, lowering.schedule);
}

std::int64_t SimulatedEvaluator::iteration_ns(const Lowering& lowering, const cost::PlanTiming& timing, int worker) {
  Worker& w = workers_[static_cast<std::size_t>(worker)];
  const std::int64_t ns = w.simulator.iteration_ns(program_of(lowering, w), timing);
  ESPALIER_CHECK(ns >= 0);  // lowered programs cannot deadlock
  return ns;
}

}  // namespace espalier
