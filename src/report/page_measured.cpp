// SPDX-License-Identifier: Apache-2.0
// Compares a measured step with the predicted one, rank by rank.
#include "base/format.h"
#include "planner/time_parts.h"
#include "report/page_parts.h"

namespace espalier::report {

PageTable measured_table(const StepComparison& c) {
  PageTable t{"measured", "Predicted and measured", "", {"rank", "stage", "part", "predicted", "measured", "difference"}, {2},
              {}};
  const double gap = c.predicted_ns > 0 ? static_cast<double>(c.measured_ns) / static_cast<double>(c.predicted_ns) - 1 : 0;
  t.note = cat("step ", base::seconds(c.predicted_ns), " predicted, ", base::seconds(c.measured_ns), " measured (",
               gap >= 0 ? "+" : "", base::percent(gap), "); step ", c.step, " of ", c.steps, ", clocks agree to ",
               base::seconds(c.clock_error_ns));
  for (const RankComparison& rank : c.ranks) {
    const auto predicted = planner::time_parts(rank.predicted), measured = planner::time_parts(rank.measured);
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      const std::int64_t difference = measured[i].ns - predicted[i].ns;
      const double share = c.predicted_ns > 0 ? static_cast<double>(difference) / static_cast<double>(c.predicted_ns) : 0;
      t.rows.push_back({cat(rank.device),
                        cat(rank.stage),
                        predicted[i].name,
                        base::seconds(predicted[i].ns),
                        base::seconds(measured[i].ns),
                        {cat(difference < 0 ? "-" : "+", base::seconds(difference < 0 ? -difference : difference)), share}});
    }
  }
  return t;
}

}  // namespace espalier::report
