// SPDX-License-Identifier: Apache-2.0
// What happens to queries and keys before attention: a norm of each head (Henry et al. 2020), and rotary positions.
//
//   norm     of the d features of a head  y = w · x / √(mean(x²) + ε), one w for all heads of a kind;  dw = Σ heads dy
//            ∘ x/√…, of a tensor
//            group summed over its ranks, each of which has some heads
//   rotary   feature pair (i, i + d/2) at position p turns by p · rate_i (architecture.h); backward it turns back
#pragma once

#include <memory>

#include "runtime/rank_operators.h"

namespace espalier::runtime {

/// Rotary positions of heads, by token: [tokens, samples, heads, dim].
class Turn {
 public:
  Turn() = default;
  Turn(const Architecture& architecture, const at::Tensor& positions, std::int64_t dim);
  [[nodiscard]] at::Tensor turned(const at::Tensor& heads) const;
  /// What that does to a gradient.
  [[nodiscard]] at::Tensor turned_back(const at::Tensor& heads) const;

 private:
  [[nodiscard]] at::Tensor by(const at::Tensor& heads, const at::Tensor& sine) const;
  at::Tensor cosine_, sine_;
};

/// RMSNorm of each head.
at::Tensor head_normed(const at::Tensor& x, const at::Tensor& scale, double epsilon);
struct HeadNormGradient {
  at::Tensor input, scale;
};
HeadNormGradient head_norm_gradient(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& scale, double epsilon);

std::unique_ptr<LayerOperator> make_rotary(const LayerKind& kind, const OperatorPlace& place);
std::unique_ptr<LayerOperator> make_head_norm(const LayerKind& kind, const Operator& op, const Parameters& parameters,
                                              const OperatorPlace& place);

}  // namespace espalier::runtime
