// SPDX-License-Identifier: Apache-2.0
// Time of communication: latency, bandwidth and a ramp between them, placed on the fabric.
//
// Level k has per-device bandwidth β_k (all devices active, NICs shared), collective efficiency η_k, hop latency α_k,
// start σ_k, ramp ρ_k, small-group loss λ_k and congestion γ_k. A group with n_k members in one domain of level k
// (n_{-1} = 1) joins r_k = n_k / n_{k−1} domains there. All its rings together reach
//     B_k = n_{k−1} · β_k·η_k / (1 + γ_k·log2 r_k)
// A group with one member per node has its share of the NICs to itself; eight groups at once share them. S = bytes of
// the whole (gathered) tensor on one rank, g = group size, M = S·(g−1)/g.
//     time          T = L + V + ρ·√(L·V), with L the time of a small message and V that of the bytes at full rate. The
//                   ramp is the cost of chunked pipelines and of the protocols in between (NCCL's LL, LL128, Simple)
//                   as one law: chunks of the best size would give (√L + √V)² = L + V + 2·√(L·V). The ramp is the
//                   largest of the levels, max_k ρ_k·√(L·V_k), so that no link that becomes faster lengthens a
//                   collective. The start is the largest σ of the levels crossed.
//     all-gather,   ring alone, as in NCCL: V = max_k M·(1 + λ_k/(g−1)) / B_k,
//     reduce-       L = σ + Σ_k (g/n_{k−1} − g/n_k)·α_k, the hops of one flat ring through all g ranks
//     scatter
//     all-reduce    ring: V = max_k 2M·(1 + λ_k/(2(g−1))) / B_k, L = σ + 2·(the same hops)
//                   or tree across nodes: the same bytes at τ of that rate, L = σ + 2·Σ_k h_k·α_k, with h_k = r_k
//                   − 1 inside nodes (chains) and ⌈log2 r_k⌉ between them. The faster counts. A single level with
//                   in-network reduction also offers S / (ι·B), L = σ + 2·α. Here τ is tree_all_reduce and ι
//                   in_network_all_reduce of data/facts.yaml.
//     all-to-all    Each rank sends S/g to every rank; the bytes that cross level k leave n_{k−1}-rank domains.
//                   V = max_k S·(g − n_{k−1})/g·(1 + λ_k/(g−1)) / (β_k·η_k / (1 + γ_k·log2 r_k)),
//                   L = σ + Σ_k ⌈log2 r_k⌉·α_k
//     point-to-point over level k: σ_k + α_k + S/(β_k·η_k)
//
// Espalier's own collectives (src/runtime/communicator.h) apply where FabricLevel::direct_bytes d > 0 on all crossed
// levels; the least d counts. With α the longest hop:
//     S ≤ d         Everyone sends to everyone: V as an all-to-all of S, L = σ + α. Where S·g ≤ d an all-reduce is one
//                   such exchange of every rank's copy, S·g. Otherwise it is two exchanges with L = σ + 2·α, since the
//                   second is requested early.
//     S > d         Rings as above, without a tree and without in-network reduction; an all-to-all in g − 1 rounds,
//                   L = σ + (g−1)·α.
// There T is not concave in S: several direct messages can take less than one ring of their bytes, and T falls where
// the second exchange or the ring begins. Bounds for bytes that are cut in an unknown way use T_least(S) = L' + V'
// + ρ'·√(L'·V'), with the least latency, volume and ramp of these variants. It is concave and rising, so that ΣT(Sᵢ)
// ≥ ΣT_least(Sᵢ) ≥ T_least(ΣSᵢ).
//
// Compute next to a collective: kernels lose the SMs that the collective holds (κ_0, κ_c of the device). In
// proportion to what the collective moves they also lose memory bandwidth and cache:
//     κ_w = κ_0 + t · (bytes that pass a rank / T) / (HBM bandwidth),   t = overlap_traffic (overlap.h).
//
// Bytes that pass a rank are M for an all-gather, a reduce-scatter and an all-to-all, 2M for an all-reduce, and S for
// a message. An all-reduce passes S/ι where that is less and switches add (NCCL's bus bandwidth). T is what the
// collective takes, waits included: a waiting collective draws nothing.
// Sources: Thakur et al. 2005 (collective algorithms); NCCL 2.x source, tuning; Mist's contention runs
// (data/README.md).
#pragma once

#include <cstdint>
#include <vector>

#include "cost/overlap.h"
#include "cost/placement.h"
#include "espalier/cluster.h"
#include "plan/steps.h"

namespace espalier::cost {

/// Return seconds. `bytes` is S above, as a real number, because it is divided freely. All are 0 for groups of one.
double all_gather_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes);
double reduce_scatter_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes);
double all_reduce_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes);
/// Return T_least above: no more than messages of `bytes` together take, however many they are (also for a
/// reduce-scatter). Where no level has direct_bytes, this is the time itself, which is concave.
double all_gather_least_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes);
double all_reduce_least_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes);
/// Return seconds; `bytes` is what one rank sends in all (its own share included).
double all_to_all_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes);
double point_to_point_s(const std::vector<FabricLevel>& levels, int level, double bytes);
/// Returns the seconds of one step of a ring in which every member passes `bytes` to its neighbour.
double ring_step_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes);

/// Returns the bytes that pass each rank in a collective of the group; `bytes` is that of the collective's own
/// function.
double moved_bytes(CollectiveKind kind, const std::vector<FabricLevel>& levels, const Group& group, double bytes);
/// Returns how compute and collectives on a device slow each other down. `memory_bandwidth`: HBM, bytes/s.
Interference interference_of(const DeviceEfficiency& device, double memory_bandwidth);

}  // namespace espalier::cost
