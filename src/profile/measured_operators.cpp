// SPDX-License-Identifier: Apache-2.0
#include "profile/measured_operators.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/invariant.h"

namespace espalier::profile {
namespace {

constexpr std::int64_t kMost = 1'000'000'000;

/// Lists the names in the order of OperatorPart.
constexpr std::array<std::string_view, 4> kAttentionParts = {"whole", "scores", "softmax", "values"};

constexpr double OperatorTime::*kParts[] = {&OperatorTime::forward, &OperatorTime::input, &OperatorTime::weight};

OperatorTime between(std::int64_t at0, const OperatorTime& a, std::int64_t at1, const OperatorTime& b, double tokens) {
  const double share = (tokens - static_cast<double>(at0)) / static_cast<double>(at1 - at0);
  const auto line = [share](double from, double to) { return std::max(0.0, from + share * (to - from)); };
  return {line(a.forward, b.forward), line(a.input, b.input), line(a.weight, b.weight)};
}

}  // namespace

void MeasuredOperators::add(const MeasuredTime& row) {
  ESPALIER_CHECK(row.work.tokens >= 1);
  tables_[row.work.shape][row.work.tokens] = row.time;
}

bool MeasuredOperators::covers(const MeasuredShape& shape) const {
  if (shape.kind == OperatorKind::dropout) return true;
  const auto table = tables_.find(shape);
  return table != tables_.end() && table->second.size() >= 2;
}

OperatorTime MeasuredOperators::at(const MeasuredShape& shape, double tokens) const {
  if (shape.kind == OperatorKind::dropout) return {};
  ESPALIER_CHECK(covers(shape));
  const auto& table = tables_.find(shape)->second;
  auto above =
      std::find_if(table.begin(), table.end(), [&](const auto& row) { return static_cast<double>(row.first) >= tokens; });
  if (above == table.end()) --above;
  if (above == table.begin()) ++above;
  const auto below = std::prev(above);
  OperatorTime time = between(below->first, below->second, above->first, above->second, tokens);
  if (tokens >= static_cast<double>(below->first)) return time;
  const double share = tokens / static_cast<double>(below->first);
  for (double OperatorTime::*part : kParts) time.*part = std::max(time.*part, share * below->second.*part);
  return time;
}

double MeasuredOperators::least_per_token(const MeasuredShape& shape) const {
  if (shape.kind == OperatorKind::dropout) return 0;
  ESPALIER_CHECK(covers(shape));
  const auto& table = tables_.find(shape)->second;
  const auto last = std::prev(table.end()), before = std::prev(last);
  double sum = 0;
  for (double OperatorTime::*part : kParts) {
    // Along each line, the time per token is least at one end. Beyond the last count it approaches the slope.
    double least = std::max(0.0, (last->second.*part - before->second.*part) / static_cast<double>(last->first - before->first));
    for (const auto& [tokens, time] : table) least = std::min(least, time.*part / static_cast<double>(tokens));
    sum += least;
  }
  return sum;
}

std::vector<MeasuredTime> MeasuredOperators::rows() const {
  std::vector<MeasuredTime> out;
  for (const auto& [shape, table] : tables_)
    for (const auto& [tokens, time] : table) out.push_back({{shape, tokens}, time});
  return out;
}

std::optional<MeasuredShape> not_covered(const MeasuredOperators& measured, const Model& model, const Strategy& strategy,
                                         std::int64_t sequence) {
  for (const LayerKind& kind : model.kinds) {
    // cost/partition_cost.h looks these up tile by tile.
    if (!strategy.partition.empty() && kind.role == LayerRole::block) continue;
    for (const Operator& op : kind.operators) {
      const MeasuredShape shape = work_on_rank(kind, op, strategy, model.vocabulary, sequence, 1).shape;
      if (!measured.covers(shape)) return shape;
    }
  }
  return std::nullopt;
}

void write_row(base::JsonWriter& json, const MeasuredTime& row) {
  const MeasuredShape& s = row.work.shape;
  json.compact_next().begin_object().key("kind").value(name_of(s.kind));
  if (s.kind == OperatorKind::attention) {
    json.key("heads")
        .value(s.heads)
        .key("kv_heads")
        .value(s.kv_heads)
        .key("head_dim")
        .value(s.head_dim)
        .key("keys")
        .value(s.keys);
    if (s.window > 0) json.key("window").value(s.window);
    if (s.ring > 1) json.key("ring").value(s.ring);
    if (s.part != OperatorPart::whole) json.key("part").value(kAttentionParts[static_cast<std::size_t>(s.part)]);
  } else {
    json.key("in").value(s.in).key("out").value(s.out);
  }
  json.key("tokens").value(row.work.tokens).key("forward_s").value(row.time.forward);
  json.key("input_s").value(row.time.input).key("weight_s").value(row.time.weight).end_object();
}

MeasuredTime read_row(base::Reader& r) {
  MeasuredTime row;
  MeasuredShape& s = row.work.shape;
  s.kind = static_cast<OperatorKind>(r.optional_choice("kind", {kind_names().begin(), kind_names().end()}, 0));
  if (!r.has("kind")) r.fail("kind", "nothing", "the kind of the operator, such as \"linear\"");
  if (s.kind == OperatorKind::attention) {
    constexpr std::int64_t kHeads = 1'000'000;
    s.heads = static_cast<std::int32_t>(r.required_int("heads", 1, kHeads));
    s.kv_heads = static_cast<std::int32_t>(r.required_int("kv_heads", 1, kHeads));
    s.head_dim = static_cast<std::int32_t>(r.required_int("head_dim", 1, kHeads));
    s.keys = r.required_int("keys", 1, kMost);
    s.window = r.optional_int("window", 0, kMost, 0);
    s.ring = static_cast<std::int32_t>(r.optional_int("ring", 1, kHeads, 1));
    s.part = static_cast<OperatorPart>(r.optional_choice("part", {kAttentionParts.begin(), kAttentionParts.end()}, 0));
  } else {
    s.in = r.required_int("in", 0, kMost);
    s.out = r.required_int("out", 0, kMost);
  }
  row.work.tokens = r.required_int("tokens", 1, kMost);
  constexpr double kLongest = 1e6;
  row.time.forward = r.required_real("forward_s", 0, kLongest);
  row.time.input = r.required_real("input_s", 0, kLongest);
  row.time.weight = r.required_real("weight_s", 0, kLongest);
  r.finish();
  return row;
}

}  // namespace espalier::profile
