// SPDX-License-Identifier: Apache-2.0
// Computes attention on tiles, as one operator or as separate QKᵀ, softmax and A·V, each with its own heads, queries
// and keys. The equations are those of attention.h. A tile of scores is [tokens, samples, heads, keys].
#include <ATen/TensorOperators.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/invariant.h"
#include "runtime/head_operators.h"
#include "runtime/tile_operators.h"

namespace espalier::runtime {
namespace {

using at::Tensor;
using partition::Phase;
using partition::TensorUse;
using Tensors = TileOperator::Tensors;

constexpr TensorUse gradient(int tensor) { return {static_cast<std::int8_t>(tensor), true}; }

/// Convert [tokens, samples, heads · dim] to [samples, heads, tokens, dim], and back.
Tensor split_by_head(const Tensor& x, std::int64_t dim) { return x.view({x.size(0), x.size(1), -1, dim}).permute({1, 2, 0, 3}); }
Tensor joined_by_token(const Tensor& x) {
  return x.permute({2, 0, 1, 3}).contiguous().view({x.size(2), x.size(0), x.size(1) * x.size(3)});
}
/// Convert [tokens, samples, heads, keys] to [samples, heads, tokens, keys], and back.
Tensor scores_by_head(const Tensor& s) { return s.permute({1, 2, 0, 3}); }
Tensor scores_by_token(const Tensor& s) { return s.permute({2, 0, 1, 3}).contiguous(); }

/// Repeats each key/value head once per query head of its group on this rank.
Tensor repeated(const Tensor& x, std::int64_t heads) { return x.repeat_interleave(heads / x.size(1), 1); }
Tensor grouped(const Tensor& x, std::int64_t pairs) {
  return x.view({x.size(0), pairs, x.size(1) / pairs, x.size(2), x.size(3)}).sum(2);
}

/// Computes the part of attention that a node covers, on its tiles by head.
class TileAttention : public TileOperator {
 public:
  explicit TileAttention(const TilePlace& place)
      : place_(place),
        core_(*place.operation().op),
        communication_(partition::communication(place.operation().shape, place.sequence())),
        scale_(1 / std::sqrt(static_cast<double>(core_.qk_dim))) {}

 protected:
  /// Returns the token ranges of an input on this rank.
  [[nodiscard]] TokenRuns tokens_of(int tensor) const {
    const auto layout = partition::forward_needed(place_.operation().shape, place_.sequence(), tensor);
    const auto tiles = tiles_of(*place_.block, place_.node, tensor, layout);
    return tiles[static_cast<std::size_t>(place_.place)].front().tokens;
  }

  void timed(Pass pass, const std::function<void()>& body) const { place_.timed(core_, pass, body); }

  TilePlace place_;
  const Operator& core_;
  partition::Communication communication_;
  double scale_;
};

/// Applies norms of heads and rotary positions to the tiles of queries and of keys.
class BesideHeads {
 public:
  BesideHeads(const TilePlace& place, const Operator& core, const TokenRuns& queries, const TokenRuns& keys) : place_(place) {
    for (const Operator* op : place.operation().beside) {
      if (op->kind == OperatorKind::dropout) continue;
      Part& part = parts_.emplace_back();
      part.op = op;
      if (op->kind == OperatorKind::rotary) {
        part.turn[0] = Turn(place.architecture, positions_of(queries), core.qk_dim);
        part.turn[1] = Turn(place.architecture, positions_of(keys), core.qk_dim);
      } else {
        part.of = op->name.find("q_norm") != std::string::npos ? 0 : 1;
      }
    }
  }

  /// Transforms `heads`, queries and keys as [tokens, samples, heads, dim]. It saves the inputs of norms.
  void forward(Tensor (&heads)[2], Tensors& saved) const {
    for (const Part& part : parts_)
      place_.timed(*part.op, Pass::forward, [&] {
        if (part.op->kind == OperatorKind::rotary) {
          for (int k : {0, 1}) heads[k] = part.turn[k].turned(heads[k]);
          return;
        }
        saved.push_back(heads[part.of]);
        heads[part.of] = head_normed(heads[part.of], scale(part), place_.architecture.norm_epsilon);
      });
  }

  void backward(Frame& frame, Tensor (&heads)[2], Tensors& saved) const {
    for (std::size_t k = parts_.size(); k-- > 0;) {
      const Part& part = parts_[k];
      place_.timed(*part.op, Pass::input_gradient, [&] {
        if (part.op->kind == OperatorKind::rotary) {
          for (int which : {0, 1}) heads[which] = part.turn[which].turned_back(heads[which]);
          return;
        }
        const HeadNormGradient of =
            head_norm_gradient(saved.back(), heads[part.of], scale(part), place_.architecture.norm_epsilon);
        saved.pop_back();
        const Parameters& own = place_.beside.at(part.op);
        frame.weight_gradients.push_back([this, &part, own, sum = of.scale] {
          place_.timed(*part.op, Pass::weight_gradient, [&] { own.state->gradient(own.segment).add_(sum); });
        });
        heads[part.of] = of.input;
      });
    }
  }

 private:
  struct Part {
    const Operator* op = nullptr;
    Turn turn[2];
    int of = 0;  // for norms: queries or keys
  };
  [[nodiscard]] Tensor scale(const Part& part) const {
    const Parameters& own = place_.beside.at(part.op);
    return own.state->values(own.segment);
  }

  const TilePlace& place_;
  std::vector<Part> parts_;
};

/// Computes QKᵀ of the present tiles, masked.
class Scores {
 public:
  Scores(const Operator& core, double scale, const TokenRuns& queries, const TokenRuns& keys) : scale_(scale) {
    const Tensor row = positions_of(queries).unsqueeze(1);
    const Tensor column = positions_of(keys).unsqueeze(0);
    if (core.causal) hidden_ = column > row;
    if (core.window > 0) hidden_ = hidden_.logical_or(column <= row - core.window);
  }
  [[nodiscard]] Tensor of(const Tensor& q, const Tensor& k) const {
    Tensor s = q.matmul(repeated(k, q.size(1)).transpose(2, 3)) * scale_;
    if (hidden_.defined()) s.masked_fill_(hidden_, -std::numeric_limits<float>::infinity());
    return s;
  }
  /// Returns the gradients of queries and keys, given the gradient of the scores.
  [[nodiscard]] std::pair<Tensor, Tensor> gradients(const Tensor& ds, const Tensor& q, const Tensor& k) const {
    const Tensor scaled = ds * scale_;
    return {scaled.matmul(repeated(k, q.size(1))), grouped(scaled.transpose(2, 3).matmul(q), k.size(1))};
  }

 private:
  double scale_;
  Tensor hidden_;
};

Tensor softmax_gradient(const Tensor& p, const Tensor& dp) { return p * (dp - (dp * p).sum(-1, true)); }

/// Holds queries and keys of a node, with their norms and rotary positions.
class QueryKeys : public TileAttention {
 public:
  explicit QueryKeys(const TilePlace& place)
      : TileAttention(place),
        beside_(place_, core_, tokens_of(0), tokens_of(1)),
        scores_(core_, scale_, tokens_of(0), tokens_of(1)) {}

 protected:
  [[nodiscard]] std::pair<Tensor, Tensor> prepared(const Tensors& inputs, Tensors& saved) const {
    const auto heads_of = [&](const Tensor& x) { return x.view({x.size(0), x.size(1), -1, core_.qk_dim}); };
    Tensor heads[2] = {heads_of(inputs[0]), heads_of(inputs[1])};
    beside_.forward(heads, saved);
    return {heads[0].permute({1, 2, 0, 3}), heads[1].permute({1, 2, 0, 3})};
  }
  /// Sums the contributions of other ranks, then runs the backward of norms and rotary positions. `of_keys` is the
  /// phase of the product that gives dK.
  [[nodiscard]] Tensors finished(Frame& frame, Tensors& saved, const Tensor& dq, const Tensor& dk, Phase of_keys) const {
    Tensor d_query = dq.permute({2, 0, 1, 3}).contiguous(), d_key = dk.permute({2, 0, 1, 3}).contiguous();
    place_.sum(communication_, Phase::backward, gradient(0), d_query);
    place_.sum(communication_, of_keys, gradient(1), d_key);
    Tensor heads[2] = {d_query, d_key};
    beside_.backward(frame, heads, saved);
    const auto features = [](const Tensor& x) { return x.reshape({x.size(0), x.size(1), x.size(2) * x.size(3)}); };
    return {features(heads[0]), features(heads[1])};
  }

  BesideHeads beside_;
  Scores scores_;
};

class WholeAttention : public QueryKeys {
 public:
  using QueryKeys::QueryKeys;
  Tensor forward(Frame&, Tensors& saved, const Tensors& inputs) override {
    Tensors beside;
    const auto [q, k] = prepared(inputs, beside);
    Tensor p, y;
    timed(Pass::forward, [&, q = q, k = k] {
      p = scores_.of(q, k).softmax(-1);
      y = joined_by_token(p.matmul(repeated(split_by_head(inputs[2], core_.v_dim), q.size(1))));
    });
    saved = {q, k, inputs[2], p};
    saved.insert(saved.end(), beside.begin(), beside.end());
    return y;
  }

  Tensors backward(Frame& frame, Tensors& saved, const Tensor& dy) override {
    const Tensor q = saved[0], k = saved[1], v = split_by_head(saved[2], core_.v_dim), p = saved[3];
    Tensors beside(saved.begin() + 4, saved.end());
    Tensor dq, dk, dv;
    timed(Pass::input_gradient, [&] {
      const Tensor d_out = split_by_head(dy, core_.v_dim);
      const Tensor ds = softmax_gradient(p, d_out.matmul(repeated(v, q.size(1)).transpose(2, 3)));
      std::tie(dq, dk) = scores_.gradients(ds, q, k);
      dv = joined_by_token(grouped(p.transpose(2, 3).matmul(d_out), v.size(1)));
    });
    place_.sum(communication_, Phase::backward, gradient(2), dv);
    Tensors out = finished(frame, beside, dq, dk, Phase::backward);
    out.push_back(dv);
    return out;
  }
};

class TileScores : public QueryKeys {
 public:
  using QueryKeys::QueryKeys;
  Tensor forward(Frame&, Tensors& saved, const Tensors& inputs) override {
    Tensors beside;
    const auto [q, k] = prepared(inputs, beside);
    saved = {q, k};
    saved.insert(saved.end(), beside.begin(), beside.end());
    Tensor s;
    timed(Pass::forward, [&, q = q, k = k] { s = scores_by_token(scores_.of(q, k)); });
    return s;
  }
  Tensors backward(Frame& frame, Tensors& saved, const Tensor& dy) override {
    const Tensor q = saved[0], k = saved[1];
    Tensors beside(saved.begin() + 2, saved.end());
    Tensor dq, dk;
    timed(Pass::input_gradient, [&] {
      std::tie(dq, dk) = scores_.gradients(scores_by_head(dy.view({dy.size(0), dy.size(1), q.size(1), k.size(2)})), q, k);
    });
    return finished(frame, beside, dq, dk, Phase::gradient);
  }
};

class TileSoftmax : public TileAttention {
 public:
  using TileAttention::TileAttention;
  Tensor forward(Frame&, Tensors& saved, const Tensors& inputs) override {
    Tensor p;
    timed(Pass::forward, [&] { p = inputs.front().softmax(-1); });
    saved = {p};
    return p;
  }
  Tensors backward(Frame&, Tensors& saved, const Tensor& dy) override {
    Tensor ds;
    timed(Pass::input_gradient, [&] { ds = softmax_gradient(saved.front(), dy); });
    return {ds};
  }
};

class TileValues : public TileAttention {
 public:
  using TileAttention::TileAttention;
  Tensor forward(Frame&, Tensors& saved, const Tensors& inputs) override {
    saved = inputs;
    Tensor y;
    timed(Pass::forward, [&] {
      const Tensor v = split_by_head(inputs[1], core_.v_dim), p = scores(inputs[0], v);
      y = joined_by_token(p.matmul(repeated(v, p.size(1))));
    });
    place_.sum(communication_, Phase::forward, {2, false}, y);
    return y;
  }
  Tensors backward(Frame&, Tensors& saved, const Tensor& dy) override {
    Tensor da, dv;
    timed(Pass::input_gradient, [&] {
      const Tensor v = split_by_head(saved[1], core_.v_dim), p = scores(saved[0], v), d_out = split_by_head(dy, core_.v_dim);
      da = scores_by_token(d_out.matmul(repeated(v, p.size(1)).transpose(2, 3)));
      dv = joined_by_token(grouped(p.transpose(2, 3).matmul(d_out), v.size(1)));
    });
    place_.sum(communication_, Phase::backward, gradient(0), da);
    place_.sum(communication_, Phase::gradient, gradient(1), dv);
    return {da, dv};
  }

 private:
  static Tensor scores(const Tensor& a, const Tensor& v) { return scores_by_head(a.view({a.size(0), a.size(1), -1, v.size(2)})); }
};

}  // namespace

std::unique_ptr<TileOperator> make_tile_attention(const TilePlace& place) {
  switch (place.operation().part) {
    case OperatorPart::whole: return std::make_unique<WholeAttention>(place);
    case OperatorPart::scores: return std::make_unique<TileScores>(place);
    case OperatorPart::softmax: return std::make_unique<TileSoftmax>(place);
    case OperatorPart::values: return std::make_unique<TileValues>(place);
  }
  ESPALIER_CHECK(false);
  return nullptr;
}

}  // namespace espalier::runtime
