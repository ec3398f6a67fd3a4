// SPDX-License-Identifier: Apache-2.0
#include "lab/spread.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/invariant.h"

namespace espalier::lab {
namespace {

/// Computes ψ and, below, ψ′ by recurrence and the asymptotic series (Abramowitz & Stegun 6.3.18, 6.4.12).
double digamma(double x) {
  double below = 0;
  for (; x < 6; ++x) below += 1 / x;
  const double y = 1 / (x * x);
  return std::log(x) - 1 / (2 * x) - y * (1.0 / 12 - y * (1.0 / 120 - y / 252)) - below;
}

double trigamma(double x) {
  double below = 0;
  for (; x < 6; ++x) below += 1 / (x * x);
  const double y = 1 / (x * x);
  return 1 / x + y / 2 + y / x * (1.0 / 6 - y * (1.0 / 30 - y / 42)) + below;
}

/// Limits d₀/2, from almost nothing in common to one variance for all.
constexpr double kLeastHalf = 0.05, kMostHalf = 500;

/// Returns x with ψ′(x) = y within those bounds; ψ′ falls.
double inverse_trigamma(double y) {
  double low = kLeastHalf, high = kMostHalf;
  for (int i = 0; i < 100; ++i) {
    const double middle = std::sqrt(low * high);
    (trigamma(middle) > y ? low : high) = middle;
  }
  return low;
}

/// Returns the quantile of the normal distribution, by bisection of erfc.
double normal_quantile(double probability) {
  double low = 0, high = 10;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (1 - std::erfc(middle / std::sqrt(2.0)) / 2 < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

struct Cluster {
  double runs = 0, weight = 0, sum = 0, squares = 0;
};

std::map<std::string, Cluster> clusters_of(const std::vector<ErrorPoint>& points) {
  std::map<std::string, Cluster> out;
  for (const ErrorPoint& p : points) {
    Cluster& c = out[p.cluster];
    ++c.runs;
    c.weight += p.weight;
    c.sum += p.value;
    c.squares += p.value * p.value;
  }
  return out;
}

}  // namespace

double intraclass_correlation(const std::vector<ErrorPoint>& points) {
  const std::map<std::string, Cluster> clusters = clusters_of(points);
  const auto n = static_cast<double>(points.size()), k = static_cast<double>(clusters.size());
  if (k < 2 || n <= k) return 0;
  double sum = 0, squared_sizes = 0, within = 0;
  for (const auto& [name, c] : clusters) {
    sum += c.sum;
    squared_sizes += c.runs * c.runs;
    within += c.squares - c.sum * c.sum / c.runs;
  }
  double between = 0;
  for (const auto& [name, c] : clusters) between += c.runs * std::pow(c.sum / c.runs - sum / n, 2);
  const double mean_within = std::max(0.0, within) / (n - k);
  const double common = std::max(0.0, (between / (k - 1) - mean_within) * (k - 1) / (n - squared_sizes / n));
  return common > 0 ? common / (common + mean_within) : 0;
}

double effective_runs(const std::vector<ErrorPoint>& points, double correlation) {
  if (points.empty()) return 0;
  double runs = 0, weight = 0;
  for (const auto& [name, c] : clusters_of(points)) {
    runs += c.weight / (1 + std::max(0.0, c.weight - 1) * correlation);
    weight += c.weight;
  }
  return std::max(1.0, std::min(runs, weight));
}

double mean_square(const std::vector<ErrorPoint>& points) {
  double sum = 0, weight = 0;
  for (const ErrorPoint& p : points) {
    sum += p.weight * p.value * p.value;
    weight += p.weight;
  }
  return weight > 0 ? sum / weight : 0;
}

Variance common_variance(const std::vector<Variance>& variances) {
  std::vector<double> logs;
  double mean = 0, sampling = 0;
  for (const Variance& v : variances) {
    if (v.value <= 0 || v.freedom <= 0) continue;
    logs.push_back(std::log(v.value) - digamma(v.freedom / 2) + std::log(v.freedom / 2));
    mean += logs.back();
    sampling += trigamma(v.freedom / 2);
  }
  const auto n = static_cast<double>(logs.size());
  if (n < 2) return {};
  mean /= n;
  double spread = 0;
  for (const double x : logs) spread += (x - mean) * (x - mean) / (n - 1);
  const double half = inverse_trigamma(spread - sampling / n);
  return {std::exp(mean + digamma(half) - std::log(half)), 2 * half};
}

Variance shrunk(const Variance& own, const Variance& prior) {
  const double freedom = own.freedom + prior.freedom;
  if (freedom <= 0) return {};
  return {(own.freedom * own.value + prior.freedom * prior.value) / freedom, freedom};
}

double student_quantile(double probability, double freedom) {
  ESPALIER_CHECK(probability >= 0.5 && probability < 1 && freedom >= 1);
  const double z = normal_quantile(probability), s = z * z, d = freedom;
  return z *
         (1 + (s + 1) / (4 * d) + ((5 * s + 16) * s + 3) / (96 * d * d) + (((3 * s + 19) * s + 17) * s - 15) / (384 * d * d * d));
}

Sides error_sides(const std::vector<ErrorPoint>& points, double runs, const Variance& prior, double level) {
  const double upper = (1 + level) / 2, normal = normal_quantile(upper);
  const Variance both = shrunk({mean_square(points), runs}, prior);
  const double far = student_quantile(upper, std::max(1.0, both.freedom));
  std::vector<std::pair<double, double>> values;
  for (const ErrorPoint& p : points) values.emplace_back(p.value, p.weight);
  const auto side = [&](double end) {
    const double own = std::max(0.0, end) / normal;
    return far * std::sqrt(shrunk({own * own, std::max(0.0, runs - 1)}, {both.value, prior.freedom}).value);
  };
  if (points.empty() || prior.freedom <= 0) return {far * std::sqrt(both.value), far * std::sqrt(both.value)};
  return {side(-weighted_quantile(values, 1 - upper)), side(weighted_quantile(values, upper))};
}

double weighted_quantile(std::vector<std::pair<double, double>> value_weight, double q) {
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
