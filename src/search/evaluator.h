// SPDX-License-Identifier: Apache-2.0
// The judge of a candidate: its simulated time and memory. search/ does not know the simulator; planner/ hands it this.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cost/cluster_costs.h"
#include "cost/costs.h"
#include "cost/layer_cost.h"
#include "plan/program.h"

namespace espalier::search {

struct Problem;  // search/search.h

/// The plan behind a structure and its costs, where the two do not say enough (who sends what over which link).
struct CandidatePlan {
  const Problem& problem;
  const cost::CostContext& context;
  const Schedule& schedule;
  const Strategy* strategy = nullptr;                            ///< of all layers, split by the engine; null: `chunks`
  const std::vector<std::vector<LayerRange>>* chunks = nullptr;  ///< ranges of each pipeline chunk
};

/// A plan on devices of several kinds.
struct PlanEvaluation {
  std::int64_t iteration_ns = 0;
  bool fits = false;  ///< every rank, into its own device
  /// Of a plan with a stage of several kinds of ranks, by kind (cost::KindCosts): bytes that its fullest rank holds
  /// beyond its device's memory, below 0 where there is room.
  std::vector<std::int64_t> over = {};
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// Memory alone; cheaper than the time.
  virtual std::int64_t peak_bytes(const ProgramStructure& structure, const cost::Costs& costs, int worker) = 0;
  /// The iteration alone. `worker` names a thread's own scratch.
  virtual std::int64_t iteration_ns(const ProgramStructure& structure, const cost::Costs& costs, const CandidatePlan& plan,
                                    int worker) = 0;
  /// When each stage ends its last pass, without what follows; null: not known. Stays valid as long as the evaluator.
  virtual const std::vector<std::int64_t>* pass_ends(const ProgramStructure&, const cost::Costs&, int /*worker*/) {
    return nullptr;
  }
  /// A plan whose stages lie on unlike devices. Nothing: this evaluator knows one kind alone.
  virtual std::optional<PlanEvaluation> evaluate(const Problem&, const cost::ClusterCosts&, const Plan&) { return std::nullopt; }
  /// Whether evaluate() finds what the given ClusterCosts say. False: it judges the plan on the devices that these
  /// stand for (speed_classes.h), which may take less or more.
  [[nodiscard]] virtual bool exact() const { return true; }
  /// How many programs were timed so far; fewer than candidates where some have equal timings.
  [[nodiscard]] virtual std::int64_t lowered() const { return 0; }
};

}  // namespace espalier::search
