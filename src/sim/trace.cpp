// SPDX-License-Identifier: Apache-2.0
// Writes trace events of a simulated iteration. One event is one line of text, built with integer arithmetic only
// (microseconds with three decimals are nanoseconds exactly), so that equal simulations give equal bytes.
//
// Every span is a slice on the track of its stream. A transfer adds one end of the flow arrow; both ends lie in the
// middle of their slices, where they bind to no neighbour. Compute adds the memory before and after, where it
// changes. Kernel names of communication begin with `ncclDevKernel_`, by which trace tools tell communication from
// compute.
#include "espalier/timeline.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/invariant.h"
#include "sim/trace_text.h"

namespace espalier {
namespace {

using namespace sim;
using Kind = InstructionKind;

constexpr std::int64_t kFirstStepTrack = kStreams + 1;

std::string_view letter(Kind kind) {
  switch (kind) {
    case Kind::forward: return "F";
    case Kind::backward_weight: return "W";
    default: return "B";
  }
}

/// Describes the place of a timeline in a trace: the offset of its process and arrow numbers, and the suffix of their
/// names.
struct Lane {
  std::int64_t number = 0, lanes = 1;
  std::string_view name;
  std::int64_t first_arrow = 0;
};

class Writer {
 public:
  Writer(const Timeline& timeline, const Lane& lane) : timeline_(timeline), lane_(lane) {}

  /// Returns the ranks that are shown: the first of each stage.
  [[nodiscard]] std::vector<const TimelineRank*> shown() const;
  void head(std::string& out) const;
  /// Writes the names of a rank's tracks. `position`: its place among the shown ranks, from above.
  void names(std::string& out, const TimelineRank& rank, std::size_t position) const;
  /// Writes all events of a span and of the memory that it changes. `sample` is the first sample that was not written
  /// yet, and is advanced.
  void span(std::string& out, const TimelineRank& rank, const TimelineSpan& span, std::size_t& sample) const;
  void left_out(std::string& out, std::int32_t microbatches) const;
  /// Writes the steps inside instructions as tracks of their own after those of the streams.
  void steps(std::string& out, const TimelineRank& rank) const;

 private:
  void begin_event(std::string& out, std::string_view phase, const TimelineRank& rank, std::int64_t tid) const;
  void name_track(std::string& out, const TimelineRank& rank, std::int64_t tid, std::string_view kind,
                  std::string_view name) const;
  void slice(std::string& out, const TimelineRank& rank, const TimelineSpan& span) const;
  void slice_name(std::string& out, const TimelineSpan& span) const;
  void compute_arguments(std::string& out, const TimelineSpan& span) const;
  void transfer_arguments(std::string& out, const TimelineRank& rank, const TimelineSpan& span) const;
  void collective_arguments(std::string& out, const TimelineSpan& span) const;
  void flow(std::string& out, const TimelineRank& rank, const TimelineSpan& span) const;
  void memory(std::string& out, const TimelineRank& rank, const MemorySample& sample) const;
  void step(std::string& out, const TimelineRank& rank, const TimelineStep& step) const;

  static std::int64_t track(Stream stream) { return static_cast<std::int64_t>(stream) + 1; }

  [[nodiscard]] std::int64_t process(std::int64_t device) const { return device * lane_.lanes + lane_.number; }

  const Timeline& timeline_;
  Lane lane_;
};

std::vector<const TimelineRank*> Writer::shown() const {
  std::vector<const TimelineRank*> ranks;
  std::vector<bool> seen;
  for (const TimelineRank& rank : timeline_.ranks) {
    const auto stage = static_cast<std::size_t>(rank.stage);
    if (stage >= seen.size()) seen.resize(stage + 1, false);
    if (!seen[stage]) ranks.push_back(&rank);
    seen[stage] = true;
  }
  return ranks;
}

void Writer::head(std::string& out) const {
  out += "{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"distributedInfo\":{\"backend\":\"nccl\"";
  field(out, "rank", timeline_.ranks.empty() ? 0 : timeline_.ranks.front().device);
  field(out, "world_size", timeline_.devices());
  out += "},\"traceEvents\":[";
}

void Writer::begin_event(std::string& out, std::string_view phase, const TimelineRank& rank, std::int64_t tid) const {
  if (out.back() != '[') out += ',';
  out.append("\n{\"ph\":\"").append(phase).append("\"");
  field(out, "pid", process(rank.device));
  field(out, "tid", tid);
}

void Writer::name_track(std::string& out, const TimelineRank& rank, std::int64_t tid, std::string_view kind,
                        std::string_view name) const {
  begin_event(out, "M", rank, tid);
  field(out, "name", kind);
  out += ",\"args\":{\"name\":";
  put_quoted(out, name);
  out += "}}";
}

void Writer::names(std::string& out, const TimelineRank& rank, std::size_t position) const {
  std::string name = "rank " + std::to_string(rank.device) + " · stage " + std::to_string(rank.stage);
  if (rank.represents > 1) name += " · represents " + std::to_string(rank.represents) + " devices";
  if (!lane_.name.empty()) name.append(" · ").append(lane_.name);
  name_track(out, rank, 0, "process_name", name);
  begin_event(out, "M", rank, 0);
  out += ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":";
  put(out, static_cast<std::int64_t>(position) * lane_.lanes + lane_.number);
  out += "}}";
  name_track(out, rank, 0, "thread_name", "step");
  for (int s = 0; s < kStreams; ++s) {
    name_track(out, rank, track(static_cast<Stream>(s)), "thread_name", to_string(static_cast<Stream>(s)));
  }
  begin_event(out, "X", rank, 0);
  field_us(out, "ts", 0);
  field_us(out, "dur", timeline_.iteration_ns);
  out += ",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#0\"}";
}

void Writer::slice_name(std::string& out, const TimelineSpan& x) const {
  switch (x.kind) {
    case Kind::send:
    case Kind::recv: out += x.gradient ? "ncclDevKernel_SendRecv gradient" : "ncclDevKernel_SendRecv activation"; break;
    case Kind::grad_reduce:
      out += x.collective == CollectiveKind::reduce_scatter ? "ncclDevKernel_ReduceScatter gradients"
                                                            : "ncclDevKernel_AllReduce gradients";
      break;
    case Kind::param_gather: out += "ncclDevKernel_AllGather parameters"; break;
    case Kind::tied_reduce: out += "ncclDevKernel_AllReduce tied embedding"; return;
    case Kind::optimizer: out += "optimizer"; return;
    default: out += letter(x.kind);
  }
  out += " c";
  put(out, x.chunk);
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

void Writer::compute_arguments(std::string& out, const TimelineSpan& x) const {
  if (x.kind == Kind::optimizer) return;
  out += ",\"layers\":\"";
  put(out, x.first_layer);
  out += '-';
  put(out, x.last_layer);
  out += '"';
}

void Writer::transfer_arguments(std::string& out, const TimelineRank& rank, const TimelineSpan& x) const {
  field(out, "Collective name", to_string(x.kind));
  field(out, "Group size", x.group_size);
  field(out, "Process Group Name", "pp");
  out += ",\"Process Group Ranks\":\"[";
  put(out, std::min(rank.device, x.peer));
  out += ", ";
  put(out, std::max(rank.device, x.peer));
  out += "]\"";
  field(out, x.kind == Kind::send ? "Dst Rank" : "Src Rank", x.peer);
}

/// Returns the name that torch.distributed uses.
std::string_view torch_name(CollectiveKind kind) {
  if (kind == CollectiveKind::all_gather) return "_allgather_base";
  return kind == CollectiveKind::reduce_scatter ? "_reduce_scatter_base" : "allreduce";
}

void Writer::collective_arguments(std::string& out, const TimelineSpan& x) const {
  field(out, "Collective name", torch_name(x.collective));
  field(out, "Group size", x.group_size);
  field(out, "Process Group Name", x.kind == Kind::tied_reduce ? "embedding" : "dp");
}

void Writer::slice(std::string& out, const TimelineRank& rank, const TimelineSpan& x) const {
  begin_event(out, "X", rank, track(x.stream));
  field_us(out, "ts", x.start_ns);
  field_us(out, "dur", x.end_ns - x.start_ns);
  out += ",\"cat\":\"kernel\",\"name\":\"";
  slice_name(out, x);
  out += "\",\"args\":{\"device\":";
  put(out, rank.device);
  field(out, "stream", track(x.stream));
  field(out, "correlation", x.instruction);
  field(out, "stage", rank.stage);
  field(out, "chunk", x.chunk);
  if (x.microbatch >= 0) field(out, "microbatch", x.microbatch);
  if (x.stream == Stream::compute) compute_arguments(out, x);
  if (x.stream == Stream::data) collective_arguments(out, x);
  if (x.stream == Stream::send || x.stream == Stream::recv) transfer_arguments(out, rank, x);
  out += "}}";
}

void Writer::flow(std::string& out, const TimelineRank& rank, const TimelineSpan& x) const {
  const bool starts = x.kind == Kind::send;
  begin_event(out, starts ? "s" : "f", rank, track(x.stream));
  field_us(out, "ts", x.start_ns + (x.end_ns - x.start_ns) / 2);
  field(out, "id", lane_.first_arrow + (starts ? x.instruction : x.match));
  if (!starts) field(out, "bp", "e");
  field(out, "cat", "p2p");
  field(out, "name", x.gradient ? "gradient" : "activation");
  out += '}';
}

void Writer::memory(std::string& out, const TimelineRank& rank, const MemorySample& sample) const {
  begin_event(out, "C", rank, 0);
  field_us(out, "ts", sample.at_ns);
  out += ",\"name\":\"memory (bytes)\",\"args\":{\"static\":";
  put(out, rank.static_bytes);
  field(out, "activations", sample.activation_bytes);
  out += "}}";
}

void Writer::span(std::string& out, const TimelineRank& rank, const TimelineSpan& x, std::size_t& sample) const {
  slice(out, rank, x);
  if (x.kind == Kind::send || x.kind == Kind::recv) flow(out, rank, x);
  while (sample < rank.memory.size() && rank.memory[sample].instruction == x.instruction)
    memory(out, rank, rank.memory[sample++]);
}

void Writer::left_out(std::string& out, std::int32_t microbatches) const {
  begin_event(out, "i", timeline_.ranks.front(), 0);
  field_us(out, "ts", 0);
  field(out, "s", "g");
  field(out, "name",
        "micro-batches " + std::to_string(microbatches) + " to " + std::to_string(timeline_.microbatches - 1) +
            " are left out: the trace would be too large");
  out += '}';
}

void Writer::step(std::string& out, const TimelineRank& rank, const TimelineStep& x) const {
  begin_event(out, "X", rank, kFirstStepTrack + x.track);
  field_us(out, "ts", x.start_ns);
  field_us(out, "dur", x.end_ns - x.start_ns);
  field(out, "cat", "step");
  field(out, "name", x.times > 0 ? x.name + " " + std::string(to_string(x.collective)) : x.name);
  out += ",\"args\":{\"layer\":";
  put(out, x.layer);
  field(out, "chunk", x.chunk);
  field(out, "microbatch", x.microbatch);
  field(out, "part", x.part);
  if (x.times > 0) {
    field(out, "collective", to_string(x.collective));
    field(out, "group", x.group);
    field(out, "bytes", x.bytes);
    field(out, "times", x.times);
    if (!x.beside.empty()) field(out, "beside", x.beside);
  }
  out += "}}";
}

void Writer::steps(std::string& out, const TimelineRank& rank) const {
  constexpr std::string_view kNames[] = {"steps", "traffic", "ZeRO"};
  if (rank.steps.empty()) return;
  for (std::int64_t i = 0; i < 3; ++i)
    name_track(out, rank, kFirstStepTrack + i, "thread_name", kNames[static_cast<std::size_t>(i)]);
  for (const TimelineStep& x : rank.steps) step(out, rank, x);
}

/// Returns the bytes by micro-batch: index 0 holds the constant part, 1 + j the events of micro-batch j.
std::vector<std::size_t> sizes(const Writer& writer, const Timeline& timeline, const std::vector<const TimelineRank*>& ranks) {
  std::vector<std::size_t> bytes(1 + static_cast<std::size_t>(timeline.microbatches), 0);
  std::string text;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    text = "[";
    writer.names(text, *ranks[r], r);
    bytes[0] += text.size() + 1;
    std::size_t sample = 0;
    for (const TimelineSpan& span : ranks[r]->spans) {
      text = "[";
      writer.span(text, *ranks[r], span, sample);
      const std::int64_t microbatch = span.microbatch;  // −1 if it has none
      ESPALIER_CHECK(microbatch < timeline.microbatches);
      bytes[static_cast<std::size_t>(microbatch + 1)] += text.size() + 1;
    }
  }
  return bytes;
}

/// Returns how many micro-batches fit.
std::int32_t shown_microbatches(const std::vector<std::size_t>& bytes, std::size_t limit) {
  constexpr std::size_t kFrame = 4096;  // head, tail, the note
  std::size_t total = kFrame + bytes[0];
  std::size_t fit = 0;
  while (fit + 1 < bytes.size() && total + bytes[fit + 1] <= limit) total += bytes[++fit];
  return static_cast<std::int32_t>(fit);
}

/// Writes all events of a timeline. Returns how many micro-batches are shown.
std::int32_t write_events(std::string& out, const Writer& writer, const Timeline& timeline, const TraceOptions& options) {
  const std::vector<const TimelineRank*> ranks = writer.shown();
  const std::vector<std::size_t> bytes = sizes(writer, timeline, ranks);
  const std::int32_t microbatches = shown_microbatches(bytes, options.max_bytes);
  std::string skipped;
  out.reserve(out.size() + std::min(options.max_bytes, std::accumulate(bytes.begin(), bytes.end(), std::size_t{8192})));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    writer.names(out, *ranks[r], r);
    std::size_t sample = 0;
    for (const TimelineSpan& span : ranks[r]->spans) {
      const bool show = span.microbatch < microbatches;
      if (!show) skipped = "[";
      writer.span(show ? out : skipped, *ranks[r], span, sample);
    }
  }
  if (microbatches < timeline.microbatches) writer.left_out(out, microbatches);
  return microbatches;
}

}  // namespace

std::string to_trace(const Timeline& timeline, const TraceOptions& options) {
  const Writer writer(timeline, {});
  std::string out;
  writer.head(out);
  const std::int32_t microbatches = write_events(out, writer, timeline, options);
  for (const TimelineRank& rank : timeline.ranks) writer.steps(out, rank);
  out += "\n],\"espalier\":{\"plan\":";
  put_quoted(out, timeline.label);
  field(out, "iteration_ns", timeline.iteration_ns);
  field(out, "microbatches", timeline.microbatches);
  field(out, "microbatches_shown", microbatches);
  out += "}}\n";
  return out;
}

std::string to_trace(const Timeline& predicted, const Timeline& measured, const TraceOptions& options) {
  std::int64_t arrows = 0;
  for (const TimelineRank& rank : predicted.ranks)
    for (const TimelineSpan& span : rank.spans) arrows = std::max<std::int64_t>(arrows, span.instruction + 1);
  const Writer first(predicted, {0, 2, "predicted", 0}), second(measured, {1, 2, "measured", arrows});
  std::string out;
  first.head(out);
  const std::int32_t microbatches = write_events(out, first, predicted, options);
  write_events(out, second, measured, options);
  out += "\n],\"espalier\":{\"plan\":";
  put_quoted(out, predicted.label);
  field(out, "iteration_ns", predicted.iteration_ns);
  field(out, "measured_ns", measured.iteration_ns);
  field(out, "microbatches", predicted.microbatches);
  field(out, "microbatches_shown", microbatches);
  out += "}}\n";
  return out;
}

}  // namespace espalier
