// SPDX-License-Identifier: Apache-2.0
// Computes a linear on tiles: the products of three phases in steps, overlapped with rings of messages.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include <utility>

#include "base/invariant.h"
#include "runtime/tile_operators.h"

namespace espalier::runtime {
namespace {

using at::Tensor;
using partition::Phase;
using partition::TensorUse;

constexpr TensorUse kInput{0, false}, kWeight{1, false}, kInputGradient{0, true}, kWeightGradient{1, true}, kOutput{2, false},
    kOutputGradient{2, true};

/// Sends the messages of one step. The arriving tile takes the place of the sent one.
class TileRing {
 public:
  TileRing(const TilePlace& place, const partition::Communication& communication, Phase phase, int step)
      : place_(place), shifts_(partition::shifts_of(communication, phase, step, place.place)) {}

  /// Passes a tile on, if it moves in this step.
  void pass(TensorUse tensor, const Tensor& tile, bool accumulator = false) {
    for (const partition::Shift& shift : shifts_) {
      if (!(shift.tensor == tensor) || shift.accumulator != accumulator || shift.from == place_.place) continue;
      const int tag = 2 * tensor.tensor + (tensor.gradient ? 1 : 0);
      Passed& passed = passed_.emplace_back();
      passed.tensor = tensor;
      passed.sent = tile.contiguous();
      passed.room = at::empty_like(passed.sent);
      passed.arrives = place_.group->receive(passed.room, shift.from, tag);
      passed.leaves = place_.group->send_beside(passed.sent, shift.to, tag);
    }
  }

  /// Returns the tile that has arrived, or the one that stays.
  Tensor next(TensorUse tensor, const Tensor& tile) {
    for (Passed& passed : passed_) {
      if (!(passed.tensor == tensor)) continue;
      place_.communicate([&passed] {
        passed.arrives.wait();
        passed.leaves.wait();
      });
      return passed.room;
    }
    return tile;
  }

 private:
  struct Passed {
    TensorUse tensor;
    Tensor sent, room;
    Message arrives, leaves;
  };
  const TilePlace& place_;
  std::vector<partition::Shift> shifts_;
  std::vector<Passed> passed_;
};

/// Runs a linear whose weight tile is outputs × inputs with biases in a last column (column linears), or biases, then
/// inputs × outputs (row linears), as numbered in plan/ownership.h.
class TileLinear : public TileOperator {
 public:
  explicit TileLinear(const TilePlace& place)
      : place_(place),
        op_(*place.operation().op),
        communication_(partition::communication(place.operation().shape, place.sequence())),
        steps_(partition::steps(place.sequence())),
        by_outputs_(op_.split != TpSplit::row) {
    const auto& shape = place.operation().shape;
    in_ = op_.in / partition::slices(place.sequence(), 'N');
    out_ = op_.out / partition::slices(place.sequence(), 'K');
    ESPALIER_CHECK(shape.tensors[1].width * shape.tensors[1].axes[1].size == op_.out);
    biased_ = place.parameters.segment.size > in_ * out_;
  }

  Tensor forward(Frame&, Tensors& saved, const Tensors& inputs) override {
    Tensor x = inputs.front(), w = weight().contiguous();
    Tensor y = at::empty({x.size(0), x.size(1), out_}, x.options());
    for (int t = 0; t < steps_; ++t) {
      TileRing ring(place_, communication_, Phase::forward, t);
      if (t + 1 < steps_) {
        ring.pass(kInput, x);
        ring.pass(kWeight, w);
      }
      place_.timed(op_, Pass::forward, [&] { add_product(flat(y), flat(x), by_outputs_ ? w.t() : w, t > 0); });
      x = ring.next(kInput, x);
      w = ring.next(kWeight, w);
    }
    place_.sum(communication_, Phase::forward, kOutput, y);
    if (biased_) y.add_(bias(place_.parameters.state->values(place_.parameters.segment)));
    saved = {x};
    if (steps_ > 1) saved.push_back(shared(w));
    return y;
  }

  Tensors backward(Frame& frame, Tensors& saved, const Tensor& dy) override {
    const Tensor x = saved[0];
    Tensor w = steps_ > 1 ? saved[1] : weight(), d_out = dy;
    saved.clear();
    Tensor dx = at::empty({dy.size(0), dy.size(1), in_}, dy.options());
    for (int t = 0; t < steps_; ++t) {
      TileRing ring(place_, communication_, Phase::backward, t);
      if (t + 1 < steps_) {
        ring.pass(kOutputGradient, d_out);
        ring.pass(kWeight, w);
      }
      place_.timed(op_, Pass::input_gradient, [&] { add_product(flat(dx), flat(d_out), by_outputs_ ? w : w.t(), t > 0); });
      d_out = ring.next(kOutputGradient, d_out);
      w = ring.next(kWeight, w);
    }
    place_.sum(communication_, Phase::backward, kInputGradient, dx);
    // The biases get their gradient at the first step, whose outputs are those of the own tile.
    const Tensor d_bias = biased_ ? flat(dy).sum(0) : Tensor();
    frame.weight_gradients.push_back([this, x, d_out, d_bias] { weight_gradient(x, d_out, d_bias); });
    return {dx};
  }

 private:
  /// Returns the own tile, which the first forward step uses.
  [[nodiscard]] Tensor weight() const { return weights_in(place_.parameters.state->values(place_.parameters.segment)); }
  [[nodiscard]] Tensor weights_in(const Tensor& list) const {
    if (!by_outputs_) return list.narrow(0, list.size(0) - in_ * out_, in_ * out_).view({in_, out_});
    return list.view({out_, -1}).narrow(1, 0, in_);
  }
  [[nodiscard]] Tensor bias(const Tensor& list) const {
    return by_outputs_ ? list.view({out_, -1}).select(1, in_) : list.narrow(0, 0, out_);
  }

  static void add_product(Tensor sum, const Tensor& a, const Tensor& b, bool adds) {
    if (adds)
      sum.addmm_(a, b);
    else
      at::mm_out(sum, a, b);
  }

  /// Returns one shared copy of the tile that the forward ends with, however many micro-batches wait for their
  /// backward.
  Tensor shared(const Tensor& w) {
    const auto kept = kept_.lock();
    if (kept.defined()) return Tensor(kept);
    kept_ = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(w.getIntrusivePtr());
    return w;
  }

  void weight_gradient(Tensor x, Tensor d_out, const Tensor& d_bias) {
    Tensor gradient = place_.parameters.state->gradient(place_.parameters.segment);
    Tensor own = weights_in(gradient);
    if (d_bias.defined()) bias(gradient).add_(d_bias);
    const auto product = [&](Tensor sum, bool adds) {
      place_.timed(op_, Pass::weight_gradient, [&] {
        add_product(std::move(sum), by_outputs_ ? flat(d_out).t() : flat(x).t(), by_outputs_ ? flat(x) : flat(d_out), adds);
      });
    };
    if (steps_ == 1) return product(own, true);
    Tensor sum = at::empty({own.size(0), own.size(1)}, own.options());
    for (int t = 0; t < steps_; ++t) {
      TileRing ring(place_, communication_, Phase::gradient, t);
      if (t + 1 < steps_) {
        ring.pass(kInput, x);
        ring.pass(kOutputGradient, d_out);
        product(sum, t > 0);
        x = ring.next(kInput, x);
        d_out = ring.next(kOutputGradient, d_out);
        continue;
      }
      ring.pass(kWeightGradient, sum, true);
      product(own, true);
      own.add_(ring.next(kWeightGradient, sum));
    }
  }

  TilePlace place_;
  const Operator& op_;
  partition::Communication communication_;
  int steps_;
  bool by_outputs_, biased_ = false;
  std::int64_t in_ = 0, out_ = 0;
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> kept_{
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()};
};

}  // namespace

std::unique_ptr<TileOperator> make_tile_linear(const TilePlace& place) { return std::make_unique<TileLinear>(place); }

}  // namespace espalier::runtime
