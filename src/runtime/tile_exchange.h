// SPDX-License-Identifier: Apache-2.0
// Tiles of activations between two operators of a partitioned block (plan/block_tiles.h): from where one left them to
// where the other wants them. All of what goes from one rank to another is one message; where every rank has what it
// wants nothing is copied.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "plan/block_tiles.h"
#include "runtime/communicator.h"

namespace espalier::runtime {

class TileExchange {
 public:
  using Tiles = std::vector<std::vector<ActivationTile>>;  ///< [tensor][place]

  /// `group`: the tensor group, by place; `marks`: of its messages. Null: one rank.
  TileExchange(const Tiles& held, const Tiles& wanted, int place, Communicator* group, int mark);

  /// The wanted tiles of this rank, of those that it holds; both in the order of the tensors. Every rank of the group
  /// calls this.
  [[nodiscard]] std::vector<at::Tensor> run(const std::vector<at::Tensor>& held) const;

 private:
  /// Where a box lies in a tile's tensor: what is cut of each of its dimensions.
  struct Cut {
    std::int32_t tensor = 0;
    std::vector<Extent> dimensions;
    [[nodiscard]] at::Tensor of(const std::vector<at::Tensor>& tensors) const;
  };
  struct Inside {
    Cut out, into;
  };
  using Cuts = std::map<int, std::vector<Cut>>;  // by peer

  static Cut cut(const Tiles& tiles, int place, const TilePiece& piece, const ActivationBox& box);
  static std::vector<std::int64_t> shape_of(const ActivationTile& tile);

  bool nothing_moves_ = false;
  int mark_;
  Communicator* group_;
  std::vector<std::vector<std::int64_t>> shapes_;  // wanted
  std::vector<std::int64_t> missing_;              // elements of them that nobody leaves: they are zeros
  std::vector<Inside> inside_;
  Cuts sent_, received_;
};

}  // namespace espalier::runtime
