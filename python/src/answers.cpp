// SPDX-License-Identifier: Apache-2.0
// Binds answers about results: explanation, check, comparison, report.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "docstrings.h"
#include "espalier/check.h"
#include "espalier/compare.h"
#include "espalier/explain.h"
#include "espalier/measured_step.h"
#include "espalier/report.h"
#include "espalier/text.h"

namespace espalier::python {
namespace {

using namespace nb::literals;
using JobHandle = std::shared_ptr<const Job>;

struct Checked {
  bool ok = false;
  Texts texts;
};

Checked checked(const CheckReport& report, const Plan& plan, const std::string& name, std::size_t width) {
  return {report.ok(), {report::to_json(report, name), report::lay_out(report::to_text(report, plan), width)}};
}

Checked check_plan_value(const JobHandle& job, const Plan& plan, const std::string& engine, const std::string& name,
                         std::size_t width) {
  report::CheckOptions options;
  options.engine = engine;
  return checked(taken(waited_for([&] { return report::check_plan(*job, plan, options); })), plan, name, width);
}

/// `text` is the result.json that the answer was read from, or would be written as.
Checked check_result_value(const JobHandle& job, const Answer& answer, const std::string& text, const std::string& engine,
                           bool search_again, int threads, const std::string& name, std::size_t width) {
  Interruption interruption;
  report::CheckOptions options;
  options.engine = engine;
  options.search_again = search_again;
  options.how.threads = threads;
  options.how.interrupted = interruption.polled();
  auto report = waited_for(interruption, [&] { return report::check_result(*job, answer.result, text, options); });
  if (interruption.by_keyboard()) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw nb::python_error();
  }
  return checked(taken(std::move(report)), answer.result.plan, name, width);
}

Texts compared(const std::vector<std::pair<std::string, const Answer*>>& plans, std::size_t width) {
  std::vector<report::Compared> rows;
  rows.reserve(plans.size());
  for (const auto& [name, answer] : plans) rows.push_back({name, answer->result});
  return {report::compare_json(rows), report::compare(rows, width)};
}

/// Returns the result with its single changes simulated; the explanation takes its advice from them.
PlannerResult with_changes(const Answer& answer) {
  PlannerResult result = answer.result;
  report::simulate_changes(*answer.job, result);
  return result;
}

Answer searched_again(const Answer& answer, const PlannerOptions& given) {
  const Job job = taken(report::job_to_explain(answer.result.plan));
  Interruption interruption;
  PlannerOptions options = given;
  options.interrupted = interruption.polled();
  PlannerResult result = waited_for(interruption, [&] { return report::with_search(job, answer.result, options); });
  if (interruption.by_keyboard()) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw nb::python_error();
  }
  return {answer.job, std::move(result)};
}

std::string report_of(const JobHandle& job, const Answer& answer, const std::optional<std::string>& measured,
                      const std::string& where) {
  std::optional<MeasuredStep> step;
  if (measured) step = taken(read_measured_step(*measured, where));
  return taken(waited_for([&] { return report::page_data(*job, answer.result, step ? &*step : nullptr, {}); }));
}

}  // namespace

void bind_answers(nb::module_& m) {
  nb::class_<Checked>(m, "Checked", doc::check_file).def_ro("ok", &Checked::ok).def_ro("texts", &Checked::texts);

  m.def(
      "explain",
      [](const Answer& a, std::size_t width) {
        const PlannerResult result = with_changes(a);
        return Texts{report::explain_json(result), report::explain(result, width)};
      },
      "answer"_a, "width"_a = 0, doc::explain_file);
  m.def(
      "bottlenecks", [](const Answer& a) { return report::bottlenecks(with_changes(a)); }, "answer"_a, doc::explain_bottlenecks);
  m.def("with_search", &searched_again, "answer"_a, "options"_a, doc::explain_with_search);
  m.def("check_plan", &check_plan_value, "job"_a, "plan"_a, "engine"_a = "", "name"_a = "plan", "width"_a = 0,
        doc::check_check_plan);
  m.def("check_result", &check_result_value, "job"_a, "answer"_a, "text"_a, "engine"_a = "", "search_again"_a = false,
        "threads"_a = 0, "name"_a = "result", "width"_a = 0, doc::check_check_result);
  m.def(
      "check_answer_to_change",
      [](const std::string& text, const std::string& where, std::size_t width) {
        const CheckReport report = taken(waited_for([&] { return report::check_answer_to_change(text, where); }));
        return Checked{report.ok(), {report::to_json(report, where), report::lay_out(report::to_text(report, where), width)}};
      },
      "text"_a, "where"_a, "width"_a = 0, doc::check_check_answer_to_change);
  m.def("is_answer_to_change", &report::is_answer_to_change, "text"_a, doc::check_is_answer_to_change);
  m.def("compare", &compared, "plans"_a, "width"_a = 0, doc::compare_file);
  m.def("report_data", &report_of, "job"_a, "answer"_a, "measured"_a = nb::none(), "where"_a = "measured", doc::report_page_data);
  m.def("report_page", &report::page, "data"_a, "text"_a, doc::report_page);
}

}  // namespace espalier::python
