// SPDX-License-Identifier: Apache-2.0
// Runs a block whose operators are partitioned one by one, on one rank. Its nodes run in order (plan/block_graph.h),
// and tiles move between them (tile_exchange.h). The input has the layout of the output. In the backward, the
// gradients of a value that several nodes read are added in the layout of the node that produced it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/layer.h"
#include "runtime/tile_exchange.h"
#include "runtime/tile_operators.h"

namespace espalier::runtime {

class PartitionedLayer : public Layer {
 public:
  /// `parameters` are indexed by operator of `kind`. `place` has all fields except those that differ from node to
  /// node.
  PartitionedLayer(const LayerKind& kind, SpreadBlock block, const std::vector<Parameters>& parameters,
                   std::vector<State*> states, TilePlace place, bool recomputed);

 private:
  at::Tensor run(Frame& frame, const at::Tensor& x) override;
  at::Tensor run_back(Frame& frame, at::Tensor dy, bool whole) override;

  /// Describes how the tensors of a node that come over one edge get there and back.
  struct Way {
    std::int32_t from = 0;
    std::vector<int> tensors;
    TileExchange forward, backward;
  };
  [[nodiscard]] Way way_of(const BlockEdge& edge, const TilePlace& place) const;
  /// Returns the sum of two gradients of the output of `node`.
  [[nodiscard]] at::Tensor joined(std::int32_t node, const at::Tensor& a, const at::Tensor& b) const;
  [[nodiscard]] bool read_later(std::int32_t node, std::int32_t now) const;

  SpreadBlock block_;
  std::vector<std::unique_ptr<TileOperator>> nodes_;  // nodes 1 …
  std::vector<std::vector<Way>> ways_;                // ways into nodes 1 …
};

}  // namespace espalier::runtime
