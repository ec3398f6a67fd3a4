// SPDX-License-Identifier: Apache-2.0
#include "job/words.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/format.h"

namespace espalier::job {
namespace {

std::string folded(std::string_view word) {
  std::string out;
  for (const char c : word) {
    if (c == '-' || c == '_' || c == ' ' || c == '.') continue;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out.starts_with("torch") ? out.substr(5) : out;
}

constexpr std::array kPrecisionWords = std::to_array<std::pair<std::string_view, Precision>>({
    {"bfloat16", Precision::bf16},
    {"bf16mixed", Precision::bf16},
    {"float16", Precision::fp16},
    {"half", Precision::fp16},
    {"fp16mixed", Precision::fp16},
    {"float32", Precision::fp32},
    {"float", Precision::fp32},
    {"single", Precision::fp32},
    {"tensorfloat32", Precision::tf32},
    {"float8", Precision::fp8},
    {"fp8e4m3", Precision::fp8},
    {"fp8hybrid", Precision::fp8},
});

constexpr std::array kAdamWords = std::to_array<std::string_view>(
    {"adam", "adamw", "fusedadam", "fusedadamw", "adamwtorch", "adamwtorchfused", "adamfused", "adamwfused"});

/// Lists optimizers that keep other states than Adam.
constexpr std::array kOtherStates =
    std::to_array<std::string_view>({"adafactor", "adagrad", "adam8bit", "adamw8bit", "adamwbnb8bit", "pagedadamw8bit", "lion",
                                     "lamb", "muon", "sophia", "shampoo", "soap"});

constexpr std::size_t kLongestWord = 40;

std::string shortened(const base::Node& node) {
  return node.kind == base::NodeKind::string ? "\"" + node.text.substr(0, kLongestWord) + "\""
                                             : base::to_json(node).substr(0, kLongestWord);
}

}  // namespace

std::optional<Precision> precision_of_word(std::string_view word) {
  if (word.size() > kLongestWord) return std::nullopt;
  const std::string wanted = folded(word);
  for (int i = 0; i < kPrecisions; ++i) {
    if (to_string(static_cast<Precision>(i)) == wanted) return static_cast<Precision>(i);
  }
  const auto found =
      std::find_if(kPrecisionWords.begin(), kPrecisionWords.end(), [&](const auto& w) { return w.first == wanted; });
  return found == kPrecisionWords.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Optimizer> optimizer_of_word(std::string_view word) {
  if (word.size() > kLongestWord) return std::nullopt;
  const std::string wanted = folded(word);
  if (std::find(kAdamWords.begin(), kAdamWords.end(), wanted) != kAdamWords.end()) return Optimizer::adam;
  return wanted == to_string(Optimizer::sgd) ? std::optional(Optimizer::sgd) : std::nullopt;
}

Precision read_precision(base::Reader& training) {
  if (!training.has("precision")) return Precision::bf16;
  const base::Node& node = *training.find("precision");
  const auto understood = node.kind == base::NodeKind::string ? precision_of_word(node.text) : std::nullopt;
  if (understood) return *understood;
  std::vector<std::string> words;
  for (int i = 0; i < kPrecisions; ++i) words.emplace_back(to_string(static_cast<Precision>(i)));
  const auto close = node.kind == base::NodeKind::string ? base::did_you_mean(node.text, words) : std::nullopt;
  training.fail("precision", shortened(node), "one of " + base::joined(words),
                close ? "did you mean \"" + *close + "\"?"
                      : "bf16 is usual; fp8, mxfp8 and nvfp4 are the types of GEMMs, with bf16 for the rest");
  return Precision::bf16;
}

Optimizer read_optimizer(base::Reader& training) {
  if (!training.has("optimizer")) return Optimizer::adam;
  const base::Node& node = *training.find("optimizer");
  const bool word = node.kind == base::NodeKind::string;
  if (const auto understood = word ? optimizer_of_word(node.text) : std::nullopt) return *understood;
  const auto close = word ? base::did_you_mean(node.text, {"adam", "adamw", "sgd"}) : std::nullopt;
  const bool other = word && std::find(kOtherStates.begin(), kOtherStates.end(), folded(node.text)) != kOtherStates.end();
  training.fail("optimizer", shortened(node), "adam (AdamW is equivalent for a plan) or sgd",
                other   ? "its states differ in size from Adam's two moments, and are not modelled"
                : close ? "did you mean \"" + *close + "\"?"
                        : "choose one of these words");
  return Optimizer::adam;
}

}  // namespace espalier::job
