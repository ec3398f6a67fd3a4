// SPDX-License-Identifier: Apache-2.0
// How long communication takes, from both sides: the devices of a group are listed one by one, and counted domain by
// domain.
//
// Of a plan whose stages list devices in an order of their own the device of rank n of stage i is the n-th of its list
// (listed.h), and a group is aligned where all groups of its kind fall alike. Otherwise
// device of rank n of stage i: n = t + tp·(c + cp·d), or t + tp·(d + dp·c) under tp-dp-cp-pp; device = n + size·i,
// under tp-cp-pp-dp (n mod tp·cp) + tp·cp·(i + pp·(n div tp·cp)). A group is the ranks 0, stride, 2·stride, … of stage
// 0:
//     tensor      tp, stride 1                    context   cp, stride tp (tp·dp under tp-dp-cp-pp)
//     data        dp·cp (times tp under Ulysses), stride tp (1); its first `shard` ranks share states, the others are
//                 replicas
//     experts     ep, stride etp                  expert replicas   tp·cp·dp/(ep·etp), stride ep·etp
// At fabric level k (domains of `span` devices) n_k members share a domain (n_{−1} = 1), r_k = n_k/n_{k−1} domains are
// joined. Bytes S of the whole tensor on a rank, g members, M = S·(g−1)/g, bandwidth β_k·η_k a device, congestion γ_k,
// small-group loss λ_k:
//     B_k = n_{k−1}·β_k·η_k/(1 + γ_k·log₂ r_k),  time = L + V + max_k ρ_k·√(L·V_k)
//     gather, scatter   V = max_k M(1 + λ_k/(g−1))/B_k                     L = σ + Σ (g/n_{k−1} − g/n_k)·α_k
//     reduce            V = max_k 2M(1 + λ_k/(2(g−1)))/B_k (ring), that/0.92 (tree), S/(0.7·B) (one level, in the
//                       network);
//                       L = σ + 2·hops
//     exchange          V = max_k S(g − n_{k−1})/g·(1 + λ_k/(g−1))·n_{k−1}/B_k, L = σ + Σ ⌈log₂ r_k⌉·α_k
//     message           σ + α + S/(β·η) over the lowest level that joins both ends
//     Where all crossed levels have direct_bytes d (the least counts), with the longest α of them: up to S = d each is
//     an exchange of S with
//     L = σ + α, a reduce two of them with σ + 2α, or one of g·S where g·S ≤ d; beyond d rings alone, an exchange with
//     L = σ + (g − 1)·α. Of bytes that
//     are cut we do not know how (Sizes::any) the least and the most of these ways count, latency and bytes apart: of
//     the least the sum over pieces is
//     never below that of all at once, of the most never above.
// (Thakur et al. 2005; docs/cost-model.md, "Collectives".) Where a group is not aligned with the domains `End::least`
// counts bytes alone, M/(g·β·η) over the fastest level, and `End::most` one member a domain on the slowest level, all
// hops twice.
#pragma once

#include <cstdint>
#include <vector>

#include "check/view.h"

namespace espalier::check {

/// Which end of a range is derived.
enum class End : std::uint8_t { least, most };

/// Whether bytes are those of one collective, or of several, or an estimate of them.
enum class Sizes : std::uint8_t { known, any };

struct RankGroup {
  std::int64_t size = 1;
  std::vector<std::int64_t> members;  ///< n_k of each fabric level
  bool aligned = true;  ///< every domain that it reaches holds as many members as any other, wherever the group begins
};

class FabricTimes {
 public:
  /// `scale`: times are so many times those of the fabric alone (a framework's coefficient).
  FabricTimes(const View& view, double scale, End end);

  /// Ranks 0, stride, … of stage 0 under the strategy of `view`; of a plan with an order of its own all groups of every
  /// stage.
  [[nodiscard]] RankGroup group(const View& view, std::int64_t count, std::int64_t stride) const;
  [[nodiscard]] RankGroup tensor(const View& view) const { return group(view, view.strategy.tp, 1); }
  [[nodiscard]] RankGroup context(const View& view) const;
  [[nodiscard]] RankGroup shard(const View& view) const;
  [[nodiscard]] RankGroup replicas(const View& view) const;
  [[nodiscard]] RankGroup experts(const View& view) const { return group(view, view.strategy.ep, view.strategy.etp); }
  [[nodiscard]] RankGroup expert_replicas(const View& view) const;

  /// Seconds; 0 for groups of one.
  [[nodiscard]] double gather(const RankGroup& g, double bytes, Sizes sizes = Sizes::known) const;
  [[nodiscard]] double reduce(const RankGroup& g, double bytes, Sizes sizes = Sizes::known) const;
  /// Queries, keys and values are exchanged one by one, and counted together: sizes are any.
  [[nodiscard]] double exchange(const RankGroup& g, double bytes) const;
  /// Ranks of the group in one node, or in one NVLink domain of several.
  [[nodiscard]] std::int64_t by_nvlink(const RankGroup& g) const;
  /// One step of a ring through the group.
  [[nodiscard]] double ring_step(const RankGroup& g, double bytes) const;
  /// From a rank of one stage to that of another, the worst pair.
  [[nodiscard]] double message(const View& view, std::int32_t from, std::int32_t to, double bytes) const;

 private:
  [[nodiscard]] RankGroup listed_group(const Listed& stages, std::int64_t count, std::int64_t stride) const;
  [[nodiscard]] double link(std::size_t level, double bytes) const;
  /// `bytes` that every member passes on, shared by all links of the fastest level.
  [[nodiscard]] double bytes_alone(const RankGroup& g, double bytes) const;
  /// `bytes` that every member passes on, each over the slowest link alone, with a flat ring's hops twice.
  [[nodiscard]] double alone_on_slowest(const RankGroup& g, double bytes) const;
  [[nodiscard]] double unplaced(const RankGroup& g, double bytes) const {
    return end_ == End::least ? bytes_alone(g, bytes) : alone_on_slowest(g, bytes);
  }

  std::vector<FabricLevel> levels_;
  End end_;
  bool free_ = false;  ///< nothing takes any time (View::free_network)
};

/// Seconds of a message between stages that are not alike: `bytes` at the busier end. Inside a group over the lowest
/// level whose domain holds both stages; between groups over what joins them and the outermost network of each, at the
/// pace of the slowest.
double unlike_message(const View& view, std::int32_t from, std::int32_t to, double bytes);
/// The same between any two stages on the cluster of the view.
double stage_message(const View& view, const Stage& from, const Stage& to, double bytes);

}  // namespace espalier::check
