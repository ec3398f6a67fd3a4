// SPDX-License-Identifier: Apache-2.0
#include "sim/attribution.h"

#include <algorithm>

#include "sim/clock.h"

namespace espalier::sim {
namespace {

/// Walks the busy intervals of a rank's data stream from left to right.
class DataBusy {
 public:
  DataBusy(const Program& program, const RankClass& rank, const std::vector<std::int64_t>& starts,
           const std::vector<std::int64_t>& ends)
      : program_(program), starts_(starts), ends_(ends), end_(rank.end), next_(next_from(rank.begin)) {}

  /// Returns the nanoseconds of [begin, end) during which the stream is busy. Calls go from left to right and do not
  /// overlap.
  std::int64_t within(std::int64_t begin, std::int64_t end) {
    while (next_ < end_ && end_of(next_) <= begin) next_ = next_from(next_ + 1);
    std::int64_t busy = 0;
    for (std::int32_t i = next_; i < end_ && start_of(i) < end; i = next_from(i + 1)) {
      busy += std::max<std::int64_t>(0, std::min(end, end_of(i)) - std::max(begin, start_of(i)));
    }
    return busy;
  }

 private:
  [[nodiscard]] std::int32_t next_from(std::int32_t i) const {
    while (i < end_ && program_.instructions[static_cast<std::size_t>(i)].stream != Stream::data) ++i;
    return i;
  }
  [[nodiscard]] std::int64_t start_of(std::int32_t i) const { return starts_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::int64_t end_of(std::int32_t i) const { return ends_[static_cast<std::size_t>(i)]; }

  const Program& program_;
  const std::vector<std::int64_t>&starts_, &ends_;
  std::int32_t end_, next_;
};

/// Adds a compute instruction that took `took`: the parts of its work, and the slow-down beyond them.
void add_busy(const Instruction& instruction, const cost::Costs& costs, StageId row, std::int64_t took, Attribution& result) {
  Breakdown& b = result.breakdown;
  cost::PhaseTime phase = costs.works[instruction.work()].time;
  if (instruction.buckets > 1) phase = cost::part_of(phase, instruction.bucket, instruction.buckets);
  const bool update = instruction.kind == InstructionKind::optimizer;
  (update ? b.optimizer_ns : b.compute_ns) += phase.compute_ns;
  if (update) b.step_host_ns += costs.stages[row].step_host.count();
  b.other_ns += phase.other_ns;
  b.exposed_communication_ns += phase.exposed_ns + took - phase.duration_ns();
  result.hidden_ns += phase.hidden_ns;
}

/// Attributes the iteration of a rank. `busy_with` adds the parts of instruction `i` within its duration.
template <typename Busy>
Attribution attributed(const Program& program, const RankClass& rank, std::int64_t iteration_ns,
                       const std::vector<std::int64_t>& starts, const std::vector<std::int64_t>& ends, const Busy& busy_with) {
  Attribution result;
  DataBusy data(program, rank, starts, ends);
  std::int64_t now = 0, data_total = 0, data_exposed = 0;
  const auto idle_until = [&](std::int64_t end) {
    if (end <= now) return;
    const std::int64_t busy = data.within(now, end);
    data_exposed += busy;
    result.breakdown.exposed_communication_ns += busy;
    result.breakdown.bubble_ns += end - now - busy;
    now = end;
  };
  for (std::int32_t i = rank.begin; i < rank.end; ++i) {
    const Instruction& instruction = program.instructions[static_cast<std::size_t>(i)];
    const std::int64_t start = starts[static_cast<std::size_t>(i)], end = ends[static_cast<std::size_t>(i)];
    if (instruction.stream == Stream::data) data_total += end - start;
    if (instruction.stream != Stream::compute) continue;
    idle_until(start);
    busy_with(i, end - start, result);
    now = end;
  }
  idle_until(iteration_ns);
  result.hidden_ns += data_total - data_exposed;
  return result;
}

}  // namespace

Attribution attribute(const Program& program, const RankClass& rank, const cost::Costs& costs, std::int64_t iteration_ns,
                      const std::vector<std::int64_t>& starts, const std::vector<std::int64_t>& ends) {
  const StageId row = program.stage_row(rank);
  return attributed(program, rank, iteration_ns, starts, ends, [&](std::int32_t i, std::int64_t took, Attribution& result) {
    add_busy(program.instructions[static_cast<std::size_t>(i)], costs, row, took, result);
  });
}

Breakdown attribute_measured(const Program& program, const RankClass& rank, const std::vector<MeasuredParts>& parts,
                             std::int64_t iteration_ns, const std::vector<std::int64_t>& starts,
                             const std::vector<std::int64_t>& ends) {
  std::int64_t bubbles = 0;
  const auto busy = [&](std::int32_t i, std::int64_t took, Attribution& result) {
    Breakdown& b = result.breakdown;
    const MeasuredParts& part = parts[static_cast<std::size_t>(i)];
    const bool update = program.instructions[static_cast<std::size_t>(i)].kind == InstructionKind::optimizer;
    (update ? b.optimizer_ns : b.compute_ns) += part.compute_ns;
    b.exposed_communication_ns += part.exposed_ns;
    const std::int64_t idle = b.bubble_ns - bubbles, waited = std::min(idle, part.waited_ns);
    b.bubble_ns = bubbles += waited;
    b.other_ns += took - part.compute_ns - part.exposed_ns + idle - waited;
  };
  return attributed(program, rank, iteration_ns, starts, ends, busy).breakdown;
}

}  // namespace espalier::sim
