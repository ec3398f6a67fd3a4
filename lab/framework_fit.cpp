// SPDX-License-Identifier: Apache-2.0
#include "lab/framework_fit.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "calibrate/least_squares.h"

namespace espalier::lab {
namespace {

constexpr std::size_t kPriorEngines = 2;  // number of engines whose weight the physical prior has in pooling
// A coefficient with a larger posterior sigma over prior sigma was not determined by the data.
constexpr double kStillPrior = 0.9;

std::size_t fields() { return coefficient_fields().size(); }

/// Converts a coefficient to the scale of averaging: logarithms of multipliers, additive ones unchanged.
double to_scale(const CoefficientField& f, double value) { return f.additive ? value : std::log(value); }
double from_scale(const CoefficientField& f, double x) { return f.additive ? x : std::exp(x); }

/// Returns the weights of the rows: repeats share one weight, and a family has at most the weight of most_rows rows.
std::vector<double> weights_of(const std::vector<const calibrate::CorpusRow*>& rows, double most_rows) {
  std::map<std::string, double> total;
  for (const calibrate::CorpusRow* r : rows) total[r->family] += r->weight;
  std::vector<double> out;
  for (const calibrate::CorpusRow* r : rows) out.push_back(r->weight * std::min(1.0, most_rows / total[r->family]));
  return out;
}

}  // namespace

int FrameworkFit::fitted_scalars() const {
  int n = 0;
  for (std::size_t j = 0; j < fields(); ++j) {
    const auto& f = coefficient_fields()[j];
    // A term that the runs remove is not a scalar of the model.
    n += fitted[j] && !(f.additive && value.*f.member == 0.0);
  }
  return n;
}

Prior base_prior() {
  Prior p;
  for (std::size_t j = 0; j < fields(); ++j) {
    const auto& f = coefficient_fields()[j];
    p.center.*f.member = f.prior;
    p.sigma[j] = f.sigma;
  }
  return p;
}

namespace {

/// Holds the inputs of the fit of one engine.
struct Task {
  const std::vector<const calibrate::CorpusRow*>& rows;
  const Prior& prior;
  const FrameworkFitOptions& options;
  calibrate::FitOptions solver;     ///< weights of the rows, then of the sources' common errors if any
  std::vector<std::size_t> source;  ///< by row
  std::size_t sources = 0;
};

/// Returns b_s of every source (framework_fit.h) from log(t/T) of the rows.
std::vector<double> common_errors(const Task& task, const std::vector<double>& ratio) {
  constexpr double kFar = 0.5;  // an outlying row carries no information about its cluster
  std::vector<double> common(task.sources, 0.0);
  if (task.options.between_sources <= 0) return common;
  std::vector<double> precision(task.sources, 1.0 / (task.options.between_sources * task.options.between_sources));
  for (std::size_t i = 0; i < ratio.size(); ++i) {
    const double p = task.solver.weight[i] / (task.options.noise * task.options.noise);
    if (std::abs(ratio[i]) > kFar) continue;
    common[task.source[i]] += p * ratio[i];
    precision[task.source[i]] += p;
  }
  for (std::size_t s = 0; s < common.size(); ++s) common[s] /= precision[s];
  return common;
}

void number_sources(Task& task) {
  std::map<std::string, std::size_t> numbers;
  for (const calibrate::CorpusRow* row : task.rows)
    task.source.push_back(numbers.try_emplace(row->family, numbers.size()).first->second);
  task.sources = numbers.size();
  if (task.options.between_sources > 0) task.solver.weight.resize(task.rows.size() + task.sources, 1.0);
}

/// Solves for the free fields; the others stay at the prior. Fills sigma and `fitted` of the free fields.
FrameworkFit solve(const Task& task, const std::array<bool, 16>& free) {
  FrameworkFit fit;
  fit.value = task.prior.center;
  fit.sigma = task.prior.sigma;
  std::vector<calibrate::FitParameter> parameters;
  std::vector<std::size_t> field;
  for (std::size_t j = 0; j < fields(); ++j) {
    if (!free[j]) continue;
    const auto& f = coefficient_fields()[j];
    const double center = task.prior.center.*f.member;
    parameters.push_back({std::string(f.name), center, f.low, f.high, !f.additive, center, task.prior.sigma[j]});
    field.push_back(j);
  }
  const auto coefficients = [&](std::span<const double> x) {
    FrameworkCoefficients c = task.prior.center;
    for (std::size_t i = 0; i < x.size(); ++i) c.*coefficient_fields()[field[i]].member = x[i];
    return c;
  };
  const auto residuals = [&](std::span<const double> x, std::span<double> r) {
    const std::vector<double> t = calibrate::predicted_s(task.rows, coefficients(x), task.options.threads);
    std::vector<double> ratio(task.rows.size());
    for (std::size_t i = 0; i < ratio.size(); ++i)
      ratio[i] = std::isfinite(t[i]) ? std::log(t[i] / *task.rows[i]->result.measured_s) : 0.0;
    const std::vector<double> common = common_errors(task, ratio);
    for (std::size_t i = 0; i < ratio.size(); ++i) r[i] = (ratio[i] - common[task.source[i]]) / task.options.noise;
    for (std::size_t s = 0; s < common.size() && task.options.between_sources > 0; ++s)
      r[ratio.size() + s] = common[s] / task.options.between_sources;
  };
  const calibrate::FitResult solved = calibrate::least_squares(parameters, task.solver.weight.size(), residuals, task.solver);
  fit.value = coefficients(solved.values);
  for (std::size_t i = 0; i < field.size(); ++i) {
    const std::size_t j = field[i];
    // The data pushed it against the prior itself.
    const bool rests = solved.at_bound[i] && solved.values[i] == parameters[i].prior;
    fit.sigma[j] = solved.standard_error[i];
    fit.fitted[j] = !rests && solved.standard_error[i] < kStillPrior * task.prior.sigma[j];
  }
  return fit;
}

/// Selects, among the fields that the data determine, the `most` best determined ones.
std::array<bool, 16> best_determined(const FrameworkFit& fit, const Prior& prior, int most) {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t j = 0; j < fields(); ++j)
    if (fit.fitted[j]) order.emplace_back(fit.sigma[j] / prior.sigma[j], j);
  std::sort(order.begin(), order.end());
  std::array<bool, 16> keep{};
  for (std::size_t i = 0; i < order.size() && i < static_cast<std::size_t>(most); ++i) keep[order[i].second] = true;
  return keep;
}

}  // namespace

FrameworkFit fit_framework(const std::vector<const calibrate::CorpusRow*>& rows, const Prior& prior,
                           const FrameworkFitOptions& options) {
  FrameworkFit fit;
  fit.value = prior.center;
  fit.sigma = prior.sigma;
  fit.rows = static_cast<std::int64_t>(rows.size());
  if (rows.empty()) return fit;
  Task task{rows, prior, options, {}, {}, 0};
  task.solver.weight = weights_of(rows, options.most_rows);
  for (double w : task.solver.weight) fit.effective_rows += w;
  number_sources(task);
  task.solver.huber = kTrainingHuber;
  task.solver.far = kTrainingFar;
  task.solver.iterations = 12;
  task.solver.tolerance = 1e-4;
  std::array<bool, 16> free{};
  std::fill_n(free.begin(), fields(), true);
  const std::array<bool, 16> keep = best_determined(solve(task, free), prior, options.most_fitted);
  if (std::find(keep.begin(), keep.end(), true) != keep.end()) {
    const FrameworkFit solved = solve(task, keep);
    fit.value = solved.value;
    fit.sigma = solved.sigma;
    fit.fitted = keep;
  }
  return fit;
}

namespace {

/// Returns a weighted mean in which an outlying engine has bounded influence (Huber, threshold 1.345 of
/// its own spread).
double robust_mean(const std::vector<std::array<double, 2>>& value_variance, double start) {
  constexpr double kThreshold = 1.345;
  double mean = start;
  for (int i = 0; i < 50; ++i) {
    double sum = 0, weight = 0;
    for (const auto& [value, variance] : value_variance) {
      const double far = std::abs(value - mean) / std::sqrt(variance);
      const double w = std::min(1.0, kThreshold / std::max(far, 1e-12)) / variance;
      sum += w * value;
      weight += w;
    }
    mean = sum / weight;
  }
  return mean;
}

}  // namespace

Prior pool(const std::map<std::string, FrameworkFit>& fits, const Prior& prior) {
  Prior pooled = prior;
  for (std::size_t j = 0; j < fields(); ++j) {
    const auto& f = coefficient_fields()[j];
    if (!f.pooled) continue;
    const double tau2 = prior.sigma[j] * prior.sigma[j], center = to_scale(f, prior.center.*f.member);
    std::vector<std::array<double, 2>> engines(kPriorEngines, {center, tau2});
    for (const auto& [engine, fit] : fits)
      if (fit.fitted[j]) engines.push_back({to_scale(f, fit.value.*f.member), tau2 + fit.sigma[j] * fit.sigma[j]});
    pooled.center.*f.member = std::clamp(from_scale(f, robust_mean(engines, center)), f.low, f.high);
  }
  return pooled;
}

}  // namespace espalier::lab
