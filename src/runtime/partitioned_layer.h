// SPDX-License-Identifier: Apache-2.0
// A block whose operators are partitioned one by one, on one rank: its nodes in their order (plan/block_graph.h),
// between them tiles on their way (tile_exchange.h). The value that enters lies as the one that leaves. Backward the
// gradients of a value that several nodes read are added where the node that left it wants them.
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
  /// `parameters` by operator of `kind`; `place` has all but what differs from node to node.
  PartitionedLayer(const LayerKind& kind, SpreadBlock block, const std::vector<Parameters>& parameters,
                   std::vector<State*> states, TilePlace place, bool recomputed);

 private:
  at::Tensor run(Frame& frame, const at::Tensor& x) override;
  at::Tensor run_back(Frame& frame, at::Tensor dy, bool whole) override;

  /// Tensors of a node that come over one edge, and how they get there and back.
  struct Way {
    std::int32_t from = 0;
    std::vector<int> tensors;
    TileExchange forward, backward;
  };
  [[nodiscard]] Way way_of(const BlockEdge& edge, const TilePlace& place) const;
  /// Of two gradients of what `node` left their sum.
  [[nodiscard]] at::Tensor joined(std::int32_t node, const at::Tensor& a, const at::Tensor& b) const;
  [[nodiscard]] bool read_later(std::int32_t node, std::int32_t now) const;

  SpreadBlock block_;
  std::vector<std::unique_ptr<TileOperator>> nodes_;  // of nodes 1 …
  std::vector<std::vector<Way>> ways_;                // into nodes 1 …
};

}  // namespace espalier::runtime
