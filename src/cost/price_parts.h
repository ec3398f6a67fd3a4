// SPDX-License-Identifier: Apache-2.0
// State that all parts of price() share (price.h): the plan by chunks, and what is known of chunks and stages so far.
// Internal to price*.cpp.
//
//   price_chunk.cpp   the sum over the layers of a chunk, its share of the communication at the end of the step
//   price_stage.cpp   what the chunks of a stage hold together: states, buffers, the update
//   price.cpp         the order of all that, messages between chunks, columns
#pragma once

#include <list>
#include <optional>
#include <vector>

#include "cost/price.h"
#include "cost/zero_buffers.h"
#include "plan/held_passes.h"

namespace espalier::cost {

/// Holds those layers of a chunk or stage that reduce together.
struct Share {
  const StrategyCost* under = nullptr;
  ParameterElements elements;
  TensorSync sync;
  std::int32_t layers = 0;
};
using Shares = std::vector<Share>;

/// Returns the share of the strategies that reduce together with that of x: equal but for recomputation.
Share& share_of(Shares& shares, const StrategyCost& x);

/// Holds what is known of a chunk before its stage is priced.
struct PricedChunk {
  ChunkTotal total;
  Shares shares;           ///< empty where another chunk has the same
  std::int32_t like = -1;  ///< that chunk, or itself
  std::int32_t stage = 0;
  std::int64_t reduce_ns = 0, gather_ns = 0;  ///< one bucket each
  MutualSlowdown reduce_slowdown, gather_slowdown;
  std::int64_t boundary_bytes = 0, transfer_ns = 0, delay_ns = 0;
};

struct PriceScratch::State {
  ChunkRanges ranges;
  std::vector<SplitTable::Run> runs;
  std::vector<std::int32_t> layers;  ///< one per chunk
  std::vector<PricedChunk> chunks;
  std::vector<Shares> held;  ///< one per stage
  HeldPasses passes;
  std::vector<ChunkId> copies;  ///< chunks that hold a copy of the token table, trained or not
};

struct Pricing {
  const CostContext& c;
  const ProgramStructure& structure;
  const ChunkRanges& chunks;
  const SplitTable* split;   ///< split of one strategy for all layers; else null
  const StrategyCost* only;  ///< costs of that strategy; else null
  ChunkEdges edges;
  PriceScratch::State& scratch;
  Costs& out;
  Program* program;
  /// Holds the costs of stages on unequal devices, which lie at `places`; null: all stages are alike.
  const ClusterCosts* cluster = nullptr;
  const std::vector<StagePlace>* places = nullptr;  ///< by stage
  std::list<StrategyCost> strategy_costs{};         ///< one per strategy of a range, added when it is first met
  std::int64_t largest_message = 0;
  std::optional<LargestLayers> largest{};

  [[nodiscard]] const std::vector<RangeCost>& ranges(std::int32_t chunk) const { return chunks[static_cast<std::size_t>(chunk)]; }
  [[nodiscard]] PricedChunk& priced(std::int32_t chunk) { return scratch.chunks[static_cast<std::size_t>(chunk)]; }
  [[nodiscard]] Shares& held(std::int32_t stage) { return scratch.held[static_cast<std::size_t>(stage)]; }
  [[nodiscard]] std::int32_t stage_of(std::int32_t chunk) { return priced(chunk).stage; }
  [[nodiscard]] std::int32_t kind_of(std::int32_t layer) const {
    return c.workload.model->layers[static_cast<std::size_t>(layer)];
  }
  [[nodiscard]] PhaseTime& optimizer(std::int32_t stage) { return out.works[structure.optimizer(StageId(stage))].time; }
  /// Returns the context of the devices of a range.
  [[nodiscard]] const CostContext& on(const RangeCost& range) const { return range.on != nullptr ? *range.on : c; }
  /// Returns the context of a stage; stage i of every schedule holds pipeline chunk i.
  [[nodiscard]] const CostContext& on_stage(std::int32_t stage) const { return on(ranges(stage).front()); }
  const StrategyCost& under(const RangeCost& range);
  const StrategyCost& under_embedding() { return under(chunks.front().front()); }
  [[nodiscard]] std::int32_t strategy_index(const Strategy& s) const;
};

/// Prices the layers of a chunk and its buckets, without messages.
void price_chunk(Pricing& p, std::int32_t i);
/// Prices what a stage holds, and its update.
void price_stage(Pricing& p, std::int32_t i);

}  // namespace espalier::cost
