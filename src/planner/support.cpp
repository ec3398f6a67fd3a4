// SPDX-License-Identifier: Apache-2.0
#include "planner/support.h"

#include <array>
#include <string>

#include "base/format.h"
#include "cost/cluster_costs.h"
#include "cost/partitioned_block.h"
#include "plan/engine.h"
#include "plan/listed_devices.h"
#include "plan/operator_partition.h"
#include "plan/rules.h"
#include "profile/measured_operators.h"

namespace espalier::planner {
namespace {

struct SupportQuery {
  const Job& job;
  const EngineModel& engine;
  const Plan& plan;
};

/// Returns the first reason that `refuses(stage, where)` gives; where() is the stage's place in the document.
template <class Refuses>
Status any_stage(const Plan& plan, const Refuses& refuses) {
  for (std::size_t p = 0; const Pipeline& pipeline : plan.pipelines) {
    for (std::size_t i = 0; const Stage& stage : pipeline.stages) {
      if (Status status = refuses(stage, [&] { return cat("$.pipelines[", p, "].stages[", i, "]"); }); !status.ok())
        return status;
      ++i;
    }
    ++p;
  }
  return {};
}

Status no_price(const SupportQuery& q) { return unsupported(q.plan); }

Status not_measured(const SupportQuery& q) {
  if (q.job.engine_model == nullptr || q.job.engine_model->measured == nullptr) return {};
  for (const StrategyCount& used : strategy_counts(q.plan))
    if (const auto missing =
            profile::not_covered(*q.job.engine_model->measured, q.job.model, used.strategy, q.job.training.sequence.main))
      return Error{ErrorKind::bad_input, "plan", cat("under ", label(used.strategy), ", ", profile::to_string(*missing)),
                   "operators that the profile measured", "`espalier profile` measures further sizes (--tp)"};
  return {};
}

Status devices_outside(const SupportQuery& q) {
  return any_stage(q.plan, [&](const Stage& stage, const auto& where) -> Status {
    for (const DeviceRange& range : stage.devices)
      if (const std::int64_t last = range.first + (range.count - 1) * range.stride; last >= q.job.cluster.devices())
        return Error{ErrorKind::bad_input, cat(where(), ".devices"), cat("device ", last),
                     cat("devices 0 … ", q.job.cluster.devices() - 1), ""};
    return {};
  });
}

/// Rejects operator partitions on stages that are priced one by one, which do not support them (cost/cluster_costs.h).
Status unsupported_placement(const SupportQuery& q) {
  const Status partitioned = cost::unpriced_groups(q.plan);
  if (cost::on_unlike_devices(q.plan, q.job.cluster)) return partitioned;
  return partitioned.ok() ? Status() : unpriced_placement(q.plan, q.job.model, q.job.cluster);
}

Status broken_rule(const SupportQuery& q) {
  const auto broken = plan_violations(q.job.model, q.plan);
  if (broken.empty()) return {};
  return Error{ErrorKind::bad_input, "$.pipelines[0].stages", broken.front().rule + ": " + broken.front().text,
               "a plan that satisfies every rule of plans", broken.front().hint};
}

/// Rejects partitions of the plan's strategies that do not fit the model's blocks.
Status partition_that_does_not_fit(const SupportQuery& q) {
  if (cost::unpriced_groups(q.plan).ok()) return {};
  cost::CostContext context(q.job.model, q.job.cluster, q.job.training, q.engine);
  context.fabric.place(q.plan);
  for (const StrategyCount& used : strategy_counts(q.plan)) {
    const Strategy& s = used.strategy;
    if (s.partition.empty()) continue;
    if (const std::string fault = partition_fault(s); !fault.empty())
      return Error{ErrorKind::bad_input, "strategy.partition", fault, "a partition that satisfies rule operator-partition", ""};
    if (Status status = cost::partition_fits(context, s, static_cast<std::int32_t>(q.plan.samples_per_microbatch() / s.dp));
        !status.ok())
      return status;
  }
  return {};
}

/// Rejects unequal replicas under the flow network. Ranks of one class then send unequal amounts, which the network
/// of shared links does not model.
Status unequal_under_flow(const SupportQuery& q) {
  if (q.job.network != NetworkKind::flow) return {};
  return any_stage(q.plan, [](const Stage& stage, const auto& where) -> Status {
    if (!uneven_replicas(stage)) return {};
    return Error{ErrorKind::bad_input, where(), "replicas with unequal shares under --network flow", "the closed form",
                 "omit --network"};
  });
}

/// Lists the checks in their order: later ones read what earlier ones have not rejected.
constexpr std::array kReasons = {
    no_price, not_measured, devices_outside, unsupported_placement, broken_rule, partition_that_does_not_fit, unequal_under_flow};

}  // namespace

Status support(const Job& job, const EngineModel& engine, const Plan& plan) {
  const SupportQuery query{job, engine, plan};
  for (const auto reason : kReasons)
    if (Status status = reason(query); !status.ok()) return status;
  return {};
}

}  // namespace espalier::planner
