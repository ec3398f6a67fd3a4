// SPDX-License-Identifier: Apache-2.0
// Implements ZB-V (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory"): two chunks per stage, placed in
// a V, with a split backward. Chunk 0 of stage i is pipeline chunk i, chunk 1 is 2p−1−i. With F₀ B₀ W₀ the steps of
// chunk 0 and F₁ B₁ W₁ of chunk 1, a stage runs
//
//   fill     2(p−i)−1 × F₀,  then i × (F₁ F₀),  then (p−i) × (F₁ B₁ W₁)
//   steady   F₀ B₀ W₀ F₁ B₁ W₁   until the forwards are used up
//   drain    i × (B₀ B₁),  then (p−i) × (B₀ W₀),  then the remaining weight gradients: W₁ …, W₀ …
//
// With F = B = W a stage is never idle between its first and its last step (m ≥ 2p). At most 2p chunk passes are in
// flight, the activation memory of 1F1B's first stage. Fewer micro-batches run the same order without the missing ones.
#include <algorithm>
#include <array>

#include "base/invariant.h"
#include "plan/schedule.h"

namespace espalier {
namespace {

/// Returns the next micro-batch of each kind and chunk; those beyond the m real ones are counted but not emitted.
class Emitter {
 public:
  explicit Emitter(std::int32_t microbatches) : microbatches_(microbatches) {
    order_.reserve(6 * static_cast<std::size_t>(microbatches));
  }

  void emit(InstructionKind kind, std::int16_t chunk) {
    std::int32_t& next = counter(kind, chunk);
    if (next < microbatches_) order_.push_back({kind, chunk, next});
    ++next;
  }
  [[nodiscard]] std::int32_t done(InstructionKind kind, std::int16_t chunk) { return counter(kind, chunk); }
  std::vector<ChunkPass> take() { return std::move(order_); }

 private:
  std::int32_t& counter(InstructionKind kind, std::int16_t chunk) {
    const std::size_t k = kind == InstructionKind::forward ? 0 : kind == InstructionKind::backward_input ? 1 : 2;
    return next_[2 * k + static_cast<std::size_t>(chunk)];
  }
  std::int32_t microbatches_;
  std::array<std::int32_t, 6> next_{};
  std::vector<ChunkPass> order_;
};

}  // namespace

std::vector<ChunkPass> zb_v_order(const Schedule& schedule, std::int32_t stage) {
  ESPALIER_CHECK(schedule.virtual_stages == 2);
  constexpr auto F = InstructionKind::forward, B = InstructionKind::backward_input, W = InstructionKind::backward_weight;
  const std::int32_t p = schedule.stages, planned = std::max(schedule.microbatches, 2 * p - 1);
  Emitter out(schedule.microbatches);
  for (std::int32_t j = 0; j < 2 * (p - stage) - 1; ++j) out.emit(F, 0);
  for (std::int32_t j = 0; j < stage; ++j) {
    out.emit(F, 1);
    out.emit(F, 0);
  }
  for (std::int32_t j = 0; j < p - stage; ++j) {
    out.emit(F, 1);
    out.emit(B, 1);
    out.emit(W, 1);
  }
  while (out.done(F, 1) < out.done(F, 0) || out.done(F, 0) < planned) {
    if (out.done(F, 0) < planned) out.emit(F, 0);
    out.emit(B, 0);
    out.emit(W, 0);
    out.emit(F, 1);
    out.emit(B, 1);
    out.emit(W, 1);
  }
  for (std::int32_t j = 0; j < stage; ++j) {
    out.emit(B, 0);
    out.emit(B, 1);
  }
  for (std::int32_t j = 0; j < p - stage; ++j) {
    out.emit(B, 0);
    out.emit(W, 0);
  }
  while (out.done(W, 1) < out.done(B, 1)) out.emit(W, 1);
  while (out.done(W, 0) < out.done(B, 0)) out.emit(W, 0);
  return out.take();
}

}  // namespace espalier
