// SPDX-License-Identifier: Apache-2.0
#include "report/advice.h"

#include <algorithm>

#include "base/format.h"
#include "plan/engine.h"
#include "planner/plan_layers.h"
#include "report/brief_text.h"

namespace espalier::report {
namespace {

using base::cat;
using base::gib;
using base::percent;

std::string number(std::int64_t n) { return std::to_string(n); }

/// The strategy of most layers, and what several strategies have at most.
struct Facts {
  Strategy s;
  Schedule c;
  std::int64_t room = 0;  ///< bytes free below the limit and its margin
  std::int64_t blocks = 0;
  bool interleaves = true;           ///< the engine has the schedule
  double fullest = 1, emptiest = 1;  ///< busy shares of stages
};

Facts facts_of(const PlannerResult& r) {
  Facts f;
  const std::vector<StrategyCount> counts = strategy_counts(r.plan);
  f.s = counts.empty() || r.plan.uniform() ? r.plan.pipelines.front().strategy() : counts.front().strategy;
  f.c = r.plan.pipelines.front().schedule;
  const Prediction& p = r.prediction;
  f.room = static_cast<std::int64_t>(static_cast<double>(p.memory_limit_bytes) * (1 - p.memory_margin)) - p.peak_memory_bytes;
  f.blocks = planner::last_layer_of(r.plan) - 1;
  if (const EngineModel* engine = find_engine(r.plan.engine))
    f.interleaves = std::count(engine->runs.schedules.begin(), engine->runs.schedules.end(), ScheduleKind::interleaved) > 0;
  if (!p.bottleneck.busy_per_stage.empty()) {
    const auto [low, high] = std::minmax_element(p.bottleneck.busy_per_stage.begin(), p.bottleneck.busy_per_stage.end());
    f.emptiest = *low;
    f.fullest = *high;
  }
  return f;
}

/// Whether activations may double.
bool may_double_activations(const Facts& f, const Prediction& p) { return p.memory.activations <= f.room; }

std::string of_compute(const Facts& f, const PlannerResult& r) {
  if (f.s.recompute.kind != RecomputeKind::none && f.room > 0)
    return cat("less recomputation makes it smaller, as far as the ", gib(f.room), " that are free allow");
  if (f.s.recompute.kind != RecomputeKind::none) return "recomputation is part of it and pays for memory that is short";
  if (f.c.microbatches % 2 == 0 && f.c.microbatches / 2 >= f.c.stages && may_double_activations(f, r.prediction))
    return cat("micro-batch ", number(2 * f.c.micro_batch), " would give its kernels more work each, and fits");
  return "no setting of the plan makes it smaller: these are the model's own products";
}

/// The largest of the groups that talk inside every layer.
std::string of_groups(const Facts& f) {
  const std::int32_t largest = std::max({f.s.tp, f.s.cp, f.s.ep});
  if (f.s.tp == largest)
    return cat("TP ", number(f.s.tp), " talks most in every layer: TP ", number(f.s.tp / 2), " would send less");
  if (f.s.cp == largest)
    return cat("CP ", number(f.s.cp), " talks most in every layer: CP ", number(f.s.cp / 2), " would send less");
  return cat("EP ", number(f.s.ep), " sends tokens to experts in every layer: EP ", number(f.s.ep / 2), " would send fewer");
}

std::string of_communication(const Facts& f, const PlannerResult& r) {
  const bool reduces = f.s.data_ranks() > 1;
  if (reduces && !f.s.overlap.grad_reduce)
    return "overlap_grad is off: reducing gradients beside the backward pass hides some of it";
  if (shards_optimizer(f.s.zero) && !f.s.overlap.param_gather)
    return "overlap_param is off: gathering parameters beside compute hides some of it";
  if (f.c.stages > 1 && !f.s.overlap.p2p) return "overlap_p2p is off: sends beside compute hide some of it";
  if (f.s.tp > 1 || f.s.cp > 1 || f.s.ep > 1) return of_groups(f);
  if (shards_gradients(f.s.zero) && r.prediction.memory.gradients <= f.room)
    return cat("ZeRO ", number(number_of(f.s.zero)), " talks in every micro-batch: ZeRO 1 would talk once a step");
  if (reduces) return "a larger global batch spreads the reductions of the step over more samples";
  if (f.c.stages > 1) return "fewer stages would send fewer messages";
  return "one device has nobody to talk to: it is slow-down inside its own kernels";
}

std::string of_bubble(const Facts& f) {
  if (f.fullest - f.emptiest > 0.1)
    return cat("the stages are unequal: the busiest works ", percent(f.fullest), " of the step, the least busy ",
               percent(f.emptiest));
  const bool plain = f.c.kind == ScheduleKind::one_f_one_b || f.c.kind == ScheduleKind::gpipe;
  if (f.interleaves && plain && f.c.microbatches % f.c.stages == 0 && f.blocks >= 2 * std::int64_t{f.c.stages})
    return "interleaving with two virtual stages would halve it";
  if (f.c.microbatches < 4 * f.c.stages && f.c.micro_batch > 1 && f.c.micro_batch % 2 == 0)
    return cat("micro-batch ", number(f.c.micro_batch / 2), " would give ", number(2 * f.c.microbatches), " micro-batches for ",
               number(f.c.stages), " stages to fill");
  if (f.c.microbatches < 4 * f.c.stages)
    return cat(number(f.c.microbatches), " micro-batches are few for ", number(f.c.stages),
               " stages: a larger global batch fills them");
  return "fewer stages have a shorter way down and up";
}

std::string of_update(const Facts& f) {
  if (f.s.data_ranks() == 1) return "every rank holds other weights: only more ranks would hold fewer of them each";
  if (!shards_optimizer(f.s.zero)) return cat("ZeRO 1 would share the update among ", number(f.s.data_ranks()), " data ranks");
  if (f.s.shard < f.s.data_ranks())
    return cat("shard ", number(f.s.data_ranks()), " in place of ", number(f.s.shard), " would share it among more ranks");
  return "a larger global batch spreads it over more samples";
}

std::string of_host(const Facts& f) {
  if (!offloads_optimizer(f.s.offload))
    return "host work once a step is up to the framework; a larger global batch spreads it over more samples";
  const std::int64_t ranks = f.s.data_ranks();
  if (ranks > 1 && (!shards_optimizer(f.s.zero) || f.s.shard < ranks)) return of_update(f);
  return "the memory bandwidth of the hosts decides (cluster.host.memory_bandwidth): more nodes have more of it; a larger global "
         "batch spreads it "
         "over more samples";
}

std::string of_other(const Facts& f, const PlannerResult& r) {
  if (f.c.microbatches % 2 == 0 && f.c.microbatches / 2 >= f.c.stages && may_double_activations(f, r.prediction))
    return cat("micro-batch ", number(2 * f.c.micro_batch), " would launch half as many kernels, and fits");
  return cat("fewer, fused kernels are up to the framework (engine ", r.plan.engine, ")");
}

}  // namespace

std::string advice(const planner::TimePart& part, const PlannerResult& result) {
  const Facts f = facts_of(result);
  switch (part.kind) {
    case planner::TimeKind::compute: return of_compute(f, result);
    case planner::TimeKind::exposed_communication: return of_communication(f, result);
    case planner::TimeKind::bubble: return of_bubble(f);
    case planner::TimeKind::update: return of_update(f);
    case planner::TimeKind::host: return of_host(f);
    case planner::TimeKind::other: return of_other(f, result);
  }
  return "";
}

}  // namespace espalier::report
