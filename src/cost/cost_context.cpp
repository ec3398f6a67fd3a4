// SPDX-License-Identifier: Apache-2.0
#include "cost/cost_context.h"

#include "cost/offload.h"
#include "cost/partitioned_block.h"
#include "plan/engine.h"

namespace espalier::cost {

CostContext::CostContext(const Model& m, const Cluster& cluster, const Training& t, const EngineModel& e)
    : workload(m, t),
      device(cluster.groups.front().device, t.precision, e),
      fabric(cluster, e),
      engine(&e),
      partitions(std::make_shared<PartitionMemo>()) {
  device.host = host_rates(cluster.groups.front());
}

}  // namespace espalier::cost
