// SPDX-License-Identifier: Apache-2.0
// What all parts of price() look at (price.h): the plan by chunks, and what is known of chunks and stages so far.
// Internal to price*.cpp.
//
//   price_chunk.cpp   layers of a chunk summed, its share of the communication at the end of the step
//   price_stage.cpp   what the chunks of a stage hold together: states, buffers, the update
//   price.cpp         the order of all that, messages between chunks, columns
#pragma once

#include <list>
#include <vector>

#include "cost/price.h"
#include "plan/held_passes.h"

namespace espalier::cost {

/// Layers of one such group in a chunk or stage.
struct Share {
  const StrategyCost* under = nullptr;
  ParameterElements elements;
  TensorSync sync;
  std::int32_t layers = 0;
};
using Shares = std::vector<Share>;

/// The share of the strategies that reduce together with the one of x: equal but for recomputation.
Share& share_of(Shares& shares, const StrategyCost& x);

/// What is known of a chunk before its stage is.
struct PricedChunk {
  ChunkTotal total;
  Shares shares;           ///< empty where another chunk has the same
  std::int32_t like = -1;  ///< that chunk, or itself
  std::int32_t stage = 0;
  std::int64_t reduce_ns = 0, gather_ns = 0;  ///< of one bucket
  MutualSlowdown reduce_slowdown, gather_slowdown;
  std::int64_t boundary_bytes = 0, transfer_ns = 0, delay_ns = 0;
};

class ClusterCosts;  // cluster_costs.h
struct StagePlace;

struct PriceScratch::State {
  ChunkRanges ranges;
  std::vector<SplitTable::Run> runs;
  std::vector<std::int32_t> layers;  ///< by chunk
  std::vector<PricedChunk> chunks;
  std::vector<Shares> held;  ///< by stage
  HeldPasses passes;
  std::vector<ChunkId> copies;  ///< chunks that hold a copy of the token table, trained or not
};

struct Pricing {
  const CostContext& c;
  const ProgramStructure& structure;
  const ChunkRanges& chunks;
  const SplitTable* split;   ///< of one strategy for all layers; else null, as is
  const StrategyCost* only;  ///< what it costs
  ChunkEdges edges;
  PriceScratch::State& scratch;
  Costs& out;
  Program* program;
  const ClusterCosts* cluster = nullptr;            ///< stages on unlike devices, which lie at `places`; null: all
                                                    ///< alike
  const std::vector<StagePlace>* places = nullptr;  ///< by stage
  std::list<StrategyCost> strategy_costs{};         ///< of ranges, each when it was first met
  std::int64_t largest_message = 0, largest_scattered = -1, largest_gathered = -1;

  [[nodiscard]] const std::vector<RangeCost>& ranges(std::int32_t chunk) const { return chunks[static_cast<std::size_t>(chunk)]; }
  [[nodiscard]] PricedChunk& priced(std::int32_t chunk) { return scratch.chunks[static_cast<std::size_t>(chunk)]; }
  [[nodiscard]] Shares& held(std::int32_t stage) { return scratch.held[static_cast<std::size_t>(stage)]; }
  [[nodiscard]] std::int32_t stage_of(std::int32_t chunk) { return priced(chunk).stage; }
  [[nodiscard]] std::int32_t kind_of(std::int32_t layer) const {
    return c.workload.model->layers[static_cast<std::size_t>(layer)];
  }
  [[nodiscard]] PhaseTime& optimizer(std::int32_t stage) { return out.works[structure.optimizer(StageId(stage))].time; }
  /// What the devices of a range cost.
  [[nodiscard]] const CostContext& on(const RangeCost& range) const { return range.on != nullptr ? *range.on : c; }
  /// Of a stage; stage i of every schedule holds pipeline chunk i.
  [[nodiscard]] const CostContext& on_stage(std::int32_t stage) const { return on(ranges(stage).front()); }
  const StrategyCost& under(const RangeCost& range);
  const StrategyCost& under_embedding() { return under(chunks.front().front()); }
  [[nodiscard]] std::int32_t strategy_index(const Strategy& s) const;
};

/// Ranges whose layers are priced: under `c`, or where `cluster` is given each stage at its place and each range under
/// its own context.
void price_ranges(const CostContext& c, const ProgramStructure& structure, const ChunkRanges& chunks, Costs& out,
                  Program* program, const ClusterCosts* cluster = nullptr, const std::vector<StagePlace>* places = nullptr);
/// The layers of a chunk and its buckets, without messages.
void price_chunk(Pricing& p, std::int32_t i);
/// What a stage holds, and its update.
void price_stage(Pricing& p, std::int32_t i);

}  // namespace espalier::cost
