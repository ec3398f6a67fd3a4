// SPDX-License-Identifier: Apache-2.0
// Chooses how many samples of a micro-batch the replicas of each group of equal ones take. A level is the largest
// number that one replica of a group takes.
//
// Assume that replicas of a group are alike, and that a step takes no less time and memory when one of them gets more
// samples. Then only the level of each group matters. With n_g replicas in group g, levels b can hold S samples where
// Σ_g n_g·b_g ≥ S. Lowering levels one by one, as long as they can hold S, ends with *lowest* levels. The levels of
// any deal are in every group at least as high as some lowest levels. Samples can be dealt at lowest levels: the
// surplus over S is less than the replicas of any group above level 1. So that many replicas of one such group take
// one sample less. Hence the fastest deal that fits is among those at lowest levels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace espalier::search {

/// Holds the level of each group, at least 1.
using Levels = std::vector<std::int64_t>;

/// Returns all lowest levels that are at most `most`; `samples` must not be below the number of replicas. Returns
/// nullopt where more than `limit` levels were tried.
std::optional<std::vector<Levels>> lowest_levels(const std::vector<std::int64_t>& replicas, std::int64_t samples,
                                                 const Levels& most, std::size_t limit);

/// Returns lowest levels at which the slowest group ends soonest. `time` is that of a group's replicas with a number
/// of samples, and must not fall as the number grows.
Levels soonest_levels(const std::vector<std::int64_t>& replicas, std::int64_t samples,
                      const std::function<double(std::size_t, std::int64_t)>& time);

/// Returns the samples of each replica, group by group, at lowest levels. The replicas of the first group above level
/// 1 that take one less come last in it.
std::vector<std::int64_t> dealt_at(const std::vector<std::int64_t>& replicas, const Levels& levels, std::int64_t samples);

/// Returns the parts of the states that replicas hold, as weights. Replica r can hold holds[r] times an equal part,
/// less the share `spared` of it. The most even parts that fit are chosen: min(capacity of r, θ), with
/// the same θ for all. `unit` is the weight of an equal part. The result is empty if the replicas cannot hold
/// everything. No other parts that fit have a larger least one: a replica below θ holds all that it can.
std::vector<std::int64_t> most_even_parts(const std::vector<double>& holds, double spared, std::int64_t unit);

}  // namespace espalier::search
