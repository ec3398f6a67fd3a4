// SPDX-License-Identifier: Apache-2.0
// Writes a plan as one self-contained HTML file: figures, timeline, memory, search, layers, cluster, what-if, and the
// source of each number.
//
//   auto data = report::page_data(*job, *result, nullptr, {});   // schema espalier.report/1
//   report::write_file("report.html", report::page(*data, result->brief(100)));   // one file.
//
// Everything is computed here; the page only formats, draws and filters. The data contains the result as in
// result.json, and each figure names its place there. Equal inputs give equal bytes. docs/report.md describes the page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "espalier/job.h"
#include "espalier/measured_step.h"
#include "espalier/planner.h"
#include "espalier/result.h"
#include "espalier/sweep.h"

namespace espalier::report {

/// Holds the options of page_data().
struct PageOptions {
  /// Limits the bytes of the data. Above the limit, the timeline shows fewer of the first micro-batches, with a note.
  std::size_t most_bytes = 850'000;
  /// Points to a sweep that contains the result and is shown as a table with bars; null: none. It must outlive the
  /// call.
  const Sweep* sweep = nullptr;
  std::size_t sweep_point = 0;  ///< index of the result among its points
};

/// Returns the data of the page. `job` must be the plan's own (job_of_plan), under the network of the result's
/// prediction. PlannerResult::searched supplies the searched plans. `measured`, if given, is overlaid on the
/// timeline; it is bad_input if it belongs to another plan. The plan is simulated again for its timeline, for the
/// traffic on each link (up to kMostFlowDevices devices) and for each what-if.
Result<std::string> page_data(const Job& job, const PlannerResult& result, const MeasuredStep* measured,
                              const PageOptions& options);

/// Returns the page with the data in it. Browsers that run no scripts show `text`.
std::string page(std::string_view data, std::string_view text);

}  // namespace espalier::report
