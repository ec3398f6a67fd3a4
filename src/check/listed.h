// SPDX-License-Identifier: Apache-2.0
// Devices in an order of the plan's own, from the check's side: rank n of a stage runs on the n-th device that the
// stage lists.
//
// A group of g ranks at a stride t takes places b + r, b + r + t, … of the list (b a multiple of g·t, r < t). At a
// level of the fabric with domains of `span` devices its members fall into domains device div span; a plan is priced
// where all groups of a kind fall alike.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/invariant.h"
#include "espalier/cluster.h"
#include "espalier/plan.h"

namespace espalier::check {

/// Devices of every stage, place by place.
using Listed = std::vector<std::vector<std::int64_t>>;

/// Null where every stage lists the devices that its strategies' order numbers it, by ascending id.
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

/// Members of a group in each domain that it reaches, by ascending number.
std::vector<std::int64_t> fall(const std::vector<std::int64_t>& group, std::int64_t span);

/// A kind of group of a strategy of the pipeline that falls otherwise in one place than in another; empty: there is
/// none.
std::string uneven_groups(const Pipeline& pipeline, const Listed& stages, const Cluster& cluster, bool experts);

}  // namespace espalier::check
