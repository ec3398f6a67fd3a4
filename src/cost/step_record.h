// SPDX-License-Identifier: Apache-2.0
// The recorder behind Sums (layer_sums.h) that keeps what operators emit, in the order in which a rank runs it.
// Internal to cost/.
//
// Forward runs the operators in their order, backward from the last to the first. An operator has traffic before it,
// its compute (input gradients before weight gradients), and traffic after it. Overlapped traffic comes right before
// the compute that it overlaps. The column linears of a tensor-parallel region take one gathered input, and share the
// traffic that overlaps them. They run as one, in place of the last of them.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/layer_sums.h"
#include "cost/step_cost.h"
#include "espalier/model.h"

namespace espalier::cost {

class StepRecord {
 public:
  void begin_operator(std::int32_t op) { op_ = op; }
  void compute(StepPart part, double seconds);
  void begin_term() { ++term_; }
  void traffic(SumPhase phase, const Lie& lie);
  void region(std::int32_t first_op, std::int32_t last_op);

  /// Returns the steps of one phase of a layer of `kind`, without its waits.
  [[nodiscard]] PhaseSteps steps_of(SumPhase phase, const LayerKind& kind) const;

 private:
  struct Computed {
    StepPart part;
    std::int32_t op, term;
    double seconds;
  };
  struct Moved {
    SumPhase phase;
    std::int32_t term;
    Lie lie;
  };
  struct Placed;
  /// Returns the place of an operator; column linears of a region are where the last one of them is.
  [[nodiscard]] std::int32_t place_of(std::int32_t op, const LayerKind& kind) const;
  [[nodiscard]] Placed placed(const Computed& c, const LayerKind& kind) const;
  [[nodiscard]] static Placed placed(const Moved& m);
  static void find_compute(std::vector<Placed>& all);

  std::int32_t op_ = -1, term_ = 0;
  std::vector<Computed> computed_;
  std::vector<Moved> moved_;
  struct Region {
    std::int32_t first, last;
  };
  std::vector<Region> regions_;
};

}  // namespace espalier::cost
