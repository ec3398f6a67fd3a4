// SPDX-License-Identifier: Apache-2.0
// Framework coefficients from measured runs.
//
// One engine: minimise over θ (src/plan/coefficients.h; logarithms of multipliers, additive ones in units of their
// sigma)
//     Σ_i w_i · H( (log(t_i(θ)/T_i) − b_s) / noise )  +  Σ_s (b_s/σ_b)²  +  Σ_j ((θ_j − prior_j)/σ_j)²
// b_s: what all runs of source s have in common beside the engine (a cluster that is slow as a whole): for given θ the
// value that minimises the sum without Huber's loss, Σ w·log(t/T)/noise² / (Σ w/noise² + 1/σ_b²). It is no coefficient:
// another cluster has another one. t predicted, T measured seconds; H Huber's loss with threshold 2, a logarithm from 6
// on (0.48: a factor 1.6, where some runs are in a state of their own, as nanotron's with slow messages); w_i the row's
// weight, scaled so that no source counts for more than `most_rows` independent rows (rows of one table share its
// cluster, its authors and its code: they are not independent). Fitted twice: once with every coefficient free, then
// with the `most_fitted` best determined ones alone (posterior sigma over prior sigma, below 0.9); the others stay at
// the prior and are not counted as fitted.
//
// Pooled prior: the mean over engines, each weighted by how well its runs determine the coefficient, together with the
// prior itself:
// (the prior counts for two engines)
//     pool_j = (2·prior_j/σ_j² + Σ_e θ_ej/(τ_j² + v_ej)) / (2/σ_j² + Σ_e 1/(τ_j² + v_ej)),   τ_j = σ_j between engines, v posterior variance
// (the usual partial pooling; Gelman & Hill 2007, ch. 12), with Huber's weights: an engine far from all others is a
// special case, not what an unknown engine is expected to be.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "calibrate/corpus.h"
#include "plan/coefficients.h"

namespace espalier::lab {

/// Of fits to training runs, in units of their noise: from where on the loss is linear, and from how many times that on
/// it is a logarithm (least_squares.h).
inline constexpr double kTrainingHuber = 2.0, kTrainingFar = 3.0;

struct Prior {
  FrameworkCoefficients center;
  std::array<double, 16> sigma{};  ///< by field, in the fitted scale
};
Prior base_prior();

struct FrameworkFit {
  FrameworkCoefficients value;
  std::array<double, 16> sigma{};  ///< posterior, by field, in the fitted scale
  std::array<bool, 16> fitted{};   ///< the data moved it
  std::int64_t rows = 0;
  double effective_rows = 0;
  [[nodiscard]] int fitted_scalars() const;
};

struct FrameworkFitOptions {
  double noise = 0.08;  ///< of one row, relative
  /// Standard deviation, on the logarithmic scale, of what a source's cluster and software add to all of its runs
  /// alike. 0: the runs are of the cluster that is predicted, so that it belongs to the coefficients.
  double between_sources = 0.12;
  double most_rows = 60;  ///< independent rows that one family counts for at most
  int most_fitted = 5;    ///< coefficients of one engine: those that the data determine best
  int threads = 1;
};

/// `rows` belong to one engine. No rows: the prior.
FrameworkFit fit_framework(const std::vector<const calibrate::CorpusRow*>& rows, const Prior& prior,
                           const FrameworkFitOptions& options);

/// The pooled prior of fits of several engines.
Prior pool(const std::map<std::string, FrameworkFit>& fits, const Prior& prior);

}  // namespace espalier::lab
