// SPDX-License-Identifier: Apache-2.0
// Lists how a stage can be made of devices of one kind. solve/device_group_chains.h chooses from these options, in
// nanoseconds and bytes.
//
// Devices of a node group are taken in *units* of `unit_devices`. This is the smallest power of two that divides a
// node and gives at most kMostUnits units, or else a whole node. A stage takes a power of two of units inside a node,
// or whole nodes. An option is a number of units with a strategy:
// - tp is inside a node, with and without Megatron's sequence parallelism;
// - cp is a power of two (ring and all-to-all) where sequences are long (kLongSequence) or the job names cp, else 1;
// - dp = devices / (tp·cp), with the ZeRO stage over all of dp·cp;
// - recomputation of all blocks is full, selective or none;
// - experts lie on powers of two of tp·cp·dp.
// Gradient reductions overlap the backward pass.
//
// Figures of an option never exceed those of price() for the same stage:
// - forward, backward: the time of a layer as ChunkSum adds it, in whole nanoseconds. It includes
//   the first gather and the last reduction of ZeRO 2 and 3, which depend on the whole chunk, at their least over the
//   kinds of layers. Redistribution is left out.
// - end: the update (bytes over bandwidth, its launches and the host's work), sums inside tensor groups, and the
//   engine's exposed share of the reductions.
// - gather, reduce: parameter gathers overlap the first forward pass and gradient reductions the last backward pass.
//   Both have as many parts as layers, at most kMaxBuckets. The collectives of the same stage slow down the
//   overlapped compute.
// - bytes: states of the layer, its saved activations per micro-batch, its transients, and two messages of the
//   stage's own. Buffers of ZeRO 2 and 3 and larger messages of other stages are left out.
//
// Gathers and reductions have a concave bound: a part of S bytes takes at least T(S) = L + V·S + ρ·√(L·V·S) (T_least
// of collective.h). So n parts of the mean size of n layers take at least Σ T(S_layer), by Jensen's inequality. With
// more than N = kMaxBuckets layers, a part has the mean of g = layers / N of them: N·T(g·S̄) = (layers / g)·T(g·S̄).
// T(g·S)/g falls with g, so with the largest g of the model Σ T(g·S_layer)/g is not above it. Where the engine cuts
// reductions into messages of one size, T is not concave; the bound is then the time of the bytes at full rate.
//
// The time of a message depends on three things: the bytes that a rank of either end sends or receives, the gather in
// the receiving tensor group, and the link. Options that are equal in these share a *port*. Inside a group, two
// stages are nowhere nearer than at adjacent places at its beginning. The cost of a message is the least
// over the level that they share there and the levels outside it.
//
// Hence a bound over options is a bound over plans.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/cluster_costs.h"
#include "plan/rules.h"
#include "search/search.h"
#include "solve/device_group_chains.h"

namespace espalier::search {

/// Stages may split a sequence that has at least this number of tokens.
inline constexpr std::int64_t kLongSequence = 16'384;

/// Returns the number of devices in a unit of each node group.
std::vector<std::int64_t> unit_devices(const Cluster& cluster);

struct StageChoice {
  std::size_t group = 0;
  Strategy strategy;  ///< full recomputation of 1 layer represents all blocks of the stage
};

/// Holds options for the solver and the choices that they represent, in the same order.
struct StageOptions {
  std::vector<solve::StageOption> options;
  std::vector<StageChoice> choices;
  std::vector<std::vector<std::int64_t>> send_ns;  ///< [from port][to port], at least, per micro-batch
};

/// Returns whether rules, engine and the job's search section allow such a stage, for micro-batches of `samples` in
/// all replicas together. The plan may have other stages, so its number of stages and devices is not checked. `facts`
/// belong to the problem and are reused between calls.
bool stage_admitted(const Problem& problem, RuleFacts& facts, const Strategy& s, std::int64_t samples);
/// Checks each stage of a pipeline in this way under its schedule, with `samples` per micro-batch.
bool pipeline_admitted(const Problem& problem, const Pipeline& pipeline, std::int64_t samples);

/// Returns the options for micro-batches of `samples` in all replicas together.
StageOptions stage_options(const Problem& problem, const cost::ClusterCosts& costs, std::int64_t samples);

}  // namespace espalier::search
