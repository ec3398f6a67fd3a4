// SPDX-License-Identifier: Apache-2.0
// Finds batch, stages and strategies by the published cost model of Galvatron version 1.
//
//     samples per second = B / T,    T = Σ_i C_i,    C_i = best time of the layers of stage i under its memory.
//
// Chunks and bubbles are inside the layer times (v1_cost.h). B = step, 2·step, … until no number of stages fits.
//
// published:   the authors' loop. Stages are cut by v1_division; uniform models solve one stage and take T = P·C. The
//              first of equal values wins.
// free:        every contiguous division of the layers, exactly (solve/stage_balance.h). It is never below `published`,
//              since it searches those divisions and no stage has less memory. (B, P) come in the order of a bound on
//              B/T and stop when the bound is no better than the best.
//
// T is a sum, so a division is judged by what fits its memory, not by how equal its stages are. This is
// the published objective.
#pragma once

#include "reference/v1_problem.h"

namespace espalier::reference {

enum class V1Division : std::uint8_t { published, free };

struct V1Options {
  V1Division division = V1Division::free;
  V1Capacity capacity = V1Capacity::per_stage;  ///< for uniform models on two nodes
};
inline constexpr V1Options kPublishedV1 = {V1Division::published, V1Capacity::published};

struct V1Plan {
  std::int32_t batch = 0, pp = 0;
  double seconds = 0, samples_per_s = 0;
  std::vector<std::vector<V1Strategy>> stages;  ///< strategy of each layer of each stage
  std::vector<double> stage_seconds;            ///< C_i
  std::int64_t evaluated = 0;                   ///< (B, P) for which layer programs were solved
};
/// Returns run lengths: "2-1-4f×6, 2-1-4×11 ‖ 2-1-4×9, 2-1-4f×6". Equal stages appear once, as in
/// the published tables.
std::string to_string(const V1Plan& plan);

/// Returns the authors' step between batches: 8, and 32 for models of images below 48 layers on two nodes.
std::int32_t v1_batch_step(const V1Workload& workload);

/// Finds a plan; null if not even the smallest batch fits.
std::optional<V1Plan> plan_v1(const V1Workload& workload, std::int64_t memory_mb, const V1Options& options);

/// Returns the seconds of the given stages, null if a stage does not fit. Reads `plan.stages`, batch and pp, and
/// no other field.
std::optional<double> seconds_of(const V1Workload& workload, std::int64_t memory_mb, const V1Plan& plan, V1Capacity capacity);

/// Returns the eight models of the published tables on 8 or 16 GPUs, in the tables' order; bad_input if a profile is
/// missing. `profiles` must outlive them.
Result<std::vector<V1Workload>> v1_workloads(const std::map<std::string, V1Profile>& profiles, std::int32_t devices);

}  // namespace espalier::reference
