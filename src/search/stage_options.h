// SPDX-License-Identifier: Apache-2.0
// How a stage can be made of devices of one kind: what solve/device_groups.h chooses from, in nanoseconds and bytes.
//
// Devices of a node group are taken in *units* of `unit_devices`, a power of two that divides a node (or a whole node), so small that there are
// at most kMostUnits of them. A stage takes a power of two of units inside a node, or whole nodes. An option is a number of units with a
// strategy: tp inside a node (with and without Megatron's sequence parallelism), dp = devices / tp, ZeRO stage over all of dp, recomputation
// of all blocks in full, selective or none; cp 1; experts over powers of two of tp·dp. Gradients are reduced beside the backward pass.
//
// Figures of an option never exceed what price() finds for a stage made so:
//     forward, backward   of a layer as ChunkSum adds it, in whole nanoseconds; what only a whole chunk knows (first gathers, redistribution) is
//                         left out
//     end                 the update: bytes over bandwidth; and, where in every kind of layer of the model the gradients take longer to reduce
//                         (at full rate, without latency) than its backward pass lasts, the difference: no reduction of a stage begins before
//                         its last backward pass does
//     bytes               states of the layer, what a micro-batch keeps of it; transients and message buffers are left out
// so that a bound over options is a bound over plans.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/cluster_costs.h"
#include "search/search.h"
#include "solve/device_groups.h"

namespace espalier::search {

inline constexpr std::int64_t kMostUnits = 32;

/// Devices in a unit of each node group.
std::vector<std::int64_t> unit_devices(const Cluster& cluster);

struct StageChoice {
  std::size_t group = 0;
  Strategy strategy;  ///< full recomputation of 1 layer stands for all blocks of the stage
};

/// Options and what they stand for, in the same order.
struct StageOptions {
  std::vector<solve::StageOption> options;
  std::vector<StageChoice> choices;
  std::vector<std::vector<std::int64_t>> send_ns;  ///< [from group][to group] of a micro-batch, at least
};

/// For micro-batches of `samples` in all replicas together.
StageOptions stage_options(const Problem& problem, const cost::ClusterCosts& costs, std::int64_t samples);

}  // namespace espalier::search
