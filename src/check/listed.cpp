// SPDX-License-Identifier: Apache-2.0
#include "check/listed.h"

#include <algorithm>
#include <map>

#include "check/expert_instances.h"
#include "check/verdict.h"
#include "check/view.h"

namespace espalier::check {
namespace {

struct StridedGroup {
  const char* name;
  std::int64_t count, stride;
};

std::vector<StridedGroup> kinds_of(const Strategy& s, bool experts) {
  const std::int64_t stride = s.sp == SequenceParallel::ulysses ? 1 : s.tp;
  const std::int64_t shard = s.shards_optimizer() ? s.shard : s.data_ranks();
  std::vector<StridedGroup> kinds = {{"tensor", s.tp, 1},
                                     {"context", s.cp, s.order == RankOrder::tp_dp_cp_pp ? std::int64_t{s.tp} * s.dp : s.tp},
                                     {"data", shard, stride},
                                     {"replica", s.data_ranks() / shard, stride * shard}};
  if (!experts) return kinds;
  const std::int64_t replicas = s.expert_data_ranks(), apart = std::int64_t{s.ep} * s.etp;
  const std::int64_t inside = s.shards_optimizer() ? expert_shard(s) : replicas;
  kinds.push_back({"expert tensor", s.etp, 1});
  kinds.push_back({"expert", s.ep, s.etp});
  kinds.push_back({"expert data", inside, apart});
  kinds.push_back({"expert replica", replicas / inside, apart * inside});
  return kinds;
}

bool numbered(const Stage& stage, std::int64_t number, const Strategy& s, std::int64_t stages) {
  std::int64_t before = -1;
  for (const DeviceRange& range : stage.devices) {
    for (std::int64_t i = 0; i < range.count; ++i) {
      const std::int64_t id = range.first + i * range.stride;
      if (id <= before || stage_of_device(s, stages, id) != number) return false;
      before = id;
    }
  }
  return true;
}

}  // namespace

std::shared_ptr<const Listed> listed_devices(const Pipeline& pipeline) {
  bool all = true;
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i)
    for (const Chunk& chunk : pipeline.stages[i].chunks)
      for (const LayerRange& range : chunk.ranges)
        all = all && numbered(pipeline.stages[i], static_cast<std::int64_t>(i), range.strategy, pipeline.schedule.stages);
  if (all) return nullptr;
  auto out = std::make_shared<Listed>();
  for (const Stage& stage : pipeline.stages) {
    std::vector<std::int64_t>& devices = out->emplace_back();
    for (const DeviceRange& range : stage.devices)
      for (std::int64_t i = 0; i < range.count; ++i) devices.push_back(range.first + i * range.stride);
  }
  return out;
}

std::vector<std::int64_t> fall(const std::vector<std::int64_t>& group, std::int64_t span) {
  std::map<std::int64_t, std::int64_t> members;
  for (const std::int64_t device : group) ++members[device / span];
  std::vector<std::int64_t> out;
  for (const auto& [domain, count] : members) out.push_back(count);
  std::sort(out.begin(), out.end());
  return out;
}

std::string uneven_groups(const Pipeline& pipeline, const Listed& stages, const Cluster& cluster, bool experts) {
  std::vector<Strategy> known;
  for (const Stage& stage : pipeline.stages)
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges)
        if (std::find(known.begin(), known.end(), range.strategy) == known.end()) known.push_back(range.strategy);
  for (const Strategy& s : known) {
    for (const StridedGroup& kind : kinds_of(s, experts)) {
      if (kind.count < 2) continue;
      for (const FabricLevel& level : cluster.levels()) {
        std::vector<std::int64_t> first;
        bool alike = true;
        each_listed_group(stages, kind.count, kind.stride, [&](const std::vector<std::int64_t>& group) {
          const std::vector<std::int64_t> here = fall(group, level.span);
          if (first.empty()) first = here;
          alike = alike && here == first;
        });
        if (!alike) return say(kind.name, " groups do not all reach level ", level.name, " in the same way");
      }
    }
  }
  return "";
}

}  // namespace espalier::check
