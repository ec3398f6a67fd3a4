// SPDX-License-Identifier: Apache-2.0
// The timeline of one simulated step: what each class of equal ranks does when, and how its memory fills.
//
// Times are integer nanoseconds from the start of the step; bytes are those of one rank. A timeline is
// a plain value: it can be compared, summed and drawn without the program that it came from. to_trace()
// writes it for trace viewers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/instruction.h"

namespace espalier {

/// Describes one instruction as it ran.
struct TimelineSpan {
  std::int32_t instruction = 0;  ///< number in the program; unique in the timeline
  InstructionKind kind = InstructionKind::forward;
  Stream stream = Stream::compute;
  std::int32_t chunk = 0;        ///< position of its layers along the pipeline, 0 … p·v−1
  std::int32_t microbatch = -1;  ///< −1 for a span of several micro-batches, or of none
  std::int32_t bucket = 0;       ///< which part of its chunk, in order of execution
  std::int32_t buckets = 1;      ///< number of parts that the chunk is cut into here
  /// Holds the layers of the chunk of a compute span; −1 for the optimizer and for communication.
  std::int32_t first_layer = -1, last_layer = -1;
  bool gradient = false;                                       ///< send or recv: carries an activation's gradient
  CollectiveKind collective = CollectiveKind::point_to_point;  ///< collective: what it does
  std::int64_t group_size = 0;                                 ///< collective: ranks that take part; send or recv: 2
  std::int64_t bytes = 0;   ///< send or recv: the message; collective: the tensors of its messages; compute: 0
  std::int64_t peer = -1;   ///< send or recv: the first device of the other rank class
  std::int32_t match = -1;  ///< send or recv: `instruction` of the other end
  std::int64_t start_ns = 0, end_ns = 0;
  bool operator==(const TimelineSpan&) const = default;
};

/// Holds the tensors of a rank from `at_ns` on, in addition to TimelineRank::static_bytes,
/// without the allocator reserve.
struct MemorySample {
  std::int32_t instruction = 0;  ///< the compute span that changes it, at its start or at its end
  std::int64_t at_ns = 0;
  std::int64_t activation_bytes = 0;  ///< saved activations and transient tensors
  bool operator==(const MemorySample&) const = default;
};

/// Describes what runs inside a compute instruction: an operator of a layer, or one of its collectives
/// (TimelineDetail::steps). Steps of one track do not overlap. They fill the time that the instruction would take
/// alone, and are stretched evenly if it took longer.
struct TimelineStep {
  /// Selects the track. 0 holds operators and waiting, 1 their collectives and those between
  /// layers, and 2 ZeRO of whole layers.
  std::int32_t track = 0;
  std::int32_t layer = -1;  ///< layer of the model; −1: the chunk as a whole
  std::int32_t chunk = 0, microbatch = 0;
  /// Names the operator; otherwise "waiting", "redistribution", "parameters", "gradients", "copies" or "pass".
  std::string name;
  std::string_view part;   ///< "forward", "input_gradient", "weight_gradient", "recomputation"
  std::int32_t times = 0;  ///< messages, one after another; 0: it moves nothing, and the next three fields are unset
  CollectiveKind collective = CollectiveKind::all_reduce;
  std::string_view group;  ///< "tensor", "context", "expert", …: the ranks that take part
  std::int64_t bytes = 0;  ///< bytes of one message
  std::string beside;      ///< operators, or "layer", whose compute the traffic overlaps; empty: none
  std::int64_t start_ns = 0, end_ns = 0;
  bool operator==(const TimelineStep&) const = default;
};

/// Describes devices with equal timelines, stored once.
struct TimelineRank {
  std::int64_t device = 0;           ///< the first of these devices
  std::int64_t represents = 1;       ///< number of these devices
  std::int32_t pipeline = 0;         ///< position in the plan
  std::int32_t stage = 0;            ///< stage of that pipeline
  std::int64_t static_bytes = 0;     ///< parameters, gradients, optimizer states, buffers: held throughout
  std::vector<TimelineSpan> spans;   ///< in issue order; spans of one stream do not overlap
  std::vector<MemorySample> memory;  ///< in chronological order
  /// Lists the steps, if requested, for the first rank of each stage. If that is too many, only its
  /// first micro-batch is included.
  std::vector<TimelineStep> steps = {};
  bool operator==(const TimelineRank&) const = default;
};

/// Holds the timeline of one step.
struct Timeline {
  std::string label;              ///< label of the plan
  std::int64_t iteration_ns = 0;  ///< exactly Prediction::iteration_ns
  std::int32_t microbatches = 1;
  std::vector<TimelineRank> ranks;  ///< one class per stage, in the order of the pipeline
  /// Returns the number of devices of all classes together.
  [[nodiscard]] std::int64_t devices() const;
  bool operator==(const Timeline&) const = default;
};

/// Holds the options of to_trace().
struct TraceOptions {
  /// Limits the bytes of the text. Above the limit, the last micro-batches are left out, and an
  /// event of the trace notes it.
  std::size_t max_bytes = 200u << 20;
};
/// Returns Chrome trace-event JSON, readable by Perfetto, chrome://tracing and Kineto tools (docs/simulation.md). It
/// has a process for the first rank of each stage, a track for each stream, arrows from send to recv, and a counter
/// of memory. Equal timelines give equal bytes.
std::string to_trace(const Timeline& timeline, const TraceOptions& options = {});
/// Returns both timelines in one trace: for every rank, a process "predicted" and below it a process "measured". The
/// options apply to each of the two.
std::string to_trace(const Timeline& predicted, const Timeline& measured, const TraceOptions& options = {});

}  // namespace espalier
