// SPDX-License-Identifier: Apache-2.0
#include "lab/interval_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace espalier::lab {
namespace {

constexpr double kTenth = 1.2816;  // 90 % quantile of the standard normal distribution

planner::PredictionInterval interval_of(Sides sides, double between, double widening) {
  planner::PredictionInterval i;
  i.low = std::clamp(std::exp(-widening * std::hypot(sides.low, kTenth * between)), 1e-3, 1.0);
  i.high = std::clamp(std::exp(widening * std::hypot(sides.high, kTenth * between)), 1.0, 1e3);
  return i;
}

}  // namespace

std::vector<ErrorPoint> points_of(const std::vector<Residual>& residuals, Sharing sharing) {
  std::vector<ErrorPoint> out;
  for (const Residual& r : residuals)
    out.push_back({r.log_ratio, r.weight, sharing == Sharing::family ? r.family : r.family + "|" + r.group});
  return out;
}

Variance prior_of_families(const std::vector<Residual>& residuals, Sharing sharing) {
  std::map<std::string, std::vector<Residual>> families;
  for (const Residual& r : residuals) families[r.family].push_back(r);
  const double between = intraclass_correlation(points_of(residuals, Sharing::family));
  std::vector<Variance> variances;
  for (const auto& [name, list] : families) {
    if (list.size() < 2) continue;
    const std::vector<ErrorPoint> points = points_of(list, sharing);
    const double correlation = sharing == Sharing::family ? between : intraclass_correlation(points);
    variances.push_back({mean_square(points), effective_runs(points, correlation)});
  }
  const Variance common = common_variance(variances);
  return common.freedom > 0 ? common : Variance{mean_square(points_of(residuals, sharing)), 1};
}

planner::IntervalTable fit_intervals(const std::vector<Residual>& own, const std::vector<Residual>& general, bool own_is_general,
                                     const IntervalOptions& options) {
  planner::IntervalTable table;
  if (own.empty() || general.empty()) return table;
  const Sharing sharing = own_is_general ? Sharing::family : Sharing::group;
  const Variance prior = prior_of_families(general, Sharing::family);
  const double correlation = intraclass_correlation(points_of(own, sharing));
  std::set<std::pair<std::string, std::string>> keys = {{"", ""}};
  for (const Residual& r : own) keys.insert({{r.engine, r.device}, {r.engine, ""}, {"", r.device}});
  for (const auto& [engine, device] : keys) {
    std::vector<Residual> of_engine;
    std::int64_t runs = 0;
    for (const Residual& r : own) {
      const bool d = r.device == device;
      if (r.engine == engine) of_engine.push_back(r);
      if (r.engine == engine && !device.empty() && !d) of_engine.back().weight /= 2;
      runs += (r.engine == engine || engine.empty()) && (d || device.empty());
    }
    const std::vector<ErrorPoint> points = points_of(of_engine, sharing);
    const bool between = !own_is_general && !points.empty();
    const Sides sides = error_sides(points, effective_runs(points, correlation), prior, options.level);
    planner::PredictionInterval interval =
        interval_of(sides, between ? options.between_sources : 0, device.empty() ? options.widening : 1.0);
    interval.runs = runs;
    table[{engine, device}] = interval;
  }
  return table;
}

}  // namespace espalier::lab
