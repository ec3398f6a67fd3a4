// SPDX-License-Identifier: Apache-2.0
// A training step as it was measured, rank by rank: what `espalier run --timeline FILE` writes (schema
// espalier.measured-step/1) and `espalier compare PLAN.json --timeline FILE` lays beside the simulated one.
//
// Times are integer nanoseconds from the moment at which rank 0 began the step, on the clock of rank 0. A rank whose
// clock differs from that of rank 0 was aligned by the shortest of several round trips between the two, so that its
// times are wrong by half of that at most: clock_error_ns.
//
// Of an instruction the rank sees when it begins and ends it. That is the whole of a computation, a reduction or a
// gather. Of a message it sees when it hands a send over, and how long it waits for a receive, which may have come
// before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/result.h"

namespace espalier {

/// What is computed of an operator at a time.
enum class OperatorPass : std::uint8_t { forward, input_gradient, weight_gradient };

struct MeasuredInstruction {
  std::int64_t start_ns = 0, end_ns = 0;
  std::int64_t operators_ns =
      0;  ///< of a computation: spent in operators, without the collectives inside them; of the optimizer, in the
          ///< update
  std::int64_t collectives_ns = 0;  ///< of a computation: spent in collectives inside it, waiting for their members
                                    ///< included
  std::int64_t waited_ns = 0;       ///< of a computation: waited for messages, tasks and other ranks before it began
  bool operator==(const MeasuredInstruction&) const = default;
};

/// All that a rank computed of one operator of one layer in the step, without the collectives inside it.
struct MeasuredOperator {
  std::int32_t layer = 0;   ///< of the model
  std::int32_t number = 0;  ///< of the operator in the kind of the layer
  OperatorPass pass = OperatorPass::forward;
  bool repeated = false;   ///< a forward that belongs to recomputation
  std::int64_t times = 0;  ///< how often it ran
  std::int64_t total_ns = 0;
  bool operator==(const MeasuredOperator&) const = default;
};

struct MeasuredRank {
  std::int64_t device = 0;
  std::int64_t start_ns = 0, end_ns = 0;  ///< of the step on this rank
  std::int64_t clock_error_ns = 0;
  std::vector<MeasuredInstruction> instructions;  ///< in the order of the rank's list in the Program
  std::vector<MeasuredOperator> operators;        ///< by layer, number, pass
  bool operator==(const MeasuredRank&) const = default;
};

struct MeasuredStep {
  std::string plan;                 ///< content hash
  std::int64_t step = 0;            ///< which one is shown, from 0
  std::int64_t steps = 1;           ///< of which it is the one of median length
  std::vector<MeasuredRank> ranks;  ///< world rank by world rank
  [[nodiscard]] std::int64_t iteration_ns() const { return ranks.empty() ? 0 : ranks.front().end_ns - ranks.front().start_ns; }
  bool operator==(const MeasuredStep&) const = default;
};

std::string to_json(const MeasuredStep& step);
/// bad_input, with the place in the text `name`: what is no such file, or contradicts itself (an end before its start,
/// computations of a rank that overlap, parts longer than the whole).
Result<MeasuredStep> read_measured_step(const std::string& text, const std::string& name);

}  // namespace espalier
