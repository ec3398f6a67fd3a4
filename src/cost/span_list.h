// SPDX-License-Identifier: Apache-2.0
// The spans of one pass, laid one after the other; what is added adds to the pass's time as well. Internal to cost/
// (chunk_steps.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/chunk_steps.h"
#include "cost/redistribution.h"

namespace espalier::cost {

/// ZeRO's traffic of one layer in one phase, and what it adds to the phase.
struct ZeroSpans {
  std::vector<ZeroSteps::Timed> steps;
  PhaseTime time;
  std::int64_t before_ns = 0, after_ns = 0;  ///< of time.exposed_ns: traffic alone, before and after the layer
};

class SpanList {
 public:
  /// The steps of a phase of one layer; `again`: as part of a recomputation.
  void add_phase(std::int32_t layer, const PhaseSteps& phase, bool again);
  /// Around the phases of a layer.
  void begin_zero(std::int32_t layer, const ZeroSpans& zero);
  void end_zero(std::int32_t layer, const ZeroSpans& zero);
  /// Of `zero` the traffic of `part`, alone.
  void add_edge(std::int32_t layer, const char* name, std::int64_t length_ns, StepPart part, const ZeroSpans& zero);
  void add_move(std::int32_t layer, const RangeMove::Way& move, StepPart part);
  /// Between device and host: the part beside the layer that was added last is hidden, the other one is waited for.
  void add_copies(std::int32_t layer, const PhaseTime& copies);
  /// What is neither compute nor traffic.
  void add_wait(std::int32_t layer, const char* name, std::int64_t length_ns);
  ChunkSteps finish();

 private:
  void add_steps(std::int32_t layer, const PhaseSteps& phase, bool again);
  void put(ChunkSpan span);
  /// Traffic one after the other over `length_ns`, in proportion to the seconds of each.
  void put_zero(std::int32_t layer, const char* name, Placement placement, std::int64_t start_ns, std::int64_t length_ns,
                const std::vector<ZeroSteps::Timed>& steps);

  ChunkSteps out_;
  std::int64_t now_ = 0, zero_start_ = 0;
};

}  // namespace espalier::cost
