// SPDX-License-Identifier: Apache-2.0
#include "plan/operator_partition.h"

#include <algorithm>
#include <bit>

#include "base/format.h"

namespace espalier {
namespace {

constexpr std::string_view kLetters = "BMNKHLR";
constexpr std::size_t kMaxOperators = 64;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Error unreadable(std::string_view found, std::string expected) {
  return Error{ErrorKind::bad_input, "partition", cat("\"", found.substr(0, 60), "\""), std::move(expected),
               "\"attn.qkv K,P2; attn.core H,H\" or {\"attn.qkv\": \"K,P2\", \"attn.core\": \"H,H\"}"};
}

}  // namespace

std::string to_string(const std::vector<OperatorPartition>& partition) {
  std::string text;
  for (const OperatorPartition& p : partition)
    text += cat(text.empty() ? "" : "; ", p.name, " ", partition::to_string(p.sequence));
  return text;
}

Result<std::vector<OperatorPartition>> parse_operator_partition(std::string_view text) {
  std::vector<OperatorPartition> all;
  while (!text.empty()) {
    const std::size_t end = text.find(';');
    const std::string_view one = trimmed(text.substr(0, end));
    const std::size_t space = one.find(' ');
    if (space == std::string_view::npos || all.size() == kMaxOperators) return unreadable(one, "an operator and its sequence");
    auto sequence = partition::parse_sequence(trimmed(one.substr(space)), kLetters, true);
    if (!sequence) return sequence.error();
    OperatorPartition p{std::string(one.substr(0, space)), *sequence};
    if (std::any_of(all.begin(), all.end(), [&](const OperatorPartition& other) { return other.name == p.name; }))
      return unreadable(one, "each operator once");
    all.push_back(std::move(p));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  if (all.empty()) return unreadable(text, "at least one operator");
  return all;
}

namespace {

/// Returns the sequence of the last operator without trailing R; "" if nothing remains.
std::string boundary_of(std::string_view text) {
  const std::size_t space = text.rfind(' ');
  if (space == std::string_view::npos) return "";
  std::string last(text.substr(space + 1));
  while (last.ends_with(",R")) last.resize(last.size() - 2);
  return last == "R" || last == "-" ? "" : last;
}

}  // namespace

struct BlockPartition::Parsed {
  std::string text, boundary;
  Result<std::vector<OperatorPartition>> operators;
};

BlockPartition::BlockPartition(std::string_view text) {
  if (text.empty()) return;
  parsed_ = std::make_shared<const Parsed>(Parsed{std::string(text), boundary_of(text), parse_operator_partition(text)});
}

const std::string& BlockPartition::text() const {
  static const std::string kNone;
  return parsed_ != nullptr ? parsed_->text : kNone;
}

const std::string& BlockPartition::boundary() const {
  static const std::string kNone;
  return parsed_ != nullptr ? parsed_->boundary : kNone;
}

const Result<std::vector<OperatorPartition>>& BlockPartition::operators() const {
  static const Result<std::vector<OperatorPartition>> kNone = parse_operator_partition("");
  return parsed_ != nullptr ? parsed_->operators : kNone;
}

std::string partition_fault(const Strategy& s) {
  if (s.partition.empty()) return "";
  if (s.tp < 2 || !std::has_single_bit(static_cast<std::uint32_t>(s.tp)) || s.tp > 1 << partition::kMaxBits)
    return cat("operators can be partitioned over 2, 4, 8 … 1024 devices, not tp ", s.tp);
  if (s.sp != SequenceParallel::none || s.cp != 1 || s.ep != 1 || s.etp != 1)
    return "a partition of operators determines its whole group: it needs sp none, cp 1, ep 1, etp 1";
  if (s.recompute.kind == RecomputeKind::selective) return "partitioned blocks are recomputed in full or not at all";
  if (s.overlap.tp) return "overlap_tp has no meaning under a partition of operators";
  const auto& parsed = s.partition.operators();
  if (!parsed) return cat(parsed.error().found, " is not a partition of operators");
  if (to_string(*parsed) != s.partition.text()) return "the partition is not in canonical form";
  const int bits = std::bit_width(static_cast<std::uint32_t>(s.tp)) - 1;
  for (const OperatorPartition& p : *parsed)
    if (p.sequence.bits() != bits)
      return cat(p.name, " ", partition::to_string(p.sequence), " cuts by ", p.sequence.bits(), " bits, tp ", s.tp, " has ",
                 bits);
  return "";
}

}  // namespace espalier
