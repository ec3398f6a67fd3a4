// SPDX-License-Identifier: Apache-2.0
// Activations, and gradients of them, on their way: between layers of two layouts inside a stage, and between stages.
//
// Stages that are joined position by position (plan/unfold.h) pass on a value as its layer left it; the receiving stage
// moves it inside, if its first layer wants it otherwise. Between other stages (Transfer::boxes) every rank sends the
// boxes that others want and puts its own together of what arrives.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/activation_layout.h"
#include "runtime/rank_model.h"

namespace espalier::runtime {

/// A value that is complete once its messages have ended, and for how many sends or computations it waits.
struct Arrival {
  at::Tensor room;
  std::vector<std::pair<at::Tensor, at::Tensor>> pieces;  ///< part of the room, and where it arrives
  std::int32_t uses = 1;
  /// What arrives in `box` goes into these parts of the room: each with the tokens that it is of the box.
  void expect(const std::vector<std::pair<at::Tensor, Extent>>& parts, const at::Tensor& box);
  /// The whole value.
  at::Tensor assembled();
};

class ActivationMoves {
 public:
  /// A side of a layer: the layer is of this range of the program.
  struct Side {
    std::int32_t range = 0, layer = 0;
  };

  ActivationMoves(const RankView& view, const Program& program, const RankClass& rank, Communicator* world);

  /// Of all samples of a micro-batch those of this rank beside layers of a range.
  [[nodiscard]] Extent samples(std::int32_t range) const;
  /// `x` as it lies beside layer `from`, as layer `to` wants it; both in this stage. Every rank of the stage takes
  /// part.
  at::Tensor moved(const at::Tensor& x, Side from, Side to, std::int32_t microbatch, bool gradient);
  /// What `send` instruction `i` sends of `value`.
  Message send(const Instruction& i, const at::Tensor& value);
  /// Offers what `recv` instruction `i` receives; `arrival` is of all receives of one value.
  Message receive(const Instruction& i, Arrival& arrival);
  /// The side of a transfer's sender, or of its receiver, as it lies in the pipeline: an activation's sender takes its
  /// gradient.
  [[nodiscard]] Side before(const Transfer& transfer) const;
  [[nodiscard]] Side behind(const Transfer& transfer) const;

 private:
  [[nodiscard]] std::vector<ActivationBox> boxes(Side side, const RankClass& rank) const;
  [[nodiscard]] bool same_layout(Side a, Side b) const;
  [[nodiscard]] at::Tensor room_for(const ActivationBox& box) const;
  [[nodiscard]] std::int32_t tag(std::int32_t place, std::int32_t microbatch, bool gradient) const;
  [[nodiscard]] int peer_of(const Instruction& i) const;
  /// The box that goes from one rank to another between two stages.
  [[nodiscard]] ActivationBox box_between(const Transfer& transfer, const RankClass& from, const RankClass& to) const;
  [[nodiscard]] std::int64_t position_of(const RankClass& rank) const;
  [[nodiscard]] std::int64_t ranks_beside(const RankClass& rank) const;

  const RankView& view_;
  const Program& program_;
  const RankClass& rank_;
  const PipelineProgram& pipeline_;
  Communicator* world_;
  std::int64_t position_ = 0;                // in the stage
  std::vector<std::int64_t> stage_devices_;  // of this stage
};

}  // namespace espalier::runtime
