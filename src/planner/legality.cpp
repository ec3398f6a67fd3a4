// SPDX-License-Identifier: Apache-2.0
#include "planner/legality.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/document.h"
#include "cost/cluster_costs.h"
#include "plan/device_block.h"
#include "plan/engine.h"
#include "plan/engine_rules.h"
#include "plan/layer_freedom.h"
#include "plan/listed_devices.h"
#include "planner/plan_layers.h"
#include "search/pruning.h"

namespace espalier::planner {

std::string named_rules(const std::vector<RuleViolation>& broken) {
  std::string out;
  for (const RuleViolation& v : broken) out += (out.empty() ? "" : "; ") + v.rule + ": " + v.text;
  return out;
}

Status illegal(const Job& job, const EngineModel& engine, const Strategy& strategy, const Schedule& schedule) {
  auto broken = violations(job.model, job.cluster, job.training, strategy, schedule, engine.split);
  if (broken.empty()) broken = engine_violations(engine, job.model, job.cluster, job.training, strategy, schedule);
  if (broken.empty()) return {};
  return Error{ErrorKind::usage, "strategy", named_rules(broken),
               "a configuration that satisfies every rule of the space and of engine " + engine.name,
               "espalier plan, or improve for a file, searches the configurations that satisfy them"};
}

namespace {

/// Applies the rules of the space and of the engine to one range of a pipeline, as if all layers had its strategy.
Status illegal_range(const Job& job, const Pipeline& pipeline, bool uniform, const LayerRange& range) {
  const std::int64_t devices = device_count(pipeline);
  Strategy s = range.strategy;
  if (s.devices() * pipeline.schedule.stages != devices)
    return Error{ErrorKind::bad_input, "", "tp·cp·dp·pp that differs from the number of devices", std::to_string(devices),
                 "plan again from the job file"};
  Schedule schedule = pipeline.schedule;
  if (!uniform) {
    schedule.micro_batch = static_cast<std::int32_t>(pipeline.samples_per_microbatch() / s.dp);
    if (s.recompute.kind == RecomputeKind::full) {
      if (s.recompute.layers < 1 || s.recompute.layers > range.last - range.first + 1)
        return Error{ErrorKind::bad_input, "", "full recomputation of " + std::to_string(s.recompute.layers) + " layers",
                     "1 to the number of layers of the range", ""};
      s.recompute.layers = 1;  // the rule counts the blocks of the fullest chunk of an even split
    }
  }
  return illegal(job, *find_engine(job.engine), s, schedule);
}

/// Applies the rules to a stage that differs from others: those of a cluster of its own devices, which it fills alone.
Status illegal_stage(const Job& job, const Pipeline& pipeline, bool uniform, const Stage& stage, const LayerRange& range) {
  NodeGroup nodes = job.cluster.groups[job.cluster.group_of(stage.devices.front().first)];
  nodes.nodes = 1;
  nodes.devices_per_node = device_count(stage);
  Strategy s = range.strategy;
  s.overlap.p2p = false;
  if (s.recompute.kind == RecomputeKind::full) {
    // In a uniform plan the number may be that of its fullest stage.
    const bool too_many = !uniform && s.recompute.layers > range.last - range.first + 1;
    if (s.recompute.layers < 1 || too_many)
      return Error{ErrorKind::bad_input, "", "full recomputation of " + std::to_string(s.recompute.layers) + " layers",
                   "1 to the number of layers of the range", ""};
    s.recompute.layers = 1;
  }
  Schedule schedule = pipeline.schedule;
  if (schedule.kind == ScheduleKind::one_f_one_b)
    schedule.stages = 1;
  else
    nodes.nodes = schedule.stages;  // as if all stages were like it
  schedule.micro_batch = static_cast<std::int32_t>(pipeline.samples_per_microbatch() / s.dp);
  if (schedule.stages == 1) s.order = RankOrder::tp_cp_dp_pp;  // with one stage every order is the same
  Job alone = job;
  alone.cluster.groups = {std::move(nodes)};
  return illegal(alone, *find_engine(job.engine), s, schedule);
}

/// Rejects a restriction of a dimension that plans on heterogeneous devices do not vary: the search would ignore it.
Status unsearched_pin(const SearchSpace& space) {
  constexpr std::array kSearched = {Dimension::pp,      Dimension::tp,        Dimension::sp,          Dimension::cp,
                                    Dimension::cp_kind, Dimension::ep,        Dimension::etp,         Dimension::dp,
                                    Dimension::zero,    Dimension::recompute, Dimension::micro_batch, Dimension::schedule};
  std::vector<Dimension> named;
  for (const auto* part : {&space.allowed, &space.forbidden})
    for (const auto& [dimension, values] : *part) named.push_back(dimension);
  for (const auto& [dimension, most] : space.limits) named.push_back(dimension);
  std::string known;
  for (const Dimension d : kSearched) known += (known.empty() ? "" : ", ") + std::string(to_string(d));
  for (const Dimension d : named)
    if (std::find(kSearched.begin(), kSearched.end(), d) == kSearched.end())
      return Error{ErrorKind::bad_input, "search", "a restriction of " + std::string(to_string(d)) + " on unlike devices",
                   "restrictions of " + known, "remove it: stages on unlike devices run 1f1b in the order tp-cp-dp-pp"};
  if (!space.admits(Dimension::schedule, ScheduleKind::one_f_one_b))
    return Error{ErrorKind::bad_input, "search", "schedules without 1f1b on unlike devices", "schedules that include 1f1b",
                 "stages on unlike devices run 1f1b, and zb-h1 if it is listed: allow: {schedule: [1f1b, zb-h1]}"};
  return {};
}

}  // namespace

bool any_devices(const Job& job) {
  if (job.search.devices) return *job.search.devices != DeviceChoice::equal;
  return !job.cluster.equal_devices();
}

Status device_choice(const Job& job, const EngineModel& engine) {
  const bool one_group = job.cluster.homogeneous();
  if (!any_devices(job)) {
    if (job.cluster.equal_devices()) return {};
    const std::string found = one_group ? "devices of unequal speed" : "several node groups";
    return Error{ErrorKind::bad_input, "search.devices", "equal on a cluster of " + found, "any",
                 "no plan divides its stages equally over unlike devices"};
  }
  // Equal stages at the pace of the slowest device are what an engine for equal stages runs, so they are an answer.
  // The search itself checks pins (searched_pins); an explicit configuration sets its own values.
  if (one_group && job.cluster.has_speeds() && !job.search.devices) return {};
  if (is_unrestricted(engine.layers)) return unsearched_pin(job.search);
  return Error{ErrorKind::bad_input, one_group ? "search.devices" : "cluster.groups",
               "engine " + engine.name + ", whose stages must be equal", "an engine that runs unequal stages",
               one_group ? "engine: generic or espalier"
                         : "engine: generic plans over all groups; for " + engine.name +
                               " plan one group, or all nodes as the slowest kind (docs/how-to/unequal-devices.md)"};
}

Status searched_pins(const Job& job) { return any_devices(job) ? unsearched_pin(job.search) : Status(); }

Status layerwise_dimensions(const SearchSpace& space) {
  if (!space.restricts(Dimension::recompute_layers)) return {};
  return Error{ErrorKind::bad_input, "search",
               "a restriction of recompute_layers in search.space: " + std::string(to_string(space.kind)),
               "restrictions of recompute only", "in this space recomputation is decided per block"};
}

namespace {

/// Checks the strategies of a pipeline against the rules of space and engine. The pipeline must be the only
/// one of `plan`.
Status illegal_pipeline(const Job& job, const Plan& plan, bool unlike, const std::string& where) {
  const Pipeline& pipeline = plan.only_pipeline();
  const bool uniform = plan.uniform();
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    std::size_t position = 0;
    const Stage& stage = pipeline.stages[i];
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges) {
        const Status broken =
            unlike ? illegal_stage(job, pipeline, uniform, stage, range) : illegal_range(job, pipeline, uniform, range);
        if (broken.ok()) {
          ++position;
          continue;
        }
        Error error = broken.error();
        error.kind = ErrorKind::bad_input;
        error.hint = "plan again from the job file";
        error.where = "plan: " + where + ".stages[" + std::to_string(i) + "].layers[" + std::to_string(position) + "].strategy";
        return error;
      }
  }
  return {};
}

/// Returns a cluster of this many devices of a cluster of one group: whole nodes, or part of one.
Cluster cluster_of_devices(Cluster cluster, std::int64_t devices) {
  NodeGroup& group = cluster.groups.front();
  const bool whole_nodes = devices % group.devices_per_node == 0;
  group.nodes = whole_nodes ? devices / group.devices_per_node : 1;
  if (!whole_nodes) group.devices_per_node = devices;
  return cluster;
}

}  // namespace

Status plan_fits_job(const Job& job, const Plan& plan) {
  const std::int64_t devices = device_count(plan);
  const std::int32_t last_layer = last_layer_of(plan);
  const bool unlike = cost::on_unlike_devices(plan, job.cluster);
  // Equal stages on some of the devices form a plan of these alone (search.devices: any).
  const bool part = !unlike && devices < job.cluster.devices() && device_block(plan.only_pipeline(), job.cluster).has_value();
  if (unlike ? devices > job.cluster.devices() : devices != job.cluster.devices() && !part)
    return Error{ErrorKind::bad_input, "plan: $.pipelines[0].stages", std::to_string(devices) + " devices",
                 std::to_string(job.cluster.devices()) + " devices, as in the plan's cluster", "plan again from the job file"};
  if (last_layer + 1 != static_cast<std::int32_t>(job.model.layers.size()))
    return Error{ErrorKind::bad_input, "plan: $.pipelines[0].stages", "layers up to " + std::to_string(last_layer),
                 std::to_string(job.model.layers.size()) + " layers, as in the plan's model", "plan again from the job file"};
  const EngineModel& engine = *find_engine(job.engine);
  if (const auto faults = engine_plan_violations(engine, job.model, plan); !faults.empty())
    return Error{ErrorKind::bad_input, "plan: $.pipelines[0].stages", named_rules(faults),
                 "layers that engine " + engine.name + " can run", "plan again from the job file"};
  if (unlike)
    if (Status status = cost::unpriced_groups(plan); !status.ok()) return status;
  for (std::size_t p = 0; const Pipeline& pipeline : plan.pipelines) {
    Job own = job;
    own.training.global_batch = pipeline.samples;
    if (part) own.cluster = cluster_of_devices(job.cluster, devices);
    if (Status status = illegal_pipeline(own, plan.alone(p), unlike, "$.pipelines[" + std::to_string(p) + "]"); !status.ok())
      return status;
    ++p;
  }
  return {};
}

Error unknown_pruning_rule(const std::string& name) {
  std::vector<std::string> known;
  std::string list;
  for (const auto& rule : search::pruning_rules()) {
    known.emplace_back(rule.name);
    list += (list.empty() ? "" : ", ") + known.back();
  }
  const std::string near = base::suggestion(name, known);
  return Error{ErrorKind::usage, "--no-rule", "\"" + name + "\"", "one of " + list,
               near.empty() ? "choose one of these names" : near};
}

Error unknown_phase(const std::string& name, const std::vector<std::string>& known) {
  std::string list;
  for (std::size_t i = 1; i < known.size(); ++i) list += (i > 1 ? ", " : "") + known[i];
  const std::string near = base::suggestion(name, known);
  return Error{ErrorKind::usage, "--no-phase", "\"" + name + "\"", "one of " + list,
               near.empty() ? "the first phase, " + known.front() + ", always runs" : near};
}

}  // namespace espalier::planner
