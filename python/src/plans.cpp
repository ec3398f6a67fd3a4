// SPDX-License-Identifier: Apache-2.0
// Binds plans and results as documents.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "docstrings.h"
#include "espalier/documents.h"

namespace espalier::python {
namespace {

using namespace nb::literals;

PlanSchema schema_of(int version) {
  if (version != 1 && version != 2)
    throw Failure({ErrorKind::usage, "schema", std::to_string(version), "1 or 2", "versions of plan documents"});
  return version == 1 ? PlanSchema::one : PlanSchema::two;
}

/// Throws if the schema version cannot express the plan.
PlanSchema writable(const Plan& plan, int version) {
  const PlanSchema schema = schema_of(version);
  if (Status status = unwritable(plan, schema); !status.ok()) throw Failure(status.error());
  return schema;
}

std::shared_ptr<const Job> job_of(const Plan& plan) { return std::make_shared<const Job>(taken(job_of_plan(plan))); }

/// Returns the plan in the text, and the whole result if it is a result.json.
std::pair<Plan, std::optional<Answer>> read_document(const std::string& text, const std::string& where) {
  report::PlanDocument document = taken(report::read_plan_document(text, where));
  if (!document.result) return {std::move(document.plan), std::nullopt};
  auto job = std::make_shared<Job>(taken(job_of_plan(document.plan)));
  if (document.result->prediction.network) job->network = NetworkKind::flow;
  return {std::move(document.plan), Answer{std::move(job), std::move(*document.result)}};
}

using SearchedRow = std::tuple<std::string, std::int64_t, std::int64_t>;

/// Returns label, time in nanoseconds and peak memory in bytes of the searched plans.
std::vector<SearchedRow> searched_rows(const Answer& answer) {
  std::vector<SearchedRow> out;
  for (const SearchedPlan& plan : answer.result.searched) out.emplace_back(plan.label, plan.iteration_ns, plan.peak_memory_bytes);
  return out;
}

std::vector<std::string> write_files(const Answer& answer, const std::string& folder, const std::string& trace, int schema) {
  return taken(report::write_answer(folder, answer.result, trace, writable(answer.result.plan, schema)));
}

}  // namespace

void bind_plans(nb::module_& m) {
  nb::class_<Plan>(m, "Plan", doc::plan_file)
      .def(
          "to_json", [](const Plan& plan, int schema) { return to_json(plan, writable(plan, schema)); }, "schema"_a = 2,
          doc::plan_to_json)
      .def_prop_ro("label", &Plan::label, "One line for people: \"TP8·SP CP1 PP4(v2) DP16 ZeRO-1 mb1 interleaved\".")
      .def_prop_ro(
          "hash", [](const Plan& plan) { return content_hash(plan); }, doc::plan_content_hash)
      .def_prop_ro("engine", [](const Plan& plan) { return plan.engine; })
      .def("job", &job_of, doc::job_job_of_plan)
      .def(
          "__eq__", [](const Plan& a, const Plan& b) { return a == b; }, nb::is_operator(),
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Plan& plan) { return std::hash<std::string>()(content_hash(plan)); });

  nb::class_<Answer>(m, "Answer", "A PlannerResult with the job that it is of.")
      .def_prop_ro("job", [](const Answer& a) { return a.job; })
      .def_prop_ro("plan", [](const Answer& a) { return a.result.plan; })
      .def_prop_ro(
          "finished",
          [](const Answer& a) { return a.result.search.reason == SearchEnd::none || is_whole(a.result.search.reason); },
          "False where a limit or an interruption ended the search before all of its space was covered.")
      .def_prop_ro("searched_plans", &searched_rows, doc::planner_SearchedPlan)
      .def_prop_ro(
          "searched", [](const Answer& a) { return searched(a.result.search.reason); }, "Whether a search is part of it.")
      .def_prop_ro(
          "of_this_build", [](const Answer& a) { return a.result.made_by == this_build(); },
          "Whether this build made its figures.")
      .def(
          "to_json",
          [](const Answer& a, bool timing, int schema) { return to_json(a.result, timing, writable(a.result.plan, schema)); },
          "timing"_a = false, "plan_schema"_a = 2, doc::planner_to_json)
      .def(
          "brief", [](const Answer& a, std::size_t width) { return a.result.brief(width); }, "width"_a = 0, doc::planner_brief)
      .def("write", &write_files, "folder"_a, "trace"_a = "", "plan_schema"_a = 2, doc::documents_write_answer);

  m.def("read_document", &read_document, "text"_a, "where"_a, doc::documents_read_plan_document);
  m.def(
      "version", [] { return this_build().version; }, doc::planner_this_build);
}

}  // namespace espalier::python
