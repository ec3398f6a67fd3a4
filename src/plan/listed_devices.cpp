// SPDX-License-Identifier: Apache-2.0
#include "plan/listed_devices.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/format.h"
#include "plan/device_block.h"
#include "plan/process_groups.h"
#include "plan/structure.h"

namespace espalier {
namespace {

/// Returns the device of the n-th rank of a stage under a strategy's order (uniform.cpp).
std::int64_t device_of_rank(const Strategy& s, const Schedule& schedule, std::int64_t stage, std::int64_t n) {
  const std::int64_t inner = std::int64_t{s.tp} * s.cp;
  if (s.order == RankOrder::tp_cp_pp_dp) return n % inner + inner * (stage + schedule.stages * (n / inner));
  return n + inner * s.dp * stage;
}

/// Returns whether the devices follow the strategy's order; `first` is the device that counts as 0.
bool in_order(const std::vector<std::int64_t>& devices, const Strategy& s, const Schedule& schedule, std::int64_t stage,
              std::int64_t first) {
  for (std::size_t n = 0; n < devices.size(); ++n)
    if (devices[n] != first + device_of_rank(s, schedule, stage, static_cast<std::int64_t>(n))) return false;
  return true;
}

struct NamedKind {
  GroupKind kind;
  std::string_view name;
  bool of_experts;
};
constexpr std::array kKinds = {NamedKind{GroupKind::tensor, "tensor", false},
                               NamedKind{GroupKind::context, "context", false},
                               NamedKind{GroupKind::data_shard, "data", false},
                               NamedKind{GroupKind::data_replica, "replica", false},
                               NamedKind{GroupKind::expert_tensor, "expert tensor", true},
                               NamedKind{GroupKind::expert, "expert", true},
                               NamedKind{GroupKind::expert_shard, "expert data", true},
                               NamedKind{GroupKind::expert_replica, "expert replica", true}};

/// Counts the members per domain at every level.
using Layout = std::vector<std::vector<std::int64_t>>;

Layout layout_of(const std::vector<std::int64_t>& group, const std::vector<FabricLevel>& levels) {
  Layout layout;
  for (const FabricLevel& level : levels) layout.push_back(members_by_domain(group, level.span));
  return layout;
}

/// Returns "4 + 4 a node", for the innermost level in which two layouts differ.
std::string difference(const Layout& a, const Layout& b, const std::vector<FabricLevel>& levels) {
  const auto sum = [](const std::vector<std::int64_t>& counts) {
    std::string out;
    for (std::size_t i = 0; i < counts.size() && i < 4; ++i) out += cat(i == 0 ? "" : " + ", counts[i]);
    return counts.size() > 4 ? out + " + …" : out;
  };
  for (std::size_t k = 0; k < levels.size(); ++k)
    if (a[k] != b[k]) return cat(sum(a[k]), " and ", sum(b[k]), " members per domain of level ", levels[k].name);
  return "";
}

/// Rejects groups of `strategy` whose placement differs from the first of their kind.
Status uneven(const StageDevices& stages, std::string_view where, const Strategy& strategy, bool experts,
              const std::vector<FabricLevel>& levels) {
  for (const NamedKind& kind : kKinds) {
    if (kind.of_experts && !experts) continue;
    std::optional<Layout> first;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const GroupLayout layout = group_layout(kind.kind, strategy, static_cast<std::int64_t>(stages[i].size()));
      if (layout.size < 2) break;
      for (const auto& group : process_groups(kind.kind, strategy, stages[i])) {
        Layout here = layout_of(group, levels);
        if (!first)
          first = std::move(here);
        else if (*first != here)
          return Error{ErrorKind::bad_input, cat(where, ".stages[", i, "].devices"),
                       cat("device-order: ", kind.name, " groups with ", difference(*first, here, levels)),
                       cat("all ", kind.name, " groups of the plan with the same layout"),
                       "one price holds for all groups of a kind: list the devices so that each group spans the same links"};
      }
    }
  }
  return {};
}

/// Rejects scattered tiles: tiles of an operator partition are priced in groups of neighbouring devices.
Status scattered_tiles(const StageDevices& stages, std::string_view where, const Strategy& strategy) {
  if (strategy.partition.empty()) return {};
  for (std::size_t i = 0; i < stages.size(); ++i)
    for (const auto& group : process_groups(GroupKind::tensor, strategy, stages[i]))
      for (std::size_t n = 0; n < group.size(); ++n)
        if (group.front() % strategy.tp != 0 || group[n] != group.front() + static_cast<std::int64_t>(n))
          return Error{ErrorKind::bad_input, cat(where, ".stages[", i, "].devices"),
                       cat("device-order: device ", group[n], " in a tensor group of ", group.front()),
                       cat(strategy.tp, " adjacent devices that start at a multiple of ", strategy.tp),
                       "operator partitions are priced on adjacent devices"};
  return {};
}

/// Rejects a pipeline in which groups of one kind differ in placement.
Status unlike_groups(const Pipeline& pipeline, std::string_view where, const Model& model, const Cluster& cluster) {
  const std::vector<FabricLevel> levels = cluster.levels();
  const bool experts = has_experts(model);
  const StageDevices devices = stage_devices(pipeline);
  std::vector<const Strategy*> known;
  for (const Stage& stage : pipeline.stages)
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges) {
        const bool seen = std::any_of(known.begin(), known.end(), [&](const Strategy* s) { return *s == range.strategy; });
        if (seen) continue;
        known.push_back(&range.strategy);
        if (Status status = uneven(devices, where, range.strategy, experts, levels); !status.ok()) return status;
        if (Status status = scattered_tiles(devices, where, range.strategy); !status.ok()) return status;
      }
  return {};
}

}  // namespace

StageDevices stage_devices(const Pipeline& pipeline) {
  StageDevices out;
  for (const Stage& stage : pipeline.stages) out.push_back(devices_of(stage.devices));
  return out;
}

std::vector<std::int64_t> members_by_domain(const std::vector<std::int64_t>& devices, std::int64_t span) {
  std::vector<std::int64_t> domains;
  for (const std::int64_t device : devices) domains.push_back(device / span);
  std::sort(domains.begin(), domains.end());
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < domains.size(); ++i) {
    if (i == 0 || domains[i] != domains[i - 1]) counts.push_back(0);
    ++counts.back();
  }
  std::sort(counts.begin(), counts.end());
  return counts;
}

std::string text_of(const DeviceRange& r) {
  if (r.count == 1) return cat(r.first);
  return cat(r.first, "-", r.first + (r.count - 1) * r.stride, r.stride == 1 ? "" : cat(":", r.stride));
}

std::optional<std::int64_t> first_in_order(const Pipeline& pipeline) {
  const StageDevices devices = stage_devices(pipeline);
  if (devices.empty() || devices.front().empty()) return std::nullopt;
  const std::int64_t first = devices.front().front();  // every order begins with rank 0 of stage 0
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const Strategy* before = nullptr;
    for (const Chunk& chunk : pipeline.stages[i].chunks) {
      for (const LayerRange& range : chunk.ranges) {
        const Strategy& s = range.strategy;
        const bool known =
            before != nullptr && before->tp == s.tp && before->cp == s.cp && before->dp == s.dp && before->order == s.order;
        if (!known && !in_order(devices[i], s, pipeline.schedule, static_cast<std::int64_t>(i), first)) return std::nullopt;
        before = &s;
      }
    }
  }
  return first;
}

bool devices_in_order(const Plan& plan) {
  return std::all_of(plan.pipelines.begin(), plan.pipelines.end(), [](const Pipeline& pipeline) {
    return first_in_order(pipeline) == std::optional<std::int64_t>(0);  // with several pipelines only one has device 0
  });
}

Status unpriced_placement(const Plan& plan, const Model& model, const Cluster& cluster) {
  if (devices_in_order(plan)) return {};
  std::size_t p = 0;
  for (const Pipeline& pipeline : plan.pipelines) {
    const std::string where = cat("$.pipelines[", p++, "]");
    if (device_block(pipeline, cluster)) continue;
    if (Status status = unlike_groups(pipeline, where, model, cluster); !status.ok()) return status;
  }
  return {};
}

std::int64_t device_count(const Stage& stage) {
  std::int64_t devices = 0;
  for (const DeviceRange& range : stage.devices) devices += range.count;
  return devices;
}

std::int64_t device_count(const Pipeline& pipeline) {
  std::int64_t devices = 0;
  for (const Stage& stage : pipeline.stages) devices += device_count(stage);
  return devices;
}

std::int64_t device_count(const Plan& plan) {
  std::int64_t devices = 0;
  for (const Pipeline& pipeline : plan.pipelines) devices += device_count(pipeline);
  return devices;
}

}  // namespace espalier
