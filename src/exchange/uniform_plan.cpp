// SPDX-License-Identifier: Apache-2.0
#include "exchange/uniform_plan.h"

#include "base/format.h"
#include "exchange/plain_training.h"

namespace espalier::exchange {

Error cannot_say(const std::string& engine, const std::string& found, const std::string& expected) {
  return {ErrorKind::check_failed, engine, found, expected,
          base::cat("espalier plan --set engine=", engine, " finds what it can run")};
}

Status not_uniform(const Plan& plan, const std::string& engine) {
  if (plan.pipelines.size() != 1) return cannot_say(engine, "several pipelines", "one");
  if (Status error = not_plain_training(plan.training, engine)) return error;
  for (const Stage& stage : plan.only_pipeline().stages) {
    if (unequal_replicas(stage)) return cannot_say(engine, "replicas with unequal shares", "equal ones");
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges)
        if (range.strategy != plan.strategy())
          return cannot_say(engine, "layers with strategies of their own", "one strategy for all layers");
  }
  return {};
}

Status not_on_equal_nodes(const Job& job, const Plan& plan, const std::string& engine) {
  const std::int64_t each = job.cluster.groups.front().devices_per_node;
  for (const NodeGroup& group : job.cluster.groups)
    if (group.devices_per_node != each)
      return cannot_say(engine, base::cat("nodes of ", each, " and of ", group.devices_per_node, " devices"),
                        "nodes of one size");
  std::int64_t used = 0;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const DeviceRange& range : stage.devices) used += range.count;
  if (used == job.cluster.devices()) return {};
  return cannot_say(engine, base::cat("a plan on ", used, " of ", job.cluster.devices(), " devices"),
                    "one on all devices of the cluster: describe the nodes that are used alone");
}

}  // namespace espalier::exchange
