// SPDX-License-Identifier: Apache-2.0
#include "exchange/rank_map.h"

#include <cstdint>
#include <map>

#include "base/format.h"
#include "base/invariant.h"
#include "plan/activation_layout.h"

namespace espalier::exchange {
namespace {

struct RankCoordinates {
  std::size_t pipeline, stage;
  PlaceInStage in_stage;
};

/// Returns the places by device, which is the rank.
std::map<std::int64_t, RankCoordinates> places_of(const Plan& plan) {
  std::map<std::int64_t, RankCoordinates> out;
  std::size_t p = 0;
  for (const Pipeline& pipeline : plan.pipelines) {
    for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
      const Stage& stage = pipeline.stages[i];
      const Strategy& first = stage.chunks.front().ranges.front().strategy;
      std::int64_t j = 0;
      for (const DeviceRange& range : stage.devices)
        for (std::int64_t k = 0; k < range.count; ++k)
          out.emplace(range.first + k * range.stride, RankCoordinates{p, i, place_in_stage(first, j++)});
      ESPALIER_CHECK(j <= first.devices());  // a stage has the devices of its degrees
    }
    ++p;
  }
  return out;
}

Result<std::string> write_rank_map(const ExportRequest& request) {
  const Job& job = *request.job;
  const Plan& plan = *request.plan;
  const bool several = plan.pipelines.size() > 1;
  std::string out =
      cat("# ", plan.label(), "; plan ", content_hash(plan),
          "\n# node:k is the k-th node of the launcher's list; positions are those in the groups of the rank's first layer\n",
          "rank\thost:device\t", several ? "pipeline\t" : "", "stage\tdp\tcp\ttp\n");
  for (const auto& [device, place] : places_of(plan)) {
    const std::int64_t node = job.cluster.node_of(device);
    out += cat(device, "\tnode:", node, ":", device - job.cluster.first_device_of_node(node), "\t",
               several ? cat(place.pipeline, "\t") : "", place.stage, "\t", place.in_stage.d, "\t", place.in_stage.c, "\t",
               place.in_stage.t, "\n");
  }
  return out;
}

}  // namespace

Exporter rank_map() {
  return {"rank-map", "the node and device of each rank, and its position in the plan (tab-separated)", "ranks.tsv",
          write_rank_map};
}

}  // namespace espalier::exchange
