// SPDX-License-Identifier: Apache-2.0
#include "calibrate/user_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "base/format.h"
#include "calibrate/least_squares.h"
#include "job/calibration_file.h"
#include "plan/engine.h"
#include "planner/interval.h"

namespace espalier::calibrate {
namespace {

constexpr double kNoise = 0.04;                                     // remaining error of a step time under the right coefficients
constexpr double kHuber = 2.0;                                      // in units of the noise
constexpr std::size_t kFewest = 3, kLeaveOneOut = 20, kFolds = 10;  // configurations
constexpr double kPriorRuns = 4, kPriorSpread = 0.08, kZ80 = 1.2816;

FrameworkCoefficients with_values(FrameworkCoefficients base, const std::vector<std::size_t>& which, std::span<const double> x) {
  for (std::size_t k = 0; k < which.size(); ++k) base.*coefficient_fields()[which[k]].member = x[k];
  return base;
}

/// Holds the rows of one fit and everything that stays constant in it.
struct Data {
  std::vector<const CorpusRow*> rows;
  std::vector<double> noise, weight;
  int threads = 1;

  void residuals(const FrameworkCoefficients& c, std::span<double> out) const {
    const std::vector<double> t = predicted_s(rows, c, threads);
    for (std::size_t i = 0; i < rows.size(); ++i)
      out[i] = std::isfinite(t[i]) ? std::log(t[i] / *rows[i]->result.measured_s) / noise[i] : 0.0;
  }
};

std::string configuration_of(const CorpusRow& row) { return row.result.ranking_group + "|" + row.result.label; }

/// Returns rows whose fold is not `left_out`; all of them for −1.
Data data_of(const std::vector<UserRow>& rows, const std::vector<int>& fold, int left_out, int threads) {
  std::map<std::string, int> repeats;
  for (const UserRow& r : rows) ++repeats[configuration_of(r.row)];
  Data data;
  data.threads = threads;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (fold[i] == left_out) continue;
    data.rows.push_back(&rows[i].row);
    data.noise.push_back(std::hypot(kNoise, rows[i].resolution));
    data.weight.push_back(1.0 / repeats[configuration_of(rows[i].row)]);
  }
  return data;
}

/// Returns the value one prior sigma above the shipped one, past the threshold where a term (launches, hidden
/// communication) has any effect.
double raised(const CoefficientField& f, double shipped) {
  return std::clamp(f.additive ? shipped + f.sigma : shipped * std::exp(f.sigma), f.low, f.high);
}

/// Returns the better of two descents: from the shipped values, and from one sigma above them.
FrameworkCoefficients solve(const Data& data, const FrameworkCoefficients& shipped, const std::vector<std::size_t>& which) {
  if (which.empty() || data.rows.empty()) return shipped;
  std::vector<FitParameter> parameters, high;
  for (std::size_t j : which) {
    const CoefficientField& f = coefficient_fields()[j];
    const double center = shipped.*f.member;
    parameters.push_back({std::string(f.name), center, f.low, f.high, !f.additive, center, f.sigma});
    high.push_back(parameters.back());
    high.back().start = raised(f, center);
  }
  FitOptions options;
  options.huber = kHuber;
  options.iterations = 15;
  options.tolerance = 1e-5;
  options.weight = data.weight;
  const auto residuals = [&](std::span<const double> x, std::span<double> r) {
    data.residuals(with_values(shipped, which, x), r);
  };
  const FitResult low = least_squares(parameters, data.rows.size(), residuals, options);
  const FitResult other = least_squares(high, data.rows.size(), residuals, options);
  return with_values(shipped, which, other.cost < low.cost ? other.values : low.values);
}

/// Returns ∂r_i/∂θ_j at `c`, in the fitted scale; one-sided where the range ends.
std::vector<std::vector<double>> jacobian(const Data& data, const FrameworkCoefficients& c) {
  std::vector<std::vector<double>> out;
  std::vector<double> up(data.rows.size()), down(data.rows.size());
  for (const CoefficientField& f : coefficient_fields()) {
    const double x = c.*f.member, h = f.additive ? 1e-3 * f.sigma : 1e-3;
    const double above = std::min(f.high, f.additive ? x + h : x * std::exp(h));
    const double below = std::max(f.low, f.additive ? x - h : x * std::exp(-h));
    const double distance = f.additive ? above - below : std::log(above / below);
    FrameworkCoefficients moved = c;
    moved.*f.member = above;
    data.residuals(moved, up);
    moved.*f.member = below;
    data.residuals(moved, down);
    out.emplace_back(data.rows.size());
    for (std::size_t i = 0; i < up.size(); ++i) out.back()[i] = distance > 0 ? (up[i] - down[i]) / distance : 0.0;
  }
  return out;
}

/// Returns the stronger of the slopes at the shipped values and one sigma above them.
std::vector<std::vector<double>> strongest_slopes(const Data& data, const FrameworkCoefficients& shipped) {
  FrameworkCoefficients high = shipped;
  for (const CoefficientField& f : coefficient_fields()) high.*f.member = raised(f, shipped.*f.member);
  std::vector<std::vector<double>> out = jacobian(data, shipped);
  const std::vector<std::vector<double>> other = jacobian(data, high);
  for (std::size_t j = 0; j < out.size(); ++j)
    for (std::size_t i = 0; i < out[j].size(); ++i)
      if (std::fabs(other[j][i]) > std::fabs(out[j][i])) out[j][i] = other[j][i];
  return out;
}

/// Returns the posterior sigma of each of `which` when the other coefficients are fixed.
std::vector<double> posterior(const Data& data, const std::vector<std::vector<double>>& slopes,
                              const std::vector<std::size_t>& which) {
  const std::size_t n = which.size();
  std::vector<double> matrix(n * n, 0.0), out;
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      for (std::size_t i = 0; i < data.rows.size(); ++i)
        matrix[a * n + b] += data.weight[i] * slopes[which[a]][i] * slopes[which[b]][i];
    }
    const double sigma = coefficient_fields()[which[a]].sigma;
    matrix[a * n + a] += 1.0 / (sigma * sigma);
  }
  for (std::size_t a = 0; a < n; ++a) {
    std::vector<double> copy = matrix, unit(n, 0.0);
    unit[a] = 1;
    out.push_back(solve_cholesky(copy, unit) ? std::sqrt(std::max(0.0, unit[a])) : coefficient_fields()[which[a]].sigma);
  }
  return out;
}

std::vector<std::size_t> all_fields() {
  std::vector<std::size_t> which(coefficient_fields().size());
  for (std::size_t j = 0; j < which.size(); ++j) which[j] = j;
  return which;
}

/// Returns the coefficients of `which` that the configurations determine. The least determined one is removed until
/// all are.
std::vector<std::size_t> identified(const Data& data, const std::vector<std::vector<double>>& slopes,
                                    std::vector<std::size_t> which = all_fields()) {
  while (!which.empty()) {
    const std::vector<double> sigma = posterior(data, slopes, which);
    std::size_t worst = 0;
    double most = 0;
    for (std::size_t k = 0; k < which.size(); ++k) {
      const double ratio = sigma[k] / coefficient_fields()[which[k]].sigma;
      if (ratio > most) {
        most = ratio;
        worst = k;
      }
    }
    if (most <= kIdentified) break;
    which.erase(which.begin() + static_cast<std::ptrdiff_t>(worst));
  }
  return which;
}

/// Returns the fold of every row: configurations in order of appearance, one each, or dealt out to ten.
std::vector<int> folds_of(const std::vector<UserRow>& rows, std::size_t& configurations) {
  std::map<std::string, int> known;
  std::vector<int> out;
  for (const UserRow& r : rows)
    out.push_back(known.try_emplace(configuration_of(r.row), static_cast<int>(known.size())).first->second);
  configurations = known.size();
  if (configurations > kLeaveOneOut)
    for (int& f : out) f %= static_cast<int>(kFolds);
  return out;
}

void cross_validate(const std::vector<UserRow>& rows, const std::vector<int>& fold, std::size_t configurations,
                    const FrameworkCoefficients& shipped, const std::vector<std::size_t>& which, int threads, UserFit& out) {
  const std::string number = std::to_string(configurations);
  if (configurations < kFewest) {
    out.cross_validation = cat("none: ", number, configurations == 1 ? " configuration, " : " configurations, ",
                               std::to_string(kFewest), " is the minimum");
    return;
  }
  const bool one_out = configurations <= kLeaveOneOut;
  out.cross_validation = one_out ? cat("leave one of ", number, " configurations out")
                                 : cat(std::to_string(kFolds), " folds of ", number, " configurations");
  const int folds = static_cast<int>(one_out ? configurations : kFolds);
  std::vector<double> errors;
  for (int f = 0; f < folds; ++f) {
    const FrameworkCoefficients c = solve(data_of(rows, fold, f, threads), shipped, which);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (fold[i] == f) out.runs[i].held_out_s = predicted_s(rows[i].row, c);
  }
  for (const RunFit& r : out.runs) errors.push_back(r.held_out_s / r.measured_s - 1);
  out.held_out = runs::summarize(errors);
}

void set_interval(const Data& data, const std::string& engine, const std::string& device, UserFit& out) {
  if (out.held_out.n == 0) {
    const planner::PredictionInterval shipped = planner::interval_for(planner::shipped_intervals(), engine, device);
    out.low = shipped.low;
    out.high = shipped.high;
    out.interval_basis = cat("as shipped (", shipped.basis, "): nothing was held out");
    return;
  }
  out.interval_basis = cat(out.cross_validation, ", pooled with ", base::fixed(kPriorRuns, 0), " runs with a spread of ",
                           base::percent(kPriorSpread));
  double squares = kPriorRuns * kPriorSpread * kPriorSpread, n = kPriorRuns;
  for (std::size_t i = 0; i < out.runs.size(); ++i) {
    if (out.runs[i].held_out_s <= 0) continue;
    const double e = std::log(out.runs[i].measured_s / out.runs[i].held_out_s);
    squares += data.weight[i] * e * e;
    n += data.weight[i];
  }
  const double t = kZ80 * (1 + (kZ80 * kZ80 + 1) / (4 * n));  // Student's t by its expansion in 1/n
  const double half = t * std::sqrt(squares / n);
  out.low = std::exp(-half);
  out.high = std::exp(half);
}

void describe_parameters(const Data& data, const FrameworkCoefficients& shipped, const std::vector<std::size_t>& which,
                         UserFit& out) {
  const std::vector<double> sigma = posterior(data, jacobian(data, out.coefficients), which);
  std::string unknown;
  for (std::size_t j = 0; j < coefficient_fields().size(); ++j) {
    const CoefficientField& f = coefficient_fields()[j];
    ParameterFit p{std::string(f.name),
                   std::string(f.meaning),
                   shipped.*f.member,
                   out.coefficients.*f.member,
                   f.sigma,
                   f.sigma,
                   f.additive,
                   false};
    const auto at = std::find(which.begin(), which.end(), j);
    if (at != which.end()) {
      p.identified = true;
      p.sigma = std::min(f.sigma, sigma[static_cast<std::size_t>(at - which.begin())]);
    } else {
      unknown += cat(unknown.empty() ? "" : ", ", f.name);
    }
    out.parameters.push_back(std::move(p));
  }
  if (!unknown.empty()) out.warnings.push_back(cat("these runs do not determine ", unknown, ": left as shipped"));
}

void warn(UserFit& out) {
  if (out.configurations < static_cast<std::int64_t>(kFewest))
    out.warnings.push_back(cat(std::to_string(out.configurations), out.configurations == 1 ? " configuration" : " configurations",
                               ": nothing was held out, so the error on other configurations is unknown; use three or more that "
                               "differ in size and parallelism"));
  for (const ParameterFit& p : out.parameters)
    if (const std::string far = job::far_from_shipped(p.name, p.widths(), p.value, p.prior); !far.empty())
      out.warnings.push_back(far);
  if (out.held_out.n > 0 && out.held_out.mape > out.before.mape)
    out.warnings.push_back("on held-out runs the fitted coefficients are no better than the shipped ones: do not use them");
  std::string names;
  std::int64_t off = 0;
  for (const RunFit& r : out.runs) {
    const double ratio = r.fitted_s / r.measured_s;
    if (ratio > 0.75 && ratio < 1.33) continue;
    if (++off <= 5) names += cat(names.empty() ? "" : ", ", r.id, " (× ", base::fixed(ratio, 2), ")");
  }
  if (off > 5) names += ", …";
  if (off > 0)
    out.warnings.push_back(cat("predicted over measured stays far from 1 after fitting for ", std::to_string(off),
                               off == 1 ? " run: " : " runs: ", names, "; is the configuration right? was the machine shared?"));
}

}  // namespace

double ParameterFit::widths() const {
  const double distance = additive ? value - prior : std::log(value / prior);
  return prior_sigma > 0 && std::isfinite(distance) ? std::fabs(distance) / prior_sigma : 0;
}

UserFit fit_user(const std::vector<UserRow>& rows, const std::vector<double>& before_s, const std::string& engine, int threads) {
  UserFit out;
  const FrameworkCoefficients shipped = find_engine(engine)->coefficients;
  std::size_t configurations = 0;
  const std::vector<int> fold = folds_of(rows, configurations);
  out.configurations = static_cast<std::int64_t>(configurations);
  const Data all = data_of(rows, fold, -1, threads);

  std::vector<std::size_t> which = identified(all, strongest_slopes(all, shipped));
  out.coefficients = solve(all, shipped, which);
  const std::vector<std::size_t> still = identified(all, jacobian(all, out.coefficients), which);
  if (still != which) out.coefficients = solve(all, shipped, which = still);
  describe_parameters(all, shipped, which, out);

  const std::vector<double> fitted = predicted_s(all.rows, out.coefficients, threads);
  std::vector<double> before_errors, fitted_errors;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const CorpusRow& row = rows[i].row;
    out.runs.push_back({row.result.id, row.result.label, row.devices, *row.result.measured_s, before_s[i], 0, fitted[i]});
    before_errors.push_back(before_s[i] / *row.result.measured_s - 1);
    fitted_errors.push_back(fitted[i] / *row.result.measured_s - 1);
    out.devices_low = i == 0 ? row.devices : std::min(out.devices_low, row.devices);
    out.devices_high = std::max(out.devices_high, row.devices);
  }
  out.before = runs::summarize(before_errors);
  out.fitted = runs::summarize(fitted_errors);
  cross_validate(rows, fold, configurations, shipped, which, threads, out);
  set_interval(all, engine, rows.empty() ? "" : rows.front().row.device, out);
  warn(out);
  return out;
}

}  // namespace espalier::calibrate
