// SPDX-License-Identifier: Apache-2.0
// Handles devices in an order of the plan's own, in the check: rank n of a stage runs on the n-th device that the
// stage lists.
//
// A group of g ranks at a stride t takes places b + r, b + r + t, … of the list (b a multiple of g·t, r < t). At a
// fabric level with domains of `span` devices, device d is in domain d div span. A plan can be priced if all groups
// of a kind are distributed alike over the domains.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/invariant.h"
#include "espalier/cluster.h"
#include "espalier/plan.h"

namespace espalier::check {

/// Lists the devices of every stage, place by place.
using Listed = std::vector<std::vector<std::int64_t>>;

/// Returns null if every stage lists, by ascending id, the devices that its strategies' order assigns to it.
std::shared_ptr<const Listed> listed_devices(const Pipeline& pipeline);

/// Calls visit(devices of a group) for all groups of `count` ranks at `stride`, stage after stage.
template <class Visit>
void each_listed_group(const Listed& stages, std::int64_t count, std::int64_t stride, const Visit& visit) {
  ESPALIER_CHECK(count >= 1 && stride >= 1);
  std::vector<std::int64_t> group(static_cast<std::size_t>(count));
  for (const std::vector<std::int64_t>& devices : stages) {
    const auto places = static_cast<std::int64_t>(devices.size());
    for (std::int64_t first = 0; first < places; ++first) {
      const std::int64_t inside = first % (count * stride);
      if (inside >= stride || first - inside + count * stride > places) continue;
      for (std::int64_t k = 0; k < count; ++k)
        group[static_cast<std::size_t>(k)] = devices[static_cast<std::size_t>(first + k * stride)];
      visit(group);
    }
  }
}

/// Returns the number of members of a group in each domain that it reaches, in ascending order.
std::vector<std::int64_t> fall(const std::vector<std::int64_t>& group, std::int64_t span);

/// Returns a kind of group of a strategy that is distributed differently in two places; empty if there is none.
std::string uneven_groups(const Pipeline& pipeline, const Listed& stages, const Cluster& cluster, bool experts);

}  // namespace espalier::check
