// SPDX-License-Identifier: Apache-2.0
// Runs one rank's instruction list. It is the second interpreter of the Program, next to the simulator.
//
// Instructions are issued in order. An instruction that waits for another (wait0, wait1) waits until it has ended.
// Computations run here; sends and receives are asynchronous messages; reductions and gathers run on their own queue.
//
// Gloo's messages move only when both ends are posted, while a `send` of the Program ends without its receiver.
// Before every instruction a rank therefore posts all receives whose sender may have reached its send. In a peer's
// list, these come before the first instruction that needs a send that this rank has not issued. A peer that waits
// for a send to this rank waits for one of these receives. No two ranks can thus wait for each other where the
// Program does not make them.
//
// A step does one thing beyond the Program: before the update, all ranks sum their losses and the squares of their
// gradients in one all-reduce of three numbers. The third number carries a rank's request to all others (steering.h).
// The sums give the reported loss and the clipping factor of the gradients.
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
  double wish = 0;      ///< sum of the requests of all ranks
};

/// Holds the hyperparameters of a training run.
struct TrainingRecipe {
  AdamW adam;
  double clip = 1;  ///< largest norm of gradients; 0: not clipped
};

class Executor {
 public:
  /// `meetings` holds all ranks, for gradients that are summed between pipelines; null where there is one pipeline.
  Executor(const RankView& view, const Program& program, RankModel& model, Communicator* world, const TokenSource& data,
           const TrainingRecipe& recipe, Communicator* meetings);

  /// Sets this rank's request to all others in the next step. They receive this number with the loss.
  void ask(double wish) { wish_ = wish; }
  /// Runs training step `step` (from 0). `look`, where given, is called when all gradients are complete and nothing
  /// is updated yet.
  StepResult step(std::int64_t step, const std::function<void(RankModel&)>& look = {});
  /// Sets a function that is called for every pass through a head of this rank, with the pass's first sample in its
  /// step. It returns the callback that receives the logits.
  void watch_logits(std::function<WatchLogits(std::int64_t)> watch) { watch_logits_ = std::move(watch); }

 private:
  struct Pass {                             ///< a micro-batch in a chunk
    std::map<std::int32_t, Batch> batches;  ///< for embedding and head
    std::map<std::int32_t, Frame> frames;   ///< by layer
    at::Tensor value;                       ///< activation, or gradient, between two buckets
  };
  using Key = std::pair<std::int32_t, std::int32_t>;  // chunk, micro-batch

  void run(std::int32_t index);
  void compute(std::int32_t index);
  void carry_out(const Instruction& i, std::int32_t index);
  void forward(const Work& work, const Instruction& i);
  /// `whole` computes gradients of parameters as well, layer by layer. Otherwise those wait for weight_gradients.
  void backward(const Work& work, const Instruction& i, bool whole);
  void weight_gradients(const Work& work, const Instruction& i);
  void update(std::int32_t index);
  void send(std::int32_t index);
  void receive(std::int32_t index);
  void offer_receives(std::int32_t now);
  void wait_for(std::int32_t index);
  void await(std::int32_t index);
  /// Runs `body`, which waits before computation `index`, and records the time.
  void waiting(std::int32_t index, const std::function<void()>& body);
  /// Adds the task of a reduction or gather to the queue.
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
  /// Returns a value that has arrived or was kept, for one of its uses.
  at::Tensor taken(ChunkId chunk, bool gradient, std::int32_t microbatch);
  std::map<Key, Arrival>& values_of(bool gradient) { return gradient ? leaving_ : entering_; }

  const RankView& view_;
  StepClock* steps_;  // null: instructions are not timed
  const Program& program_;
  const RankClass& rank_;
  RankModel& model_;
  Communicator* world_;
  const TokenSource& data_;
  TrainingRecipe recipe_;
  const PipelineProgram& pipeline_;
  ActivationMoves moves_;
  GradientMeeting meeting_;
  std::map<std::int32_t, std::int32_t> sends_;  // by transfer: this rank's sends per micro-batch
  std::int64_t step_ = 0;
  double loss_ = 0, wish_ = 0;
  StepResult result_;
  const std::function<void(RankModel&)>* look_ = nullptr;
  std::function<WatchLogits(std::int64_t)> watch_logits_;
  std::map<Key, Pass> passes_;
  std::map<Key, Arrival> entering_, leaving_;     // activations that enter a chunk, gradients that leave it
  std::vector<Message> messages_;                 // by instruction, from rank_.begin
  std::vector<std::int64_t> tasks_;               // by instruction: task number in queue_
  std::vector<bool> offered_;                     // by instruction: the receive is posted
  std::map<std::int32_t, std::int32_t> reached_;  // by peer: how far its list may have come
  Queue queue_;
};

}  // namespace espalier::runtime
