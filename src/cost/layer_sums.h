// SPDX-License-Identifier: Apache-2.0
// The sink to which the operators of a layer (layer_operators.h) emit their costs. One code path produces sums of
// seconds for the search (Recorder = NoRecord, nothing is stored), and these sums with the list of steps behind them
// (Recorder = StepRecord). Sums run in the order in which operators emit, which is StepCost::term. Internal to cost/.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cost/overlap.h"
#include "plan/steps.h"

namespace espalier::cost {

/// Names the phases that are summed separately. A schedule runs `backward`, or `input` and `weight` in its place.
enum class SumPhase : std::uint8_t { forward, backward, input, weight, selective };

/// Holds traffic and its seconds: all messages, without overlap.
struct PricedTraffic {
  Traffic traffic;
  double seconds = 0;
};

/// Describes traffic as it lies in a phase. `first_op` … `last_op` are the operators whose compute of `part` it
/// overlaps, precedes or follows.
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

/// Returns the same traffic as part of the recomputation that precedes the backward pass.
inline Lie repeated(Lie lie) {
  lie.part = StepPart::recomputation;
  return lie;
}

/// Records nothing: on the fast path all of its calls vanish.
struct NoRecord {
  void begin_operator(std::int32_t /*op*/) {}
  void compute(StepPart /*part*/, double /*seconds*/) {}
  void begin_term() {}
  void traffic(SumPhase /*phase*/, const Lie& /*lie*/) {}
  void region(std::int32_t /*first_op*/, std::int32_t /*last_op*/) {}
};

/// Sums the seconds of one layer over its operators.
template <class Recorder>
struct Sums {
  double forward = 0, input_gradient = 0, weight_gradient = 0, selective = 0;  // compute
  // The joint backward is `exposed_backward`; `exposed_input` and `exposed_weight` are the halves of a split one.
  double exposed_forward = 0, exposed_backward = 0, exposed_input = 0, exposed_weight = 0;
  double exposed_selective = 0;
  double hidden_forward = 0, hidden_backward = 0;
  double kernels_forward = 0, kernels_input = 0, kernels_weight = 0;  // as the host launches them
  // Share of the operator's kernels that the host does launch.
  double launched = 1;
  // Share of the operator's compute that selective recomputation repeats.
  double again = 0;
  bool traffic_again = false;                       // whether it repeats the operator's traffic as well
  std::int64_t waits_forward = 0, waits_input = 0;  // ranks of the group, summed over tensor-parallel collectives
  std::int32_t op = -1;                             // the operator that is being added
  // The compute of the operator is measured, so what is derived of it is left out.
  bool known = false;
  Recorder record;

  void begin_operator(std::int32_t index, double launched_share) {
    op = index;
    launched = launched_share;
    known = false;
    record.begin_operator(index);
  }
  /// Sets the share of the operator's compute that selective recomputation repeats, and whether it repeats the
  /// traffic.
  void repeat(double share, bool traffic) {
    again = share;
    traffic_again = traffic;
  }
  /// Adds the measured seconds of the operator.
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

  /// Adds traffic to a phase. The arguments of one call are added up before they join the sum.
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
  /// Adds traffic to the joint backward and to the input half of a split one.
  template <class... Lies>
  void move_back(const Lies&... lies) {
    move(SumPhase::backward, lies...);
    move(SumPhase::input, lies...);
  }
};

}  // namespace espalier::cost
