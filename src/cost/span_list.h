// SPDX-License-Identifier: Apache-2.0
// The spans of one pass, laid one after the other. Each span also adds to the pass's time. Internal to cost/
// (chunk_steps.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/chunk_steps.h"
#include "cost/redistribution.h"

namespace espalier::cost {

/// Holds ZeRO's traffic of one layer in one phase, and the time that it adds to the phase.
struct ZeroSpans {
  std::vector<ZeroSteps::Timed> steps;
  PhaseTime time;
  std::int64_t before_ns = 0, after_ns = 0;  ///< parts of time.exposed_ns: traffic alone, before and after the layer
};

class SpanList {
 public:
  /// Adds the steps of a phase of one layer; `again` marks a recomputation.
  void add_phase(std::int32_t layer, const PhaseSteps& phase, bool again);
  /// Begin and end the ZeRO traffic around the phases of a layer.
  void begin_zero(std::int32_t layer, const ZeroSpans& zero);
  void end_zero(std::int32_t layer, const ZeroSpans& zero);
  /// Adds the traffic of `part` in `zero`, without overlap.
  void add_edge(std::int32_t layer, const char* name, std::int64_t length_ns, StepPart part, const ZeroSpans& zero);
  void add_move(std::int32_t layer, const RangeMove::Way& move, StepPart part);
  /// Adds copies between device and host. The part under the layer that was added last is hidden, the rest is waited
  /// for.
  void add_copies(std::int32_t layer, const PhaseTime& copies);
  /// Adds time that is neither compute nor traffic.
  void add_wait(std::int32_t layer, const char* name, std::int64_t length_ns);
  ChunkSteps finish();

 private:
  void add_steps(std::int32_t layer, const PhaseSteps& phase, bool again);
  void put(ChunkSpan span);
  /// Places traffic one after the other over `length_ns`, in proportion to the seconds of each.
  void put_zero(std::int32_t layer, const char* name, Placement placement, std::int64_t start_ns, std::int64_t length_ns,
                const std::vector<ZeroSteps::Timed>& steps);

  ChunkSteps out_;
  std::int64_t now_ = 0, zero_start_ = 0;
};

}  // namespace espalier::cost
