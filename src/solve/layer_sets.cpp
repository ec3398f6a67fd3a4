// SPDX-License-Identifier: Apache-2.0
#include "solve/layer_sets.h"

#include <algorithm>
#include <limits>
#include <map>

namespace espalier::solve {
namespace {

constexpr std::size_t kLayouts = 63, kPaths = 512, kFewLayouts = 8;

}  // namespace

std::optional<std::vector<LayoutSet>> layout_sets(const Chain& chain, double most) {
  if (chain.layouts > kLayouts) return std::nullopt;
  // Shortest paths are built by (set, last layout), one layout at a time. Every part of a short path is short.
  using Paths = std::map<std::pair<std::uint64_t, std::size_t>, double>;
  std::map<std::uint64_t, double> ways;
  Paths paths;
  for (std::size_t a = 0; a < chain.layouts; ++a) paths[{std::uint64_t{1} << a, a}] = 0;
  for (std::size_t seen = 0; !paths.empty();) {
    seen += paths.size();
    if (seen > kPaths) return std::nullopt;
    Paths longer;
    for (const auto& [end, length] : paths) {
      const auto way = ways.try_emplace(end.first, length).first;
      way->second = std::min(way->second, length);
      for (std::size_t a = 0; a < chain.layouts; ++a) {
        const std::uint64_t bit = std::uint64_t{1} << a;
        const double further = length + chain.transition[end.second * chain.layouts + a];
        if ((end.first & bit) != 0 || further >= most) continue;
        const auto path = longer.try_emplace({end.first | bit, a}, further).first;
        path->second = std::min(path->second, further);
      }
    }
    paths = std::move(longer);
  }
  std::vector<LayoutSet> sets;
  for (const auto& [bits, way] : ways) {
    bool covered = false;  // by a set with one additional layout and no longer way
    for (std::size_t a = 0; a < chain.layouts && !covered; ++a) {
      const auto more = ways.find(bits | std::uint64_t{1} << a);
      covered = more != ways.end() && more->first != bits && more->second <= way;
    }
    if (covered) continue;
    LayoutSet set{{}, way};
    for (std::size_t a = 0; a < chain.layouts; ++a)
      if ((bits >> a & 1U) != 0) set.layouts.push_back(static_cast<std::int32_t>(a));
    sets.push_back(std::move(set));
  }
  return sets;
}

double shortest_way(const Chain& chain) {
  const std::size_t n = chain.layouts;
  if (n > kFewLayouts) return std::numeric_limits<double>::infinity();
  if (n == 0) return 0;
  const std::size_t all = std::size_t{1} << n;
  std::vector<double> path(all * n, std::numeric_limits<double>::infinity());  // [set·n + last layout]
  for (std::size_t a = 0; a < n; ++a) path[(std::size_t{1} << a) * n + a] = 0;
  for (std::size_t set = 1; set < all; ++set) {
    for (std::size_t last = 0; last < n; ++last) {
      for (std::size_t a = 0; a < n; ++a) {
        double& further = path[(set | std::size_t{1} << a) * n + a];
        if ((set >> a & 1U) == 0) further = std::min(further, path[set * n + last] + chain.transition[last * n + a]);
      }
    }
  }
  return *std::min_element(path.end() - static_cast<std::ptrdiff_t>(n), path.end());
}

}  // namespace espalier::solve
