// SPDX-License-Identifier: Apache-2.0
#include "sim/step_track.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cost/chunk_steps.h"
#include "sim/trace_text.h"

namespace espalier::sim {
namespace {

using cost::ChunkPhase;
using cost::ChunkSpan;
using cost::ChunkSteps;
using cost::PhaseTime;
using Kind = InstructionKind;

constexpr std::int64_t kFirstTrack = 5;  // behind the streams of the timeline

std::int64_t track_of(const ChunkSpan& span) { return kFirstTrack + static_cast<std::int64_t>(span.track); }

/// The instructions that make one pass of a micro-batch through a chunk: one, or its buckets.
struct Passage {
  std::size_t rank = 0;
  WorkId work;
  std::int32_t chunk = 0, microbatch = 0;
  ChunkPhase phase = ChunkPhase::forward;
  std::vector<std::int32_t> instructions;
};

/// From the time inside a pass that runs alone to the time of the simulation.
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
  std::vector<std::int64_t> ends_;  ///< of the buckets, running alone
  std::vector<Span> spans_;
};

class StepTrack {
 public:
  StepTrack(const cost::CostContext& context, const Plan& plan, const Program& program, const cost::Costs& costs,
            const Simulation& simulation)
      : program_(program),
        costs_(costs),
        simulation_(simulation),
        chunks_(cost::chunks_of(plan, program.structure().table_chunks)),
        book_(context, chunks_) {}

  std::string write() {
    const std::vector<Passage> all = passages();
    std::size_t events = 0;
    for (const Passage& pass : all) events += steps_of(pass).spans.size();
    std::vector<bool> named(program_.ranks.size(), false);
    for (const Passage& pass : all) {
      if (events > kFewEvents && pass.microbatch > 0) continue;
      if (!named[pass.rank]) name_tracks(pass.rank);
      named[pass.rank] = true;
      const Clock clock(pass, time_of(pass), simulation_);
      for (const ChunkSpan& span : steps_of(pass).spans) event(pass, clock, span);
    }
    return std::move(out_);
  }

 private:
  /// Of the first rank of each stage, in the order of the program.
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

  void begin(std::string_view phase, std::size_t rank, std::int64_t track) {
    out_.append(",\n{\"ph\":\"").append(phase).append("\"");
    field(out_, "pid", program_.ranks[rank].device());
    field(out_, "tid", track);
  }
  void name_tracks(std::size_t rank) {
    constexpr std::string_view kNames[] = {"steps", "traffic", "ZeRO"};
    for (std::int64_t i = 0; i < 3; ++i) {
      begin("M", rank, kFirstTrack + i);
      field(out_, "name", "thread_name");
      out_ += ",\"args\":{\"name\":";
      put_quoted(out_, kNames[i]);
      out_ += "}}";
    }
  }
  void event(const Passage& pass, const Clock& clock, const ChunkSpan& span) {
    const std::int64_t start = clock.at(span.start_ns);
    begin("X", pass.rank, track_of(span));
    field_us(out_, "ts", start);
    field_us(out_, "dur", std::max<std::int64_t>(0, clock.at(span.end_ns) - start));
    field(out_, "cat", "step");
    field(out_, "name", label(span));
    out_ += ",\"args\":{\"layer\":";
    put(out_, span.layer);
    field(out_, "chunk", pass.chunk);
    field(out_, "microbatch", pass.microbatch);
    field(out_, "part", to_string(span.part));
    if (span.traffic.times > 0) {
      field(out_, "collective", to_string(span.traffic.kind));
      field(out_, "group", to_string(span.traffic.group));
      field(out_, "bytes", std::llround(span.traffic.bytes));
      field(out_, "times", span.traffic.times);
      if (!span.beside.empty()) field(out_, "beside", span.beside);
    }
    out_ += "}}";
  }
  /// "attn.qkv", "attn.out all_reduce".
  static std::string label(const ChunkSpan& span) {
    if (span.traffic.times == 0) return span.name;
    return span.name + " " + std::string(to_string(span.traffic.kind));
  }

  const Program& program_;
  const cost::Costs& costs_;
  const Simulation& simulation_;
  cost::PlanChunks chunks_;
  cost::StepBook book_;
  std::map<std::pair<std::int32_t, ChunkPhase>, ChunkSteps> steps_;
  std::string out_;
};

}  // namespace

std::string step_events(const cost::CostContext& context, const Plan& plan, const Program& program, const cost::Costs& costs,
                        const Simulation& simulation) {
  ESPALIER_CHECK(simulation.spans.size() == program.instructions.size());
  return StepTrack(context, plan, program, costs, simulation).write();
}

}  // namespace espalier::sim
