// SPDX-License-Identifier: Apache-2.0
#include "runtime/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/heads.h"

namespace espalier::runtime {
namespace {

using at::Tensor;
using Saved = std::vector<Tensor>;

/// [tokens, samples, heads, dim] -> [samples, heads, tokens, dim], and back into features.
Tensor by_head(const Tensor& x) { return x.permute({1, 2, 0, 3}); }
Tensor by_token(const Tensor& x) { return x.permute({2, 0, 1, 3}); }

class Core : public LayerOperator {
 public:
  Core(const Operator& core, const Place& place)
      : place_(place),
        exchanges_(place.sequence != nullptr ? place.sequence->size() : 1),
        all_(heads_of_rank(core, 1)),
        heads_(heads_of_rank(core, place.tp * exchanges_)),
        scale_(1 / std::sqrt(static_cast<double>(core.qk_dim))) {
    const Tensor row = at::arange(place.tokens).unsqueeze(1), column = at::arange(place.tokens).unsqueeze(0);
    if (core.causal) hidden_ = column > row;
    if (core.window > 0) hidden_ = hidden_.logical_or(column <= row - core.window);
  }

  Tensor forward(Frame&, Saved& saved, const Tensor& x) override {
    const Tensor packed = to_heads(x);
    const Tensor p = scores(packed);
    saved = place_.recompute_attention ? Saved{packed} : Saved{packed, p};
    const Tensor o = p.matmul(repeated(values(packed, heads_)));
    return to_tokens(by_token(o).reshape({place_.tokens, x.size(1), heads_.query * heads_.dim}));
  }

  Tensor backward(Frame&, Saved& saved, const Tensor& dy) override {
    const Tensor packed = saved[0];
    const Tensor p = place_.recompute_attention ? scores(packed) : saved[1];
    const Tensor whole = from_tokens(dy);
    const Tensor d_out = by_head(whole.view({place_.tokens, whole.size(1), heads_.query, heads_.dim}));
    Tensor dx = at::empty({place_.tokens, whole.size(1), heads_.features()}, packed.options());
    values(dx, heads_).copy_(by_token(grouped(p.transpose(2, 3).matmul(d_out))));
    const Tensor ds = d_out.matmul(repeated(values(packed, heads_)).transpose(2, 3)).mul_(p);
    ds.addcmul_(p, ds.sum(-1, true), -1).mul_(scale_);
    queries(dx, heads_).copy_(by_token(ds.matmul(repeated(keys(packed, heads_)))));
    keys(dx, heads_).copy_(by_token(grouped(ds.transpose(2, 3).matmul(by_head(queries(packed, heads_))))));
    return from_heads(dx);
  }

 private:
  [[nodiscard]] Tensor scores(const Tensor& packed) const {
    Tensor s = by_head(queries(packed, heads_)).matmul(repeated(keys(packed, heads_)).transpose(2, 3)).mul_(scale_);
    if (hidden_.defined()) s.masked_fill_(hidden_, -std::numeric_limits<float>::infinity());
    s.sub_(s.amax(-1, true)).exp_();
    return s.div_(s.sum(-1, true));
  }

  /// Key/value heads, each as often as it has query heads: [samples, query heads, tokens, dim].
  [[nodiscard]] Tensor repeated(const Tensor& x) const {
    const std::int64_t times = heads_.query / heads_.pairs;
    return times == 1 ? by_head(x) : by_head(x).repeat_interleave(times, 1);
  }
  [[nodiscard]] Tensor grouped(const Tensor& x) const {
    if (heads_.query == heads_.pairs) return x;
    return x.view({x.size(0), heads_.pairs, heads_.query / heads_.pairs, x.size(2), x.size(3)}).sum(2);
  }

  // Ulysses. The features that rank r takes of a packed activation of all heads.
  [[nodiscard]] std::int64_t first_pair(std::int64_t r) const { return r * all_.pairs / exchanges_; }
  [[nodiscard]] Tensor exchanged(const Tensor& x, std::vector<std::int64_t> shape) const {
    Tensor out = at::empty(shape, x.options());
    place_.sequence->all_to_all(out, x.contiguous());
    return out;
  }
  [[nodiscard]] Tensor to_heads(const Tensor& x) const {
    if (exchanges_ == 1) return x;
    std::vector<Tensor> parts;
    for (std::int64_t r = 0; r < exchanges_; ++r) {
      const Tensor own = x.narrow(2, r * heads_.query * heads_.dim, heads_.query * heads_.dim);
      const Tensor shared = x.narrow(2, (all_.query + 2 * first_pair(r)) * heads_.dim, 2 * heads_.pairs * heads_.dim);
      parts.push_back(at::cat({own, shared}, 2));
    }
    return exchanged(at::stack(parts), {place_.tokens, x.size(1), heads_.features()});
  }
  [[nodiscard]] Tensor from_heads(const Tensor& dx) const {
    if (exchanges_ == 1) return dx;
    const std::int64_t tokens = place_.tokens / exchanges_;
    const Tensor parts = exchanged(dx, {exchanges_, tokens, dx.size(1), heads_.features()});
    Tensor all = at::zeros({tokens, dx.size(1), all_.features()}, dx.options());
    for (std::int64_t r = 0; r < exchanges_; ++r) {
      const std::int64_t own = heads_.query * heads_.dim, shared = 2 * heads_.pairs * heads_.dim;
      all.narrow(2, r * own, own).add_(parts.select(0, r).narrow(2, 0, own));
      all.narrow(2, (all_.query + 2 * first_pair(r)) * heads_.dim, shared).add_(parts.select(0, r).narrow(2, own, shared));
    }
    return all;
  }
  /// Outputs of own heads for all tokens -> of all heads for own tokens, and the other way for their gradients.
  [[nodiscard]] Tensor to_tokens(const Tensor& o) const {
    if (exchanges_ == 1) return o;
    const std::int64_t tokens = place_.tokens / exchanges_;
    const Tensor parts = exchanged(o, {exchanges_, tokens, o.size(1), o.size(2)});
    return parts.permute({1, 2, 0, 3}).reshape({tokens, o.size(1), exchanges_ * o.size(2)});
  }
  [[nodiscard]] Tensor from_tokens(const Tensor& dy) const {
    if (exchanges_ == 1) return dy;
    const Tensor parts = dy.view({dy.size(0), dy.size(1), exchanges_, -1}).permute({2, 0, 1, 3});
    return exchanged(parts, {place_.tokens, dy.size(1), dy.size(2) / exchanges_});
  }

  Place place_;
  std::int64_t exchanges_;
  Heads all_, heads_;
  double scale_;
  Tensor hidden_;
};

}  // namespace

std::unique_ptr<LayerOperator> make_attention(const Operator& op, const Place& place) {
  return std::make_unique<Core>(op, place);
}

}  // namespace espalier::runtime
