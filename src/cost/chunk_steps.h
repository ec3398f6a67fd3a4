// SPDX-License-Identifier: Apache-2.0
// One pass of a micro-batch through a chunk, step by step: when every step of every layer runs, counted from the
// start of the pass.
//
// A pass consists of the moves between the ranges of the chunk (redistribution.h), its layers one after the other,
// and the framework's overhead at the end. A backward pass runs from the last layer to the first, each after its
// recomputation. ZeRO's traffic (zero_steps.h) overlaps the layers or runs alone. The pass adds up to the chunk's
// time in Costs, component by component, to the nanosecond. For ZeRO's traffic that overlaps a layer only the length
// is known, so it is drawn from the start of the layer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cost/layer_cost.h"
#include "cost/step_cost.h"
#include "cost/zero_steps.h"
#include "espalier/instruction.h"
#include "espalier/plan.h"

namespace espalier::cost {

enum class ChunkPhase : std::uint8_t { forward, backward, backward_input, backward_weight };
/// Returns the phase of an instruction that passes a micro-batch through a chunk.
ChunkPhase phase_of(InstructionKind kind);

/// Names the track of a span; spans of one track do not overlap.
enum class StepTrack : std::uint8_t {
  compute,  ///< compute, and waits without traffic
  traffic,  ///< traffic of the layers' steps, and between layers
  zero      ///< ZeRO's traffic, concurrent with whole layers
};

struct ChunkSpan {
  StepTrack track = StepTrack::compute;
  std::int32_t layer = -1;  ///< index in the model; −1: the chunk as a whole
  /// Names the operator, or else the kind of span: "waiting", "redistribution", "parameters", "gradients", "copies",
  /// "copies to and from the host", "pass".
  std::string name;
  StepPart part = StepPart::forward;
  Traffic traffic;     ///< times 0: none
  std::string beside;  ///< operators, or "layer", whose compute overlaps the traffic; empty: none
  std::int64_t start_ns = 0, end_ns = 0;
};

struct ChunkSteps {
  PhaseTime whole;
  std::vector<ChunkSpan> spans;  ///< sorted by start on each track
};

/// Holds what a plan specifies for its chunks, in pipeline order.
struct PlanChunks {
  Schedule schedule;
  std::vector<std::vector<LayerRange>> ranges;
  std::int64_t samples = 0;  ///< samples of a micro-batch in all replicas
  /// Lists the chunks that hold a copy of a shared token table, trained or not (plan/shared_table.h).
  std::vector<ChunkId> table_chunks;
  /// Holds, by chunk, whether the message from the chunk before redistributes (cluster_costs.h). Empty: none does.
  std::vector<bool> apart;
};
PlanChunks chunks_of(const Plan& plan, const Model& model);

/// Prices each pass, strategy and layer that it is asked for once. Threads must not share it; context and chunks must
/// outlive it.
class StepBook {
 public:
  StepBook(const CostContext& context, const PlanChunks& chunks) : c_(context), chunks_(chunks) {}
  ChunkSteps chunk(std::int32_t chunk, ChunkPhase phase);

  /// Holds the costs of one strategy, which are the same everywhere.
  struct Priced {
    std::vector<LayerCost> layers;             ///< by kind
    std::map<std::int32_t, LayerSteps> steps;  ///< only the kinds that were asked for
    DataGroups groups;
  };
  const Priced& priced(const Strategy& s);
  const LayerSteps& steps(const Strategy& s, std::int32_t kind);

 private:
  const CostContext& c_;
  const PlanChunks& chunks_;
  std::map<Strategy, Priced> known_;
};

}  // namespace espalier::cost
