// SPDX-License-Identifier: Apache-2.0
// Splits the layers into contiguous chunks.
//
// Splitter minimises the largest chunk sum over all splits, and among the optimal ones picks boundaries near
// the even quantiles.
//   Weights are scaled to integers (largest = 2^40), so that equal layers are exactly equal and every sum is exact.
//   1. B = the smallest bound under which a greedy fill needs at most k chunks (bisection over realised sums; exact).
//   2. Boundary j = 1 … k−1 in turn: the index nearest to total·j/k among those that keep chunk j ≤ B and leave
//      a suffix that k−j chunks can cover under B; ties go to the lower index.
//
// A probe takes O(k log n).
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/plan.h"

namespace espalier {

class Splitter {
 public:
  /// Prepares splits by these weights, which must be finite and ≥ 0.
  explicit Splitter(const std::vector<double>& weights);
  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(prefix_.size()) - 1; }
  /// Returns the first index of each of `chunks` ranges. Requires 1 ≤ chunks ≤ size().
  [[nodiscard]] std::vector<std::int32_t> split(std::int32_t chunks) const;

 private:
  [[nodiscard]] std::int64_t sum(std::int32_t first, std::int32_t end) const {
    return prefix_[static_cast<std::size_t>(end)] - prefix_[static_cast<std::size_t>(first)];
  }
  [[nodiscard]] std::int32_t reach(std::int32_t first, std::int64_t bound) const;
  [[nodiscard]] std::int32_t reach_back(std::int32_t end, std::int64_t bound) const;
  struct Fill {
    bool fits = false;
    std::int64_t largest = 0;  ///< largest chunk of the greedy fill
    std::int64_t next = 0;     ///< smallest bound that would lengthen one of its chunks
  };
  [[nodiscard]] Fill fill(std::int32_t chunks, std::int64_t bound) const;
  [[nodiscard]] std::int64_t smallest_bound(std::int32_t chunks) const;

  std::vector<std::int64_t> prefix_;
  std::int64_t largest_weight_ = 0;
};

/// Splits into equal numbers of blocks per chunk, the remainder to the first chunks. The embedding goes with the
/// first, the head with the last, and any other layer that is no block with the block after it. With more chunks than
/// blocks, chunks have equal numbers of layers. This also holds if only the number of layers, with embedding and head,
/// is a multiple of the chunks. Some models are made this way: their first and last stage have one block less (BLOOM:
/// 70 blocks on 12 stages, arXiv 2211.05100; Llama 3.1 405B: 126 on 16, arXiv 2407.21783, section 3.3.2; Qi et al.
/// 2024, arXiv 2401.10241, section 5.1).
std::vector<std::int32_t> even_blocks_split(const Model& model, std::int32_t chunks);

/// Splits as nanotron does (models/base.py, build_model). Chunk c of k ends with the layer at which the running sum
/// of matrix elements reaches total · (c + 1)/k; every chunk keeps at least one layer. The source that we read
/// continues past a sum equal to the share, and can leave the loss alone on the last stage. Stage times and peaks of
/// the Ultra-Scale Playbook's runs show neither (lab/accuracy-report.md).
std::vector<std::int32_t> cumulative_split(const Model& model, std::int32_t chunks);

/// Splits the layers by policy.
std::vector<std::int32_t> split_layers(const Model& model, const Sequence& sequence, SplitPolicy policy, std::int32_t chunks);

/// Counts the blocks in the fullest chunk of a split.
std::int32_t largest_chunk_blocks(const Model& model, const std::vector<std::int32_t>& firsts);

}  // namespace espalier
