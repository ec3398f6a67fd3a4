// SPDX-License-Identifier: Apache-2.0
#include "runtime/layer.h"

#include <ATen/TensorOperators.h>

#include <utility>

#include "runtime/step_clock.h"

namespace espalier::runtime {

using at::Tensor;

Layer::Layer(const LayerKind& kind, const std::vector<Parameters>& parameters, std::vector<State*> states,
             const OperatorPlace& place, bool recomputed)
    : states_(std::move(states)), clock_(place.clock), works_(place.works), number_(place.layer), recomputed_(recomputed) {
  for (const Communicator* group : {place.tensor, place.sequence, place.context, place.experts, place.expert_tensor})
    if (group != nullptr) meets_.push_back(group);
  for (std::size_t i = 0; i < kind.operators.size(); ++i) {
    kinds_.push_back(kind.operators[i].kind);
    operators_.push_back(make_operator(kind, kind.operators[i], parameters[i], place));
  }
  join_of_.assign(kinds_.size(), -1);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    if (begins_branch(i)) begin = i;
    if (kinds_[i] == OperatorKind::residual) join_of_[begin] = static_cast<std::ptrdiff_t>(i);
  }
}

/// A lookup that is added to the tokens is also a branch: its operator follows the token table, not a residual.
bool Layer::begins_branch(std::size_t i) const {
  return i == 0 || kinds_[i - 1] == OperatorKind::residual || kinds_[i] == OperatorKind::embedding;
}

void Layer::timed(const Frame& frame, std::size_t i, Pass pass, const std::function<void()>& body) const {
  if (clock_ == nullptr) return body();
  profile::OperatorWork work = works_[i];
  work.tokens *= frame.samples;
  const auto busy = [this] {
    double seconds = 0;
    for (const Communicator* group : meets_) seconds += group->busy_seconds();
    return seconds;
  };
  clock_->run({work, pass, number_, static_cast<std::int32_t>(i)}, busy, body);
}

void Layer::time_tasks(Frame& frame, std::size_t i, std::size_t first) const {
  if (clock_ == nullptr) return;
  for (std::size_t k = first; k < frame.weight_gradients.size(); ++k) {
    auto task = std::move(frame.weight_gradients[k]);
    frame.weight_gradients[k] = [this, i, task = std::move(task), &frame] { timed(frame, i, Pass::weight_gradient, task); };
  }
}

/// Runs gathers of parameters, reductions of shards, or transfers of tiles.
void Layer::communicate(const std::function<void()>& body) const {
  if (clock_ == nullptr) return body();
  clock_->communicate(body);
}

void Layer::acquire() {
  communicate([this] {
    for (State* state : states_) state->acquire();
  });
}

Tensor Layer::run(Frame& frame, const Tensor& x) {
  frame.saved.assign(operators_.size(), {});
  Tensor stream = x, value = x;
  for (std::size_t i = 0; i < operators_.size(); ++i) {
    if (kinds_[i] == OperatorKind::residual) {
      timed(frame, i, Pass::forward, [&] { value = stream + value; });
      stream = value;
    } else if (operators_[i] != nullptr) {
      timed(frame, i, Pass::forward, [&] { value = operators_[i]->forward(frame, frame.saved[i], value); });
      if (!stream.defined()) stream = value;
    }
  }
  return value;
}

Tensor Layer::forward(Frame& frame, const Tensor& x) {
  frame.samples = x.defined() ? x.size(1) : frame.batch->tokens.size(1);
  acquire();
  Tensor y = run(frame, x);
  for (State* state : states_) state->release();
  if (recomputed_) {
    frame.saved.clear();
    frame.routing.reset();
    frame.input = x;
  }
  return y;
}

Tensor Layer::backward(Frame& frame, Tensor dy, bool whole) {
  acquire();
  if (recomputed_) {
    StepClock* steps = clock_ != nullptr ? clock_->steps() : nullptr;
    if (steps != nullptr) steps->repeats(true);
    run(frame, frame.input);
    frame.input = Tensor();
    if (steps != nullptr) steps->repeats(false);
  }
  Tensor gradient = run_back(frame, std::move(dy), whole);
  frame.saved.clear();
  frame.routing.reset();
  for (State* state : states_) state->release();
  if (whole) weight_gradients(frame);
  return gradient;
}

Tensor Layer::run_back(Frame& frame, Tensor dy, bool whole) {
  Tensor gradient = std::move(dy), around;  // around: the stream's gradient, which bypasses the branch
  for (std::size_t i = operators_.size(); i-- > 0;) {
    if (kinds_[i] == OperatorKind::residual) {
      around = gradient;
    } else if (operators_[i] != nullptr) {
      const std::size_t tasks = frame.weight_gradients.size();
      timed(frame, i, Pass::input_gradient, [&] { gradient = operators_[i]->backward(frame, frame.saved[i], gradient); });
      time_tasks(frame, i, tasks);
      if (whole) run_tasks(frame);
    }
    if (around.defined() && begins_branch(i)) {
      const auto join = [&] { gradient = gradient.defined() ? gradient.add_(around) : around; };
      if (join_of_[i] < 0) {
        join();
      } else {
        timed(frame, static_cast<std::size_t>(join_of_[i]), Pass::input_gradient, join);
      }
      around = Tensor();
    }
  }
  return gradient;
}

void Layer::run_tasks(Frame& frame) {
  for (const auto& task : frame.weight_gradients) task();
  frame.weight_gradients.clear();
}

void Layer::weight_gradients(Frame& frame) {
  run_tasks(frame);
  communicate([this] {
    for (State* state : states_) state->micro_batch_done();
  });
}

}  // namespace espalier::runtime
