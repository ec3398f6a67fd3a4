// SPDX-License-Identifier: Apache-2.0
// Implements the public interface of the simulation: clock (engine), attribution and memory replay together.
#include "sim/simulator.h"

#include "base/invariant.h"
#include "sim/attribution.h"
#include "sim/clock.h"
#include "sim/memory_replay.h"

namespace espalier::sim {

struct Simulator::Scratch {
  Engine engine;
};

namespace {

/// Returns whether the cost columns match the program.
bool fits(const Program& program, const cost::Costs& costs) {
  return costs.works.size() == program.works.size() && costs.collectives.size() == program.collectives.size() &&
         costs.transfers.size() == program.transfers.size() && costs.stages.size() == static_cast<std::size_t>(program.stages());
}

Error mismatch(const Program& program, const cost::Costs& costs) {
  const auto text = [](std::size_t works, std::size_t collectives, std::size_t transfers, std::size_t stages) {
    return std::to_string(works) + " works, " + std::to_string(collectives) + " collectives, " + std::to_string(transfers) +
           " transfers, " + std::to_string(stages) + " stages";
  };
  return Error{ErrorKind::internal, "simulator",
               "costs of " + text(costs.works.size(), costs.collectives.size(), costs.transfers.size(), costs.stages.size()),
               text(program.works.size(), program.collectives.size(), program.transfers.size(),
                    static_cast<std::size_t>(program.stages())),
               ""};
}

/// Returns an error that names the first blocked instruction of up to eight ranks.
Error deadlock(const Program& program, const NetworkModel& engine) {
  std::string found;
  int named = 0;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const std::int32_t i = engine.blocked(r);
    if (i < 0) continue;
    if (++named > 8)
      return Error{ErrorKind::internal, "simulator", "deadlock: " + found + "; …", "an order in which every instruction ends",
                   ""};
    const Instruction& instruction = program.instructions[static_cast<std::size_t>(i)];
    if (!found.empty()) found += "; ";
    found += "rank " + std::to_string(r) + " at " + std::to_string(i) + " (" + std::string(to_string(instruction.kind)) +
             " of chunk " + std::to_string(program.chunk_of(instruction).value);
    if (instruction.microbatch >= 0) found += ", micro-batch " + std::to_string(instruction.microbatch);
    found += ")";
  }
  return Error{ErrorKind::internal, "simulator", "deadlock: " + found, "an order in which every instruction ends", ""};
}

RankOutcome outcome_of(const Program& program, const cost::Costs& costs, const NetworkModel& engine, std::size_t r) {
  const RankClass& rank = program.ranks[r];
  RankOutcome outcome;
  outcome.end_ns = engine.rank_end(r);
  const Attribution attribution = attribute(program, rank, costs, engine.iteration_ns(), engine.starts(), engine.ends());
  outcome.breakdown = attribution.breakdown;
  outcome.hidden_communication_ns = attribution.hidden_ns;
  ESPALIER_CHECK(outcome.breakdown.total_ns() == engine.iteration_ns());
  outcome.memory = replay_memory(program, rank, costs);
  if (outcome.memory.instruction >= 0)
    outcome.memory.at_ns = engine.starts()[static_cast<std::size_t>(outcome.memory.instruction)];
  return outcome;
}

}  // namespace

Simulator::Simulator() : scratch_(std::make_unique<Scratch>()) {}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

Result<Simulation> Simulator::run(const Program& program, const cost::Costs& costs, const SimulationOptions& options) {
  if (!fits(program, costs)) return mismatch(program, costs);
  NetworkModel& engine = options.network != nullptr ? *options.network : scratch_->engine;
  if (!engine.run(program, costs, true)) return deadlock(program, engine);
  Simulation simulation;
  simulation.iteration_ns = engine.iteration_ns();
  simulation.ranks.reserve(program.ranks.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) simulation.ranks.push_back(outcome_of(program, costs, engine, r));
  while (simulation.ranks[static_cast<std::size_t>(simulation.last_rank)].end_ns != simulation.iteration_ns)
    ++simulation.last_rank;
  if (!options.record_spans) return simulation;
  simulation.spans.reserve(program.instructions.size());
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    simulation.spans.push_back({engine.starts()[i], engine.ends()[i]});
  return simulation;
}

std::int64_t Simulator::iteration_ns(const Program& program, const cost::Costs& costs) {
  ESPALIER_CHECK(fits(program, costs));
  return scratch_->engine.run(program, costs, false) ? scratch_->engine.iteration_ns() : -1;
}

bool Simulator::compute_ends(const Program& program, const cost::Costs& costs, std::vector<std::int64_t>& ends) {
  ESPALIER_CHECK(fits(program, costs));
  if (!scratch_->engine.run(program, costs, false)) return false;
  ends.clear();
  for (const RankClass& rank : program.ranks) {
    std::int32_t last = rank.end - 1;
    while (last > rank.begin && program.instructions[static_cast<std::size_t>(last)].stream != Stream::compute) --last;
    ends.push_back(scratch_->engine.ends()[static_cast<std::size_t>(last)]);
  }
  return true;
}

void Simulator::peak_bytes(const Program& program, const cost::Costs& costs, std::vector<std::int64_t>& peaks) {
  ESPALIER_CHECK(fits(program, costs));
  peaks.resize(program.ranks.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) peaks[r] = replay_memory(program, program.ranks[r], costs).bytes;
}

}  // namespace espalier::sim
