// SPDX-License-Identifier: Apache-2.0
// A bound of every plan of a schedule with several chunks a stage, whatever the contiguous split of the layers into the
// chunks.
//
// Stage i computes its steps in a fixed order. Of a chunk c on it, some steps stand before its first forward pass, and
// some after its last backward pass. Layer l has forward time f_l, backward time b_l and a tail t_l once a step; m
// micro-batches:
//   start of c         T ≥ Σ_{l in chunks before c} f_l + Σ_{l on i} (m·(f_l + b_l) + t_l) − (steps before)
//   start and end of c T ≥ Σ_{l in chunks before c} (f_l + b_l) + Σ_{l on i} m·(f_l + b_l) − (steps before and after)
// (the second where the backward pass is in one part). A mean of these with weights y_c ≥ 0, Σ y_c = 1, is a sum over
// layers whose coefficients depend only on the chunk a layer lies in: f_l·A_c + b_l·B_c + t_l·γ_i. With r_k … R_k the
// shares that the forward pass of a layer of kind k may have in f + b, for every split
//   T ≥ Σ_l (C_k·(f_l + b_l) + γ·t_l),   C_k = min over chunks and r in {r_k, R_k} of r·A_c + (1 − r)·B_c,   γ = min γ_i
// and also T ≥ (1/p)·Σ_l (m·(f_l + b_l) + t_l), the mean over stages of their work alone, and T ≥ m·(f_l + b_l) + t_l
// of every layer. The weights are γ_i/v for the chunks of stage i, with the γ_i under which all chunks cost a layer of
// b = 2f about the same; any others would be as true. The sum over layers is at least its bound from convex hulls when
// the stages share p times the memory of one, each layer holding the passes that every chunk of every stage holds at
// one moment.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/plan.h"

namespace espalier::search {

/// What the orders of computation say of each chunk; made once a schedule.
class ChunkOrders {
 public:
  explicit ChunkOrders(const Schedule& schedule);
  /// Passes that every chunk of a stage holds at one moment, at the moment when the fewest are most; at least 1.
  [[nodiscard]] std::int32_t held_together(std::int32_t stage) const { return held_[static_cast<std::size_t>(stage)]; }
  [[nodiscard]] std::int32_t least_held() const;
  /// Most steps that stand before the first forward pass of a chunk and after its last backward pass.
  [[nodiscard]] std::int64_t most_skipped() const;

  /// A, B and γ of a chunk.
  struct Coefficients {
    double forward = 0, backward = 0, tail = 0;
  };
  /// Of every chunk; `ends`: start and end of a chunk, otherwise its start alone. Chunks that another undercuts are
  /// left out.
  [[nodiscard]] std::vector<Coefficients> coefficients(bool ends) const;

 private:
  /// Passes of each local chunk of a stage that stand apart from the window of one of them.
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
