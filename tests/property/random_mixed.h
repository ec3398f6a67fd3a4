// SPDX-License-Identifier: Apache-2.0
// Generates random models and clusters of two and three kinds of device, for searches that are compared
// with full enumeration.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mixed_clusters.h"
#include "random.h"

namespace espalier::property::mixed {

/// Returns a model with blocks of width 512, an embedding and a head of small or large relative weight,
/// and sometimes experts.
inline Model uneven_model(Random& random) {
  DecoderShape shape;
  shape.layers = random.between(1, 3);
  shape.hidden = 512;
  shape.ffn = random.of<std::int64_t>({1024, 2048});
  shape.heads = shape.kv_heads = 8;
  shape.vocabulary = random.of<std::int64_t>({1024, 8192, 32768});
  shape.max_positions = 1024;
  shape.gated = random.one_in(2);
  shape.tied = random.one_in(4);
  if (random.one_in(5)) {
    shape.experts = 4;
    shape.top_k = 2;
  }
  return make_decoder(shape, "uneven").value();
}

/// Returns two or three groups of at most eight devices together, in one place or two; sometimes one device is slow.
inline std::string random_cluster(Random& random, bool slow_devices = true) {
  const std::int64_t kinds = random.between(2, 3);
  std::int64_t left = 8 - kinds;
  std::string groups;
  std::int64_t devices = 0;
  for (std::int64_t k = 0; k < kinds; ++k) {
    std::vector<std::pair<std::int64_t, std::int64_t>> sizes;
    for (const auto& [nodes, per_node] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {1, 2}, {2, 1}, {3, 1}, {1, 4}, {2, 2}, {1, 3}})
      if (nodes * per_node <= left + 1) sizes.emplace_back(nodes, per_node);
    const auto [nodes, per_node] = random.of(sizes);
    left -= nodes * per_node - 1;
    std::string text = group(nodes, per_node,
                             device(cat("kind", k), static_cast<double>(random.between(20, 300)),
                                    static_cast<int>(random.one_in(3) ? random.between(1, 2) : random.between(3, 16))));
    text.insert(1, cat("name: g", k, ", site: s", std::min<std::int64_t>(k, 1), ", "));
    if (random.one_in(4) && slow_devices)
      text.insert(text.size() - 1, cat(", speed: {\"rank:", devices + nodes * per_node - 1, "\": 0.", random.between(4, 9), "}"));
    devices += nodes * per_node;
    groups += cat(groups.empty() ? "" : ", ", text);
  }
  const std::string between = random.one_in(3) ? cat("links: [{from: s0, to: s1, bandwidth: ", random.between(1, 40),
                                                     "Gb/s, latency: ", random.between(1, 20), "ms, both: true}]")
                                               : cat("inter_group: {bandwidth: ", random.between(1, 100),
                                                     "Gb/s, latency: ", random.between(5, 200), "us}");
  return cat("{groups: [", groups, "], ", between, "}");
}

inline void narrow(Random& random, SearchSpace& space) {
  space.allow(Dimension::zero, {random.below(3)});
  space.allow(Dimension::sp, {0});
  space.allow(Dimension::recompute, {random.below(2) * 2});
}

}  // namespace espalier::property::mixed
