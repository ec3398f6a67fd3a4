// SPDX-License-Identifier: Apache-2.0
// The timeline of one simulated iteration: what each class of equal ranks does when, and how its memory fills.
//
// Times are integer nanoseconds from the start of the iteration; bytes are those of one rank. A timeline is a plain
// value: it can be compared, summed and drawn without the program that it came from. The text for trace viewers is
// written from it by to_trace().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/instruction.h"

namespace espalier {

/// One instruction as it ran.
struct TimelineSpan {
  std::int32_t instruction = 0;  ///< its number in the program; unique in the timeline
  InstructionKind kind = InstructionKind::forward;
  Stream stream = Stream::compute;
  std::int32_t chunk = 0;        ///< position along the pipeline, 0 … p·v−1, of the layers that it concerns
  std::int32_t microbatch = -1;  ///< −1: it belongs to no single micro-batch
  std::int32_t bucket = 0;       ///< which part of its chunk, in order of execution
  std::int32_t buckets = 1;      ///< into how many parts the chunk is cut here
  /// Of a compute span the layers of its chunk; −1 for the optimizer and for communication.
  std::int32_t first_layer = -1, last_layer = -1;
  bool gradient = false;                                       ///< of a send or recv: it carries the gradient of an
                                                               ///< activation
  CollectiveKind collective = CollectiveKind::point_to_point;  ///< of a collective: what it does
  std::int64_t group_size = 0;                                 ///< of a collective: ranks that meet; of a send or recv
                                                               ///< 2
  std::int64_t bytes = 0;   ///< a send or recv: the message; a collective: the tensors of its messages; compute: 0
  std::int64_t peer = -1;   ///< of a send or recv: the first device of the other rank class
  std::int32_t match = -1;  ///< of a send or recv: `instruction` of the other end
  std::int64_t start_ns = 0, end_ns = 0;
  bool operator==(const TimelineSpan&) const = default;
};

/// Tensors that a rank holds from `at_ns` on, beside TimelineRank::static_bytes; without the allocator reserve.
struct MemorySample {
  std::int32_t instruction = 0;  ///< the compute span that changes it, at its start or at its end
  std::int64_t at_ns = 0;
  std::int64_t activation_bytes = 0;  ///< saved activations and what is needed for the moment
  bool operator==(const MemorySample&) const = default;
};

/// What runs inside a compute instruction: an operator of a layer, or one of its collectives (TimelineDetail::steps).
/// Steps of one track do not overlap. They lie in the time that the instruction takes alone, stretched evenly where it
/// took longer.
struct TimelineStep {
  std::int32_t track =
      0;  ///< 0: operators, and waiting; 1: their collectives, and those between layers; 2: ZeRO, of whole layers
  std::int32_t layer = -1;  ///< of the model; −1: of the chunk as a whole
  std::int32_t chunk = 0, microbatch = 0;
  std::string name;        ///< of the operator; else "waiting", "redistribution", "parameters", "gradients", "copies",
                           ///< "pass"
  std::string_view part;   ///< "forward", "input_gradient", "weight_gradient", "recomputation"
  std::int32_t times = 0;  ///< messages, one after the other; 0: it moves nothing, and the three below say nothing
  CollectiveKind collective = CollectiveKind::all_reduce;
  std::string_view group;  ///< "tensor", "context", "expert", …: who takes part
  std::int64_t bytes = 0;  ///< of one message
  std::string beside;      ///< operators, or "layer", whose compute the traffic runs beside; empty: alone
  std::int64_t start_ns = 0, end_ns = 0;
  bool operator==(const TimelineStep&) const = default;
};

/// Devices that do the same at the same time, written once.
struct TimelineRank {
  std::int64_t device = 0;           ///< the first of them
  std::int64_t represents = 1;       ///< how many they are
  std::int32_t pipeline = 0;         ///< position in the plan
  std::int32_t stage = 0;            ///< of that pipeline
  std::int64_t static_bytes = 0;     ///< parameters, gradients, optimizer states, buffers: held throughout
  std::vector<TimelineSpan> spans;   ///< in the order of issue; those of one stream follow each other in time
  std::vector<MemorySample> memory;  ///< in the order of time
  /// Where they were asked for, of the first rank of each stage; of its first micro-batch alone, where all would be too
  /// many.
  std::vector<TimelineStep> steps = {};
  bool operator==(const TimelineRank&) const = default;
};

struct Timeline {
  std::string label;              ///< of the plan
  std::int64_t iteration_ns = 0;  ///< the same nanosecond as Prediction::iteration_ns
  std::int32_t microbatches = 1;
  std::vector<TimelineRank> ranks;  ///< one class a stage, in the order of the pipeline
  /// Devices of all classes together.
  [[nodiscard]] std::int64_t devices() const;
  bool operator==(const Timeline&) const = default;
};

struct TraceOptions {
  /// Of the text. Above it the last micro-batches are left out, and an event of the trace says so.
  std::size_t max_bytes = 200u << 20;
};
/// Chrome trace-event JSON, readable by Perfetto, chrome://tracing and Kineto tools (docs/simulation.md): a process for
/// the first rank of each stage, a track for each stream, arrows from send to recv, a counter of memory. Equal
/// timelines give equal bytes.
std::string to_trace(const Timeline& timeline, const TraceOptions& options = {});
/// Both in one trace: of every rank a process "predicted", and below it a process "measured". The options hold for
/// each.
std::string to_trace(const Timeline& predicted, const Timeline& measured, const TraceOptions& options = {});

}  // namespace espalier
