// SPDX-License-Identifier: Apache-2.0
#include "lab/interval_fit.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace espalier::lab {
namespace {

using Weighted = std::vector<std::pair<double, double>>;

/// Weights of the rows as runs, no family above most_runs.
std::vector<double> capped(const std::vector<Residual>& residuals, double most_runs) {
  std::map<std::string, double> total;
  for (const Residual& r : residuals) total[r.family] += r.weight;
  std::vector<double> out;
  for (const Residual& r : residuals) out.push_back(r.weight * std::min(1.0, most_runs / total[r.family]));
  return out;
}

/// All residuals, each family alike, with the weight of general_runs together.
Weighted general(const std::vector<Residual>& residuals, double general_runs) {
  std::map<std::string, double> total;
  for (const Residual& r : residuals) total[r.family] += r.weight;
  Weighted out;
  for (const Residual& r : residuals)
    out.emplace_back(r.log_ratio, general_runs * r.weight / (total[r.family] * static_cast<double>(total.size())));
  return out;
}

constexpr double kTenth = 1.2816;  // standard deviations of a normal distribution below which nine tenths lie

planner::Interval interval_of(const Weighted& residuals, const IntervalOptions& options, double widening) {
  const double between = kTenth * options.between_sources;
  const double low = std::min(0.0, weighted_quantile(residuals, (1 - options.level) / 2)),
               high = std::max(0.0, weighted_quantile(residuals, (1 + options.level) / 2));
  planner::Interval i;
  i.low = std::clamp(std::exp(-widening * std::hypot(low, between)), 1e-3, 1.0);
  i.high = std::clamp(std::exp(widening * std::hypot(high, between)), 1.0, 1e3);
  return i;
}

}  // namespace

planner::IntervalTable fit_intervals(const std::vector<Residual>& residuals, const std::vector<Residual>& unknown_engine,
                                     const IntervalOptions& options) {
  planner::IntervalTable table;
  if (residuals.empty() || unknown_engine.empty()) return table;
  const std::vector<double> weight = capped(residuals, options.most_runs);
  const Weighted base = general(unknown_engine, options.general_runs);
  std::set<std::pair<std::string, std::string>> keys = {{"", ""}};
  for (const Residual& r : residuals) keys.insert({{r.engine, r.device}, {r.engine, ""}, {"", r.device}});
  for (const auto& [engine, device] : keys) {
    Weighted mixed = base;
    std::int64_t runs = 0;
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      const bool e = residuals[i].engine == engine, d = residuals[i].device == device;
      if (e) mixed.emplace_back(residuals[i].log_ratio, weight[i] * (d ? 2.0 : 1.0));
      runs += (e || engine.empty()) && (d || device.empty());
    }
    const double unknown = (device.empty() ? options.widening : 1.0) * (engine.empty() ? options.widening : 1.0);
    planner::Interval interval = interval_of(mixed, options, unknown);
    interval.runs = runs;
    table[{engine, device}] = interval;
  }
  return table;
}

double weighted_quantile(Weighted value_weight, double q) {
  std::sort(value_weight.begin(), value_weight.end());
  double total = 0, below = 0;
  for (const auto& [value, weight] : value_weight) total += weight;
  for (const auto& [value, weight] : value_weight) {
    below += weight;
    if (below >= q * total) return value;
  }
  return 0;
}

}  // namespace espalier::lab
