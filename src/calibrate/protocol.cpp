// SPDX-License-Identifier: Apache-2.0
#include "calibrate/protocol.h"

#include <algorithm>
#include <cmath>

namespace espalier::calibrate {
namespace {

using Rows = std::vector<const Row*>;
using Fits = std::map<std::string, FrameworkFit>;
/// (log(measured/predicted), weight)
using Residuals = std::vector<std::pair<double, double>>;

std::map<std::string, Rows> by_engine(const Corpus& corpus, const std::string& without) {
  std::map<std::string, Rows> out;
  for (const Row& row : corpus.rows)
    if (row.timed() && row.family != without) out[row.result.engine].push_back(&row);
  return out;
}

Fits fit_each(const std::map<std::string, Rows>& rows, const Prior& prior, const ProtocolOptions& options, const Fits* known) {
  Fits fits;
  for (const auto& [engine, list] : rows) {
    if (known) {  // nothing was left out of this engine: the fit on all rows holds
      const auto it = known->find(engine);
      if (it != known->end() && it->second.rows == static_cast<std::int64_t>(list.size())) {
        fits.emplace(engine, it->second);
        continue;
      }
    }
    fits.emplace(engine, fit_framework(list, prior, options.fit));
  }
  return fits;
}

/// Coefficients of every engine when `without` is unknown: fitted where other sources have the engine, else the pooled prior.
struct Knowledge {
  Fits first, fits;  ///< from the base prior, then from the pooled one
  Prior pooled;
};
Knowledge learn(const Corpus& corpus, const std::string& without, const ProtocolOptions& options, const Knowledge* all) {
  Knowledge k;
  const auto rows = by_engine(corpus, without);
  k.first = fit_each(rows, base_prior(), options, all ? &all->first : nullptr);
  k.pooled = pool(k.first, base_prior());
  std::map<std::string, Rows> wanted;
  for (const auto& [engine, list] : rows) {
    const bool needed = std::any_of(corpus.rows.begin(), corpus.rows.end(), [&](const Row& r) {
      return r.result.engine == engine && (without.empty() || r.family == without);
    });
    if (needed) wanted.emplace(engine, list);
  }
  k.fits = fit_each(wanted, k.pooled, options, nullptr);
  return k;
}

FrameworkCoefficients coefficients_for(const Knowledge& k, const std::string& engine) {
  const auto it = k.fits.find(engine);
  return it == k.fits.end() ? k.pooled.center : it->second.value;
}

/// Fold of each group: largest first to the emptiest fold, names decide ties.
std::map<std::string, int> folds_of(const Rows& rows, int folds) {
  std::map<std::string, std::size_t> size;
  for (const Row* r : rows) ++size[r->group];
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

void predict_rows(const Corpus& corpus, const Rows& rows, const FrameworkCoefficients& c, int threads, std::vector<Judged>& out) {
  const std::vector<double> t = predicted_s(rows, c, threads);
  for (std::size_t i = 0; i < rows.size(); ++i)
    out[static_cast<std::size_t>(rows[i] - corpus.rows.data())].predicted_s = t[i];
}

std::map<std::string, Rows> family_rows(const Corpus& corpus, const std::string& family) {
  std::map<std::string, Rows> out;
  for (const Row& row : corpus.rows)
    if (row.timed() && row.family == family) out[row.result.engine].push_back(&row);
  return out;
}

void judge_grouped(const Corpus& corpus, const std::string& family, const Knowledge& known, const ProtocolOptions& options,
                   std::vector<Judged>& out) {
  const auto engines = family_rows(corpus, family);
  Rows all;
  for (const auto& [engine, rows] : engines) all.insert(all.end(), rows.begin(), rows.end());
  const auto fold = folds_of(all, options.folds);
  for (const auto& [engine, rows] : engines) {
    Prior prior = base_prior();
    prior.center = coefficients_for(known, engine);
    for (int f = 0; f < options.folds; ++f) {
      Rows train, test;
      for (const Row* r : rows) (fold.at(r->group) == f ? test : train).push_back(r);
      if (test.empty()) continue;
      const FrameworkFit fit = fit_framework(train, prior, options.fit);
      predict_rows(corpus, test, fit.value, options.fit.threads, out);
      for (const Row* r : test) out[static_cast<std::size_t>(r - corpus.rows.data())].fold = f;
    }
  }
}

double residual(const Row& row, const Judged& j) { return std::log(*row.result.measured_s / j.predicted_s); }

/// Of all families but one, each with the weight of one.
Residuals residuals_without(const Corpus& corpus, const std::vector<Judged>& judged, const std::string& without) {
  std::map<std::string, double> n;
  for (const Row& r : corpus.rows)
    if (r.timed()) n[r.family] += r.weight;
  Residuals out;
  for (std::size_t i = 0; i < corpus.rows.size(); ++i) {
    const Row& r = corpus.rows[i];
    if (r.timed() && r.family != without) out.emplace_back(residual(r, judged[i]), r.weight / n[r.family]);
  }
  return out;
}

void set_interval(Judged& j, const Residuals& residuals, double level) {
  if (residuals.empty()) return;
  j.low_s = j.predicted_s * std::exp(weighted_quantile(residuals, (1 - level) / 2));
  j.high_s = j.predicted_s * std::exp(weighted_quantile(residuals, (1 + level) / 2));
}

void source_intervals(const Corpus& corpus, const ProtocolOptions& options, std::vector<Judged>& judged) {
  for (const std::string& family : corpus.families) {
    const Residuals others = residuals_without(corpus, judged, family);
    Judged unit{1, 0, 0, -1};
    set_interval(unit, others, options.level);
    for (std::size_t i = 0; i < corpus.rows.size(); ++i) {
      if (!corpus.rows[i].timed() || corpus.rows[i].family != family) continue;
      judged[i].low_s = judged[i].predicted_s * unit.low_s, judged[i].high_s = judged[i].predicted_s * unit.high_s;
    }
  }
}

void grouped_intervals(const Corpus& corpus, const ProtocolOptions& options, const std::vector<Judged>& source_out,
                       std::vector<Judged>& judged) {
  for (const std::string& family : corpus.families) {
    Residuals prior = residuals_without(corpus, source_out, family);
    double total = 0;
    for (const auto& r : prior) total += r.second;
    for (auto& r : prior) r.second *= options.prior_rows / std::max(total, 1e-9);
    for (int f = 0; f < options.folds; ++f) {
      Residuals known = prior;
      for (std::size_t i = 0; i < corpus.rows.size(); ++i) {
        const Row& r = corpus.rows[i];
        if (r.timed() && r.family == family && judged[i].fold != f) known.emplace_back(residual(r, judged[i]), r.weight);
      }
      Judged unit{1, 0, 0, -1};
      set_interval(unit, known, options.level);
      for (std::size_t i = 0; i < corpus.rows.size(); ++i) {
        if (corpus.rows[i].family != family || judged[i].fold != f) continue;
        judged[i].low_s = judged[i].predicted_s * unit.low_s, judged[i].high_s = judged[i].predicted_s * unit.high_s;
      }
    }
  }
}

}  // namespace

double weighted_quantile(std::vector<std::pair<double, double>> value_weight, double q) {
  std::sort(value_weight.begin(), value_weight.end());
  double total = 0, below = 0;
  for (const auto& [value, weight] : value_weight) total += weight;
  for (const auto& [value, weight] : value_weight) {
    below += weight;
    if (below >= q * total) return value;
  }
  return value_weight.empty() ? 0 : value_weight.back().first;
}

Protocols run_protocols(const Corpus& corpus, const ProtocolOptions& options) {
  Protocols p;
  p.shipped.resize(corpus.rows.size()), p.source_out.resize(corpus.rows.size()), p.grouped.resize(corpus.rows.size());
  const Knowledge all = learn(corpus, "", options, nullptr);
  p.fits = all.fits, p.pooled = all.pooled;
  for (const std::string& family : corpus.families) {
    const auto engines = family_rows(corpus, family);
    if (engines.empty()) continue;
    const Knowledge others = learn(corpus, family, options, &all);
    for (const auto& [engine, rows] : engines) {
      predict_rows(corpus, rows, coefficients_for(all, engine), options.fit.threads, p.shipped);
      predict_rows(corpus, rows, coefficients_for(others, engine), options.fit.threads, p.source_out);
      p.left_out[family][engine] = coefficients_for(others, engine);
    }
    if (options.grouped) judge_grouped(corpus, family, others, options, p.grouped);
  }
  source_intervals(corpus, options, p.source_out);
  if (options.grouped) grouped_intervals(corpus, options, p.source_out, p.grouped);
  return p;
}

}  // namespace espalier::calibrate
