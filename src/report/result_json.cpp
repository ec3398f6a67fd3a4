// SPDX-License-Identifier: Apache-2.0
// Writes the result document, schema espalier.result/1: keys in the order of docs/file-formats.md, durations in
// seconds with nine digits, sizes in bytes. Everything but the last object, `timing`, is equal byte for byte on every
// run.
#include "espalier/planner.h"

#include <cmath>

#include "base/document.h"
#include "job/search_part.h"
#include "plan/plan_json.h"
#include "report/beside_json.h"
#include "report/digest.h"
#include "report/nanoseconds.h"

namespace espalier::report {
namespace {

void write_count(JsonWriter& w, double count) {
  if (count >= 0 && count < kExact && count == std::floor(count))
    w.value(static_cast<std::int64_t>(count));
  else
    w.value(count);
}

void write_parts(JsonWriter& w, const Breakdown& b) {
  w.key("breakdown_s").compact_next().begin_object();
  w.key("compute").seconds(b.compute_ns);
  w.key("exposed_communication").seconds(b.exposed_communication_ns);
  w.key("bubble").seconds(b.bubble_ns);
  w.key("optimizer").seconds(b.optimizer_ns);
  w.key("other").seconds(b.other_ns);
  w.end_object();
}

void write_bottleneck(JsonWriter& w, const Bottleneck& b) {
  w.key("bottleneck").begin_object();
  w.key("stage").value(b.stage);
  w.key("busy").value(b.busy);
  write_parts(w, b.breakdown);
  w.key("busy_per_stage").compact_next().begin_array();
  for (const double busy : b.busy_per_stage) w.value(busy);
  w.end_array();
  w.end_object();
}

void write_breakdown(JsonWriter& w, const Prediction& p) {
  write_parts(w, p.breakdown);
  w.key("last_stage").value(p.last_stage);
  w.key("step_host_s").seconds(p.breakdown.step_host_ns);
  w.key("hidden_communication_s").seconds(p.hidden_communication_ns);
  write_bottleneck(w, p.bottleneck);
}

void write_memory(JsonWriter& w, const Prediction& p) {
  w.key("peak_memory_bytes").value(p.peak_memory_bytes);
  w.key("peak_memory_bytes_per_stage").compact_next().begin_array();
  for (std::int64_t bytes : p.peak_memory_bytes_per_stage) w.value(bytes);
  w.end_array();
  w.key("memory_breakdown_bytes").compact_next().begin_object();
  w.key("parameters").value(p.memory.parameters);
  w.key("gradients").value(p.memory.gradients);
  w.key("optimizer").value(p.memory.optimizer);
  w.key("activations").value(p.memory.activations);
  w.key("communication_buffers").value(p.memory.communication_buffers);
  w.key("framework").value(p.memory.framework);
  w.end_object();
  w.key("memory_limit_bytes").value(p.memory_limit_bytes);
  w.key("fits").value(p.fits);
  w.key("memory_margin").value(p.memory_margin);
  w.key("fits_with_margin").value(p.fits_with_margin);
}

void write_network(JsonWriter& w, const NetworkPrediction& n) {
  w.key("network").begin_object();
  w.key("model").value("flow");
  w.key("closed_iteration_s").seconds(n.closed_iteration_ns);
  w.key("links").begin_array();
  for (const LinkUse& use : n.links) {
    w.compact_next().begin_object();
    w.key("link").value(use.link).key("links").value(use.links).key("bytes").value(use.bytes);
    w.key("busy").value(use.busy).key("highest_load").value(use.highest_load);
    w.end_object();
  }
  w.end_array().end_object();
}

void write_cost(JsonWriter& w, const Expense& cost) {
  w.key("cost").compact_next().begin_object();
  w.key("per_step").value(cost.per_step).key("per_token").value(cost.per_token).key("currency").value(cost.currency);
  w.key("per_hour").value(cost.per_hour).key("devices").value(cost.devices);
  if (cost.egress_per_step > 0) w.key("egress_per_step").value(cost.egress_per_step);
  if (cost.whole_run > 0) w.key("whole_run").value(cost.whole_run);
  w.end_object();
}

void write_prediction(JsonWriter& w, const Prediction& p) {
  w.key("prediction").begin_object();
  w.key("iteration_s").seconds(p.iteration_ns);
  w.key("tokens_per_s_per_gpu").value(p.tokens_per_s_per_device);
  w.key("model_tflops_per_gpu").value(p.model_tflops_per_device);
  w.key("mfu").value(p.mfu);
  if (p.mfu_causal > 0) w.key("mfu_causal").value(p.mfu_causal);
  w.key("mfu_peak_tflops").value(p.mfu_peak_tflops);
  write_breakdown(w, p);
  write_memory(w, p);
  w.key("confidence").compact_next().begin_object();
  w.key("iteration_s_low").seconds(to_ns(p.confidence.low_s));
  w.key("iteration_s_high").seconds(to_ns(p.confidence.high_s));
  w.key("level").value(p.confidence.level);
  w.key("basis").value(p.confidence.basis);
  w.end_object();
  if (p.days > 0) w.key("days").value(p.days);
  if (p.device_hours > 0) w.key("gpu_hours").value(p.device_hours);
  if (p.network) write_network(w, *p.network);
  if (p.cost) write_cost(w, *p.cost);
  w.end_object();
}

void write_layerwise(JsonWriter& w, const LayerwiseSummary& s) {
  w.key("layerwise").begin_object();
  w.key("uniform_s").seconds(s.uniform_ns);
  w.key("strategies");
  write_count(w, s.strategies);
  w.key("kept");
  write_count(w, s.kept);
  w.key("outer").value(s.outer).key("solved").value(s.solved).key("simulated").value(s.simulated);
  w.key("refinement").compact_next().begin_object();
  w.key("tried").value(s.refinement_tried).key("left").value(s.refinement_left).end_object();
  w.key("balance").begin_array();
  for (const StageBalance& b : s.balance) {
    w.compact_next().begin_object().key("partition").value(b.name).key("first").begin_array();
    for (const std::int32_t layer : b.first) w.value(layer);
    w.end_array().key("alpha_t").value(b.alpha_t).key("alpha_m").value(b.alpha_m).key("iteration_s").seconds(b.iteration_ns);
    w.end_object();
  }
  w.end_array().end_object();
}

void write_partitions(JsonWriter& w, const PartitionSummary& s) {
  w.key("partitions").begin_object();
  w.key("without_s").seconds(s.without_ns);
  w.key("groups").value(s.groups).key("solved").value(s.solved).key("offered").value(s.offered);
  w.key("certified").value(s.certified).key("lower_bound_s").seconds(s.lower_bound_ns);
  w.end_object();
}

void write_device_groups(JsonWriter& w, const DeviceGroupsSummary& s) {
  w.key("device_groups").compact_next().begin_object();
  w.key("sizes").value(s.sizes).key("options").value(s.options).key("dropped").value(s.dropped).key("states").value(s.states);
  w.key("candidates").value(s.candidates).key("simulated").value(s.simulated).key("refined").value(s.refined);
  w.key("without_room").value(s.without_room);
  if (s.alone > 0) {
    w.key("alone");
    write_count(w, s.alone);
    w.key("alone_simulated").value(s.alone_simulated);
    w.key("columns").value(s.columns).key("combinations").value(s.combinations);
    w.key("beside_simulated").value(s.beside_simulated).key("several_pipelines").value(s.several_pipelines);
    w.key("replica_plans").value(s.replica_plans).key("replicas_simulated").value(s.replicas_simulated);
    w.key("unequal_replicas").value(s.uneven_replicas);
  }
  w.end_object();
}

void write_operators(JsonWriter& w, const std::vector<OperatorReport>& operators) {
  w.key("operators").begin_array();
  for (const OperatorReport& o : operators) {
    w.compact_next().begin_object();
    w.key("first_layer").value(o.first_layer).key("devices").value(o.devices).key("name").value(o.name);
    w.key("partition").value(o.sequence).key("compute_s").seconds(o.compute_ns).key("collective_s").seconds(o.collective_ns);
    w.key("ring_hidden_s").seconds(o.ring_hidden_ns).key("ring_exposed_s").seconds(o.ring_exposed_ns);
    w.key("redistribution_s").seconds(o.redistribution_ns).key("gradient_sync_s").seconds(o.gradient_sync_ns);
    w.end_object();
  }
  w.end_array();
}

/// Writes values under their names, as in a job file.
void write_values(JsonWriter& w, std::string_view key, const SearchSpace::Values& dimensions) {
  if (dimensions.empty()) return;
  w.key(key).begin_object();
  for (const auto& [dimension, values] : dimensions) {
    w.key(to_string(dimension)).begin_array();
    for (const std::int64_t value : values) {
      const std::string name = value_text(dimension, value);
      if (name == std::to_string(value))
        w.value(value);
      else
        w.value(name);
    }
    w.end_array();
  }
  w.end_object();
}

void write_request(JsonWriter& w, const SearchRequest& asked) {
  w.key("asked").compact_next().begin_object();
  w.key("space").value(to_string(asked.space.kind));
  if (asked.space.devices) w.key("devices").value(to_string(*asked.space.devices));
  write_values(w, "allow", asked.space.allowed);
  write_values(w, "forbid", asked.space.forbidden);
  if (!asked.space.limits.empty()) {
    w.key("limits").begin_object();
    for (const auto& [dimension, most] : asked.space.limits) w.key(to_string(dimension)).value(most);
    w.end_object();
  }
  if (asked.space.recompute_modules.any()) {
    w.key("recompute_modules").begin_array();
    asked.space.recompute_modules.each([&](RecomputeModule module) { w.value(to_string(module)); });
    w.end_array();
  }
  if (asked.space.memory_margin) w.key("memory_margin").value(*asked.space.memory_margin);
  if (asked.node_limit > 0) w.key("node_limit").value(asked.node_limit);
  if (!asked.left_out_phases.empty()) {
    w.key("left_out_phases").begin_array();
    for (const std::string& phase : asked.left_out_phases) w.value(phase);
    w.end_array();
  }
  if (!asked.disabled_rules.empty()) {
    w.key("disabled_rules").begin_array();
    for (const std::string& rule : asked.disabled_rules) w.value(rule);
    w.end_array();
  }
  if (asked.exhaustive) w.key("exhaustive").value(true);
  if (asked.simple) w.key("simple").value(true);
  if (asked.engines) w.key("engines").value(true);
  if (asked.restriction) w.key("restriction").value(true);
  if (asked.engine_options) w.key("engine_options").value(true);
  if (asked.simple_within != SearchRequest{}.simple_within) w.key("simple_within").value(asked.simple_within);
  w.key("alternatives").value(asked.alternatives).end_object();
}

void write_phases(JsonWriter& w, const std::vector<PhaseSummary>& phases) {
  w.key("phases").begin_array();
  for (const PhaseSummary& p : phases) {
    w.compact_next().begin_object();
    w.key("name").value(p.name);
    if (p.left_out) w.key("left_out").value(true);
    w.key("complete").value(p.complete);
    w.key("lower_bound_s").seconds(p.lower_bound_ns);
    w.key("bounded").value(p.bounded);
    w.key("lowered").value(p.lowered);
    w.key("simulated").value(p.simulated);
    w.end_object();
  }
  w.end_array();
}

void write_search(JsonWriter& w, const SearchSummary& s) {
  w.key("search").begin_object();
  write_request(w, s.asked);
  if (s.space != SpaceKind::uniform) w.key("space").value(to_string(s.space));
  w.key("space_size");
  write_count(w, s.space_size);
  w.key("by_dimension").begin_object();
  for (const auto& [dimension, counts] : s.by_dimension) {
    w.key(dimension).compact_next().begin_object();
    for (const auto& [value, count] : counts) {
      w.key(job::value_name(dimension, value));
      write_count(w, count);
    }
    w.end_object();
  }
  w.end_object();
  w.key("bounded").value(s.bounded);
  w.key("simulated").value(s.simulated);
  w.key("lowered").value(s.lowered);
  w.key("pruned").compact_next().begin_object();
  for (const auto& [rule, count] : s.pruned) {
    w.key(rule);
    write_count(w, count);
  }
  w.end_object();
  w.key("memory_margin").value(s.memory_margin);
  w.key("memory_margin_basis").value(s.memory_margin_basis);
  w.key("optimal").value(s.optimal);
  w.key("lower_bound_s").seconds(s.lower_bound_ns);
  w.key("gap").value(s.gap);
  w.key("reason").value(to_string(s.reason));
  if (!s.split.empty()) w.key("split").value(s.split);
  if (!s.phases.empty()) write_phases(w, s.phases);
  if (!s.freedom.empty()) w.key("freedom").value(s.freedom);
  if (s.layerwise) write_layerwise(w, *s.layerwise);
  if (s.partitions) write_partitions(w, *s.partitions);
  if (s.device_groups) write_device_groups(w, *s.device_groups);
  w.end_object();
}

void write_alternatives(JsonWriter& w, const std::vector<Alternative>& alternatives, PlanSchema schema) {
  w.key("alternatives").begin_array();
  for (const Alternative& a : alternatives) {
    w.compact_next().begin_object();
    w.key("label").value(a.label);
    if (a.plan || !a.plan_label.empty()) w.key("configuration").value(a.plan ? a.plan->label() : a.plan_label);
    w.key("baseline").value(a.baseline);
    w.key("fits").value(a.fits);
    w.key("iteration_s").seconds(a.iteration_ns);
    w.key("peak_memory_bytes").value(a.peak_memory_bytes);
    w.key("lost_to").value(a.lost_to);
    if (!a.engine.empty()) w.key("engine").value(a.engine);
    if (a.outside_space) w.key("outside_space").value(true);
    if (a.configuration) {
      w.key("strategy");
      write_strategy(w, a.configuration->first, schema);
      w.key("schedule");
      write_schedule(w, a.configuration->second);
    }
    w.end_object();
  }
  w.end_array();
}

/// Writes the timing on one line, with a separate digest. The document without it has the same digest on every run.
std::string written_timing(const PlannerResult& result, const std::string& digest) {
  JsonWriter w;
  w.compact_next().begin_object();
  if (searched(result.search.reason) && !result.search.phases.empty()) {
    w.key("phases").begin_object();
    for (const PhaseSummary& p : result.search.phases) w.key(p.name).seconds(to_ns(p.seconds));
    w.end_object();
  }
  w.key("total_s").seconds(to_ns(result.total_s));
  w.key("search_s").seconds(to_ns(result.search_s));
  w.key("threads").value(result.threads);
  write_digest(w, digest);
  w.end_object();
  return w.text();
}

void write_timing(JsonWriter& w, const PlannerResult& result) {
  w.key("timing").raw(sealed([&](const std::string& digest) { return written_timing(result, digest); }));
}

}  // namespace
}  // namespace espalier::report

namespace espalier {
namespace {

std::string written_result(const PlannerResult& result, bool timing, PlanSchema plan_schema, const std::string& digest) {
  using namespace report;
  JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.result/1");
  write_made_by(w, result.made_by);
  w.key("engine").value(result.plan.engine);
  w.key("plan").raw(to_json(result.plan, plan_schema));
  write_prediction(w, result.prediction);
  // `estimate` and `simulate` take one given configuration and have no search to report.
  if (searched(result.search.reason)) write_search(w, result.search);
  write_beside(w, result);
  write_alternatives(w, result.alternatives, plan_schema);
  if (!result.operators.empty()) write_operators(w, result.operators);
  w.key("reasons").begin_array();
  for (const std::string& reason : result.reasons) w.value(reason);
  w.end_array();
  if (!result.notes.empty()) {
    w.key("notes").begin_array();
    for (const std::string& note : result.notes) w.value(note);
    w.end_array();
  }
  write_digest(w, digest);
  if (timing) write_timing(w, result);
  w.end_object();
  return w.text();
}

}  // namespace

std::string to_json(const PlannerResult& result, bool timing, PlanSchema plan_schema) {
  return report::sealed([&](const std::string& digest) { return written_result(result, timing, plan_schema, digest); });
}

}  // namespace espalier
