// SPDX-License-Identifier: Apache-2.0
// One layer of the model on one rank: its operators in the order of the Model, between them the residual stream.
//
// The value that enters a layer (of an embedding: the looked-up tokens) is the stream; a residual adds the stream to what its branch made of
// it, and the sum is the new stream. A branch begins behind a residual. Backward the stream's gradient goes round the branch and is added
// where the branch began.
#pragma once

#include <memory>
#include <vector>

#include "runtime/operators.h"

namespace espalier::runtime {

class Layer {
 public:
  /// `parameters` by operator; `states` of all of them, each once.
  Layer(const LayerKind& kind, const std::vector<Parameters>& parameters, std::vector<State*> states, const Place& place,
        bool recomputed);

  at::Tensor forward(Frame& frame, const at::Tensor& x);
  /// Gradients of parameters become tasks of the frame; what was saved is dropped.
  at::Tensor backward(Frame& frame, const at::Tensor& dy);
  /// Runs the tasks; the micro-batch is through with this layer.
  void weight_gradients(Frame& frame);
  [[nodiscard]] const std::vector<State*>& states() const { return states_; }

 private:
  at::Tensor run(Frame& frame, const at::Tensor& x);
  [[nodiscard]] bool begins_branch(std::size_t i) const;

  std::vector<OperatorKind> kinds_;
  std::vector<std::unique_ptr<LayerOperator>> operators_;
  std::vector<State*> states_;
  bool recomputed_;
};

}  // namespace espalier::runtime
