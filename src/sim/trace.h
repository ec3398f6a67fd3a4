// SPDX-License-Identifier: Apache-2.0
// Chrome trace-event JSON of a simulated iteration, readable by Perfetto, chrome://tracing and Kineto tools (HTA, TensorBoard).
//
// pid = rank, tid = stream (each track nests), flow arrows from send to recv, a memory counter, distributedInfo. Times in
// microseconds with three decimals. Above `max_bytes` the last micro-batches are left out and a metadata event says so.
#pragma once

#include <string>
#include <vector>

#include "cost/costs.h"
#include "espalier/plan.h"
#include "espalier/result.h"
#include "espalier/simulate.h"
#include "plan/program.h"

namespace espalier::sim {

struct TraceOptions {
  std::size_t max_bytes = 200u << 20;
  std::string more_events = {};  ///< put after the events of the program, each behind a comma (step_track.h)
};
/// `simulation` must have spans.
std::string write_trace(const Plan& plan, const Program& program, const cost::Costs& costs, const Simulation& simulation,
                        const TraceOptions& options = {});
/// gzip with a fixed header (mtime 0), so that equal input gives equal bytes.
std::string gzip(const std::string& text);

}  // namespace espalier::sim
