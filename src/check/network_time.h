// SPDX-License-Identifier: Apache-2.0
// Bounds communication times from both sides. The devices of a group are listed one by one and counted by domain.
//
// If stages list devices in an order of their own, rank n of stage i is the n-th of its list (listed.h). A group is
// then aligned if all groups of its kind are distributed alike. Otherwise rank n of stage i is
//     n = t + tp·(c + cp·d), or t + tp·(d + dp·c) under tp-dp-cp-pp; device = n + size·i, or
//     (n mod tp·cp) + tp·cp·(i + pp·(n div tp·cp)) under tp-cp-pp-dp.
// A group is the ranks 0, stride, 2·stride, … of stage 0:
//     tensor      tp, stride 1                    context   cp, stride tp (tp·dp under tp-dp-cp-pp)
//     data        dp·cp (times tp under Ulysses), stride tp (1); its first `shard` ranks share states, the others are
//                 replicas
//     experts     ep, stride etp                  expert replicas   tp·cp·dp/(ep·etp), stride ep·etp
// At fabric level k (domains of `span` devices) n_k members share a domain (n_{−1} = 1), r_k = n_k/n_{k−1} domains
// are joined. Bytes S of the whole tensor on a rank, g members, M = S·(g−1)/g, bandwidth β_k·η_k a device, congestion
// γ_k, small-group loss λ_k:
//     B_k = n_{k−1}·β_k·η_k/(1 + γ_k·log₂ r_k),  time = L + V + max_k ρ_k·√(L·V_k)
//     gather, scatter   V = max_k M(1 + λ_k/(g−1))/B_k                     L = σ + Σ (g/n_{k−1} − g/n_k)·α_k
//     reduce            V = max_k 2M(1 + λ_k/(2(g−1)))/B_k (ring), that/τ (tree), S/(ι·B) (one level, in the
//                       network; τ and ι: tree_all_reduce, in_network_all_reduce of data/facts.yaml);
//                       L = σ + 2·hops
//     exchange          V = max_k S(g − n_{k−1})/g·(1 + λ_k/(g−1))·n_{k−1}/B_k, L = σ + Σ ⌈log₂ r_k⌉·α_k
//     message           σ + α + S/(β·η) over the lowest level that joins both ends
//
// Direct exchanges replace rings where all crossed levels have direct_bytes d (the smallest counts). α is then the
// longest of these levels. Up to S = d, each collective is an exchange of S with L = σ + α. A reduce is two of them
// with σ + 2α, or one of g·S where g·S ≤ d. Above d only rings are used; an exchange then has L = σ + (g − 1)·α.
//
// If it is unknown how bytes are cut (Sizes::any), the least and the most of these algorithms count, latency and
// bytes apart. For the least, the sum over pieces is never below that of all at once; for the most, never above.
// (Thakur et al. 2005; docs/cost-model.md, "Collectives".) If a group is not aligned with the domains, `End::least`
// counts only bytes, M/(g·β·η) over the fastest level. `End::most` then counts one member a domain on the slowest
// level, and all hops twice.
#pragma once

#include <cstdint>
#include <vector>

#include "check/view.h"

namespace espalier::check {

/// Names the bound that is derived.
enum class End : std::uint8_t { least, most };

/// States whether bytes belong to one collective, or to several (or are estimated).
enum class Sizes : std::uint8_t { known, any };

struct RankGroup {
  std::int64_t size = 1;
  std::vector<std::int64_t> members;  ///< n_k of each fabric level
  /// States whether every domain that the group reaches holds equally many members, wherever the group begins.
  bool aligned = true;
};

class FabricTimes {
 public:
  /// Times are `scale` times those of the fabric alone (a framework's coefficient).
  FabricTimes(const View& view, double scale, End end);

  /// Returns ranks 0, stride, … of stage 0 under the strategy of `view`. If the plan has its own device order, the
  /// result covers all groups of every stage.
  [[nodiscard]] RankGroup group(const View& view, std::int64_t count, std::int64_t stride) const;
  [[nodiscard]] RankGroup tensor(const View& view) const { return group(view, view.strategy.tp, 1); }
  [[nodiscard]] RankGroup context(const View& view) const;
  [[nodiscard]] RankGroup shard(const View& view) const;
  [[nodiscard]] RankGroup replicas(const View& view) const;
  [[nodiscard]] RankGroup experts(const View& view) const { return group(view, view.strategy.ep, view.strategy.etp); }
  [[nodiscard]] RankGroup expert_replicas(const View& view) const;

  /// Returns seconds; 0 for groups of one.
  [[nodiscard]] double gather(const RankGroup& g, double bytes, Sizes sizes = Sizes::known) const;
  [[nodiscard]] double reduce(const RankGroup& g, double bytes, Sizes sizes = Sizes::known) const;
  /// Assumes Sizes::any: queries, keys and values are exchanged one by one but counted together.
  [[nodiscard]] double exchange(const RankGroup& g, double bytes) const;
  /// Returns the number of the group's ranks in one node, or in one NVLink domain of several nodes.
  [[nodiscard]] std::int64_t by_nvlink(const RankGroup& g) const;
  /// Returns the seconds of one step of a ring through the group.
  [[nodiscard]] double ring_step(const RankGroup& g, double bytes) const;
  /// Returns the seconds of a message between ranks of two stages, for the worst pair.
  [[nodiscard]] double message(const View& view, std::int32_t from, std::int32_t to, double bytes) const;

 private:
  [[nodiscard]] RankGroup listed_group(const Listed& stages, std::int64_t count, std::int64_t stride) const;
  [[nodiscard]] double link(std::size_t level, double bytes) const;
  /// Returns the seconds in which every member passes on `bytes`, shared by all links of the fastest level.
  [[nodiscard]] double bytes_alone(const RankGroup& g, double bytes) const;
  /// Returns the seconds in which every member passes on `bytes` over the slowest link alone, with a flat ring's hops
  /// twice.
  [[nodiscard]] double alone_on_slowest(const RankGroup& g, double bytes) const;
  [[nodiscard]] double unplaced(const RankGroup& g, double bytes) const {
    return end_ == End::least ? bytes_alone(g, bytes) : alone_on_slowest(g, bytes);
  }

  std::vector<FabricLevel> levels_;
  End end_;
  double tree_, in_network_;  ///< bandwidths of all-reduces relative to a ring (data/facts.yaml)
  bool free_ = false;         ///< nothing takes time (View::free_network)
};

/// Returns the seconds of a message between unlike stages: `bytes` at the busier end. Inside a group it crosses the
/// lowest level whose domain holds both stages. Between groups it crosses the level that joins them and the outermost
/// network of each, at the slowest rate.
double unlike_message(const View& view, std::int32_t from, std::int32_t to, double bytes);
/// Returns the seconds of a message between any two stages on the cluster of the view.
double stage_message(const View& view, const Stage& from, const Stage& to, double bytes);

}  // namespace espalier::check
