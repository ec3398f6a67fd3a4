// SPDX-License-Identifier: Apache-2.0
// Reads and writes dimensions with one switch each; names, canonical text and comparison follow from the list.
#include "plan/dimension.h"

#include <array>
#include <cstdio>

#include "base/invariant.h"

namespace espalier {
namespace {

constexpr std::array<std::string_view, kDimensions> kDimensionNames = {
    "pp",          "vpp",         "schedule", "tp",    "sp",    "cp",        "cp_kind",          "ep",           "etp",
    "dp",          "micro_batch", "zero",     "shard", "order", "recompute", "recompute_layers", "overlap_grad", "overlap_param",
    "overlap_p2p", "overlap_tp",  "offload"};
// These are the short forms for canonical text and its widths: 1 digit for enums and flags, 10 for the micro-batch
// (any int32), 7 for counts (validate() bounds them by 4,194,304 devices and 65,536 layers).
constexpr std::array<std::string_view, kDimensions> kShort = {"pp", "vpp", "sched", "tp", "sp",   "cp",    "kind",
                                                              "ep", "etp", "dp",    "mb", "zero", "shard", "order",
                                                              "rc", "rl",  "og",    "oq", "op",   "ot",    "off"};
constexpr std::array<int, kDimensions> kWidth = {7, 7, 1, 7, 1, 7, 1, 7, 7, 7, 10, 1, 7, 1, 1, 7, 1, 1, 1, 1, 1};

constexpr std::size_t index(Dimension d) { return static_cast<std::size_t>(d); }

}  // namespace

std::string_view to_string(Dimension dimension) { return kDimensionNames[index(dimension)]; }

std::optional<Dimension> parse_dimension(std::string_view name) {
  for (std::size_t i = 0; i < kDimensionNames.size(); ++i) {
    if (kDimensionNames[i] == name) return static_cast<Dimension>(i);
  }
  return std::nullopt;
}

std::int64_t get(Dimension dimension, const Strategy& strategy, const Schedule& schedule) {
  switch (dimension) {
    case Dimension::pp: return schedule.stages;
    case Dimension::vpp: return schedule.virtual_stages;
    case Dimension::schedule: return static_cast<std::int64_t>(schedule.kind);
    case Dimension::tp: return strategy.tp;
    case Dimension::sp: return static_cast<std::int64_t>(strategy.sp);
    case Dimension::cp: return strategy.cp;
    case Dimension::cp_kind: return static_cast<std::int64_t>(strategy.cp_kind);
    case Dimension::ep: return strategy.ep;
    case Dimension::etp: return strategy.etp;
    case Dimension::dp: return strategy.dp;
    case Dimension::micro_batch: return schedule.micro_batch;
    case Dimension::zero: return number_of(strategy.zero);
    case Dimension::shard: return strategy.shard;
    case Dimension::order: return static_cast<std::int64_t>(strategy.order);
    case Dimension::recompute: return static_cast<std::int64_t>(strategy.recompute.kind);
    case Dimension::recompute_layers: return strategy.recompute.layers;
    case Dimension::overlap_grad: return strategy.overlap.grad_reduce ? 1 : 0;
    case Dimension::overlap_param: return strategy.overlap.param_gather ? 1 : 0;
    case Dimension::overlap_p2p: return strategy.overlap.p2p ? 1 : 0;
    case Dimension::overlap_tp: return strategy.overlap.tp ? 1 : 0;
    case Dimension::offload: return static_cast<std::int64_t>(strategy.offload);
  }
  return 0;
}

void set(Dimension dimension, std::int64_t value, Strategy& strategy, Schedule& schedule) {
  ESPALIER_CHECK(enum_size(dimension) == 0 || (value >= 0 && value < enum_size(dimension)));
  const auto count = static_cast<std::int32_t>(value);
  switch (dimension) {
    case Dimension::pp: schedule.stages = count; break;
    case Dimension::vpp: schedule.virtual_stages = count; break;
    case Dimension::schedule: schedule.kind = static_cast<ScheduleKind>(value); break;
    case Dimension::tp: strategy.tp = count; break;
    case Dimension::sp: strategy.sp = static_cast<SequenceParallel>(value); break;
    case Dimension::cp: strategy.cp = count; break;
    case Dimension::cp_kind: strategy.cp_kind = static_cast<ContextParallelKind>(value); break;
    case Dimension::ep: strategy.ep = count; break;
    case Dimension::etp: strategy.etp = count; break;
    case Dimension::dp: strategy.dp = count; break;
    case Dimension::micro_batch: schedule.micro_batch = count; break;
    case Dimension::zero: strategy.zero = ZeroStage{count}; break;
    case Dimension::shard: strategy.shard = count; break;
    case Dimension::order: strategy.order = static_cast<RankOrder>(value); break;
    case Dimension::recompute:
      strategy.recompute.kind = static_cast<RecomputeKind>(value);
      strategy.recompute.modules = {};  // the engine's modules
      break;
    case Dimension::recompute_layers: strategy.recompute.layers = count; break;
    case Dimension::overlap_grad: strategy.overlap.grad_reduce = value != 0; break;
    case Dimension::overlap_param: strategy.overlap.param_gather = value != 0; break;
    case Dimension::overlap_p2p: strategy.overlap.p2p = value != 0; break;
    case Dimension::overlap_tp: strategy.overlap.tp = value != 0; break;
    case Dimension::offload: strategy.offload = static_cast<Offload>(value); break;
  }
}

std::int64_t enum_size(Dimension dimension) {
  switch (dimension) {
    case Dimension::schedule: return static_cast<std::int64_t>(kScheduleKinds.size());
    case Dimension::sp:
    case Dimension::order:
    case Dimension::recompute: return 3;
    case Dimension::cp_kind:
    case Dimension::overlap_grad:
    case Dimension::overlap_param:
    case Dimension::overlap_p2p:
    case Dimension::overlap_tp: return 2;
    case Dimension::offload: return 6;
    default: return 0;
  }
}

std::int64_t value_count(Dimension dimension) {
  constexpr std::int64_t kZeroStages = 4;
  return dimension == Dimension::zero ? kZeroStages : enum_size(dimension);
}

std::int64_t least_value(Dimension dimension) {
  return value_count(dimension) > 0 || dimension == Dimension::recompute_layers ? 0 : 1;
}

std::string value_text(Dimension dimension, std::int64_t value) {
  if (enum_size(dimension) == 0) return std::to_string(value);
  switch (dimension) {
    case Dimension::schedule: return std::string(to_string(static_cast<ScheduleKind>(value)));
    case Dimension::sp: return std::string(to_string(static_cast<SequenceParallel>(value)));
    case Dimension::cp_kind: return std::string(to_string(static_cast<ContextParallelKind>(value)));
    case Dimension::order: return std::string(to_string(static_cast<RankOrder>(value)));
    case Dimension::recompute:
      return value == kModuleSets ? "modules" : std::string(to_string(static_cast<RecomputeKind>(value)));
    case Dimension::offload: return std::string(to_string(static_cast<Offload>(value)));
    default: return value != 0 ? "on" : "off";
  }
}

std::string canonical_text(const Strategy& strategy, const Schedule& schedule) {
  std::string out;
  out.reserve(160);
  for (std::size_t i = 0; i < kShort.size(); ++i) {
    if (static_cast<Dimension>(i) == Dimension::offload && strategy.offload == Offload::none) continue;
    if (i > 0) out += ' ';
    out += kShort[i];
    char digits[24];
    std::snprintf(digits, sizeof digits, "%0*lld", kWidth[i],
                  static_cast<long long>(get(static_cast<Dimension>(i), strategy, schedule)));
    out += digits;
  }
  if (!strategy.partition.empty()) out.append(1, ' ').append(strategy.partition.text());
  if (strategy.recompute.modules.any()) out.append(" modules ").append(to_string(strategy.recompute.modules));
  return out;
}

int canonical_compare(const Strategy& a, const Schedule& sa, const Strategy& b, const Schedule& sb) {
  for (int i = 0; i < kDimensions; ++i) {
    const auto dimension = static_cast<Dimension>(i);
    const std::int64_t x = get(dimension, a, sa);
    const std::int64_t y = get(dimension, b, sb);
    if (x != y) return x < y ? -1 : 1;
  }
  const std::strong_ordering order = a.partition <=> b.partition;
  if (order != 0) return order < 0 ? -1 : 1;
  if (a.recompute.modules == b.recompute.modules) return 0;
  return to_string(a.recompute.modules) < to_string(b.recompute.modules) ? -1 : 1;
}

}  // namespace espalier
