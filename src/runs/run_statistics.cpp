// SPDX-License-Identifier: Apache-2.0
#include "runs/run_statistics.h"

#include <algorithm>
#include <cmath>

#include "base/invariant.h"
#include "base/statistics.h"

namespace espalier {

void FeasibilitySummary::add(bool predicted_fits, bool measured_fits) {
  if (measured_fits)
    ++(predicted_fits ? true_fit : false_oom);
  else
    ++(predicted_fits ? false_fit : true_oom);
}

}  // namespace espalier

namespace espalier::runs {
ErrorSummary summarize(const std::vector<double>& errors) {
  ErrorSummary s;
  s.n = static_cast<std::int64_t>(errors.size());
  if (errors.empty()) return s;
  std::vector<double> ape;
  for (double e : errors) {
    ESPALIER_CHECK(std::isfinite(e) && e >= -1);  // relative errors of values that are not negative
    ape.push_back(std::fabs(e));
    s.bias += e;
    s.mape += std::fabs(e);
    s.mean_accuracy += std::max(0.0, 1 - std::fabs(e));
  }
  const double n = static_cast<double>(errors.size());
  s.bias /= n;
  s.mape /= n;
  s.mean_accuracy /= n;
  std::sort(ape.begin(), ape.end());
  s.median_ape = base::median(ape);
  s.median_accuracy = std::max(0.0, 1 - s.median_ape);
  s.p90_ape = ape[(9 * ape.size() + 9) / 10 - 1];
  ESPALIER_CHECK(s.median_ape <= s.p90_ape && s.p90_ape <= ape.back());
  return s;
}

double kendall_tau(const std::vector<Pair>& pairs) {
  std::int64_t agree = 0, disagree = 0, tied_predicted = 0, tied_measured = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (std::size_t j = i + 1; j < pairs.size(); ++j) {
      const double p = pairs[i].predicted - pairs[j].predicted, m = pairs[i].measured - pairs[j].measured;
      if (p == 0 && m == 0) continue;
      if (p == 0)
        ++tied_predicted;
      else if (m == 0)
        ++tied_measured;
      else
        ++((p > 0) == (m > 0) ? agree : disagree);
    }
  }
  const double a = static_cast<double>(agree + disagree + tied_predicted),
               b = static_cast<double>(agree + disagree + tied_measured);
  const double tau = a > 0 && b > 0 ? static_cast<double>(agree - disagree) / std::sqrt(a * b) : 0;
  ESPALIER_CHECK(std::fabs(tau) <= 1 + 1e-12);
  return tau;
}

double top1_regret(const std::vector<Pair>& pairs) {
  if (pairs.empty()) return 0;
  const auto chosen =
      std::min_element(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.predicted < b.predicted; });
  const auto best =
      std::min_element(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.measured < b.measured; });
  ESPALIER_CHECK(best->measured > 0);  // seconds of steps that ran
  return 1 - best->measured / chosen->measured;
}

std::vector<Pair> once_each(const RepeatedRuns& runs) {
  std::vector<Pair> out;
  for (const auto& [configuration, pairs] : runs) {
    std::vector<double> predicted, measured;
    for (const Pair& p : pairs) {
      predicted.push_back(p.predicted);
      measured.push_back(p.measured);
    }
    out.push_back({base::median(std::move(predicted)), base::median(std::move(measured))});
  }
  return out;
}

RankingSummary rank(const std::vector<std::vector<Pair>>& groups) {
  RankingSummary s;
  for (const auto& group : groups) {
    if (group.size() < 2) continue;
    ++s.groups;
    s.kendall_tau += kendall_tau(group);
    const double regret = top1_regret(group);
    s.mean_top1_regret += regret;
    s.max_top1_regret = std::max(s.max_top1_regret, regret);
  }
  if (s.groups > 0) {
    s.kendall_tau /= static_cast<double>(s.groups);
    s.mean_top1_regret /= static_cast<double>(s.groups);
  }
  return s;
}

}  // namespace espalier::runs
