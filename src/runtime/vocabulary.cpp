// SPDX-License-Identifier: Apache-2.0
#include "runtime/vocabulary.h"

#include <ATen/TensorOperators.h>

#include <utility>

#include "base/invariant.h"

namespace espalier::runtime {
namespace {

using at::Tensor;
using Saved = std::vector<Tensor>;

class TokenTable : public LayerOperator {
 public:
  TokenTable(const Operator& op, const Parameters& parameters, const OperatorPlace& place)
      : width_(op.out), parameters_(parameters), place_(place), positions_(positions_of(seen_tokens(place))) {}

  Tensor forward(Frame& frame, Saved& saved, const Tensor&) override {
    const Tensor tokens = frame.batch->tokens.index_select(0, positions_);
    const Tensor table = parameters_.state->values(parameters_.segment).view({-1, width_});
    const Tensor row = tokens - parameters_.first_row;
    const Tensor mine = row.ge(0).logical_and(row.lt(table.size(0)));
    const Tensor index = row.clamp(0, table.size(0) - 1);
    saved = {index, mine};
    const Tensor y = table.index_select(0, index.reshape({-1})).view({tokens.size(0), tokens.size(1), width_});
    return summed_output(y.mul_(mine.unsqueeze(2)), place_);
  }

  Tensor backward(Frame& frame, Saved& saved, const Tensor& dy) override {
    const Tensor whole = whole_sequence(dy, place_);
    frame.weight_gradients.push_back([this, index = saved[0], mine = saved[1], whole] {
      Tensor gradient = parameters_.state->gradient(parameters_.segment).view({-1, width_});
      gradient.index_add_(0, index.reshape({-1}), flat(whole * mine.unsqueeze(2)).to(at::kFloat));
    });
    return {};
  }

 private:
  std::int64_t width_;
  Parameters parameters_;
  OperatorPlace place_;
  Tensor positions_;
};

/// Adds row p of the table to the token at position p.
class PositionTable : public LayerOperator {
 public:
  PositionTable(const Operator& op, const Parameters& parameters, const OperatorPlace& place)
      : width_(op.out), parameters_(parameters), positions_(positions_of(place.own_tokens)) {}

  Tensor forward(Frame& frame, Saved&, const Tensor&) override {
    const Tensor table = parameters_.state->values(parameters_.segment).view({-1, width_});
    return table.index_select(0, positions_).unsqueeze(1).expand({positions_.size(0), frame.batch->tokens.size(1), width_});
  }

  Tensor backward(Frame& frame, Saved&, const Tensor& dy) override {
    frame.weight_gradients.push_back([this, dy] {
      Tensor gradient = parameters_.state->gradient(parameters_.segment).view({-1, width_});
      gradient.index_add_(0, positions_, dy.sum(1, false, at::kFloat));
    });
    return {};
  }

 private:
  std::int64_t width_;
  Parameters parameters_;
  Tensor positions_;
};

class Logits : public LayerOperator {
 public:
  Logits(const Operator& op, const Parameters& parameters, const OperatorPlace& place)
      : in_(op.in), parameters_(parameters), place_(place) {}

  Tensor forward(Frame&, Saved& saved, const Tensor& x) override {
    saved = {x};
    return whole_sequence(x, place_).matmul(parameters_.state->values(parameters_.segment).view({-1, in_}).t());
  }

  Tensor backward(Frame& frame, Saved& saved, const Tensor& dz) override {
    const Tensor table = parameters_.state->values(parameters_.segment).view({-1, in_});
    const Tensor dx = summed_output(dz.matmul(table), place_);
    frame.weight_gradients.push_back([this, x = saved[0], dz] {
      add_product(parameters_.state->gradient(parameters_.segment).view({-1, in_}), flat(dz), flat(whole_sequence(x, place_)));
    });
    return dx;
  }

 private:
  std::int64_t in_;
  Parameters parameters_;
  OperatorPlace place_;
};

class Loss : public LayerOperator {
 public:
  Loss(const Parameters& parameters, const OperatorPlace& place)
      : first_row_(parameters.first_row), place_(place), positions_(positions_of(seen_tokens(place))) {}

  Tensor forward(Frame& frame, Saved& saved, const Tensor& z) override {
    if (frame.logits != nullptr) show(*frame.logits, z);
    const Tensor target = frame.batch->labels.index_select(0, positions_) - first_row_;
    const Tensor mine = target.ge(0).logical_and(target.lt(z.size(2)));
    const Tensor index = target.clamp(0, z.size(2) - 1).unsqueeze(2);
    const Tensor wide = z.to(at::kFloat);
    Tensor most = wide.amax(2, true);
    if (place_.tensor != nullptr) place_.tensor->all_reduce_maximum(most);
    const Tensor shifted = wide.sub_(most);
    Tensor of_target = shifted.gather(2, index).squeeze(2) * mine;
    const Tensor power = shifted.exp_();
    Tensor sum = power.sum(2, true);
    if (place_.tensor != nullptr) {
      place_.tensor->all_reduce(of_target);
      place_.tensor->all_reduce(sum);
    }
    saved = {power.div_(sum), index, mine};
    const Tensor loss = (sum.squeeze(2).log() - of_target).to(at::kDouble).sum();
    if (place_.t == 0) frame.loss += loss.item<double>() * place_.loss_scale;
    return {};
  }

  Tensor backward(Frame&, Saved& saved, const Tensor&) override {
    const Tensor &p = saved[0], &index = saved[1], &mine = saved[2];
    const Tensor subtracted = -mine.to(at::kFloat).unsqueeze(2);
    return p.scatter_add_(2, index, subtracted).mul_(place_.loss_scale).to(place_.type);
  }

 private:
  void show(const WatchLogits& watch, const Tensor& z) const {
    std::int64_t at = 0;
    for (const Extent& run : seen_tokens(place_)) {
      watch(z.narrow(0, at, run.size()), run.first, first_row_);
      at += run.size();
    }
  }

  std::int64_t first_row_;
  OperatorPlace place_;
  Tensor positions_;
};

}  // namespace

std::unique_ptr<LayerOperator> make_table(const Operator& op, const Parameters& parameters, const OperatorPlace& place) {
  if (op.split == TpSplit::vocab) return std::make_unique<TokenTable>(op, parameters, place);
  return std::make_unique<PositionTable>(op, parameters, place);
}

std::unique_ptr<LayerOperator> make_logits(const Operator& op, const Parameters& parameters, const OperatorPlace& place) {
  return std::make_unique<Logits>(op, parameters, place);
}

std::unique_ptr<LayerOperator> make_loss(const Parameters& parameters, const OperatorPlace& place) {
  return std::make_unique<Loss>(parameters, place);
}

}  // namespace espalier::runtime
