// SPDX-License-Identifier: Apache-2.0
// Finds the best plan of Galvatron's space by Galvatron's costs (profiled_cost.h), for a given batch B.
//
//   space       P stages (powers of two) and m micro-batches (divisors of B, at least P); tensor groups up to a size or
//               none. Each layer has a group (tensor parallel or Ulysses), ZeRO-3 or the default type, recomputed or
//               not. Embedding and head have a group, its kind, ZeRO-3 or the default. Every contiguous division of the
//               layers over the stages is included.
//   objective   T = Σ s_i + (m − 1)·max s_i + max sync_i     (Galvatron-BMW); for one stage m·s + sync.
//
// For one stage the result is the optimum. With several, each stage takes the strategies with the least m·s + sync
// that fit (solve/layer_search.h), and the division is the best one for those (solve/stage_balance.h). Galvatron
// itself divides evenly and scores by a formula that reads the first and the last stage only, which a free division
// would exploit. `main_seconds` reports it.
#pragma once

#include <optional>

#include "galvatron/profiled_cost.h"

namespace espalier::galvatron {

struct ProfiledOptions {
  std::int64_t memory_mb = 0;  ///< memory of a device, before the reserve
  DataParallelType default_type = DataParallelType::zero2;
  std::int32_t pp = 0;      ///< only this many stages; 0: all
  std::int64_t chunks = 0;  ///< only this many micro-batches; 0: all
};

struct ProfiledStage {
  std::int32_t layers = 0;
  ProfiledSeconds seconds;     ///< per micro-batch, embedding and head included
  std::int64_t memory_mb = 0;  ///< everything
};

struct ProfiledPlan {
  StrategyDocument document;
  std::vector<ProfiledStage> stages;
  std::vector<ProfiledStrategy> layers;
  double seconds = 0;       ///< T
  double main_seconds = 0;  ///< the main branch's score
  std::int64_t usable_mb = 0;
  std::int64_t choices = 0;  ///< combinations of stages, micro-batches, tensor groups, embedding and head
  std::int64_t solved = 0;   ///< choices that were solved; the others are beaten by a bound
};
/// Returns strategies in runs: "1-1-8f-c×20, 1-1-8f×12", stages joined by " ‖ ".
std::string strategies_text(const ProfiledPlan& plan);

/// Finds the plan. Fails (infeasible) where nothing fits.
Result<ProfiledPlan> plan_profiled(const ProfiledModel& model, const ProfiledOptions& options);

}  // namespace espalier::galvatron
