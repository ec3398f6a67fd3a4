// SPDX-License-Identifier: Apache-2.0
// Derives two facts from the bytes of a mixed run: how long its update in host memory takes, and whether its network
// can have carried the traffic of its configuration.
#include <algorithm>

#include "base/facts.h"
#include "base/format.h"
#include "plan/engine.h"
#include "runs/mapper.h"

namespace espalier::runs {

namespace {

/// Counts the bytes per parameter that cross the bus: its gradient down and the parameter up, both as fp32
/// (optimizer/optimizer.py of DT-FM, Fp16Optimizer with offload).
constexpr double kBusBytes = 8;
/// Counts the bytes per parameter of host memory: the check for infinities reads the gradient, plain SGD reads both
/// and writes the parameter.
constexpr double kHostBytes = 16;
constexpr double kHalf = 2;  ///< bytes of a gathered parameter

/// Counts how often ZeRO 3 moves every parameter between nodes in a micro-batch: gathers before the forward and the
/// backward pass, the reduction of gradients after it.
constexpr double kPassesOfZero3 = 3;

}  // namespace

EngineModel& Mapper::own_engine() {
  auto own = std::make_shared<EngineModel>(run_.job.engine_model ? *run_.job.engine_model : *find_engine(run_.job.engine));
  EngineModel& engine = *own;
  run_.job.engine_model = std::move(own);
  return engine;
}

/// Adjusts tensor groups between nodes. FrameworkCoefficients::tensor_communication was fitted on groups inside
/// nodes, where it represents launches and ranks that wait for each other. Over TCP the bytes take a hundred times as
/// long, and these costs stay the same.
void Mapper::map_tensor_groups() {
  const std::vector<NodeGroup>& groups = run_.job.cluster.groups;
  const bool between = std::any_of(groups.begin(), groups.end(),
                                   [&](const NodeGroup& group) { return group.devices_per_node < run_.strategy.tp; });
  if (!r_.mixture.network.stated() || !between) return;
  own_engine().coefficients.tensor_communication = 1.0;
  used("tensor communication", "the closed form", "its factor was fitted inside nodes; these tensor groups span nodes");
}

void Mapper::map_update_in_host_memory() {
  const double stages = std::max(1, run_.schedule.stages) * std::max(1, run_.strategy.tp);
  const double parameters = static_cast<double>(parameter_count(run_.job.model)) / stages;
  const base::Facts& facts = base::shipped_facts();
  const double bus = facts.value("pageable_copy_bandwidth"), host = facts.value("process_memory_bandwidth");
  const double seconds = parameters * (kBusBytes / bus + kHostBytes / host);
  own_engine().coefficients.step_s += seconds;
  used("update", cat(base::fixed(seconds, 2), " s in host memory"),
       "the record keeps the master copy there: 8 bytes per parameter over the bus at 3 GB/s, 16 of host memory at 10 GB/s "
       "(priors)");
}

/// Checks the traffic of ZeRO 3. For each gather and each reduction of P, a ring over N nodes moves at least P · (N −
/// 1) / N bytes into every node. A run that was measured to be faster than a node's interface allows did not have the
/// micro-batches of its record.
void Mapper::check_bytes_of_zero3() {
  const RunNetwork& network = r_.mixture.network;
  const Cluster& cluster = run_.job.cluster;
  if (!network.inter_gbps || cluster.nodes() < 2 || run_.strategy.zero != ZeroStage::parameters || !r_.measured.iteration_s)
    return;
  const auto nodes = static_cast<double>(cluster.nodes());
  const double parameters = static_cast<double>(parameter_count(run_.job.model)) / std::max(1, run_.strategy.tp);
  const double micro_batches = static_cast<double>(run_.job.training.global_batch) /
                               (static_cast<double>(run_.strategy.dp) * static_cast<double>(run_.schedule.micro_batch));
  const double bytes = kPassesOfZero3 * micro_batches * parameters * kHalf * (nodes - 1) / nodes;
  const double seconds = bytes * 8 / (*network.inter_gbps * 1e9);
  if (seconds <= *r_.measured.iteration_s) return;
  skip("measured faster than its network allows",
       cat("ZeRO 3 with ", base::fixed(micro_batches, 0), " micro-batches of ", run_.schedule.micro_batch, " per rank moves ",
           base::fixed(bytes * 1e-9, 0), " GB into every node, ", base::fixed(seconds, 1), " s at ",
           base::fixed(*network.inter_gbps, 1), " Gb/s; measured ", base::fixed(*r_.measured.iteration_s, 1), " s"));
}

}  // namespace espalier::runs
