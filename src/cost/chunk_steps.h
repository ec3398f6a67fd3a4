// SPDX-License-Identifier: Apache-2.0
// One pass of a micro-batch through a chunk, step by step: when every step of every layer runs, counted from the start
// of the pass.
//
// A pass is: what lies between the ranges of the chunk (redistribution.h), its layers one after the other, backward
// from the last to the first and each after its recomputation, ZeRO's traffic beside them or alone (zero_steps.h), and
// the framework's overhead at the end. It adds up to the chunk's time in Costs component by component, to the
// nanosecond. Of ZeRO's traffic beside a layer only the length is known: it is drawn from the start of the layer on.
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
/// Of an instruction that passes a micro-batch through a chunk.
ChunkPhase phase_of(InstructionKind kind);

/// Spans of one track do not overlap.
enum class StepTrack : std::uint8_t {
  compute,  ///< and what the rank waits for without traffic
  traffic,  ///< of the layers' steps, and between layers
  zero      ///< of ZeRO, beside whole layers
};

struct ChunkSpan {
  StepTrack track = StepTrack::compute;
  std::int32_t layer = -1;  ///< of the model; −1: of the chunk as a whole
  std::string name;         ///< of the operator; else what it is: "waiting", "redistribution", "parameters", "gradients",
                            ///< "copies",
                            ///< "copies to and from the host", "pass"
  StepPart part = StepPart::forward;
  Traffic traffic;     ///< times 0: none
  std::string beside;  ///< operators, or "layer", whose compute the traffic runs beside; empty: alone
  std::int64_t start_ns = 0, end_ns = 0;
};

struct ChunkSteps {
  PhaseTime whole;
  std::vector<ChunkSpan> spans;  ///< in the order of their starts on each track
};

/// What a plan says of its chunks, in pipeline order.
struct PlanChunks {
  Schedule schedule;
  std::vector<std::vector<LayerRange>> ranges;
  std::int64_t samples = 0;           ///< of a micro-batch in all replicas
  std::vector<ChunkId> table_chunks;  ///< that hold a copy of a shared token table, trained or not
                                      ///< (plan/shared_table.h)
  std::vector<bool> apart;            ///< by chunk: the message from the chunk before redistributes (cluster_costs.h);
                                      ///< empty:
                                      ///< nowhere
};
PlanChunks chunks_of(const Plan& plan, const Model& model);

/// Prices what it is asked for, once each. Not to be shared by threads; context and chunks outlive it.
class StepBook {
 public:
  StepBook(const CostContext& context, const PlanChunks& chunks) : c_(context), chunks_(chunks) {}
  ChunkSteps chunk(std::int32_t chunk, ChunkPhase phase);

  /// What one strategy costs everywhere.
  struct Priced {
    std::vector<LayerCost> layers;             ///< by kind
    std::map<std::int32_t, LayerSteps> steps;  ///< of the kinds asked for
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
