// SPDX-License-Identifier: Apache-2.0
// Shares the cost context, and the split of the layers for each number of chunks, among the nodes of the search.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cost/bound.h"
#include "cost/chunk_bytes.h"
#include "cost/price.h"
#include "cost/uniform_bound.h"
#include "search/layer_prices.h"
#include "search/memory_table.h"
#include "search/search.h"

namespace espalier::search {

class CostBook {
 public:
  explicit CostBook(const Problem& problem);
  [[nodiscard]] const cost::CostContext& context() const { return context_; }
  [[nodiscard]] std::int64_t memory_limit() const { return memory_limit_; }
  /// Prepares splits for p stages; call before threads start.
  void prepare(std::int32_t stages);
  [[nodiscard]] const cost::SplitTable& split(const Schedule& s) const {
    return *splits_[static_cast<std::size_t>(s.stages) * static_cast<std::size_t>(s.virtual_stages)];
  }
  /// Returns the number of layers of the whole model by kind.
  [[nodiscard]] const std::vector<std::int64_t>& kind_counts() const { return kind_counts_; }

 private:
  cost::CostContext context_;
  std::int64_t memory_limit_;
  std::vector<std::unique_ptr<cost::SplitTable>> splits_;
  std::vector<std::int64_t> kind_counts_;
};

/// Holds a program of passes and messages alone (pipeline_floor.h).
struct PipelineAlone {
  ProgramStructure structure;
  cost::Costs costs;
};

/// Holds the reusable memory of one thread.
struct Workspace {
  LayerPrices prices;
  MemoryTables tables;
  std::vector<cost::LayerCost> layers;
  cost::PriceScratch scratch;
  cost::UniformBound bound;
  cost::UniformBytes bytes;
  cost::Costs costs;
  ProgramStructure structure;
  PipelineAlone pipeline;
};

/// Fills w.layers with the layer costs of a configuration.
void price_layers(const CostBook& book, const Configuration& c, Workspace& w);

/// Computes the timing of a configuration whose layer costs are in `w.layers`; fills w.costs and w.structure.
void assemble(const CostBook& book, const Configuration& c, Workspace& w);

/// The first returns the least time of one micro-batch through all layers of a layer-group choice, the second the
/// least memory of a stage. `w.layers` must be filled.
std::int64_t layer_group_bound_ns(const CostBook& book, const Configuration& c, const Workspace& w);
std::int64_t layer_group_least_bytes(const CostBook& book, const Configuration& c, const Workspace& w);
/// Returns a bound of everything below a schedule choice. Group bounds leave out copies of activations to and from
/// the host.
std::int64_t schedule_group_bound_ns(const CostBook& book, const Configuration& c, Workspace& w);
/// Returns a bound of everything below a choice of ZeRO stage and shard group, for the recomputation in `c`. It
/// assumes both overlaps on and free chunk edges.
std::int64_t shard_group_bound_ns(const CostBook& book, const Configuration& c, Workspace& w);
/// Returns the bound of one configuration: cost::iteration_lower_bound_ns of the values that assemble() would fill
/// in.
std::int64_t configuration_bound_ns(const CostBook& book, const Configuration& c, Workspace& w);
/// Returns the peak bound over all stages of w.costs.
std::int64_t peak_bound_bytes(const Workspace& w);

}  // namespace espalier::search
