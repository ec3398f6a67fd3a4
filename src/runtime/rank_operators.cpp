// SPDX-License-Identifier: Apache-2.0
#include "runtime/rank_operators.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/threshold_backward.h>

#include <utility>

#include "base/invariant.h"
#include "runtime/attention.h"
#include "runtime/experts.h"
#include "runtime/head_operators.h"
#include "runtime/vocabulary.h"

namespace espalier::runtime {
namespace {

using at::Tensor;
using Saved = std::vector<Tensor>;

// ---- norms --------------------------------------------------------------------------------------------------------

class Norm : public LayerOperator {
 public:
  Norm(const Operator& op, const Parameters& parameters, const OperatorPlace& place)
      : width_(op.in),
        centred_(!place.architecture.rms_norm),
        epsilon_(place.architecture.norm_epsilon),
        parameters_(parameters),
        features_(place.features) {
    const std::int64_t own = parameters.segment.size * op.in / op.parameters;
    scale_ = {parameters.segment.offset, own};
    shift_ = {parameters.segment.offset + own, parameters.segment.size - own};
  }

  Tensor forward(Frame&, Saved& saved, const Tensor& x) override {
    const Tensor wide = x.to(at::kFloat), centred = centred_ ? wide - mean(wide) : wide;
    const Tensor inverse = (mean(centred.square()) + epsilon_).rsqrt();
    saved = {x, inverse};
    const Tensor y = (centred * inverse).mul_(parameters_.state->values(scale_));
    if (shift_.size > 0) y.add_(parameters_.state->values(shift_));
    return y.to(x.scalar_type());
  }

  Tensor backward(Frame& frame, Saved& saved, const Tensor& dy) override {
    const Tensor &x = saved[0], &inverse = saved[1];
    const Tensor wide = x.to(at::kFloat), normal = (centred_ ? wide - mean(wide) : wide) * inverse;
    const Tensor dx = dy.to(at::kFloat) * parameters_.state->values(scale_), centre = centred_ ? mean(dx) : Tensor();
    dx.addcmul_(normal, mean(dx * normal), -1);
    if (centred_) dx.sub_(centre);
    frame.weight_gradients.push_back([this, normal, dy] {
      parameters_.state->gradient(scale_).add_(flat(normal.mul_(dy)).sum(0));
      if (shift_.size > 0) parameters_.state->gradient(shift_).add_(flat(dy).sum(0, false, at::kFloat));
    });
    return dx.mul_(inverse).to(dy.scalar_type());
  }

 private:
  /// Returns the mean over all features, which several ranks may hold.
  [[nodiscard]] Tensor mean(const Tensor& x) const {
    if (features_ == nullptr) return x.mean(-1, true);
    Tensor sum = x.sum(-1, true);
    features_->all_reduce(sum);
    return sum.div_(static_cast<double>(width_));
  }

  std::int64_t width_;
  bool centred_;
  double epsilon_;
  Parameters parameters_;
  Communicator* features_;
  Segment scale_, shift_;
};

// ---- linears ------------------------------------------------------------------------------------------------------

/// Holds outputs × (inputs and a bias).
class ColumnLinear : public LayerOperator {
 public:
  ColumnLinear(const Operator& op, const Parameters& parameters, const OperatorPlace& place)
      : in_(op.in), width_(op.parameters / op.out), parameters_(parameters), place_(place) {}

  Tensor forward(Frame&, Saved& saved, const Tensor& x) override {
    saved = {x};
    const Tensor rows = parameters_.state->values(parameters_.segment).view({-1, width_});
    const Tensor y = whole_sequence(x, place_).matmul(rows.narrow(1, 0, in_).t());
    return width_ > in_ ? y.add_(rows.select(1, in_)) : y;
  }

  Tensor backward(Frame& frame, Saved& saved, const Tensor& dy) override {
    const Tensor rows = parameters_.state->values(parameters_.segment).view({-1, width_});
    const Tensor dx = summed_output(dy.matmul(rows.narrow(1, 0, in_)), place_);
    frame.weight_gradients.push_back([this, x = saved[0], dy] {
      Tensor gradient = parameters_.state->gradient(parameters_.segment).view({-1, width_});
      add_product(gradient.narrow(1, 0, in_), flat(dy), flat(whole_sequence(x, place_)));
      if (width_ > in_) gradient.select(1, in_).add_(flat(dy).sum(0, false, at::kFloat));
    });
    return dx;
  }

 private:
  std::int64_t in_, width_;
  Parameters parameters_;
  OperatorPlace place_;
};

/// Holds a bias, then inputs × outputs.
class RowLinear : public LayerOperator {
 public:
  RowLinear(const Operator& op, const Parameters& parameters, const OperatorPlace& place)
      : out_(op.out), parameters_(parameters), place_(place) {
    bias_ = {parameters.segment.offset, op.parameters_unsplit};
    weight_ = {parameters.segment.offset + bias_.size, parameters.segment.size - bias_.size};
  }

  Tensor forward(Frame&, Saved& saved, const Tensor& x) override {
    saved = {x};
    const Tensor y = summed_output(x.matmul(parameters_.state->values(weight_).view({-1, out_})), place_);
    return bias_.size > 0 ? y.add_(parameters_.state->values(bias_)) : y;
  }

  Tensor backward(Frame& frame, Saved& saved, const Tensor& dy) override {
    const Tensor whole = whole_sequence(dy, place_);
    const Tensor dx = whole.matmul(parameters_.state->values(weight_).view({-1, out_}).t());
    frame.weight_gradients.push_back([this, x = saved[0], whole, dy] {
      add_product(parameters_.state->gradient(weight_).view({-1, out_}), flat(x), flat(whole));
      if (bias_.size > 0) parameters_.state->gradient(bias_).add_(flat(dy).sum(0, false, at::kFloat));
    });
    return dx;
  }

 private:
  std::int64_t out_;
  Parameters parameters_;
  OperatorPlace place_;
  Segment bias_, weight_;
};

// ---- activations --------------------------------------------------------------------------------------------------

/// Writes the activation of x into `y`, which may have any layout.
void activate(Activation kind, const Tensor& x, Tensor y) {
  switch (kind) {
    case Activation::silu: at::silu_out(y, x); return;
    case Activation::gelu: at::gelu_out(y, x, "none"); return;
    case Activation::gelu_tanh: at::gelu_out(y, x, "tanh"); return;
    case Activation::relu: at::clamp_min_out(y, x, 0); return;
  }
}

/// Writes the gradient of x into `dx`, which may be dy.
void activate_backward(Activation kind, const Tensor& dy, const Tensor& x, Tensor dx) {
  switch (kind) {
    case Activation::silu: at::silu_backward_out(dx, dy, x); return;
    case Activation::gelu: at::gelu_backward_out(dx, dy, x, "none"); return;
    case Activation::gelu_tanh: at::gelu_backward_out(dx, dy, x, "tanh"); return;
    case Activation::relu: at::threshold_backward_out(dx, dy, x, 0); return;
  }
}

/// Applies an activation. For gated ones, the outputs of the preceding linear are pairs of gate and up, so that a
/// rank has both of each.
class Activate : public LayerOperator {
 public:
  Activate(const Operator& op, const OperatorPlace& place) : gated_(op.in == 2 * op.out), kind_(place.architecture.activation) {}

  Tensor forward(Frame&, Saved& saved, const Tensor& x) override {
    saved = {x};
    const Tensor both = gated_ ? pairs_of(x) : Tensor(), in = gated_ ? both.select(-1, 0) : x;
    Tensor y = at::empty(in.sizes(), x.options());
    activate(kind_, in, y);
    return gated_ ? y.mul_(both.select(-1, 1)) : y;
  }

  Tensor backward(Frame&, Saved& saved, const Tensor& dy) override {
    const Tensor& x = saved[0];
    Tensor dx = at::empty_like(x);
    if (!gated_) {
      activate_backward(kind_, dy, x, dx);
      return dx;
    }
    const Tensor both = pairs_of(x), gate = both.select(-1, 0), up = both.select(-1, 1);
    Tensor d_both = pairs_of(dx), d_gate = d_both.select(-1, 0), d_up = d_both.select(-1, 1);
    at::mul_out(d_gate, dy, up);
    activate_backward(kind_, d_gate, gate, d_gate);
    activate(kind_, gate, d_up);
    d_up.mul_(dy);
    return dx;
  }

 private:
  static Tensor pairs_of(const Tensor& x) {
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() /= 2;
    shape.push_back(2);
    return x.view(shape);
  }

  bool gated_;
  Activation kind_;
};

}  // namespace

std::unique_ptr<LayerOperator> make_operator(const LayerKind& kind, const Operator& op, const Parameters& parameters,
                                             const OperatorPlace& place) {
  switch (op.kind) {
    case OperatorKind::norm:
      if (op.split == TpSplit::heads) return make_head_norm(kind, op, parameters, place);
      return std::make_unique<Norm>(op, parameters, place);
    case OperatorKind::activation:
    case OperatorKind::expert_activation: return std::make_unique<Activate>(op, place);
    case OperatorKind::rotary: return make_rotary(kind, place);
    case OperatorKind::attention: return make_attention(op, place);
    case OperatorKind::router:
    case OperatorKind::dispatch:
    case OperatorKind::expert_linear:
    case OperatorKind::combine: return make_expert_operator(op, parameters, place);
    case OperatorKind::embedding: return make_table(op, parameters, place);
    case OperatorKind::cross_entropy: return make_loss(parameters, place);
    case OperatorKind::linear:
      if (op.split == TpSplit::row) return std::make_unique<RowLinear>(op, parameters, place);
      if (op.split == TpSplit::vocab) return make_logits(op, parameters, place);
      return std::make_unique<ColumnLinear>(op, parameters, place);
    default: return nullptr;
  }
}

Tensor flat(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

void add_product(Tensor gradient, const Tensor& left, const Tensor& right, double share) {
  gradient.addmm_(left.to(at::kFloat).t(), right.to(at::kFloat), 1, share);
}

// ---- tokens -------------------------------------------------------------------------------------------------------

const TokenRuns& seen_tokens(const OperatorPlace& place) {
  return place.sequence != nullptr ? place.own_tokens : place.context_tokens;
}

Tensor positions_of(const TokenRuns& runs) {
  std::vector<Tensor> positions;
  for (const Extent& run : runs) positions.push_back(at::arange(run.first, run.last));
  return positions.size() == 1 ? positions.front() : at::cat(positions);
}

// ---- exchanges of linears -----------------------------------------------------------------------------------------

Tensor whole_sequence(const Tensor& x, const OperatorPlace& place) {
  if (place.tensor == nullptr || !place.sequence_parallel) return x;
  Tensor whole = at::empty({x.size(0) * place.tp, x.size(1), x.size(2)}, x.options());
  place.tensor->all_gather(whole, x.contiguous());
  return whole;
}

Tensor summed_output(const Tensor& y, const OperatorPlace& place) {
  if (place.tensor == nullptr) return y;
  if (!place.sequence_parallel) {
    Tensor sum = y.contiguous();
    place.tensor->all_reduce(sum);
    return sum;
  }
  Tensor part = at::empty({y.size(0) / place.tp, y.size(1), y.size(2)}, y.options());
  place.tensor->reduce_scatter(part, y.contiguous());
  return part;
}

}  // namespace espalier::runtime
