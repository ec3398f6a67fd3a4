// SPDX-License-Identifier: Apache-2.0
// Bounds every plan of a schedule with several chunks per stage, for any contiguous split of the layers into the
// chunks.
//
// Stage i computes its steps in a fixed order. For a chunk c on it, some steps precede its first forward pass, and
// some follow its last backward pass. Layer l has forward time f_l, backward time b_l and a tail t_l once per step.
// With m micro-batches:
//   start of c         T ≥ Σ_{l in chunks before c} f_l + Σ_{l on i} (m·(f_l + b_l) + t_l) − (steps before)
//   start and end of c T ≥ Σ_{l in chunks before c} (f_l + b_l) + Σ_{l on i} m·(f_l + b_l) − (steps before and after)
// (the second where the backward pass is in one part). A mean of these with weights y_c ≥ 0, Σ y_c = 1, is a sum over
// layers. Its coefficients f_l·A_c + b_l·B_c + t_l·γ_i depend only on the chunk that holds the layer. The share of
// the forward pass in f + b, for layers of kind k, lies in [r_k, R_k]. Then for every split
//   T ≥ Σ_l (C_k·(f_l + b_l) + γ·t_l),
//   C_k = min over chunks and r in {r_k, R_k} of r·A_c + (1 − r)·B_c,   γ = min γ_i
// The mean over stages of their work alone gives T ≥ (1/p)·Σ_l (m·(f_l + b_l) + t_l). Every single layer gives T ≥
// m·(f_l + b_l) + t_l. The weights are γ_i/v for the chunks of stage i. The γ_i are chosen so that a layer of b = 2f
// costs about the same in all chunks; any other weights would also be valid. The sum over layers is at least its
// bound from convex hulls when the stages share p times the memory of one. Each layer then holds the passes that
// every chunk of every stage holds at one moment.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/plan.h"

namespace espalier::search {

/// Holds the coefficients that the orders of computation give each chunk; built once per schedule.
class ChunkOrders {
 public:
  explicit ChunkOrders(const Schedule& schedule);
  /// Returns how many passes every chunk of a stage holds at the same moment, at least 1. The moment is chosen to
  /// maximise the smallest number over the chunks.
  [[nodiscard]] std::int32_t held_together(std::int32_t stage) const { return held_[static_cast<std::size_t>(stage)]; }
  [[nodiscard]] std::int32_t least_held() const;
  /// Returns the largest number of steps that precede the first forward pass of a chunk and follow its last backward
  /// pass.
  [[nodiscard]] std::int64_t most_skipped() const;

  /// Holds A, B and γ of a chunk.
  struct Coefficients {
    double forward = 0, backward = 0, tail = 0;
  };
  /// Returns the coefficients of every chunk, without chunks that another undercuts. `ends` uses the start and the
  /// end of a chunk, otherwise its start alone.
  [[nodiscard]] std::vector<Coefficients> coefficients(bool ends) const;

 private:
  /// Counts the passes of each local chunk of a stage that lie outside the window of one of them.
  struct Outside {
    std::vector<std::int64_t> forwards_before, backwards_before, forwards_after, backwards_after;
  };
  void read(std::int32_t stage);
  [[nodiscard]] const Outside& outside(std::int32_t stage, std::int32_t local_chunk) const;
  [[nodiscard]] std::vector<Coefficients> with(const std::vector<double>& weights, bool ends) const;

  Schedule schedule_;
  std::vector<std::int32_t> held_;
  std::vector<Outside> outside_;  ///< [stage · v + local chunk]
};

}  // namespace espalier::search
