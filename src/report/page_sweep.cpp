// SPDX-License-Identifier: Apache-2.0
#include "report/page_sweep.h"

#include <algorithm>

#include "base/format.h"
#include "base/invariant.h"
#include "plan/listed_devices.h"

namespace espalier::report {
namespace {

/// Returns the throughput of all devices of the plan, in tokens per second (for vision models, samples).
double throughput(const PlannerResult& result) {
  return result.prediction.tokens_per_s_per_device * static_cast<double>(device_count(result.plan));
}

std::string interval_cell(const Prediction& p) {
  const auto text = [](double seconds) { return base::seconds(static_cast<std::int64_t>(seconds * 1e9)); };
  return p.confidence.high_s > 0 ? cat(text(p.confidence.low_s), " – ", text(p.confidence.high_s)) : "–";
}

std::string cost_of(const Prediction& p) {
  if (!p.cost) return "–";
  return p.cost->whole_run > 0 ? cat(base::fixed(p.cost->whole_run, 0), " ", p.cost->currency)
                               : cat(base::fixed(p.cost->per_step, 4), " ", p.cost->currency, " per step");
}

std::vector<Cell> row_of(const SweepPoint& point, double highest, bool shown) {
  const std::string name = base::joined(point.values);
  if (!point.result) return {name, "–", "–", "–", "–", "–", "–", point.result.error().message()};
  const Prediction& p = point.result->prediction;
  const double all = throughput(*point.result);
  return {cat(name, shown ? " (this page)" : ""),
          base::seconds(p.iteration_ns),
          interval_cell(p),
          Cell(base::count(all), highest > 0 ? all / highest : 0),
          base::percent(p.mfu),
          base::gib(p.peak_memory_bytes),
          cost_of(p),
          point.result->plan.label()};
}

}  // namespace

PageTable sweep_table(const Sweep& sweep, std::size_t shown) {
  ESPALIER_CHECK(shown < sweep.points.size());
  std::vector<std::string> paths;
  for (const SweepAxis& axis : sweep.axes) paths.push_back(axis.path);
  PageTable out{"sweep",
                "Sweep",
                cat("The best plan for each value of ", base::joined(paths),
                    "; bars show the throughput of all devices relative to the highest."),
                {base::joined(paths), "step", "interval", "tokens/s, all devices", "MFU", "fullest rank", "cost", "plan"},
                {7},
                {}};
  double highest = 0;
  for (const SweepPoint& point : sweep.points)
    if (point.result) highest = std::max(highest, throughput(*point.result));
  for (std::size_t i = 0; i < sweep.points.size(); ++i) out.rows.push_back(row_of(sweep.points[i], highest, i == shown));
  return out;
}

}  // namespace espalier::report
