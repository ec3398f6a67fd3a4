// SPDX-License-Identifier: Apache-2.0
// How many samples of a micro-batch the replicas of each group of equal ones take: levels, which say the most that one
// of them takes.
//
// Where replicas of a group are alike and a step takes no less time and memory when one of them gets more samples, a
// deal of samples matters by the level of each group alone. Levels b can hold S samples where Σ_g n_g·b_g ≥ S, n_g
// replicas in group g. Lowering levels one by one as long as they can hold S ends with *lowest* ones: those of any deal
// are in every group at least as high as some lowest levels. And samples can be dealt at lowest
// levels: what they hold beyond S is less than the replicas of any group above level 1, so that as many replicas of one
// such group take one sample less. Hence the fastest deal that fits is among those at lowest levels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace espalier::search {

/// Of each group, at least 1.
using Levels = std::vector<std::int64_t>;

/// All lowest levels that are at most `most`; `samples` are at least as many as there are replicas. Nothing where more
/// than `limit` were looked at.
std::optional<std::vector<Levels>> lowest_levels(const std::vector<std::int64_t>& replicas, std::int64_t samples,
                                                 const Levels& most, std::size_t limit);

/// Lowest levels at which the slowest group ends soonest: `time` of a group's replicas with so many samples, no less
/// with more.
Levels soonest_levels(const std::vector<std::int64_t>& replicas, std::int64_t samples,
                      const std::function<double(std::size_t, std::int64_t)>& time);

/// Samples of each replica, group by group, at lowest levels: those of the first group above level 1 that take one less
/// come last in it.
std::vector<std::int64_t> dealt_at(const std::vector<std::int64_t>& replicas, const Levels& levels, std::int64_t samples);

/// Parts of what replicas hold together, as weights: replica r can hold holds[r] times an equal part less the share
/// `spared` of it. Of all parts that fit the most even ones: min(what it can hold, θ), the same θ for all. `unit`: of
/// an equal part. Empty: they cannot hold all. No other parts that fit have a larger least one: one that holds less
/// than θ holds all that it can.
std::vector<std::int64_t> most_even_parts(const std::vector<double>& holds, double spared, std::int64_t unit);

}  // namespace espalier::search
