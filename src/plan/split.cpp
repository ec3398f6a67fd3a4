// SPDX-License-Identifier: Apache-2.0
// Implements the min-max contiguous split (exact bisection, Nicol 1994 style) with quantile placement, and the even
// split of Megatron.
#include "plan/split.h"

#include <algorithm>
#include <cmath>

#include "base/division.h"
#include "base/invariant.h"

namespace espalier {
namespace {

__extension__ using Wide = __int128;

}  // namespace

Splitter::Splitter(const std::vector<double>& weights) {
  ESPALIER_CHECK(!weights.empty() && weights.size() <= (std::size_t{1} << 20));
  double top = 0;
  for (const double w : weights) {
    ESPALIER_CHECK(std::isfinite(w) && w >= 0);
    top = std::max(top, w);
  }
  prefix_.reserve(weights.size() + 1);
  prefix_.push_back(0);
  for (const double w : weights) {
    // If all weights are zero, layers are counted instead.
    const std::int64_t units = top > 0 ? std::llround(w / top * 0x1p40) : 1;
    prefix_.push_back(prefix_.back() + units);
    largest_weight_ = std::max(largest_weight_, units);
  }
}

/// Returns the largest end > first with sum(first, end) ≤ bound. It gallops, then bisects, which is cheap
/// for short chunks.
std::int32_t Splitter::reach(std::int32_t first, std::int64_t bound) const {
  const std::int64_t limit = prefix_[static_cast<std::size_t>(first)] + bound;
  std::int32_t step = 1;
  while (first + step < size() && prefix_[static_cast<std::size_t>(first + step)] <= limit) step *= 2;
  const auto from = prefix_.begin() + first + step / 2;
  const auto to = prefix_.begin() + std::min(first + step, size()) + 1;
  const auto end = static_cast<std::int32_t>(std::upper_bound(from, to, limit) - prefix_.begin()) - 1;
  return std::max(end, first + 1);
}

/// Returns the smallest first < end with sum(first, end) ≤ bound.
std::int32_t Splitter::reach_back(std::int32_t end, std::int64_t bound) const {
  const std::int64_t limit = prefix_[static_cast<std::size_t>(end)] - bound;
  const auto first = static_cast<std::int32_t>(std::lower_bound(prefix_.begin(), prefix_.begin() + end, limit) - prefix_.begin());
  return std::min(first, end - 1);
}

Splitter::Fill Splitter::fill(std::int32_t chunks, std::int64_t bound) const {
  Fill result;
  result.next = prefix_.back();
  std::int32_t first = 0;
  for (std::int32_t c = 0; c < chunks && first < size(); ++c) {
    const std::int32_t end = reach(first, bound);
    result.largest = std::max(result.largest, sum(first, end));
    if (end < size()) result.next = std::min(result.next, sum(first, end + 1));
    first = end;
  }
  result.fits = first == size();
  return result;
}

std::int64_t Splitter::smallest_bound(std::int32_t chunks) const {
  std::int64_t low = std::max(largest_weight_, ceil_div(prefix_.back(), chunks));
  const Fill generous = fill(chunks, prefix_.back() / chunks + largest_weight_);  // always fits
  ESPALIER_CHECK(generous.fits);
  std::int64_t high = std::max(low, generous.largest);
  while (low < high) {
    const Fill probe = fill(chunks, low + (high - low) / 2);
    if (probe.fits) {
      high = std::max(low, probe.largest);
    } else {
      low = probe.next;
    }
  }
  return high;
}

std::vector<std::int32_t> Splitter::split(std::int32_t chunks) const {
  ESPALIER_CHECK(chunks >= 1 && chunks <= size());
  const std::int64_t bound = smallest_bound(chunks);
  // earliest[j] is the first index at which boundary j may lie so that the chunks after it still cover the rest.
  std::vector<std::int32_t> earliest(static_cast<std::size_t>(chunks), 0);
  std::int32_t end = size();
  for (std::int32_t j = chunks - 1; j >= 1; --j) {
    end = end > 0 ? reach_back(end, bound) : 0;
    earliest[static_cast<std::size_t>(j)] = end;
  }
  std::vector<std::int32_t> firsts(static_cast<std::size_t>(chunks), 0);
  for (std::int32_t j = 1; j < chunks; ++j) {
    const std::int32_t previous = firsts[static_cast<std::size_t>(j - 1)];
    const std::int32_t low = std::max(previous + 1, earliest[static_cast<std::size_t>(j)]);
    const std::int32_t high = std::min(reach(previous, bound), size() - (chunks - j));
    ESPALIER_CHECK(low <= high);
    // The boundary nearest to the quantile total·j/chunks is found with integers.
    const Wide target = static_cast<Wide>(prefix_.back()) * j;
    const auto distance = [&](std::int32_t i) {
      const Wide d = static_cast<Wide>(prefix_[static_cast<std::size_t>(i)]) * chunks - target;
      return d < 0 ? -d : d;
    };
    std::int32_t above = low;
    std::int32_t count = high - low + 1;
    while (count > 0) {  // first index in [low, high] at or beyond the target
      const std::int32_t half = count / 2;
      if (static_cast<Wide>(prefix_[static_cast<std::size_t>(above + half)]) * chunks < target) {
        above += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    std::int32_t best = std::min(above, high);
    if (best > low && distance(best - 1) <= distance(best)) --best;
    firsts[static_cast<std::size_t>(j)] = best;
  }
  return firsts;
}

std::vector<std::int32_t> balanced_split(const std::vector<double>& weights, std::int32_t chunks) {
  return Splitter(weights).split(chunks);
}

std::vector<double> split_weights(const Model& model, const Sequence& sequence) {
  std::vector<double> by_kind;
  by_kind.reserve(model.kinds.size());
  for (const LayerKind& kind : model.kinds) by_kind.push_back(forward_flops(kind, sequence, /*causal_half=*/true).count());
  std::vector<double> weights;
  weights.reserve(model.layers.size());
  for (const std::int32_t kind : model.layers) weights.push_back(by_kind[static_cast<std::size_t>(kind)]);
  return weights;
}

namespace {

/// Splits `layers` into `chunks` equal numbers, the remainder to the first chunks.
std::vector<std::int32_t> even_counts(std::int32_t layers, std::int32_t chunks) {
  std::vector<std::int32_t> firsts;
  std::int32_t first = 0;
  for (std::int32_t c = 0; c < chunks; ++c) {
    firsts.push_back(first);
    first += layers / chunks + (c < layers % chunks ? 1 : 0);
  }
  return firsts;
}

}  // namespace

std::vector<std::int32_t> even_blocks_split(const Model& model, std::int32_t chunks) {
  const auto layers = static_cast<std::int32_t>(model.layers.size());
  ESPALIER_CHECK(chunks >= 1 && chunks <= layers);
  std::vector<std::int32_t> blocks;  // indices of the blocks
  for (std::int32_t i = 0; i < layers; ++i) {
    if (model.layer(static_cast<std::size_t>(i)).role == LayerRole::block) blocks.push_back(i);
  }
  const auto count = static_cast<std::int32_t>(blocks.size());
  const bool ends_count = count % chunks != 0 && layers == count + 2 && layers % chunks == 0;
  if (count < chunks || ends_count) return even_counts(layers, chunks);
  std::vector<std::int32_t> firsts = even_counts(count, chunks);
  for (std::size_t c = 1; c < firsts.size(); ++c) {
    firsts[c] = blocks[static_cast<std::size_t>(firsts[c] - 1)] + 1;  // after the last block of the previous chunk
  }
  return firsts;
}

namespace {

/// Counts the matrix elements of a layer, with K and V as wide as Q; the token table costs nothing.
double matrix_elements(const LayerKind& kind) {
  double sum = 0;
  for (const Operator& op : kind.operators) {
    if (op.kind == OperatorKind::linear || op.kind == OperatorKind::expert_linear)
      sum += static_cast<double>(op.in) * static_cast<double>(op.out);
    if (op.kind == OperatorKind::attention)
      sum += static_cast<double>(kind.hidden) * (op.heads - op.kv_heads) * (op.qk_dim + op.v_dim);
  }
  return sum;
}

}  // namespace

std::vector<std::int32_t> cumulative_split(const Model& model, std::int32_t chunks) {
  const auto layers = static_cast<std::int32_t>(model.layers.size());
  ESPALIER_CHECK(chunks >= 1 && chunks <= layers);
  std::vector<double> by_kind;
  for (const LayerKind& kind : model.kinds) by_kind.push_back(matrix_elements(kind));
  const auto weight = [&](std::int32_t i) {
    return by_kind[static_cast<std::size_t>(model.layers[static_cast<std::size_t>(i)])];
  };
  double total = 0, passed = 0;
  for (std::int32_t i = 0; i < layers; ++i) total += weight(i);
  std::vector<std::int32_t> firsts = {0};
  for (std::int32_t i = 0; i + 1 < layers && static_cast<std::int32_t>(firsts.size()) < chunks; ++i) {
    const auto chunk = static_cast<std::int32_t>(firsts.size());
    passed += weight(i);
    const bool full = passed >= total * chunk / chunks, needed = layers - (i + 1) == chunks - chunk;
    if (full || needed) firsts.push_back(i + 1);
  }
  return firsts;
}

std::vector<std::int32_t> split_layers(const Model& model, const Sequence& sequence, SplitPolicy policy, std::int32_t chunks) {
  if (policy == SplitPolicy::even_blocks) return even_blocks_split(model, chunks);
  if (policy == SplitPolicy::cumulative) return cumulative_split(model, chunks);
  return balanced_split(split_weights(model, sequence), chunks);
}

std::int32_t largest_chunk_blocks(const Model& model, const std::vector<std::int32_t>& firsts) {
  std::int32_t largest = 0;
  for (std::size_t c = 0; c < firsts.size(); ++c) {
    const std::size_t end = c + 1 < firsts.size() ? static_cast<std::size_t>(firsts[c + 1]) : model.layers.size();
    std::int32_t blocks = 0;
    for (auto i = static_cast<std::size_t>(firsts[c]); i < end; ++i) blocks += model.layer(i).role == LayerRole::block ? 1 : 0;
    largest = std::max(largest, blocks);
  }
  return largest;
}

}  // namespace espalier
