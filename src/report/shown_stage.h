// SPDX-License-Identifier: Apache-2.0
// Chooses the stage whose parts of an iteration are shown: in a pipeline the busiest, which the others wait for. The
// terminal answer, the page and `compare` all show the same one and name it.
#pragma once

#include <string>
#include <string_view>

#include "base/format.h"
#include "espalier/planner.h"

namespace espalier::report {

inline bool is_pipeline(const Prediction& p) { return p.bottleneck.busy_per_stage.size() > 1; }
inline const Breakdown& shown_parts(const Prediction& p) { return is_pipeline(p) ? p.bottleneck.breakdown : p.breakdown; }
/// Returns "stage 3, the busiest"; empty where there is one stage.
inline std::string shown_stage(const Prediction& p) {
  return is_pipeline(p) ? base::cat("stage ", p.bottleneck.stage, ", the busiest") : std::string();
}

/// Returns "43.0 % (40.7 % with causal attention counted half)"; the first figure counts it in full. `half` names the
/// convention of the second.
inline std::string mfu_text(const Prediction& p, std::string_view half = "with causal attention counted half") {
  if (p.mfu_causal <= 0 || p.mfu_causal > 0.9999 * p.mfu) return base::percent(p.mfu);
  return base::cat(base::percent(p.mfu), " (", base::percent(p.mfu_causal), " ", half, ")");
}

}  // namespace espalier::report
