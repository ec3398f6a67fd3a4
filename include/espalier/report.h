// SPDX-License-Identifier: Apache-2.0
// A plan as one HTML file that opens anywhere and loads nothing: figures, timeline, memory, what was searched, layers,
// cluster, what-if, and where each number comes from.
//
//   auto data = report_data(*job, *result, nullptr, {});     // schema espalier.report/1
//   write_file("report.html", report_page(*data, result->brief(100)));
//
// Everything is computed here; the page only formats, draws and filters. The result stands in the data as result.json
// has it, and each figure names its place there. Equal inputs give equal bytes. docs/report.md describes the page.
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

namespace espalier {

struct ReportOptions {
  /// Of the data. Above it the timeline shows fewer of the first micro-batches, and says so.
  std::size_t most_bytes = 850'000;
  /// A sweep that the result is a point of, shown as a table with bars; null: none. Lives as long as the call.
  const Sweep* sweep = nullptr;
  std::size_t sweep_point = 0;  ///< which of its points the result is
};

/// The data of the page. `job` must be the plan's own (job_of_plan), under the network of the result's prediction. What
/// was searched is PlannerResult::searched. `measured`, if given, is laid over the timeline: bad_input where it is of
/// another plan. The plan is simulated again for its timeline, for the traffic on each link (up to kMostFlowDevices
/// devices) and for each what-if.
Result<std::string> report_data(const Job& job, const PlannerResult& result, const MeasuredStep* measured,
                                const ReportOptions& options);

/// The page with the data in it. `text` is what who runs no scripts reads.
std::string report_page(std::string_view data, std::string_view text);

}  // namespace espalier
