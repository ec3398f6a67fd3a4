// SPDX-License-Identifier: Apache-2.0
#include "sim/step_track.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/invariant.h"
#include "cost/chunk_steps.h"

namespace espalier::sim {
namespace {

using cost::ChunkPhase;
using cost::ChunkSpan;
using cost::ChunkSteps;
using cost::PhaseTime;
using Kind = InstructionKind;

/// Holds the instructions of one pass of a micro-batch through a chunk: one, or its buckets.
struct Passage {
  std::size_t rank = 0;
  WorkId work;
  std::int32_t chunk = 0, microbatch = 0;
  ChunkPhase phase = ChunkPhase::forward;
  std::vector<std::int32_t> instructions;
};

/// Maps the time inside a pass that runs alone to the time of the simulation.
class Clock {
 public:
  Clock(const Passage& pass, const PhaseTime& whole, const Simulation& simulation) {
    const int buckets = static_cast<int>(pass.instructions.size());
    for (int bucket = 0; bucket < buckets; ++bucket) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + cost::part_of(whole, bucket, buckets).duration_ns());
      spans_.push_back(simulation.spans[static_cast<std::size_t>(pass.instructions[static_cast<std::size_t>(bucket)])]);
    }
    ESPALIER_CHECK(!ends_.empty() && ends_.back() == whole.duration_ns());
  }
  [[nodiscard]] std::int64_t at(std::int64_t offset) const {
    std::size_t bucket = 0;
    while (bucket + 1 < ends_.size() && offset > ends_[bucket]) ++bucket;
    const std::int64_t start = bucket == 0 ? 0 : ends_[bucket - 1], length = ends_[bucket] - start;
    const Span& span = spans_[bucket];
    const std::int64_t lasted = span.end_ns - span.start_ns;
    if (length == lasted || length == 0) return span.start_ns + (offset - start);
    return span.start_ns + static_cast<std::int64_t>(static_cast<double>(offset - start) / static_cast<double>(length) *
                                                     static_cast<double>(lasted));
  }

 private:
  std::vector<std::int64_t> ends_;  ///< ends of the buckets, running alone
  std::vector<Span> spans_;
};

class StepTrackWriter {
 public:
  StepTrackWriter(const cost::CostContext& context, const Plan& plan, const Program& program, const cost::Costs& costs,
                  const Simulation& simulation)
      : program_(program),
        costs_(costs),
        simulation_(simulation),
        chunks_(cost::chunks_of(plan, *context.workload.model)),
        book_(context, chunks_) {}

  void write(Timeline& timeline) {
    const std::vector<Passage> all = passages();
    std::size_t steps = 0;
    for (const Passage& pass : all) steps += steps_of(pass).spans.size();
    for (const Passage& pass : all) {
      if (steps > kFewSteps && pass.microbatch > 0) continue;
      const Clock clock(pass, time_of(pass), simulation_);
      for (const ChunkSpan& span : steps_of(pass).spans) timeline.ranks[pass.rank].steps.push_back(step(pass, clock, span));
    }
  }

 private:
  /// Returns the passes of the first rank of each stage, in the order of the program.
  [[nodiscard]] std::vector<Passage> passages() const {
    std::vector<Passage> out;
    std::vector<bool> seen(static_cast<std::size_t>(program_.schedule().stages), false);
    for (std::size_t r = 0; r < program_.ranks.size(); ++r) {
      const auto stage = program_.ranks[r].stage.index();
      if (seen[stage]) continue;
      seen[stage] = true;
      add_passages(r, out);
    }
    return out;
  }
  void add_passages(std::size_t rank, std::vector<Passage>& out) const {
    std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> cut;  // passes of several buckets
    for (std::int32_t i = program_.ranks[rank].begin; i < program_.ranks[rank].end; ++i) {
      const Instruction& x = program_.instructions[static_cast<std::size_t>(i)];
      if (x.stream != Stream::compute || x.kind == Kind::optimizer) continue;
      const auto [at, fresh] = cut.try_emplace({x.id, x.microbatch}, out.size());
      if (fresh) out.push_back({rank, x.work(), program_.chunk_of(x).value, x.microbatch, cost::phase_of(x.kind), {}});
      out[at->second].instructions.push_back(i);
    }
  }

  [[nodiscard]] const PhaseTime& time_of(const Passage& pass) const { return costs_.works[pass.work].time; }

  const ChunkSteps& steps_of(const Passage& pass) {
    const auto [at, fresh] = steps_.try_emplace({pass.chunk, pass.phase});
    if (!fresh) return at->second;
    at->second = book_.chunk(pass.chunk, pass.phase);
    ESPALIER_CHECK(at->second.whole == time_of(pass));
    return at->second;
  }

  static TimelineStep step(const Passage& pass, const Clock& clock, const ChunkSpan& span) {
    TimelineStep out;
    out.track = static_cast<std::int32_t>(span.track);
    out.layer = span.layer;
    out.chunk = pass.chunk;
    out.microbatch = pass.microbatch;
    out.name = span.name;
    out.part = to_string(span.part);
    out.times = span.traffic.times;
    if (out.times > 0) {
      out.collective = span.traffic.kind;
      out.group = to_string(span.traffic.group);
      out.bytes = std::llround(span.traffic.bytes);
      out.beside = span.beside;
    }
    out.start_ns = clock.at(span.start_ns);
    out.end_ns = std::max(out.start_ns, clock.at(span.end_ns));
    return out;
  }

  const Program& program_;
  const cost::Costs& costs_;
  const Simulation& simulation_;
  cost::PlanChunks chunks_;
  cost::StepBook book_;
  std::map<std::pair<std::int32_t, ChunkPhase>, ChunkSteps> steps_;
};

}  // namespace

void add_steps(const cost::CostContext& context, const Plan& plan, const Program& program, const cost::Costs& costs,
               const Simulation& simulation, Timeline& timeline) {
  ESPALIER_CHECK(simulation.spans.size() == program.instructions.size());
  ESPALIER_CHECK(timeline.ranks.size() == program.ranks.size());
  StepTrackWriter(context, plan, program, costs, simulation).write(timeline);
}

}  // namespace espalier::sim
