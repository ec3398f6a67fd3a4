// SPDX-License-Identifier: Apache-2.0
#include "lab/protocol.h"
#include "plan/engine.h"

#include <algorithm>
#include <cmath>

namespace espalier::lab {
namespace {

using Rows = std::vector<const calibrate::CorpusRow*>;
using Fits = std::map<std::string, FrameworkFit>;

std::map<std::string, Rows> by_engine(const calibrate::Corpus& corpus, const std::string& without) {
  std::map<std::string, Rows> out;
  for (const calibrate::CorpusRow& row : corpus.rows)
    if (calibrate::teaches(row) && row.family != without) out[row.engine].push_back(&row);
  return out;
}

Fits fit_each(const std::map<std::string, Rows>& rows, const Prior& prior, const ProtocolOptions& options, const Fits* known) {
  Fits fits;
  for (const auto& [engine, list] : rows) {
    if (known) {  // nothing was left out for this engine: the fit on all rows holds
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

/// Holds the coefficients of every engine and of devices with the source `without` left out. They are fitted where
/// other sources cover them; otherwise they are the pooled prior.
struct Knowledge {
  Fits first, fits;  ///< from the base prior, then from the pooled one
  Prior pooled;
  TrainingFit training;
};

std::map<std::string, FrameworkCoefficients> values_of(const std::map<std::string, Rows>& rows, const Fits& fits,
                                                       const Prior& pooled) {
  std::map<std::string, FrameworkCoefficients> out;
  for (const auto& [engine, list] : rows) {
    const auto it = fits.find(engine);
    out[engine] = it == fits.end() ? pooled.center : it->second.value;
  }
  return out;
}

/// Fits engines and devices in turn, on all rows.
Knowledge learn_all(calibrate::Corpus& corpus, const ProtocolOptions& options) {
  Knowledge k;
  set_training_values(corpus, {});
  const auto rows = by_engine(corpus, "");
  for (int round = 0; round < options.rounds; ++round) {
    k.first = fit_each(rows, base_prior(), options, nullptr);
    k.pooled = pool(k.first, base_prior());
    k.fits = fit_each(rows, k.pooled, options, nullptr);
    if (round + 1 == options.rounds) break;
    k.training = fit_training(corpus, values_of(rows, k.fits, k.pooled), "", options.training);
    set_training_values(corpus, k.training.values);
  }
  return k;
}

/// Fits without one family: first the devices, given the engines of the other families, then the engines
/// of the family.
Knowledge learn_without(calibrate::Corpus& corpus, const std::string& without, const ProtocolOptions& options,
                        const Knowledge& all) {
  Knowledge k;
  const auto rows = by_engine(corpus, without);
  set_training_values(corpus, all.training.values);
  k.first = fit_each(rows, base_prior(), options, &all.first);
  k.pooled = pool(k.first, base_prior());
  k.training = fit_training(corpus, values_of(rows, k.first, k.pooled), without, options.training);
  set_training_values(corpus, k.training.values);
  std::map<std::string, Rows> wanted;
  for (const auto& [engine, list] : rows) {
    const bool needed = std::any_of(corpus.rows.begin(), corpus.rows.end(), [&, name = engine](const calibrate::CorpusRow& r) {
      return r.engine == name && r.family == without;
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

void predict_rows(const calibrate::Corpus& corpus, const Rows& rows, const FrameworkCoefficients& c, int threads,
                  std::vector<Judged>& out) {
  const std::vector<double> t = calibrate::predicted_s(rows, c, threads);
  for (std::size_t i = 0; i < rows.size(); ++i) out[static_cast<std::size_t>(rows[i] - corpus.rows.data())].predicted_s = t[i];
}

std::map<std::string, Rows> family_rows(const calibrate::Corpus& corpus, const std::string& family) {
  std::map<std::string, Rows> out;
  for (const calibrate::CorpusRow& row : corpus.rows)
    if (row.timed() && row.family == family) out[row.engine].push_back(&row);
  return out;
}

Known known_of(const Knowledge& k, const std::map<std::string, Rows>& engines) {
  Known out;
  out.devices = k.training.values;
  for (const auto& [engine, rows] : engines) out.engines[engine] = coefficients_for(k, engine);
  return out;
}

double log_ratio(const calibrate::CorpusRow& row, const Judged& j) { return std::log(*row.result.measured_s / j.predicted_s); }

/// Returns the residuals of all families but one.
std::vector<Residual> residuals_without(const calibrate::Corpus& corpus, const std::vector<Judged>& judged,
                                        const std::string& without) {
  std::vector<Residual> out;
  for (std::size_t i = 0; i < corpus.rows.size(); ++i) {
    const calibrate::CorpusRow& r = corpus.rows[i];
    if (r.timed() && r.trusted && r.family != without && judged[i].predicted_s > 0)
      out.push_back({log_ratio(r, judged[i]), r.weight, r.family, r.engine, r.device, r.group});
  }
  return out;
}

void source_intervals(const calibrate::Corpus& corpus, const ProtocolOptions& options, std::vector<Judged>& judged) {
  for (const std::string& family : corpus.families) {
    const std::vector<Residual> others = residuals_without(corpus, judged, family);
    const planner::IntervalTable table = fit_intervals(others, others, true, options.interval);
    for (std::size_t i = 0; i < corpus.rows.size(); ++i) {
      const calibrate::CorpusRow& r = corpus.rows[i];
      if (!r.timed() || r.family != family) continue;
      const planner::PredictionInterval interval = planner::interval_for(table, r.engine, r.device);
      judged[i].low_s = judged[i].predicted_s * interval.low;
      judged[i].high_s = judged[i].predicted_s * interval.high;
    }
  }
}

/// Returns the residuals of a family outside one fold.
std::vector<Residual> residuals_of_other_folds(const calibrate::Corpus& corpus, const std::vector<Judged>& judged,
                                               const std::string& family, int fold) {
  std::vector<Residual> out;
  for (std::size_t i = 0; i < corpus.rows.size(); ++i) {
    const calibrate::CorpusRow& r = corpus.rows[i];
    if (r.timed() && r.family == family && judged[i].fold != fold)
      out.push_back({log_ratio(r, judged[i]), r.weight, r.family, r.engine, r.device, r.group});
  }
  return out;
}

void grouped_intervals(const calibrate::Corpus& corpus, const ProtocolOptions& options, std::vector<Judged>& judged) {
  for (const std::string& family : corpus.families) {
    const Variance prior = prior_of_families(residuals_without(corpus, judged, family), Sharing::group);
    for (int f = 0; f < options.folds; ++f) {
      const std::vector<ErrorPoint> own = points_of(residuals_of_other_folds(corpus, judged, family, f), Sharing::group);
      const Sides sides = error_sides(own, effective_runs(own, intraclass_correlation(own)), prior, options.interval.level);
      for (std::size_t i = 0; i < corpus.rows.size(); ++i) {
        if (corpus.rows[i].family != family || judged[i].fold != f) continue;
        judged[i].low_s = judged[i].predicted_s * std::exp(-sides.low);
        judged[i].high_s = judged[i].predicted_s * std::exp(sides.high);
      }
    }
  }
}

bool is_judged(const std::string& family, const ProtocolOptions& options) {
  const auto begins = [&](const std::string& prefix) { return family.compare(0, prefix.size(), prefix) == 0; };
  return options.judged.empty() || std::any_of(options.judged.begin(), options.judged.end(), begins);
}

/// Predicts with the shipped coefficients under every heading and fits no times. Assigns folds to the rows because
/// memory is judged under its own protocols.
void predict_shipped(const calibrate::Corpus& corpus, const ProtocolOptions& options, Protocols& p) {
  for (const std::string& family : corpus.families) {
    Rows all;
    for (const auto& [engine, rows] : family_rows(corpus, family)) {
      predict_rows(corpus, rows, find_engine(engine)->coefficients, options.fit.threads, p.shipped);
      all.insert(all.end(), rows.begin(), rows.end());
    }
    const std::vector<int> fold = folds_of(all, options.folds);
    for (std::size_t i = 0; i < all.size(); ++i) p.shipped[static_cast<std::size_t>(all[i] - corpus.rows.data())].fold = fold[i];
  }
  p.source_out = p.grouped = p.shipped;
  judge_memory(corpus, p);
}

}  // namespace

Protocols run_protocols(calibrate::Corpus& corpus, const ProtocolOptions& options) {
  Protocols p;
  p.shipped.resize(corpus.rows.size());
  p.source_out.resize(corpus.rows.size());
  p.grouped.resize(corpus.rows.size());
  if (options.only_shipped) {
    predict_shipped(corpus, options, p);
    return p;
  }
  const Knowledge all = learn_all(corpus, options);
  p.fits = all.fits;
  p.pooled = all.pooled;
  p.training = all.training;
  for (const std::string& family : corpus.families) {
    const auto engines = family_rows(corpus, family);
    if (engines.empty() || !is_judged(family, options)) continue;
    set_training_values(corpus, all.training.values);
    for (const auto& [engine, rows] : engines)
      predict_rows(corpus, rows, coefficients_for(all, engine), options.fit.threads, p.shipped);
    const Knowledge others = learn_without(corpus, family, options, all);
    for (const auto& [engine, rows] : engines)
      predict_rows(corpus, rows, coefficients_for(others, engine), options.fit.threads, p.source_out);
    p.left_out[family] = known_of(others, engines);
    if (options.grouped) judge_grouped(corpus, family, p.left_out[family], options, p.grouped);
  }
  set_training_values(corpus, all.training.values);
  judge_memory(corpus, p);
  source_intervals(corpus, options, p.source_out);
  p.intervals = fit_intervals(residuals_without(corpus, options.grouped ? p.grouped : p.source_out, ""),
                              residuals_without(corpus, p.source_out, ""), !options.grouped, options.interval);
  if (options.grouped) grouped_intervals(corpus, options, p.grouped);
  return p;
}

}  // namespace espalier::lab
