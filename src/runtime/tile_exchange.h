// SPDX-License-Identifier: Apache-2.0
// Moves tiles of activations between two operators of a partitioned block (plan/block_tiles.h), from the layout of
// one to the layout of the other. One message carries everything that goes from one rank to another. Where every rank
// already has its tiles, nothing is copied.
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

  /// `group` is the tensor group, by place, and `mark` tags its messages. A null group means one rank.
  TileExchange(const Tiles& held, const Tiles& wanted, int place, Communicator* group, int mark);

  /// Returns the wanted tiles of this rank, given the tiles that it holds. Both are in the order of the tensors.
  /// Every rank of the group calls this.
  [[nodiscard]] std::vector<at::Tensor> run(const std::vector<at::Tensor>& held) const;

 private:
  /// Marks where a box lies in a tile's tensor, as a range of each dimension.
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
  std::vector<std::vector<std::int64_t>> shapes_;  // shapes of the wanted tensors
  std::vector<std::int64_t> missing_;              // number of their elements that no rank holds: they are zeros
  std::vector<Inside> inside_;
  Cuts sent_, received_;
};

}  // namespace espalier::runtime
