// SPDX-License-Identifier: Apache-2.0
// Writes the result document, schema espalier.result/2: keys in the order of docs/file-formats.md, durations in
// seconds with nine digits, sizes in bytes. Everything but the last object, `timing`, is equal byte for byte on every
// run.
#include "espalier/planner.h"

#include "base/document.h"
#include "plan/plan_json.h"
#include "report/beside_json.h"
#include "report/digest.h"
#include "report/nanoseconds.h"
#include "report/search_json.h"

namespace espalier::report {
namespace {

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
  w.key("schema").value("espalier.result/2");
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
