// SPDX-License-Identifier: Apache-2.0
// Protocol G of one source.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "lab/protocol.h"
#include "plan/structure.h"

namespace espalier::lab {
namespace {

using Rows = std::vector<const calibrate::Row*>;
using Seconds = std::vector<double>;

/// What the runs of a source may change of what other sources say: nothing, its engines, its engines and devices.
constexpr std::size_t kAdaptations = 3;
constexpr std::size_t kMostInside = 80;  ///< rows that teach where the choice alone depends on it: every n-th of more

/// Rows of a source, copied since devices change, and the fold of each.
struct Source {
  std::vector<calibrate::Row> rows;
  std::vector<int> fold;
  std::set<int> folds;
  bool several_chips = false;  ///< devices keep what each has shown; of a single chip the engine's coefficients say it
  const Known* known = nullptr;
  const ProtocolOptions* options = nullptr;
};

std::map<std::string, Rows> by_engine(const Source& s, const std::vector<std::size_t>& places) {
  std::map<std::string, Rows> out;
  for (const std::size_t i : places) out[s.rows[i].engine].push_back(&s.rows[i]);
  return out;
}

std::map<std::string, FrameworkCoefficients> fit_engines(const Source& s, const std::map<std::string, Rows>& taught) {
  FrameworkFitOptions inside = s.options->fit;
  inside.shared_error = 0;
  std::map<std::string, FrameworkCoefficients> out = s.known->engines;
  for (const auto& [engine, rows] : taught) {
    Prior prior = base_prior();
    prior.center = s.known->engines.at(engine);
    out[engine] = fit_framework(rows, prior, inside).value;
  }
  return out;
}

void fit_devices(Source& s, const std::vector<std::size_t>& places, const std::map<std::string, FrameworkCoefficients>& engines) {
  TrainingFitOptions inside = s.options->training;
  inside.from_rows = true;
  inside.most_rows = s.options->rows_inside;
  Rows rows;
  for (const std::size_t i : places) rows.push_back(&s.rows[i]);
  const TrainingFit fit = fit_training(rows, engines, inside);
  for (calibrate::Row& row : s.rows) put_training_values(row, fit.values);
}

/// Seconds of `asked` by what `taught` has adapted; by place, 0 of the others.
using Predictions = std::array<Seconds, kAdaptations>;

void predict(Source& s, const std::map<std::string, FrameworkCoefficients>& engines, const std::vector<std::size_t>& asked,
             Seconds& out) {
  out.assign(s.rows.size(), 0.0);
  for (const auto& [engine, rows] : by_engine(s, asked)) {
    const std::vector<double> t = calibrate::predicted_s(rows, engines.at(engine), s.options->fit.threads);
    for (std::size_t i = 0; i < rows.size(); ++i) out[static_cast<std::size_t>(rows[i] - s.rows.data())] = t[i];
  }
}

Predictions predict(Source& s, const std::vector<std::size_t>& taught, const std::vector<std::size_t>& asked) {
  Predictions out;
  for (calibrate::Row& row : s.rows) put_training_values(row, s.known->devices);
  predict(s, s.known->engines, asked, out[0]);
  std::map<std::string, FrameworkCoefficients> engines = fit_engines(s, by_engine(s, taught));
  predict(s, engines, asked, out[1]);
  out[2] = out[1];
  if (!s.several_chips) return out;
  fit_devices(s, taught, engines);
  engines = fit_engines(s, by_engine(s, taught));
  predict(s, engines, asked, out[2]);
  return out;
}

std::vector<std::size_t> places(const Source& s, const std::function<bool(int)>& wanted) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < s.rows.size(); ++i)
    if (wanted(s.fold[i])) out.push_back(i);
  return out;
}

std::vector<std::size_t> every_nth(std::vector<std::size_t> all) {
  const std::size_t step = (all.size() + kMostInside - 1) / kMostInside;
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < all.size(); i += std::max<std::size_t>(1, step)) out.push_back(all[i]);
  return out;
}

/// The loss of the fits (framework_fit.h): squares, linear from two units of noise on, a logarithm from six on.
double loss(double error, double noise) {
  constexpr double kLinear = 2, kFar = 3;
  const double r = std::abs(error) / noise;
  if (r <= kLinear) return r * r;
  if (r <= kFar * kLinear) return kLinear * (2 * r - kLinear);
  return kLinear * kLinear * (2 * kFar - 1 + 2 * kFar * std::log(r / (kFar * kLinear)));
}

/// What predicts the other folds of `f` best when each is left out beside it, for rows with experts or for those without: the least that is not worse
/// than the best by more than the standard error of the difference over the folds (Breiman et al. 1984, the rule of one standard error).
std::size_t chosen(const Source& s, const std::map<std::pair<int, int>, Predictions>& pairs, int f, bool experts) {
  std::vector<std::array<double, kAdaptations>> folds;
  for (const int g : s.folds) {
    if (g == f) continue;
    const Predictions& t = pairs.at(std::minmax(f, g));
    folds.emplace_back();
    for (std::size_t i = 0; i < s.rows.size(); ++i)
      for (std::size_t a = 0; a < kAdaptations; ++a)
        if (s.fold[i] == g && has_experts(s.rows[i].run.job.model) == experts)
          folds.back()[a] +=
              s.rows[i].weight * loss(std::log(t[a][i] / *s.rows[i].result.measured_s), s.options->fit.noise);
  }
  const auto total = [&](std::size_t a) {
    return std::accumulate(folds.begin(), folds.end(), 0.0, [&](double sum, const auto& fold) { return sum + fold[a]; });
  };
  std::size_t best = 0;
  for (std::size_t a = 1; a < kAdaptations; ++a)
    if (total(a) < total(best)) best = a;
  const auto n = static_cast<double>(folds.size());
  for (std::size_t a = 0; a < best; ++a) {
    double squares = 0;
    const double mean = (total(a) - total(best)) / n;
    for (const auto& fold : folds) squares += std::pow(fold[a] - fold[best] - mean, 2);
    if (n < 2 || mean <= std::sqrt(squares / (n - 1) / n)) return a;
  }
  return best;
}

void judge_fold(Source& s, int f, const std::map<std::pair<int, int>, Predictions>& pairs, Seconds& seconds) {
  const auto taught = places(s, [&](int x) { return x != f; }), asked = places(s, [&](int x) { return x == f; });
  const std::array<std::size_t, 2> adapted = {chosen(s, pairs, f, false), chosen(s, pairs, f, true)};
  const Predictions t = predict(s, taught, asked);
  for (const std::size_t i : asked) seconds[i] = t[adapted[has_experts(s.rows[i].run.job.model) ? 1 : 0]][i];
  if (getenv("XD")) fprintf(stderr, "fold %d dense %zu routed %zu\n", f, adapted[0], adapted[1]);
}

}  // namespace

std::map<std::string, int> folds_of(const std::vector<const calibrate::Row*>& rows, int folds) {
  std::map<std::string, std::size_t> size;
  for (const calibrate::Row* r : rows) ++size[r->group];
  std::vector<std::pair<std::string, std::size_t>> order(size.begin(), size.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::size_t> filled(static_cast<std::size_t>(folds), 0);
  std::map<std::string, int> out;
  for (const auto& [group, n] : order) {
    const auto emptiest = std::min_element(filled.begin(), filled.end());
    *emptiest += n;
    out[group] = static_cast<int>(emptiest - filled.begin());
  }
  return out;
}

void judge_grouped(const calibrate::Corpus& corpus, const std::string& family, const Known& known, const ProtocolOptions& options,
                   std::vector<Judged>& out) {
  Source s;
  s.known = &known;
  s.options = &options;
  std::vector<std::size_t> place;
  Rows all;
  for (std::size_t i = 0; i < corpus.rows.size(); ++i) {
    if (!corpus.rows[i].timed() || corpus.rows[i].family != family) continue;
    s.rows.push_back(corpus.rows[i]);
    place.push_back(i);
    all.push_back(&corpus.rows[i]);
  }
  const auto fold = folds_of(all, options.folds);
  std::set<std::vector<std::string>> chips_seen;
  for (const calibrate::Row& row : s.rows) {
    s.folds.insert(s.fold.emplace_back(fold.at(row.group)));
    chips_seen.insert(chip_of(row.device));
  }
  s.several_chips = chips_seen.size() > 1;
  std::map<std::pair<int, int>, Predictions> pairs;
  for (const int f : s.folds)
    for (const int g : s.folds)
      if (f < g)
        pairs[{f, g}] = predict(s, every_nth(places(s, [&](int x) { return x != f && x != g; })),
                                places(s, [&](int x) { return x == f || x == g; }));
  Seconds seconds(s.rows.size(), 0.0);
  for (const int f : s.folds) judge_fold(s, f, pairs, seconds);
  for (std::size_t i = 0; i < s.rows.size(); ++i) {
    out[place[i]].predicted_s = seconds[i];
    out[place[i]].fold = s.fold[i];
  }
}

}  // namespace espalier::lab
