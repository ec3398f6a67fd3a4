// SPDX-License-Identifier: Apache-2.0
#include "planner/prediction.h"

#include <algorithm>
#include <limits>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "cost/cluster_costs.h"
#include "cost/offload.h"
#include "cost/partitioned_block.h"
#include "cost/price.h"
#include "cost/state_memory.h"
#include "job/calibration_file.h"
#include "plan/engine.h"
#include "plan/listed_devices.h"
#include "plan/operator_partition.h"
#include "plan/recompute_modules.h"
#include "plan/rules.h"
#include "plan/sequence_lengths.h"
#include "plan/step_tokens.h"
#include "plan/structure.h"
#include "plan/uniform.h"
#include "planner/estimate.h"
#include "planner/expense.h"
#include "planner/flow_prediction.h"
#include "planner/interval.h"
#include "planner/interval_exceptions.h"
#include "planner/memory_margin.h"
#include "planner/own_confidence.h"
#include "planner/plan_claims.h"
#include "planner/support.h"
#include "sim/simulator.h"

namespace espalier::planner {
namespace {

constexpr double kLevel = 0.8;  // level of the shipped intervals

/// Returns the model FLOPs of a step. Packed or padded sequences count their own tokens, each sequence by itself.
/// With `causal_half`, causal attention counts only the half of the scores that is needed.
double flops_of_step(const Job& job, bool causal_half = false) {
  const auto samples = static_cast<double>(job.training.global_batch);
  const LengthFacts lengths = length_facts(job.training);
  if (!lengths.any) return training_flops(job.model, job.training.sequence, causal_half).count() * samples;
  double flops = 0, weight = 0;
  for (const LengthShare& share : lengths.histogram) {
    flops += share.weight * training_flops(job.model, Sequence{share.tokens, 0, 0}, causal_half).count();
    weight += share.weight;
  }
  return flops / weight * lengths.sequences * samples;
}

/// Returns the usable memory of the devices of a rank class: that of the node group with the least.
std::int64_t limit_of(const Job& job, const RankClass& rank) {
  std::int64_t least = job.cluster.usable_memory(job.cluster.group_of(rank.device())).count();
  for (const DeviceRange& range : rank.devices)
    for (std::int64_t n = 0; n < range.count; ++n) {
      const std::size_t group = job.cluster.group_of(range.first + n * range.stride);
      least = std::min(least, job.cluster.usable_memory(group).count());
    }
  return least;
}

/// Holds the memory of the fullest rank of a class, and its limit.
struct HeldMemory {
  MemoryPeak peak;
  cost::StaticMemory fixed;
  std::int64_t limit = 0;
  [[nodiscard]] double share() const { return static_cast<double>(peak.bytes) / static_cast<double>(limit); }
};

HeldMemory held_by(const Job& job, const Timed& timed, std::size_t rank) {
  const RankClass& of = timed.program.ranks[rank];
  const StageId row = timed.program.stage_row(of);
  HeldMemory most{timed.simulation.ranks[rank].memory, timed.costs.stages[row].memory, limit_of(job, of)};
  for (std::size_t k = 0; k < timed.kinds.size(); ++k) {
    const KindMemory& kind = timed.kinds[k];
    const HeldMemory own{kind.peaks[rank], kind.kind.costs.stages[row].memory,
                         job.cluster.usable_memory(kind.kind.group[row.index()]).count()};
    if (k == 0 || own.share() > most.share()) most = own;
  }
  return most;
}

/// Fills in the memory of the fullest rank, which leaves the smallest share of its device's limit. Among equal
/// devices it is the one that holds most.
void fill_memory(const Job& job, const Timed& timed, Prediction& p) {
  HeldMemory fullest;
  for (std::size_t i = 0; i < timed.simulation.ranks.size(); ++i) {
    const HeldMemory held = held_by(job, timed, i);
    p.peak_memory_bytes_per_stage.push_back(held.peak.bytes);
    const bool alike = held.limit == fullest.limit;
    if (i == 0 || (alike ? held.peak.bytes > fullest.peak.bytes : held.share() > fullest.share())) fullest = held;
  }
  const MemoryPeak& peak = fullest.peak;
  const cost::StaticMemory& fixed = fullest.fixed;
  p.memory_limit_bytes = fullest.limit;
  p.peak_memory_bytes = peak.bytes;
  p.memory = {fixed.parameters,
              fixed.gradients,
              fixed.optimizer,
              peak.activations,
              fixed.communication_buffers,
              fixed.framework + peak.reserve};
}

/// Returns the busiest stage, counted through all pipelines. In a folded program each rank represents a stage; if a
/// stage has several ranks, the busiest counts.
Bottleneck bottleneck_of(const Timed& timed) {
  Bottleneck out;
  const auto whole = static_cast<double>(std::max<std::int64_t>(1, timed.simulation.iteration_ns));
  std::int64_t least_idle = INT64_MAX;
  out.busy_per_stage.assign(timed.costs.stages.size(), 0.0);
  for (std::size_t i = 0; i < timed.simulation.ranks.size(); ++i) {
    const std::int32_t stage = timed.program.stage_row(timed.program.ranks[i]).value;
    const Breakdown& b = timed.simulation.ranks[i].breakdown;
    const double busy = 1.0 - static_cast<double>(b.bubble_ns) / whole;
    double& of_stage = out.busy_per_stage[static_cast<std::size_t>(stage)];
    of_stage = std::max(of_stage, busy);
    if (b.bubble_ns >= least_idle) continue;
    least_idle = b.bubble_ns;
    out.stage = stage;
    out.busy = busy;
    out.breakdown = b;
  }
  return out;
}

/// Rejects jobs above sizes up to which sums of bytes and nanoseconds stay in 64 bits. The sizes are far above
/// any real job.
Status too_large(const Job& job) {
  constexpr double kMostElements = 0x1p58, kMostSeconds = 3e8;
  double elements = 0;
  for (std::size_t i = 0; i < job.model.layers.size(); ++i) {
    const LayerKind& kind = job.model.layer(i);
    const double tokens = static_cast<double>(tokens_per_sample(kind, job.training.sequence));
    for (const Operator& op : kind.operators) {
      elements += tokens * static_cast<double>(op.in + op.out) * std::max(1, op.top_k);
      elements += tokens * (tokens + static_cast<double>(job.training.sequence.encoder)) * op.heads;
    }
  }
  elements *= static_cast<double>(job.training.global_batch) * std::max(1.0, job.training.moe_imbalance);
  const double flops = flops_of_step(job);
  double slowest = std::numeric_limits<double>::infinity();
  for (const NodeGroup& group : job.cluster.groups)
    slowest = std::min(slowest, group.device.peak_of(job.training.precision).count());
  const double seconds = flops / (0.01 * slowest);
  if (elements < kMostElements && seconds < kMostSeconds) return {};
  return Error{ErrorKind::bad_input, "training",
               "a step that would take one device " + std::to_string(seconds / 86400) + " days or more to compute",
               "a realistic global batch and sequence length", "training.global_batch counts samples, sequence_length tokens"};
}

/// Returns whether tokens attend only to those of their piece of the sequence, as in Llama 4.
bool attends_in_pieces(const Model& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(), [](const LayerKind& kind) {
    return std::any_of(kind.operators.begin(), kind.operators.end(),
                       [](const Operator& op) { return op.kind == OperatorKind::attention && op.chunk > 0; });
  });
}

/// Returns the mean over all devices of the cluster.
double mean_peak_tflops(const Job& job) {
  if (job.cluster.homogeneous()) return job.cluster.groups.front().device.peak_of(job.training.precision).count() * 1e-12;
  double sum = 0;
  for (const NodeGroup& group : job.cluster.groups)
    sum += static_cast<double>(group.nodes * group.devices_per_node) * group.device.peak_of(job.training.precision).count();
  return sum / static_cast<double>(job.cluster.devices()) * 1e-12;
}

/// Returns the interval of the device; of several kinds the widest, and the basis of each.
PredictionInterval interval_of(const Job& job, const EngineModel& engine) {
  PredictionInterval out;
  std::vector<std::string> seen;
  for (const NodeGroup& group : job.cluster.groups) {
    if (std::find(seen.begin(), seen.end(), group.device.name) != seen.end()) continue;
    const PredictionInterval own = interval_for(shipped_intervals(), engine.name, group.device.name);
    if (seen.empty()) {
      out = own;
    } else {
      out.low = std::min(out.low, own.low);
      out.high = std::max(out.high, own.high);
      out.basis += "; " + own.basis;
    }
    seen.push_back(group.device.name);
  }
  return out;
}

}  // namespace

Result<const EngineModel*> engine_of(const Job& job) {
  if (job.engine_model) return job.engine_model.get();
  if (const EngineModel* engine = find_engine(job.engine)) return engine;
  std::string known;
  for (const EngineModel& e : engine_catalogue()) known += (known.empty() ? "" : ", ") + e.name;
  return Error{ErrorKind::bad_input, "engine", "\"" + job.engine + "\"", "one of " + known, "choose one of these words"};
}

Status plannable(const Job& job) {
  for (const NodeGroup& group : job.cluster.groups)
    if (group.device.peak_of(job.training.precision).count() <= 0)
      return Error{ErrorKind::bad_input, "training.precision", std::string(to_string(job.training.precision)),
                   "a precision that " + group.device.name + " supports", "see data/devices.yaml"};
  for (const FabricLevel& level : job.cluster.levels())
    if (!level.trace.empty())
      return Error{ErrorKind::bad_input, "cluster: fabric level \"" + level.name + "\"", "a bandwidth trace", "constant links",
                   "plans for changing networks are not supported yet: see docs/non-goals.md"};
  if (job.cluster.changes())
    return Error{ErrorKind::bad_input, "cluster: capacity, events", "a cluster that changes over time", "a constant cluster",
                 "plans for changing networks are not supported yet: see docs/non-goals.md"};
  if (job.network == NetworkKind::flow && job.cluster.devices() > kMostFlowDevices)
    return Error{ErrorKind::bad_input, "--network flow", std::to_string(job.cluster.devices()) + " devices",
                 "at most " + std::to_string(kMostFlowDevices), "the closed form (--network closed) has no limit"};
  if (length_facts(job.training).packed && attends_in_pieces(job.model))
    return Error{ErrorKind::bad_input, "training.lengths",
                 "packed samples of a model with chunked attention (" + job.model.name + ")", "packing: none",
                 "chunks in samples of several sequences are not modelled"};
  return too_large(job);
}

void stamp_calibration(const Job& job, Plan& plan) {
  plan.calibration_name = job.calibration ? job.calibration->name : "";
  plan.calibration_hash = job.calibration ? job.calibration->hash : "";
  plan.calibration_source = job.calibration ? job.calibration->source : "";
}

void stamp_inputs(const Job& job, Plan& plan) {
  if (const auto engine = engine_of(job)) name_modules(**engine, job.model, plan);
  plan.model_source = job.model_source;
  plan.cluster_source = job.cluster_source;
  plan.model_hash = base::content_hash(job.model_source);
  plan.cluster_hash = base::content_hash(job.cluster_source);
  stamp_calibration(job, plan);
}

namespace {

Plan plan_of(const Model& model, const Cluster& cluster, const Training& training, const EngineModel& engine,
             const Schedule& schedule, const std::vector<std::vector<LayerRange>>& chunks) {
  Pipeline pipeline = uniform_pipeline(model, training, chunks.front().front().strategy, schedule, engine.split);
  for (std::int32_t i = 0; i < schedule.stages; ++i)
    for (std::int32_t k = 0; k < schedule.virtual_stages; ++k)
      pipeline.stages[static_cast<std::size_t>(i)].chunks[static_cast<std::size_t>(k)].ranges =
          chunks[static_cast<std::size_t>(pipeline_chunk(schedule, i, k))];
  return plan_of_pipeline(model, cluster, training, engine.name, std::move(pipeline));
}

}  // namespace

Plan plan_of(const search::CandidatePlan& c) {
  ESPALIER_CHECK((c.strategy == nullptr) != (c.chunks == nullptr));
  const search::Problem& p = c.problem;
  if (c.chunks != nullptr) return plan_of(*p.model, *p.cluster, p.training, *p.engine, c.schedule, *c.chunks);
  return make_uniform_plan(*p.model, *p.cluster, p.training, p.engine->name, *c.strategy, c.schedule, p.engine->split);
}

Plan document_of(const Job& job, const EngineModel& engine, const Strategy& strategy, const Schedule& schedule) {
  Plan plan = make_uniform_plan(job.model, job.cluster, job.training, engine.name, strategy, schedule, engine.split);
  stamp_inputs(job, plan);
  return plan;
}

Plan document_of(const Job& job, const EngineModel& engine, const Schedule& schedule,
                 const std::vector<std::vector<LayerRange>>& chunks) {
  Plan plan = plan_of(job.model, job.cluster, job.training, engine, schedule, chunks);
  stamp_inputs(job, plan);
  return plan;
}

Plan document_of(const Job& job, const EngineModel& engine, const search::PlanCandidate& best) {
  if (!best.pipelines.empty()) {
    // Model, cluster and training are the same in every plan of the job.
    Strategy one;
    one.dp = static_cast<std::int32_t>(job.cluster.devices());
    Plan plan = make_uniform_plan(job.model, job.cluster, job.training, engine.name, one, Schedule{}, engine.split);
    plan.pipelines = best.pipelines;
    stamp_inputs(job, plan);
    return plan;
  }
  if (best.chunks.empty()) return document_of(job, engine, best.strategy, best.schedule);
  return document_of(job, engine, best.schedule, best.chunks);
}

Result<Timed> time_plan(const Job& job, const EngineModel& engine, const Plan& plan, bool spans, cost::WanLatency ways) {
  if (Status status = support(job, engine, plan); !status.ok()) return status.error();
  const cost::ClusterCosts costs(job.model, job.cluster, job.training, engine, ways);
  Timed timed;
  std::vector<cost::KindCosts> kinds;
  timed.costs = cost::price(costs, plan, timed.program, &kinds);
  sim::Simulator simulator;
  auto simulation = simulator.run(timed.program, timed.costs, {spans});
  if (!simulation) return simulation.error();
  timed.simulation = std::move(*simulation);
  for (cost::KindCosts& kind : kinds) {
    const auto alone = simulator.run(timed.program, kind.costs);
    if (!alone) return alone.error();
    KindMemory memory{std::move(kind), {}};
    for (const auto& rank : alone->ranks) memory.peaks.push_back(rank.memory);
    timed.kinds.push_back(std::move(memory));
  }
  if (job.network == NetworkKind::closed) return timed;
  auto flow = simulate_flow(costs, plan, timed.program, timed.costs, spans);
  if (!flow) return flow.error();
  timed.network = NetworkPrediction{timed.simulation.iteration_ns, std::move(flow->links)};
  timed.simulation = std::move(flow->simulation);
  return timed;
}

Prediction prediction_of(const Job& job, const EngineModel& engine, const Timed& timed) {
  Prediction p;
  p.iteration_ns = timed.simulation.iteration_ns;
  const auto& last = timed.simulation.ranks[static_cast<std::size_t>(timed.simulation.last_rank)];
  p.breakdown = last.breakdown;
  p.last_stage = timed.program.stage_row(timed.program.ranks[static_cast<std::size_t>(timed.simulation.last_rank)]).value;
  p.bottleneck = bottleneck_of(timed);
  p.hidden_communication_ns = last.hidden_communication_ns;
  fill_memory(job, timed, p);
  p.fits = p.peak_memory_bytes <= p.memory_limit_bytes && cost::host_fits(job.cluster, timed.costs);
  p.memory_margin = memory_margin_of(job).share;
  p.fits_with_margin = p.fits && p.peak_memory_bytes <= room_of(p.memory_limit_bytes, p.memory_margin);
  const double seconds = static_cast<double>(p.iteration_ns) * 1e-9, devices = static_cast<double>(job.cluster.devices());
  const double tokens = real_tokens_of_step(job.training);
  p.tokens_per_s_per_device = tokens / seconds / devices;
  const double flops = flops_of_step(job);
  p.model_tflops_per_device = flops / seconds / devices * 1e-12;
  p.mfu_peak_tflops = mean_peak_tflops(job);
  p.mfu = p.model_tflops_per_device / p.mfu_peak_tflops;
  p.mfu_causal = p.mfu * flops_of_step(job, true) / flops;
  const PredictionInterval interval =
      widened(interval_of(job, engine), interval_facts(job, engine, timed.program), shipped_interval_exceptions());
  p.confidence = {seconds * interval.low, seconds * interval.high, kLevel, interval.basis};
  if (job.calibration) {
    if (auto own = calibrated_confidence(*job.calibration, seconds, job.cluster.devices())) p.confidence = std::move(*own);
  }
  if (job.training.tokens > 0) {
    p.days = job.training.tokens / tokens * seconds / 86400.0;
    p.device_hours = p.days * 24.0 * devices;
  }
  p.network = timed.network;
  p.cost = expense_of(job, engine, timed, tokens);
  if (p.cost && job.training.tokens > 0) p.cost->whole_run = p.cost->per_token * job.training.tokens;
  return p;
}

Result<Prediction> predict(const Job& job, const Strategy& strategy, const Schedule& schedule) {
  const auto engine = engine_of(job);
  if (!engine) return engine.error();
  return predict_with(job, **engine, strategy, schedule);
}

Result<Prediction> predict_with(const Job& job, const EngineModel& engine, const Strategy& strategy, const Schedule& schedule) {
  if (Status status = plannable(job); !status.ok()) return status.error();
  const auto broken = violations(job.model, job.cluster, job.training, strategy, schedule, engine.split);
  if (!broken.empty()) {
    std::string found, hints;
    for (const auto& v : broken) {
      found += (found.empty() ? "" : "; ") + v.rule + ": " + v.text;
      if (!v.hint.empty()) hints += (hints.empty() ? "" : "; ") + v.hint;
    }
    return Error{ErrorKind::bad_input, "strategy", found, "a configuration that satisfies every rule of the space", hints};
  }
  const auto timed = time_plan(job, engine, document_of(job, engine, strategy, schedule), false);
  if (!timed) return timed.error();
  return prediction_of(job, engine, *timed);
}

Result<Prediction> predict_plan(const Job& job, const Plan& plan) {
  const auto engine = engine_of(job);
  if (!engine) return engine.error();
  if (Status status = plannable(job); !status.ok()) return status.error();
  const auto timed = time_plan(job, **engine, plan, false);
  if (!timed) return timed.error();
  return prediction_of(job, **engine, *timed);
}

bool is_wan_latency(double seconds) { return seconds >= cost::kWanLatencyThreshold; }

Result<Prediction> predict_over_wan(const Job& job, const Plan& plan) {
  const auto engine = engine_of(job);
  if (!engine) return engine.error();
  if (Status status = plannable(job); !status.ok()) return status.error();
  // Every plan is priced by stage here.
  if (Status status = cost::unpriced_groups(plan); !status.ok()) return status.error();
  const auto timed = time_plan(job, **engine, plan, false, cost::WanLatency::pipelined);
  if (!timed) return timed.error();
  return prediction_of(job, **engine, *timed);
}

namespace {

/// Returns the claims about stages and chunks under some costs of the program.
check::Claims claims_under(const cost::Costs& costs, const Program& program, const StatePolicy& states) {
  check::Claims claims;
  for (const auto& stage : costs.stages) {
    claims.static_bytes_per_stage.push_back(stage.memory.parameters + stage.memory.gradients + stage.memory.optimizer);
    claims.gradient_bytes_per_stage.push_back(states.reduce * stage.reduced_elements);
  }
  for (const PipelineProgram& part : program.pipelines) {
    for (std::int32_t c = 0; c < part.structure.chunks(); ++c) {
      const WorkId forward(part.first_work + part.structure.forward(ChunkId(c)).value);
      const TransferId into(part.first_transfer + (c > 0 ? part.structure.transfer(ChunkId(c), false).value : 0));
      claims.saved_bytes_per_chunk.push_back(costs.works[forward].memory.before.count());
      claims.boundary_bytes_per_chunk.push_back(c > 0 ? program.transfers[into].bytes : 0);
    }
  }
  return claims;
}

}  // namespace

check::Claims claims_of(const Job& job, const EngineModel& engine, const Timed& timed) {
  const StatePolicy states = states_of(engine, job.training);
  check::Claims claims = claims_under(timed.costs, timed.program, states);
  claims.iteration_ns = timed.simulation.iteration_ns;
  for (const auto& rank : timed.simulation.ranks) claims.peak_bytes_per_stage.push_back(rank.memory.bytes);
  for (const KindMemory& kind : timed.kinds) {
    claims.kinds.push_back(claims_under(kind.kind.costs, timed.program, states));
    for (const MemoryPeak& peak : kind.peaks) claims.kinds.back().peak_bytes_per_stage.push_back(peak.bytes);
  }
  claims.memory_limit_bytes = limit_of(job, timed.program.ranks.front());
  for (const RankClass& rank : timed.program.ranks)
    claims.memory_limit_bytes = std::min(claims.memory_limit_bytes, limit_of(job, rank));
  return claims;
}

Result<check::Claims> claims_of(const Job& job, const Plan& plan) {
  const auto engine = engine_of(job);
  if (!engine) return engine.error();
  if (Status status = plannable(job); !status.ok()) return status.error();
  const auto timed = time_plan(job, **engine, plan, false);
  if (!timed) return timed.error();
  return claims_of(job, **engine, *timed);
}

}  // namespace espalier::planner
