// SPDX-License-Identifier: Apache-2.0
#include "report/search_json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "job/search_part.h"
#include "report/beside_json.h"
#include "report/digest.h"
#include "report/nanoseconds.h"
#include "report/search_v1.h"

namespace espalier::report {
namespace {

void write_count(JsonWriter& w, double count) {
  if (count >= 0 && count < kExact && count == std::floor(count))
    w.value(static_cast<std::int64_t>(count));
  else
    w.value(count);
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
  if (asked.node_limit) w.key("node_limit").value(*asked.node_limit);
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

void write_counters(JsonWriter& w, const SearchCounters& counters) {
  w.key("counters").begin_object();
  for (const auto& [counter, count] : counters) w.key(row_of(counter).name).value(count);
  w.end_object();
}

void write_phases(JsonWriter& w, const std::vector<PhaseSummary>& phases) {
  w.key("phases").begin_array();
  for (const PhaseSummary& p : phases) {
    w.compact_next().begin_object();
    w.key("name").value(p.name);
    if (p.left_out) w.key("left_out").value(true);
    w.key("complete").value(p.complete);
    w.key("lower_bound_s").seconds(p.lower_bound_ns);
    if (p.best_ns > 0) w.key("best_s").seconds(p.best_ns);
    if (p.partition_bound_ns > 0) w.key("partition_bound_s").seconds(p.partition_bound_ns);
    if (!p.counters.empty()) write_counters(w, p.counters);
    w.end_object();
  }
  w.end_array();
}

void write_balance(JsonWriter& w, const std::vector<StageBalance>& balance) {
  w.key("balance").begin_array();
  for (const StageBalance& b : balance) {
    w.compact_next().begin_object().key("partition").value(b.name).key("first").begin_array();
    for (const std::int32_t layer : b.first) w.value(layer);
    w.end_array().key("alpha_t").value(b.alpha_t).key("alpha_m").value(b.alpha_m).key("iteration_s").seconds(b.iteration_ns);
    w.end_object();
  }
  w.end_array();
}

void read_counts(Reader r, std::map<std::string, double>& out) {
  for (const auto& [name, node] : r.node().members) out[name] = r.required_real(name, 0, 1e300);
}

SearchRequest read_request(Reader r) {
  SearchRequest asked;
  if (const std::int64_t limit = r.optional_int("node_limit", 0, kBig, 0); limit > 0) asked.node_limit = limit;
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
  p.best_ns = read_ns(r, "best_s");
  p.partition_bound_ns = read_ns(r, "partition_bound_s");
  Reader counters = r.child("counters", false);
  for (const SearchCounterRow& row : kSearchCounters)
    if (counters.has(row.name)) p.counters[row.counter] = counters.required_int(row.name, 0, kBig);
  counters.finish();
  r.finish();
  return p;
}

/// Names of phases are also keys of `timing`.
void expect_each_phase_once(Reader& r, const std::vector<PhaseSummary>& phases) {
  for (std::size_t i = 0; i < phases.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (phases[i].name == phases[k].name) r.fail("phases", "\"" + phases[i].name + "\" again", "each phase once");
}

}  // namespace

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

std::vector<StageBalance> read_balance(Reader& r) {
  std::vector<StageBalance> out;
  r.each("balance", false, [&out](Reader& row) {
    StageBalance b;
    b.name = row.required_string("partition");
    for (const std::int64_t layer : row.optional_int_list("first", 0, 1 << 16))
      b.first.push_back(static_cast<std::int32_t>(layer));
    b.alpha_t = row.optional_real("alpha_t", 0, 1, 0);
    b.alpha_m = row.optional_real("alpha_m", 0, 1, 0);
    b.iteration_ns = read_ns(row, "iteration_s");
    row.finish();
    out.push_back(std::move(b));
  });
  return out;
}

std::optional<ResultVersion> result_version_of(std::string_view schema) {
  if (schema == "espalier.result/1") return ResultVersion::one;
  if (schema == "espalier.result/2") return ResultVersion::two;
  return std::nullopt;
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
  if (!s.balance.empty()) write_balance(w, s.balance);
  if (!s.freedom.empty()) w.key("freedom").value(s.freedom);
  w.end_object();
}

SearchSummary read_search(Reader r, ResultVersion version, std::int64_t iteration_ns) {
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
  if (version == ResultVersion::one) {
    read_search_v1(r, iteration_ns, s);
  } else {
    r.each("phases", false, [&s](Reader& row) { s.phases.push_back(read_phase(row)); });
    s.balance = read_balance(r);
  }
  expect_each_phase_once(r, s.phases);
  r.finish();
  return s;
}

}  // namespace espalier::report
