// SPDX-License-Identifier: Apache-2.0
#include "cost/bound.h"

#include <cmath>

#include "base/invariant.h"
#include "cost/bound_formulas.h"

namespace espalier::cost {
namespace {

/// Provides the columns of costs under the names of the formulas.
struct Columns {
  const Costs& costs;
  const ProgramStructure& s;
  [[nodiscard]] const Schedule& schedule() const { return s.schedule; }
  [[nodiscard]] std::int64_t forward(std::int32_t c) const { return costs.works[s.forward(ChunkId(c))].time.duration_ns(); }
  [[nodiscard]] std::int64_t backward(std::int32_t c) const { return costs.works[s.backward(ChunkId(c))].time.duration_ns(); }
  [[nodiscard]] std::int64_t weight(std::int32_t c) const {
    return costs.works[s.backward_weight(ChunkId(c))].time.duration_ns();
  }
  [[nodiscard]] std::int64_t down(std::int32_t c) const {
    return c > 0 ? costs.transfers[s.transfer(ChunkId(c), false)].count() : 0;
  }
  [[nodiscard]] std::int64_t up(std::int32_t c) const {
    return c > 0 ? costs.transfers[s.transfer(ChunkId(c), true)].count() : 0;
  }
  [[nodiscard]] std::int64_t reduce(std::int32_t c) const { return costs.collectives[s.grad_reduce(ChunkId(c))].count(); }
  [[nodiscard]] std::int64_t gather(std::int32_t c) const { return costs.collectives[s.param_gather(ChunkId(c))].count(); }
  [[nodiscard]] std::int64_t tied_reduce() const { return costs.collectives[s.tied_reduce()].count(); }
  [[nodiscard]] std::int64_t optimizer(std::int32_t stage) const {
    return costs.works[s.optimizer(StageId(stage))].time.duration_ns();
  }
  [[nodiscard]] std::int64_t buckets(std::int32_t c) const { return s.buckets[ChunkId(c)]; }
  [[nodiscard]] const std::vector<ChunkId>& table_chunks() const { return s.table_chunks; }
  [[nodiscard]] bool reduce_gradients() const { return s.reduce_gradients; }
  [[nodiscard]] bool overlap_reduce() const { return s.overlap_reduce; }
  [[nodiscard]] bool gather_parameters() const { return s.gather_parameters; }
  [[nodiscard]] bool overlap_gather() const { return s.overlap_gather; }
  [[nodiscard]] bool overlap_p2p() const { return s.overlap_p2p; }
  [[nodiscard]] PassBytes bytes(std::int32_t c) const { return costs.bytes_of(s, ChunkId(c)); }
};

}  // namespace

std::int64_t iteration_lower_bound_ns(const Costs& costs, const ProgramStructure& structure) {
  ESPALIER_CHECK(costs.fits(structure));
  return iteration_bound_ns(Columns{costs, structure});
}

std::int64_t tail_of_stage_ns(const Costs& costs, const ProgramStructure& structure, std::int32_t stage) {
  return tail_ns(Columns{costs, structure}, stage, stage);
}

std::int64_t activations_lower_bound_bytes(const Costs& costs, const ProgramStructure& structure, std::int32_t stage) {
  return activations_bound_bytes(Columns{costs, structure}, stage);
}

std::int64_t peak_bytes(std::int64_t static_bytes, std::int64_t activations, double allocator_reserve) {
  // This rounds as the memory replay does: a byte more here could drop what just fits.
  return static_cast<std::int64_t>(std::floor(static_cast<double>(static_bytes + activations) * (1.0 + allocator_reserve)));
}

}  // namespace espalier::cost
