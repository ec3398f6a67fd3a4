// SPDX-License-Identifier: Apache-2.0
#include "report/engines_text.h"

#include <map>

#include "base/document.h"
#include "base/format.h"
#include "plan/engine.h"
#include "plan/engine_rules.h"
#include "report/brief_text.h"

namespace espalier::report {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out.append(out.empty() ? "" : ", ").append(w);
  return out.empty() ? "–" : out;
}

std::vector<std::string> schedules_of(const EngineModel& e) {
  std::vector<std::string> out;
  for (const ScheduleKind kind : e.runs.schedules) out.emplace_back(to_string(kind));
  return out;
}

std::vector<std::string> without(const EngineModel& e) {
  std::vector<std::string> out;
  if (!e.runs.tensor_parallel) out.emplace_back("tp");
  if (!e.runs.ulysses) out.emplace_back("ulysses");
  if (!e.runs.context_parallel) out.emplace_back("cp");
  if (!e.runs.expert_parallel) out.emplace_back("ep");
  if (!e.runs.pipeline) out.emplace_back("pp");
  return out;
}

std::vector<std::string> layers_of(const EngineModel& e) {
  std::vector<std::string> out;
  for (const Dimension d : layer_dimensions())
    if ((e.layers.differ_in & bit(d)) != 0) out.emplace_back(to_string(d));
  if (e.layers.partition) out.emplace_back("partition");
  return out;
}

/// Returns whether nothing is rejected because nothing is known.
bool unknown(const EngineModel& e) { return e.family == EngineFamily::generic && e.name != "generic"; }

void write_words(base::JsonWriter& w, const char* key, const std::vector<std::string>& words) {
  w.key(key).compact_next().begin_array();
  for (const std::string& word : words) w.value(word);
  w.end_array();
}

}  // namespace

std::vector<std::vector<std::string>> engine_rows(const std::vector<EngineModel>& engines) {
  std::vector<std::vector<std::string>> rows{{"engine", "schedules", "ZeRO", "without", "layers may differ in", "stages in"}};
  for (const EngineModel& e : engines) {
    std::vector<std::string> zero;
    for (const ZeroStage z : e.runs.zero) zero.push_back(std::to_string(number_of(z)));
    const std::string layers = is_unrestricted(e.layers) ? "everything" : joined(layers_of(e));
    rows.push_back({e.name, joined(schedules_of(e)), joined(zero), unknown(e) ? "not known" : joined(without(e)),
                    unknown(e) ? "not known" : layers, e.layers.any_stage ? "layers" : "–"});
  }
  return rows;
}

namespace {

/// Returns options by the engines that have them, in the order of the catalogue.
std::string options_text(const std::vector<EngineModel>& engines) {
  std::vector<EngineOption> options;
  std::map<std::string, std::string> engines_of;
  for (const EngineModel& e : engines)
    for (const EngineOption& o : e.options) {
      std::string& names = engines_of[o.name];
      if (names.empty()) options.push_back(o);
      names.append(names.empty() ? "" : ", ").append(e.name);
    }
  std::string out =
      "\nOptions: ENGINE+OPTION is an engine with a mode switched on, in jobs and with --engine. `plan` names those that gain "
      "over "
      "2 %.\n";
  for (const bool numerics : {false, true}) {
    out += numerics ? "\nThese change the computation:\n" : "\nThese change only the execution:\n";
    for (const EngineOption& o : options)
      if (o.numerics == numerics)
        out += base::cat("  ", o.name, o.sets.empty() ? "" : "=NUMBER", ": ", o.note, " (", engines_of[o.name], ")\n");
  }
  return options.empty() ? "" : out;
}

}  // namespace

std::string engines_text(const std::vector<EngineModel>& engines) {
  return table(engine_rows(engines), {1, 2, 3, 4, 5}) + options_text(engines);
}

std::string engines_json(const std::vector<EngineModel>& engines) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.engines/1");
  w.key("engines").begin_array();
  for (const EngineModel& e : engines) {
    w.begin_object();
    w.key("name").value(e.name);
    w.key("note").value(e.note);
    w.key("rules_known").value(!unknown(e));
    w.key("planned").value(e.planned);
    write_words(w, "schedules", schedules_of(e));
    w.key("zero").compact_next().begin_array();
    for (const ZeroStage z : e.runs.zero) w.value(number_of(z));
    w.end_array();
    write_words(w, "without", without(e));
    write_words(w, "layers_differ_in", layers_of(e));
    write_words(w, "stages_differ_in", e.layers.any_stage ? std::vector<std::string>{"layers"} : std::vector<std::string>{});
    w.key("fitted_as").value(fitted_engine(e));
    w.key("options").begin_array();
    for (const EngineOption& o : e.options)
      w.compact_next()
          .begin_object()
          .key("name")
          .value(o.name)
          .key("note")
          .value(o.note)
          .key("numerics")
          .value(o.numerics)
          .end_object();
    w.end_array();
    w.key("rules").begin_array();
    for (const auto& [name, sentence] : engine_rule_catalogue(e))
      w.compact_next().begin_object().key("name").value(name).key("sentence").value(sentence).end_object();
    w.end_array();
    w.end_object();
  }
  w.end_array();
  w.end_object();
  return w.text();
}

}  // namespace espalier::report
