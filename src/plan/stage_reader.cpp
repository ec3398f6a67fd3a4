// SPDX-License-Identifier: Apache-2.0
// Reads the stages of plan.json: devices, layers, strategies and the schedule that they follow (plan_reader.cpp
// reads the rest).
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/document.h"
#include "base/format.h"
#include "espalier/plan.h"
#include "plan/operator_partition.h"
#include "plan/plan_json.h"
#include "plan/read_values.h"
#include "plan/version_1.h"

namespace espalier {
namespace {

using namespace plan_detail;

/// Reads a partition as an object or its canonical text; null is none.
std::string read_partition(Reader& s) {
  const Node* node = s.find("partition");
  if (node == nullptr || node->kind == NodeKind::null) return "";
  std::string text;
  if (node->kind == NodeKind::string) {
    text = node->text;
  } else if (node->kind == NodeKind::mapping && !node->members.empty()) {
    for (const auto& [name, sequence] : node->members) {
      if (sequence.kind != NodeKind::string || name.find_first_of(" ;") != std::string::npos) {
        s.fail("partition", cat("\"", name, "\""), "names of operators and a sequence such as \"K,P2\" for each");
        return "";
      }
      text += cat(text.empty() ? "" : "; ", name, " ", sequence.text);
    }
  } else {
    s.fail("partition", std::string(to_string(node->kind)), "an object such as {\"attn.qkv\": \"K,P2\"}, or null");
    return "";
  }
  const auto parsed = parse_operator_partition(text);
  if (!parsed) {
    s.fail("partition", parsed.error().found, parsed.error().expected, parsed.error().hint);
    return "";
  }
  return to_string(*parsed);
}

/// Parses "0-7", "0-56:8" or "5"; ids are below 2^22.
std::optional<DeviceRange> parse_devices(std::string_view text) {
  std::array<std::int64_t, 3> numbers = {0, -1, 1};
  constexpr std::array<char, 2> kMarks = {'-', ':'};
  const char* at = text.data();
  const char* const end = at + text.size();
  std::size_t count = 0;
  while (count < 3) {
    if (at == end || *at < '0' || *at > '9' || (*at == '0' && at + 1 != end && at[1] >= '0' && at[1] <= '9')) return std::nullopt;
    const auto [rest, error] = std::from_chars(at, end, numbers[count]);
    if (error != std::errc() || numbers[count] >= kMaxCount) return std::nullopt;
    at = rest;
    ++count;
    if (at == end || count == 3) break;
    if (*at != kMarks[count - 1]) return std::nullopt;
    ++at;
  }
  if (at != end) return std::nullopt;
  if (count == 1) return DeviceRange{numbers[0], 1, 1};
  const std::int64_t stride = numbers[2];
  const std::int64_t length = numbers[1] - numbers[0];
  // There is one way to write each range: a single device has no dash, stride 1 no colon.
  if (length < 1 || stride < (count == 3 ? 2 : 1) || length % stride != 0) return std::nullopt;
  return DeviceRange{numbers[0], length / stride + 1, stride};
}

void read_devices(Reader& r, std::vector<DeviceRange>& devices) {
  const Node* list = r.find("devices");
  if (list == nullptr || list->kind != NodeKind::sequence || list->items.empty()) {
    r.fail("devices", list == nullptr ? "nothing" : "no list of device ranges", "a list such as [\"0-7\"]");
    return;
  }
  for (const Node& item : list->items) {
    const std::optional<DeviceRange> range = item.kind == NodeKind::string ? parse_devices(item.text) : std::nullopt;
    if (!range) {
      r.fail("devices",
             item.kind == NodeKind::string ? cat("\"", item.text.substr(0, 40), "\"") : std::string(to_string(item.kind)),
             "\"first-last\", \"first-last:stride\" or \"id\", ids below 4194304");
      return;
    }
    devices.push_back(*range);
  }
}

/// Reads the modules of a block; an empty list is none.
RecomputeModules read_modules(Reader& r) {
  RecomputeModules out;
  const Node* list = r.find("modules");
  if (list == nullptr) return out;
  const bool texts = list->kind == NodeKind::sequence &&
                     std::all_of(list->items.begin(), list->items.end(),
                                 [](const Node& item) { return item.kind == NodeKind::string && !item.text.empty(); });
  if (!texts) {
    r.fail("modules",
           list->kind == NodeKind::sequence ? "a list with items that are not names" : std::string(to_string(list->kind)),
           "a list of names of modules such as [\"layernorm\", \"moe_act\"]");
    return out;
  }
  for (const Node& item : list->items) {
    const auto module = parse_recompute_module(item.text);
    if (!module) {
      r.fail("modules", cat("\"", item.text.substr(0, 40), "\""), cat("one of ", listed(RecomputeModules::all())));
      return out;
    }
    out.add(*module);
  }
  return out;
}

/// Reads whole numbers; equal ones are none.
std::vector<std::int64_t> read_shares(Reader& r, std::string_view key) {
  std::vector<std::int64_t> out;
  const Node* list = r.find(key);
  if (list == nullptr) return out;
  const std::string expected = "a list of whole numbers from 0 to 2^40, one per share";
  if (list->kind != NodeKind::sequence || list->items.empty() || list->items.size() > static_cast<std::size_t>(kMaxCount)) {
    r.fail(key, list->kind == NodeKind::sequence ? cat(list->items.size(), " numbers") : std::string(to_string(list->kind)),
           expected);
    return out;
  }
  for (const Node& item : list->items) {
    if (item.kind != NodeKind::integer || item.integer < 0 || item.integer > kMaxTokens) {
      r.fail(key, item.text.empty() ? std::string(to_string(item.kind)) : item.text.substr(0, 40), expected);
      return {};
    }
    out.push_back(item.integer);
  }
  const bool equal = std::all_of(out.begin(), out.end(), [&](std::int64_t v) { return v == out.front(); });
  return equal && out.front() > 0 ? std::vector<std::int64_t>{} : out;
}

}  // namespace

/// Reads a stage. Without `chunk` a range is a chunk of its own, or all ranges form the one chunk of the stage.
Stage read_stage(Reader& r, std::int32_t virtual_stages, PlanSchema schema) {
  Stage stage;
  read_devices(r, stage.devices);
  if (schema == PlanSchema::two) {
    stage.samples_per_replica = read_shares(r, "samples_per_replica");
    stage.state_shares = read_shares(r, "state_shares");
  }
  r.each("layers", true, [&](Reader& item) {
    LayerRange range;
    const auto next = static_cast<std::int64_t>(virtual_stages > 1 ? stage.chunks.size() : 0);
    const std::int64_t chunk = item.optional_int("chunk", 0, 1 << 16, next);
    range.first = read_int32(item, "first", 0, 1 << 16);
    range.last = read_int32(item, "last", 0, 1 << 16);
    range.strategy = read_strategy(item, schema);
    if (chunk > static_cast<std::int64_t>(stage.chunks.size()) || chunk + 1 < static_cast<std::int64_t>(stage.chunks.size()))
      item.fail("chunk", std::to_string(chunk), "the chunk of the previous range, or the next one");
    item.finish();
    if (stage.chunks.empty() || chunk == static_cast<std::int64_t>(stage.chunks.size())) stage.chunks.emplace_back();
    stage.chunks.back().ranges.push_back(std::move(range));
  });
  if (schema == PlanSchema::one) {
    const double share = r.required_real("share", 0.0, 1.0);
    if (r.sink().ok() && share != 1.0)
      r.fail("share", "a share of the samples that is not 1", "1",
             "samples_per_replica of espalier.plan/2 states the samples of each replica");
  }
  r.finish();
  return stage;
}

Schedule read_schedule(Reader& r, bool with_stages) {
  Reader s = r.child("schedule", true);
  Schedule schedule;
  schedule.kind = read_enum(s, "kind", kScheduleKinds);
  schedule.virtual_stages = read_int32(s, "virtual_stages", 1, 1 << 16);
  schedule.microbatches = read_int32(s, "microbatches", 1, kMaxInt32);
  schedule.micro_batch = read_int32(s, "micro_batch", 1, kMaxInt32);
  if (with_stages) schedule.stages = read_int32(s, "stages", 1, 1 << 16);
  s.finish();
  return schedule;
}

Strategy read_strategy(Reader& r, PlanSchema schema) {
  const bool two = schema == PlanSchema::two;
  Reader s = r.child("strategy", true);
  Strategy strategy;
  strategy.tp = read_int32(s, "tp", 1, kMaxCount);
  strategy.sp = read_enum(s, "sp", std::array{SequenceParallel::none, SequenceParallel::megatron, SequenceParallel::ulysses});
  strategy.cp = read_int32(s, "cp", 1, kMaxCount);
  strategy.cp_kind = read_enum(s, "cp_kind", std::array{ContextParallelKind::ring, ContextParallelKind::all_to_all});
  strategy.ep = read_int32(s, "ep", 1, kMaxCount);
  strategy.etp = read_int32(s, "etp", 1, kMaxCount);
  strategy.dp = read_int32(s, "dp", 1, kMaxCount);
  strategy.zero = ZeroStage{read_int32(s, "zero", 0, 3)};
  strategy.shard = read_int32(s, "shard", 1, kMaxCount);
  strategy.order = read_enum(s, "order", std::array{RankOrder::tp_cp_dp_pp, RankOrder::tp_cp_pp_dp, RankOrder::tp_dp_cp_pp});
  Reader recompute = s.child("recompute", true);
  strategy.recompute.kind =
      read_enum(recompute, "kind", std::array{RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full});
  strategy.recompute.layers = read_int32(recompute, "layers", 0, 1 << 16);
  if (two)
    strategy.recompute.modules = read_modules(recompute);
  else if (strategy.recompute.kind == RecomputeKind::selective)
    strategy.recompute.modules = kModulesOfVersion1;
  recompute.finish();
  Reader overlap = s.child("overlap", true);
  strategy.overlap.grad_reduce = read_flag(overlap, "grad_reduce");
  strategy.overlap.param_gather = read_flag(overlap, "param_gather");
  strategy.overlap.p2p = read_flag(overlap, "p2p");
  strategy.overlap.tp = read_flag(overlap, "tp");
  if (two) strategy.overlap.ep = overlap.optional_bool("ep", false);
  overlap.finish();
  if (two && s.has("offload"))
    strategy.offload =
        read_enum(s, "offload",
                  std::array{Offload::none, Offload::optimizer, Offload::activations, Offload::optimizer_activations,
                             Offload::parameters, Offload::parameters_activations});
  strategy.partition = BlockPartition(read_partition(s));
  s.finish();
  return strategy;
}

}  // namespace espalier
