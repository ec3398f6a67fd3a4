// SPDX-License-Identifier: Apache-2.0
// A measured training step, rank by rank. `espalier run --timeline FILE` writes it (schema espalier.measured-step/1),
// and `espalier compare PLAN.json --timeline FILE` compares it with the simulated one.
//
// Times are integer nanoseconds on the clock of rank 0, from the moment at which rank 0 began the step. Clocks of
// other ranks are aligned by the shortest of several round trips to rank 0. Their times are therefore wrong by at
// most half of that round trip: clock_error_ns.
//
// A rank observes when an instruction begins and ends: a whole computation, reduction or gather. For a message, it
// observes when it posts a send, and how long it waits for a receive, which may have arrived earlier.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/result.h"

namespace espalier {

/// Selects the pass of an operator that is computed.
enum class OperatorPass : std::uint8_t { forward, input_gradient, weight_gradient };

/// Holds the times of one instruction.
struct MeasuredInstruction {
  std::int64_t start_ns = 0, end_ns = 0;
  /// Counts the time in the operators of a computation, without the collectives inside it; for the
  /// optimizer, the time in the update.
  std::int64_t operators_ns = 0;
  /// Counts the time in the collectives inside a computation, including the wait for their members.
  std::int64_t collectives_ns = 0;
  /// Counts the time that a computation waited for messages, tasks and other ranks before it began.
  std::int64_t waited_ns = 0;
  bool operator==(const MeasuredInstruction&) const = default;
};

/// Sums the computation of one operator of one layer on a rank in the step, without the collectives inside it.
struct MeasuredOperator {
  std::int32_t layer = 0;   ///< index of the layer in the model
  std::int32_t number = 0;  ///< index of the operator in the kind of the layer
  OperatorPass pass = OperatorPass::forward;
  bool repeated = false;   ///< a forward pass of recomputation
  std::int64_t times = 0;  ///< number of runs
  std::int64_t total_ns = 0;
  bool operator==(const MeasuredOperator&) const = default;
};

/// Holds the step of one rank.
struct MeasuredRank {
  std::int64_t device = 0;
  std::int64_t start_ns = 0, end_ns = 0;  ///< start and end of the step on this rank
  std::int64_t clock_error_ns = 0;
  std::vector<MeasuredInstruction> instructions;  ///< in the order of the rank's list in the Program
  std::vector<MeasuredOperator> operators;        ///< by layer, number, pass
  bool operator==(const MeasuredRank&) const = default;
};

/// Holds one measured step of a plan.
struct MeasuredStep {
  std::string plan;                 ///< content hash of the plan
  std::int64_t step = 0;            ///< number of the step that is shown, from 0
  std::int64_t steps = 1;           ///< number of measured steps, of which this one is the median
  std::vector<MeasuredRank> ranks;  ///< by world rank
  [[nodiscard]] std::int64_t iteration_ns() const { return ranks.empty() ? 0 : ranks.front().end_ns - ranks.front().start_ns; }
  bool operator==(const MeasuredStep&) const = default;
};

/// Returns JSON of schema espalier.measured-step/1.
std::string to_json(const MeasuredStep& step);
/// Reads such a text; `name` is its name in messages. Fails with bad_input, naming the place, for a text that is not
/// such a file or contradicts itself. Contradictions are an end before its start, overlapping computations of a rank,
/// and parts longer than the whole.
Result<MeasuredStep> read_measured_step(const std::string& text, const std::string& name);

}  // namespace espalier
