// SPDX-License-Identifier: Apache-2.0
// Reads the result document, schema espalier.result/2, and its version 1.
#include "base/document.h"
#include "espalier/planner.h"
#include "plan/plan_json.h"
#include "report/beside_json.h"
#include "report/nanoseconds.h"
#include "report/search_json.h"

namespace espalier::report {
namespace {

constexpr double kLarge = 1e18;

std::int64_t read_bytes(Reader& r, std::string_view key) { return r.optional_int(key, 0, kBig, 0); }

Breakdown read_parts(Reader& r) {
  Reader b = r.child("breakdown_s", false);
  Breakdown parts;
  parts.compute_ns = read_ns(b, "compute");
  parts.exposed_communication_ns = read_ns(b, "exposed_communication");
  parts.bubble_ns = read_ns(b, "bubble");
  parts.optimizer_ns = read_ns(b, "optimizer");
  parts.other_ns = read_ns(b, "other");
  b.finish();
  return parts;
}

std::vector<double> read_reals(Reader& r, std::string_view key) {
  std::vector<double> out;
  const Node* node = r.find(key);
  if (!node || node->kind == NodeKind::null) return out;
  for (const Node& item : node->items) {
    if (item.kind != NodeKind::integer && item.kind != NodeKind::real)
      r.fail(key, std::string(to_string(item.kind)), "a list of numbers");
    out.push_back(item.kind == NodeKind::integer ? static_cast<double>(item.integer) : item.real);
  }
  return out;
}

/// Reads the busiest stage. The host's work between steps is the same on every stage and is written once.
Bottleneck read_bottleneck(Reader r, const Breakdown& last) {
  Bottleneck b;
  b.stage = static_cast<std::int32_t>(r.optional_int("stage", 0, 1 << 20, 0));
  b.busy = r.optional_real("busy", 0, 1, 0);
  b.breakdown = read_parts(r);
  b.breakdown.step_host_ns = last.step_host_ns;
  b.busy_per_stage = read_reals(r, "busy_per_stage");
  r.finish();
  return b;
}

NetworkPrediction read_network(Reader r) {
  NetworkPrediction n;
  r.optional_string("model", "flow");
  n.closed_iteration_ns = read_ns(r, "closed_iteration_s");
  r.each("links", false, [&](Reader& each) {
    LinkUse use;
    use.link = each.required_string("link");
    use.links = each.optional_int("links", 0, kBig, 0);
    use.bytes = each.optional_real("bytes", 0, kLarge, 0);
    use.busy = each.optional_real("busy", 0, kLarge, 0);
    use.highest_load = each.optional_real("highest_load", 0, kLarge, 0);
    each.finish();
    n.links.push_back(use);
  });
  r.finish();
  return n;
}

Expense read_cost(Reader r) {
  Expense cost;
  cost.per_step = r.required_real("per_step", 0, kLarge);
  cost.per_token = r.required_real("per_token", 0, kLarge);
  cost.currency = r.required_string("currency");
  cost.per_hour = r.optional_real("per_hour", 0, kLarge, 0);
  cost.devices = r.optional_int("devices", 0, kBig, 0);
  cost.egress_per_step = r.optional_real("egress_per_step", 0, kLarge, 0);
  cost.whole_run = r.optional_real("whole_run", 0, kLarge, 0);
  r.finish();
  return cost;
}

Prediction read_prediction(Reader r) {
  Prediction p;
  p.iteration_ns = read_ns(r, "iteration_s");
  p.tokens_per_s_per_device = r.optional_real("tokens_per_s_per_gpu", 0, kLarge, 0);
  p.model_tflops_per_device = r.optional_real("model_tflops_per_gpu", 0, kLarge, 0);
  p.mfu = r.optional_real("mfu", 0, kLarge, 0);
  p.mfu_causal = r.optional_real("mfu_causal", 0, kLarge, 0);
  p.mfu_peak_tflops = r.optional_real("mfu_peak_tflops", 0, kLarge, 0);
  p.breakdown = read_parts(r);
  p.breakdown.step_host_ns = read_ns(r, "step_host_s");
  p.last_stage = static_cast<std::int32_t>(r.optional_int("last_stage", 0, 1 << 20, 0));
  p.hidden_communication_ns = read_ns(r, "hidden_communication_s");
  p.bottleneck = read_bottleneck(r.child("bottleneck", false), p.breakdown);
  p.peak_memory_bytes = read_bytes(r, "peak_memory_bytes");
  p.peak_memory_bytes_per_stage = r.optional_int_list("peak_memory_bytes_per_stage", 0, kBig);
  Reader m = r.child("memory_breakdown_bytes", false);
  p.memory = {read_bytes(m, "parameters"),
              read_bytes(m, "gradients"),
              read_bytes(m, "optimizer"),
              read_bytes(m, "activations"),
              read_bytes(m, "communication_buffers"),
              read_bytes(m, "framework")};
  m.finish();
  p.memory_limit_bytes = read_bytes(r, "memory_limit_bytes");
  p.fits = r.optional_bool("fits", false);
  p.memory_margin = r.optional_real("memory_margin", 0, 1, 0);
  p.fits_with_margin = r.optional_bool("fits_with_margin", p.fits);
  Reader c = r.child("confidence", false);
  p.confidence = {c.optional_real("iteration_s_low", 0, kLongestSeconds, 0),
                  c.optional_real("iteration_s_high", 0, kLongestSeconds, 0), c.optional_real("level", 0, 1, 0.8),
                  c.optional_string("basis", "")};
  c.finish();
  p.days = r.optional_real("days", 0, kLarge, 0);
  p.device_hours = r.optional_real("gpu_hours", 0, kLarge, 0);
  if (r.has("network")) p.network = read_network(r.child("network", true));
  if (r.has("cost")) p.cost = read_cost(r.child("cost", true));
  r.finish();
  return p;
}

std::vector<OperatorReport> read_operators(Reader& root) {
  std::vector<OperatorReport> all;
  root.each("operators", false, [&all](Reader& row) {
    OperatorReport o;
    o.first_layer = static_cast<std::int32_t>(row.required_int("first_layer", 0, 1 << 16));
    o.devices = static_cast<std::int32_t>(row.required_int("devices", 1, 1 << 20));
    o.name = row.required_string("name");
    o.sequence = row.required_string("partition");
    o.compute_ns = read_ns(row, "compute_s");
    o.collective_ns = read_ns(row, "collective_s");
    o.ring_hidden_ns = read_ns(row, "ring_hidden_s");
    o.ring_exposed_ns = read_ns(row, "ring_exposed_s");
    o.redistribution_ns = read_ns(row, "redistribution_s");
    o.gradient_sync_ns = read_ns(row, "gradient_sync_s");
    row.finish();
    all.push_back(std::move(o));
  });
  return all;
}

Alternative read_alternative(Reader& r) {
  Alternative a;
  a.label = r.required_string("label");
  a.plan_label = r.optional_string("configuration", "");
  a.baseline = r.optional_bool("baseline", false);
  a.fits = r.optional_bool("fits", false);
  a.iteration_ns = read_ns(r, "iteration_s");
  a.peak_memory_bytes = read_bytes(r, "peak_memory_bytes");
  a.lost_to = r.optional_string("lost_to", "");
  a.engine = r.optional_string("engine", "");
  a.outside_space = r.optional_bool("outside_space", false);
  if (r.has("strategy") && r.has("schedule")) a.configuration = {read_strategy(r, PlanSchema::two), read_schedule(r, true)};
  r.finish();
  return a;
}

}  // namespace
}  // namespace espalier::report

namespace espalier {

Result<PlannerResult> result_from_json(std::string_view text, const std::string& where) {
  using namespace report;
  auto document = base::read_json(text, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  Reader r = Reader::root(*document, sink);
  const std::optional<ResultVersion> version = result_version_of(r.required_string("schema"));
  if (!version) r.fail("schema", "another schema", "espalier.result/2 or espalier.result/1");
  PlannerResult result;
  const Node* plan = r.find("plan");
  if (!plan) r.fail("plan", "no plan", "a plan document");
  if (!sink.ok()) return sink.first().error();
  auto read_plan = plan_from_json(base::to_json(*plan), where + " ($.plan)");
  if (!read_plan) return read_plan.error();
  if (Status status = unsupported(*read_plan); !status.ok()) {
    Error error = status.error();
    error.where = where + ": $.plan" + error.where.substr(1);
    return error;
  }
  result.plan = std::move(read_plan).value();
  Reader made_by = r.child("made_by", false);
  result.made_by = {made_by.optional_string("version", ""), made_by.optional_string("calibration", "")};
  made_by.finish();
  result.prediction = read_prediction(r.child("prediction", true));
  if (r.has("search")) {
    const std::int64_t iteration_ns = result.prediction.iteration_ns;
    result.search = read_search(r.child("search", true), version.value_or(ResultVersion::two), iteration_ns);
  }
  r.each("alternatives", false, [&](Reader& a) { result.alternatives.push_back(read_alternative(a)); });
  result.operators = read_operators(r);
  result.reasons = read_sentences(r, "reasons");
  read_beside(r, result);
  result.notes = read_sentences(r, "notes");
  r.ignore({"engine", "timing", "digest"});
  r.finish();
  if (!sink.ok()) return sink.first().error();
  return result;
}

}  // namespace espalier
