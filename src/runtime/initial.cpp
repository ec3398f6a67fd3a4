// SPDX-License-Identifier: Apache-2.0
#include "runtime/initial.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace espalier::runtime {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Maps a word to a number in (0, 1].
double unit(std::uint64_t word) { return (static_cast<double>(word >> 11) + 1) * 0x1p-53; }

float normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const double radius = std::sqrt(-2 * std::log(unit(counter_word(seed, stream, 2 * index))));
  return static_cast<float>(radius * std::cos(2 * std::numbers::pi * unit(counter_word(seed, stream, 2 * index + 1))));
}

/// Biases and shifts begin at 0, scales at 1.
bool is_bias(const Operator& op, std::int64_t index) {
  if (op.kind == OperatorKind::norm) return index >= op.in;
  if (op.kind != OperatorKind::linear) return false;
  if (op.split == TpSplit::row) return index < op.parameters_unsplit;
  const std::int64_t width = op.parameters / op.out;  // elements per output: its weights, then its bias
  return width > op.in && index % width == op.in;
}

}  // namespace

std::uint64_t counter_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return mixed(mixed(mixed(seed) ^ stream) ^ index);
}

float initial_value(const Model& model, std::int32_t layer, const Operator& op, std::int64_t index, std::int64_t element,
                    std::uint64_t seed) {
  if (is_bias(op, index)) return 0;
  if (op.kind == OperatorKind::norm) return 1;
  const bool residual = (op.kind == OperatorKind::linear || op.kind == OperatorKind::expert_linear) && op.split == TpSplit::row;
  const double blocks = static_cast<double>(std::max<std::int64_t>(1, model.blocks()));
  const double deviation = residual ? 0.02 / std::sqrt(2 * blocks) : 0.02;
  return static_cast<float>(
      deviation * static_cast<double>(normal(seed, static_cast<std::uint64_t>(layer), static_cast<std::uint64_t>(element))));
}

TokenSource TokenSource::synthetic(std::int64_t vocabulary, std::uint64_t seed) {
  TokenSource source;
  source.vocabulary_ = vocabulary;
  source.seed_ = seed;
  return source;
}

Result<TokenSource> TokenSource::of_file(const std::string& path, std::int64_t vocabulary) {
  auto file = storage::TokenFile::open(path, vocabulary);
  if (!file) return file.error();
  TokenSource source;
  source.vocabulary_ = vocabulary;
  source.file_ = std::move(*file);
  return source;
}

std::vector<std::int64_t> TokenSource::tokens(std::int64_t sample, std::int64_t sequence, std::int64_t first,
                                              std::int64_t count) const {
  std::vector<std::int64_t> out;
  out.reserve(static_cast<std::size_t>(count));
  if (file_) {
    for (std::int64_t p = first; p < first + count; ++p) out.push_back((*file_)[(sample * sequence + p) % file_->size()]);
    return out;
  }
  const auto vocabulary = static_cast<std::uint64_t>(vocabulary_);
  std::uint64_t token = counter_word(seed_, static_cast<std::uint64_t>(sample), 0) % vocabulary;
  for (std::int64_t p = 0; p < first + count; ++p) {
    if (p >= first) out.push_back(static_cast<std::int64_t>(token));
    const std::uint64_t choice = counter_word(seed_ + 1, static_cast<std::uint64_t>(sample), static_cast<std::uint64_t>(p)) % 4;
    token = counter_word(seed_ + 2, token, choice) % vocabulary;
  }
  return out;
}

}  // namespace espalier::runtime
