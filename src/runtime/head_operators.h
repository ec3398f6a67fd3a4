// SPDX-License-Identifier: Apache-2.0
// Transforms queries and keys before attention: a norm of each head (Henry et al. 2020), and rotary positions.
//
//   norm     of the d features of a head  y = w · x / √(mean(x²) + ε), one w for all heads of a kind. Its gradient is
//            dw = Σ heads dy ∘ x/√…, summed over the ranks of a tensor group, each of which has some heads.
//   rotary   feature pair (i, i + d/2) at position p turns by p · rate_i (architecture.h); the backward turns it back.
#pragma once

#include <memory>

#include "runtime/rank_operators.h"

namespace espalier::runtime {

/// Applies rotary positions to heads, by token: [tokens, samples, heads, dim].
class Turn {
 public:
  Turn() = default;
  Turn(const Architecture& architecture, const at::Tensor& positions, std::int64_t dim);
  [[nodiscard]] at::Tensor turned(const at::Tensor& heads) const;
  /// Turns a gradient back.
  [[nodiscard]] at::Tensor turned_back(const at::Tensor& heads) const;

 private:
  [[nodiscard]] at::Tensor by(const at::Tensor& heads, const at::Tensor& sine) const;
  at::Tensor cosine_, sine_;
};

/// Applies RMSNorm to each head.
at::Tensor head_normed(const at::Tensor& x, const at::Tensor& scale, double epsilon);
struct HeadNormGradient {
  at::Tensor input, scale;
};
HeadNormGradient head_norm_gradient(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& scale, double epsilon);

std::unique_ptr<LayerOperator> make_rotary(const LayerKind& kind, const OperatorPlace& place);
std::unique_ptr<LayerOperator> make_head_norm(const LayerKind& kind, const Operator& op, const Parameters& parameters,
                                              const OperatorPlace& place);

}  // namespace espalier::runtime
