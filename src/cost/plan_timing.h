// SPDX-License-Identifier: Apache-2.0
// From layer costs to the PlanTiming of a whole configuration: what the simulator runs on, and what every bound is made of.
//
// Chunk time = Σ layers; ZeRO communication inside a chunk (stage 2: gradient reduce-scatter per micro-batch; stage 3: parameter
// all-gather in forward and backward too) runs layer by layer beside compute when `overlap` says so, else exposed; the first
// gather and the last reduction of a chunk are never hidden. Full recomputation adds the forward of the first `layers` blocks of
// each chunk to its backward; memory is counted in the order of layers (chunk_sum.h). Per chunk pass `kPassLaunches` kernel launches of framework overhead.
// Optimizer: memory-bound over its state, (g + 2·master + 2·moments + p + g for the gradient norm) bytes per element of the shard.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/layer_cost.h"
#include "cost/timing.h"
#include "plan/program.h"

namespace espalier::cost {

inline constexpr int kPassLaunches = 4;

/// A split of the model's layers into p·v chunks, with what is needed to sum costs over a chunk quickly.
class SplitTable {
 public:
  SplitTable() = default;
  /// `first[c]` = first layer of pipeline chunk c.
  SplitTable(const Model& model, const std::vector<std::int32_t>& first);
  [[nodiscard]] std::int32_t chunks() const { return static_cast<std::int32_t>(first_.size()); }
  [[nodiscard]] std::int32_t first(std::int32_t chunk) const { return first_[static_cast<std::size_t>(chunk)]; }
  [[nodiscard]] std::int32_t last(std::int32_t chunk) const { return chunk + 1 < chunks() ? first(chunk + 1) - 1 : layers_ - 1; }
  /// Layers of each chunk.
  [[nodiscard]] const std::vector<std::int32_t>& layer_counts() const { return layer_counts_; }
  /// Consecutive layers of one kind.
  struct Run {
    std::int32_t kind = 0, layers = 0;
  };
  /// The layers of a chunk in order.
  [[nodiscard]] const std::vector<Run>& runs(std::int32_t chunk) const { return runs_[static_cast<std::size_t>(chunk)]; }
  /// The first chunk whose layers are of the same kinds in the same order: its costs are this chunk's costs.
  [[nodiscard]] std::int32_t twin(std::int32_t chunk) const { return twins_[static_cast<std::size_t>(chunk)]; }

 private:
  std::vector<std::int32_t> first_, layer_counts_, twins_;
  std::vector<std::vector<Run>> runs_;
  std::int32_t layers_ = 0;
};

/// Split of a plan as it stands, or the engine's split for p·v chunks.
SplitTable split_of(const Model& model, const Plan& plan);
SplitTable split_for(const Model& model, const Training& training, const EngineModel& engine, std::int32_t chunks);

/// ProgramStructure facts of a configuration without building a Plan; equals structure_of(make_uniform_plan(…)).
void structure_for(const Model& model, const Strategy& s, const Schedule& schedule, const SplitTable& split, ProgramStructure& out);

/// The edges of a chunk's ZeRO communication: its first gather and its last reduction. A bound over all overlap choices leaves them
/// out: with both overlaps on and free edges no layer takes longer than with any of them off, since pair(c, w) − w ≤ c and grows by
/// at most the growth of c.
enum class ChunkEdges : std::uint8_t { exposed, free };

/// Fills `out` (reusing its memory). `layers` = layer_costs of the same strategy and micro-batch.
void plan_timing(const CostContext& c, const Strategy& s, const Schedule& schedule, const SplitTable& split,
                 const std::vector<LayerCost>& layers, const ProgramStructure& structure, PlanTiming& out,
                 ChunkEdges edges = ChunkEdges::exposed);

/// Static bytes of every stage under another ZeRO stage and shard group than `timing` was made for: s.zero and s.shard decide.
void static_bytes(const CostContext& c, const Strategy& s, const std::vector<LayerCost>& layers, const PlanTiming& timing,
                  std::vector<std::int64_t>& out);

}  // namespace espalier::cost
