// SPDX-License-Identifier: Apache-2.0
// Defines the interface that judges a candidate by its simulated time and memory. The search does not depend on the
// simulator; planner/ passes an implementation in.
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

/// Holds the plan behind a structure and its costs, for evaluations that also need to know which ranks send over
/// which link.
struct CandidatePlan {
  const Problem& problem;
  const cost::CostContext& context;
  const Schedule& schedule;
  const Strategy* strategy = nullptr;  ///< strategy of all layers, split by the engine; null: use `chunks`
  const std::vector<std::vector<LayerRange>>* chunks = nullptr;  ///< ranges of each pipeline chunk
};

/// Holds the evaluation of a plan on devices of several kinds.
struct PlanEvaluation {
  std::int64_t iteration_ns = 0;
  bool fits = false;  ///< whether every rank fits into its own device
  /// Holds bytes by device kind (cost::KindCosts), for a plan with a stage of several kinds of ranks. Each is what
  /// the fullest rank of the kind needs beyond its device's memory; it is negative where memory is left.
  std::vector<std::int64_t> over = {};
  std::int64_t lacking_bytes = 0;  ///< sum over ranks of what each needs beyond its device's memory
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// Returns the peak memory alone; cheaper than the time.
  virtual std::int64_t peak_bytes(const ProgramStructure& structure, const cost::Costs& costs, int worker) = 0;
  /// Returns the iteration time alone. `worker` selects the scratch memory of a thread.
  virtual std::int64_t iteration_ns(const ProgramStructure& structure, const cost::Costs& costs, const CandidatePlan& plan,
                                    int worker) = 0;
  /// Returns when each stage ends its last pass, without the work that follows it; null if unknown. The result stays
  /// valid as long as the evaluator.
  virtual const std::vector<std::int64_t>* pass_ends(const ProgramStructure&, const cost::Costs&, int /*worker*/) {
    return nullptr;
  }
  /// Evaluates a plan whose stages lie on heterogeneous devices; nullopt if this evaluator supports only one kind.
  virtual std::optional<PlanEvaluation> evaluate(const Problem&, const cost::ClusterCosts&, const Plan&) { return std::nullopt; }
  /// Returns whether evaluate() agrees with the given ClusterCosts. False: it judges the plan on the devices that
  /// these represent (speed_classes.h), which may take less or more.
  [[nodiscard]] virtual bool exact() const { return true; }
  /// Returns the number of programs timed so far. It is below the number of candidates where some have equal timings.
  [[nodiscard]] virtual std::int64_t lowered() const { return 0; }
};

}  // namespace espalier::search
