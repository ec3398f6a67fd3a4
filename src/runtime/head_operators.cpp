// SPDX-License-Identifier: Apache-2.0
#include "runtime/head_operators.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>

#include <string>
#include <vector>

#include "runtime/heads.h"

namespace espalier::runtime {
namespace {

using at::Tensor;
using Saved = std::vector<Tensor>;

class HeadNorm : public LayerOperator {
 public:
  HeadNorm(const LayerKind& kind, const Operator& op, const Parameters& parameters, const Place& place)
      : heads_(heads_of_rank(core_of(kind), place.tp)),
        of_queries_(op.name.find("q_norm") != std::string::npos),
        epsilon_(place.architecture.norm_epsilon),
        parameters_(parameters) {}

  Tensor forward(Frame&, Saved& saved, const Tensor& x) override {
    const Tensor part = own(x).to(at::kFloat);
    const Tensor inverse = (part.square().mean(-1, true) + epsilon_).rsqrt();
    saved = {part, inverse};
    Tensor y = x.clone();
    own(y).copy_(part * inverse * scale());
    return y;
  }

  Tensor backward(Frame& frame, Saved& saved, const Tensor& dy) override {
    const Tensor &x = saved[0], &inverse = saved[1];
    const Tensor normal = x * inverse, d_part = own(dy).to(at::kFloat);
    const Tensor inner = d_part * scale();
    Tensor dx = dy.clone();
    own(dx).copy_((inner - normal * (inner * normal).mean(-1, true)) * inverse);
    frame.weight_gradients.push_back([this, normal, d_part] {
      parameters_.state->gradient(parameters_.segment).add_((d_part * normal).reshape({-1, heads_.dim}).sum(0));
    });
    return dx;
  }

 private:
  [[nodiscard]] Tensor own(const Tensor& x) const { return of_queries_ ? queries(x, heads_) : keys(x, heads_); }
  [[nodiscard]] Tensor scale() const { return parameters_.state->values(parameters_.segment); }

  Heads heads_;
  bool of_queries_;
  double epsilon_;
  Parameters parameters_;
};

class Rotary : public LayerOperator {
 public:
  Rotary(const Operator& core, const Place& place) : heads_(heads_of_rank(core, place.tp)) {
    std::vector<double> rates = rotary_rates(place.architecture, heads_.dim);
    const Tensor rate = at::from_blob(rates.data(), {static_cast<std::int64_t>(rates.size())}, at::kDouble);
    const Tensor angles = positions_of(seen_tokens(place)).to(at::kDouble).unsqueeze(1) * rate;
    cosine_ = angles.cos().to(at::kFloat).view({-1, 1, 1, heads_.dim / 2});
    sine_ = angles.sin().to(at::kFloat).view({-1, 1, 1, heads_.dim / 2});
  }

  Tensor forward(Frame&, Saved&, const Tensor& x) override { return turned(x, sine_); }
  Tensor backward(Frame&, Saved&, const Tensor& dy) override { return turned(dy, -sine_); }

 private:
  [[nodiscard]] Tensor turned(const Tensor& x, const Tensor& sine) const {
    Tensor y = x.clone();
    for (Tensor part : {queries(y, heads_), keys(y, heads_)}) {
      const std::int64_t half = heads_.dim / 2;
      const Tensor first = part.narrow(3, 0, half).clone(), second = part.narrow(3, half, half).clone();
      part.narrow(3, 0, half).copy_(first * cosine_ - second * sine);
      part.narrow(3, half, half).copy_(second * cosine_ + first * sine);
    }
    return y;
  }

  Heads heads_;
  Tensor cosine_, sine_;
};

}  // namespace

std::unique_ptr<LayerOperator> make_rotary(const LayerKind& kind, const Place& place) {
  return std::make_unique<Rotary>(core_of(kind), place);
}

std::unique_ptr<LayerOperator> make_head_norm(const LayerKind& kind, const Operator& op, const Parameters& parameters,
                                              const Place& place) {
  return std::make_unique<HeadNorm>(kind, op, parameters, place);
}

}  // namespace espalier::runtime
