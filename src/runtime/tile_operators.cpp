// SPDX-License-Identifier: Apache-2.0
#include "runtime/tile_operators.h"

#include <ATen/TensorOperators.h>

#include <utility>

#include "base/invariant.h"

namespace espalier::runtime {

using at::Tensor;

void TilePlace::sum(const partition::Communication& communication, partition::Phase phase, partition::TensorUse tensor,
                    Tensor value) const {
  for (const partition::Reduction& reduction : communication.reductions)
    if (reduction.phase == phase && reduction.tensor == tensor)
      communicate([&] { sums.at(reduction.indicator)->all_reduce(value); });
}

void TilePlace::timed(const Operator& op, Pass pass, const std::function<void()>& body, const Communicator* busy) const {
  if (clock == nullptr) return body();
  const auto number = static_cast<std::int32_t>(&op - kind->operators.data());
  clock->run(
      {profile::work_on_tile(operation(), op, sequence()), pass, layer, number},
      [busy] { return busy != nullptr ? busy->busy_seconds() : 0.0; }, body);
}

void TilePlace::communicate(const std::function<void()>& body) const {
  if (clock == nullptr) return body();
  clock->communicate(body);
}

namespace {

/// Applies an operator of one rank to the tile of its input.
class TileLocal : public TileOperator {
 public:
  explicit TileLocal(const TilePlace& place) : place_(place), op_(*place.operation().op) {
    OperatorPlace local;
    local.architecture = place.architecture;
    if (op_.kind == OperatorKind::norm) local.features = features_ = splits_features();
    operator_ = make_operator(*place.kind, op_, place.parameters, local);
  }

  Tensor forward(Frame& frame, Tensors& saved, const Tensors& inputs) override {
    if (operator_ == nullptr) return inputs.front();
    Tensor y;
    place_.timed(
        op_, Pass::forward, [&] { y = operator_->forward(frame, saved, inputs.front()); }, features_);
    return y;
  }

  Tensors backward(Frame& frame, Tensors& saved, const Tensor& dy) override {
    if (operator_ == nullptr) return {dy};
    Tensor dx;
    const std::size_t first = frame.weight_gradients.size();
    place_.timed(
        op_, Pass::input_gradient, [&] { dx = operator_->backward(frame, saved, dy); }, features_);
    for (std::size_t k = first; k < frame.weight_gradients.size(); ++k) {
      auto task = std::move(frame.weight_gradients[k]);
      frame.weight_gradients[k] = [this, task = std::move(task)] { place_.timed(op_, Pass::weight_gradient, task); };
    }
    return {dx};
  }

 private:
  /// Returns the group that holds other features of the same tokens; null where there is none.
  [[nodiscard]] Communicator* splits_features() const {
    const auto& shape = place_.operation().shape;
    for (const auto& reduction : partition::communication(shape, place_.sequence()).reductions)
      if (shape.tensors[static_cast<std::size_t>(reduction.tensor.tensor)].role == partition::TensorRole::statistic)
        return place_.sums.at(reduction.indicator);
    return nullptr;
  }

  TilePlace place_;
  const Operator& op_;
  Communicator* features_ = nullptr;
  std::unique_ptr<LayerOperator> operator_;
};

/// Adds the branch and the stream.
class TileSum : public TileOperator {
 public:
  explicit TileSum(const TilePlace& place) : place_(place) {}
  Tensor forward(Frame&, Tensors&, const Tensors& inputs) override {
    Tensor y;
    place_.timed(*place_.operation().op, Pass::forward, [&] { y = inputs[1] + inputs[0]; });
    return y;
  }
  Tensors backward(Frame&, Tensors&, const Tensor& dy) override { return {dy, dy}; }
  [[nodiscard]] Tensor joined(const Tensor& a, const Tensor& b) const override {
    Tensor sum;
    place_.timed(*place_.operation().op, Pass::input_gradient, [&] { sum = a + b; });
    return sum;
  }

 private:
  TilePlace place_;
};

}  // namespace

std::unique_ptr<TileOperator> make_tile_operator(const TilePlace& place) {
  switch (place.operation().op->kind) {
    case OperatorKind::linear: return make_tile_linear(place);
    case OperatorKind::attention: return make_tile_attention(place);
    case OperatorKind::residual: return std::make_unique<TileSum>(place);
    default: return std::make_unique<TileLocal>(place);
  }
}

}  // namespace espalier::runtime
