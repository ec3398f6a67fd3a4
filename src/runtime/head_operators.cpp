// SPDX-License-Identifier: Apache-2.0
#include "runtime/head_operators.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>

#include <string>
#include <vector>

#include "runtime/heads.h"

namespace espalier::runtime {
namespace {

using at::Tensor;
using Saved = std::vector<Tensor>;

class HeadNormOperator : public LayerOperator {
 public:
  HeadNormOperator(const LayerKind& kind, const Operator& op, const Parameters& parameters, const OperatorPlace& place)
      : heads_(heads_of_rank(core_of(kind), place.tp)),
        of_queries_(op.name.find("q_norm") != std::string::npos),
        epsilon_(place.architecture.norm_epsilon),
        parameters_(parameters) {}

  Tensor forward(Frame&, Saved& saved, const Tensor& x) override {
    const Tensor part = own(x).to(at::kFloat);
    saved = {part};
    Tensor y = x.clone();
    own(y).copy_(head_normed(part, scale(), epsilon_));
    return y;
  }

  Tensor backward(Frame& frame, Saved& saved, const Tensor& dy) override {
    const HeadNormGradient of = head_norm_gradient(saved[0], own(dy).to(at::kFloat), scale(), epsilon_);
    Tensor dx = dy.clone();
    own(dx).copy_(of.input);
    frame.weight_gradients.push_back([this, sum = of.scale] { parameters_.state->gradient(parameters_.segment).add_(sum); });
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
  Rotary(const Operator& core, const OperatorPlace& place)
      : heads_(heads_of_rank(core, place.tp)), turn_(place.architecture, positions_of(seen_tokens(place)), heads_.dim) {}

  Tensor forward(Frame&, Saved&, const Tensor& x) override {
    Tensor y = x.clone();
    for (Tensor part : {queries(y, heads_), keys(y, heads_)}) part.copy_(turn_.turned(part));
    return y;
  }
  Tensor backward(Frame&, Saved&, const Tensor& dy) override {
    Tensor dx = dy.clone();
    for (Tensor part : {queries(dx, heads_), keys(dx, heads_)}) part.copy_(turn_.turned_back(part));
    return dx;
  }

 private:
  Heads heads_;
  Turn turn_;
};

}  // namespace

Turn::Turn(const Architecture& architecture, const Tensor& positions, std::int64_t dim) {
  std::vector<double> rates = rotary_rates(architecture, dim);
  const Tensor rate = at::from_blob(rates.data(), {static_cast<std::int64_t>(rates.size())}, at::kDouble);
  const Tensor angles = positions.to(at::kDouble).unsqueeze(1) * rate;
  cosine_ = angles.cos().to(at::kFloat).view({-1, 1, 1, dim / 2});
  sine_ = angles.sin().to(at::kFloat).view({-1, 1, 1, dim / 2});
}

Tensor Turn::by(const Tensor& heads, const Tensor& sine) const {
  const std::int64_t half = heads.size(3) / 2;
  const Tensor first = heads.narrow(3, 0, half), second = heads.narrow(3, half, half);
  return at::cat({first * cosine_ - second * sine, second * cosine_ + first * sine}, 3);
}

Tensor Turn::turned(const Tensor& heads) const { return by(heads, sine_); }
Tensor Turn::turned_back(const Tensor& heads) const { return by(heads, -sine_); }

Tensor head_normed(const Tensor& x, const Tensor& scale, double epsilon) {
  return x * (x.square().mean(-1, true) + epsilon).rsqrt() * scale;
}

HeadNormGradient head_norm_gradient(const Tensor& x, const Tensor& dy, const Tensor& scale, double epsilon) {
  const Tensor inverse = (x.square().mean(-1, true) + epsilon).rsqrt(), normal = x * inverse, inner = dy * scale;
  return {(inner - normal * (inner * normal).mean(-1, true)) * inverse, (dy * normal).reshape({-1, x.size(-1)}).sum(0)};
}

std::unique_ptr<LayerOperator> make_rotary(const LayerKind& kind, const OperatorPlace& place) {
  return std::make_unique<Rotary>(core_of(kind), place);
}

std::unique_ptr<LayerOperator> make_head_norm(const LayerKind& kind, const Operator& op, const Parameters& parameters,
                                              const OperatorPlace& place) {
  return std::make_unique<HeadNormOperator>(kind, op, parameters, place);
}

}  // namespace espalier::runtime
