// SPDX-License-Identifier: Apache-2.0
// Defines the initial parameters and the tokens of samples as functions of their position in the model and in the
// data, never of the plan. A rank computes the ones that it holds; two plans train the same model on the same data.
//
// Parameter j of a layer is numbered as in plan/ownership.h. Norm scales are 1, biases and shifts 0. All others are
// normal with deviation 0.02, or 0.02 / √(2·blocks) where they write into the residual stream (Radford et al. 2019).
// The normal value is a function of (seed, layer, j) alone: SplitMix64 of the three, twice, then Box and Muller.
//
// Synthetic tokens: position p of sample n is drawn from a chain in which a token has four likely followers. The
// model can thus learn something, and the loss falls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "espalier/model.h"
#include "espalier/result.h"
#include "storage/tokens.h"

namespace espalier::runtime {

/// Returns a uniform 64-bit word from three inputs.
std::uint64_t counter_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

/// Returns the initial value of element `index` of an operator's own parameters. `element` is its number in the
/// layer.
float initial_value(const Model& model, std::int32_t layer, const Operator& op, std::int64_t index, std::int64_t element,
                    std::uint64_t seed);

/// Provides the tokens of samples, synthetic or from a file (storage/tokens.h). From a file, sample n of length S
/// takes tokens [n·S, n·S + S] of the stream, which repeats at its end.
class TokenSource {
 public:
  static TokenSource synthetic(std::int64_t vocabulary, std::uint64_t seed);
  static Result<TokenSource> of_file(const std::string& path, std::int64_t vocabulary);
  /// Returns tokens first … first + count of a sample.
  [[nodiscard]] std::vector<std::int64_t> tokens(std::int64_t sample, std::int64_t sequence, std::int64_t first,
                                                 std::int64_t count) const;

 private:
  std::int64_t vocabulary_ = 1;
  std::uint64_t seed_ = 0;
  std::optional<storage::TokenFile> file_;
};

}  // namespace espalier::runtime
