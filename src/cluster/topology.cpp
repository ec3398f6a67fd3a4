// SPDX-License-Identifier: Apache-2.0
// Counting group members per domain; the cases are derived in topology.h.
#include "cluster/topology.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace espalier::cluster {
namespace {

constexpr std::int64_t kMaxBlocksCounted = 256;

/// Smallest count in a touched domain over the groups of the block that begins `begin` devices into a domain of `span`.
/// The offset j of a group only matters at its ends: the first domain holds fewest members for the last j before the border, the
/// last domain for the first j after it; the domains between hold ⌊span/stride⌋ or one more.
std::int64_t fewest_in_block(std::int64_t begin, std::int64_t stride, std::int64_t size, std::int64_t span) {
  const std::int64_t extent = stride * size;
  if (begin + extent <= span) return size;
  // Some offset puts a member on the last device of the first domain, or one on the first device of a later one.
  if (begin + stride > span) return 1;
  std::int64_t fewest = (span - begin) / stride;
  const std::int64_t last = (begin + (size - 1) * stride) % span;
  fewest = std::min(fewest, last + stride > span ? 1 : last / stride + 1);
  if (begin + extent > 2 * span) fewest = std::min(fewest, std::max<std::int64_t>(1, span / stride));
  return fewest;
}

std::int64_t members_in_domain(std::int64_t stride, std::int64_t size, std::int64_t span, std::int64_t devices) {
  const std::int64_t extent = stride * size;
  if (span % extent == 0) return size;
  if (extent % span == 0) return std::max<std::int64_t>(1, span / stride);
  const std::int64_t step = std::gcd(extent, span);
  const std::int64_t blocks = devices / extent;
  if (blocks >= span / step || blocks > kMaxBlocksCounted) return std::max<std::int64_t>(1, step / stride);
  std::int64_t fewest = size;
  for (std::int64_t b = 0; b < blocks && fewest > 1; ++b)
    fewest = std::min(fewest, fewest_in_block(b * extent % span, stride, size, span));
  return fewest;
}

}  // namespace

GroupShape group_shape(const std::vector<FabricLevel>& levels, std::int64_t stride, std::int64_t size, std::int64_t devices) {
  ESPALIER_CHECK(stride >= 1 && size >= 1 && stride <= devices / size);
  ESPALIER_CHECK(levels.size() <= static_cast<std::size_t>(kMaxLevels));
  GroupShape shape;
  shape.size = size;
  shape.levels = static_cast<int>(levels.size());
  std::int64_t below = 1;
  for (std::size_t k = 0; k < levels.size(); ++k) {
    const bool outermost = k + 1 == levels.size();
    below = outermost ? size : std::max(below, members_in_domain(stride, size, levels[k].span, devices));
    shape.members_per_level[k] = below;
  }
  return shape;
}

int level_of_pair(const std::vector<FabricLevel>& levels, std::int64_t a, std::int64_t b) {
  if (a == b) return -1;
  for (std::size_t k = 0; k < levels.size(); ++k)
    if (a / levels[k].span == b / levels[k].span) return static_cast<int>(k);
  return static_cast<int>(levels.size()) - 1;
}

}  // namespace espalier::cluster
