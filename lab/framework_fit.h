// SPDX-License-Identifier: Apache-2.0
// Fits framework coefficients to measured runs.
//
// The fit of one engine minimises over θ (src/plan/coefficients.h; logarithms of multipliers, additive ones in units
// of their sigma)
//
//     Σ_i w_i · H( (log(t_i(θ)/T_i) − b_s) / noise )  +  Σ_s (b_s/σ_b)²  +  Σ_j ((θ_j − prior_j)/σ_j)²
//
// where t are predicted and T measured seconds.
//
// All runs of source s share the error b_s apart from the engine, for example because the cluster is slow as a whole.
// For given θ it is the value that minimises the sum without Huber's loss:
//
//     b_s = Σ w·log(t/T)/noise² / (Σ w/noise² + 1/σ_b²)
//
// It is not a coefficient, because another cluster has another value.
//
// H is Huber's loss with threshold 2. It becomes a logarithm beyond 6 (0.48, a factor 1.6), where some runs are in a
// state of their own, as nanotron's with slow messages.
//
// The weight w_i of a row is scaled so that no source counts for more than `most_rows` independent rows. Rows of one
// table share its cluster, its authors and its code, so they are not independent.
//
// The engine is fitted twice: with every coefficient free, then with only the `most_fitted` best determined ones
// (posterior sigma over prior sigma below 0.9). The others stay at the prior and do not count as fitted.
//
// The pooled prior is the mean over the engines and the prior itself, which counts for two engines. Each engine is
// weighted by how well its runs determine the coefficient:
//
//     pool_j = (2·prior_j/σ_j² + Σ_e θ_ej/(τ_j² + v_ej)) / (2/σ_j² + Σ_e 1/(τ_j² + v_ej)),
//     τ_j = σ_j between engines, v posterior variance
//
// This is the usual partial pooling (Gelman & Hill 2007, ch. 12) with Huber's weights: an engine far from all others
// is a special case and does not predict an unknown engine.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "calibrate/corpus.h"
#include "plan/coefficients.h"

namespace espalier::lab {

/// Defines the loss of fits to training runs (least_squares.h). In units of the noise it is linear from
/// kTrainingHuber on; it is a logarithm from kTrainingFar times that on.
inline constexpr double kTrainingHuber = 2.0, kTrainingFar = 3.0;

struct Prior {
  FrameworkCoefficients center;
  std::array<double, 16> sigma{};  ///< by field, in the fitted scale
};
Prior base_prior();

struct FrameworkFit {
  FrameworkCoefficients value;
  std::array<double, 16> sigma{};  ///< posterior, by field, in the fitted scale
  std::array<bool, 16> fitted{};   ///< moved by the data
  std::int64_t rows = 0;
  double effective_rows = 0;
  [[nodiscard]] int fitted_scalars() const;
};

struct FrameworkFitOptions {
  double noise = 0.08;  ///< relative, of one row
  /// Standard deviation, on the logarithmic scale, of the error that a source's cluster and software add to all of
  /// its runs. 0: the runs come from the predicted cluster, so this error belongs to the coefficients.
  double between_sources = 0.12;
  double most_rows = 60;  ///< independent rows that one family counts for at most
  int most_fitted = 5;    ///< coefficients of one engine: the best determined ones
  int threads = 1;
};

/// Fits the runs of one engine; returns the prior when there are none.
FrameworkFit fit_framework(const std::vector<const calibrate::CorpusRow*>& rows, const Prior& prior,
                           const FrameworkFitOptions& options);

/// Returns the pooled prior of the fits of several engines.
Prior pool(const std::map<std::string, FrameworkFit>& fits, const Prior& prior);

}  // namespace espalier::lab
