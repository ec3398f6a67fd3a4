// SPDX-License-Identifier: Apache-2.0
// Provides what several tests of this module share: the published profiles, the published tables, and the authors'
// dynamic program over whole megabytes as a reference for the layer search.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/document.h"
#include "base/invariant.h"
#include "data/source_dir.h"
#include "reference/v1_planner.h"

namespace espalier::reference {

inline std::string source_file(const std::string& path) {
  auto text = base::read_file(std::string(ESPALIER_SOURCE_DIR) + "/" + path);
  ESPALIER_CHECK(text.ok());
  return *text;
}

inline const std::map<std::string, V1Profile>& published_profiles() {
  static const std::map<std::string, V1Profile> profiles = [] {
    const std::string path = "data/galvatron/galvatron_v1_profile.json";
    auto read = read_v1_profiles(source_file(path), path);
    ESPALIER_CHECK(read.ok());
    return *read;
  }();
  return profiles;
}

/// Holds a row of a published table; samples_per_s 0: nothing fits.
struct GridRow {
  std::string model, space, plan;
  std::int32_t devices = 8, memory_gb = 8, batch = 0, pp = 0;
  double samples_per_s = 0;
};

/// Returns the rows of all spaces: "full" and smaller ones.
inline std::vector<GridRow> published_rows(std::int32_t devices) {
  const std::string path = "tests/golden/galvatron_v1_grid" + std::to_string(devices) + ".json";
  auto document = base::read_json(source_file(path), path);
  ESPALIER_CHECK(document.ok());
  std::vector<GridRow> rows;
  for (const base::Node& row : document->root.items) {
    const auto integer = [&row](std::size_t i) { return static_cast<std::int32_t>(row.items[i].integer); };
    rows.push_back({row.items[0].text, row.items[2].text, row.items[7].text, devices, integer(3), integer(4), integer(6),
                    row.items[5].real});
  }
  return rows;
}

inline V1Workload workload(const std::string& name, std::int32_t devices) {
  auto workloads = v1_workloads(published_profiles(), devices);
  ESPALIER_CHECK(workloads.ok());
  const auto found = std::find_if(workloads->begin(), workloads->end(), [&](const V1Workload& w) { return w.name == name; });
  ESPALIER_CHECK(found != workloads->end());
  return *found;
}

/// Computes f[v][s] = min over the strategy before of f[v − mb(s)][before] + transition + time, for every whole
/// number of megabytes v (the published recurrence, Miao et al. 2022, §4.2). It is infinite if nothing fits. The code
/// is plain, slow and exact.
inline double best_on_megabyte_grid(const solve::LayerProblem& problem, std::int64_t capacity) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (capacity < 0) return infinity;
  const std::size_t strategies = problem.transition.size(), grid = static_cast<std::size_t>(capacity) + 1;
  std::vector<std::vector<double>> before(strategies, std::vector<double>(grid, 0.0)), now = before;
  for (std::size_t layer = 0; layer < problem.layers.size(); ++layer) {
    const auto& options = problem.options[static_cast<std::size_t>(problem.layers[layer])];
    for (std::size_t s = 0; s < strategies; ++s) {
      std::fill(now[s].begin(), now[s].end(), infinity);
      const auto mb = static_cast<std::size_t>(options[s].states);
      for (std::size_t from = 0; from < strategies; ++from) {
        const double step = options[s].steady + (layer > 0 ? problem.transition[from][s] : 0.0);
        for (std::size_t v = mb; v < grid; ++v) now[s][v] = std::min(now[s][v], before[from][v - mb] + step);
      }
    }
    std::swap(before, now);
  }
  double best = infinity;
  for (const auto& row : before) best = std::min(best, row.back());
  return best;
}

}  // namespace espalier::reference
