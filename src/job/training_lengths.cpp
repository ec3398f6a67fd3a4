// SPDX-License-Identifier: Apache-2.0
#include "job/training_lengths.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/format.h"
#include "base/text.h"
#include "job/input_files.h"
#include "plan/training_parts.h"

namespace espalier::job {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 22, kMostBins = 1 << 16, kShown = 40;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;

/// Reads "512<tab or space>3.5"; nothing for any other line.
std::optional<LengthShare> share_of_line(std::string_view line) {
  LengthShare share;
  const char* const end = line.data() + line.size();
  const auto [after, error] = std::from_chars(line.data(), end, share.tokens);
  if (error != std::errc() || after == end || (*after != '\t' && *after != ' ')) return std::nullopt;
  const char* at = after;
  while (at != end && (*at == '\t' || *at == ' ')) ++at;
  const auto [rest, second] = std::from_chars(at, end, share.weight);
  if (second != std::errc() || rest != end || share.tokens < 1 || share.tokens > kMostTokens) return std::nullopt;
  if (!(share.weight > 0) || share.weight > 1e15) return std::nullopt;
  return share;
}

void read_file_of(base::Reader& lengths, const std::string& name, const std::string& base_directory,
                  std::vector<LengthShare>& out) {
  const auto path = find_input_file(name, "histogram", base_directory, lengths.where(*lengths.find("histogram"), "histogram"));
  if (!path) {
    lengths.fail("histogram", path.error().found, path.error().expected, path.error().hint);
    return;
  }
  const auto text = base::read_file(*path);
  if (!text) {
    lengths.fail("histogram", text.error().found, text.error().expected, text.error().hint);
    return;
  }
  auto table = read_length_table(*text, *path);
  if (table)
    out = std::move(*table);
  else
    lengths.fail("histogram", cat(table.error().found, " in ", table.error().where), table.error().expected, table.error().hint);
}

/// Cuts sequences that are longer than a sample.
void cut(std::vector<LengthShare>& histogram, std::int64_t longest) {
  double beyond = 0;
  while (!histogram.empty() && histogram.back().tokens > longest) {
    beyond += histogram.back().weight;
    histogram.pop_back();
  }
  if (beyond <= 0) return;
  if (!histogram.empty() && histogram.back().tokens == longest)
    histogram.back().weight += beyond;
  else
    histogram.push_back({longest, beyond});
}

}  // namespace

Result<std::vector<LengthShare>> read_length_table(std::string_view text, const std::string& where) {
  std::vector<LengthShare> out;
  std::size_t number = 0;
  const auto refuse = [&](const std::string& found) {
    return Error{ErrorKind::bad_input, cat(where, ":", number), found,
                 "two columns, tokens (1 to 2^31, ascending) and weight (above 0); # starts a comment",
                 cat("at most ", kMostBins, " lengths; 512 3.5 means that sequences of 512 tokens have weight 3.5")};
  };
  if (text.size() > kMostBytes) return refuse(cat(text.size(), " bytes"));
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const auto share = share_of_line(line);
    if (!share) return refuse(base::in_quotes(line.substr(0, kShown)));
    if (!out.empty() && out.back().tokens >= share->tokens)
      return refuse(cat(share->tokens, " tokens after ", out.back().tokens));
    if (out.size() == kMostBins) return refuse(cat("more than ", kMostBins, " lengths"));
    out.push_back(*share);
  }
  if (out.empty()) return refuse("no lengths");
  return out;
}

Lengths read_lengths(base::Reader& training, const Model& model, const Sequence& sequence, const std::string& base_directory) {
  Lengths out;
  if (!training.has("lengths")) return out;
  base::Reader lengths = training.child("lengths", true);
  const Node* node = lengths.find("histogram");
  if (node != nullptr && node->kind == NodeKind::string)
    read_file_of(lengths, node->text, base_directory, out.histogram);
  else if (node != nullptr)
    out.histogram = read_histogram(lengths, "histogram", *node);
  else
    lengths.fail("histogram", "nothing", "a file, or pairs of tokens and weight such as [[512, 3], [2048, 1]]");
  out.packing = read_packing(lengths);
  lengths.finish();
  if (model.vision || sequence.encoder > 0)
    training.fail("lengths", "lengths of sequences", "one text sequence", model.family + " has none, or two");
  if (sequence.main > 0) cut(out.histogram, sequence.main);
  return out;
}

}  // namespace espalier::job
