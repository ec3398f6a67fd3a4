// SPDX-License-Identifier: Apache-2.0
// One layer of the model on one rank: its operators in the order of the Model, between them the residual stream.
//
// The value that enters a layer (of an embedding: the looked-up tokens) is the stream; a residual adds the stream to
// what its branch made of it, and the sum is the new stream. A branch begins behind a residual. Backward the stream's
// gradient goes round the branch and is added where the branch began.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "runtime/rank_operators.h"

namespace espalier::runtime {

class Layer {
 public:
  /// `parameters` by operator; `states` of all of them, each once.
  Layer(const LayerKind& kind, const std::vector<Parameters>& parameters, std::vector<State*> states, const OperatorPlace& place,
        bool recomputed);
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  at::Tensor forward(Frame& frame, const at::Tensor& x);
  /// The gradient of the input; what was saved is dropped. Gradients of parameters: `whole`, each behind the gradient
  /// of its operator's input, so that nothing waits for them, and the micro-batch is through with this layer; otherwise
  /// they become tasks of the frame.
  at::Tensor backward(Frame& frame, at::Tensor dy, bool whole);
  /// Runs the tasks; the micro-batch is through with this layer.
  void weight_gradients(Frame& frame);
  [[nodiscard]] const std::vector<State*>& states() const { return states_; }

 protected:
  Layer(std::vector<State*> states, OperatorClock* clock, bool recomputed)
      : states_(std::move(states)), clock_(clock), recomputed_(recomputed) {}
  /// All operators; the states are readable, and what the backward needs is kept in the frame.
  virtual at::Tensor run(Frame& frame, const at::Tensor& x);
  /// `whole`: with the gradients of parameters, each behind that of its operator's input; otherwise they stay tasks of
  /// the frame.
  virtual at::Tensor run_back(Frame& frame, at::Tensor dy, bool whole);
  /// Runs the tasks of the frame.
  static void run_tasks(Frame& frame);
  /// What stands between computations.
  void communicate(const std::function<void()>& body) const;

 private:
  void acquire();
  /// Runs the arithmetic of operator `i` under the clock, where there is one.
  void timed(const Frame& frame, std::size_t i, Pass pass, const std::function<void()>& body) const;
  /// The tasks from `first` on are those of operator `i`.
  void time_tasks(Frame& frame, std::size_t i, std::size_t first) const;
  [[nodiscard]] bool begins_branch(std::size_t i) const;

  std::vector<OperatorKind> kinds_;
  std::vector<std::unique_ptr<LayerOperator>> operators_;
  std::vector<State*> states_;
  OperatorClock* clock_ = nullptr;
  std::vector<profile::OperatorWork> works_;
  std::vector<const Communicator*> meets_;  // in which operators spend time that is not theirs
  std::vector<std::ptrdiff_t> join_of_;     // by operator that begins a branch: the residual that ends it, or −1
  std::int32_t number_ = 0;                 // of the model
  bool recomputed_;
};

}  // namespace espalier::runtime
