// SPDX-License-Identifier: Apache-2.0
#include "report/beside_json.h"

#include <cmath>

#include "report/nanoseconds.h"

namespace espalier::report {
namespace {

void write_engine(JsonWriter& w, const EngineAnswer& e) {
  w.compact_next().begin_object();
  w.key("engine").value(e.engine);
  w.key("status").value(to_string(e.status));
  if (!e.label.empty()) {
    w.key("label").value(e.label);
    w.key("iteration_s").seconds(e.iteration_ns);
    w.key("peak_memory_bytes").value(e.peak_memory_bytes);
    w.key("loss").value(e.loss);
  }
  if (!e.why.empty()) w.key("why").value(e.why);
  w.end_object();
}

EngineStatus read_status(Reader& r) {
  std::vector<std::string_view> words;
  for (const EngineStatus status : kEngineStatuses) words.push_back(to_string(status));
  return kEngineStatuses[r.optional_choice("status", words, static_cast<std::size_t>(EngineStatus::none))];
}

EngineAnswer read_engine(Reader& r) {
  EngineAnswer e;
  e.engine = r.required_string("engine");
  e.status = read_status(r);
  e.label = r.optional_string("label", "");
  e.iteration_ns = read_ns(r, "iteration_s");
  e.peak_memory_bytes = r.optional_int("peak_memory_bytes", 0, kBig, 0);
  e.loss = r.optional_real("loss", -1, 1e9, 0);
  e.why = r.optional_string("why", "");
  r.finish();
  return e;
}

void write_restriction(JsonWriter& w, const RestrictionPrice& p) {
  w.key("restriction").compact_next().begin_object();
  w.key("engine").value(p.engine);
  if (!p.label.empty()) {
    w.key("label").value(p.label);
    w.key("iteration_s").seconds(p.iteration_ns);
    w.key("price").value(p.price);
    w.key("certified").value(p.certified);
    w.key("rules").begin_array();
    for (const std::string& rule : p.rules) w.value(rule);
    w.end_array();
  }
  w.end_object();
}

void write_simplest(JsonWriter& w, const Simplest& s) {
  w.key("simplest").compact_next().begin_object();
  w.key("label").value(s.label);
  w.key("iteration_s").seconds(s.iteration_ns);
  w.key("loss").value(s.loss);
  w.key("dimensions").value(s.dimensions);
  w.key("within").value(s.within);
  w.key("certified").value(s.certified);
  w.key("simulated").value(s.simulated);
  w.end_object();
}

Simplest read_simplest(Reader r) {
  Simplest s;
  s.label = r.optional_string("label", "");
  s.iteration_ns = read_ns(r, "iteration_s");
  s.loss = r.optional_real("loss", -1, 1e9, 0);
  s.dimensions = static_cast<std::int32_t>(r.optional_int("dimensions", 0, 100, 0));
  s.within = r.optional_real("within", 0, 1e9, 0);
  s.certified = r.optional_bool("certified", false);
  s.simulated = r.optional_int("simulated", 0, kBig, 0);
  r.finish();
  return s;
}

void write_batch_hint(JsonWriter& w, const BatchHint& h) {
  w.key("batch_hint").compact_next().begin_object();
  w.key("global_batch").value(h.global_batch);
  w.key("label").value(h.label);
  w.key("iteration_s").seconds(h.iteration_ns);
  w.key("gain").value(h.gain);
  w.end_object();
}

BatchHint read_batch_hint(Reader r) {
  BatchHint h;
  h.global_batch = r.optional_int("global_batch", 1, kBig, 1);
  h.label = r.optional_string("label", "");
  h.iteration_ns = read_ns(r, "iteration_s");
  h.gain = r.optional_real("gain", -1, 1, 0);
  r.finish();
  return h;
}

void write_option(JsonWriter& w, const OptionAnswer& o) {
  w.compact_next().begin_object();
  w.key("numerics").value(o.numerics);
  w.key("engine").value(o.engine);
  w.key("options").begin_array();
  for (const std::string& option : o.options) w.value(option);
  w.end_array();
  w.key("losses").begin_array();
  for (const double loss : o.losses) w.value(loss);
  w.end_array();
  w.key("label").value(o.label);
  w.key("iteration_s").seconds(o.iteration_ns);
  w.key("peak_memory_bytes").value(o.peak_memory_bytes);
  w.key("gain").value(o.gain);
  w.key("certified").value(o.certified);
  w.end_object();
}

std::vector<std::string> read_names(Reader& r, std::string_view key) {
  std::vector<std::string> out;
  const base::Node* node = r.find(key);
  if (node == nullptr) return out;
  for (const base::Node& item : node->items) {
    if (item.kind != base::NodeKind::string) r.fail(key, std::string(to_string(item.kind)), "a list of strings");
    out.push_back(item.text);
  }
  return out;
}

OptionAnswer read_option(Reader& r) {
  OptionAnswer o;
  o.numerics = r.optional_bool("numerics", false);
  o.engine = r.required_string("engine");
  o.options = read_names(r, "options");
  if (const base::Node* losses = r.find("losses"))
    for (const base::Node& item : losses->items)
      o.losses.push_back(item.kind == base::NodeKind::integer ? static_cast<double>(item.integer) : item.real);
  o.label = r.optional_string("label", "");
  o.iteration_ns = read_ns(r, "iteration_s");
  o.peak_memory_bytes = r.optional_int("peak_memory_bytes", 0, kBig, 0);
  o.gain = r.optional_real("gain", -1e9, 1, 0);
  o.certified = r.optional_bool("certified", false);
  r.finish();
  return o;
}

RestrictionPrice read_restriction(Reader r) {
  RestrictionPrice p;
  p.engine = r.required_string("engine");
  p.label = r.optional_string("label", "");
  p.iteration_ns = read_ns(r, "iteration_s");
  p.price = r.optional_real("price", -1, 1e9, 0);
  p.certified = r.optional_bool("certified", false);
  p.rules = read_names(r, "rules");
  r.finish();
  return p;
}

}  // namespace

void write_beside(JsonWriter& w, const PlannerResult& result) {
  if (result.runs_on) {
    w.key("runs_on").compact_next().begin_array();
    for (const std::string& engine : *result.runs_on) w.value(engine);
    w.end_array();
  }
  if (result.runnable) {
    w.key("runnable");
    write_engine(w, *result.runnable);
  }
  if (!result.engines.empty()) {
    w.key("engines").begin_array();
    for (const EngineAnswer& e : result.engines) write_engine(w, e);
    w.end_array();
  }
  if (result.restriction) write_restriction(w, *result.restriction);
  if (result.simplest) write_simplest(w, *result.simplest);
  if (result.batch_hint) write_batch_hint(w, *result.batch_hint);
  if (result.options.empty()) return;
  w.key("options").begin_array();
  for (const OptionAnswer& o : result.options) write_option(w, o);
  w.end_array();
}

void read_beside(Reader& r, PlannerResult& result) {
  if (r.has("runs_on")) result.runs_on = read_names(r, "runs_on");
  if (r.has("runnable")) {
    Reader runnable = r.child("runnable", true);
    result.runnable = read_engine(runnable);
  }
  r.each("engines", false, [&](Reader& e) { result.engines.push_back(read_engine(e)); });
  if (r.has("restriction")) result.restriction = read_restriction(r.child("restriction", true));
  if (r.has("simplest")) result.simplest = read_simplest(r.child("simplest", true));
  if (r.has("batch_hint")) result.batch_hint = read_batch_hint(r.child("batch_hint", true));
  r.each("options", false, [&](Reader& o) { result.options.push_back(read_option(o)); });
}

}  // namespace espalier::report
