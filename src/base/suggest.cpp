// SPDX-License-Identifier: Apache-2.0
// Implements "did you mean": the candidate at the smallest edit distance, ignoring case and '-' against '_'.
// Insertions, deletions, substitutions and swaps of neighbours count 1 (the "optimal string alignment" distance). The
// first candidate wins a tie. Words that other tools use for the same thing take precedence: "seq_len" is far from
// "sequence_length" and means the same.
#include <algorithm>
#include <array>
#include <utility>

#include "base/document.h"
#include "base/text.h"

namespace espalier::base {
namespace {

constexpr std::size_t kLongestWord = 64;  // a hostile key must not cost quadratic time

std::string folded(std::string_view word) {
  std::string out(word);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return out;
}

/// Maps names of other tools to ours; the left side is in lower case with '_'.
constexpr std::array kSynonyms = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"num_nodes", "nodes"},
    {"nnodes", "nodes"},
    {"n_nodes", "nodes"},
    {"gpus", "devices_per_node"},
    {"num_gpus", "devices_per_node"},
    {"num_gpus_per_node", "devices_per_node"},
    {"nproc_per_node", "devices_per_node"},
    {"gpu", "device"},
    {"gpu_type", "device"},
    {"accelerator", "device"},
    {"seq", "sequence_length"},
    {"seqlen", "sequence_length"},
    {"seq_len", "sequence_length"},
    {"seq_length", "sequence_length"},
    {"max_seq_len", "sequence_length"},
    {"max_seq_length", "sequence_length"},
    {"context_length", "sequence_length"},
    {"batch", "global_batch"},
    {"batch_size", "global_batch"},
    {"gbs", "global_batch"},
    {"global_batch_size", "global_batch"},
    {"train_batch_size", "global_batch"},
    {"dtype", "precision"},
    {"torch_dtype", "precision"},
    {"optim", "optimizer"},
    {"framework", "engine"},
    {"backend", "engine"},
    {"strategy", "search"},
    {"parallelism", "search"},
    {"hardware", "cluster"},
    {"tensor_parallel", "tp"},
    {"tensor_parallel_size", "tp"},
    {"tensor_model_parallel_size", "tp"},
    {"pipeline_parallel", "pp"},
    {"pipeline_parallel_size", "pp"},
    {"pipeline_model_parallel_size", "pp"},
    {"data_parallel", "dp"},
    {"data_parallel_size", "dp"},
    {"context_parallel_size", "cp"},
    {"expert_parallel_size", "ep"},
    {"expert_model_parallel_size", "ep"},
    {"virtual_stages", "vpp"},
    {"virtual_pipeline_stages", "vpp"},
    {"sequence_parallel", "sp"},
    {"mbs", "micro_batch"},
    {"micro_batch_size", "micro_batch"},
    {"zero_stage", "zero"},
    {"activation_checkpointing", "recompute"},
    {"gradient_checkpointing", "recompute"},
});

/// Returns whether one of two folded words is another tool's name for the other.
bool synonyms(const std::string& a, const std::string& b) {
  return std::any_of(kSynonyms.begin(), kSynonyms.end(), [&](const auto& pair) {
    return (pair.first == a && pair.second == b) || (pair.first == b && pair.second == a);
  });
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({substitution, last[j] + 1, current[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) current[j] = std::min(current[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, current);
  }
  return last[b.size()];
}

std::optional<std::string> did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > kLongestWord) return std::nullopt;
  const std::string wanted = folded(word);
  for (const std::string& candidate : candidates) {
    if (candidate.size() <= kLongestWord && synonyms(wanted, folded(candidate))) return candidate;
  }
  std::optional<std::string> best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongestWord) continue;
    const std::size_t distance = edit_distance(wanted, folded(candidate));
    // A short word may have one mistake, and a long word one for every three letters, but never one in every letter.
    const std::size_t allowed = std::max<std::size_t>(1, std::max(word.size(), candidate.size()) / 3);
    if (distance > allowed || distance >= std::max(word.size(), candidate.size())) continue;
    if (!best || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string wanted = folded(word.substr(0, kLongestWord));
  std::vector<std::string> begin;
  for (const std::string& candidate : candidates) {
    if (!wanted.empty() && folded(candidate).starts_with(wanted)) begin.push_back('"' + candidate + '"');
  }
  if (!begin.empty()) return "did you mean " + listed(begin) + "?";
  const auto close = did_you_mean(word, candidates);
  return close ? "did you mean \"" + *close + "\"?" : "";
}

}  // namespace espalier::base
