// SPDX-License-Identifier: Apache-2.0
// Runs one rank's instruction list: the second interpreter of the Program, beside the simulator.
//
// Instructions are issued in their order. One that waits for another (wait0, wait1) waits until it has ended. Computations run here; sends
// and receives are messages under way; reductions and gathers run on a queue beside. Gloo's messages move only when both ends are there, while
// a `send` of the Program ends without its receiver. So before every instruction a rank offers all receives whose sender may have come to
// the send: of a peer's list, what stands before the first instruction that needs a send which this rank has not issued. A peer that waits for
// a send to this rank waits for one of these, so that no two ranks wait for each other where the Program lets them pass.
//
// What a step does beyond the Program: before the update all ranks sum their losses and the squares of their gradients (one all-reduce of two
// numbers), from which follow the loss that is shown and the clipping of gradients.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/program.h"
#include "runtime/initial.h"
#include "runtime/queue.h"
#include "runtime/rank_model.h"

namespace espalier::runtime {

struct StepResult {
  double loss = 0;      ///< mean over the tokens of the global batch
  double gradient = 0;  ///< norm of all gradients before clipping
};

/// How a run trains.
struct Recipe {
  AdamW adam;
  double clip = 1;  ///< largest norm of gradients; 0: not clipped
};

class Executor {
 public:
  Executor(const RankView& view, const Program& program, RankModel& model, Communicator* world, const TokenSource& data,
           const Recipe& recipe);

  /// Training step `step` (from 0). `look`, where given, is called when all gradients are complete and nothing is updated yet.
  StepResult step(std::int64_t step, const std::function<void(RankModel&)>& look = {});

 private:
  struct Pass {                             ///< a micro-batch in a chunk
    std::map<std::int32_t, Batch> batches;  ///< of embedding and head
    std::map<std::int32_t, Frame> frames;   ///< by layer
    at::Tensor value;                       ///< between two buckets: activation, or gradient
  };
  using Key = std::pair<std::int32_t, std::int32_t>;  // chunk, micro-batch

  void run(std::int32_t index);
  void compute(const Instruction& i);
  void forward(const Work& work, const Instruction& i);
  void backward(const Work& work, const Instruction& i);
  void weight_gradients(const Work& work, const Instruction& i);
  void update();
  void send(std::int32_t index);
  void receive(std::int32_t index);
  void offer_receives(std::int32_t now);
  void wait_for(std::int32_t index);
  void reduce(std::int32_t index);
  void gather(std::int32_t index);
  void tie(std::int32_t index);

  Pass& pass_of(const Work& work, std::int32_t microbatch);
  Batch batch_of(const WorkRange& range, std::int32_t microbatch);
  [[nodiscard]] LayerSpan chunk_layers(ChunkId chunk) const;
  [[nodiscard]] LayerSpan layers_of(const Instruction& i, ChunkId chunk, bool forward) const;
  [[nodiscard]] std::int32_t range_of(const Work& work, std::int32_t layer) const;
  [[nodiscard]] std::vector<Box> boxes_of(std::int32_t range) const;
  /// `x` as range `from` lies, as range `to` wants it.
  at::Tensor moved(const at::Tensor& x, std::int32_t from, std::int32_t to, std::int32_t microbatch, bool gradient);
  [[nodiscard]] at::Tensor room_for(std::int32_t range) const;
  [[nodiscard]] std::int32_t tag(std::int32_t place, std::int32_t microbatch, bool gradient) const;

  const RankView& view_;
  const Program& program_;
  const RankClass& rank_;
  RankModel& model_;
  Communicator* world_;
  const TokenSource& data_;
  Recipe recipe_;
  std::int64_t position_ = 0;  // in the stage
  std::vector<std::int64_t> stage_devices_;
  std::int64_t step_ = 0;
  double loss_ = 0;
  StepResult result_;
  const std::function<void(RankModel&)>* look_ = nullptr;
  std::map<Key, Pass> passes_;
  std::map<Key, at::Tensor> entering_, leaving_;  // activations that enter a chunk, gradients that leave it
  std::vector<Message> messages_;                 // by instruction, from rank_.begin
  std::vector<std::int64_t> tasks_;               // by instruction: of queue_
  std::vector<bool> offered_;                     // receives
  std::map<std::int32_t, std::int32_t> reached_;  // by peer: how far its list may have come
  Queue queue_;
};

}  // namespace espalier::runtime
