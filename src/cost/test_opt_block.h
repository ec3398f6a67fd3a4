// SPDX-License-Identifier: Apache-2.0
// For tests: two blocks of the width of OPT 6.7B with partitioned operators, on nodes of four V100.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cost/layer_cost.h"
#include "espalier/cluster.h"
#include "espalier/model.h"
#include "espalier/plan.h"

namespace espalier::cost::test {

inline Cluster v100s(int nodes) {
  auto cluster =
      load_cluster("{nodes: " + std::to_string(nodes) +
                       ", devices_per_node: 4, device: v100-sxm-32gb, inter_node: {bandwidth: 100Gb/s, nics_per_node: 1}}",
                   "cluster");
  EXPECT_TRUE(cluster.ok());
  return *cluster;
}

inline Model decoder(bool gated) {
  DecoderShape shape;
  shape.layers = 2;
  shape.hidden = 4096;
  shape.ffn = 16384;
  shape.heads = 32;
  shape.kv_heads = gated ? 8 : 32;
  shape.vocabulary = 50272;
  shape.gated = gated;
  shape.max_positions = 2048;
  return make_decoder(shape, "test").value();
}

inline Training training() {
  Training t;
  t.sequence.main = 2048;
  t.global_batch = 8;
  t.precision = Precision::fp16;
  return t;
}

inline const LayerKind& block_of(const Model& model) { return model.layer(1); }

}  // namespace espalier::cost::test
