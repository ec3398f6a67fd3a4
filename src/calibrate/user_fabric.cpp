// SPDX-License-Identifier: Apache-2.0
#include "calibrate/user_fabric.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "calibrate/least_squares.h"
#include "cost/collective.h"
#include "cost/placement.h"
#include "planner/brief_text.h"

namespace espalier::calibrate {
namespace {

using runlog::CollectiveTest;
using runlog::NcclTable;
using text::cat;

constexpr double kNoise = 0.15, kEfficiencySigma = 0.3, kLatencySigma = 0.7;
constexpr double kSmallWeight = 0.25, kRowsOfTable = 8;
constexpr std::int64_t kLarge = 1 << 20;
constexpr double kIdentified = 0.9;
constexpr std::size_t kFolds = 5;
constexpr double kSlower = 0.6;
constexpr double kLowEfficiency = 0.02, kLowLatency = 1e-7, kHighLatency = 5e-3;

/// One row of a table as an observation.
struct Point {
  std::size_t table = 0;
  double bytes = 0, seconds = 0, weight = 1;
  std::size_t index = 0;  ///< within its table
};

std::vector<Point> points_of(const std::vector<NcclTable>& tables) {
  std::vector<Point> out;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    double total = 0;
    const std::size_t first = out.size();
    for (std::size_t i = 0; i < tables[t].rows.size(); ++i) {
      const runlog::NcclRow& row = tables[t].rows[i];
      const double weight = row.bytes >= kLarge ? 1.0 : kSmallWeight;
      out.push_back({t, static_cast<double>(row.bytes), row.microseconds * 1e-6, weight, i});
      total += weight;
    }
    const double share = std::min(1.0, kRowsOfTable / std::max(total, 1e-9));
    for (std::size_t i = first; i < out.size(); ++i) out[i].weight *= share;
  }
  return out;
}

/// Efficiency and latency of level k are parameters 2k and 2k + 1.
Cluster with_parameters(Cluster cluster, std::span<const double> x) {
  std::size_t k = 0;
  for (std::vector<FabricLevel>* levels : {&cluster.groups.front().intra, &cluster.inter}) {
    for (FabricLevel& level : *levels) {
      level.efficiency = x[2 * k];
      level.latency = Seconds(x[2 * k + 1]);
      ++k;
    }
  }
  return cluster;
}

std::vector<FitParameter> parameters_of(const Cluster& cluster) {
  std::vector<FitParameter> out;
  for (const FabricLevel& level : cluster.levels()) {
    const double e = std::clamp(level.efficiency, kLowEfficiency, 1.0);
    const double a = std::clamp(level.latency.count(), kLowLatency, kHighLatency);
    out.push_back({level.name + ".efficiency", e, kLowEfficiency, 1.0, true, e, kEfficiencySigma});
    out.push_back({level.name + ".latency", a, kLowLatency, kHighLatency, true, a, kLatencySigma});
  }
  return out;
}

class Problem {
 public:
  Problem(const Cluster& cluster, const std::vector<NcclTable>& tables)
      : cluster_(cluster), tables_(tables), points_(points_of(tables)), parameters_(parameters_of(cluster)) {}

  [[nodiscard]] const std::vector<Point>& points() const { return points_; }
  [[nodiscard]] const std::vector<FitParameter>& parameters() const { return parameters_; }
  [[nodiscard]] std::vector<double> start() const {
    std::vector<double> x;
    for (const FitParameter& p : parameters_) x.push_back(p.start);
    return x;
  }

  [[nodiscard]] std::vector<double> log_ratios(std::span<const double> x) const {
    const Cluster cluster = with_parameters(cluster_, x);
    std::vector<double> out;
    for (std::size_t i = 0; i < points_.size(); ++i) out.push_back(log_ratio(cluster, i));
    return out;
  }

  /// Fits to the points outside the fold; −1: to all. The slowest level of a path hides the others, so that descents also start with
  /// each level made slower in turn; the best end counts.
  [[nodiscard]] std::vector<double> solve(int left_out) const {
    FitOptions options;
    options.huber = 2.0;
    options.iterations = 40;
    for (const Point& p : points_) options.weight.push_back(fold(p) == left_out ? 0.0 : p.weight);
    const auto residuals = [&](std::span<const double> x, std::span<double> r) {
      const std::vector<double> logs = log_ratios(x);
      for (std::size_t i = 0; i < logs.size(); ++i) r[i] = logs[i] / kNoise;
    };
    FitResult best = least_squares(parameters_, points_.size(), residuals, options);
    for (std::size_t k = 0; 2 * k < parameters_.size(); ++k) {
      std::vector<FitParameter> slower = parameters_;
      slower[2 * k].start = std::max(slower[2 * k].low, kSlower * slower[2 * k].start);
      FitResult other = least_squares(slower, points_.size(), residuals, options);
      if (other.cost < best.cost) best = std::move(other);
    }
    return best.values;
  }

  static int fold(const Point& p) { return static_cast<int>(p.index % kFolds); }

  /// Posterior sigma of every parameter with the noise taken as known.
  [[nodiscard]] std::vector<double> posterior(const std::vector<double>& x) const {
    const std::size_t n = parameters_.size();
    std::vector<std::vector<double>> slopes;
    for (std::size_t j = 0; j < n; ++j) {
      std::vector<double> up = x, down = x;
      up[j] = std::min(parameters_[j].high, x[j] * std::exp(1e-3));
      down[j] = std::max(parameters_[j].low, x[j] * std::exp(-1e-3));
      const std::vector<double> a = log_ratios(up), b = log_ratios(down);
      slopes.emplace_back(a.size());
      for (std::size_t i = 0; i < a.size(); ++i) slopes[j][i] = (a[i] - b[i]) / (kNoise * std::log(up[j] / down[j]));
    }
    std::vector<double> matrix(n * n, 0.0), out;
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b)
        for (std::size_t i = 0; i < points_.size(); ++i) matrix[a * n + b] += points_[i].weight * slopes[a][i] * slopes[b][i];
      matrix[a * n + a] += 1.0 / (parameters_[a].sigma * parameters_[a].sigma);
    }
    for (std::size_t a = 0; a < n; ++a) {
      std::vector<double> copy = matrix, unit(n, 0.0);
      unit[a] = 1;
      out.push_back(solve_cholesky(copy, unit) ? std::sqrt(std::max(0.0, unit[a])) : parameters_[a].sigma);
    }
    return out;
  }

 private:
  [[nodiscard]] double log_ratio(const Cluster& cluster, std::size_t i) const {
    const double t = modelled_s(cluster, tables_[points_[i].table], points_[i].bytes);
    return t > 0 ? std::log(t / points_[i].seconds) : 0.0;
  }

  const Cluster& cluster_;
  const std::vector<NcclTable>& tables_;
  std::vector<Point> points_;
  std::vector<FitParameter> parameters_;
};

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

/// Held-out log ratios: each point by the fit of the folds it is not in.
std::vector<double> held_out(const Problem& problem) {
  std::vector<double> out(problem.points().size(), 0.0);
  for (int f = 0; f < static_cast<int>(kFolds); ++f) {
    const std::vector<double> logs = problem.log_ratios(problem.solve(f));
    for (std::size_t i = 0; i < out.size(); ++i)
      if (Problem::fold(problem.points()[i]) == f) out[i] = logs[i];
  }
  return out;
}

void summarize_tables(const Problem& problem, const std::vector<NcclTable>& tables, FabricFit& out) {
  const std::vector<double> before = problem.log_ratios(problem.start()), after = held_out(problem);
  std::vector<double> all_before, all_after;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    TableFit fit{tables[t].where, tables[t].test, tables[t].ranks, tables[t].nodes, 0, 0, 0};
    std::vector<double> b, a;
    for (std::size_t i = 0; i < problem.points().size(); ++i) {
      const Point& p = problem.points()[i];
      if (p.table != t || p.bytes < static_cast<double>(kLarge)) continue;
      b.push_back(std::fabs(std::expm1(before[i])));
      a.push_back(std::fabs(std::expm1(after[i])));
    }
    fit.rows = static_cast<std::int64_t>(b.size());
    all_before.insert(all_before.end(), b.begin(), b.end());
    all_after.insert(all_after.end(), a.begin(), a.end());
    fit.before = median(b), fit.held_out = median(a);
    out.tables.push_back(std::move(fit));
  }
  out.before = median(all_before), out.held_out = median(all_after);
}

Status covers(const Cluster& cluster, const NcclTable& t) {
  const NodeGroup& group = cluster.groups.front();
  if (t.active_per_node <= group.devices_per_node && t.nodes <= group.nodes) return std::nullopt;
  return Error{ErrorKind::bad_input, t.where, cat(std::to_string(t.nodes), " nodes with ", std::to_string(t.active_per_node), " ranks each"),
               cat("at most ", std::to_string(group.nodes), " nodes of ", std::to_string(group.devices_per_node), " devices"),
               "--cluster FILE describes the cluster that was measured"};
}

}  // namespace

double modelled_s(const Cluster& cluster, const NcclTable& t, double bytes) {
  const NodeGroup& node = cluster.groups.front();
  std::vector<FabricLevel> levels = cluster.levels();
  for (FabricLevel& level : levels) {
    if (level.span <= node.devices_per_node || t.active_per_node >= node.devices_per_node) continue;
    const double share = static_cast<double>(node.devices_per_node) / static_cast<double>(std::max<std::int64_t>(1, t.active_per_node));
    level.bandwidth = std::max(level.bandwidth, std::min(level.bandwidth_alone, level.bandwidth * share));
  }
  const std::int64_t on_node = t.ranks / std::max<std::int64_t>(1, t.nodes);
  const cost::Group group = cost::place_group(levels, on_node, 1, t.nodes, node.devices_per_node);
  switch (t.test) {
    case CollectiveTest::all_reduce: return cost::all_reduce_s(levels, group, bytes);
    case CollectiveTest::all_gather: return cost::all_gather_s(levels, group, bytes);
    case CollectiveTest::reduce_scatter: return cost::reduce_scatter_s(levels, group, bytes);
    case CollectiveTest::all_to_all: return cost::all_to_all_s(levels, group, bytes);
    case CollectiveTest::send_receive: return cost::ring_step_s(levels, group, bytes);
  }
  return 0;
}

std::vector<CalibratedLevel> FabricFit::calibrated() const {
  std::vector<CalibratedLevel> out;
  for (const LevelFit& fit : levels) out.push_back(fit.level);
  return out;
}

Result<FabricFit> fit_fabric(const Cluster& cluster, const std::vector<NcclTable>& tables) {
  for (const NcclTable& t : tables)
    if (Status error = covers(cluster, t)) return *error;
  const Problem problem(cluster, tables);
  const std::vector<double> solved = problem.solve(-1), sigma = problem.posterior(solved);
  FabricFit out;
  const std::vector<FabricLevel> levels = cluster.levels();
  for (std::size_t k = 0; k < levels.size(); ++k) {
    LevelFit fit;
    fit.prior_efficiency = levels[k].efficiency, fit.prior_latency_s = levels[k].latency.count();
    fit.efficiency_sigma = sigma[2 * k], fit.latency_sigma = sigma[2 * k + 1];
    fit.efficiency_identified = fit.efficiency_sigma < kIdentified * kEfficiencySigma;
    fit.latency_identified = fit.latency_sigma < kIdentified * kLatencySigma;
    const bool inside = levels[k].span <= cluster.groups.front().devices_per_node;
    fit.level = {levels[k].name, inside, fit.efficiency_identified ? solved[2 * k] : fit.prior_efficiency,
                 Seconds(fit.latency_identified ? solved[2 * k + 1] : fit.prior_latency_s)};
    if (!fit.efficiency_identified && !fit.latency_identified) continue;
    if (solved[2 * k] >= 0.999)
      out.warnings.push_back(cat(levels[k].name, ": more bandwidth was measured than the level has (",
                                 text::fixed(levels[k].bandwidth.count() / 1e9, 1),
                                 " GB/s a device): in_network_reduction, or a larger bandwidth in the cluster file, would describe it"));
    out.levels.push_back(std::move(fit));
  }
  for (const NcclTable& t : tables)
    if (!t.complete) out.warnings.push_back(cat(t.where, ": no closing line: the output is cut"));
  summarize_tables(problem, tables, out);
  if (out.levels.empty()) out.warnings.push_back("the tables do not determine any fabric level");
  return out;
}

}  // namespace espalier::calibrate
