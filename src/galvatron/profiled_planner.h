// SPDX-License-Identifier: Apache-2.0
// The best plan of Galvatron's space by Galvatron's costs (profiled_cost.h), for a given batch B.
//
//   space       P stages (powers of two) and m micro-batches (divisors of B, at least P); tensor groups up to a size or
//               none; per
//               layer a group (tensor parallel or Ulysses), ZeRO-3 or the default type, recomputed or not; for
//               embedding and
//               head a group, its kind, ZeRO-3 or the default; every contiguous division of the layers over the stages
//   objective   T = Σ s_i + (m − 1)·max s_i + max sync_i     (Galvatron-BMW); for one stage m·s + sync
// One stage: the optimum. Several: each stage takes the strategies with the least m·s + sync that fit
// (solve/layer_search.h), and the division is the best one for those (solve/stage_balance.h). Galvatron itself divides
// evenly and scores by a formula that reads the first and the last stage only, which a free division would exploit:
// `main_seconds` reports it.
#pragma once

#include <optional>

#include "galvatron/profiled_cost.h"

namespace espalier::galvatron {

struct ProfiledOptions {
  std::int64_t memory_mb = 0;  ///< of a device, before the reserve
  DataParallelType default_type = DataParallelType::zero2;
  std::int32_t pp = 0;      ///< only this many stages; 0: all
  std::int64_t chunks = 0;  ///< only this many micro-batches; 0: all
};

struct ProfiledStage {
  std::int32_t layers = 0;
  ProfiledSeconds seconds;     ///< of a micro-batch, embedding and head included
  std::int64_t memory_mb = 0;  ///< everything
};

struct ProfiledPlan {
  StrategyDocument document;
  std::vector<ProfiledStage> stages;
  std::vector<ProfiledStrategy> layers;
  double seconds = 0;       ///< T
  double main_seconds = 0;  ///< what the main branch would score
  std::int64_t usable_mb = 0;
  std::int64_t choices = 0;  ///< of stages, micro-batches, tensor groups, embedding and head
  std::int64_t solved = 0;   ///< of these; the others are beaten by a bound
};
/// Strategies in runs: "1-1-8f-c×20, 1-1-8f×12"; stages joined by " ‖ ".
std::string strategies_text(const ProfiledPlan& plan);

/// infeasible: nothing fits.
Result<ProfiledPlan> plan_profiled(const ProfiledModel& model, const ProfiledOptions& options);

}  // namespace espalier::galvatron
