// SPDX-License-Identifier: Apache-2.0
// Holds the results that a finished search of the uniform space proved, for a search of the same job after a small
// change of its cluster.
//
// A floor is the least time that any configuration below a choice may take and still fit into memory. It is the bound
// once the needed recomputation and sharding are known. Most choices whose own bound lies below the answer have a
// floor far above it, and a search spends most of its time on finding that. Where links changed, bounds keep a known
// part of themselves (cost/network_change.h). Where the memory limit fell, fewer configurations fit, and floors stay
// true. So a choice whose scaled floor exceeds the incumbent of the new search is dropped without being expanded. All
// other choices are bounded anew. The answer equals that of a search without a record; only the order of work and the
// counters differ.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cost/network_change.h"
#include "search/space.h"

namespace espalier::search {

struct SearchRecord {
  /// Holds a choice of the layer group.
  struct Layer {
    Configuration choice;
    double leaves = 0;
    std::int64_t floor_ns = 0;
    /// Holds the floors of its schedule choices, in the order of Space::schedules; empty if they were not examined.
    std::vector<std::int64_t> schedule_floors_ns;
  };
  std::vector<Layer> layers;  ///< choices that may fit and whose floor is near the answer
  /// `far_leaves` counts the configurations below all other choices; `far_floor_ns` holds the least of the floors of
  /// these choices.
  double far_leaves = 0;
  std::int64_t far_floor_ns = INT64_MAX;
  double too_large = 0;  ///< configurations below choices that cannot fit
  double space_size = 0;
  std::map<std::string, std::map<std::int64_t, double>> by_dimension;
  std::vector<Configuration> fastest;  ///< fastest simulated configurations
  std::int64_t model_layers = 1;
};

/// Holds a record together with the change of the cluster since then.
struct Carried {
  const SearchRecord* record = nullptr;
  cost::NetworkChange change;

  /// Returns a floor of the record below a choice of the layer group, as it holds now.
  [[nodiscard]] std::int64_t floor_ns(const Configuration& choice, std::int64_t then) const {
    return change.bound_after(then, choice.schedule.microbatches, record->model_layers);
  }
  /// Returns the floor of the choices that the record does not list. They may have as many micro-batches as the batch
  /// has samples.
  [[nodiscard]] std::int64_t far_floor_ns(std::int64_t global_batch) const {
    return change.bound_after(record->far_floor_ns, global_batch, record->model_layers);
  }
};

}  // namespace espalier::search
