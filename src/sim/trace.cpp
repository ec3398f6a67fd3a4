// SPDX-License-Identifier: Apache-2.0
// Trace events of a simulated iteration. One event is one line of text, built with integer arithmetic only (microseconds with
// three decimals are nanoseconds exactly), so that equal simulations give equal bytes.
//
// Events of instruction i: a slice on the track of its stream; for a transfer one end of the flow arrow (both ends lie in the
// middle of their slices, where they bind to no neighbour); for compute the memory before and after, where it changes.
// Kernel names begin with `ncclDevKernel_` for communication, as trace tools tell communication from compute by that.
#include "sim/trace.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "base/check.h"
#include "sim/memory_replay.h"
#include "sim/trace_text.h"

namespace espalier::sim {
namespace {

using Kind = InstructionKind;

std::string_view letter(Kind kind) {
  switch (kind) {
    case Kind::forward: return "F";
    case Kind::backward_weight: return "W";
    default: return "B";
  }
}

class Writer {
 public:
  Writer(const Plan& plan, const Program& program, const cost::Costs& costs, const Simulation& simulation)
      : plan_(plan), program_(program), costs_(costs), simulation_(simulation), held_(program.ranks.size(), 0) {}

  /// The ranks that are shown: the first of each stage.
  [[nodiscard]] std::vector<std::size_t> shown() const;
  void head(std::string& out) const;
  void names(std::string& out, std::size_t rank) const;
  /// All events of an instruction. Memory is replayed along the way: call for every instruction of a rank, in order.
  void instruction(std::string& out, std::size_t rank, std::int32_t i);
  void left_out(std::string& out, std::int32_t microbatches) const;
  void restart() { std::fill(held_.begin(), held_.end(), 0); }

 private:
  void begin_event(std::string& out, std::string_view phase, std::size_t rank, std::int64_t tid) const;
  void name_track(std::string& out, std::size_t rank, std::int64_t tid, std::string_view kind, std::string_view name) const;
  void slice(std::string& out, std::size_t rank, std::int32_t i) const;
  void slice_name(std::string& out, const Instruction& x) const;
  void compute_arguments(std::string& out, const RankClass& rank, const Instruction& x) const;
  void transfer_arguments(std::string& out, const RankClass& rank, const Instruction& x) const;
  void collective_arguments(std::string& out, const Instruction& x) const;
  void flow(std::string& out, std::size_t rank, std::int32_t i) const;
  void memory(std::string& out, std::size_t rank, std::int64_t at, std::int64_t activations) const;

  /// The chunk of the rank's own that an instruction concerns: of the exchange of a shared table, the one with the copy.
  [[nodiscard]] std::int32_t chunk_of(const RankClass& rank, const Instruction& x) const {
    if (x.kind != Kind::tied_reduce) return program_.chunk_of(x);
    for (const std::int32_t copy : program_.structure.table_chunks)
      if (place_of_chunk(program_.schedule(), copy).stage == rank.stage) return copy;
    return program_.chunk_of(x);
  }
  [[nodiscard]] const Instruction& at(std::int32_t i) const { return program_.instructions[static_cast<std::size_t>(i)]; }
  [[nodiscard]] const Span& span(std::int32_t i) const { return simulation_.spans[static_cast<std::size_t>(i)]; }
  static std::int64_t track(Stream stream) { return static_cast<std::int64_t>(stream) + 1; }

  const Plan& plan_;
  const Program& program_;
  const cost::Costs& costs_;
  const Simulation& simulation_;
  std::vector<std::int64_t> held_;  // activations after the last instruction, by rank
};

std::vector<std::size_t> Writer::shown() const {
  std::vector<std::size_t> ranks;
  std::vector<bool> seen(static_cast<std::size_t>(program_.schedule().stages), false);
  for (std::size_t r = 0; r < program_.ranks.size(); ++r) {
    const auto stage = static_cast<std::size_t>(program_.ranks[r].stage);
    if (!seen[stage]) ranks.push_back(r);
    seen[stage] = true;
  }
  return ranks;
}

void Writer::head(std::string& out) const {
  std::int64_t world = 0;
  for (const RankClass& rank : program_.ranks) world += rank.represents();
  out += "{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"distributedInfo\":{\"backend\":\"nccl\"";
  field(out, "rank", program_.ranks.front().device());
  field(out, "world_size", world);
  out += "},\"traceEvents\":[";
}

void Writer::begin_event(std::string& out, std::string_view phase, std::size_t rank, std::int64_t tid) const {
  if (out.back() != '[') out += ',';
  out.append("\n{\"ph\":\"").append(phase).append("\"");
  field(out, "pid", program_.ranks[rank].device());
  field(out, "tid", tid);
}

void Writer::name_track(std::string& out, std::size_t rank, std::int64_t tid, std::string_view kind,
                        std::string_view name) const {
  begin_event(out, "M", rank, tid);
  field(out, "name", kind);
  out += ",\"args\":{\"name\":";
  put_quoted(out, name);
  out += "}}";
}

void Writer::names(std::string& out, std::size_t rank) const {
  const RankClass& r = program_.ranks[rank];
  std::string name = "rank " + std::to_string(r.device()) + " · stage " + std::to_string(r.stage);
  if (r.represents() > 1) name += " · stands for " + std::to_string(r.represents()) + " devices";
  name_track(out, rank, 0, "process_name", name);
  begin_event(out, "M", rank, 0);
  out += ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":";
  put(out, static_cast<std::int64_t>(rank));
  out += "}}";
  name_track(out, rank, 0, "thread_name", "step");
  for (int s = 0; s < kStreams; ++s) {
    name_track(out, rank, track(static_cast<Stream>(s)), "thread_name", to_string(static_cast<Stream>(s)));
  }
  begin_event(out, "X", rank, 0);
  field_us(out, "ts", 0);
  field_us(out, "dur", simulation_.iteration_ns);
  out += ",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#0\"}";
}

void Writer::slice_name(std::string& out, const Instruction& x) const {
  switch (x.kind) {
    case Kind::send:
    case Kind::recv:
      out += program_.carries_gradient(x) ? "ncclDevKernel_SendRecv gradient" : "ncclDevKernel_SendRecv activation";
      break;
    case Kind::grad_reduce:
      out += plan_.strategy().zero >= 1 ? "ncclDevKernel_ReduceScatter gradients" : "ncclDevKernel_AllReduce gradients";
      break;
    case Kind::param_gather: out += "ncclDevKernel_AllGather parameters"; break;
    case Kind::tied_reduce: out += "ncclDevKernel_AllReduce tied embedding"; return;
    case Kind::optimizer: out += "optimizer"; return;
    default: out += letter(x.kind);
  }
  out += " c";
  put(out, program_.chunk_of(x));
  if (x.microbatch >= 0) {
    out += " mb";
    put(out, x.microbatch);
  }
  if (x.buckets > 1) {
    out += " part ";
    put(out, x.bucket + 1);
    out += '/';
    put(out, x.buckets);
  }
}

void Writer::compute_arguments(std::string& out, const RankClass& rank, const Instruction& x) const {
  if (x.kind == Kind::optimizer) return;
  const ChunkPlace place = place_of_chunk(program_.schedule(), program_.chunk_of(x));
  const Chunk& layers = plan_.stages[static_cast<std::size_t>(rank.stage)].chunks[static_cast<std::size_t>(place.local_chunk)];
  out += ",\"layers\":\"";
  put(out, layers.first());
  out += '-';
  put(out, layers.last());
  out += '"';
}

void Writer::transfer_arguments(std::string& out, const RankClass& rank, const Instruction& x) const {
  const std::int64_t peer = program_.ranks[static_cast<std::size_t>(x.peer)].device();
  field(out, "Collective name", to_string(x.kind));
  field(out, "Group size", 2);
  field(out, "Process Group Name", "pp");
  out += ",\"Process Group Ranks\":\"[";
  put(out, std::min(rank.device(), peer));
  out += ", ";
  put(out, std::max(rank.device(), peer));
  out += "]\"";
  field(out, x.kind == Kind::send ? "Dst Rank" : "Src Rank", peer);
}

void Writer::collective_arguments(std::string& out, const Instruction& x) const {
  const Strategy& strategy = plan_.strategy();
  if (x.kind == Kind::tied_reduce) {
    const auto copies = std::count_if(program_.instructions.begin(), program_.instructions.end(),
                                      [](const Instruction& i) { return i.kind == Kind::tied_reduce; });
    field(out, "Collective name", "allreduce");
    field(out, "Group size", copies);
    field(out, "Process Group Name", "embedding");
    return;
  }
  const bool gather = x.kind == Kind::param_gather, scatters = strategy.zero >= 1;
  field(out, "Collective name", gather ? "_allgather_base" : scatters ? "_reduce_scatter_base" : "allreduce");
  field(out, "Group size", gather ? strategy.shard : strategy.data_ranks());
  field(out, "Process Group Name", "dp");
}

void Writer::slice(std::string& out, std::size_t rank, std::int32_t i) const {
  const Instruction& x = at(i);
  const RankClass& r = program_.ranks[rank];
  begin_event(out, "X", rank, track(x.stream));
  field_us(out, "ts", span(i).start_ns);
  field_us(out, "dur", span(i).end_ns - span(i).start_ns);
  out += ",\"cat\":\"kernel\",\"name\":\"";
  slice_name(out, x);
  out += "\",\"args\":{\"device\":";
  put(out, r.device());
  field(out, "stream", track(x.stream));
  field(out, "correlation", i);
  field(out, "stage", r.stage);
  field(out, "chunk", chunk_of(r, x));
  if (x.microbatch >= 0) field(out, "microbatch", x.microbatch);
  if (x.stream == Stream::compute) compute_arguments(out, r, x);
  if (x.stream == Stream::data) collective_arguments(out, x);
  if (x.stream == Stream::send || x.stream == Stream::recv) transfer_arguments(out, r, x);
  out += "}}";
}

void Writer::flow(std::string& out, std::size_t rank, std::int32_t i) const {
  const Instruction& x = at(i);
  const bool starts = x.kind == Kind::send;
  begin_event(out, starts ? "s" : "f", rank, track(x.stream));
  field_us(out, "ts", span(i).start_ns + (span(i).end_ns - span(i).start_ns) / 2);
  field(out, "id", starts ? i : x.match);
  if (!starts) field(out, "bp", "e");
  field(out, "cat", "p2p");
  field(out, "name", program_.carries_gradient(x) ? "gradient" : "activation");
  out += '}';
}

void Writer::memory(std::string& out, std::size_t rank, std::int64_t time, std::int64_t activations) const {
  begin_event(out, "C", rank, 0);
  field_us(out, "ts", time);
  out += ",\"name\":\"memory (bytes)\",\"args\":{\"static\":";
  put(out, costs_.stages[static_cast<std::size_t>(program_.ranks[rank].stage)].memory.total());
  field(out, "activations", activations);
  out += "}}";
}

void Writer::instruction(std::string& out, std::size_t rank, std::int32_t i) {
  const Instruction& x = at(i);
  slice(out, rank, i);
  if (x.kind == Kind::send || x.kind == Kind::recv) flow(out, rank, i);
  if (x.stream != Stream::compute) return;
  const cost::MemoryStep step = memory_step(x, costs_);
  std::int64_t& held = held_[rank];
  if (i == program_.ranks[rank].begin || step.before != 0 || step.during != 0) {
    memory(out, rank, span(i).start_ns, held + step.before + step.during);
  }
  held += step.before + step.after;
  if (step.during != 0 || step.after != 0) memory(out, rank, span(i).end_ns, held);
}

void Writer::left_out(std::string& out, std::int32_t microbatches) const {
  begin_event(out, "i", 0, 0);
  field_us(out, "ts", 0);
  field(out, "s", "g");
  field(out, "name",
        "micro-batches " + std::to_string(microbatches) + " to " + std::to_string(program_.schedule().microbatches - 1) +
            " are left out: the trace would be too large");
  out += '}';
}

/// Bytes by micro-batch: index 0 what is always there, 1 + j the events of micro-batch j.
std::vector<std::size_t> sizes(Writer& writer, const Program& program, const std::vector<std::size_t>& ranks) {
  std::vector<std::size_t> bytes(1 + static_cast<std::size_t>(program.schedule().microbatches), 0);
  std::string text;
  for (const std::size_t r : ranks) {
    text = "[";
    writer.names(text, r);
    bytes[0] += text.size() + 1;
    for (std::int32_t i = program.ranks[r].begin; i < program.ranks[r].end; ++i) {
      text = "[";
      writer.instruction(text, r, i);
      const std::int64_t microbatch = program.instructions[static_cast<std::size_t>(i)].microbatch;  // −1: of none
      bytes[static_cast<std::size_t>(microbatch + 1)] += text.size() + 1;
    }
  }
  writer.restart();
  return bytes;
}

/// How many micro-batches fit.
std::int32_t shown_microbatches(const std::vector<std::size_t>& bytes, std::size_t limit) {
  constexpr std::size_t kFrame = 4096;  // head, tail, the note
  std::size_t total = kFrame + bytes[0];
  std::size_t fit = 0;
  while (fit + 1 < bytes.size() && total + bytes[fit + 1] <= limit) total += bytes[++fit];
  return static_cast<std::int32_t>(fit);
}

}  // namespace

std::string write_trace(const Plan& plan, const Program& program, const cost::Costs& costs, const Simulation& simulation,
                        const TraceOptions& options) {
  ESPALIER_CHECK(simulation.spans.size() == program.instructions.size());
  Writer writer(plan, program, costs, simulation);
  const std::vector<std::size_t> ranks = writer.shown();
  const std::vector<std::size_t> bytes = sizes(writer, program, ranks);
  const std::int32_t microbatches = shown_microbatches(bytes, options.max_bytes);
  const bool all = microbatches == program.schedule().microbatches;
  std::string out, skipped;
  out.reserve(std::min(options.max_bytes, std::accumulate(bytes.begin(), bytes.end(), std::size_t{8192})));
  writer.head(out);
  for (const std::size_t r : ranks) {
    writer.names(out, r);
    for (std::int32_t i = program.ranks[r].begin; i < program.ranks[r].end; ++i) {
      const bool show = program.instructions[static_cast<std::size_t>(i)].microbatch < microbatches;
      if (!show) skipped = "[";
      writer.instruction(show ? out : skipped, r, i);
    }
  }
  if (!all) writer.left_out(out, microbatches);
  out += options.more_events;
  out += "\n],\"espalier\":{\"plan\":";
  put_quoted(out, plan.label());
  field(out, "iteration_ns", simulation.iteration_ns);
  field(out, "microbatches", program.schedule().microbatches);
  field(out, "microbatches_shown", microbatches);
  out += "}}\n";
  return out;
}

}  // namespace espalier::sim
