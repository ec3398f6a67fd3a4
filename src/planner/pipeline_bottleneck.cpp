// SPDX-License-Identifier: Apache-2.0
#include "planner/pipeline_bottleneck.h"

#include <algorithm>

#include "base/format.h"

namespace espalier::planner {
namespace {

constexpr double kAlike = 0.05;   // stages whose busy shares differ by less count as alike
constexpr double kNamed = 0.005;  // parts below this share of the step are omitted

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

/// Lists the work of the stage while it is busy, largest first.
std::string busy_parts(const Prediction& p, HostWork host) {
  std::string out;
  for (const TimePart& part : parts_by_size(p.bottleneck.breakdown, host)) {
    if (part.kind == TimeKind::bubble || share(part.ns, p.iteration_ns) < kNamed) continue;
    out += cat(out.empty() ? "" : ", ", named_share(part, p.iteration_ns));
  }
  return out;
}

}  // namespace

std::string named_share(const TimePart& part, std::int64_t iteration_ns) {
  return cat(part.name, " (", percent(share(part.ns, iteration_ns)), ")");
}

std::string pipeline_bottleneck(const Prediction& p, HostWork host) {
  const Bottleneck& b = p.bottleneck;
  const std::string stage = cat("stage ", std::to_string(b.stage));
  const TimePart largest = parts_by_size(b.breakdown, host).front();
  std::string out = largest.kind == TimeKind::bubble
                        ? cat("The step is bound by ", named_share(largest, p.iteration_ns), ": even ", stage,
                              ", the busiest, works for only ", percent(b.busy), " of it: ", busy_parts(p, host))
                        : cat("The step is bound by ", stage, ", busy ", percent(b.busy), " of it: ", busy_parts(p, host));
  const auto alike =
      std::count_if(b.busy_per_stage.begin(), b.busy_per_stage.end(), [&](double busy) { return busy >= b.busy - kAlike; });
  out += cat("; ", std::to_string(alike), " of ", std::to_string(b.busy_per_stage.size()),
             alike == 1 ? " stages is busy within 5 % of that" : " stages are busy within 5 % of that");
  if (p.hidden_communication_ns > 0)
    out += cat("; ", base::seconds(p.hidden_communication_ns), " of communication is hidden under compute");
  return out + ".";
}

}  // namespace espalier::planner
