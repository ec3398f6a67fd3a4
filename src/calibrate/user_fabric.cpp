// SPDX-License-Identifier: Apache-2.0
#include "calibrate/user_fabric.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

#include "base/format.h"
#include "base/statistics.h"
#include "calibrate/least_squares.h"
#include "cost/collective.h"
#include "cost/placement.h"

namespace espalier::calibrate {
namespace {

using base::median;
using runlog::CollectiveTest;
using runlog::NcclTable;

constexpr double kRowNoise = 0.10;
constexpr double kSmallWeight = 0.25, kRowsOfTable = 8;
constexpr std::int64_t kLarge = 1 << 20;
constexpr std::size_t kTableFolds = 5;
constexpr double kSlower = 0.6;

/// Holds one row of a table as an observation.
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
      const double weight = row.bytes >= kLarge || tables[t].direct_bytes > 0 ? 1.0 : kSmallWeight;
      out.push_back({t, static_cast<double>(row.bytes), row.microseconds * 1e-6, weight, i});
      total += weight;
    }
    const double share = std::min(1.0, kRowsOfTable / std::max(total, 1e-9));
    for (std::size_t i = first; i < out.size(); ++i) out[i].weight *= share;
  }
  return out;
}

/// Returns the cluster with these parameters. Field f of level k is parameter k·fields + f.
Cluster with_parameters(Cluster cluster, std::span<const double> x) {
  std::size_t k = 0;
  for (std::vector<FabricLevel>* levels : {&cluster.groups.front().intra, &cluster.inter}) {
    for (FabricLevel& level : *levels)
      for (const cluster::FabricField& field : cluster::fabric_fields()) field.set(level, x[k++]);
  }
  return cluster;
}

std::vector<FitParameter> parameters_of(const Cluster& cluster) {
  std::vector<FitParameter> out;
  for (const FabricLevel& level : cluster.levels()) {
    for (const cluster::FabricField& field : cluster::fabric_fields()) {
      const double shipped = std::clamp(field.get(level), field.low, field.high);
      out.push_back({level.name + "." + std::string(field.name), shipped, field.low, field.high, true, shipped, field.sigma});
    }
  }
  return out;
}

class CollectiveFit {
 public:
  CollectiveFit(const Cluster& cluster, const std::vector<NcclTable>& tables)
      : cluster_(cluster), tables_(tables), points_(points_of(tables)), parameters_(parameters_of(cluster)) {}

  [[nodiscard]] const std::vector<Point>& points() const { return points_; }
  [[nodiscard]] const std::vector<FitParameter>& parameters() const { return parameters_; }
  static int fold(const Point& p) { return static_cast<int>(p.index % kTableFolds); }

  [[nodiscard]] std::vector<double> shipped() const {
    std::vector<double> x;
    for (const FitParameter& p : parameters_) x.push_back(p.prior);
    return x;
  }

  [[nodiscard]] std::vector<double> log_ratios(std::span<const double> x) const {
    return log_ratios_on(with_parameters(cluster_, x));
  }
  /// Returns the log ratios on the unchanged cluster, including values outside the fitted ranges.
  [[nodiscard]] std::vector<double> log_ratios_as_shipped() const { return log_ratios_on(cluster_); }

  /// Fits the parameters `which` to the points outside the fold (−1: to all), and keeps the others as shipped. The
  /// slowest level of a path hides the others. Descents therefore also start with each level made slower in turn, and
  /// the best end counts.
  [[nodiscard]] std::vector<double> solve(int left_out, const std::vector<std::size_t>& which) const {
    if (which.empty()) return shipped();
    std::vector<FitParameter> free;
    for (std::size_t j : which) free.push_back(parameters_[j]);
    FitOptions options;
    options.huber = 2.0;
    options.iterations = 40;
    for (const Point& p : points_) options.weight.push_back(fold(p) == left_out ? 0.0 : p.weight);
    const auto residuals = [&](std::span<const double> x, std::span<double> r) {
      const std::vector<double> logs = log_ratios(filled(which, x));
      for (std::size_t i = 0; i < logs.size(); ++i) r[i] = logs[i] / kRowNoise;
    };
    FitResult best = least_squares(free, points_.size(), residuals, options);
    for (std::size_t k = 0; k < which.size(); ++k) {
      if (cluster::fabric_fields()[which[k] % cluster::fabric_fields().size()].name != "efficiency") continue;
      std::vector<FitParameter> slower = free;
      slower[k].start = std::max(slower[k].low, kSlower * slower[k].start);
      FitResult other = least_squares(slower, points_.size(), residuals, options);
      if (other.cost < best.cost) best = std::move(other);
    }
    return filled(which, best.values);
  }

  /// Returns the parameters that the tables determine, with their posterior sigmas at x. The least determined one is
  /// removed until all are. A table that shows a loss close to zero determines it, although its logarithm hardly
  /// matters there. Slopes are therefore taken at x or at the shipped values, wherever they are larger.
  [[nodiscard]] std::vector<std::size_t> identified(const std::vector<double>& x, std::vector<double>& sigma) const {
    std::vector<std::vector<double>> slopes = slopes_at(x);
    const std::vector<std::vector<double>> as_shipped = slopes_at(shipped());
    const auto squares = [](const std::vector<double>& v) { return std::inner_product(v.begin(), v.end(), v.begin(), 0.0); };
    for (std::size_t j = 0; j < slopes.size(); ++j)
      if (squares(as_shipped[j]) > squares(slopes[j])) slopes[j] = as_shipped[j];
    std::vector<std::size_t> which(parameters_.size());
    for (std::size_t j = 0; j < which.size(); ++j) which[j] = j;
    while (!which.empty()) {
      sigma = posterior(slopes, which);
      std::size_t worst = 0;
      for (std::size_t k = 1; k < which.size(); ++k)
        if (sigma[k] / parameters_[which[k]].sigma > sigma[worst] / parameters_[which[worst]].sigma) worst = k;
      if (sigma[worst] <= kIdentified * parameters_[which[worst]].sigma) break;
      which.erase(which.begin() + static_cast<std::ptrdiff_t>(worst));
    }
    return which;
  }

 private:
  [[nodiscard]] std::vector<double> filled(const std::vector<std::size_t>& which, std::span<const double> x) const {
    std::vector<double> all = shipped();
    for (std::size_t k = 0; k < which.size(); ++k) all[which[k]] = x[k];
    return all;
  }

  [[nodiscard]] std::vector<double> log_ratios_on(const Cluster& cluster) const {
    std::vector<double> out;
    for (const Point& p : points_) {
      const double t = modelled_s(cluster, tables_[p.table], p.bytes);
      out.push_back(t > 0 ? std::log(t / p.seconds) : 0.0);
    }
    return out;
  }

  /// Returns ∂r_i/∂log x_j, one-sided where the range ends.
  [[nodiscard]] std::vector<std::vector<double>> slopes_at(const std::vector<double>& x) const {
    std::vector<std::vector<double>> slopes;
    for (std::size_t j = 0; j < parameters_.size(); ++j) {
      std::vector<double> up = x, down = x;
      up[j] = std::min(parameters_[j].high, x[j] * std::exp(1e-3));
      down[j] = std::max(parameters_[j].low, x[j] * std::exp(-1e-3));
      const std::vector<double> a = log_ratios(up), b = log_ratios(down);
      slopes.emplace_back(a.size());
      for (std::size_t i = 0; i < a.size(); ++i) slopes[j][i] = (a[i] - b[i]) / (kRowNoise * std::log(up[j] / down[j]));
    }
    return slopes;
  }

  /// Returns the posterior sigma of each of `which`, with the noise taken as known and the other parameters fixed.
  [[nodiscard]] std::vector<double> posterior(const std::vector<std::vector<double>>& slopes,
                                              const std::vector<std::size_t>& which) const {
    const std::size_t n = which.size();
    std::vector<double> matrix(n * n, 0.0), out;
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b)
        for (std::size_t i = 0; i < points_.size(); ++i)
          matrix[a * n + b] += points_[i].weight * slopes[which[a]][i] * slopes[which[b]][i];
      const double sigma = parameters_[which[a]].sigma;
      matrix[a * n + a] += 1.0 / (sigma * sigma);
    }
    for (std::size_t a = 0; a < n; ++a) {
      std::vector<double> copy = matrix, unit(n, 0.0);
      unit[a] = 1;
      out.push_back(solve_cholesky(copy, unit) ? std::sqrt(std::max(0.0, unit[a])) : parameters_[which[a]].sigma);
    }
    return out;
  }

  const Cluster& cluster_;
  const std::vector<NcclTable>& tables_;
  std::vector<Point> points_;
  std::vector<FitParameter> parameters_;
};

std::vector<std::size_t> all_of(const CollectiveFit& problem) {
  std::vector<std::size_t> which(problem.parameters().size());
  for (std::size_t j = 0; j < which.size(); ++j) which[j] = j;
  return which;
}

/// Returns held-out log ratios: each point from a fit on the other folds.
std::vector<double> held_out(const CollectiveFit& problem, const std::vector<std::size_t>& which) {
  std::vector<double> out(problem.points().size(), 0.0);
  for (int f = 0; f < static_cast<int>(kTableFolds); ++f) {
    const std::vector<double> logs = problem.log_ratios(problem.solve(f, which));
    for (std::size_t i = 0; i < out.size(); ++i)
      if (CollectiveFit::fold(problem.points()[i]) == f) out[i] = logs[i];
  }
  return out;
}

void summarize_tables(const CollectiveFit& problem, const std::vector<NcclTable>& tables, const std::vector<std::size_t>& which,
                      UserFabric& out) {
  const std::vector<double> before = problem.log_ratios_as_shipped(), after = held_out(problem, which);
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
    fit.before = median(b);
    fit.held_out = median(a);
    out.tables.push_back(std::move(fit));
  }
  out.before = median(all_before);
  out.held_out = median(all_after);
}

/// Returns the cluster with the collectives that the tables measured.
Cluster with_collectives(Cluster cluster, double direct_bytes) {
  for (std::vector<FabricLevel>* levels : {&cluster.groups.front().intra, &cluster.inter})
    for (FabricLevel& level : *levels)
      if (direct_bytes > 0) level.direct_bytes = direct_bytes;
  return cluster;
}

Status covers(const Cluster& cluster, const NcclTable& t) {
  const NodeGroup& group = cluster.groups.front();
  if (t.active_per_node <= group.devices_per_node && t.nodes <= group.nodes) return {};
  return Error{ErrorKind::bad_input, t.where,
               cat(std::to_string(t.nodes), " nodes with ", std::to_string(t.active_per_node), " ranks each"),
               cat("at most ", std::to_string(group.nodes), " nodes of ", std::to_string(group.devices_per_node), " devices"),
               "--cluster FILE describes the cluster that was measured"};
}

}  // namespace

namespace {

/// Describes devices of a group at equal distances: `inner` of them, and those again `outer` times.
struct Pattern {
  std::int64_t inner = 1, inner_stride = 1, outer = 1, outer_stride = 0;
};

/// Returns the pattern; nothing where the devices have another form.
std::optional<Pattern> pattern_of(const std::vector<std::int64_t>& devices) {
  const auto n = static_cast<std::int64_t>(devices.size());
  const auto at = [&](std::int64_t i) { return devices[static_cast<std::size_t>(i)] - devices.front(); };
  Pattern out;
  if (n > 1) out.inner_stride = at(1);
  while (out.inner < n && at(out.inner) == out.inner * out.inner_stride) ++out.inner;
  if (out.inner_stride < 1 || n % out.inner != 0) return std::nullopt;
  out.outer = n / out.inner;
  if (out.outer > 1) out.outer_stride = at(out.inner);
  for (std::int64_t i = 0; i < n; ++i)
    if (at(i) != i % out.inner * out.inner_stride + i / out.inner * out.outer_stride) return std::nullopt;
  return out;
}

/// Returns where the groups of a table lie: as their ranks are listed, or the first ones of every node without a
/// list.
cost::Group group_of(const std::vector<FabricLevel>& levels, const NcclTable& t, std::int64_t devices_per_node) {
  std::vector<std::int64_t> devices;
  for (const auto& [node, place] : t.members) devices.push_back(node * devices_per_node + place);
  const std::int64_t on_node = t.ranks / std::max<std::int64_t>(1, t.nodes);
  Pattern pattern{on_node, 1, t.nodes, devices_per_node};
  if (const auto listed = pattern_of(devices); listed && listed->inner * listed->outer == t.ranks) pattern = *listed;
  return cost::place_group(levels, pattern.inner, pattern.inner_stride, pattern.outer, pattern.outer_stride);
}

}  // namespace

double modelled_s(const Cluster& cluster, const NcclTable& t, double bytes) {
  const NodeGroup& node = cluster.groups.front();
  std::vector<FabricLevel> levels = cluster.levels();
  for (FabricLevel& level : levels) {
    if (level.span <= node.devices_per_node || t.active_per_node >= node.devices_per_node) continue;
    const double share =
        static_cast<double>(node.devices_per_node) / static_cast<double>(std::max<std::int64_t>(1, t.active_per_node));
    level.bandwidth = std::max(level.bandwidth, std::min(level.bandwidth_alone, level.bandwidth * share));
  }
  const cost::Group group = group_of(levels, t, node.devices_per_node);
  switch (t.test) {
    case CollectiveTest::all_reduce: return cost::all_reduce_s(levels, group, bytes);
    case CollectiveTest::all_gather: return cost::all_gather_s(levels, group, bytes);
    case CollectiveTest::reduce_scatter: return cost::reduce_scatter_s(levels, group, bytes);
    case CollectiveTest::all_to_all: return cost::all_to_all_s(levels, group, bytes);
    case CollectiveTest::send_receive: return cost::ring_step_s(levels, group, bytes);
  }
  return 0;
}

std::vector<job::CalibratedLevel> UserFabric::calibrated() const {
  std::vector<job::CalibratedLevel> out;
  for (const LevelFit& level : levels) {
    out.push_back({level.name, level.inside_node, {}, level.direct_bytes});
    for (const LevelFit::Field& f : level.fields)
      if (f.identified) out.back().values.emplace_back(f.field, f.value);
  }
  return out;
}

Result<UserFabric> fit_user_fabric(const Cluster& described, const std::vector<NcclTable>& tables) {
  for (const NcclTable& t : tables) {
    if (Status status = covers(described, t); !status.ok()) return status.error();
    if (t.direct_bytes != tables.front().direct_bytes)
      return Error{ErrorKind::bad_input, t.where, "collectives that run differently from those of the first table",
                   "tables of one runtime with the same limit of direct messages", "measure all of them again with one runtime"};
  }
  const double direct_bytes = tables.empty() ? 0 : tables.front().direct_bytes;
  const Cluster cluster = with_collectives(described, direct_bytes);
  const CollectiveFit problem(cluster, tables);
  std::vector<double> sigma;
  const std::vector<std::size_t> which = problem.identified(problem.solve(-1, all_of(problem)), sigma);
  const std::vector<double> solved = problem.solve(-1, which);
  UserFabric out;
  const std::vector<FabricLevel> levels = cluster.levels();
  for (std::size_t k = 0; k < levels.size(); ++k) {
    LevelFit fit{levels[k].name, levels[k].span <= cluster.groups.front().devices_per_node, {}, direct_bytes};
    bool any = direct_bytes > 0;
    for (std::size_t f = 0; f < cluster::fabric_fields().size(); ++f) {
      const std::size_t j = k * cluster::fabric_fields().size() + f;
      const auto at = std::find(which.begin(), which.end(), j);
      const bool known = at != which.end();
      const double shipped = cluster::fabric_fields()[f].get(levels[k]);
      fit.fields.push_back({&cluster::fabric_fields()[f], shipped, known ? solved[j] : shipped,
                            known ? sigma[static_cast<std::size_t>(at - which.begin())] : cluster::fabric_fields()[f].sigma,
                            known});
      any = any || known;
    }
    if (!any) continue;
    if (solved[k * cluster::fabric_fields().size()] >= 0.999)
      out.warnings.push_back(cat(levels[k].name, ": more bandwidth was measured than the level has (",
                                 base::fixed(levels[k].bandwidth.count() / 1e9, 1),
                                 " GB/s per device): set in_network_reduction, or a larger bandwidth, in the cluster file"));
    out.levels.push_back(std::move(fit));
  }
  for (const NcclTable& t : tables)
    if (!t.complete) out.warnings.push_back(cat(t.where, ": no closing line: the output is truncated"));
  summarize_tables(problem, tables, which, out);
  if (out.levels.empty()) out.warnings.push_back("the tables do not determine any fabric level");
  return out;
}

}  // namespace espalier::calibrate
