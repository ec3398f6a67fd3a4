// SPDX-License-Identifier: Apache-2.0
#include "runtime/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/maximum.h>
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

/// Convert [tokens, samples, heads, dim] to [samples, heads, tokens, dim], and back to the first order.
Tensor by_head(const Tensor& x) { return x.permute({1, 2, 0, 3}); }
Tensor by_token(const Tensor& x) { return x.permute({2, 0, 1, 3}); }

/// Converts own tokens of all heads to all tokens of own heads, and back.
class HeadExchange {
 public:
  /// `all` counts the heads of the whole group.
  HeadExchange(Communicator* group, const Heads& all)
      : group_(group),
        ways_(group->size()),
        all_(all),
        own_{all.query / ways_, std::max<std::int64_t>(1, all.pairs / ways_), all.dim} {}

  [[nodiscard]] const Heads& own() const { return own_; }

  [[nodiscard]] Tensor to_heads(const Tensor& x) const {
    std::vector<Tensor> parts;
    for (std::int64_t r = 0; r < ways_; ++r)
      parts.push_back(at::cat({x.narrow(2, r * queries(), queries()), x.narrow(2, first_pair(r), pairs())}, 2));
    return exchanged(at::stack(parts), {x.size(0) * ways_, x.size(1), own_.features()});
  }
  [[nodiscard]] Tensor from_heads(const Tensor& dx) const {
    const std::int64_t tokens = dx.size(0) / ways_;
    const Tensor parts = exchanged(dx, {ways_, tokens, dx.size(1), own_.features()});
    Tensor all = at::zeros({tokens, dx.size(1), all_.features()}, dx.options());
    for (std::int64_t r = 0; r < ways_; ++r) {
      all.narrow(2, r * queries(), queries()).add_(parts.select(0, r).narrow(2, 0, queries()));
      all.narrow(2, first_pair(r), pairs()).add_(parts.select(0, r).narrow(2, queries(), pairs()));
    }
    return all;
  }
  /// Exchange outputs of own heads for all tokens against outputs of all heads for own tokens. Gradients go the other
  /// way.
  [[nodiscard]] Tensor to_tokens(const Tensor& o) const {
    const std::int64_t tokens = o.size(0) / ways_;
    const Tensor parts = exchanged(o, {ways_, tokens, o.size(1), o.size(2)});
    return parts.permute({1, 2, 0, 3}).reshape({tokens, o.size(1), ways_ * o.size(2)});
  }
  [[nodiscard]] Tensor from_tokens(const Tensor& dy) const {
    const Tensor parts = dy.view({dy.size(0), dy.size(1), ways_, -1}).permute({2, 0, 1, 3});
    return exchanged(parts, {dy.size(0) * ways_, dy.size(1), dy.size(2) / ways_});
  }

 private:
  [[nodiscard]] Tensor exchanged(const Tensor& x, const std::vector<std::int64_t>& shape) const {
    Tensor out = at::empty(shape, x.options());
    group_->all_to_all(out, x.contiguous());
    return out;
  }
  /// Return the number of features of a rank's queries, and of its key/value pairs.
  [[nodiscard]] std::int64_t queries() const { return own_.query * own_.dim; }
  [[nodiscard]] std::int64_t pairs() const { return 2 * own_.pairs * own_.dim; }
  /// Returns the feature at which the pairs of rank r begin in a packed activation of all heads.
  [[nodiscard]] std::int64_t first_pair(std::int64_t r) const { return (all_.query + 2 * (r * all_.pairs / ways_)) * all_.dim; }

  Communicator* group_;
  std::int64_t ways_;
  Heads all_, own_;
};

/// Bounds the scores of own queries against the keys of one ring member. It holds the rows and columns with visible
/// scores and the mask of the hidden ones.
struct ScoreBlock {
  Extent rows, columns;
  Tensor hidden;  ///< undefined: nothing is hidden
};

/// Returns the range from the first to the last true element of a list.
Extent hull(const Tensor& some) {
  const Tensor at = some.nonzero().view({-1});
  if (at.numel() == 0) return {};
  return {at[0].item<std::int64_t>(), at[-1].item<std::int64_t>() + 1};
}

ScoreBlock block_of(const Operator& core, const TokenRuns& own, const TokenRuns& others) {
  const Tensor row = positions_of(own).unsqueeze(1), column = positions_of(others).unsqueeze(0);
  Tensor hidden = at::zeros({row.size(0), column.size(1)}, at::kBool);
  if (core.causal) hidden = column > row;
  if (core.window > 0) hidden = hidden.logical_or(column <= row - core.window);
  const Tensor visible = hidden.logical_not();
  ScoreBlock block{hull(visible.any(1)), hull(visible.any(0)), {}};
  hidden = hidden.narrow(0, block.rows.first, block.rows.size()).narrow(1, block.columns.first, block.columns.size());
  if (hidden.any().item<bool>()) block.hidden = hidden.contiguous();
  return block;
}

class Core : public LayerOperator {
 public:
  Core(const Operator& core, const OperatorPlace& place)
      : ring_(place.ring ? place.context : nullptr),
        heads_(heads_of_rank(core, place.tp)),
        scale_(1 / std::sqrt(static_cast<double>(core.qk_dim))),
        recomputes_(place.recompute_attention) {
    for (Communicator* group : {place.sequence, place.ring ? nullptr : place.context}) {
      if (group == nullptr) continue;
      exchanges_.emplace_back(group, heads_);
      heads_ = exchanges_.back().own();
    }
    const std::size_t all = place.key_tokens.size(), here = ring_ != nullptr ? static_cast<std::size_t>(ring_->rank()) : 0;
    for (std::size_t j = 0; j < all; ++j)
      blocks_.push_back(block_of(core, place.key_tokens[here], place.key_tokens[(here + all - j) % all]));
  }

  Tensor forward(Frame&, Saved& saved, const Tensor& x) override {
    Tensor packed = x;
    for (const HeadExchange& exchange : exchanges_) packed = exchange.to_heads(packed);
    const Tensor q = by_head(queries(packed, heads_));
    Sums sums;
    std::vector<Made> made;
    go_round(pairs(packed, heads_), [&](std::size_t j, const Tensor& keys_values) {
      if (blocks_[j].rows.size() > 0) made.push_back(add(sums, q, keys_values, blocks_[j]));
    });
    Tensor y =
        by_token(sums.o.div_(sums.sum).to(x.scalar_type())).reshape({packed.size(0), packed.size(1), heads_.query * heads_.dim});
    saved = {packed, y};
    if (recomputes_)
      saved.push_back(sums.most + sums.sum.log());
    else
      for (Made& m : made) {
        const Tensor most = part(sums.most, m.rows), sum = part(sums.sum, m.rows);
        saved.push_back(m.p.mul_((m.most - most).exp_().div_(sum)));
      }
    for (auto exchange = exchanges_.rbegin(); exchange != exchanges_.rend(); ++exchange) y = exchange->to_tokens(y);
    return y;
  }

  Tensor backward(Frame&, Saved& saved, const Tensor& dy) override {
    Tensor whole = dy;
    for (const HeadExchange& exchange : exchanges_) whole = exchange.from_tokens(whole);
    Pulled pulled{saved[0], whole, saved[1], heads_};
    Tensor dx = at::zeros(pulled.packed.sizes(), pulled.packed.options());
    std::size_t next = 2;
    Gradients gradients(*this);
    go_round(pairs(pulled.packed, heads_), [&](std::size_t j, const Tensor& keys_values) {
      Tensor d_pairs = j == 0 ? pairs(dx, heads_) : at::zeros(keys_values.sizes(), keys_values.options());
      const ScoreBlock& block = blocks_[j];
      if (block.rows.size() > 0) {
        const Tensor p = recomputes_ ? probabilities(pulled.q, keys_values, block, saved[2]) : saved[next++];
        pull(pulled, p, keys_values, block, queries(dx, heads_), d_pairs);
      }
      if (j > 0) gradients.go_on(d_pairs, j);
    });
    gradients.come_home(pairs(dx, heads_));
    for (auto exchange = exchanges_.rbegin(); exchange != exchanges_.rend(); ++exchange) dx = exchange->from_heads(dx);
    return dx;
  }

 private:
  static constexpr int kPairs = 1, kGradients = 2;  // message tags

  struct Sums {
    /// `o` is not yet divided by `sum`. By row, `most` is the largest score so far and `sum` is Σ e^(score − most).
    Tensor o, most, sum;
  };
  struct Made {
    /// `p` is e^(score − most), where `most` is the largest score at that time.
    Tensor p, most;
    Extent rows;
  };
  /// Holds the tensors that the backward of every block needs.
  struct Pulled {
    Pulled(const Tensor& x, const Tensor& dy, const Tensor& y, const Heads& h)
        : packed(x), q(by_head(queries(x, h))), d_out(by_head(dy.view({dy.size(0), dy.size(1), h.query, h.dim}))) {
      inner = (d_out.to(at::kFloat) * by_head(y.view({y.size(0), y.size(1), h.query, h.dim}))).sum(-1, true);
    }
    /// `inner` is rowsum(dO∘O).
    Tensor packed, q, d_out, inner;
  };

  static Tensor part(const Tensor& x, const Extent& rows) { return x.narrow(2, rows.first, rows.size()); }

  /// Calls f(j, keys and values of the j-th member before this one) while the next ones arrive.
  template <class Function>
  void go_round(Tensor here, const Function& f) const {
    const auto all = static_cast<int>(blocks_.size());
    for (int j = 0; j < all; ++j) {
      Tensor next;
      Message arrives, leaves;
      if (j + 1 < all) {
        here = here.contiguous();
        next = at::empty_like(here);
        arrives = ring_->receive(next, before(), kPairs);
        leaves = ring_->send(here, behind(), kPairs);
      }
      f(static_cast<std::size_t>(j), here);
      if (j + 1 == all) return;
      ring_->finish(arrives);
      ring_->finish(leaves);
      here = next;
    }
  }
  [[nodiscard]] int before() const { return (ring_->rank() + ring_->size() - 1) % ring_->size(); }
  [[nodiscard]] int behind() const { return (ring_->rank() + 1) % ring_->size(); }

  /// Passes gradients of other ranks' keys and values round the ring. Each rank adds its own part and sends them on.
  class Gradients {
   public:
    explicit Gradients(const Core& core) : core_(core) {}
    void go_on(const Tensor& own, std::size_t j) {
      if (j > 1) own.add_(arrived());
      core_.ring_->finish(leaves_);
      room_ = at::empty_like(own);
      arrives_ = core_.ring_->receive(room_, core_.before(), kGradients);
      leaves_ = core_.ring_->send(own, core_.behind(), kGradients);
    }
    void come_home(const Tensor& own) {
      if (!room_.defined()) return;
      own.add_(arrived());
      core_.ring_->finish(leaves_);
    }

   private:
    Tensor arrived() {
      core_.ring_->finish(arrives_);
      return room_;
    }
    const Core& core_;
    Tensor room_;
    Message arrives_, leaves_;
  };

  [[nodiscard]] Tensor keys_of(const Tensor& keys_values, const ScoreBlock& block) const {
    return repeated(keys_values.narrow(0, block.columns.first, block.columns.size()).select(3, 0));
  }
  [[nodiscard]] Tensor values_of(const Tensor& keys_values, const ScoreBlock& block) const {
    return repeated(keys_values.narrow(0, block.columns.first, block.columns.size()).select(3, 1));
  }

  [[nodiscard]] Tensor scores(const Tensor& q, const Tensor& keys_values, const ScoreBlock& block) const {
    Tensor s = part(q, block.rows).matmul(keys_of(keys_values, block).transpose(2, 3)).to(at::kFloat).mul_(scale_);
    if (block.hidden.defined()) s.masked_fill_(block.hidden, -std::numeric_limits<float>::infinity());
    return s;
  }
  /// Recomputes probabilities from `whole`, the logarithm of Σ e^score by row.
  [[nodiscard]] Tensor probabilities(const Tensor& q, const Tensor& keys_values, const ScoreBlock& block,
                                     const Tensor& whole) const {
    return scores(q, keys_values, block).sub_(part(whole, block.rows)).exp_().to(q.scalar_type());
  }

  /// Adds a block to the running sums. The first block is this rank's own, in which every row has a visible score.
  [[nodiscard]] Made add(Sums& sums, const Tensor& q, const Tensor& keys_values, const ScoreBlock& block) const {
    Tensor p = scores(q, keys_values, block);
    Tensor most = p.amax(-1, true);
    if (!sums.o.defined()) {
      const Tensor sum = p.sub_(most).exp_().sum(-1, true);
      p = p.to(q.scalar_type());
      sums = {p.matmul(values_of(keys_values, block)).to(at::kFloat), most.clone(), sum};
      return {p, most, block.rows};
    }
    const Tensor earlier = part(sums.most, block.rows);
    most = at::maximum(earlier, most);
    const Tensor shrinks = (earlier - most).exp_();
    p.sub_(most).exp_();
    part(sums.sum, block.rows).mul_(shrinks).add_(p.sum(-1, true));
    p = p.to(q.scalar_type());
    part(sums.o, block.rows).mul_(shrinks).add_(p.matmul(values_of(keys_values, block)));
    earlier.copy_(most);
    return {p, most, block.rows};
  }

  void pull(const Pulled& x, const Tensor& p, const Tensor& keys_values, const ScoreBlock& block, const Tensor& d_queries,
            const Tensor& d_pairs) const {
    const Tensor d_out = part(x.d_out, block.rows), q = part(x.q, block.rows);
    const Tensor d_own = d_pairs.narrow(0, block.columns.first, block.columns.size());
    d_own.select(3, 1).add_(by_token(grouped(p.transpose(2, 3).matmul(d_out))));
    const Tensor dp = d_out.matmul(values_of(keys_values, block).transpose(2, 3)).to(at::kFloat);
    const Tensor ds = dp.sub_(part(x.inner, block.rows)).mul_(p).mul_(scale_).to(p.scalar_type());
    d_queries.narrow(0, block.rows.first, block.rows.size()).add_(by_token(ds.matmul(keys_of(keys_values, block))));
    d_own.select(3, 0).add_(by_token(grouped(ds.transpose(2, 3).matmul(q))));
  }

  /// Repeats each key/value head once per query head of its group: [samples, query heads, tokens, dim].
  [[nodiscard]] Tensor repeated(const Tensor& x) const {
    const std::int64_t times = heads_.query / heads_.pairs;
    return times == 1 ? by_head(x) : by_head(x).repeat_interleave(times, 1);
  }
  [[nodiscard]] Tensor grouped(const Tensor& x) const {
    if (heads_.query == heads_.pairs) return x;
    return x.view({x.size(0), heads_.pairs, heads_.query / heads_.pairs, x.size(2), x.size(3)}).sum(2);
  }

  Communicator* ring_;
  Heads heads_;  // after the exchanges
  double scale_;
  bool recomputes_;
  std::vector<HeadExchange> exchanges_;
  std::vector<ScoreBlock> blocks_;  // index: distance of the member in front of this one
};

}  // namespace

std::unique_ptr<LayerOperator> make_attention(const Operator& op, const OperatorPlace& place) {
  return std::make_unique<Core>(op, place);
}

}  // namespace espalier::runtime
