// SPDX-License-Identifier: Apache-2.0
// How a stage can be made of devices of one kind: what solve/device_group_chains.h chooses from, in nanoseconds and
// bytes.
//
// Devices of a node group are taken in *units* of `unit_devices`, a power of two that divides a node (or a whole node),
// so small that there are at most kMostUnits of them. A stage takes a power of two of units inside a node, or whole
// nodes. An option is a number of units with a
// strategy: tp inside a node (with and without Megatron's sequence parallelism), cp a power of two (ring and
// all-to-all) where sequences are long (kLongSequence) or the job names cp, else 1; dp = devices / (tp·cp), ZeRO stage
// over all of dp·cp, recomputation of all blocks in full, selective or none; experts over powers of two of tp·cp·dp.
// Gradients are reduced beside the backward pass.
//
// Figures of an option never exceed what price() finds for a stage made so:
//     forward, backward   of a layer as ChunkSum adds it, in whole nanoseconds; of what only a whole chunk knows the
//                         least first gather and
//                         last reduction of ZeRO 2 and 3 of any kind of layer; redistribution is left out
//     end                 the update: bytes over bandwidth, its launches and the host's work; sums inside tensor
//                         groups; the engine's exposed
//                         share of the reductions, which is waited for
//     gather, reduce      parameters gathered beside the first forward pass and gradients reduced beside the last
//                         backward pass, in as many parts
//                         as layers, at most kMaxBuckets; compute beside them is slowed down as beside the collectives
//                         of its own stage
//     bytes               states of the layer, what a micro-batch keeps of it, its transients; two messages of the
//                         stage's own; buffers of ZeRO 2
//                         and 3 and larger messages of other stages are left out
//
// Gathers and reductions. A part of S bytes takes at least T(S) = L + V·S + ρ·√(L·V·S) (T_least of collective.h),
// concave; so n parts of the mean size of n layers take at least Σ T(S_layer), by Jensen's inequality. Of more than N
// layers a part has the mean of g = layers / N of them, N·T(g·S̄) = (layers / g)·T(g·S̄), and T(g·S)/g falls with g, so
// that with the largest g of the model Σ T(g·S_layer)/g is not above it. Where the engine cuts reductions into messages
// of one size T is not concave; then it is what the bytes take at full rate.
//
// Messages. What a message takes depends on what a rank of either end sends or takes, on the gather in the receiving
// tensor group and on the
// link: options equal in these share a *port*. In a group two stages are nowhere nearer than side by side at its
// beginning, and no level outside the one they share there counts that is slower than another outside it.
//
// so that a bound over options is a bound over plans.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/cluster_costs.h"
#include "plan/rules.h"
#include "search/search.h"
#include "solve/device_group_chains.h"

namespace espalier::search {

inline constexpr std::int64_t kLongSequence = 16'384;  ///< tokens from which on stages may split a sequence

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
  std::vector<std::vector<std::int64_t>> send_ns;  ///< [from port][to port] of a micro-batch, at least
};

/// Whether rules, engine and the job's search part let a stage be made so, for micro-batches of `samples` in all
/// replicas together. The plan may have other stages besides: their number and the devices of the plan are not asked.
/// `facts` are of the problem and serve call after call.
bool stage_admitted(const Problem& problem, RuleFacts& facts, const Strategy& s, std::int64_t samples);
/// The same for each stage of a pipeline under its schedule, of which `samples` go through as one micro-batch.
bool pipeline_admitted(const Problem& problem, const Pipeline& pipeline, std::int64_t samples);

/// For micro-batches of `samples` in all replicas together.
StageOptions stage_options(const Problem& problem, const cost::ClusterCosts& costs, std::int64_t samples);

}  // namespace espalier::search
