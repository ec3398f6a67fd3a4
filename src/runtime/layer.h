// SPDX-License-Identifier: Apache-2.0
// Runs one layer of the model on one rank: its operators in the order of the Model, with the residual stream between
// them.
//
// The value that enters a layer (in an embedding: the looked-up tokens) is the stream. A residual adds the stream to
// its branch's output, and the sum is the new stream. A branch begins after a residual. In the backward, the stream's
// gradient bypasses the branch and is added where the branch began.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "runtime/rank_operators.h"

namespace espalier::runtime {

class Layer {
 public:
  /// `parameters` are indexed by operator. `states` lists all their states, each once.
  Layer(const LayerKind& kind, const std::vector<Parameters>& parameters, std::vector<State*> states, const OperatorPlace& place,
        bool recomputed);
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  at::Tensor forward(Frame& frame, const at::Tensor& x);
  /// Returns the gradient of the input and drops the saved tensors. With `whole`, the gradients of parameters follow
  /// the gradient of their operator's input, so that nothing waits for them, and the micro-batch is done with this
  /// layer. Otherwise they become tasks of the frame.
  at::Tensor backward(Frame& frame, at::Tensor dy, bool whole);
  /// Runs the tasks. The micro-batch is then done with this layer.
  void weight_gradients(Frame& frame);
  [[nodiscard]] const std::vector<State*>& states() const { return states_; }

 protected:
  Layer(std::vector<State*> states, OperatorClock* clock, bool recomputed)
      : states_(std::move(states)), clock_(clock), recomputed_(recomputed) {}
  /// Runs all operators. The states are readable, and the frame keeps the tensors that the backward needs.
  virtual at::Tensor run(Frame& frame, const at::Tensor& x);
  /// With `whole`, computes the gradients of parameters as well, each after the gradient of its operator's input.
  /// Otherwise they stay tasks of the frame.
  virtual at::Tensor run_back(Frame& frame, at::Tensor dy, bool whole);
  /// Runs the tasks of the frame.
  static void run_tasks(Frame& frame);
  /// Runs communication between computations.
  void communicate(const std::function<void()>& body) const;

 private:
  void acquire();
  /// Runs the arithmetic of operator `i` under the clock, where there is one.
  void timed(const Frame& frame, std::size_t i, Pass pass, const std::function<void()>& body) const;
  /// Times the tasks from `first` on as those of operator `i`.
  void time_tasks(Frame& frame, std::size_t i, std::size_t first) const;
  [[nodiscard]] bool begins_branch(std::size_t i) const;

  std::vector<OperatorKind> kinds_;
  std::vector<std::unique_ptr<LayerOperator>> operators_;
  std::vector<State*> states_;
  OperatorClock* clock_ = nullptr;
  std::vector<profile::OperatorWork> works_;
  std::vector<const Communicator*> meets_;  // communicators whose time is not counted as operator time
  std::vector<std::ptrdiff_t> join_of_;     // by operator that begins a branch: the residual that ends it, or −1
  std::int32_t number_ = 0;                 // number in the model
  bool recomputed_;
};

}  // namespace espalier::runtime
