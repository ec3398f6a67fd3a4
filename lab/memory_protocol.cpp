// SPDX-License-Identifier: Apache-2.0
// Judges memory under both protocols; the allocator's reserve is the only scalar that is fitted.
#include <algorithm>
#include <cmath>
#include <functional>

#include "base/statistics.h"
#include "calibrate/least_squares.h"
#include "lab/protocol.h"
#include "plan/engine.h"

namespace espalier::lab {
namespace {

constexpr double kPriorReserve = 0.06, kPriorRuns = 10;

bool has_reserve(const calibrate::CorpusRow& r) { return r.result.measured_bytes && r.result.memory_kind != "allocated"; }

double tensors(const calibrate::CorpusRow& r) {
  return static_cast<double>(*r.result.predicted_bytes) / (1 + find_engine(r.result.engine)->memory.allocator_reserve);
}

/// Returns the median reserve of the rows that qualify, shrunk to `prior` with the weight of kPriorRuns.
double reserve_of(const calibrate::Corpus& corpus, double prior, const std::function<bool(const calibrate::CorpusRow&)>& wanted) {
  std::vector<double> ratios;
  for (const calibrate::CorpusRow& r : corpus.rows)
    if (has_reserve(r) && wanted(r)) ratios.push_back(static_cast<double>(*r.result.measured_bytes) / tensors(r) - 1);
  if (ratios.empty()) return prior;
  const double n = static_cast<double>(ratios.size());
  return std::clamp((n * base::quantile(ratios, 0.5) + kPriorRuns * prior) / (n + kPriorRuns), 0.0, 0.5);
}

}  // namespace

void judge_memory(const calibrate::Corpus& corpus, Protocols& p) {
  p.source_out_bytes.assign(corpus.rows.size(), 0);
  p.grouped_bytes.assign(corpus.rows.size(), 0);
  for (std::size_t i = 0; i < corpus.rows.size(); ++i) {
    const calibrate::CorpusRow& r = corpus.rows[i];
    if (!r.result.measured_bytes) continue;
    p.source_out_bytes[i] = p.grouped_bytes[i] = static_cast<double>(*r.result.predicted_bytes);
    if (!has_reserve(r)) continue;
    const double pooled = reserve_of(corpus, kPriorReserve, [&](const calibrate::CorpusRow& o) { return o.family != r.family; });
    const double engine =
        reserve_of(corpus, pooled, [&](const calibrate::CorpusRow& o) { return o.family != r.family && o.engine == r.engine; });
    p.source_out_bytes[i] = tensors(r) * (1 + engine);
    const double inside = reserve_of(corpus, engine, [&](const calibrate::CorpusRow& o) {
      const auto at = static_cast<std::size_t>(&o - corpus.rows.data());
      return o.family == r.family && o.engine == r.engine && p.grouped[at].fold != p.grouped[i].fold;
    });
    p.grouped_bytes[i] = tensors(r) * (1 + inside);
  }
}

}  // namespace espalier::lab
