// SPDX-License-Identifier: Apache-2.0
// The recorder behind Sums (layer_sums.h) that keeps what operators emit, and puts it into the order in which a rank
// runs it. Internal to cost/.
//
// Forward: operators in their order; backward: from the last to the first. Of an operator: traffic before it, its
// compute (input gradients before weight gradients), traffic after it; what runs beside compute stands right before
// that compute. The column linears of a tensor-parallel region take one gathered input, and share what is moved beside
// them: they run as one, in the place of the last of them.
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

  /// The steps of one phase of a layer of `kind`, without its waits.
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
  /// Column linears of a region stand where the last one of them stands.
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
