// SPDX-License-Identifier: Apache-2.0
#include "report/page_searched.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string_view>

#include "planner/plan_layers.h"

namespace espalier::report {
namespace {

constexpr std::array<std::string_view, 10> kPointDimensions{"pp",   "tp",          "dp",  "cp",       "ep",
                                                            "zero", "micro_batch", "vpp", "schedule", "recompute"};

std::vector<std::string> dimensions_of(const Strategy& s, const Schedule& c) {
  return {std::to_string(c.stages),       std::to_string(s.tp),
          std::to_string(s.dp),           std::to_string(s.cp),
          std::to_string(s.ep),           std::to_string(number_of(s.zero)),
          std::to_string(c.micro_batch),  std::to_string(c.virtual_stages),
          std::string(to_string(c.kind)), std::string(to_string(s.recompute.kind))};
}

/// Sorts by time, equal times by memory. A point is on the front where no earlier one needs as little memory.
void mark_front(std::vector<SearchedPoint>& points) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(points[a].iteration_ns, points[a].peak_memory_bytes) <
           std::pair(points[b].iteration_ns, points[b].peak_memory_bytes);
  });
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const std::size_t i : order) {
    if (!points[i].fits || points[i].peak_memory_bytes >= least) continue;
    points[i].front = true;
    least = points[i].peak_memory_bytes;
  }
}

}  // namespace

std::vector<SearchedPoint> searched_points(const PlannerResult& r) {
  std::vector<SearchedPoint> points;
  points.push_back(
      {r.plan.label(), "answer", r.prediction.iteration_ns, r.prediction.peak_memory_bytes, r.prediction.fits, false, {}});
  if (const auto own = planner::uniform_configuration(r.plan)) points.back().dimensions = dimensions_of(own->first, own->second);
  for (const Alternative& a : r.alternatives) {
    if (a.iteration_ns <= 0) continue;
    points.push_back({a.plan && a.baseline ? a.label + ": " + a.plan->label() : a.label,
                      a.baseline ? "baseline" : "searched",
                      a.iteration_ns,
                      a.peak_memory_bytes,
                      a.fits,
                      false,
                      {}});
    if (a.configuration) points.back().dimensions = dimensions_of(a.configuration->first, a.configuration->second);
  }
  const auto known = [&](const std::string& label) {
    return std::any_of(points.begin(), points.end(), [&](const SearchedPoint& p) { return p.label == label; });
  };
  std::vector<SearchedPoint> searched;
  for (const SearchedPlan& plan : r.searched) {
    if (known(plan.label)) continue;
    searched.push_back({plan.label, "searched", plan.iteration_ns, plan.peak_memory_bytes, true, false,
                        dimensions_of(plan.strategy, plan.schedule)});
  }
  points.insert(points.end(), searched.begin(), searched.end());
  mark_front(points);
  return points;
}

void write_searched(base::JsonWriter& w, const PlannerResult& result) {
  const std::vector<SearchedPoint> points = searched_points(result);
  w.begin_object();
  w.key("simulated").value(result.search.simulated).key("known").value(static_cast<std::int64_t>(points.size()));
  w.key("dimensions").compact_next().begin_array();
  for (const std::string_view name : kPointDimensions) w.value(name);
  w.end_array();
  w.key("points").begin_array();
  for (std::size_t i = 0; i < points.size(); ++i) {
    const SearchedPoint& p = points[i];
    if (i >= kMostPoints && !p.front) continue;
    w.compact_next().begin_object().key("label").value(p.label).key("what").value(p.what);
    w.key("iteration_ns").value(p.iteration_ns).key("bytes").value(p.peak_memory_bytes);
    w.key("fits").value(p.fits).key("front").value(p.front).key("values").begin_array();
    for (const std::string& value : p.dimensions) w.value(value);
    w.end_array().end_object();
  }
  w.end_array().end_object();
}

}  // namespace espalier::report
