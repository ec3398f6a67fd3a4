// SPDX-License-Identifier: Apache-2.0
// Writes a plan and its prediction as words of an answer line. It reads only the public API, so that these texts
// outlive the implementation.
#pragma once

#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/planner.h"

namespace espalier::golden {

inline std::string joined(const std::vector<std::int64_t>& values) {
  std::string out;
  for (const std::int64_t v : values) out += (out.empty() ? "" : ",") + std::to_string(v);
  return out;
}

/// Returns everything in the plan document about schedule, stages, devices and strategies. Its hash is in the answer
/// lines. Whoever changes the representation of plans must produce this text from the new form.
inline std::string plan_text(const Plan& plan) {
  std::string out = plan.canonical_text();
  for (const Stage& stage : plan.only_pipeline().stages) {
    out += "\nstage 1.000000";
    for (const DeviceRange& d : stage.devices)
      out += " d" + std::to_string(d.first) + "+" + std::to_string(d.count) + "*" + std::to_string(d.stride);
    for (const Chunk& chunk : stage.chunks) {
      out += " chunk";
      for (const LayerRange& range : chunk.ranges) out += " " + std::to_string(range.first) + "-" + std::to_string(range.last);
    }
  }
  return out;
}

/// Returns a label for the reader, followed by the hash that decides.
inline std::string plan_words(const Plan& plan) { return plan.label() + " plan=" + base::content_hash(plan_text(plan)); }

/// Returns time, its five parts, host time and hidden communication in nanoseconds. Adds the peak of each stage
/// (above eight stages, a hash of them) and the parts of the fullest in bytes.
inline std::string prediction_words(const Prediction& p) {
  const Breakdown& b = p.breakdown;
  const MemoryBreakdown& m = p.memory;
  const std::vector<std::int64_t>& peaks = p.peak_memory_bytes_per_stage;
  std::string out = "ns=" + std::to_string(p.iteration_ns);
  out += " parts=" + joined({b.compute_ns, b.exposed_communication_ns, b.bubble_ns, b.optimizer_ns, b.other_ns});
  out += " host=" + std::to_string(b.step_host_ns) + " hidden=" + std::to_string(p.hidden_communication_ns);
  out += " last=" + std::to_string(p.last_stage) + " busy=" + std::to_string(p.bottleneck.stage);
  out += " peaks=" + (peaks.size() > 8 ? std::to_string(peaks.size()) + ":" + base::content_hash(joined(peaks)) : joined(peaks));
  return out + " memory=" + joined({m.parameters, m.gradients, m.optimizer, m.activations, m.communication_buffers, m.framework});
}

}  // namespace espalier::golden
