// SPDX-License-Identifier: Apache-2.0
// Binds engines with their rules, and the registry of formats.
#include <map>
#include <optional>

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "docstrings.h"
#include "espalier/check.h"
#include "espalier/engines.h"
#include "espalier/exchange.h"

namespace espalier::python {
namespace {

using namespace nb::literals;
using JobHandle = std::shared_ptr<const Job>;
using NameAndText = std::pair<std::string, std::string>;

template <class Format>
std::vector<NameAndText> listed(const std::vector<Format>& formats, std::string Format::*what) {
  std::vector<NameAndText> out;
  for (const Format& format : formats) out.emplace_back(format.name, format.*what);
  return out;
}

/// Returns one error with all rules of the format's engine that the plan breaks, as `espalier export` rejects it.
Status rules_broken(const Job& job, const Plan& plan, const exchange::Exporter& format) {
  if (format.engine.empty()) return {};
  report::CheckOptions options;
  options.engine = format.engine;
  std::string broken;
  for (const Finding& finding : taken(report::check_plan(job, plan, options)).findings)
    if (!finding.ok) broken += (broken.empty() ? "" : "; ") + finding.name + ": " + finding.text;
  if (broken.empty()) return {};
  return Error{ErrorKind::check_failed, "$", broken, "a plan that " + format.engine + " can run",
               "plan(job, set={\"engine\": \"" + format.engine + "\"}) finds one"};
}

/// Returns the launcher of this name. Fails where the format does not start processes by it.
std::optional<exchange::Launcher> launcher_of(const exchange::Exporter& format, const std::string& name) {
  if (name.empty()) return std::nullopt;
  const auto launcher = exchange::parse_launcher(name);
  std::string known;
  for (const exchange::Launcher one : format.launchers) {
    if (launcher == one) return one;
    known += (known.empty() ? "" : ", ") + std::string(to_string(one));
  }
  throw Failure({ErrorKind::usage, "launcher", "\"" + name + "\" with " + format.name,
                 known.empty() ? "a format that starts processes" : "one of " + known, ""});
}

/// Returns the text of the file, and the features of the plan that it lacks.
std::pair<std::string, std::vector<std::string>> exported(const std::string& format, const JobHandle& job, const Plan& plan,
                                                          const std::string& launcher, bool allow_lossy) {
  const exchange::Exporter* exporter = exchange::find_exporter(format);
  if (exporter == nullptr) throw Failure({ErrorKind::usage, "format", "\"" + format + "\"", "a format of exporters()", ""});
  const std::optional<exchange::Launcher> starts = launcher_of(*exporter, launcher);
  const exchange::ClosestPlan what =
      allow_lossy ? taken(exchange::closest_plan(*exporter, *job, plan)) : exchange::ClosestPlan{plan, {}};
  if (Status status = rules_broken(*job, what.plan, *exporter); !status.ok()) throw Failure(status.error());
  return {taken(waited_for([&] { return exporter->write({&*job, &what.plan, starts, what.lost}); })), what.lost};
}

std::pair<Plan, std::vector<std::string>> imported(const std::string& format, const Job* job,
                                                   const std::map<std::string, NameAndText>& files,
                                                   const std::map<std::string, std::string>& options) {
  const exchange::Importer* importer = exchange::find_importer(format);
  if (importer == nullptr) throw Failure({ErrorKind::usage, "format", "\"" + format + "\"", "a format of importers()", ""});
  exchange::ImportRequest request;
  request.job = job;
  for (const auto& [role, file] : files) request.files.push_back({role, file.first, file.second});
  request.options = options;
  exchange::ImportedPlan read = taken(waited_for([&] { return importer->read(request); }));
  return {std::move(read.plan), std::move(read.notes)};
}

}  // namespace

void bind_formats(nb::module_& m) {
  nb::class_<EngineDescription>(m, "EngineDescription", doc::engines_file)
      .def_ro("name", &EngineDescription::name, doc::engines_EngineDescription_name)
      .def_ro("note", &EngineDescription::note, doc::engines_EngineDescription_note)
      .def_ro("rules", &EngineDescription::rules, doc::engines_EngineDescription_rules)
      .def_ro("known_rules", &EngineDescription::known_rules, doc::engines_EngineDescription_known_rules)
      .def("__repr__", [](const EngineDescription& e) { return "EngineDescription('" + e.name + "')"; });

  m.def(
      "engines", [] { return engines(); }, doc::engines_engines);
  m.def(
      "engines_that_run", [](const JobHandle& job, const Plan& plan) { return engines_that_run(*job, plan); }, "job"_a, "plan"_a,
      doc::engines_engines_that_run);
  m.def(
      "exporters", [] { return listed(exchange::exporters(), &exchange::Exporter::writes); },
      "What plans can be written as: name and what it is.");
  m.def(
      "importers", [] { return listed(exchange::importers(), &exchange::Importer::reads); },
      "What plans can be read from: name and what it is.");
  m.def("export_plan", &exported, "format"_a, "job"_a, "plan"_a, "launcher"_a = "", "allow_lossy"_a = false, doc::exchange_file);
  m.def("import_plan", &imported, "format"_a, "job"_a.none(), "files"_a, "options"_a, doc::exchange_file);
}

}  // namespace espalier::python
