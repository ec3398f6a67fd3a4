// SPDX-License-Identifier: Apache-2.0
// Moves activations and their gradients between layers of different layouts inside a stage, and between stages.
//
// Stages that are joined position by position (plan/unfold.h) pass on a value in the layout of the sending layer. The
// receiving stage moves it internally if its first layer needs another layout. Between other stages (Transfer::boxes)
// every rank sends the boxes that other ranks need and assembles its own from the boxes it receives.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/activation_layout.h"
#include "runtime/rank_model.h"

namespace espalier::runtime {

/// Holds a value that is complete once its messages have ended, and counts the sends or computations that still use
/// it.
struct Arrival {
  at::Tensor room;
  std::vector<std::pair<at::Tensor, at::Tensor>> pieces;  ///< part of the room, and the tensor that its data arrives in
  std::int32_t uses = 1;
  /// Registers that the data arriving in `box` is copied into these parts of the room. Each part names its token
  /// range in `box`.
  void expect(const std::vector<std::pair<at::Tensor, Extent>>& parts, const at::Tensor& box);
  /// Returns the whole value, after copying the arrived pieces into it.
  at::Tensor assembled();
};

class ActivationMoves {
 public:
  /// Identifies one side of a layer. The layer belongs to this range of the program.
  struct Side {
    std::int32_t range = 0, layer = 0;
  };

  ActivationMoves(const RankView& view, const Program& program, const RankClass& rank, Communicator* world);

  /// Returns the samples of a micro-batch that this rank holds next to the layers of a range.
  [[nodiscard]] Extent samples(std::int32_t range) const;
  /// Returns `x`, given in the layout next to layer `from`, in the layout that layer `to` needs. Both layers are in
  /// this stage. Every rank of the stage takes part.
  at::Tensor moved(const at::Tensor& x, Side from, Side to, std::int32_t microbatch, bool gradient);
  /// Sends the part of `value` that `send` instruction `i` transfers.
  Message send(const Instruction& i, const at::Tensor& value);
  /// Posts the receive of `recv` instruction `i`. All receives of one value share one `arrival`.
  Message receive(const Instruction& i, Arrival& arrival);
  /// Return the side in front of and behind the boundary of a transfer, in pipeline order. The gradient's receiver is
  /// the activation's sender.
  [[nodiscard]] Side before(const Transfer& transfer) const;
  [[nodiscard]] Side behind(const Transfer& transfer) const;

 private:
  [[nodiscard]] std::vector<ActivationBox> boxes(Side side, const RankClass& rank) const;
  [[nodiscard]] bool same_layout(Side a, Side b) const;
  [[nodiscard]] at::Tensor room_for(const ActivationBox& box) const;
  [[nodiscard]] std::int32_t tag(std::int32_t place, std::int32_t microbatch, bool gradient) const;
  [[nodiscard]] int peer_of(const Instruction& i) const;
  /// Returns the box that one rank sends to another between two stages.
  [[nodiscard]] ActivationBox box_between(const Transfer& transfer, const RankClass& from, const RankClass& to) const;
  [[nodiscard]] std::int64_t position_of(const RankClass& rank) const;
  [[nodiscard]] std::int64_t ranks_beside(const RankClass& rank) const;

  const RankView& view_;
  const Program& program_;
  const RankClass& rank_;
  const PipelineProgram& pipeline_;
  Communicator* world_;
  std::int64_t position_ = 0;                // position in the stage
  std::vector<std::int64_t> stage_devices_;  // devices of this stage
};

}  // namespace espalier::runtime
