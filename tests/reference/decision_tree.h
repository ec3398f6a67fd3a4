// SPDX-License-Identifier: Apache-2.0
// Enumerates the decision tree of Galvatron (Miao et al. 2022): the hybrids of parallelism that one layer may have on
// a cluster of equal devices.
//
// For every pipeline depth P = 1, 2, 4, … the N/P devices of a stage are split level by level. A level applies data
// parallelism (DP), sharded data parallelism (SDP: ZeRO-3) or tensor parallelism (TP) with a degree of 2, 4, 8, ….
// Each occurs at most once on a path, and the degrees multiply to N/P. Their order matters: an inner level joins
// neighbouring ranks. A leaf is a strategy; recomputation doubles them.
//
//     leaves of devices       8    16    64
//     all                    34    73   229
//     without DP with SDP    22    37    79      (the published space).
//
// Rules of this tree have a name, a switch and a counter like those of search/pruning.h, but are separate. Pruning
// rules never change the answer, whereas
//
//   no-dp-sdp-mix   drops paths with both DP and SDP: "SDP alone moves as much and holds less". This is no theorem:
//                   ZeRO-3 moves 1.5 times the bytes of DP. SDP inside a node with DP across nodes may be faster than
//                   either alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::reference {

enum class TreeDimension : std::uint8_t { dp, sdp, tp };

struct TreeLevel {
  TreeDimension dimension = TreeDimension::dp;
  std::int32_t degree = 2;
  friend bool operator==(const TreeLevel&, const TreeLevel&) = default;
};

struct TreeLeaf {
  std::int32_t pp = 1;
  std::vector<TreeLevel> levels;  ///< outermost first; empty: one device a stage
  bool recompute = false;

  /// Returns the degree, which is 1 if the dimension is absent.
  [[nodiscard]] std::int32_t degree(TreeDimension dimension) const;
  /// Returns "pp2 dp2 tp4 ckpt", with levels outermost first.
  [[nodiscard]] std::string label() const;
};

enum class TreeRule : std::uint8_t { no_dp_sdp_mix };
inline constexpr int kTreeRules = 1;

struct TreeRuleRow {
  TreeRule id;
  std::string_view name;
  std::string_view sentence;
};
const std::array<TreeRuleRow, kTreeRules>& tree_rules();

/// Holds switches and counters of one enumeration; all rules are on by default.
class TreeRules {
 public:
  TreeRules() { enabled_.fill(true); }
  /// Returns false if there is no rule of that name.
  bool disable(std::string_view name);
  [[nodiscard]] bool enabled(TreeRule rule) const { return enabled_[static_cast<std::size_t>(rule)]; }
  void count(TreeRule rule, std::int64_t leaves) { removed_[static_cast<std::size_t>(rule)] += leaves; }
  /// Returns the number of removed leaves; recomputing ones count separately.
  [[nodiscard]] std::int64_t removed(TreeRule rule) const { return removed_[static_cast<std::size_t>(rule)]; }

 private:
  std::array<bool, kTreeRules> enabled_{};
  std::array<std::int64_t, kTreeRules> removed_{};
};

/// Returns the leaves of every pipeline depth, deepest last; for equal levels first without, then with recomputation.
/// `devices` is a power of two.
std::vector<TreeLeaf> decision_tree(std::int32_t devices, bool with_recompute, TreeRules& rules);

}  // namespace espalier::reference
