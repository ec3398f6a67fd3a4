// SPDX-License-Identifier: Apache-2.0
// Implements protocol G for one source.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <set>

#include "calibrate/least_squares.h"
#include "lab/framework_fit.h"
#include "lab/protocol.h"
#include "plan/structure.h"

namespace espalier::lab {
namespace {

using Rows = std::vector<const calibrate::CorpusRow*>;
using Seconds = std::vector<double>;

/// Counts the adaptations that the runs of a source may choose: none, its engines, or its engines and devices.
constexpr std::size_t kAdaptations = 3;
/// Limits the rows that a lesson fits when only the choice depends on it; larger sets are thinned to every n-th row.
constexpr std::size_t kMostInside = 80;

/// Holds copies of the rows of a source, since their devices change, and the fold of each.
struct Source {
  std::vector<calibrate::CorpusRow> rows;
  /// Holds the node groups of each row, before the runs of this source changed its devices.
  std::vector<std::vector<NodeGroup>> nodes;
  std::vector<int> fold;
  std::set<int> folds;
  /// Devices are fitted only where there are several chips; for a single chip the engine's coefficients
  /// absorb its rate.
  bool several_chips = false;
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
  inside.between_sources = 0;
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
  for (calibrate::CorpusRow& row : s.rows) put_training_values(row, fit.values);
}

/// Holds predicted seconds by adaptation and row.
using Predictions = std::array<Seconds, kAdaptations>;

void predict(Source& s, const std::map<std::string, FrameworkCoefficients>& engines, const std::vector<std::size_t>& asked,
             Seconds& out) {
  out.assign(s.rows.size(), 0.0);
  for (const auto& [engine, rows] : by_engine(s, asked)) {
    const std::vector<double> t = calibrate::predicted_s(rows, engines.at(engine), s.options->fit.threads);
    for (std::size_t i = 0; i < rows.size(); ++i) out[static_cast<std::size_t>(rows[i] - s.rows.data())] = t[i];
  }
}

/// Predicts the rows `asked` under each adaptation fitted to the rows `taught`; all other rows are 0.
Predictions predict(Source& s, const std::vector<std::size_t>& taught, const std::vector<std::size_t>& asked) {
  Predictions out;
  for (std::size_t i = 0; i < s.rows.size(); ++i) s.rows[i].run.job.cluster.groups = s.nodes[i];
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

/// Returns a key of everything but the batch; runs of one configuration are left out together.
std::string configuration_of(const calibrate::CorpusRow& row) {
  return row.group + "|" + row.result.label + "|" + row.result.engine + "|" +
         std::string(to_string(row.run.job.training.precision));
}

std::vector<std::size_t> every_nth(std::vector<std::size_t> all) {
  const std::size_t step = (all.size() + kMostInside - 1) / kMostInside;
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < all.size(); i += std::max<std::size_t>(1, step)) out.push_back(all[i]);
  return out;
}

/// Returns the loss that the fits use.
double loss(double error, double noise) { return calibrate::robust_loss(error / noise, kTrainingHuber, kTrainingFar); }

/// Holds held-out rows and their predictions from other rows of the source, without the fold that is judged.
struct FoldLesson {
  std::vector<std::size_t> asked;
  Predictions seconds;
};

/// Returns the lessons of models with experts, or without, outside fold `f`. Each of their folds is left out together
/// with `f`; if there is only one, each of its configurations is.
std::vector<FoldLesson> lessons_without(Source& s, int f, bool experts, const std::map<std::pair<int, int>, Predictions>& pairs) {
  const auto of_kind = [&](std::size_t i) { return has_experts(s.rows[i].run.job.model) == experts; };
  std::map<int, std::vector<std::size_t>> by_fold;
  for (std::size_t i = 0; i < s.rows.size(); ++i)
    if (s.fold[i] != f && of_kind(i)) by_fold[s.fold[i]].push_back(i);
  std::vector<FoldLesson> out;
  if (by_fold.size() > 1) {
    for (const auto& [g, asked] : by_fold) out.push_back({asked, pairs.at(std::minmax(f, g))});
    return out;
  }
  const std::vector<std::size_t> all = places(s, [&](int x) { return x != f; });
  for (const auto& [g, of_fold] : by_fold) {
    std::map<std::string, std::vector<std::size_t>> configurations;
    for (const std::size_t i : of_fold) configurations[configuration_of(s.rows[i])].push_back(i);
    for (const auto& [name, asked] : configurations) {
      std::vector<std::size_t> taught;
      std::set_difference(all.begin(), all.end(), asked.begin(), asked.end(), std::back_inserter(taught));
      out.push_back({asked, predict(s, every_nth(taught), asked)});
    }
  }
  return out;
}

/// Returns the adaptation that predicts the lessons best. A smaller one wins if its loss exceeds the best by at most
/// the standard error of the difference over the lessons (one-standard-error rule, Breiman et al. 1984).
std::size_t chosen(const Source& s, const std::vector<FoldLesson>& lessons) {
  std::vector<std::array<double, kAdaptations>> losses;
  std::array<double, kAdaptations> total{};
  for (const FoldLesson& lesson : lessons) {
    losses.emplace_back();
    for (const std::size_t i : lesson.asked) {
      const auto fails = [&](const Seconds& t) { return !std::isfinite(t[i]) || t[i] <= 0; };
      if (std::any_of(lesson.seconds.begin(), lesson.seconds.end(), fails)) continue;
      for (std::size_t a = 0; a < kAdaptations; ++a)
        losses.back()[a] +=
            s.rows[i].weight * loss(std::log(lesson.seconds[a][i] / *s.rows[i].result.measured_s), s.options->fit.noise);
    }
    for (std::size_t a = 0; a < kAdaptations; ++a) total[a] += losses.back()[a];
  }
  const auto best = static_cast<std::size_t>(std::min_element(total.begin(), total.end()) - total.begin());
  const auto n = static_cast<double>(losses.size());
  for (std::size_t a = 0; a < best; ++a) {
    const double mean = (total[a] - total[best]) / n;
    double squares = 0;
    for (const auto& each : losses) squares += std::pow(each[a] - each[best] - mean, 2);
    if (n < 2 || mean <= std::sqrt(squares / (n - 1) / n)) return a;
  }
  return best;
}

void judge_fold(Source& s, int f, const std::map<std::pair<int, int>, Predictions>& pairs, Seconds& seconds) {
  const auto taught = places(s, [&](int x) { return x != f; }), asked = places(s, [&](int x) { return x == f; });
  const std::array<std::size_t, 2> adapted = {chosen(s, lessons_without(s, f, false, pairs)),
                                              chosen(s, lessons_without(s, f, true, pairs))};
  const Predictions t = predict(s, taught, asked);
  for (const std::size_t i : asked) seconds[i] = t[adapted[has_experts(s.rows[i].run.job.model) ? 1 : 0]][i];
}

}  // namespace

std::vector<int> folds_of(const std::vector<const calibrate::CorpusRow*>& rows, int folds) {
  const bool one =
      std::all_of(rows.begin(), rows.end(), [&](const calibrate::CorpusRow* r) { return r->group == rows.front()->group; });
  const auto key = [&](const calibrate::CorpusRow& r) { return one ? configuration_of(r) : r.group; };
  std::map<std::string, std::size_t> size;
  for (const calibrate::CorpusRow* r : rows) ++size[key(*r)];
  std::vector<std::pair<std::string, std::size_t>> order(size.begin(), size.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::size_t> filled(static_cast<std::size_t>(folds), 0);
  std::map<std::string, int> fold;
  for (const auto& [name, n] : order) {
    const auto emptiest = std::min_element(filled.begin(), filled.end());
    *emptiest += n;
    fold[name] = static_cast<int>(emptiest - filled.begin());
  }
  std::vector<int> out;
  for (const calibrate::CorpusRow* r : rows) out.push_back(fold.at(key(*r)));
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
    put_training_values(s.rows.back(), known.devices);
    s.nodes.push_back(s.rows.back().run.job.cluster.groups);
    place.push_back(i);
    all.push_back(&corpus.rows[i]);
  }
  s.fold = folds_of(all, options.folds);
  s.folds = {s.fold.begin(), s.fold.end()};
  std::set<std::vector<std::string>> chips_seen;
  for (const calibrate::CorpusRow& row : s.rows) chips_seen.insert(chip_of(row.device));
  s.several_chips = chips_seen.size() > 1;
  std::map<std::pair<int, int>, Predictions> pairs;
  for (const int f : s.folds)
    for (const int g : s.folds)
      if (f < g && s.folds.size() > 2)
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
