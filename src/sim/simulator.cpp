// SPDX-License-Identifier: Apache-2.0
// The public face of the simulation: clock (engine), attribution and memory replay put together.
#include "sim/simulator.h"

#include "base/check.h"
#include "sim/attribution.h"
#include "sim/engine.h"
#include "sim/memory_replay.h"

namespace espalier::sim {

struct Simulator::Scratch {
  Engine engine;
};

namespace {

Error mismatch(const Program& program, const cost::PlanTiming& timing) {
  return Error{
      ErrorKind::internal, "simulator",
      "timing of " + std::to_string(timing.chunks.size()) + " chunks and " + std::to_string(timing.stages.size()) + " stages",
      std::to_string(program.schedule.stages * program.schedule.virtual_stages) + " chunks and " +
          std::to_string(program.schedule.stages) + " stages",
      ""};
}

bool matches(const Program& program, const cost::PlanTiming& timing) {
  const auto p = static_cast<std::size_t>(program.schedule.stages), v = static_cast<std::size_t>(program.schedule.virtual_stages);
  return timing.stages.size() == p && timing.chunks.size() == p * v;
}

/// Names the first blocked instruction of up to eight ranks.
Error deadlock(const Program& program, const Engine& engine) {
  std::string found;
  int named = 0;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const std::int32_t i = engine.blocked(r);
    if (i < 0) continue;
    if (++named > 8)
      return Error{ErrorKind::internal, "simulator", "deadlock: " + found + "; …", "an order in which everything ends", ""};
    const Instruction& instruction = program.instructions[static_cast<std::size_t>(i)];
    if (!found.empty()) found += "; ";
    found += "rank " + std::to_string(r) + " at " + std::to_string(i) + " (" + std::string(to_string(instruction.kind)) +
             " of chunk " + std::to_string(instruction.chunk);
    if (instruction.microbatch >= 0) found += ", micro-batch " + std::to_string(instruction.microbatch);
    found += ")";
  }
  return Error{ErrorKind::internal, "simulator", "deadlock: " + found, "an order in which everything ends", ""};
}

RankOutcome outcome_of(const Program& program, const cost::PlanTiming& timing, const Engine& engine, std::size_t r) {
  const RankProgram& rank = program.ranks[r];
  RankOutcome outcome;
  outcome.end_ns = engine.rank_end(r);
  const Attribution attribution = attribute(program, rank, timing, engine.iteration_ns(), engine.starts(), engine.ends());
  outcome.breakdown = attribution.breakdown;
  outcome.hidden_communication_ns = attribution.hidden_ns;
  ESPALIER_CHECK(outcome.breakdown.total_ns() == engine.iteration_ns());
  outcome.memory = replay_memory(program, rank, timing);
  if (outcome.memory.instruction >= 0)
    outcome.memory.at_ns = engine.starts()[static_cast<std::size_t>(outcome.memory.instruction)];
  return outcome;
}

}  // namespace

Simulator::Simulator() : scratch_(std::make_unique<Scratch>()) {}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

Result<Simulation> Simulator::run(const Program& program, const cost::PlanTiming& timing, const SimulationOptions& options) {
  if (!matches(program, timing)) return mismatch(program, timing);
  Engine& engine = scratch_->engine;
  if (!engine.run(program, timing, true)) return deadlock(program, engine);
  Simulation simulation;
  simulation.iteration_ns = engine.iteration_ns();
  simulation.ranks.reserve(program.ranks.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) simulation.ranks.push_back(outcome_of(program, timing, engine, r));
  while (simulation.ranks[static_cast<std::size_t>(simulation.last_rank)].end_ns != simulation.iteration_ns)
    ++simulation.last_rank;
  if (!options.record_spans) return simulation;
  simulation.spans.reserve(program.instructions.size());
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    simulation.spans.push_back({engine.starts()[i], engine.ends()[i]});
  return simulation;
}

std::int64_t Simulator::iteration_ns(const Program& program, const cost::PlanTiming& timing) {
  ESPALIER_CHECK(matches(program, timing));
  return scratch_->engine.run(program, timing, false) ? scratch_->engine.iteration_ns() : -1;
}

void Simulator::peak_bytes(const Program& program, const cost::PlanTiming& timing, std::vector<std::int64_t>& peaks) {
  ESPALIER_CHECK(matches(program, timing));
  peaks.resize(program.ranks.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) peaks[r] = replay_memory(program, program.ranks[r], timing).bytes;
}

}  // namespace espalier::sim
