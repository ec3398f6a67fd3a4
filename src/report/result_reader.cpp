// SPDX-License-Identifier: Apache-2.0
// Reads the result document, schema espalier.result/1.
#include <algorithm>

#include "base/document.h"
#include "espalier/planner.h"
#include "job/search_part.h"
#include "plan/plan_json.h"
#include "report/beside_json.h"
#include "report/nanoseconds.h"

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

void read_counts(Reader r, std::map<std::string, double>& out) {
  for (const auto& [name, node] : r.node().members) out[name] = r.required_real(name, 0, 1e300);
}

LayerwiseSummary read_layerwise(Reader r) {
  LayerwiseSummary s;
  s.uniform_ns = read_ns(r, "uniform_s");
  s.strategies = r.optional_real("strategies", 0, 1e300, 0);
  s.kept = r.optional_real("kept", 0, 1e300, 0);
  s.outer = r.optional_int("outer", 0, kBig, 0);
  s.solved = r.optional_int("solved", 0, kBig, 0);
  s.simulated = r.optional_int("simulated", 0, kBig, 0);
  Reader refinement = r.child("refinement", false);
  s.refinement_tried = refinement.optional_int("tried", 0, kBig, 0);
  s.refinement_left = refinement.optional_int("left", 0, kBig, 0);
  refinement.finish();
  r.each("balance", false, [&s](Reader& row) {
    StageBalance b;
    b.name = row.required_string("partition");
    for (const std::int64_t layer : row.optional_int_list("first", 0, 1 << 16))
      b.first.push_back(static_cast<std::int32_t>(layer));
    b.alpha_t = row.optional_real("alpha_t", 0, 1, 0);
    b.alpha_m = row.optional_real("alpha_m", 0, 1, 0);
    b.iteration_ns = read_ns(row, "iteration_s");
    row.finish();
    s.balance.push_back(std::move(b));
  });
  r.finish();
  return s;
}

DeviceGroupsSummary read_device_groups(Reader r) {
  DeviceGroupsSummary s;
  s.alone = r.optional_real("alone", 0, 1e300, 0);
  s.alone_simulated = r.optional_int("alone_simulated", 0, kBig, 0);
  s.columns = r.optional_int("columns", 0, kBig, 0);
  s.combinations = r.optional_int("combinations", 0, kBig, 0);
  s.beside_simulated = r.optional_int("beside_simulated", 0, kBig, 0);
  s.several_pipelines = r.optional_bool("several_pipelines", false);
  s.replica_plans = r.optional_int("replica_plans", 0, kBig, 0);
  s.replicas_simulated = r.optional_int("replicas_simulated", 0, kBig, 0);
  s.uneven_replicas = r.optional_bool("unequal_replicas", false);
  s.sizes = r.optional_int("sizes", 0, kBig, 0);
  s.options = r.optional_int("options", 0, kBig, 0);
  s.dropped = r.optional_int("dropped", 0, kBig, 0);
  s.states = r.optional_int("states", 0, kBig, 0);
  s.candidates = r.optional_int("candidates", 0, kBig, 0);
  s.simulated = r.optional_int("simulated", 0, kBig, 0);
  s.refined = r.optional_int("refined", 0, kBig, 0);
  s.without_room = r.optional_int("without_room", 0, kBig, 0);
  r.finish();
  return s;
}

PartitionSummary read_partitions(Reader r) {
  PartitionSummary s;
  s.without_ns = read_ns(r, "without_s");
  s.groups = r.optional_int("groups", 0, kBig, 0);
  s.solved = r.optional_int("solved", 0, kBig, 0);
  s.offered = r.optional_int("offered", 0, kBig, 0);
  s.certified = r.optional_bool("certified", true);
  s.lower_bound_ns = read_ns(r, "lower_bound_s");
  r.finish();
  return s;
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

std::vector<std::string> read_sentences(Reader& r, std::string_view key) {
  std::vector<std::string> out;
  const Node* node = r.find(key);
  if (!node || node->kind == NodeKind::null) return out;
  for (const Node& item : node->items) {
    if (item.kind != NodeKind::string) r.fail(key, std::string(to_string(item.kind)), "a list of strings");
    out.push_back(item.text);
  }
  return out;
}

SearchRequest read_request(Reader r) {
  SearchRequest asked;
  asked.node_limit = r.optional_int("node_limit", 0, kBig, 0);
  asked.exhaustive = r.optional_bool("exhaustive", false);
  asked.alternatives = static_cast<int>(r.optional_int("alternatives", 0, 1 << 20, 5));
  asked.disabled_rules = read_sentences(r, "disabled_rules");
  asked.left_out_phases = read_sentences(r, "left_out_phases");
  asked.simple = r.optional_bool("simple", false);
  asked.engines = r.optional_bool("engines", false);
  asked.restriction = r.optional_bool("restriction", false);
  asked.engine_options = r.optional_bool("engine_options", false);
  asked.simple_within = r.optional_real("simple_within", 0, 10, asked.simple_within);
  asked.space = job::read_search_space(r);
  return asked;
}

SearchEnd read_reason(Reader& r) {
  const std::string words = r.optional_string("reason", "");
  const auto end = search_end_of(words);
  if (!end) r.fail("reason", "\"" + words + "\"", "optimal, gap, node limit, time limit, interrupted or phase left out");
  return end.value_or(SearchEnd::none);
}

SpaceKind read_space_kind(Reader& r) {
  const std::string word = r.optional_string("space", "uniform");
  const auto kind = space_kind_of(word);
  if (!kind) r.fail("space", "\"" + word + "\"", "uniform, layerwise, spatial_temporal or full");
  return kind.value_or(SpaceKind::uniform);
}

PhaseSummary read_phase(Reader& r) {
  PhaseSummary p;
  p.name = r.required_string("name");
  p.left_out = r.optional_bool("left_out", false);
  p.complete = r.optional_bool("complete", false);
  p.lower_bound_ns = read_ns(r, "lower_bound_s");
  p.bounded = r.optional_int("bounded", 0, kBig, 0);
  p.lowered = r.optional_int("lowered", 0, kBig, 0);
  p.simulated = r.optional_int("simulated", 0, kBig, 0);
  r.finish();
  return p;
}

SearchSummary read_search(Reader r) {
  SearchSummary s;
  if (r.has("asked")) s.asked = read_request(r.child("asked", true));
  s.space_size = r.optional_real("space_size", 0, 1e300, 0);
  Reader dimensions = r.child("by_dimension", false);
  for (const auto& [dimension, node] : dimensions.node().members) {
    std::map<std::string, double> counts;
    read_counts(dimensions.child(dimension, true), counts);
    for (const auto& [name, count] : counts) {
      if (const auto value = job::value_of_name(dimension, name))
        s.by_dimension[dimension][*value] = count;
      else
        dimensions.fail(dimension, "\"" + name + "\"", "a value of " + dimension);
    }
  }
  s.bounded = r.optional_int("bounded", 0, kBig, 0);
  s.simulated = r.optional_int("simulated", 0, kBig, 0);
  s.lowered = r.optional_int("lowered", 0, kBig, 0);
  read_counts(r.child("pruned", false), s.pruned);
  s.memory_margin = r.optional_real("memory_margin", 0, 1, 0);
  s.memory_margin_basis = r.optional_string("memory_margin_basis", "");
  s.optimal = r.optional_bool("optimal", false);
  s.lower_bound_ns = read_ns(r, "lower_bound_s");
  s.gap = r.optional_real("gap", 0, kLarge, 0);
  s.reason = read_reason(r);
  s.split = r.optional_string("split", "");
  s.freedom = r.optional_string("freedom", "");
  s.space = read_space_kind(r);
  r.each("phases", false, [&s](Reader& row) {
    s.phases.push_back(read_phase(row));
    const std::string& name = s.phases.back().name;  // also a key of `timing`
    if (std::any_of(s.phases.begin(), s.phases.end() - 1, [&](const PhaseSummary& p) { return p.name == name; }))
      row.fail("name", "\"" + name + "\" again", "each phase once");
  });
  if (r.has("layerwise")) s.layerwise = read_layerwise(r.child("layerwise", true));
  if (r.has("partitions")) s.partitions = read_partitions(r.child("partitions", true));
  if (r.has("device_groups")) s.device_groups = read_device_groups(r.child("device_groups", true));
  r.finish();
  return s;
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
  if (r.required_string("schema") != "espalier.result/1") r.fail("schema", "another schema", "espalier.result/1");
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
  if (r.has("search")) result.search = read_search(r.child("search", true));
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
