// SPDX-License-Identifier: Apache-2.0
// Time of communication: α-β models placed on the fabric.
//
// Level k has per-device bandwidth β_k (all devices active, NICs shared) times its collective efficiency, and hop latency α_k.
// A group with n_k members in one domain of level k (n_{-1} = 1) reaches over level k, in all its rings together,
//     B_k = n_{k−1} · β_k            and the slowest crossed level decides: B = min over k with n_k > n_{k−1}.
// S = bytes of the whole (gathered) tensor on one rank, g = group size, r_k = n_k / n_{k−1} domains joined at level k.
//     ring   all-gather, reduce-scatter   S·(g−1)/g / B + Σ_k (r_k − 1)·α_k
//     tree   the same data over logarithmic depth: S·(g−1)/g / (0.85·B) + Σ_k ⌈log2 r_k⌉·2·α_k     (0.85: prior, after NCCL's
//            own tuning tables, which let trees reach less of the ring bandwidth)
//     all-reduce = reduce-scatter + all-gather; with in-network reduction on its only level: S / B + 2·α
//     the faster algorithm counts, as NCCL's tuner chooses.
//     all-to-all: each rank sends S/g to every rank; the bytes that cross level k leave n_{k−1}-rank domains: S·(g − n_{k−1})/g / β_k;
//            levels work in parallel, the slowest counts; latency Σ_k ⌈log2 r_k⌉·α_k
//     point-to-point over level k: α_k + S/β_k
// Sources: Thakur et al. 2005 (collective algorithms); NCCL 2.x tuning (ring, tree, NVLS); hierarchy as in seeds of the field.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/placement.h"
#include "espalier/cluster.h"

namespace espalier::cost {

/// Seconds. `bytes` = S above, as real numbers (they are divided freely). All are 0 for groups of one.
double all_gather_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes);
double reduce_scatter_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes);
double all_reduce_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes);
/// `bytes` = what one rank sends in all (its own share included).
double all_to_all_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes);
double point_to_point_s(const std::vector<FabricLevel>& levels, int level, double bytes);
/// One step of a ring in which every member passes `bytes` to its neighbour.
double ring_step_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes);

}  // namespace espalier::cost
