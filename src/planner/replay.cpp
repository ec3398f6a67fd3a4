// SPDX-License-Identifier: Apache-2.0
#include "planner/replay.h"

#include <algorithm>

#include "base/format.h"
#include "cost/costs.h"
#include "plan/program.h"
#include "sim/simulator.h"

namespace espalier::planner {
namespace {

constexpr std::int64_t kMostPasses = std::int64_t{1} << 22;  ///< limit of a replay over all stages

Status refused(const ReplayedStep& step) {
  const Schedule& schedule = step.schedule;
  const auto stages = static_cast<std::int64_t>(step.passes.size());
  if (stages == 0 || schedule.stages != stages || schedule.virtual_stages != 1 || splits_backward(schedule.kind))
    return Error{ErrorKind::bad_input, "stages", cat(stages, " stages measured"),
                 cat("one forward and one backward pass for each of ", schedule.stages, " stages of one chunk"), ""};
  if (schedule.microbatches < 1 || schedule.microbatches > kMostPasses / stages)
    return Error{ErrorKind::bad_input, "microbatches", cat(schedule.microbatches), cat("1 … ", kMostPasses / stages), ""};
  for (const auto& replicas : step.passes)
    if (replicas.empty() || replicas.size() != step.passes.front().size())
      return Error{ErrorKind::bad_input, "replicas", cat(replicas.size(), " replicas of a stage"),
                   cat(step.passes.front().size(), ", as in the first stage"), ""};
  return {};
}

}  // namespace

Result<std::int64_t> replay(const ReplayedStep& step) {
  if (Status status = refused(step); !status.ok()) return status.error();
  ProgramStructure structure;
  structure.schedule = step.schedule;
  for (std::int32_t c = 0; c < structure.chunks(); ++c) structure.buckets.add(1);
  const Program program = lower(structure);
  cost::Costs costs;
  sim::Simulator simulator;
  std::int64_t slowest = 0;
  for (std::size_t replica = 0; replica < step.passes.front().size(); ++replica) {
    costs.reset(structure);
    for (std::int32_t c = 0; c < structure.chunks(); ++c) {
      const MeasuredPass& pass = step.passes[static_cast<std::size_t>(c)][replica];
      costs.works[structure.forward(ChunkId(c))].time.compute_ns = pass.forward_ns;
      costs.works[structure.backward(ChunkId(c))].time.compute_ns = pass.backward_ns;
    }
    const std::int64_t end = simulator.iteration_ns(program, costs);
    if (end < 0) return Error{ErrorKind::internal, "replay", "a deadlock", "a schedule that ends", ""};
    slowest = std::max(slowest, end);
  }
  return slowest + step.update_ns;
}

}  // namespace espalier::planner
