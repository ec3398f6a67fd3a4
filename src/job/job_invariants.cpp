// SPDX-License-Identifier: Apache-2.0
#include "job/job_invariants.h"

#include "base/invariant.h"
#include "plan/engine.h"

namespace espalier::job {
namespace {

void check_groups(const Cluster& cluster) {
  ESPALIER_CHECK(!cluster.groups.empty());
  for (const NodeGroup& group : cluster.groups) {
    ESPALIER_CHECK(group.nodes >= 1 && group.devices_per_node >= 1);
    ESPALIER_CHECK(group.device.memory.count() > 0);
    ESPALIER_CHECK(group.nodes == 1 || !group.inter.empty() || !cluster.inter.empty() || !cluster.links.empty());
    for (const DeviceSpeed& one : group.speed)
      ESPALIER_CHECK(one.device >= 0 && one.device < cluster.devices() && one.factor > 0);
  }
}

void check_training(const Training& training, const Model& model) {
  ESPALIER_CHECK(training.global_batch >= 1);
  ESPALIER_CHECK(training.moe_imbalance >= 1.0);
  ESPALIER_CHECK(training.tokens >= 0);
  ESPALIER_CHECK(training.sequence.images >= 1);
  for (const LayerKind& kind : model.kinds) ESPALIER_CHECK(tokens_per_sample(kind, training.sequence) >= 1);
  const auto& lengths = training.lengths.histogram;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    ESPALIER_CHECK(lengths[i].tokens >= 1 && lengths[i].weight >= 0);
    ESPALIER_CHECK(i == 0 || lengths[i - 1].tokens < lengths[i].tokens);
  }
}

}  // namespace

void check_job(const Job& job) {
  ESPALIER_CHECK(job.model.layers.size() >= 2);
  ESPALIER_CHECK(!job.model_source.empty());
  ESPALIER_CHECK(!job.cluster_source.empty());
  check_groups(job.cluster);
  ESPALIER_CHECK(!job.with_buckets || job.with_buckets->devices() == job.cluster.devices());
  check_training(job.training, job.model);
  ESPALIER_CHECK(job.engine_model ? job.engine_model->name == job.engine : find_engine(job.engine) != nullptr);
}

}  // namespace espalier::job
