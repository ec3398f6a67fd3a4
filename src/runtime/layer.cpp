// SPDX-License-Identifier: Apache-2.0
#include "runtime/layer.h"

#include <ATen/TensorOperators.h>

#include <utility>

namespace espalier::runtime {

using at::Tensor;

Layer::Layer(const LayerKind& kind, const std::vector<Parameters>& parameters, std::vector<State*> states, const Place& place,
             bool recomputed)
    : states_(std::move(states)), recomputed_(recomputed) {
  for (std::size_t i = 0; i < kind.operators.size(); ++i) {
    kinds_.push_back(kind.operators[i].kind);
    operators_.push_back(make_operator(kind, kind.operators[i], parameters[i], place));
  }
}

/// A lookup that is added to the tokens is a branch as well: its operator follows the token table, not a residual.
bool Layer::begins_branch(std::size_t i) const {
  return i == 0 || kinds_[i - 1] == OperatorKind::residual || kinds_[i] == OperatorKind::embedding;
}

Tensor Layer::run(Frame& frame, const Tensor& x) {
  frame.saved.assign(operators_.size(), {});
  Tensor stream = x, value = x;
  for (std::size_t i = 0; i < operators_.size(); ++i) {
    if (kinds_[i] == OperatorKind::residual) {
      value = stream + value;
      stream = value;
    } else if (operators_[i] != nullptr) {
      value = operators_[i]->forward(frame, frame.saved[i], value);
      if (!stream.defined()) stream = value;
    }
  }
  return value;
}

Tensor Layer::forward(Frame& frame, const Tensor& x) {
  for (State* state : states_) state->acquire();
  Tensor y = run(frame, x);
  for (State* state : states_) state->release();
  if (recomputed_) {
    frame.saved.clear();
    frame.input = x;
  }
  return y;
}

Tensor Layer::backward(Frame& frame, const Tensor& dy) {
  for (State* state : states_) state->acquire();
  if (recomputed_) {
    run(frame, frame.input);
    frame.input = Tensor();
  }
  Tensor gradient = dy, around;  // around: the stream's, beside the branch
  for (std::size_t i = operators_.size(); i-- > 0;) {
    if (kinds_[i] == OperatorKind::residual) {
      around = gradient;
    } else if (operators_[i] != nullptr) {
      gradient = operators_[i]->backward(frame, frame.saved[i], gradient);
    }
    if (around.defined() && begins_branch(i)) {
      gradient = gradient.defined() ? gradient + around : around;
      around = Tensor();
    }
  }
  frame.saved.clear();
  for (State* state : states_) state->release();
  return gradient;
}

void Layer::weight_gradients(Frame& frame) {
  for (const auto& task : frame.weight_gradients) task();
  frame.weight_gradients.clear();
  for (State* state : states_) state->micro_batch_done();
}

}  // namespace espalier::runtime
