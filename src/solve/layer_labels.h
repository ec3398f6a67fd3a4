// SPDX-License-Identifier: Apache-2.0
// Defines the labels of the layer search and the rule that makes one of them superfluous. Internal to the layer
// search.
//
// Labels are built from the last layer to the first: a label represents a choice of the layers from some layer on.
// For those layers, let the base be B = Σ states + (K − 1)·Σ saved, and the reach P = max_i (Σ_{l≤i} saved +
// transient_i). The memory is M = B + P, and q copies of an item in front give
//     M' = M + q·m + max(0, transient − P),    P' = q·saved + max(transient, P).
// In this direction the transients settle early, at the end of the stage, and then M only adds up. A transient t ≤ T
// of the remaining layers cannot matter once P ≥ T. So P is cut at T, which makes labels of equal M equal.
//
// Label a makes b superfluous when a.cost + d(a, b) ≤ b.cost, a.tail ≤ b.tail, a.M ≤ b.M and a.M − a.P ≤ b.M − b.P.
// Here d = 0 inside a layout. Otherwise it is the most by which a transition into a's layout exceeds the one into b's
// (never below 0). Then everything that may precede b may precede a.
#pragma once

#include <cstdint>
#include <vector>

namespace espalier::solve {

struct LayerLabel {
  std::int64_t cost = 0, tail = 0;  ///< ticks
  std::int64_t memory = 0, reach = 0;
  std::int32_t layout = 0;
  std::int32_t after = -1;  ///< label of the layers that follow, an index into all kept labels; −1: nothing follows
  std::int32_t option = 0, copies = 0;

  [[nodiscard]] std::int64_t base() const { return memory - reach; }
};

/// Marks a forbidden cost in ticks; the sum of two does not overflow.
inline constexpr std::int64_t kForbidden = std::int64_t{1} << 61;

/// Returns d(a, b) of every pair of layouts, [a·layouts + b], from the transitions [from·layouts + to] in ticks.
std::vector<std::int64_t> layout_distances(const std::vector<std::int64_t>& transition, std::size_t layouts);

/// Keeps only labels that no other makes superfluous, by rising (layout, cost, …); among equals the first. If
/// `distance` is empty, labels of different layouts are not compared.
void drop_superfluous(std::vector<LayerLabel>& labels, const std::vector<std::int64_t>& distance, std::size_t layouts);

}  // namespace espalier::solve
