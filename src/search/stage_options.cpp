// SPDX-License-Identifier: Apache-2.0
#include "search/stage_options.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cost/chunk_sum.h"
#include "cost/collective.h"
#include "plan/engine.h"
#include "plan/engine_rules.h"
#include "search/below_prices.h"
#include "search/budgets.h"
#include "search/stage_ports.h"

namespace espalier::search {
namespace {

constexpr std::int64_t kPaddingBytes = 64;  // a layer's states are rounded up by less than this

std::int64_t floor_ns(double seconds) { return static_cast<std::int64_t>(std::max(0.0, seconds) * 1e9 * kBelow); }

bool is_power_of_two(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

/// Adds the strategy with each way to keep states and to recompute.
void add_states(Strategy s, bool experts, const std::vector<Recompute>& recomputes, std::vector<Strategy>& out) {
  for (const ZeroStage zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters}) {
    s.zero = zero;
    if (shards_optimizer(zero) && s.data_ranks() == 1) continue;
    s.shard = shards_optimizer(zero) ? static_cast<std::int32_t>(s.data_ranks()) : 1;
    s.overlap.grad_reduce = replicates_weights(experts, s);
    s.overlap.param_gather = shards_optimizer(zero);
    for (const Recompute& how : recomputes) {
      s.recompute = how;
      out.push_back(s);
    }
  }
}

/// Adds the strategy with each way to split the parts that tensor parallelism leaves whole, and experts.
void add_splits(Strategy s, std::int64_t devices, bool experts, const std::vector<Recompute>& recomputes,
                std::vector<Strategy>& out) {
  for (const SequenceParallel sp : {SequenceParallel::none, SequenceParallel::megatron}) {
    if (sp != SequenceParallel::none && s.tp == 1) continue;
    s.sp = sp;
    for (std::int64_t ep = 1; ep <= (experts ? devices : 1); ep *= 2) {
      s.ep = static_cast<std::int32_t>(ep);
      add_states(s, experts, recomputes, out);
    }
  }
}

/// Returns the strategies of a stage of `devices` devices.
std::vector<Strategy> strategies_of(const NodeGroup& group, std::int64_t devices, const RuleFacts& facts, bool split_sequence,
                                    const std::vector<Recompute>& recomputes) {
  std::vector<Strategy> out;
  const bool experts = !facts.experts.empty();
  for (std::int64_t tp = 1; tp <= std::min(devices, group.devices_per_node) && devices % tp == 0; tp *= 2)
    for (std::int64_t cp = 1; cp <= (split_sequence ? devices / tp : 1) && devices / tp % cp == 0; cp *= 2)
      for (const ContextParallelKind kind : {ContextParallelKind::ring, ContextParallelKind::all_to_all}) {
        if (cp == 1 && kind != ContextParallelKind::ring) continue;
        Strategy s;
        s.tp = static_cast<std::int32_t>(tp);
        s.cp = static_cast<std::int32_t>(cp);
        s.cp_kind = kind;
        s.dp = static_cast<std::int32_t>(devices / tp / cp);
        add_splits(s, devices, experts, recomputes, out);
      }
  return out;
}

/// Returns the largest number of layers in a part of gradients or parameters.
double layers_in_part(const Model& model) {
  return std::max(1.0, static_cast<double>(model.layers.size()) / static_cast<double>(kMaxBuckets));
}

/// Returns the least seconds in which the gradients of one layer are reduced.
double reduction_s(const cost::StrategyCost& x, const cost::LayerCost& layer) {
  if (!reduces_gradients(x.c.workload.experts, x.s)) return 0.0;
  const double times = x.c.engine->eager.reduce_bucket_bytes > 0 ? kFullRate : layers_in_part(*x.c.workload.model);
  return cost::reduce_bucket_s(x, static_cast<double>(layer.dense_parameters) * times,
                               static_cast<double>(layer.expert_parameters) * times, 1, cost::Cut::any) /
         times;
}

/// Returns the least seconds in which the parameters of one layer are gathered.
double gather_s(const cost::StrategyCost& x, const cost::LayerCost& layer) {
  if (!gathers_parameters(x.s)) return 0.0;
  const double times = layers_in_part(*x.c.workload.model);
  return cost::gather_bucket_s(x, static_cast<double>(layer.dense_parameters) * times,
                               static_cast<double>(layer.expert_parameters) * times, 1, cost::Cut::any) /
         times;
}

/// Returns the least κ of compute that overlaps a part of the reductions or gathers of any of the layers. A part
/// holds no less than the smallest layer, and larger messages draw more bandwidth. Experts share parts with layers
/// that have none, and direct messages may draw less than shorter ones.
double least_slowdown(const cost::StrategyCost& x, const std::vector<cost::LayerCost>& layers) {
  const cost::Interference device = x.c.device.interference();
  const std::vector<FabricLevel>& levels = x.c.fabric.data_levels;
  if (x.c.workload.experts || std::any_of(levels.begin(), levels.end(), [](const FabricLevel& l) { return l.direct_bytes > 0; }))
    return device.alone;
  double least = std::numeric_limits<double>::infinity();
  for (const cost::LayerCost& layer : layers) {
    const auto dense = static_cast<double>(layer.dense_parameters);
    if (dense <= 0) return device.alone;
    if (reduces_gradients(false, x.s))
      least =
          std::min(least, device.of(cost::reduce_bucket_bytes(x, dense, 0, 1), cost::reduce_bucket_s(x, dense, 0, 1)).compute);
    if (gathers_parameters(x.s))
      least =
          std::min(least, device.of(cost::gather_bucket_bytes(x, dense, 0, 1), cost::gather_bucket_s(x, dense, 0, 1)).compute);
  }
  return std::isfinite(least) ? least : device.alone;
}

/// Fills in the work at the beginning and the end of the step.
void fill_ends(const cost::StrategyCost& x, const std::vector<cost::LayerCost>& layers, solve::StageOption& out) {
  const EngineModel& engine = *x.c.engine;
  const StatePolicy states = states_of(engine, x.c.workload.training);
  const double waited = engine.coefficients.exposed_share;
  for (const cost::LayerCost& layer : layers) {
    const cost::ParameterElements elements = layer.elements();
    const double update = cost::update_bytes(engine, states, elements, x.s) / x.c.device.rates.memory;
    const double reduction = reduction_s(x, layer);
    out.end_ns.push_back(floor_ns(update + waited * reduction) + layer.gradient_sync_ns);
    out.reduce_ns.push_back(floor_ns((1.0 - waited) * reduction));
    out.gather_ns.push_back(floor_ns(gather_s(x, layer)));
  }
  out.end_fixed_ns = floor_ns(cost::optimizer_s(x.c.device, engine, 0.0));
  out.parts = kMaxBuckets;
  out.slowdown_millionths =
      std::max<std::int64_t>(1'000'000, static_cast<std::int64_t>(least_slowdown(x, layers) * 1e6 * kBelow));
}

solve::StageOption option_of(const cost::CostContext& c, const Strategy& s, const std::vector<cost::LayerCost>& layers) {
  const cost::StrategyCost x = cost::strategy_cost_of(c, s, 1, layers, cost::ChunkEdges::exposed);
  const StatePolicy states = states_of(*c.engine, c.workload.training);
  solve::StageOption out;
  std::int64_t gather = INT64_MAX, reduction = INT64_MAX;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const bool block = c.workload.model->kinds[k].role == LayerRole::block;
    cost::ChunkTotal total;
    cost::ChunkSum sum(total);
    sum.add(x, static_cast<std::int32_t>(k), 1, block ? s.recompute.kind : RecomputeKind::none);
    out.forward_ns.push_back(total.forward.duration_ns());
    out.backward_ns.push_back(total.backward.duration_ns());
    const cost::ParameterElements elements = layers[k].elements();
    const cost::StaticMemory memory = cost::state_memory(elements, states, s);
    const std::int64_t bytes = memory.parameters + memory.gradients + memory.optimizer;
    out.static_bytes.push_back(std::max<std::int64_t>(0, bytes - kPaddingBytes));
    const PassBytes pass = sum.bytes();
    out.saved_bytes.push_back(std::max<std::int64_t>(0, pass.saved));
    out.transient_bytes.push_back(std::max({std::int64_t{0}, pass.forward_transient, pass.backward_transient}));
    gather = std::min(gather, x.zero[k].gather_ns);
    reduction = std::min(reduction, x.zero[k].reduce_ns);
  }
  out.pass_forward_ns = cost::pass_ns(c.device, *c.engine, 1) + gather;
  out.pass_backward_ns = cost::pass_ns(c.device, *c.engine, 1) + reduction;
  out.fixed_bytes = c.device.workspace_bytes;
  out.message_bytes = 2 * least_boundary(*c.workload.model, layers);
  fill_ends(x, layers, out);
  return out;
}

/// Returns whether rules and engine admit a strategy as one of `like.stages` equal stages under the schedule.
bool rules_admit(const Problem& problem, RuleFacts& facts, const Strategy& s, std::int64_t samples, const Schedule& like) {
  Schedule schedule = like;
  schedule.micro_batch = static_cast<std::int32_t>(samples / s.dp);
  schedule.microbatches = static_cast<std::int32_t>(facts.global_batch / samples);
  facts.devices = s.devices() * schedule.stages;
  return is_legal(facts, s, schedule) && engine_allows(*problem.engine, facts, s, schedule);
}

/// Returns whether stages may split sequences: they are long, or the job names the dimension.
bool splits_sequence(const Problem& problem) {
  return problem.training.sequence.main >= kLongSequence || problem.space.restricts(Dimension::cp) ||
         problem.space.restricts(Dimension::cp_kind);
}

}  // namespace

std::vector<std::int64_t> unit_devices(const Cluster& cluster) {
  std::vector<std::int64_t> out;
  for (const NodeGroup& group : cluster.groups) {
    std::int64_t unit = 1;
    while (unit < group.devices_per_node && group.nodes * (group.devices_per_node / unit) > kMostUnits &&
           group.devices_per_node % (2 * unit) == 0)
      unit *= 2;
    if (group.nodes * (group.devices_per_node / unit) > kMostUnits || group.devices_per_node % unit != 0)
      unit = group.devices_per_node;
    out.push_back(unit);
  }
  return out;
}

bool pipeline_admitted(const Problem& problem, const Pipeline& pipeline, std::int64_t samples) {
  RuleFacts facts = rule_facts(*problem.model, *problem.cluster, problem.training, pipeline.schedule.stages);
  for (const Stage& stage : pipeline.stages) {
    Strategy s = stage.chunks.front().ranges.front().strategy;
    if (s.recompute.kind == RecomputeKind::full)
      s.recompute.layers = 1;  // the rule counts blocks of the fullest stage of an even split
    if (!rules_admit(problem, facts, s, samples, pipeline.schedule)) return false;
  }
  return true;
}

bool stage_admitted(const Problem& problem, RuleFacts& facts, const Strategy& s, std::int64_t samples) {
  if (samples % s.dp != 0) return false;
  Schedule one;
  if (!rules_admit(problem, facts, s, samples, one)) return false;
  one.micro_batch = static_cast<std::int32_t>(samples / s.dp);
  one.microbatches = static_cast<std::int32_t>(facts.global_batch / samples);
  for (const Dimension d : {Dimension::tp, Dimension::sp, Dimension::cp, Dimension::cp_kind, Dimension::ep, Dimension::etp,
                            Dimension::dp, Dimension::zero, Dimension::recompute, Dimension::offload, Dimension::micro_batch})
    if (!(d == Dimension::recompute && s.recompute.modules.any()) && !problem.space.admits(d, get(d, s, one))) return false;
  return true;
}

StageOptions stage_options(const Problem& problem, const cost::ClusterCosts& costs, std::int64_t samples) {
  StageOptions out;
  RuleFacts facts = rule_facts(*problem.model, *problem.cluster, problem.training, 1);
  const std::vector<std::int64_t> unit = unit_devices(*problem.cluster);
  const std::vector<Recompute> recomputes = layer_recomputes(problem);
  StagePorts ports;
  for (std::size_t g = 0; g < problem.cluster->groups.size(); ++g) {
    const NodeGroup& group = problem.cluster->groups[g];
    const cost::CostContext& c = costs.of(g);
    std::vector<cost::LayerCost> layers;
    for (std::int64_t devices = unit[g]; devices <= group.nodes * group.devices_per_node; devices += unit[g]) {
      const bool inside = devices < group.devices_per_node;
      if (inside ? !is_power_of_two(devices / unit[g]) || group.devices_per_node % devices != 0
                 : devices % group.devices_per_node != 0)
        continue;
      const Strategy* before = nullptr;
      for (const Strategy& s : strategies_of(group, devices, facts, splits_sequence(problem), recomputes)) {
        if (!stage_admitted(problem, facts, s, samples)) continue;
        const bool same = before != nullptr && before->tp == s.tp && before->cp == s.cp && before->cp_kind == s.cp_kind &&
                          before->sp == s.sp && before->ep == s.ep && before->recompute.modules == s.recompute.modules;
        if (!same) cost::layer_costs(c, s, 1, static_cast<std::int32_t>(samples / s.dp), layers);
        before = &s;
        solve::StageOption option = option_of(c, s, layers);
        option.kind = static_cast<std::int32_t>(g);
        option.units = static_cast<std::int32_t>(devices / unit[g]);
        const auto usable = static_cast<double>(problem.cluster->usable_memory(g).count());
        option.memory_bytes = static_cast<std::int64_t>(usable / (1.0 + c.engine->memory.allocator_reserve));
        option.port = ports.of(g, c, s, layers);
        out.options.push_back(std::move(option));
        out.choices.push_back({g, s});
      }
    }
  }
  ports.fill(problem, costs, out);
  return out;
}

}  // namespace espalier::search
