// SPDX-License-Identifier: Apache-2.0
// Where the operators of a layer (layer_operators.h) put what they cost. One code emits both: sums of seconds, as the
// search needs them (Recorder = NoRecord, nothing is stored), and the same sums with the list of steps behind them
// (Recorder = StepRecord). Sums run in the order in which operators emit, which is StepCost::term. Internal to cost/.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cost/overlap.h"
#include "plan/steps.h"

namespace espalier::cost {

/// Host work of a collective in launches: the wrapper of torch.distributed, the kernel, events between its stream and
/// that of compute.
inline constexpr int kCollectiveLaunches = 2;

/// The phases that are summed apart. A schedule runs `backward`, or `input` and `weight` in its place.
enum class SumPhase : std::uint8_t { forward, backward, input, weight, selective };

/// Traffic and its seconds, all messages, nothing beside it.
struct PricedTraffic {
  Traffic traffic;
  double seconds = 0;
};

/// Traffic as it lies in a phase. `first_op` … `last_op`: operators whose compute of `part` it runs beside, before or
/// after.
struct Lie {
  PricedTraffic moved;
  double beside_s = 0;
  MutualSlowdown slowdown;
  Placement placement = Placement::after;
  StepPart part = StepPart::forward;
  std::int32_t first_op = -1, last_op = -1;
  double exposed = 0, hidden = 0;
};

inline Lie alone(const PricedTraffic& moved, Placement placement, StepPart part, std::int32_t op) {
  return {moved, 0, {}, placement, part, op, op, moved.seconds, 0};
}
inline Lie beside(const PricedTraffic& moved, double compute_s, MutualSlowdown k, StepPart part, std::int32_t first_op,
                  std::int32_t last_op) {
  const double extra = pair_time(moved.seconds, compute_s, k) - compute_s;
  return {moved, compute_s, k, Placement::beside, part, first_op, last_op, extra, std::max(0.0, moved.seconds - extra)};
}

/// The same before the backward pass, where the forward pass is repeated.
inline Lie repeated(Lie lie) {
  lie.part = StepPart::recomputation;
  return lie;
}

/// The recorder of the fast path: everything vanishes.
struct NoRecord {
  void begin_operator(std::int32_t /*op*/) {}
  void compute(StepPart /*part*/, double /*seconds*/) {}
  void begin_term() {}
  void traffic(SumPhase /*phase*/, const Lie& /*lie*/) {}
  void region(std::int32_t /*first_op*/, std::int32_t /*last_op*/) {}
};

/// Seconds of one layer, summed over its operators.
template <class Recorder>
struct Sums {
  double forward = 0, input_gradient = 0, weight_gradient = 0, selective = 0;  // compute
  // joint backward | split backward
  double exposed_forward = 0, exposed_backward = 0, exposed_input = 0, exposed_weight = 0;
  double exposed_selective = 0;
  double hidden_forward = 0, hidden_backward = 0;
  double kernels_forward = 0, kernels_input = 0, kernels_weight = 0;  // as the host launches them
  // share of the operator's kernels that it does launch
  double launched = 1;
  // share of its compute that selective recomputation repeats
  double again = 0;
  bool traffic_again = false;                       // and whether of its traffic
  std::int64_t waits_forward = 0, waits_input = 0;  // ranks of the group, summed over tensor-parallel collectives
  std::int32_t op = -1;                             // that is added now
  // the compute of the operator is measured: what is derived of it is left out
  bool known = false;
  Recorder record;

  void begin_operator(std::int32_t index, double launched_share) {
    op = index;
    launched = launched_share;
    known = false;
    record.begin_operator(index);
  }
  /// Selective recomputation repeats so much of what the operator computes, and its traffic or not.
  void repeat(double share, bool traffic) {
    again = share;
    traffic_again = traffic;
  }
  /// Seconds of the operator as they were measured.
  void measured(double f, double b, double w) {
    compute(f, b, 0, 0);
    weight(w);
    known = true;
  }
  void compute(double f, double b, int kf, int kb) {
    if (known) return;
    forward += f;
    input_gradient += b;
    kernels(kf, kb);
    record.compute(StepPart::forward, f);
    record.compute(StepPart::input_gradient, b);
    if (again <= 0) return;
    selective += again * f;
    record.compute(StepPart::recomputation, again * f);
  }
  void weight(double seconds) {
    if (known) return;
    weight_gradient += seconds;
    record.compute(StepPart::weight_gradient, seconds);
  }
  void kernels(int f, int b) {
    kernels_forward += launched * f;
    kernels_input += launched * b;
  }
  void kernels_of_weights(int n) { kernels_weight += launched * n; }
  void wait(std::int64_t ranks, int f, int b) {
    waits_forward += ranks * f;
    waits_input += ranks * b;
  }

  /// Traffic of a phase; what is given together is added up before it joins the sum.
  template <class... Lies>
  void move(SumPhase phase, const Lies&... lies) {
    record.begin_term();
    (record.traffic(phase, lies), ...);
    const double exposed = (lies.exposed + ...);
    const double hidden = (lies.hidden + ...);
    switch (phase) {
      case SumPhase::forward:
        exposed_forward += exposed;
        hidden_forward += hidden;
        if (traffic_again) move(SumPhase::selective, repeated(lies)...);
        return;
      case SumPhase::backward:
        exposed_backward += exposed;
        hidden_backward += hidden;
        return;
      case SumPhase::input: exposed_input += exposed; return;
      case SumPhase::weight: exposed_weight += exposed; return;
      case SumPhase::selective: exposed_selective += exposed; return;
    }
  }
  /// The same in the joint backward and in the input half of a split one.
  template <class... Lies>
  void move_back(const Lies&... lies) {
    move(SumPhase::backward, lies...);
    move(SumPhase::input, lies...);
  }
};

}  // namespace espalier::cost
