// SPDX-License-Identifier: Apache-2.0
// Runs one rank's instruction list: the second interpreter of the Program, beside the simulator.
//
// Instructions are issued in their order. One that waits for another (wait0, wait1) waits until it has ended.
// Computations run here; sends and receives are messages under way; reductions and gathers run on a queue beside.
// Gloo's messages move only when both ends are there, while a `send` of the Program ends without its receiver. So
// before every instruction a rank offers all receives whose sender may have come to the send: of a peer's list, what
// stands before the first instruction that needs a send which this rank has not issued. A peer that waits for a send to
// this rank waits for one of these, so that no two ranks wait for each other where the Program lets them pass.
//
// What a step does beyond the Program: before the update all ranks sum their losses and the squares of their gradients
// (one all-reduce of three
// numbers: the third says what a rank asks all others for, steering.h), from which follow the loss that is shown and
// the clipping of gradients.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/program.h"
#include "runtime/activation_moves.h"
#include "runtime/gradient_meeting.h"
#include "runtime/initial.h"
#include "runtime/queue.h"
#include "runtime/rank_model.h"

namespace espalier::runtime {

struct StepResult {
  double loss = 0;      ///< mean over the tokens of the global batch
  double gradient = 0;  ///< norm of all gradients before clipping
  double wish = 0;      ///< what all ranks asked for, summed
};

/// How a run trains.
struct TrainingRecipe {
  AdamW adam;
  double clip = 1;  ///< largest norm of gradients; 0: not clipped
};

class Executor {
 public:
  /// `meetings`: all ranks, for gradients that meet between pipelines; null where there is one pipeline.
  Executor(const RankView& view, const Program& program, RankModel& model, Communicator* world, const TokenSource& data,
           const TrainingRecipe& recipe, Communicator* meetings);

  /// What this rank asks all others for in the next step: a number that they get with the loss.
  void ask(double wish) { wish_ = wish; }
  /// Training step `step` (from 0). `look`, where given, is called when all gradients are complete and nothing is
  /// updated yet.
  StepResult step(std::int64_t step, const std::function<void(RankModel&)>& look = {});
  /// Called with the first sample, in its step, of every pass through a head of this rank: who is to look at its
  /// logits.
  void watch_logits(std::function<WatchLogits(std::int64_t)> watch) { watch_logits_ = std::move(watch); }

 private:
  struct Pass {                             ///< a micro-batch in a chunk
    std::map<std::int32_t, Batch> batches;  ///< of embedding and head
    std::map<std::int32_t, Frame> frames;   ///< by layer
    at::Tensor value;                       ///< between two buckets: activation, or gradient
  };
  using Key = std::pair<std::int32_t, std::int32_t>;  // chunk, micro-batch

  void run(std::int32_t index);
  void compute(std::int32_t index);
  void carry_out(const Instruction& i, std::int32_t index);
  void forward(const Work& work, const Instruction& i);
  /// `whole`: gradients of parameters too, layer by layer; otherwise those wait for weight_gradients.
  void backward(const Work& work, const Instruction& i, bool whole);
  void weight_gradients(const Work& work, const Instruction& i);
  void update(std::int32_t index);
  void send(std::int32_t index);
  void receive(std::int32_t index);
  void offer_receives(std::int32_t now);
  void wait_for(std::int32_t index);
  void await(std::int32_t index);
  /// Runs `body`, which waits before computation `index`.
  void waiting(std::int32_t index, const std::function<void()>& body);
  /// The task of a reduction or gather, on the queue.
  void queue(std::int32_t index, std::function<void()> task);
  [[nodiscard]] at::Tensor moved(const at::Tensor& x, const ActivationMoves::Side& from, const ActivationMoves::Side& to,
                                 std::int32_t microbatch, bool gradient);
  [[nodiscard]] std::size_t row_of(std::int32_t index) const { return static_cast<std::size_t>(index - rank_.begin); }
  void reduce(std::int32_t index);
  void gather(std::int32_t index);
  void tie(std::int32_t index);

  Pass& pass_of(const Work& work, std::int32_t microbatch);
  [[nodiscard]] std::int64_t first_sample(std::int32_t range, std::int32_t microbatch) const;
  Batch batch_of(std::int32_t range, std::int32_t microbatch);
  [[nodiscard]] LayerSpan chunk_layers(ChunkId chunk) const;
  [[nodiscard]] LayerSpan layers_of(const Instruction& i, ChunkId chunk, bool forward) const;
  [[nodiscard]] std::int32_t range_of(const Work& work, std::int32_t layer) const;
  [[nodiscard]] ActivationMoves::Side side_of(const Work& work, std::int32_t layer) const {
    return {range_of(work, layer), layer};
  }
  [[nodiscard]] const Transfer& transfer_into(ChunkId chunk, bool gradient) const;
  /// Keeps a value for its sends, or for the next chunk of this rank.
  void keep(ChunkId chunk, bool gradient, std::int32_t microbatch, const at::Tensor& value);
  /// A value that has arrived or was kept, for one use of it.
  at::Tensor taken(ChunkId chunk, bool gradient, std::int32_t microbatch);
  std::map<Key, Arrival>& values_of(bool gradient) { return gradient ? leaving_ : entering_; }

  const RankView& view_;
  StepClock* steps_;  // null: nobody asks when instructions ran
  const Program& program_;
  const RankClass& rank_;
  RankModel& model_;
  Communicator* world_;
  const TokenSource& data_;
  TrainingRecipe recipe_;
  const PipelineProgram& pipeline_;
  ActivationMoves moves_;
  GradientMeeting meeting_;
  std::map<std::int32_t, std::int32_t> sends_;  // by transfer: of one micro-batch, those of this rank
  std::int64_t step_ = 0;
  double loss_ = 0, wish_ = 0;
  StepResult result_;
  const std::function<void(RankModel&)>* look_ = nullptr;
  std::function<WatchLogits(std::int64_t)> watch_logits_;
  std::map<Key, Pass> passes_;
  std::map<Key, Arrival> entering_, leaving_;     // activations that enter a chunk, gradients that leave it
  std::vector<Message> messages_;                 // by instruction, from rank_.begin
  std::vector<std::int64_t> tasks_;               // by instruction: of queue_
  std::vector<bool> offered_;                     // receives
  std::map<std::int32_t, std::int32_t> reached_;  // by peer: how far its list may have come
  Queue queue_;
};

}  // namespace espalier::runtime
