// SPDX-License-Identifier: Apache-2.0
// The lower bound of a uniform strategy without a program's columns. It equals iteration_lower_bound_ns (bound.h) of
// the costs that price() (price.h) writes, to the nanosecond, at a fraction of its work. A search asks for hundreds
// of thousands of bounds and simulates few of their configurations. Bytes, parts of times and columns by work would
// mostly be filled in vain.
//
// Chunks of the same layers in the same order are summed once (SplitTable::twin); a chunk that holds a copy of the
// token table is summed by itself. Times are durations: whole nanoseconds per layer add up to the same sum whatever
// their components are. Data-parallel groups are placed only where they are needed (not for ZeRO below 2 without the
// data stream).
#pragma once

#include <cstdint>
#include <vector>

#include "cost/chunk_sum.h"
#include "cost/layer_cost.h"
#include "cost/rounding.h"
#include "cost/split_table.h"
#include "espalier/plan.h"

namespace espalier::cost {

/// Decides how much data-parallel communication a bound counts: all of it, or nothing at the end of the step and at
/// the edges of chunks. A bound over all overlap choices must use the latter.
enum class DataStream : std::uint8_t { counted, free };

/// Remembers where the stages of the last pipeline lie. Each thread and cost context has one of its own.
class UniformBound {
 public:
  /// Returns the bound in nanoseconds. `layers` are layer_costs of the strategy; `split` is into the chunks of the
  /// schedule.
  std::int64_t ns(const CostContext& c, const Strategy& s, const Schedule& schedule, const SplitTable& split,
                  const std::vector<LayerCost>& layers, DataStream stream);

 private:
  struct Call;
  struct Times;
  /// Holds the times of one layer, all in nanoseconds.
  struct Layer {
    /// These times include ZeRO; `backward_again` is that of a fully recomputed layer, without its recomputation.
    std::int64_t forward = 0, backward = 0, backward_again = 0;
    std::int64_t recompute_full = 0, recompute_selective = 0;
    std::int64_t input = 0, weight = 0;  ///< halves of the backward
  };
  /// Holds the times of a chunk, and of the chunks like it.
  struct Chunk {
    std::int64_t forward = 0, backward = 0, weight = 0;  ///< backward: the part that the chunk before waits for
    std::int64_t reduce = 0, gather = 0, buckets = 1;    ///< one bucket's times, and the number of buckets
    std::int64_t waited = 0;  ///< before the update: sums inside tensor groups, and the end of a reduction
    ParameterElements elements;
  };
  /// Sums the time that copies to and from the host add to the passes of a chunk.
  struct Copied {
    std::int64_t forward = 0, backward = 0, last_forward = 0, last_backward = 0;
    bool empty = true;
    void add(const HostCopies& host, std::int64_t n);
  };
  /// Holds what determines where the stages of a pipeline lie.
  struct Pipeline {
    std::int32_t tp = 0, cp = 0, dp = 0, stages = 0;
    RankOrder order{};
    bool operator==(const Pipeline&) const = default;
  };
  /// Holds what determines how long its messages take.
  struct Sent {
    Pipeline pipeline;
    ScheduleKind kind{};
    SequenceParallel sp{};
    bool partitioned = false;
    const SplitTable* split = nullptr;
    std::vector<std::int64_t> bytes;  ///< by kind of the sending layer
    bool operator==(const Sent&) const = default;
  };

  void time_layers(const Call& call);
  void sum(const Call& call, std::int32_t i, bool copy, Chunk& chunk) const;
  void add_copy(const Call& call, std::int32_t i, Chunk& chunk) const;
  void end_step(const Call& call, const TensorSync& sums, Chunk& chunk) const;
  void place(const Call& call);
  void send(const Call& call);
  void update(const Call& call);

  std::vector<Layer> layers_;   // by kind
  std::vector<ZeroTime> zero_;  // by kind; from ZeRO 2 on
  LayerCopies host_;
  std::vector<Chunk> chunks_;             // the first chunk of each class
  std::vector<std::int32_t> class_of_;    // chunk → that chunk
  std::vector<std::int64_t> transfers_;   // into each chunk
  std::vector<std::int64_t> optimizers_;  // by stage
  std::vector<ChunkId> table_chunks_;
  std::vector<std::int64_t> messages_;  // by kind of the sending layer and level; −1: not asked for yet
  std::vector<int> levels_;             // between stage i and the next one; for the last stage, the first one
  Pipeline placed_;
  Sent sent_, asked_;
};

}  // namespace espalier::cost
