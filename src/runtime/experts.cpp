// SPDX-License-Identifier: Apache-2.0
#include "runtime/experts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/invariant.h"

namespace espalier::runtime {
namespace {

using at::Tensor;
using Saved = std::vector<Tensor>;
using Counts = std::vector<std::int64_t>;

std::int64_t sum(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); }

Counts list_of(const Tensor& x) {
  const Tensor flat = x.contiguous();
  const auto* first = flat.data_ptr<std::int64_t>();
  return {first, first + flat.numel()};
}

// ---- router -------------------------------------------------------------------------------------------------------

class Router : public LayerOperator {
 public:
  Router(const Operator& op, const Parameters& parameters, const OperatorPlace& place)
      : in_(op.in), top_k_(op.top_k), normalised_(place.architecture.normalised_experts), parameters_(parameters) {}

  Tensor forward(Frame& frame, Saved& saved, const Tensor& x) override {
    const Tensor p = flat(x).matmul(weights().t()).to(at::kFloat).softmax(-1);
    const auto [chosen, experts] = at::topk(p, top_k_, -1);
    const Tensor w = normalised_ ? chosen / chosen.sum(-1, true) : chosen;
    saved = {x, p, experts, chosen, w};
    frame.routing = std::make_shared<Routing>();
    frame.routing->shape = x.sizes().vec();
    frame.routing->experts = experts;
    frame.routing->weights = w;
    return x;
  }

  Tensor backward(Frame& frame, Saved& saved, const Tensor& dy) override {
    const Tensor &x = saved[0], &p = saved[1], &experts = saved[2], &chosen = saved[3], &w = saved[4];
    const Tensor dw = std::exchange(frame.routing->gradient, Tensor());
    const Tensor d_chosen = normalised_ ? (dw - (dw * w).sum(-1, true)) / chosen.sum(-1, true) : dw;
    const Tensor dp = at::zeros_like(p).scatter_(1, experts, d_chosen);
    const Tensor dz = p * (dp - (dp * p).sum(-1, true));
    frame.weight_gradients.push_back([this, x, dz] {
      add_product(parameters_.state->gradient(parameters_.segment).view({-1, in_}), dz, flat(x));
    });
    return dy + dz.to(dy.scalar_type()).matmul(weights()).view(x.sizes());
  }

 private:
  [[nodiscard]] Tensor weights() const { return parameters_.state->values(parameters_.segment).view({-1, in_}); }

  std::int64_t in_, top_k_;
  bool normalised_;
  Parameters parameters_;
};

// ---- the way to the experts and back ------------------------------------------------------------------------------

/// Moves rows between the ranks that hold tokens and those that hold experts.
class ExpertExchange {
 public:
  ExpertExchange(const Operator& op, const OperatorPlace& place)
      : experts_(op.experts),
        local_(op.experts / std::max<std::int64_t>(1, place.ep)),
        gathers_(place.expert_tensor != nullptr && place.sequence_parallel),
        place_(place) {}

  /// Computes how many rows arrive and leave in a pass, and their positions.
  void settle(Routing& r) const;
  /// Turns copies in the order of their experts into rows of own experts.
  [[nodiscard]] Tensor to_experts(const Routing& r, const Tensor& copies) const;
  /// Moves rows back to their tokens, summed over the ranks of an expert tensor group.
  [[nodiscard]] Tensor from_experts(const Routing& r, const Tensor& rows) const;

 private:
  /// Returns the rows by member of the expert group and own expert. Where the expert tensor group gathers, these are
  /// the rows of all its members.
  [[nodiscard]] Tensor arriving(const Tensor& counts) const;

  std::int64_t experts_, local_;
  bool gathers_;
  OperatorPlace place_;
};

Tensor ExpertExchange::arriving(const Tensor& counts) const {
  Tensor own = at::empty({place_.ep, local_}, at::kLong);
  if (place_.experts != nullptr)
    place_.experts->all_to_all(own, counts);
  else
    own.copy_(counts);
  if (!gathers_) return own.unsqueeze(0);
  Tensor all = at::empty({place_.expert_tensor->size(), place_.ep, local_}, at::kLong);
  place_.expert_tensor->all_gather(all, own);
  return all;
}

void ExpertExchange::settle(Routing& r) const {
  const Tensor experts = r.experts.reshape({-1});
  r.order = experts.argsort(true, 0, false);
  const Tensor counts = at::bincount(experts, {}, experts_).view({place_.ep, local_});
  const Tensor all = arriving(counts);  // [member, source, expert]
  r.sent = list_of(counts.sum(1));
  r.received = list_of(all.select(0, gathers_ ? place_.expert_tensor->rank() : 0).sum(1));
  r.rows = list_of(all.sum(at::IntArrayRef{0, 1}));
  r.room = list_of(all.sum(at::IntArrayRef{1, 2}).max()).front();
  const Counts count = list_of(all);
  const auto members = static_cast<std::size_t>(all.size(0)), sources = static_cast<std::size_t>(place_.ep),
             local = static_cast<std::size_t>(local_);
  std::vector<Counts> rows(local);
  for (std::size_t m = 0; m < members; ++m) {
    std::int64_t at = static_cast<std::int64_t>(m) * r.room;
    for (std::size_t s = 0; s < sources; ++s)
      for (std::size_t e = 0; e < local; ++e)
        for (std::int64_t n = count[(m * sources + s) * local + e]; n > 0; --n) rows[e].push_back(at++);
  }
  Counts grouped;
  for (const Counts& of_expert : rows) grouped.insert(grouped.end(), of_expert.begin(), of_expert.end());
  r.grouped = at::tensor(grouped, at::kLong);
}

Tensor ExpertExchange::to_experts(const Routing& r, const Tensor& copies) const {
  Tensor arrived = copies;
  if (place_.experts != nullptr) {
    arrived = at::empty({sum(r.received), copies.size(1)}, copies.options());
    place_.experts->all_to_all_rows(arrived, r.received, copies, r.sent);
  }
  if (gathers_) {
    Tensor part = at::zeros({r.room, copies.size(1)}, copies.options());
    part.narrow(0, 0, arrived.size(0)).copy_(arrived);
    arrived = at::empty({r.room * place_.expert_tensor->size(), copies.size(1)}, copies.options());
    place_.expert_tensor->all_gather(arrived, part);
  }
  return arrived.index_select(0, r.grouped);
}

Tensor ExpertExchange::from_experts(const Routing& r, const Tensor& rows) const {
  const std::int64_t arrived = sum(r.received);
  const std::int64_t all = gathers_ ? r.room * place_.expert_tensor->size() : arrived;
  Tensor back = at::zeros({all, rows.size(1)}, rows.options()).index_copy_(0, r.grouped, rows);
  if (gathers_) {
    Tensor part = at::empty({r.room, rows.size(1)}, rows.options());
    place_.expert_tensor->reduce_scatter(part, back);
    back = part.narrow(0, 0, arrived).contiguous();
  } else if (place_.expert_tensor != nullptr) {
    place_.expert_tensor->all_reduce(back);
  }
  if (place_.experts == nullptr) return back;
  Tensor copies = at::empty({sum(r.sent), rows.size(1)}, rows.options());
  place_.experts->all_to_all_rows(copies, r.sent, back, r.received);
  return copies;
}

class Dispatch : public LayerOperator {
 public:
  Dispatch(const Operator& op, const OperatorPlace& place) : top_k_(op.top_k), exchange_(op, place) {}

  Tensor forward(Frame& frame, Saved&, const Tensor& x) override {
    Routing& r = *frame.routing;
    exchange_.settle(r);
    return exchange_.to_experts(r, flat(x).index_select(0, r.order.floor_divide(top_k_)));
  }

  Tensor backward(Frame& frame, Saved&, const Tensor& dy) override {
    const Routing& r = *frame.routing;
    const Tensor sorted = exchange_.from_experts(r, dy);
    const Tensor copies = at::empty_like(sorted).index_copy_(0, r.order, sorted);
    return copies.view({-1, top_k_, dy.size(1)}).sum(1).view(r.shape);
  }

 private:
  std::int64_t top_k_;
  ExpertExchange exchange_;
};

class Combine : public LayerOperator {
 public:
  Combine(const Operator& op, const OperatorPlace& place) : top_k_(op.top_k), exchange_(op, place) {}

  Tensor forward(Frame& frame, Saved& saved, const Tensor& rows) override {
    const Routing& r = *frame.routing;
    const Tensor sorted = exchange_.from_experts(r, rows);
    const Tensor copies = at::empty_like(sorted).index_copy_(0, r.order, sorted).view({-1, top_k_, rows.size(1)});
    saved = {copies};
    return (copies * r.weights.unsqueeze(2)).sum(1).to(rows.scalar_type()).view(r.shape);
  }

  Tensor backward(Frame& frame, Saved& saved, const Tensor& dy) override {
    Routing& r = *frame.routing;
    const Tensor d_out = flat(dy).unsqueeze(1);
    r.gradient = (d_out.to(at::kFloat) * saved[0]).sum(2);
    const Tensor copies = (d_out * r.weights.unsqueeze(2)).to(dy.scalar_type()).view({-1, dy.size(-1)});
    return exchange_.to_experts(r, copies.index_select(0, r.order));
  }

 private:
  std::int64_t top_k_;
  ExpertExchange exchange_;
};

// ---- experts ------------------------------------------------------------------------------------------------------

/// Multiplies by each own expert's matrix: outputs × inputs (column) or inputs × outputs (row), as dense linears do.
class ExpertLinear : public LayerOperator {
 public:
  ExpertLinear(const Operator& op, const Parameters& parameters, const OperatorPlace& place)
      : row_(op.split == TpSplit::row),
        width_(row_ ? op.out : op.in),
        local_(op.experts / std::max<std::int64_t>(1, place.ep)),
        share_(place.expert_share),
        parameters_(parameters) {}

  Tensor forward(Frame& frame, Saved& saved, const Tensor& x) override {
    saved = {x};
    return product(*frame.routing, x, row_);
  }

  Tensor backward(Frame& frame, Saved& saved, const Tensor& dy) override {
    frame.weight_gradients.push_back([this, routing = frame.routing, x = saved[0], dy] {
      const Tensor gradient = parameters_.state->gradient(parameters_.segment).view({local_, -1, width_});
      const Tensor left = row_ ? x : dy, right = row_ ? dy : x;
      each(*routing, [&](std::int64_t e, std::int64_t first, std::int64_t rows) {
        add_product(gradient.select(0, e), left.narrow(0, first, rows), right.narrow(0, first, rows), share_);
      });
    });
    return product(*frame.routing, dy, !row_);
  }

 private:
  template <class Visit>
  void each(const Routing& r, const Visit& visit) const {
    std::int64_t first = 0;
    for (std::int64_t e = 0; e < local_; ++e) {
      const std::int64_t rows = r.rows[static_cast<std::size_t>(e)];
      if (rows > 0) visit(e, first, rows);
      first += rows;
    }
  }

  /// Returns x · M for every expert, with M as stored or transposed.
  [[nodiscard]] Tensor product(const Routing& r, const Tensor& x, bool as_it_lies) const {
    const Tensor all = parameters_.state->values(parameters_.segment).view({local_, -1, width_});
    Tensor y = at::empty({x.size(0), as_it_lies ? all.size(2) : all.size(1)}, x.options());
    each(r, [&](std::int64_t e, std::int64_t first, std::int64_t rows) {
      const Tensor m = all.select(0, e);
      y.narrow(0, first, rows).copy_(x.narrow(0, first, rows).matmul(as_it_lies ? m : m.t()));
    });
    return y;
  }

  bool row_;
  std::int64_t width_, local_;
  double share_;
  Parameters parameters_;
};

}  // namespace

std::unique_ptr<LayerOperator> make_expert_operator(const Operator& op, const Parameters& parameters,
                                                    const OperatorPlace& place) {
  switch (op.kind) {
    case OperatorKind::router: return std::make_unique<Router>(op, parameters, place);
    case OperatorKind::dispatch: return std::make_unique<Dispatch>(op, place);
    case OperatorKind::expert_linear: return std::make_unique<ExpertLinear>(op, parameters, place);
    case OperatorKind::combine: return std::make_unique<Combine>(op, place);
    default: ESPALIER_CHECK(false); return nullptr;
  }
}

}  // namespace espalier::runtime
