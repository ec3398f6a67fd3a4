// SPDX-License-Identifier: Apache-2.0
// Collectives of a tensor-parallel region, from its column linears to the row linear that closes it. Equations:
// layer_cost.h, TP. Internal to cost/.
#pragma once

#include <cstdint>

#include "cost/layer_pricing.h"
#include "plan/transformer_engine.h"

namespace espalier::cost {

/// Describes a tensor-parallel region: from the first column linear to the row linear that closes it.
struct Region {
  double column_forward = 0, column_input = 0, column_weight = 0;
  std::int32_t first_column = -1, last_column = -1;  // operators
};

/// Returns the bytes that a gather moves for the products of a region: the operands that they multiply, in 8 bits
/// where the engine casts before it gathers.
inline double gathered_bytes(const LayerPricing& x, double bytes) {
  const double operand = x.c.workload.operand_bytes;
  return of_transformer_engine(*x.c.engine) && operand < x.a ? bytes * operand / x.a : bytes;
}

/// Adds collectives that overlap nothing: those of the output and of the input gradient, and under sequence
/// parallelism the second gather of the input.
template <class Sum>
void block_region(Sum& sum, const LayerPricing& x, const Region& r, double bytes) {
  using enum StepPart;
  if (!x.megatron_sp) {
    const PricedTraffic reduce = traffic<CollectiveKind::all_reduce, GroupKind::tensor>(x, bytes);
    sum.move(SumPhase::forward, alone(reduce, Placement::after, forward, sum.op));
    sum.move_back(alone(reduce, Placement::after, input_gradient, r.last_column));
    sum.wait(x.tp.size, 1, 1);
    return;
  }
  const PricedTraffic gather = traffic<CollectiveKind::all_gather, GroupKind::tensor>(x, bytes);
  const PricedTraffic scatter = traffic<CollectiveKind::reduce_scatter, GroupKind::tensor>(x, bytes);
  const Lie dy = alone(gather, Placement::before, input_gradient, sum.op),
            dx = alone(scatter, Placement::after, input_gradient, r.last_column),
            again = alone(gather, Placement::before, weight_gradient, r.last_column);
  sum.move(SumPhase::forward, alone(gather, Placement::before, forward, r.last_column),
           alone(scatter, Placement::after, forward, sum.op));
  sum.move(SumPhase::backward, dy, dx, again);
  sum.move(SumPhase::input, dy, dx);
  sum.move(SumPhase::weight, again);
  sum.wait(x.tp.size, 2, 3);
}

/// Adds one all-reduce of the row linear's output, and one of the column linear's input gradient.
template <class Sum>
[[gnu::always_inline]] inline void reduce_region(Sum& sum, const LayerPricing& x, const Region& r, double bytes) {
  const PricedTraffic reduce = traffic<CollectiveKind::all_reduce, GroupKind::tensor>(x, bytes);
  sum.move(SumPhase::forward, alone(reduce, Placement::after, StepPart::forward, sum.op));
  sum.move(SumPhase::backward,
           beside(reduce, r.column_weight, slowed(x, reduce, x.tp), StepPart::weight_gradient, r.first_column, r.last_column));
  sum.move(SumPhase::input, alone(reduce, Placement::after, StepPart::input_gradient, r.last_column));
  const int launches = x.c.engine->facts.collective_launches;
  sum.kernels(launches, launches);
  sum.wait(x.tp.size, 1, 1);
}

template <class Sum>
[[gnu::always_inline]] inline void close_region(Sum& sum, const LayerPricing& x, const Region& r, double row_forward,
                                                double row_input, double bytes) {
  if (x.s.tp == 1 || x.ulysses) return;
  sum.record.region(r.first_column, r.last_column);
  if (x.c.engine->communication.blocking_tensor) {
    block_region(sum, x, r, bytes);
    return;
  }
  if (!x.megatron_sp) {
    reduce_region(sum, x, r, bytes);
    return;
  }
  using enum StepPart;
  const PricedTraffic gather = traffic<CollectiveKind::all_gather, GroupKind::tensor>(x, gathered_bytes(x, bytes));
  const PricedTraffic scatter = traffic<CollectiveKind::reduce_scatter, GroupKind::tensor>(x, bytes);
  const auto columns = [&](const PricedTraffic& moved, double compute, StepPart part) {
    return beside(moved, compute, slowed(x, moved, x.tp), part, r.first_column, r.last_column);
  };
  const auto row = [&](const PricedTraffic& moved, double compute, StepPart part) {
    return beside(moved, compute, slowed(x, moved, x.tp), part, sum.op, sum.op);
  };
  const Lie again = columns(gather, r.column_input, input_gradient), reduce = columns(scatter, r.column_weight, weight_gradient);
  if (x.s.overlap.tp) {
    const Lie dy = row(gather, row_input, input_gradient);
    sum.move(SumPhase::forward, columns(gather, r.column_forward, forward), row(scatter, row_forward, forward));
    sum.move(SumPhase::backward, dy, again, reduce);
    sum.move(SumPhase::input, dy, columns(scatter, r.column_input, input_gradient));
  } else {
    const Lie dy = alone(gather, Placement::before, input_gradient, sum.op);
    sum.move(SumPhase::forward, alone(gather, Placement::before, forward, r.last_column),
             alone(scatter, Placement::after, forward, sum.op));
    sum.move(SumPhase::backward, dy, again, reduce);
    sum.move(SumPhase::input, dy, alone(scatter, Placement::after, input_gradient, r.last_column));
  }
  sum.move(SumPhase::weight, columns(gather, r.column_weight, weight_gradient));
  const int launches = x.c.engine->facts.collective_launches;
  sum.kernels(2 * launches, 3 * launches);
  sum.wait(x.tp.size, 2, 3);
}

}  // namespace espalier::cost
