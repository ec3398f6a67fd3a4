// SPDX-License-Identifier: Apache-2.0
// What a run begins with: the values of parameters and the tokens of samples, as functions of where they stand in the
// model and in the data, never of the plan. A rank computes those it holds; two plans train the same model on the same
// data.
//
// Parameter j of a layer (numbered as plan/ownership.h does): norm scales 1, biases and shifts 0, all others normal
// with deviation 0.02, those that write into the residual stream 0.02 / √(2·blocks) (Radford et al. 2019). The normal
// value is a function of (seed, layer, j) alone:
// SplitMix64 of the three, twice, and Box and Muller.
//
// Synthetic tokens: position p of sample n is drawn from a chain in which a token has four likely followers, so that
// there is something to learn and the loss falls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "espalier/model.h"
#include "espalier/result.h"
#include "storage/tokens.h"

namespace espalier::runtime {

/// Uniform 64-bit word of three.
std::uint64_t counter_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

/// The initial value of element `index` of an operator's own parameters; `element` is its number in the layer.
float initial_value(const Model& model, std::int32_t layer, const Operator& op, std::int64_t index, std::int64_t element,
                    std::uint64_t seed);

/// Tokens of samples: synthetic, or from a file (storage/tokens.h), of whose stream sample n of length S takes tokens
/// [n·S, n·S + S]; the stream begins again at its end.
class TokenSource {
 public:
  static TokenSource synthetic(std::int64_t vocabulary, std::uint64_t seed);
  static Result<TokenSource> of_file(const std::string& path, std::int64_t vocabulary);
  /// Tokens first … first + count of a sample.
  [[nodiscard]] std::vector<std::int64_t> tokens(std::int64_t sample, std::int64_t sequence, std::int64_t first,
                                                 std::int64_t count) const;

 private:
  std::int64_t vocabulary_ = 1;
  std::uint64_t seed_ = 0;
  std::optional<storage::TokenFile> file_;
};

}  // namespace espalier::runtime
